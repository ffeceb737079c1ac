//! Tests of the output of `#[object]`, word for word: the documentation of the attribute promises plain types.

use proc_macro2::TokenStream;
use quote::quote;

use crate::object::expand;

#[test]
fn the_expansion_is_what_is_documented() {
    let written = expand(
        quote!(),
        quote! {
            impl Patch {
                /// The area.
                #[method(read)]
                fn area(&self) -> f64 {
                    self.area
                }

                #[method(mut)]
                pub async fn refine(&mut self, by: Ref<Self>) -> Result<f64, ObjectError> {
                    by.area().await
                }

                #[method(read)]
                async fn smallest(&self, k: Lazy<'_, f64>) {
                    k.fill(self.area)
                }

                fn private(&self) {}
            }
        },
    );
    let expected = quote! {
        impl Patch {
            /// The area.
            fn area(&self) -> f64 {
                self.area
            }
            pub async fn refine(&mut self, by: Ref<Self>) -> Result<f64, ObjectError> {
                by.area().await
            }
            async fn smallest(&self, k: Lazy<'_, f64>) {
                k.fill(self.area)
            }
            fn private(&self) {}
        }

        #[doc = "Calls of the methods of [`Patch`]: what a reference to one derefs to."]
        #[repr(transparent)]
        #[allow(unreachable_pub, private_interfaces, private_bounds, dead_code)]
        pub struct PatchRef(::chanter_objects::Ref<Patch>);

        #[automatically_derived]
        impl ::core::clone::Clone for PatchRef {
            fn clone(&self) -> Self {
                *self
            }
        }

        #[automatically_derived]
        impl ::core::marker::Copy for PatchRef {}

        #[automatically_derived]
        impl ::core::fmt::Debug for PatchRef {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        unsafe impl ::chanter_objects::Object for Patch {
            type Methods = PatchRef;
        }

        #[automatically_derived]
        #[allow(unreachable_pub, private_interfaces, private_bounds, dead_code, clippy::all, clippy::pedantic)]
        impl PatchRef {
            /// The area.
            #[inline(always)]
            fn area(self,) -> ::chanter_objects::Call<Patch, impl ::chanter_objects::Method<Patch, Output = f64>> {
                self.0.with(move |this: &Patch| <Patch>::area(this,))
            }

            #[inline(always)]
            pub fn refine(
                self,
                by: Ref<Patch>
            ) -> impl ::core::future::IntoFuture<
                Output = ::core::result::Result<Result<f64, ObjectError>, ::chanter_objects::ObjectError>,
                IntoFuture = impl ::core::future::Future<
                    Output = ::core::result::Result<Result<f64, ObjectError>, ::chanter_objects::ObjectError>
                >
            > {
                if false {
                    let _ = self.0.with_mut_async(async move |this: &mut Patch| {
                        <Patch>::refine(this, by).await
                    });
                    ::core::unreachable!()
                }
                unsafe { self.0.__with_mut_async(move |this| <Patch>::refine(this, by)) }
            }

            #[inline(always)]
            fn smallest(self,) -> impl ::chanter_objects::Forward<
                Answer = f64,
                Output = ::core::result::Result<f64, ::chanter_objects::ObjectError>,
                IntoFuture = impl ::chanter_objects::Answers<f64>
            > {
                if false {
                    let _ = self.0.with_lazily(async move |this: &Patch, k: ::chanter_objects::Lazy<'_, f64>| {
                        <Patch>::smallest(this, k).await
                    });
                    ::core::unreachable!()
                }
                unsafe { self.0.__with_lazily(move |this, k| <Patch>::smallest(this, k)) }
            }
        }
    };
    assert_eq!(words(written), words(expected));
}

/// Tokens that are parsed are spaced otherwise.
fn words(tokens: TokenStream) -> String {
    tokens.to_string().replace(' ', "")
}

/// Output of an attribute behind the block and the type with the calls, and the calls themselves.
fn calls(written: TokenStream) -> String {
    let text = words(written);
    let at = text.find("implPatchRef{").expect("there are calls");
    text[at..].to_owned()
}

#[test]
fn the_expansion_for_other_processes_is_what_is_documented() {
    let written = expand(
        quote!(remote, moves),
        quote! {
            impl Patch {
                #[method(mut)]
                pub async fn refine(&mut self, by: Ref<Self>) -> Result<f64, ObjectError> {
                    by.area().await
                }

                #[method(read)]
                async fn smallest(&self, k: Lazy<'_, f64>) {
                    k.fill(self.area)
                }

                #[method(read, local)]
                fn area(&self) -> f64 {
                    self.area
                }
            }
        },
    );
    let expected = quote! {
        impl PatchRef {
            #[inline(always)]
            pub fn refine(
                self,
                by: Ref<Patch>
            ) -> impl ::core::future::IntoFuture<
                Output = ::core::result::Result<Result<f64, ObjectError>, ::chanter_objects::ObjectError>,
                IntoFuture = impl ::core::future::Future<
                    Output = ::core::result::Result<Result<f64, ObjectError>, ::chanter_objects::ObjectError>
                >
            > {
                const NAME: &str = ::core::concat!(
                    ::core::module_path!(),
                    "::Patch::refine#asyncfnrefine(&mutself,by:Ref<Self>)->Result<f64,ObjectError>"
                );
                const KEY: ::chanter_objects::remote::Key<(Ref<Patch>,), Result<f64, ObjectError> > =
                    ::chanter_objects::remote::Key::new(NAME);
                #[::chanter_objects::remote::table::linkme::distributed_slice(
                    ::chanter_objects::remote::table::SERVICES
                )]
                #[linkme(crate = ::chanter_objects::remote::table::linkme)]
                static ENTRY: ::chanter_objects::remote::table::Service =
                    ::chanter_objects::remote::table::Service::new(NAME, || {
                        ::chanter_objects::remote::serve::<Patch, (Ref<Patch>,), Result<f64, ObjectError>, _>(
                            NAME,
                            |to, (by,)| { PatchRef(to).refine(by) }
                        )
                    });
                self.0.named(KEY, (by,)).with_mut_async(async |this: &mut Patch, (by,): (Ref<Patch>,)| {
                    <Patch>::refine(this, by).await
                })
            }

            #[inline(always)]
            fn smallest(self,) -> impl ::chanter_objects::Forward<
                Answer = f64,
                Output = ::core::result::Result<f64, ::chanter_objects::ObjectError>,
                IntoFuture = impl ::chanter_objects::Answers<f64>
            > {
                const NAME: &str = ::core::concat!(
                    ::core::module_path!(),
                    "::Patch::smallest#asyncfnsmallest(&self,k:Lazy<'_,f64>)"
                );
                const KEY: ::chanter_objects::remote::Key<(), f64> = ::chanter_objects::remote::Key::new(NAME);
                #[::chanter_objects::remote::table::linkme::distributed_slice(
                    ::chanter_objects::remote::table::SERVICES
                )]
                #[linkme(crate = ::chanter_objects::remote::table::linkme)]
                static ENTRY: ::chanter_objects::remote::table::Service =
                    ::chanter_objects::remote::table::Service::new(NAME, || {
                        ::chanter_objects::remote::serve_lazily::<Patch, (), f64, _>(NAME, |to, ()| {
                            PatchRef(to).smallest()
                        })
                    });
                self.0.named(KEY, ()).with_lazily(
                    async |this: &Patch, (): (), k: ::chanter_objects::Lazy<'_, f64>| {
                        <Patch>::smallest(this, k).await
                    }
                )
            }

            #[inline(always)]
            fn area(self,) -> ::chanter_objects::Call<Patch, impl ::chanter_objects::Method<Patch, Output = f64>> {
                self.0.with(move |this: &Patch| <Patch>::area(this,))
            }
        }

        #[automatically_derived]
        impl ::chanter_objects::remote::Moves for Patch {
            const NAME: &'static str = ::core::concat!(::core::module_path!(), "::Patch#moves");
        }

        const _: () = {
            #[::chanter_objects::remote::table::linkme::distributed_slice(::chanter_objects::remote::table::SERVICES)]
            #[linkme(crate = ::chanter_objects::remote::table::linkme)]
            static ENTRY: ::chanter_objects::remote::table::Service =
                ::chanter_objects::remote::table::Service::new(
                    <Patch as ::chanter_objects::remote::Moves>::NAME,
                    ::chanter_objects::remote::moves::<Patch>,
                );
        };
    };
    assert_eq!(calls(written), words(expected));
}
