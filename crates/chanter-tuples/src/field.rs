//! Fields of tuples, and the keys by which they are compared.
//!
//! Tuples are compared under the lock of their space, where no code of a user may run. So a field gives its key before
//! the lock is taken, and keys are types of the standard library, whose comparison calls nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use self::sealed::Sealed;

mod sealed {
    pub trait Sealed {}
}

/// A type that can be a field of a tuple.
///
/// Two fields match if their keys are equal. A type of your own gives one of the standard types as its key:
///
/// ```
/// use chanter_tuples::Field;
///
/// #[derive(Clone, Copy)]
/// enum Stage {
///     Raw,
///     Sorted,
/// }
///
/// impl Field for Stage {
///     type Key = u8;
///     fn key(&self) -> u8 {
///         *self as u8
///     }
/// }
/// ```
///
/// A type that is never compared has the key [`Opaque`].
///
/// `String` and `Box<str>` copy their text into the key each time that a tuple is put. `&str` and `Arc<str>`
/// do not.
pub trait Field: Send {
    /// The part by which fields are compared.
    type Key: Key;

    /// The key of this field. The function is called once when a tuple is put, and once when a pattern is made. No
    /// lock is held.
    fn key(&self) -> Self::Key;
}

/// A key of a field: numbers, `bool`, `char`, `()`, strings, options, arrays and tuples of up to four, and [`Opaque`].
///
/// The trait is sealed: keys are compared under a lock.
pub trait Key: Sealed + Clone + Eq + Hash + Send + Sync {}

/// A key that says which value a field has: all but [`Opaque`].
#[diagnostic::on_unimplemented(
    message = "a field of this type is opaque: no value matches it",
    note = "use `Any` for this field in the pattern"
)]
pub trait Value: Key {}

/// The key of fields that are not compared. Only [`Any`](crate::Any) matches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opaque;

impl Sealed for Opaque {}
impl Key for Opaque {}

/// A field of any type, which is not compared.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter_tuples::{Any, Data, TupleSpace};
///
/// struct Picture(Vec<u8>);
///
/// # chanter::block_on(async {
/// let space = TupleSpace::new();
/// space.put((7, Data(Picture(vec![0; 16])))).await;
/// let (_, Data(picture)) = space.take((7, Any)).await;
/// assert_eq!(picture.0.len(), 16);
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Data<T>(
    /// The content of the field.
    pub T,
);

macro_rules! own_key {
    ($([$($lifetime:lifetime)?] $type:ty,)*) => {$(
        impl<$($lifetime)?> Sealed for $type {}
        impl<$($lifetime)?> Key for $type {}
        impl<$($lifetime)?> Value for $type {}

        impl<$($lifetime)?> Field for $type {
            type Key = Self;

            #[inline(always)]
            fn key(&self) -> Self {
                self.clone()
            }
        }
    )*};
}

own_key! {
    [] u8, [] u16, [] u32, [] u64, [] u128, [] usize, [] i8, [] i16, [] i32, [] i64, [] i128, [] isize, [] bool,
    [] char, [] (), ['a] &'a str, [] Arc<str>,
}

macro_rules! text {
    ($($type:ty)*) => {$(
        impl Field for $type {
            type Key = Arc<str>;

            fn key(&self) -> Arc<str> {
                Arc::from(&**self)
            }
        }
    )*};
}

text! { String Box<str> }

macro_rules! opaque {
    ($([$($generics:tt)*] $type:ty,)*) => {$(
        impl<$($generics)*> Field for $type {
            type Key = Opaque;

            #[inline(always)]
            fn key(&self) -> Opaque {
                Opaque
            }
        }
    )*};
}

opaque! {
    [T: Send] Data<T>,
    [] f32,
    [] f64,
    [T: Send] Vec<T>,
    [T: Send] VecDeque<T>,
    [T: Send] Box<T>,
    [T: Send] Box<[T]>,
    [T: Send + Sync] Arc<T>,
    [T: Send + Sync] Arc<[T]>,
    [K: Send, V: Send] BTreeMap<K, V>,
    [K: Send] BTreeSet<K>,
    [K: Send, V: Send, S: Send] HashMap<K, V, S>,
    [K: Send, S: Send] HashSet<K, S>,
}

impl<K: Key> Sealed for Option<K> {}
impl<K: Key> Key for Option<K> {}
impl<K: Value> Value for Option<K> {}

impl<F: Field> Field for Option<F> {
    type Key = Option<F::Key>;

    fn key(&self) -> Self::Key {
        self.as_ref().map(F::key)
    }
}

impl<K: Key, const N: usize> Sealed for [K; N] {}
impl<K: Key, const N: usize> Key for [K; N] {}
impl<K: Value, const N: usize> Value for [K; N] {}

impl<F: Field, const N: usize> Field for [F; N] {
    type Key = [F::Key; N];

    fn key(&self) -> Self::Key {
        self.each_ref().map(F::key)
    }
}

macro_rules! tuple_key {
    ($($name:ident . $at:tt),*) => {
        impl<$($name: Key),*> Sealed for ($($name,)*) {}
        impl<$($name: Key),*> Key for ($($name,)*) {}
        impl<$($name: Value),*> Value for ($($name,)*) {}

        impl<$($name: Field),*> Field for ($($name,)*) {
            type Key = ($($name::Key,)*);

            #[inline(always)]
            fn key(&self) -> Self::Key {
                ($(self.$at.key(),)*)
            }
        }
    };
}

tuple_key!(A.0);
tuple_key!(A.0, B.1);
tuple_key!(A.0, B.1, C.2);
tuple_key!(A.0, B.1, C.2, D.3);
