//! `Begin`: how the future of a method that may suspend is made.

use std::future::Future;

use chanter::base::Mode;

use crate::apart::Nowhere;
use crate::{ObjectError, Ref};

/// Inside beside others that read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared;

/// Inside alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

/// A way of being inside, as a type.
pub(crate) trait Inside {
    const MODE: Mode;
}

impl Inside for Shared {
    const MODE: Mode = Mode::Shared;
}

impl Inside for Alone {
    const MODE: Mode = Mode::Alone;
}

/// Makes a method's future of its object and of a `W`, which the poller of the call supplies.
pub(crate) trait Begin<T, W> {
    /// The future.
    type Method: Future;
    /// The call where the object is, if that is another process.
    type Away: Future<Output = Result<<Self::Method as Future>::Output, ObjectError>>;
    fn begin(self, value: *mut T, with: W) -> Self::Method;
    /// Calls it where the object is, which is another process.
    ///
    /// # Safety
    /// If `with` is a place, that is there, and nobody else's, as long as what this makes lives.
    unsafe fn remote(self, to: Ref<T>, with: W) -> Result<Self::Away, ObjectError>
    where
        Self: Sized,
    {
        let _ = (to, with);
        Err(ObjectError::Elsewhere)
    }
}

impl<T, F: Future, A: FnOnce(*mut T) -> F> Begin<T, ()> for A {
    type Method = F;
    type Away = Nowhere<F::Output>;

    #[inline(always)]
    fn begin(self, value: *mut T, (): ()) -> F {
        self(value)
    }
}
