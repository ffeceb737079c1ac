//! Handles' and events' shares of a channel.

use std::cell::Cell;
use std::ptr::NonNull;

use super::core::{Core, End, Rest};
use crate::event::Wakes;
use crate::sync::atomic::{AtomicU32, Ordering};

/// A sender's or receiver's share of its channel.
///
/// The OS thread that made the handle counts the events that it lends with
/// plain stores; any other takes the channel's lock. Both sums meet in
/// `Side::lent` when the handle is dropped, which needs exclusive access.
pub(super) struct Handle<T> {
    core: NonNull<Core<T>>,
    /// The OS thread that may count without a lock.
    owner: u32,
    /// Events lent by the owner, modulo 2^32.
    lent: AtomicU32,
    end: End,
}

/// An event's share of its channel. The event gives it up in one of its
/// critical sections; there is no destructor.
pub(super) struct Lent<T> {
    core: NonNull<Core<T>>,
}

/// A number of the OS thread, never used twice.
fn os_thread() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    let number = NUMBER.get();
    if number != 0 {
        return number;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(number < u32::MAX, "this process has had too many OS threads");
    NUMBER.set(number);
    number
}

/// A channel's first two handles.
pub(super) fn pair<T>(capacity: u32) -> (Handle<T>, Handle<T>) {
    let core = NonNull::from(Box::leak(Box::new(Core::new(capacity))));
    (Handle::new(core, End::Tx), Handle::new(core, End::Rx))
}

/// # Safety
/// `rest` comes from a critical section in which the caller gave up its share.
#[inline(always)]
unsafe fn finish<T>(core: NonNull<Core<T>>, rest: Rest<T>) {
    if rest.unreferenced || rest.unread.is_some() {
        // SAFETY: the caller's contract.
        unsafe { finish_slowly(core, rest) };
    }
}

#[cold]
unsafe fn finish_slowly<T>(core: NonNull<Core<T>>, rest: Rest<T>) {
    if rest.unreferenced {
        // SAFETY: made by `pair`; one critical section is the last.
        drop(unsafe { Box::from_raw(core.as_ptr()) });
    }
}

impl<T> Handle<T> {
    fn new(core: NonNull<Core<T>>, end: End) -> Self {
        Self { core, owner: os_thread(), lent: AtomicU32::new(0), end }
    }

    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        // SAFETY: the handle's share keeps it alive.
        unsafe { self.core.as_ref() }
    }

    /// A share for an event.
    #[inline(always)]
    pub(super) fn lend(&self) -> Lent<T> {
        if os_thread() == self.owner {
            // ORDER: Relaxed: only this OS thread writes, and `drop` reads
            // with exclusive access.
            self.lent.store(self.lent.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            let mut state = self.core().lock();
            let side = state.side(self.end);
            side.lent = side.lent.wrapping_add(1);
        }
        Lent { core: self.core }
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        let mut state = self.core().lock();
        let side = state.side(self.end);
        side.handles = side.handles.checked_add(1).expect("a channel has fewer than 2^32 handles");
        drop(state);
        Self::new(self.core, self.end)
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        let lent = self.lent.load(Ordering::Relaxed);
        let mut wakes = Wakes::new();
        let rest = self.core().change(&mut wakes, |state| {
            let side = state.side(self.end);
            side.handles -= 1;
            side.lent = side.lent.wrapping_add(lent);
        });
        // SAFETY: the handle's share is gone.
        unsafe { finish(self.core, rest) };
        wakes.queue();
    }
}

impl<T> Lent<T> {
    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        // SAFETY: the share keeps it alive; whoever gives the share up does
        // not call this again.
        unsafe { self.core.as_ref() }
    }

    /// Another share for an event's copy.
    pub(super) fn again(&self, end: End) -> Self {
        let mut state = self.core().lock();
        let side = state.side(end);
        side.lent = side.lent.wrapping_add(1);
        drop(state);
        Self { core: self.core }
    }

    /// After a critical section that gave the share up.
    ///
    /// # Safety
    /// The share has been given up, and `rest` comes from there.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, rest: Rest<T>) {
        // SAFETY: the caller's contract.
        unsafe { finish(self.core, rest) };
    }
}
