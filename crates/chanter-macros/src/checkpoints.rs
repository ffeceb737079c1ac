//! `#[chanter::checkpoints]`: a checkpoint in each loop.
//!
//! A loop that cannot await gets a call at the beginning of its body. A loop that can await becomes two:
//!
//! ```text
//! 'turns: loop {                                    // Waits, if this thread is asked to make way.
//!     if checkpoint() { yield_if_requested().await; }
//!     let mut has_run = false;
//!     break loop {                                  // Does the work, and awaits nothing.
//!         if has_run && is_anyone_asked() { continue 'turns; }
//!         has_run = true;
//!         body
//!     };
//! }
//! ```
//!
//! Variables that live across an await are in memory. The inner loop awaits nothing, so the compiler keeps them in
//! registers. A turn costs at most 0.7 ns more, instead of 1 to 2 ns. It runs the body at least once, so it proceeds even while
//! others are asked. A `break` of the user ends the inner loop, with or without a value, even if a macro hides it. The
//! user's label is that of the outer loop, so `continue` and `break` with a label keep their meaning.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, Error, Expr, ExprAsync, ExprClosure, ExprConst, ExprForLoop, ExprLoop, ExprRepeat,
    ExprWhile, GenericArgument, Item, ItemFn, Label, Lifetime, Pat, Path, Result, Token, Type, parse_quote,
};

const ATTRIBUTE: &str = "#[chanter::checkpoints]";

/// Expands the attribute. After an error the function stays as it was.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2::<Args>(args).and_then(|args| with_checkpoints(args, item.clone())) {
        Ok(function) => quote!(#function),
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#error #item)
        }
    }
}

/// Path of the library.
struct Args(Path);

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Ok(Self(parse_quote!(::chanter)));
        }
        if !input.peek(Token![crate]) {
            return Err(input.error(format!("`{ATTRIBUTE}` takes no argument but `crate = path`")));
        }
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        let library = input.call(Path::parse_mod_style)?;
        if input.is_empty() { Ok(Self(library)) } else { Err(input.error("expected the end")) }
    }
}

fn with_checkpoints(Args(library): Args, item: TokenStream) -> Result<ItemFn> {
    let mut function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            return Err(match syn::parse2::<Item>(item) {
                Ok(_) => Error::new(error.span(), format!("`{ATTRIBUTE}` needs a function with a body")),
                // The mistake is in the function, and is what `syn` says.
                Err(_) => error,
            });
        }
    };
    if let Some(token) = &function.sig.constness {
        return Err(Error::new_spanned(token, "a `const fn` has no checkpoints: a compiler may run it"));
    }
    let is_async = function.sig.asyncness.is_some();
    let mut loops = Loops { library, is_async, count: 0 };
    loops.visit_block_mut(&mut function.block);
    if loops.count == 0 {
        let message = format!(
            "this function has no loop where `{ATTRIBUTE}` can put a checkpoint: loops within macros are not seen, \
             and recursive calls have none"
        );
        return Err(Error::new_spanned(&function.sig.ident, message));
    }
    Ok(function)
}

/// Puts checkpoints into loops.
struct Loops {
    library: Path,
    /// Whether the code at hand may await.
    is_async: bool,
    /// Number of loops.
    count: usize,
}

impl Loops {
    /// A call, for loops that cannot await.
    fn call(&mut self, body: &mut Block) {
        self.count += 1;
        let library = &self.library;
        body.stmts.insert(0, parse_quote!(#library::__checkpoint::on_fiber();));
    }

    /// The two loops, for one that can await. `turn` is an expression that does a turn of it.
    fn two_loops(
        &mut self,
        attrs: &[Attribute],
        label: Option<&Label>,
        may_be_endless: bool,
        turn: &TokenStream,
    ) -> TokenStream {
        self.count += 1;
        let library = &self.library;
        let name = match label {
            Some(label) => label.name.clone(),
            None => Lifetime::new(&format!("'__turns_{}", self.count), Span::mixed_site()),
        };
        let has_run = Ident::new("has_run", Span::mixed_site());
        // An inner loop without a `break` never gets back to the outer one.
        let allow = may_be_endless.then(|| quote!(#[allow(unreachable_code)]));
        quote! {
            #(#attrs)*
            #name: loop {
                if #library::checkpoint() {
                    #library::yield_if_requested().await;
                }
                let mut #has_run = false;
                #allow
                break loop {
                    if #has_run && #library::__checkpoint::is_anyone_asked() {
                        continue #name;
                    }
                    #has_run = true;
                    #turn
                };
            }
        }
    }

    /// The expansion of a loop that can await. `None`: it is no loop.
    fn awaiting(&mut self, node: &Expr) -> Option<TokenStream> {
        Some(match node {
            Expr::Loop(ExprLoop { attrs, label, body, .. }) => {
                let statements = &body.stmts;
                self.two_loops(attrs, label.as_ref(), true, &quote!(#(#statements)*))
            }
            Expr::While(ExprWhile { attrs, label, cond, body, .. }) => {
                self.two_loops(attrs, label.as_ref(), false, &quote!(if #cond #body else { break; }))
            }
            Expr::ForLoop(ExprForLoop { attrs, label, pat, expr, body, .. }) => {
                let turns = Ident::new("turns", Span::mixed_site());
                let turn = quote! {
                    match ::core::iter::Iterator::next(&mut #turns) {
                        ::core::option::Option::None => break,
                        ::core::option::Option::Some(#pat) => #body
                    }
                };
                let loops = self.two_loops(&[], label.as_ref(), false, &turn);
                quote! {
                    #(#attrs)*
                    match ::core::iter::IntoIterator::into_iter(#expr) {
                        mut #turns => #loops
                    }
                }
            }
            _ => return None,
        })
    }

    fn within(&mut self, is_async: bool, visit: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.is_async, is_async);
        visit(self);
        self.is_async = outside;
    }
}

impl VisitMut for Loops {
    fn visit_expr_mut(&mut self, node: &mut Expr) {
        visit_mut::visit_expr_mut(self, node);
        if !self.is_async {
            match node {
                Expr::Loop(ExprLoop { body, .. })
                | Expr::While(ExprWhile { body, .. })
                | Expr::ForLoop(ExprForLoop { body, .. }) => self.call(body),
                _ => {}
            }
        } else if let Some(loops) = self.awaiting(node) {
            *node = Expr::Verbatim(loops);
        }
    }

    fn visit_expr_async_mut(&mut self, node: &mut ExprAsync) {
        self.within(true, |this| visit_mut::visit_expr_async_mut(this, node));
    }

    fn visit_expr_closure_mut(&mut self, node: &mut ExprClosure) {
        self.within(node.asyncness.is_some(), |this| visit_mut::visit_expr_closure_mut(this, node));
    }

    /// It runs when the program is compiled.
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}

    /// A function within the function is another one, with attributes of its own.
    fn visit_item_mut(&mut self, _: &mut Item) {}

    /// The length of an array and such.
    fn visit_expr_repeat_mut(&mut self, node: &mut ExprRepeat) {
        self.visit_expr_mut(&mut node.expr);
    }

    fn visit_type_mut(&mut self, _: &mut Type) {}

    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}

    /// Patterns may hold constants.
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(args: TokenStream, item: TokenStream) -> String {
        expand(args, item).to_string()
    }

    #[test]
    fn each_loop_has_one_that_fits_where_it_is() {
        let text = expanded(
            quote!(),
            quote! {
                async fn f() {
                    for _ in 0..3 { loop { break; } }
                    let plain = |n| { while n > 0 {} };
                    let later = async { loop {} };
                    fn other() { loop {} }
                    const N: u32 = loop { break 1 };
                    let n = const { loop { break 1 } };
                }
            },
        );
        assert_eq!(text.matches("yield_if_requested").count(), 3, "{text}");
        assert_eq!(text.matches("on_fiber").count(), 1, "{text}");
        let text = expanded(
            quote!(crate = my::own),
            quote!(
                fn f() {
                    'a: loop {
                        continue 'a;
                    }
                }
            ),
        );
        assert!(text.contains("{ my :: own :: __checkpoint :: on_fiber () ; continue 'a ; }"), "{text}");
    }

    #[test]
    fn a_function_that_is_refused_stays() {
        for item in [
            quote!(
                fn f() {}
            ),
            quote!(
                const fn f() {
                    loop {}
                }
            ),
            quote!(
                struct S;
            ),
        ] {
            let text = expanded(quote!(), item.clone());
            assert!(text.contains("compile_error") && text.ends_with(&item.to_string()), "{text}");
        }
        assert!(
            expanded(
                quote!(every = 3),
                quote!(
                    fn f() {
                        loop {}
                    }
                )
            )
            .contains("compile_error")
        );
    }
}
