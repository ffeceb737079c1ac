//! Values that others reach by pointer while their owner holds them.
//!
//! The compiler takes a `&mut T`, and a `Box<T>` that is moved, for a claim: nobody else touches the value meanwhile.
//! This claim is wrong for a node of an intrusive list, and for a synchronization that partners complete. It is wrong
//! for anything that another OS thread finds by address. Such a type is one of two:
//!
//! - *Pinned in its owner*: it holds a `PhantomPinned`. It tells the compiler that a `&mut` to it, or to a value
//!   around it, claims nothing. [`aliased!`] beside the type keeps that true.
//! - *On the heap, and its owner moves*: it lies in an [`AliasedBox`].
//!
//! A shared reference is a claim too: its referent is not freed before the function that was given it returns. An
//! access that may be the last one before others free the memory goes through a pointer: INV-LAST of
//! `event/protocol.rs`.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

/// Fails to compile where a type is `Unpin`.
macro_rules! aliased {
    ($($type:ty),+ $(,)?) => { $(
        const _: fn() = || {
            trait IsUnpin<Marker> {
                fn check() {}
            }
            #[allow(dead_code, reason = "the second of two candidates, where the type is `Unpin`")]
            struct Unpinned;
            impl<T: ?Sized> IsUnpin<()> for T {}
            impl<T: ?Sized + Unpin> IsUnpin<Unpinned> for T {}
            <$type as IsUnpin<_>>::check();
        };
    )+ };
}
pub(crate) use aliased;

/// A box that others may point into: to move it claims nothing. The value is freed when the owner drops the box. The
/// owner makes sure that nobody looks at the value any more.
pub(crate) struct AliasedBox<T>(NonNull<T>);

// SAFETY: it owns its value, as a box does.
unsafe impl<T: Send> Send for AliasedBox<T> {}
// SAFETY: it gives out shared references, as a box does.
unsafe impl<T: Sync> Sync for AliasedBox<T> {}

impl<T> AliasedBox<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// A pointer for those that find the value while the box lives.
    pub(crate) fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }
}

impl<T> Deref for AliasedBox<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value lives until the box is dropped, and the box never gives out a `&mut` to it.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for AliasedBox<T> {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer from a box, and the value is freed only here.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: fmt::Debug> fmt::Debug for AliasedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
