//! `#[object]`: from the methods of a type to the calls of them.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, ImplItem, ImplItemFn, ItemImpl, Pat, Path, PathArguments,
    ReceiverKind, Result, ReturnType, Safety, Token, Type, parse_quote,
};

/// Arguments between the parentheses of `#[object(..)]`.
struct Args {
    krate: Path,
    name: Option<Ident>,
    /// Whether other processes call the methods, too.
    remote: bool,
    /// Whether its objects are made in other processes, and migrate.
    moves: bool,
    /// The function that decides which other processes the objects serve.
    allow: Option<Expr>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self {
            krate: parse_quote!(::chanter_objects),
            name: None,
            remote: false,
            moves: false,
            allow: None,
        };
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                args.krate = input.parse()?;
            } else {
                let key: Ident = input.parse()?;
                match key.to_string().as_str() {
                    "remote" => args.remote = true,
                    "moves" => args.moves = true,
                    "allow" => {
                        input.parse::<Token![=]>()?;
                        args.allow = Some(input.parse()?);
                    }
                    "name" => {
                        input.parse::<Token![=]>()?;
                        args.name = Some(input.parse()?);
                    }
                    _ => {
                        let message = format!(
                            "unknown argument `{key}`: there are `remote`, `moves`, `allow = function`, \
                             `name = PatchRef` and `crate = path`"
                        );
                        return Err(Error::new(key.span(), message));
                    }
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(args)
    }
}

/// The way in which a method is inside its object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Mut,
    Free,
}

/// A method that is marked.
struct Marked {
    mode: Mode,
    /// Whether only this process calls it.
    local: bool,
    /// The function that decides which other processes the method serves, if it differs from the object's.
    allow: Option<Expr>,
    method: ImplItemFn,
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
fn methods(block: &mut ItemImpl) -> Result<Vec<Marked>> {
    let mut methods = Vec::new();
    let mut errors: Option<Error> = None;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let marks: Vec<Attribute> =
            method.attrs.extract_if(.., |attr| attr.path().is_ident("method")).collect();
        let Some(mark) = marks.first() else { continue };
        match mode(mark, method) {
            Ok((mode, local, allow)) => {
                methods.push(Marked { mode, local, allow, method: method.clone() });
            }
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let writes = methods.iter().any(|marked| marked.mode == Mode::Mut);
    match methods.iter().find(|marked| marked.mode == Mode::Free) {
        Some(free) if writes => Err(Error::new(
            free.method.sig.ident.span(),
            "a `free` method is inside beside any other, so no method of its object may be `mut`: \
             this one is `read`, or what changes lies in cells, atomics or locks",
        )),
        _ => Ok(methods),
    }
}

/// The mode of a method, whether it is local, and the function that says whom it serves.
fn mode(mark: &Attribute, method: &ImplItemFn) -> Result<(Mode, bool, Option<Expr>)> {
    let signature = &method.sig;
    let Some(receiver) = signature.receiver() else {
        return Err(Error::new(signature.span(), "a method of an object takes `&self` or `&mut self`"));
    };
    let ReceiverKind::Reference(_, None, mutability) = &receiver.kind else {
        return Err(Error::new(receiver.span(), "a method of an object takes `&self` or `&mut self`"));
    };
    let writes = mutability.is_some();
    let natural = if writes { Mode::Mut } else { Mode::Read };
    let syn::Meta::List(list) = &mark.meta else { return Ok((natural, false, None)) };
    let mut local = false;
    let mut allow = None;
    let word = list.parse_args_with(|input: ParseStream<'_>| {
        let mut word = None;
        while !input.is_empty() {
            match how(input)? {
                Word::Mode(how) => word = Some(how),
                Word::Local => local = true,
                Word::Allow(function) => allow = Some(*function),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(word)
    })?;
    if let (true, Some(allow)) = (local, &allow) {
        let message =
            "a method that is `local` is called by no other process: there is nobody to allow it to";
        return Err(Error::new(allow.span(), message));
    }
    let Some(word) = word else { return Ok((natural, local, allow)) };
    match word {
        Mode::Mut if !writes => Err(Error::new(receiver.span(), "a method that is `mut` takes `&mut self`")),
        Mode::Read | Mode::Free if writes => {
            Err(Error::new(receiver.span(), "a method that is `read` or `free` takes `&self`"))
        }
        mode => Ok((mode, local, allow)),
    }
}

/// A word of a method's mark.
enum Word {
    Mode(Mode),
    Local,
    Allow(Box<Expr>),
}

/// One word of a method's mark.
fn how(input: ParseStream<'_>) -> Result<Word> {
    if input.peek(Token![mut]) {
        input.parse::<Token![mut]>()?;
        return Ok(Word::Mode(Mode::Mut));
    }
    let word: Ident = input.parse()?;
    match word.to_string().as_str() {
        "read" => Ok(Word::Mode(Mode::Read)),
        "free" => Ok(Word::Mode(Mode::Free)),
        "local" => Ok(Word::Local),
        "allow" => {
            input.parse::<Token![=]>()?;
            Ok(Word::Allow(input.parse()?))
        }
        _ => Err(Error::new(
            word.span(),
            "a method is `read`, `mut` or `free`, and may be `local` or say `allow = function`",
        )),
    }
}

/// The type with the calls, and what makes a `Ref` deref to it.
fn calls(args: Args, block: &ItemImpl, methods: &[Marked]) -> Result<TokenStream> {
    let Args { krate, name, remote, moves, allow } = args;
    let object = &block.self_ty;
    let Type::Path(path) = &**object else {
        return Err(Error::new(object.span(), "`#[object]` needs a type that is declared in this crate"));
    };
    let last = path.path.segments.last().expect("a path has one");
    let name = name.unwrap_or_else(|| format_ident!("{}Ref", last.ident));
    let (generics, arguments, conditions) = block.generics.split_for_impl();
    if (remote || moves) && !block.generics.params.is_empty() {
        let message = "the methods of a remote object are known by their names: its type cannot be generic";
        return Err(Error::new(block.generics.span(), message));
    }
    let asks = methods.iter().find_map(|marked| marked.allow.as_ref());
    if let (false, Some(asks)) = (remote, allow.as_ref().or(asks)) {
        let message = "`allow` says which other processes an object serves: say `#[object(remote)]`, too";
        return Err(Error::new(asks.span(), message));
    }
    let whole = Whole { krate: &krate, object, name: &name, remote, allow: allow.as_ref() };
    let calls = methods.iter().map(|marked| call(&whole, marked)).collect::<Result<Vec<_>>>()?;
    let moves = moves.then(|| moving(&krate, object, allow.as_ref()));
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

        // SAFETY: the methods' type is `repr(transparent)` over the `Ref`, as `Object` demands.
        unsafe impl #generics #krate::Object for #object #conditions {
            type Methods = #name #arguments;
        }

        #[automatically_derived]
        #[allow(unreachable_pub, private_interfaces, private_bounds, dead_code, clippy::all, clippy::pedantic)]
        impl #generics #name #arguments #conditions {
            #(#calls)*
        }

        #moves
    })
}

/// Name of the type for other processes.
fn moving(krate: &Path, object: &Type, allow: Option<&Expr>) -> TokenStream {
    let begin = match allow {
        Some(allow) => quote!(|| #krate::remote::moves_if::<#object>(#allow)),
        None => quote!(#krate::remote::moves::<#object>),
    };
    let mut text = format!("::{}#moves", object.to_token_stream());
    text.retain(|letter| !letter.is_whitespace());
    quote! {
        #[automatically_derived]
        impl #krate::remote::Moves for #object {
            const NAME: &'static str = ::core::concat!(::core::module_path!(), #text);
        }

        const _: () = {
            #[#krate::remote::table::linkme::distributed_slice(#krate::remote::table::SERVICES)]
            #[linkme(crate = #krate::remote::table::linkme)]
            static ENTRY: #krate::remote::table::Service = #krate::remote::table::Service::new(
                <#object as #krate::remote::Moves>::NAME,
                #begin,
            );
        };
    }
}

/// Common parts of all calls of a block.
struct Whole<'a> {
    krate: &'a Path,
    object: &'a Type,
    /// The type that has the calls.
    name: &'a Ident,
    remote: bool,
    allow: Option<&'a Expr>,
}

/// The schema (of Concert) by which a method is called.
enum Schema {
    NonBlocking(TokenStream),
    MayBlock(TokenStream),
    /// Holds the name of the continuation.
    Continuation(TokenStream, Ident),
}

/// One call.
fn call(whole: &Whole<'_>, marked: &Marked) -> Result<TokenStream> {
    let Whole { krate, object, .. } = whole;
    let signature = &marked.method.sig;
    let marked_unsafe = match signature.safety {
        Safety::Default => None,
        _ => Some(signature.safety.span()),
    };
    if let Some(span) = marked_unsafe.or(signature.abi.as_ref().map(Spanned::span)) {
        return Err(Error::new(span, "a method of an object is a safe Rust function"));
    }
    let attrs = marked.method.attrs.iter().filter(|attr| {
        ["doc", "cfg", "cfg_attr", "deprecated", "must_use"].iter().any(|name| attr.path().is_ident(name))
    });
    let (vis, name) = (&marked.method.vis, &signature.ident);
    let (generics, conditions) = (&signature.generics, &signature.generics.where_clause);
    let (names, types, schema) = arguments(object, signature)?;
    let returns = match &schema {
        Schema::NonBlocking(output) => {
            quote!(#krate::Call<#object, impl #krate::Method<#object, Output = #output>>)
        }
        Schema::MayBlock(output) => quote!(impl ::core::future::IntoFuture<
            Output = ::core::result::Result<#output, #krate::ObjectError>,
            IntoFuture = impl ::core::future::Future<Output = ::core::result::Result<#output, #krate::ObjectError>>
        >),
        Schema::Continuation(answer, _) => quote!(impl #krate::Forward<
            Answer = #answer,
            Output = ::core::result::Result<#answer, #krate::ObjectError>,
            IntoFuture = impl #krate::Answers<#answer>
        >),
    };
    let body = if whole.remote && !marked.local {
        body_for_any(whole, marked, &names, &types, &schema)?
    } else {
        body(whole, marked, &names, &schema)
    };
    Ok(quote! {
        #(#attrs)*
        #[inline(always)]
        #vis fn #name #generics (self, #(#names: #types),*) -> #returns #conditions {
            #body
        }
    })
}

/// The arguments of a call, by name and type, and how it is made.
fn arguments(object: &Type, signature: &syn::Signature) -> Result<(Vec<Ident>, Vec<TokenStream>, Schema)> {
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
    let output = of_object(output.to_token_stream(), object);
    let lazy = types.last().and_then(|last| answer_of(last));
    let early = types.iter().rev().skip(1).find(|ty| answer_of(ty).is_some());
    if let Some(ty) = early {
        return Err(Error::new(ty.span(), "a continuation is the last argument"));
    }
    let schema = if let Some(answer) = lazy {
        if signature.asyncness.is_none() || !matches!(signature.output, ReturnType::Default) {
            return Err(Error::new(
                signature.span(),
                "a method that takes a continuation is async and returns nothing",
            ));
        }
        types.pop();
        let k = names.pop().expect("it has a name");
        Schema::Continuation(of_object(answer.to_token_stream(), object), k)
    } else if signature.asyncness.is_some() {
        Schema::MayBlock(output)
    } else {
        Schema::NonBlocking(output)
    };
    let types = types.iter().map(|ty| of_object(ty.to_token_stream(), object)).collect();
    Ok((names, types, schema))
}

/// The object as the method takes it, and the word for its mode.
fn receiver(object: &Type, mode: Mode) -> (TokenStream, Ident) {
    match mode {
        Mode::Mut => (quote!(&mut #object), format_ident!("with_mut")),
        _ => (quote!(&#object), format_ident!("with")),
    }
}

/// Code that makes the call of an object of this process.
fn body(whole: &Whole<'_>, marked: &Marked, names: &[Ident], schema: &Schema) -> TokenStream {
    let Whole { krate, object, .. } = whole;
    let name = &marked.method.sig.ident;
    let (value, inside) = receiver(object, marked.mode);
    let body_span = name.span();
    match schema {
        Schema::NonBlocking(_) => {
            quote_spanned!(body_span=> self.0.#inside(move |this: #value| <#object>::#name(this, #(#names),*)))
        }
        Schema::MayBlock(_) => {
            let (checked, direct) = (format_ident!("{inside}_async"), format_ident!("__{inside}_async"));
            quote_spanned! {body_span=>
                if false {
                    let _ = self.0.#checked(async move |this: #value| {
                        <#object>::#name(this, #(#names),*).await
                    });
                    ::core::unreachable!()
                }
                // SAFETY: the call in the branch that never runs compiles only if the method takes any borrow and its
                // output keeps none.
                unsafe { self.0.#direct(move |this| <#object>::#name(this, #(#names),*)) }
            }
        }
        Schema::Continuation(answer, k) => {
            let (checked, direct) = (format_ident!("{inside}_lazily"), format_ident!("__{inside}_lazily"));
            quote_spanned! {body_span=>
                if false {
                    let _ = self.0.#checked(async move |this: #value, #k: #krate::Lazy<'_, #answer>| {
                        <#object>::#name(this, #(#names,)* #k).await
                    });
                    ::core::unreachable!()
                }
                // SAFETY: the call in the branch that never runs compiles only if the method takes any borrows and
                // its future keeps none.
                unsafe { self.0.#direct(move |this, #k| <#object>::#name(this, #(#names,)* #k)) }
            }
        }
    }
}

/// The same, of an object of any process; and what another process finds the method by.
fn body_for_any(
    whole: &Whole<'_>,
    marked: &Marked,
    names: &[Ident],
    types: &[TokenStream],
    schema: &Schema,
) -> Result<TokenStream> {
    let Whole { krate, object, name: calls, .. } = whole;
    let signature = &marked.method.sig;
    if !signature.generics.params.is_empty() {
        let message = "a method that other processes call is known by its name, and cannot be generic: \
                       say `#[method(local)]`";
        return Err(Error::new(signature.generics.span(), message));
    }
    let name = &signature.ident;
    let mut text = format!("::{}::{name}#{}", object.to_token_stream(), signature.to_token_stream());
    text.retain(|letter| !letter.is_whitespace());
    let (value, inside) = receiver(object, marked.mode);
    let allow = marked.allow.as_ref().or(whole.allow);
    let served = |serve: &str| {
        let serve = Ident::new(
            &if allow.is_some() { format!("{serve}_if") } else { serve.into() },
            Span::call_site(),
        );
        quote!(#serve)
    };
    let allow = allow.map(|allow| quote!(#allow,));
    // No argument has this name.
    let to = Ident::new("to", Span::mixed_site());
    let (answer, serve, how) = match schema {
        Schema::NonBlocking(output) => (
            output,
            served("serve"),
            quote! {
                #inside(|this: #value, (#(#names,)*): (#(#types,)*)| <#object>::#name(this, #(#names),*))
            },
        ),
        Schema::MayBlock(output) => {
            let inside = format_ident!("{inside}_async");
            (
                output,
                served("serve"),
                quote! {
                    #inside(async |this: #value, (#(#names,)*): (#(#types,)*)| {
                        <#object>::#name(this, #(#names),*).await
                    })
                },
            )
        }
        Schema::Continuation(output, k) => {
            let inside = format_ident!("{inside}_lazily");
            (
                output,
                served("serve_lazily"),
                quote! {
                    #inside(async |this: #value, (#(#names,)*): (#(#types,)*), #k: #krate::Lazy<'_, #output>| {
                        <#object>::#name(this, #(#names,)* #k).await
                    })
                },
            )
        }
    };
    Ok(quote_spanned! {name.span()=>
        const NAME: &str = ::core::concat!(::core::module_path!(), #text);
        const KEY: #krate::remote::Key<(#(#types,)*), #answer> = #krate::remote::Key::new(NAME);
        #[#krate::remote::table::linkme::distributed_slice(#krate::remote::table::SERVICES)]
        #[linkme(crate = #krate::remote::table::linkme)]
        static ENTRY: #krate::remote::table::Service = #krate::remote::table::Service::new(NAME, || {
            #krate::remote::#serve::<#object, (#(#types,)*), #answer, _>(NAME, #allow |#to, (#(#names,)*)| {
                #calls(#to).#name(#(#names),*)
            })
        });
        self.0.named(KEY, (#(#names,)*)).#how
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
