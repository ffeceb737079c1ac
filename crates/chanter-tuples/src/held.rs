//! A tuple in a space, which readers may be copying.

use std::sync::Arc;

/// A tuple, perhaps with readers that have yet to copy it.
pub(crate) enum Held<T> {
    Own(T),
    /// Shared with readers, with the function that copies it: only readers are sure to know one.
    Shared(Arc<T>, fn(&T) -> T),
}

// SAFETY: a value moves between threads as a `T: Send` may. It is shared only by `share`, which demands `T: Sync`.
unsafe impl<T: Send> Send for Held<T> {}

/// The way to copy a tuple that may be shared; only [`Copying::new`] makes one.
pub(crate) struct Copying<T>(fn(&T) -> T);

impl<T> Copying<T> {
    pub(crate) fn new() -> Self
    where
        T: Clone + Sync,
    {
        Self(T::clone)
    }
}

impl<T> Held<T> {
    /// A share of a tuple. It is copied when the share is taken apart, where no lock is held.
    pub(crate) fn share(held: &mut Option<Self>, copying: &Copying<T>) -> Option<Self> {
        let (shared, copy) = match held.take()? {
            Self::Own(tuple) => (Arc::new(tuple), copying.0),
            Self::Shared(shared, copy) => (shared, copy),
        };
        *held = Some(Self::Shared(Arc::clone(&shared), copy));
        Some(Self::Shared(shared, copy))
    }

    /// The tuple; a copy of it if somebody else holds a share.
    pub(crate) fn into_inner(self) -> T {
        match self {
            Self::Own(tuple) => tuple,
            Self::Shared(shared, copy) => Arc::try_unwrap(shared).unwrap_or_else(|shared| copy(&shared)),
        }
    }
}
