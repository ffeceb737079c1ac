//! `#[chanter::test(explore(..))]`: the options, and the test that they make.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Error, Expr, ExprLit, ItemFn, Lit, Path, Result, Token, parse_quote};

/// Arguments between the parentheses after `explore`.
pub(crate) struct Explore {
    pub(crate) span: Span,
    krate: Path,
    strategy: Option<String>,
    schedules: Option<Expr>,
    depth: Option<Expr>,
    parasites: Option<TokenStream>,
    /// Calls of methods that take one value each.
    settings: Vec<TokenStream>,
}

const OPTIONS: &str = "`strategy`, `schedules`, `seed`, `depth`, `preemptions`, `steps`, `early_timers`, `parasites` and `crate`";

impl Explore {
    /// Parses what follows `key`: nothing, or options in parentheses.
    pub(crate) fn parse(key: &Ident, input: ParseStream<'_>) -> Result<Self> {
        let mut explore = Explore {
            span: key.span(),
            krate: parse_quote!(::chanter_explore),
            strategy: None,
            schedules: None,
            depth: None,
            parasites: None,
            settings: Vec::new(),
        };
        if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            let mut seen: Vec<Ident> = Vec::new();
            while !content.is_empty() {
                let option = content.call(Ident::parse_any)?;
                if seen.contains(&option) {
                    return Err(Error::new(option.span(), format!("`{option}` is given more than once")));
                }
                content.parse::<Token![=]>()?;
                explore.option(&option, &content)?;
                seen.push(option);
                if !content.is_empty() {
                    content.parse::<Token![,]>()?;
                }
            }
        }
        let pct = explore.strategy.as_deref().is_none_or(|strategy| strategy == "pct");
        if explore.depth.is_some() && !pct {
            return Err(Error::new(explore.span, "`depth` is an option of the strategy \"pct\""));
        }
        Ok(explore)
    }

    fn option(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        match option.to_string().as_str() {
            "strategy" => {
                self.strategy = Some(one_of(input, &["random", "pct", "exhaustive"])?);
            }
            "parasites" => {
                let variant = match one_of(input, &["in place", "as hosts"])?.as_str() {
                    "in place" => quote!(InPlace),
                    _ => quote!(AsHosts),
                };
                self.parasites = Some(variant);
            }
            "schedules" => self.schedules = Some(number(input)?),
            "depth" => self.depth = Some(number(input)?),
            "seed" | "preemptions" | "steps" => {
                let value = number(input)?;
                self.settings.push(quote!(.#option(#value)));
            }
            "early_timers" => {
                let value: syn::LitBool = input.parse()?;
                self.settings.push(quote!(.early_timers(#value)));
            }
            "crate" => self.krate = input.call(Path::parse_mod_style)?,
            other => {
                return Err(Error::new(
                    option.span(),
                    format!("unknown option `{other}`; the options are {OPTIONS}"),
                ));
            }
        }
        Ok(())
    }

    /// The test that explores `function`.
    pub(crate) fn test(&self, function: ItemFn) -> TokenStream {
        let ItemFn { attrs, vis, mut sig, block, .. } = function;
        let (krate, settings) = (&self.krate, &self.settings);
        let depth = self.depth.clone().unwrap_or_else(|| parse_quote!(3));
        let some = self.schedules.clone().unwrap_or_else(|| parse_quote!(1_000));
        let most = self.schedules.as_ref().map(|most| quote!(.schedules(#most)));
        let parasites =
            self.parasites.as_ref().map(|variant| quote!(.parasites(#krate::Parasites::#variant)));
        let strategies = match self.strategy.as_deref() {
            Some("random") => quote!(.random(#some)),
            Some("pct") => quote!(.pct(#some, #depth)),
            Some(_) => quote!(.exhaustive() #most),
            None => quote!(.random(#some).pct(#some, #depth).exhaustive() #most),
        };
        let output = std::mem::replace(&mut sig.output, syn::ReturnType::Default);
        sig.asyncness = None;
        quote! {
            #(#attrs)*
            #[::core::prelude::v1::test]
            #vis #sig {
                async fn body() #output #block

                #krate::Explorer::new() #strategies #parasites #(#settings)* .test(body)
            }
        }
    }
}

fn number(input: ParseStream<'_>) -> Result<Expr> {
    let value: Expr = input.parse()?;
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) => Ok(value),
        Expr::Lit(_) => Err(Error::new_spanned(value, "expected a number")),
        _ => Ok(value),
    }
}

fn one_of(input: ParseStream<'_>, words: &[&str]) -> Result<String> {
    let word: syn::LitStr = input.parse()?;
    let value = word.value();
    if words.contains(&value.as_str()) {
        return Ok(value);
    }
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    Err(Error::new(word.span(), format!("expected one of {}", words.join(", "))))
}
