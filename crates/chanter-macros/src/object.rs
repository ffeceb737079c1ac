//! `#[object]`: methods of an object, and the same by reference.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericArgument, ImplItem, ImplItemFn, ItemImpl, Pat, PathArguments, Result, ReturnType,
    Signature, Type, Visibility,
};

/// How a method uses its object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Change,
}

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let result = parse(&args, item).and_then(|(item, library)| object(item, &library));
    result.unwrap_or_else(|error| error.to_compile_error())
}

fn parse(args: &TokenStream, item: TokenStream) -> Result<(ItemImpl, TokenStream)> {
    let library =
        if args.is_empty() { quote!(::chanter_objects) } else { syn::parse2::<Library>(args.clone())?.0 };
    let item: ItemImpl = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), "`#[object]` goes before an `impl` of a type's methods"))?;
    Ok((item, library))
}

/// `crate = path`.
struct Library(TokenStream);

impl syn::parse::Parse for Library {
    fn parse(input: syn::parse::ParseStream<'_>) -> Result<Self> {
        input
            .parse::<syn::Token![crate]>()
            .map_err(|error| Error::new(error.span(), "`#[object]` takes no argument but `crate = path`"))?;
        input.parse::<syn::Token![=]>()?;
        let path: syn::Path = input.parse()?;
        Ok(Self(quote!(#path)))
    }
}

fn object(mut item: ItemImpl, library: &TokenStream) -> Result<TokenStream> {
    if let Some((_, path, _)) = &item.trait_ {
        return Err(Error::new(
            path.span(),
            "methods of a trait cannot be called by reference: put them in an `impl` of the type",
        ));
    }
    if !item.generics.params.is_empty() {
        return Err(Error::new(item.generics.span(), "an object's type must not be generic"));
    }
    let Type::Path(path) = &*item.self_ty else {
        return Err(Error::new(item.self_ty.span(), "an object has a type with a name"));
    };
    let name = &path.path.segments.last().expect("a path has a segment").ident;
    let calls = format_ident!("{name}Calls");
    let object = item.self_ty.clone();
    let (mut declared, mut defined) = (Vec::new(), Vec::new());
    let mut visibility = Visibility::Inherited;
    let mut free = None;
    let mut changes = None;
    for member in &mut item.items {
        let ImplItem::Fn(method) = member else { continue };
        let Some(kind) = take_kind(method)? else { continue };
        let how = check(method, &kind)?;
        if kind == "free" {
            free.get_or_insert(method.sig.ident.clone());
        }
        if how == Use::Change {
            changes.get_or_insert(method.sig.ident.clone());
        }
        if !matches!(method.vis, Visibility::Inherited) {
            visibility = method.vis.clone();
        }
        let (declaration, definition) = by_reference(method, how, &object, library)?;
        declared.push(declaration);
        defined.push(definition);
    }
    if let (Some(free), Some(_)) = (&free, &changes) {
        return Err(Error::new(
            free.span(),
            "a `free` method never waits, so its object must have no `mut` method: use `read`, or change by locks and cells inside",
        ));
    }
    if declared.is_empty() {
        return Err(Error::new(
            item.self_ty.span(),
            "no method says `#[method(read)]`, `#[method(mut)]` or `#[method(free)]`",
        ));
    }
    let doc = format!("The methods of [`{name}`], by reference.");
    Ok(quote! {
        #item

        #[doc = #doc]
        #visibility trait #calls {
            #(#declared)*
        }

        impl #calls for #library::Ref<#object> {
            #(#defined)*
        }
    })
}

/// Takes `#[method(..)]` off.
fn take_kind(method: &mut ImplItemFn) -> Result<Option<Ident>> {
    let Some(at) = method.attrs.iter().position(|attribute| attribute.path().is_ident("method")) else {
        return Ok(None);
    };
    let attribute = method.attrs.remove(at);
    let syn::Meta::List(list) = &attribute.meta else {
        return Err(Error::new(
            attribute.span(),
            "say `#[method(read)]`, `#[method(mut)]` or `#[method(free)]`",
        ));
    };
    if list.tokens.to_string() == "mut" {
        return Ok(Some(Ident::new("change", list.tokens.span())));
    }
    let kind: Ident = list.parse_args()?;
    if kind != "read" && kind != "free" {
        return Err(Error::new(kind.span(), "say `read`, `mut` or `free`"));
    }
    Ok(Some(kind))
}

/// The method fits what is said of it.
fn check(method: &ImplItemFn, kind: &Ident) -> Result<Use> {
    let signature = &method.sig;
    let Some(FnArg::Receiver(receiver)) = signature.inputs.first() else {
        return Err(Error::new(signature.span(), "a method of an object takes `&self` or `&mut self`"));
    };
    let is_plain = receiver.colon_token.is_none() && matches!(&receiver.reference, Some((_, None)));
    if !is_plain {
        return Err(Error::new(
            receiver.span(),
            "a method of an object takes `&self` or `&mut self`, as it stands",
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new(signature.generics.span(), "a method of an object must not be generic"));
    }
    match (kind == "change", receiver.mutability.is_some()) {
        (true, true) => Ok(Use::Change),
        (false, false) => Ok(Use::Read),
        (true, false) => Err(Error::new(
            receiver.span(),
            "`#[method(mut)]` is for methods that take `&mut self`; this one reads",
        )),
        (false, true) => {
            Err(Error::new(receiver.span(), "a method that takes `&mut self` says `#[method(mut)]`"))
        }
    }
}

/// The method of the trait: what it is declared as, and its body.
fn by_reference(
    method: &ImplItemFn,
    how: Use,
    object: &Type,
    library: &TokenStream,
) -> Result<(TokenStream, TokenStream)> {
    let Signature { ident, inputs, output, asyncness, .. } = &method.sig;
    let mut names = Vec::new();
    let mut types = Vec::new();
    for input in inputs.iter().skip(1) {
        let FnArg::Typed(typed) = input else { continue };
        let Pat::Ident(name) = &*typed.pat else {
            return Err(Error::new(
                typed.pat.span(),
                "a parameter of an object's method has a name, and no pattern",
            ));
        };
        names.push(name.ident.clone());
        types.push((*typed.ty).clone());
    }
    let docs: Vec<_> = method.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).collect();
    let this = match how {
        Use::Read => quote!(&#object),
        Use::Change => quote!(&mut #object),
    };
    let result = |value: &TokenStream| quote!(impl ::core::future::Future<Output = ::core::result::Result<#value, #library::Gone>> + ::core::marker::Send);
    if let Some(answer) = types.last().and_then(lazy) {
        if asyncness.is_none() || !matches!(output, ReturnType::Default) {
            return Err(Error::new(
                method.sig.span(),
                "a method with a `Lazy` is an `async fn` that returns nothing: its answer goes to the `Lazy`",
            ));
        }
        let with = format_ident!("{ident}_with");
        let call = match how {
            Use::Read => quote!(read_lazily),
            Use::Change => quote!(change_lazily),
        };
        let last = names.len() - 1;
        let (names, types) = (&names[..last], &types[..last]);
        let result = result(&quote!(#answer));
        let with_doc = format!("[`{ident}`](Self::{ident}), with a continuation of one's own.");
        let future = quote!(impl ::core::future::Future<Output = ()> + ::core::marker::Send);
        let declaration = quote! {
            #(#docs)*
            fn #ident(self, #(#names: #types),*) -> #result;
            #[doc = #with_doc]
            fn #with(self, #(#names: #types,)* lazy: #library::Lazy<'_, #answer>) -> #future;
        };
        let definition = quote! {
            #[inline]
            fn #ident(self, #(#names: #types),*) -> #result {
                #library::__object::answered(async move |lazy: #library::Lazy<'_, #answer>| {
                    self.#with(#(#names,)* lazy).await
                })
            }

            #[inline]
            fn #with(self, #(#names: #types,)* lazy: #library::Lazy<'_, #answer>) -> #future {
                #library::__object::#call(self, lazy, async move |this: #this, lazy: #library::Lazy<'_, #answer>| {
                    this.#ident(#(#names,)* lazy).await
                })
            }
        };
        return Ok((declaration, definition));
    }
    let value = match output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    let result = result(&value);
    let body = match (how, asyncness.is_some()) {
        (Use::Read, false) => quote!(read(self, move |this: #this| this.#ident(#(#names),*))),
        (Use::Change, false) => quote!(change(self, move |this: #this| this.#ident(#(#names),*))),
        (Use::Read, true) => {
            quote!(read_async(self, async move |this: #this| this.#ident(#(#names),*).await))
        }
        (Use::Change, true) => {
            quote!(change_async(self, async move |this: #this| this.#ident(#(#names),*).await))
        }
    };
    let declaration = quote! {
        #(#docs)*
        fn #ident(self, #(#names: #types),*) -> #result;
    };
    let definition = quote! {
        #[inline]
        fn #ident(self, #(#names: #types),*) -> #result {
            #library::__object::#body
        }
    };
    Ok((declaration, definition))
}

/// The type of the answer, if this is a `Lazy`.
fn lazy(ty: &Type) -> Option<Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Lazy")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expansion that the documentation shows.
    #[test]
    fn methods_become_calls_by_reference() {
        let expanded = expand(
            TokenStream::new(),
            quote! {
                impl Count {
                    #[method(read)]
                    fn get(&self) -> u64 { self.0 }
                    #[method(mut)]
                    pub async fn add(&mut self, more: u64) { self.0 += more }
                    fn own(&self) {}
                }
            },
        );
        let expected = quote! {
            impl Count {
                fn get(&self) -> u64 { self.0 }
                pub async fn add(&mut self, more: u64) { self.0 += more }
                fn own(&self) {}
            }

            #[doc = "The methods of [`Count`], by reference."]
            pub trait CountCalls {
                fn get(self, ) -> impl ::core::future::Future<Output = ::core::result::Result<u64, ::chanter_objects::Gone>> + ::core::marker::Send;
                fn add(self, more: u64) -> impl ::core::future::Future<Output = ::core::result::Result<(), ::chanter_objects::Gone>> + ::core::marker::Send;
            }

            impl CountCalls for ::chanter_objects::Ref<Count> {
                #[inline]
                fn get(self, ) -> impl ::core::future::Future<Output = ::core::result::Result<u64, ::chanter_objects::Gone>> + ::core::marker::Send {
                    ::chanter_objects::__object::read(self, move |this: &Count| this.get())
                }
                #[inline]
                fn add(self, more: u64) -> impl ::core::future::Future<Output = ::core::result::Result<(), ::chanter_objects::Gone>> + ::core::marker::Send {
                    ::chanter_objects::__object::change_async(self, async move |this: &mut Count| this.add(more).await)
                }
            }
        };
        assert_eq!(expanded.to_string(), expected.to_string());
    }

    fn error_of(item: TokenStream) -> String {
        expand(TokenStream::new(), item).to_string()
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for (item, says) in [
            (
                quote!(
                    struct A;
                ),
                "goes before an `impl`",
            ),
            (quote!(impl Tr for A { #[method(read)] fn f(&self) {} }), "methods of a trait"),
            (
                quote!(
                    impl<T> A<T> {
                        #[method(read)]
                        fn f(&self) {}
                    }
                ),
                "must not be generic",
            ),
            (quote!(impl A { fn f(&self) {} }), "no method says"),
            (quote!(impl A { #[method(read)] fn f(&mut self) {} }), "says `#[method(mut)]`"),
            (quote!(impl A { #[method(mut)] fn f(&self) {} }), "this one reads"),
            (quote!(impl A { #[method(write)] fn f(&self) {} }), "say `read`, `mut` or `free`"),
            (quote!(impl A { #[method(read)] fn f(&'static self) {} }), "as it stands"),
            (quote!(impl A { #[method(read)] fn f() {} }), "takes `&self`"),
            (quote!(impl A { #[method(read)] fn f<T>(&self, t: T) {} }), "must not be generic"),
            (quote!(impl A { #[method(read)] fn f(&self, (a, b): (u8, u8)) {} }), "no pattern"),
            (
                quote!(impl A { #[method(free)] fn f(&self) {} #[method(mut)] fn g(&mut self) {} }),
                "must have no `mut` method",
            ),
            (quote!(impl A { #[method(free)] fn f(&self, k: Lazy<'_, u8>) {} }), "returns nothing"),
        ] {
            let error = error_of(item);
            assert!(error.contains(says), "{error}");
        }
    }
}
