//! The services and functions of a program, which the linker collects.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use linkme;

use crate::remote::{Offer, make};
use crate::service::{Start, start};
use crate::wire::Number;
use crate::{Caller, Context, Here};

/// What `#[service]` has made.
#[linkme::distributed_slice]
pub static SERVICES: [Service];

/// What `#[remote]` has made.
#[linkme::distributed_slice]
pub static FUNCTIONS: [Function];

/// What begins a service's requests.
pub struct Begin(Start);

/// What makes a function's bodies, and for whom.
pub struct Bodies(Offer);

/// A service of the program.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    begin: fn() -> Begin,
}

impl Service {
    /// That one.
    pub const fn new(name: &'static str, begin: fn() -> Begin) -> Self {
        Self { name, begin }
    }
}

/// A function of the program.
#[derive(Debug)]
pub struct Function {
    name: &'static str,
    bodies: fn(&'static str) -> Bodies,
}

impl Function {
    /// That one.
    pub const fn new(name: &'static str, bodies: fn(&'static str) -> Bodies) -> Self {
        Self { name, bodies }
    }
}

/// See [`Here::serve_if`].
pub fn service<Q, A, F, R>(allow: fn(&Caller) -> bool, handler: F) -> Begin
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
    F: Fn(Caller, Q) -> R + Send + Sync + 'static,
    R: Future<Output = A> + Send + 'static,
{
    Begin(start(allow, handler))
}

/// See [`Here::offer_if`].
pub fn function<Q, T, F, R>(name: &'static str, allow: fn(&Caller) -> bool, body: F) -> Bodies
where
    Q: DeserializeOwned,
    T: Serialize + 'static,
    F: Fn(Context, Q) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
{
    Bodies(Offer::new(name, allow, make(body)))
}

/// A process serves and offers all of them.
///
/// # Panics
/// Two names have the same hash: one has to be changed.
pub(crate) fn serve(here: &Here) {
    let node = here.node();
    for Service { name, begin } in SERVICES {
        match node.registered(name, Number::of(name), begin().0) {
            Ok(serving) => serving.forever(),
            Err(error) => panic!("{name} cannot be served: {error}"),
        }
    }
    for Function { name, bodies } in FUNCTIONS {
        if let Err(error) = node.functions.insert(Number::of(name), bodies(name).0) {
            panic!("{name} cannot be offered: {error}");
        }
    }
}
