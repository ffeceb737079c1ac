//! The place in a channel for one message that was sent asynchronously.
//!
//! Many channels carry one answer, which is there before any thread waits for it. A small message that would be the
//! first to wait is left in the channel itself. It needs no offer for its partner to find: no frame, no queue, and no
//! waker.
//!
//! INV-LEFT: a message is left only in an open rendezvous channel that has no waiters and no buffered messages. So it
//! comes before all senders that wait, and after messages that came back. It has a share of the senders. It is
//! dropped when the channel is closed, as the offer would be.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

type Place = [usize; 2];

/// Room for a `T`, if `T` is small. It has the same size for all types, since all channels use the same blocks.
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
        // SAFETY: `FITS` says that the place is large enough and aligned for a `T`.
        unsafe { self.place.as_mut_ptr().cast::<T>().write(message) };
    }

    /// # Safety
    /// A message was put there, and has not been taken since.
    #[inline(always)]
    pub(super) unsafe fn take(&mut self) -> T {
        // SAFETY: the caller promises that a message is there, and `put` wrote it as a `T`.
        unsafe { self.place.as_ptr().cast::<T>().read() }
    }
}
