//! Tuples, and the patterns by which they are found.

use std::sync::Arc;

use self::sealed::Sealed;
use crate::field::{Field, Key, Value};

mod sealed {
    pub trait Sealed {}
}

/// A formal: every value of its field matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Any;

/// A tuple of one to eight [`Field`]s.
///
/// Implemented by this crate only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tuple of fields",
    note = "a tuple has one to eight fields, each of which is a `Field`; `Data` makes a field of any type"
)]
pub trait Tuple: Sealed + Sized + Send {
    #[doc(hidden)]
    type First: Key;
    #[doc(hidden)]
    type Keys: Send + Sync;
    #[doc(hidden)]
    type Wanted: Send + Sync;

    #[doc(hidden)]
    fn keys(&self) -> Self::Keys;
    #[doc(hidden)]
    fn first(keys: &Self::Keys) -> &Self::First;
    #[doc(hidden)]
    fn first_wanted(wanted: &Self::Wanted) -> Option<&Self::First>;
    /// Whether a tuple with these keys matches.
    #[doc(hidden)]
    fn matches(wanted: &Self::Wanted, keys: &Self::Keys) -> bool;
    /// Whether some tuple matches both.
    #[doc(hidden)]
    fn may_match(wanted: &Self::Wanted, shape: &Self::Wanted) -> bool;
}

/// A pattern for tuples of type `T`: a tuple of as many fields, each a value or [`Any`].
///
/// Implemented by this crate only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pattern for `{T}`",
    note = "a pattern has as many fields as the tuple, each a value of the field's type or `Any`"
)]
pub trait Pattern<T: Tuple>: Sealed {
    #[doc(hidden)]
    fn wanted(self) -> T::Wanted;
}

/// A field of a pattern, for a field of type `F`: a value of `F`, or [`Any`]. A field of text takes a `&str`, too.
pub trait FieldPattern<F: Field> {
    #[doc(hidden)]
    fn wanted(self) -> Option<F::Key>;
}

impl<F: Field> FieldPattern<F> for Any {
    #[inline(always)]
    fn wanted(self) -> Option<F::Key> {
        None
    }
}

impl<F: Field> FieldPattern<F> for F
where
    F::Key: Value,
{
    #[inline(always)]
    fn wanted(self) -> Option<F::Key> {
        Some(self.key())
    }
}

macro_rules! text_pattern {
    ($($type:ty)*) => {$(
        impl FieldPattern<$type> for &str {
            fn wanted(self) -> Option<Arc<str>> {
                Some(Arc::from(self))
            }
        }
    )*};
}

text_pattern! { String Box<str> Arc<str> }

macro_rules! tuple {
    ($($field:ident $pattern:ident $at:tt),*) => {
        impl<$($field),*> Sealed for ($($field,)*) {}

        impl<$($field: Field),*> Tuple for ($($field,)*) {
            type First = <tuple!(@first $($field)*) as Field>::Key;
            type Keys = ($($field::Key,)*);
            type Wanted = ($(Option<$field::Key>,)*);

            #[inline(always)]
            fn keys(&self) -> Self::Keys {
                ($(self.$at.key(),)*)
            }

            #[inline(always)]
            fn first(keys: &Self::Keys) -> &Self::First {
                &keys.0
            }

            #[inline(always)]
            fn first_wanted(wanted: &Self::Wanted) -> Option<&Self::First> {
                wanted.0.as_ref()
            }

            #[inline(always)]
            fn matches(wanted: &Self::Wanted, keys: &Self::Keys) -> bool {
                $(wanted.$at.as_ref().is_none_or(|wanted| *wanted == keys.$at))&&*
            }

            #[inline(always)]
            fn may_match(wanted: &Self::Wanted, shape: &Self::Wanted) -> bool {
                $((wanted.$at.is_none() || shape.$at.is_none() || wanted.$at == shape.$at))&&*
            }
        }

        impl<$($field: Field, $pattern: FieldPattern<$field>),*> Pattern<($($field,)*)> for ($($pattern,)*) {
            #[inline(always)]
            fn wanted(self) -> ($(Option<$field::Key>,)*) {
                ($(self.$at.wanted(),)*)
            }
        }
    };
    (@first $first:ident $($rest:ident)*) => { $first };
}

tuple!(A P 0);
tuple!(A P 0, B Q 1);
tuple!(A P 0, B Q 1, C R 2);
tuple!(A P 0, B Q 1, C R 2, D S 3);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5, G V 6);
tuple!(A P 0, B Q 1, C R 2, D S 3, E T 4, F U 5, G V 6, H W 7);
