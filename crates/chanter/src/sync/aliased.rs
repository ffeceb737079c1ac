//! What others reach by pointer while its owner holds it.
//!
//! The compiler takes a `&mut T`, and a `Box<T>` that is moved, for a claim: nobody else
//! touches the value meanwhile. That is wrong for a node of an intrusive list, for a
//! synchronization that partners complete, for anything that another OS thread finds by
//! address. Such a type is one of two:
//!
//! - *pinned in its owner*: it holds a `PhantomPinned`, by which the compiler knows that
//!   a `&mut` to it, or to what it is part of, claims nothing. [`aliased!`] beside the
//!   type keeps that true;
//! - *on the heap, and its owner moves*: it lies in an [`AliasedBox`].
//!
//! A shared reference claims, too, that what it refers to is not freed before the function
//! that was given it returns. Who may free the memory of others by its last access makes
//! that through a pointer: INV-LAST of `event/protocol.rs`.

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

/// A box that others may point into: to move it claims nothing. It is freed when its owner
/// drops it, who sees to it that nobody looks any more.
pub(crate) struct AliasedBox<T>(NonNull<T>);

// SAFETY: it owns its value, as a box does.
unsafe impl<T: Send> Send for AliasedBox<T> {}
// SAFETY: it gives out shared references, as a box does.
unsafe impl<T: Sync> Sync for AliasedBox<T> {}

impl<T> AliasedBox<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// For those who are to find it while it lives.
    pub(crate) fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }
}

impl<T> Deref for AliasedBox<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it is alive; nobody has a `&mut` to it.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for AliasedBox<T> {
    fn drop(&mut self) {
        // SAFETY: from a box, and freed here only.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: fmt::Debug> fmt::Debug for AliasedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
