//! From the annotated `async fn` to the function that runs it.

use crate::args::Args;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Item, ItemFn, LitStr, Path, Result, ReturnType, Type, parse_quote};

/// The attribute that is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Main,
    Test,
    /// A process of a cluster.
    ClusterMain,
}

impl Kind {
    fn attribute(self) -> &'static str {
        match self {
            Kind::Main => "#[chanter::main]",
            Kind::Test => "#[chanter::test]",
            Kind::ClusterMain => "#[chanter_cluster::main]",
        }
    }

    /// Path of its library, unless the user gives another one.
    fn krate(self) -> Path {
        match self {
            Kind::ClusterMain => parse_quote!(::chanter_cluster),
            _ => parse_quote!(::chanter),
        }
    }
}

/// Expands one attribute. Errors become `compile_error!` beside a function that still compiles,
/// so that the user reads about one mistake and not about its consequences.
pub(crate) fn expand(kind: Kind, args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = match syn::parse2::<Item>(item.clone()) {
                Ok(_) => Error::new(error.span(), format!("`{}` needs an `async fn`", kind.attribute())),
                // The mistake is in the function, and is what `syn` says.
                Err(_) => error,
            };
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    if let Err(error) = check(kind, &function) {
        let error = error.into_compile_error();
        let spare_worker = spare_worker(function);
        return quote!(#error #spare_worker);
    }
    match syn::parse2::<Args>(args).and_then(|args| args.check(kind)) {
        Ok(args) => match &args.explore {
            Some(explore) => explore.test(function),
            None => entry(kind, &args, function),
        },
        Err(error) => {
            let error = error.into_compile_error();
            let entry = entry(kind, &Args::default(), function);
            quote!(#error #entry)
        }
    }
}

impl Args {
    fn check(self, kind: Kind) -> Result<Self> {
        if let (Some(engines), true) = (&self.engines, kind != Kind::ClusterMain) {
            let message = format!(
                "only processes have engines: `engines` belongs into `{}`",
                Kind::ClusterMain.attribute()
            );
            return Err(Error::new_spanned(engines, message));
        }
        if kind == Kind::Test {
            return match self.local {
                Some(span) => Err(Error::new(span, "the body of a test is `local` anyway: leave it out")),
                None => Ok(self),
            };
        }
        let test = Kind::Test.attribute();
        if let Some(explore) = &self.explore {
            let message = format!("only tests are explored: `explore` belongs into `{test}`");
            return Err(Error::new(explore.span, message));
        }
        if let Some(limit) = &self.limit {
            let message = format!("only tests have a limit: `limit` belongs into `{test}`");
            return Err(Error::new_spanned(limit, message));
        }
        Ok(self)
    }
}

fn check(kind: Kind, function: &ItemFn) -> Result<()> {
    let attribute = kind.attribute();
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new(signature.fn_token.span, format!("`{attribute}` needs an `async fn`")));
    }
    if kind == Kind::ClusterMain {
        if signature.inputs.len() != 1 {
            return Err(Error::new(
                signature.paren_token.span.join(),
                format!("a function with `{attribute}` takes its process: `here: Process`"),
            ));
        }
    } else if !signature.inputs.is_empty() {
        return Err(Error::new_spanned(
            &signature.inputs,
            format!("a function with `{attribute}` takes no arguments"),
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            format!("a function with `{attribute}` cannot be generic"),
        ));
    }
    let again = function.attrs.iter().find(|a| a.path().is_ident("test"));
    if let (Kind::Test, Some(again)) = (kind, again) {
        return Err(Error::new_spanned(
            again,
            format!("`{attribute}` is a test already; remove this `#[test]`"),
        ));
    }
    Ok(())
}

/// The function, asynchronous no more: it starts a machine and runs the body on it.
///
/// The body of a `main` is a thread that may move. The result is made into an exit code there, if the function is the
/// program's own `main`, since errors are seldom `Send`.
fn entry(kind: Kind, args: &Args, function: ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, mut sig, block, .. } = function;
    let library = args.krate.clone().unwrap_or_else(|| kind.krate());
    let krate = match kind {
        Kind::ClusterMain => quote!(#library::__main::chanter),
        _ => library.to_token_stream(),
    };
    let name = match (kind, &args.name) {
        (_, Some(name)) => Some(name.clone()),
        (Kind::Test, None) => Some(LitStr::new(&sig.ident.unraw().to_string(), sig.ident.span())),
        (_, None) => None,
    };
    let name = name.map(|name| quote!(.name(#name)));
    let vps = match (kind, &args.vps) {
        (_, Some(vps)) => Some(vps.to_token_stream()),
        (Kind::Test, None) => Some(quote!(2)),
        (_, None) => None,
    };
    let vps = vps.map(|vps| quote_spanned!(vps.span()=> .vps(#vps)));
    let reports = match (kind, args.deadlocks) {
        (_, Some(false)) => None,
        (Kind::Test, _) => Some(quote!(.report_deadlocks(true).in_test())),
        (_, Some(true)) => Some(quote!(.report_deadlocks(true))),
        (_, None) => None,
    };
    let shutdown = (kind != Kind::Test && !args.has_shutdown)
        .then(|| quote!(.shutdown_timeout(#krate::__main::SHUTDOWN_TIMEOUT)));
    let settings = &args.settings;
    let test = (kind == Kind::Test).then(|| quote!(#[::core::prelude::v1::test]));
    let watchdog = (kind == Kind::Test).then(|| {
        let limit = args.limit.as_ref().map_or(quote!(None), |limit| quote!(Some(#limit)));
        let ident = &sig.ident;
        let name = quote!(::core::concat!(::core::module_path!(), "::", ::core::stringify!(#ident)));
        quote!(let _watchdog = #krate::deadlock::Watchdog::of_test(#name, ::core::option::Option::#limit);)
    });

    sig.asyncness = None;
    let output = sig.output.clone();
    let inputs = std::mem::take(&mut sig.inputs);
    let is_moved = kind != Kind::Test && args.local.is_none();
    let is_program = sig.ident == "main" && (kind == Kind::ClusterMain || is_moved);
    // If it takes something else, the compiler says so there.
    let of_process = quote_spanned!(inputs.span()=> |here| async move { body(here).await });
    let program = match (kind, is_program, &output) {
        (Kind::ClusterMain, true, _) => {
            sig.output = parse_quote!(-> ::std::process::ExitCode);
            quote!(#library::__main::program(#of_process))
        }
        (Kind::ClusterMain, false, _) => quote!(#library::__main::within(#of_process)),
        (_, true, ReturnType::Type(..)) => {
            sig.output = parse_quote!(-> ::std::process::ExitCode);
            quote!(async { ::std::process::Termination::report(body().await) })
        }
        _ => quote!(body()),
    };
    let builder = quote! {
        #krate::Machine::builder()
            #name
            #vps
            #reports
            #shutdown
            #(#settings)*
    };
    if let Some(engines) = &args.engines {
        let launch = launch(&library, engines.iter(), is_program);
        return quote! {
            #(#attrs)*
            #vis #sig {
                async fn body(#inputs) #output #block

                let builder = #builder;
                #launch
            }
        };
    }
    let run = if is_moved {
        quote!(#krate::__main::run(&machine, #program))
    } else {
        quote!(machine.block_on_local(#program))
    };
    quote! {
        #(#attrs)*
        #test
        #vis #sig {
            async fn body(#inputs) #output #block

            #watchdog
            let machine = #builder
                .build()
                .expect("the machine of this function did not start");
            #run
        }
    }
}

/// Runs the body over the first of the engines whose launcher has started the process.
fn launch<'a>(library: &Path, engines: impl Iterator<Item = &'a Type>, is_program: bool) -> TokenStream {
    let how = if is_program { quote!(launch_program) } else { quote!(launch) };
    let main = quote!(builder, async |here: #library::Process| body(here).await);
    let each = engines.map(|engine| {
        quote_spanned! {engine.span()=>
            if <#engine as #library::Launch>::is_launched() {
                return #library::__main::#how::<#engine, _>(#main);
            }
        }
    });
    quote! {
        #(#each)*
        #library::__main::#how::<#library::engine::socket::Sockets, _>(#main)
    }
}

/// A function of the same name and type that stands in for one that could not be expanded.
fn spare_worker(mut function: ItemFn) -> TokenStream {
    function.attrs.retain(|a| !a.path().is_ident("test"));
    function.sig.asyncness = None;
    function.sig.inputs.clear();
    if !function.sig.generics.params.is_empty() {
        // The return type may name a parameter.
        function.sig.generics = Default::default();
        function.sig.output = ReturnType::Default;
    }
    let ItemFn { attrs, vis, sig, .. } = function;
    quote! {
        #(#attrs)*
        #[allow(dead_code)]
        #vis #sig { ::core::unreachable!() }
    }
}
