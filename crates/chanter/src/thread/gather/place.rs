//! A place: an `Option` that is filled where it is.
//!
//! An `Option` is assigned by moving a value into it. A large value of many small parts is cheaper to build in place.

use std::mem::MaybeUninit;
use std::pin::Pin;

pub(super) struct Place<T> {
    is_full: bool,
    value: MaybeUninit<T>,
}

impl<T> Place<T> {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { is_full: false, value: MaybeUninit::uninit() }
    }

    /// # Safety
    /// `write` initializes the memory behind the pointer that it is given.
    #[inline(always)]
    pub(super) unsafe fn fill(&mut self, write: impl FnOnce(*mut T)) {
        self.clear();
        write(self.value.as_mut_ptr());
        self.is_full = true;
    }

    #[inline(always)]
    pub(super) fn get_ref(&self) -> Option<&T> {
        // SAFETY: the value is initialized, since `is_full` is set.
        self.is_full.then(|| unsafe { self.value.assume_init_ref() })
    }

    #[inline(always)]
    pub(super) fn get(self: Pin<&mut Self>) -> Option<Pin<&mut T>> {
        // SAFETY: the value is initialized, since `is_full` is set, and it is pinned with the whole.
        unsafe {
            let this = self.get_unchecked_mut();
            this.is_full.then(|| Pin::new_unchecked(this.value.assume_init_mut()))
        }
    }

    /// Drops the value, in place.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if std::mem::replace(&mut self.is_full, false) {
            // SAFETY: the value was initialized, since `is_full` was set. It is dropped once, since the flag is
            // cleared.
            unsafe { self.value.assume_init_drop() };
        }
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        self.clear();
    }
}
