//! `#[service]` and `#[remote]` turn an `async fn` into a function of the same name that describes a call of it. They
//! add an entry to the program's table, by which other processes find its body.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Error, Expr, FnArg, Ident, ItemFn, Pat, Path, Result, ReturnType, Signature, Token, Type, parse_quote,
};

/// One of the two attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Service,
    Remote,
}

impl Kind {
    fn attribute(self) -> &'static str {
        match self {
            Self::Service => "#[service]",
            Self::Remote => "#[remote]",
        }
    }

    /// The type of a first parameter that takes the context, and is no argument of the call.
    fn context(self) -> &'static str {
        match self {
            Self::Service => "Caller",
            Self::Remote => "Context",
        }
    }
}

/// Arguments of an attribute: `crate = path`, and `allow = function`.
#[derive(Default)]
struct Args {
    krate: Option<Path>,
    allow: Option<Expr>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                args.krate = Some(input.call(Path::parse_mod_style)?);
            } else {
                let key: Ident = input.parse()?;
                if key != "allow" {
                    let message = format!("unknown argument `{key}`; the arguments are `allow` and `crate`");
                    return Err(Error::new(key.span(), message));
                }
                input.parse::<Token![=]>()?;
                args.allow = Some(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(args)
    }
}

pub(crate) fn expand(kind: Kind, args: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = syn::parse2::<Args>(args).and_then(|args| {
        let function = syn::parse2::<ItemFn>(item).map_err(|error| {
            Error::new(error.span(), format!("`{}` needs an `async fn`", kind.attribute()))
        })?;
        describe(kind, args, function)
    });
    expanded.unwrap_or_else(Error::into_compile_error)
}

fn describe(kind: Kind, args: Args, function: ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, vis, sig, block, .. } = function;
    check(kind, &sig)?;
    let krate = args.krate.unwrap_or_else(|| parse_quote!(::chanter_cluster));
    let (mut names, mut types, mut context) = (Vec::new(), Vec::new(), None);
    for (at, input) in sig.inputs.iter().enumerate() {
        let FnArg::Typed(input) = input else { return Err(Error::new(input.span(), "this is no method")) };
        if at == 0
            && let Some(passed) = passes_context(kind, &input.ty)
        {
            context = Some(passed);
            continue;
        }
        let Pat::Ident(name) = &*input.pat else {
            return Err(Error::new_spanned(&input.pat, "an argument has a plain name here"));
        };
        names.push(name.ident.clone());
        types.push(&*input.ty);
    }
    let value: Type = match &sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, value) => (**value).clone(),
    };
    let (ident, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    let mut signature = sig.to_token_stream().to_string();
    signature.retain(|letter| !letter.is_whitespace());
    let context = context.map(|passed| quote!(#passed,));
    let called = quote!(body(#context #(#names),*).await);
    let allow = args.allow.map_or_else(|| quote!(|_| true), |allow| quote!(#allow));
    let (description, key, method, table, entry) = match kind {
        Kind::Service => {
            let entry = quote! {
                #krate::__table::Service::new(NAME, || #krate::__table::service(
                    #allow,
                    |context: #krate::Caller, (#(#names,)*): (#(#types,)*)| async move { #called },
                ))
            };
            (quote!(Ask), quote!(Service), quote!(ask), quote!(SERVICES), entry)
        }
        Kind::Remote => {
            let entry = quote! {
                #krate::__table::Function::new(NAME, |name| #krate::__table::function(
                    name,
                    #allow,
                    |context: #krate::Context, (#(#names,)*): (#(#types,)*)| async move { #called },
                ))
            };
            (quote!(Plan), quote!(Function), quote!(with), quote!(FUNCTIONS), entry)
        }
    };
    let arguments = names.iter().zip(&types).map(|(name, ty)| quote!(#name: #ty));
    let text = format!("::{ident}#{signature}");
    Ok(quote! {
        #(#attrs)*
        #vis fn #ident(#(#arguments),*) -> #krate::#description<#value> {
            const NAME: &str = ::core::concat!(::core::module_path!(), #text);
            const KEY: #krate::#key<(#(#types,)*), #value> = #krate::#key::new(NAME);
            async fn body(#inputs) #output #block
            #[#krate::__table::linkme::distributed_slice(#krate::__table::#table)]
            #[linkme(crate = #krate::__table::linkme)]
            static ENTRY: #krate::__table::#key = #entry;
            KEY.#method(&(#(#names,)*))
        }
    })
}

fn check(kind: Kind, sig: &Signature) -> Result<()> {
    let attribute = kind.attribute();
    if sig.asyncness.is_none() {
        return Err(Error::new(sig.fn_token.span, format!("`{attribute}` needs an `async fn`")));
    }
    if !sig.generics.params.is_empty() {
        let message =
            format!("a function with `{attribute}` cannot be generic: processes know it by its name");
        return Err(Error::new_spanned(&sig.generics, message));
    }
    Ok(())
}

/// The expression that passes the context, if a parameter of type `ty` takes it.
fn passes_context(kind: Kind, ty: &Type) -> Option<TokenStream> {
    let is_it = |ty: &Type| match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == kind.context()),
        _ => false,
    };
    match ty {
        Type::Reference(reference) if is_it(&reference.elem) => Some(quote!(&context)),
        ty if is_it(ty) => Some(quote!(context)),
        _ => None,
    }
}
