//! `#[object]`: from the methods of a type to the calls of them.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, ImplItem, ImplItemFn, ItemImpl, Pat, Path, PathArguments,
    Result, ReturnType, Token, Type, parse_quote,
};

/// What was written between the parentheses of `#[object(..)]`.
struct Args {
    krate: Path,
    name: Option<Ident>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self { krate: parse_quote!(::chanter_objects), name: None };
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                args.krate = input.parse()?;
            } else {
                let key: Ident = input.parse()?;
                if key != "name" {
                    let message =
                        format!("unknown argument `{key}`: there are `name = PatchRef` and `crate = path`");
                    return Err(Error::new(key.span(), message));
                }
                input.parse::<Token![=]>()?;
                args.name = Some(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(args)
    }
}

/// How a method is inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Mut,
    Free,
}

/// Expands the attribute. Errors come beside the methods, which stay what they are.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut block = match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(block) if block.trait_.is_none() => block,
        _ => {
            let message = "`#[object]` needs an `impl` block with methods of a type";
            let error = Error::new(item.span(), message).into_compile_error();
            return quote!(#error #item);
        }
    };
    let methods = methods(&mut block);
    let calls = methods.and_then(|methods| calls(syn::parse2(args)?, &block, &methods));
    let calls = calls.unwrap_or_else(Error::into_compile_error);
    quote!(#block #calls)
}

/// Takes the methods that are marked, and the marks away.
fn methods(block: &mut ItemImpl) -> Result<Vec<(Mode, ImplItemFn)>> {
    let mut methods = Vec::new();
    let mut errors: Option<Error> = None;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let marks: Vec<Attribute> =
            method.attrs.extract_if(.., |attr| attr.path().is_ident("method")).collect();
        let Some(mark) = marks.first() else { continue };
        match mode(mark, method) {
            Ok(mode) => methods.push((mode, method.clone())),
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let writes = methods.iter().any(|(mode, _)| *mode == Mode::Mut);
    match methods.iter().find(|(mode, _)| *mode == Mode::Free) {
        Some((_, free)) if writes => Err(Error::new(
            free.sig.ident.span(),
            "a `free` method is inside beside any other, so no method of its object may be `mut`: \
             this one is `read`, or what changes lies in cells, atomics or locks",
        )),
        _ => Ok(methods),
    }
}

fn mode(mark: &Attribute, method: &ImplItemFn) -> Result<Mode> {
    let signature = &method.sig;
    let Some(receiver) = signature.receiver() else {
        return Err(Error::new(signature.span(), "a method of an object takes `&self` or `&mut self`"));
    };
    let is_plain = receiver.colon_token.is_none() && matches!(&receiver.reference, Some((_, None)));
    if !is_plain {
        return Err(Error::new(receiver.span(), "a method of an object takes `&self` or `&mut self`"));
    }
    let writes = receiver.mutability.is_some();
    let natural = if writes { Mode::Mut } else { Mode::Read };
    let syn::Meta::List(list) = &mark.meta else { return Ok(natural) };
    let word = list.parse_args_with(|input: ParseStream<'_>| {
        if input.peek(Token![mut]) {
            return Ok((Mode::Mut, input.parse::<Token![mut]>()?.to_token_stream()));
        }
        let word: Ident = input.parse()?;
        match word.to_string().as_str() {
            "read" => Ok((Mode::Read, word.to_token_stream())),
            "free" => Ok((Mode::Free, word.to_token_stream())),
            _ => Err(Error::new(word.span(), "a method is `read`, `mut` or `free`")),
        }
    })?;
    match word {
        (Mode::Mut, _) if !writes => {
            Err(Error::new(receiver.span(), "a method that is `mut` takes `&mut self`"))
        }
        (Mode::Read | Mode::Free, _) if writes => {
            Err(Error::new(receiver.span(), "a method that is `read` or `free` takes `&self`"))
        }
        (mode, _) => Ok(mode),
    }
}

/// The type with the calls, and what makes a `Ref` deref to it.
fn calls(args: Args, block: &ItemImpl, methods: &[(Mode, ImplItemFn)]) -> Result<TokenStream> {
    let Args { krate, name } = args;
    let object = &block.self_ty;
    let Type::Path(path) = &**object else {
        return Err(Error::new(object.span(), "`#[object]` needs a type that is declared in this crate"));
    };
    let last = path.path.segments.last().expect("a path has one");
    let name = name.unwrap_or_else(|| format_ident!("{}Ref", last.ident));
    let (generics, arguments, conditions) = block.generics.split_for_impl();
    let calls = methods
        .iter()
        .map(|(mode, method)| call(&krate, object, *mode, method))
        .collect::<Result<Vec<_>>>()?;
    let doc = format!("Calls of the methods of [`{}`]: what a reference to one derefs to.", last.ident);
    Ok(quote! {
        #[doc = #doc]
        #[repr(transparent)]
        #[allow(unreachable_pub, private_interfaces, private_bounds, dead_code)]
        pub struct #name #generics (#krate::Ref<#object>) #conditions;

        #[automatically_derived]
        impl #generics ::core::clone::Clone for #name #arguments #conditions {
            fn clone(&self) -> Self {
                *self
            }
        }

        #[automatically_derived]
        impl #generics ::core::marker::Copy for #name #arguments #conditions {}

        #[automatically_derived]
        impl #generics ::core::fmt::Debug for #name #arguments #conditions {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        // SAFETY: transparent over the reference.
        unsafe impl #generics #krate::Object for #object #conditions {
            type Methods = #name #arguments;
        }

        #[automatically_derived]
        #[allow(unreachable_pub, private_interfaces, private_bounds, dead_code, clippy::all, clippy::pedantic)]
        impl #generics #name #arguments #conditions {
            #(#calls)*
        }
    })
}

/// One call.
fn call(krate: &Path, object: &Type, mode: Mode, method: &ImplItemFn) -> Result<TokenStream> {
    let signature = &method.sig;
    if let Some(token) =
        signature.unsafety.map(|token| token.span()).or(signature.abi.as_ref().map(Spanned::span))
    {
        return Err(Error::new(token, "a method of an object is a safe Rust function"));
    }
    let attrs = method.attrs.iter().filter(|attr| {
        ["doc", "cfg", "cfg_attr", "deprecated", "must_use"].iter().any(|name| attr.path().is_ident(name))
    });
    let (vis, name) = (&method.vis, &signature.ident);
    let (generics, conditions) = (&signature.generics, &signature.generics.where_clause);
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for (index, input) in signature.inputs.iter().skip(1).enumerate() {
        let FnArg::Typed(argument) = input else { unreachable!("one receiver") };
        names.push(match &*argument.pat {
            Pat::Ident(pat) if pat.subpat.is_none() => pat.ident.clone(),
            _ => format_ident!("argument_{index}"),
        });
        types.push(&*argument.ty);
    }
    let output: Type = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => (**output).clone(),
    };
    let lazy = types.last().and_then(|last| answer_of(last));
    let early = types.iter().rev().skip(1).find(|ty| answer_of(ty).is_some());
    if let Some(ty) = early {
        return Err(Error::new(ty.span(), "a continuation is the last argument"));
    }
    let (value, inside) = match mode {
        Mode::Mut => (quote!(&mut #object), format_ident!("with_mut")),
        _ => (quote!(&#object), format_ident!("with")),
    };
    let body_span = signature.ident.span();
    let (returns, body) = if let Some(answer) = lazy {
        if signature.asyncness.is_none() || !matches!(signature.output, ReturnType::Default) {
            return Err(Error::new(
                signature.span(),
                "a method that takes a continuation is async and returns nothing",
            ));
        }
        types.pop();
        let k = names.pop();
        let lazily = format_ident!("{inside}_lazily");
        let answer = of_object(answer.to_token_stream(), object);
        (
            quote!(impl #krate::Forward<
                Answer = #answer,
                Output = ::core::result::Result<#answer, #krate::Gone>,
                IntoFuture = impl #krate::Answers<#answer>
            >),
            quote_spanned!(body_span=> self.0.#lazily(async move |this: #value, #k: #krate::Lazy<'_, #answer>| {
                <#object>::#name(this, #(#names,)* #k).await
            })),
        )
    } else if signature.asyncness.is_some() {
        let asynchronous = format_ident!("{inside}_async");
        let output = of_object(output.to_token_stream(), object);
        (
            quote!(impl ::core::future::IntoFuture<
                Output = ::core::result::Result<#output, #krate::Gone>,
                IntoFuture = impl ::core::future::Future<Output = ::core::result::Result<#output, #krate::Gone>>
            >),
            quote_spanned!(body_span=> self.0.#asynchronous(async move |this: #value| {
                <#object>::#name(this, #(#names),*).await
            })),
        )
    } else {
        let output = of_object(output.to_token_stream(), object);
        (
            quote!(#krate::Call<#object, impl #krate::Method<#object, Output = #output>>),
            quote_spanned!(body_span=> self.0.#inside(move |this: #value| <#object>::#name(this, #(#names),*))),
        )
    };
    let types = types.iter().map(|ty| of_object(ty.to_token_stream(), object));
    Ok(quote! {
        #(#attrs)*
        #[inline(always)]
        #vis fn #name #generics (self, #(#names: #types),*) -> #returns #conditions {
            #body
        }
    })
}

/// The `T` of a `Lazy<'_, T>`.
fn answer_of(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Lazy")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// `Self` is the object.
fn of_object(tokens: TokenStream, object: &Type) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(word) if word == "Self" => object.to_token_stream(),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), of_object(group.stream(), object));
                inner.set_span(group.span());
                TokenTree::Group(inner).into()
            }
            token => token.into(),
        })
        .collect()
}
