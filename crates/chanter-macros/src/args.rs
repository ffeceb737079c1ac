//! The arguments of the attributes: settings of the machine, `deadlocks = bool`, `local`, `limit = N`, `crate = path`,
//! `explore(..)`, `engines(..)`.

use crate::explore::Explore;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::token::Paren;
use syn::{
    Error, Expr, ExprLit, ExprUnary, Lit, LitBool, LitInt, LitStr, Path, Result, Token, Type, UnOp,
    parenthesized,
};

/// Settings that are passed on as they are: the builder's method of the same name takes the value. With an example each.
const SETTINGS: [(&str, &str); 7] = [
    ("workers", "workers = 2"),
    ("policy", "policy = |_| Box::new(Fifo::new())"),
    ("hand_off_after", "hand_off_after = Some(Duration::from_millis(5))"),
    ("inflation", "inflation = false"),
    ("genealogy", "genealogy = true"),
    ("blocking_threads", "blocking_threads = 16"),
    ("shutdown_timeout", "shutdown_timeout = Duration::from_secs(5)"),
];

/// Arguments between the parentheses of the attribute.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) vps: Option<Expr>,
    pub(crate) name: Option<LitStr>,
    /// Path of the library, if it was given.
    pub(crate) krate: Option<Path>,
    pub(crate) explore: Option<Explore>,
    pub(crate) deadlocks: Option<bool>,
    /// Place of `local`, which says that the body need not be `Send`.
    pub(crate) local: Option<Span>,
    /// Calls of the builder's methods.
    pub(crate) settings: Vec<TokenStream>,
    /// Whether one of the settings limits the end of the machine (`shutdown_timeout`).
    pub(crate) has_shutdown: bool,
    pub(crate) limit: Option<LitInt>,
    /// Engines of a cluster's process.
    pub(crate) engines: Option<Punctuated<Type, Token![,]>>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Args::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            // `crate` is a keyword, so an ordinary identifier would not do.
            let key = input.call(Ident::parse_any)?;
            if seen.contains(&key) {
                return Err(Error::new(key.span(), format!("`{key}` is given more than once")));
            }
            match key.to_string().as_str() {
                "vps" => args.vps = Some(vps(value(input, &key, "vps = 2")?)?),
                "name" => args.name = Some(name(value(input, &key, "name = \"server\"")?)?),
                "crate" => args.krate = Some(krate(input, &key)?),
                "deadlocks" => {
                    equals(input, &key, "deadlocks = false")?;
                    args.deadlocks = Some(input.parse::<LitBool>()?.value);
                }
                "limit" => args.limit = Some(limit(value(input, &key, "limit = 60")?)?),
                "explore" => args.explore = Some(Explore::parse(&key, input)?),
                "engines" => args.engines = Some(engines(input, &key)?),
                "local" => args.local = Some(key.span()),
                other => {
                    let Some((_, example)) = SETTINGS.iter().find(|(name, _)| *name == other) else {
                        return Err(Error::new(key.span(), unknown(other)));
                    };
                    let value = value(input, &key, example)?;
                    args.settings.push(quote_spanned!(value.span()=> .#key(#value)));
                    args.has_shutdown |= other == "shutdown_timeout";
                }
            }
            seen.push(key);
            if input.is_empty() {
                break;
            }
            if !input.peek(Token![,]) {
                return Err(input.error("expected `,` between arguments"));
            }
            input.parse::<Token![,]>()?;
        }
        if let Some(explore) = &args.explore
            && let Some(other) =
                seen.iter().find(|key| *key != "explore" && *key != "crate" && *key != "deadlocks")
        {
            return Err(Error::new(
                explore.span,
                format!("an explored test runs on a simulated processor of its own: leave out `{other}`"),
            ));
        }
        Ok(args)
    }
}

fn unknown(argument: &str) -> String {
    let settings = SETTINGS.map(|(name, _)| format!("`{name}`")).join(", ");
    format!(
        "unknown argument `{argument}`; the arguments are `vps`, `name`, {settings}, `deadlocks`, `local`, `crate`, \
         for tests `limit` and `explore`, and for processes `engines`"
    )
}

/// The types between the parentheses behind `engines`.
fn engines(input: ParseStream<'_>, key: &Ident) -> Result<Punctuated<Type, Token![,]>> {
    if !input.peek(Paren) {
        return Err(Error::new(key.span(), "`engines` names types: `engines(chanter_mpi::Mpi)`"));
    }
    let content;
    parenthesized!(content in input);
    Punctuated::parse_terminated(&content)
}

/// The expression behind `key =`.
fn value(input: ParseStream<'_>, key: &Ident, example: &str) -> Result<Expr> {
    equals(input, key, example)?;
    input.parse()
}

fn equals(input: ParseStream<'_>, key: &Ident, example: &str) -> Result<()> {
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        return Ok(());
    }
    Err(Error::new(key.span(), format!("`{key}` needs a value: `{example}`")))
}

fn krate(input: ParseStream<'_>, key: &Ident) -> Result<Path> {
    const EXAMPLE: &str = "crate = some::path::chanter";
    equals(input, key, EXAMPLE)?;
    input
        .call(Path::parse_mod_style)
        .map_err(|error| Error::new(error.span(), format!("`crate` is a path: `{EXAMPLE}`")))
}

/// Checks a literal, as the message can be plain here. Any other expression is left to the type checker.
fn vps(expr: Expr) -> Result<Expr> {
    let wrong = match &expr {
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => int.base10_parse::<usize>()? == 0,
        Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => true,
        _ => false,
    };
    if wrong {
        return Err(Error::new_spanned(expr, "`vps` is a number of at least 1"));
    }
    Ok(expr)
}

fn limit(expr: Expr) -> Result<LitInt> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(seconds), .. }) if seconds.base10_parse::<u64>().is_ok() => {
            Ok(seconds)
        }
        other => Err(Error::new_spanned(other, "`limit` is a number of seconds, 0 for none")),
    }
}

fn name(expr: Expr) -> Result<LitStr> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Ok(name),
        other => Err(Error::new_spanned(other, "`name` is a string literal")),
    }
}
