//! `Key`: how all processes of a program know a method.

use std::fmt;
use std::marker::PhantomData;

use chanter_cluster::wire::Number;

/// The key by which all processes of the program know a method: its name, of which they take the hash, and the types
/// of its arguments and answer.
pub struct Key<A, R> {
    pub(super) name: &'static str,
    pub(super) number: Number,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for Key<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Key<A, R> {}

impl<A, R> fmt::Debug for Key<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.name).finish()
    }
}

impl<A, R> Key<A, R> {
    /// The key of the method of that name. The name must be unique: path, type, name and signature make a good one.
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: Number::of(name), types: PhantomData }
    }
}
