//! The place in a channel for one message that was sent asynchronously.
//!
//! Many channels carry one answer, which is there before anybody waits for it. A small message
//! that would be the first to wait is left in the channel itself, and needs no offer for its partner to find:
//! no frame, no queue, nobody to tell when it is taken.
//!
//! INV-LEFT: a message is left only in a rendezvous channel that is open, where nobody waits and
//! nothing is buffered. So it comes before all who wait to send, and after what has come back. It counts as an
//! event of the senders, and goes when the channel is closed, as the offer would.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

type Place = [usize; 2];

/// Room for a `T`, if that is small: of the same size for all types, as all channels use the same blocks.
pub(super) struct Left<T> {
    place: MaybeUninit<Place>,
    message: PhantomData<T>,
}

impl<T> Left<T> {
    /// Whether a `T` is small enough.
    pub(super) const FITS: bool =
        size_of::<T>() <= size_of::<Place>() && align_of::<T>() <= align_of::<Place>();

    pub(super) const NOTHING: Self = Self { place: MaybeUninit::uninit(), message: PhantomData };

    #[inline(always)]
    pub(super) fn put(&mut self, message: T) {
        assert!(Self::FITS);
        // SAFETY: it fits.
        unsafe { self.place.as_mut_ptr().cast::<T>().write(message) };
    }

    /// # Safety
    /// Something was put there, and has not been taken since.
    #[inline(always)]
    pub(super) unsafe fn take(&mut self) -> T {
        // SAFETY: the caller's contract.
        unsafe { self.place.as_ptr().cast::<T>().read() }
    }
}
