//! A cell for fields that a protocol, not the compiler, keeps to one thread
//! at a time.
//!
//! Normally it is `std`'s. Under loom every access is checked against every
//! other, and so is the end of the cell: freeing counts as a write.

#[cfg(not(loom))]
pub(crate) use std::cell::Cell;

#[cfg(loom)]
pub(crate) use checked::Cell;

#[cfg(loom)]
mod checked {
    use std::fmt;

    use crate::sync::UnsafeCell;

    /// `std`'s cell, checked by loom.
    pub(crate) struct Cell<T>(UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        pub(crate) fn get(&self) -> T
        where
            T: Copy,
        {
            // SAFETY: loom panics if another access overlaps.
            self.0.with(|value| unsafe { *value })
        }

        pub(crate) fn set(&self, value: T) {
            drop(self.replace(value));
        }

        pub(crate) fn replace(&self, value: T) -> T {
            // SAFETY: loom panics if another access overlaps.
            self.0.with_mut(|place| unsafe { std::mem::replace(&mut *place, value) })
        }
    }

    impl<T> fmt::Debug for Cell<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Cell(..)")
        }
    }

    impl<T> Drop for Cell<T> {
        fn drop(&mut self) {
            // A model that fails unwinds outside of its execution.
            if !std::thread::panicking() {
                self.0.with_mut(|_| ());
            }
        }
    }
}
