//! Services and requests, as the caller names them.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;

use crate::wire::{Body, Number, encode};

/// A service: a name, which is the same in all processes, and the types of its requests and answers.
pub struct Service<Q, A> {
    pub(super) name: &'static str,
    pub(super) number: Number,
    types: PhantomData<fn(Q) -> A>,
}

impl<Q, A> Service<Q, A> {
    /// The service of that name. Two services with the same name and different types are one service, which cannot
    /// read half of its requests. A path of the program makes a good name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: Number::of(name), types: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<Q: Serialize, A> Service<Q, A> {
    /// A request with this question, which is encoded at once.
    pub fn ask(&self, question: &Q) -> Ask<A> {
        Ask { name: self.name, number: self.number, body: encode(question), answer: PhantomData }
    }

    /// A request with a question that is encoded like a `Q`.
    pub(crate) fn ask_as(&self, question: &impl Serialize) -> Ask<A> {
        Ask { name: self.name, number: self.number, body: encode(question), answer: PhantomData }
    }

    /// Its number.
    pub(crate) fn number(&self) -> Number {
        self.number
    }

    /// A request that cannot be encoded: making it gives the error.
    pub(crate) fn cannot(&self, error: String) -> Ask<A> {
        Ask { name: self.name, number: self.number, body: Err(error), answer: PhantomData }
    }
}

impl<Q, A> Clone for Service<Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A> Copy for Service<Q, A> {}

impl<Q, A> fmt::Debug for Service<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Service").field(&self.name).finish()
    }
}

/// A request that was not made yet: see [`Service::ask`], [`At::call`](crate::At::call) and [`At::post`](crate::At::post).
#[must_use = "a request does nothing until it is called or posted"]
pub struct Ask<A> {
    pub(super) name: &'static str,
    pub(super) number: Number,
    pub(super) body: Result<Body, String>,
    pub(super) answer: PhantomData<fn() -> A>,
}

impl<A> Clone for Ask<A> {
    fn clone(&self) -> Self {
        Self { name: self.name, number: self.number, body: self.body.clone(), answer: PhantomData }
    }
}

impl<A> fmt::Debug for Ask<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("service", &self.name).finish_non_exhaustive()
    }
}
