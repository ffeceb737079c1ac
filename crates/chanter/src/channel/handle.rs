//! The shares of a channel that handles and events have.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::core::Core;
use super::state::End;
use crate::event::WakeList;
use crate::frame::report::{Held, Probe};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::os_thread;

/// A sender's or receiver's share of its channel.
///
/// The OS thread that made the handle counts the events that it lends with plain stores. Any other thread takes the
/// channel's lock. Both sums meet in `Side::lend` when the handle is dropped, which needs exclusive access.
pub(super) struct Handle<T, const END: bool> {
    core: NonNull<Core<T>>,
    /// The OS thread that may count without a lock.
    owner: u32,
    /// The number of events that the owner has lent since it last reported to the channel.
    lent: AtomicU32,
}

/// The number of lent events after which a handle reports, so that the sums stay small.
const REPORT: u32 = 4096;

/// Values of `END` of a [`Handle`]. It is a const parameter, so that handles are small.
pub(super) const TX: bool = true;
pub(super) const RX: bool = false;

/// An event's share of its channel. The event gives it up in one of its critical sections, or leaves it to its
/// partner. There is no destructor.
pub struct Lent<T> {
    core: NonNull<Core<T>>,
}

/// A handle's share, used by an event that borrows the handle. Nothing is counted, and nothing is given up.
///
/// If the event is leaked, the handle may be dropped before it. But then no thread touches the event's side of the
/// channel again, and the memory of the pinned event stays.
pub struct Borrowed<'a, T> {
    lent: Lent<T>,
    handle: PhantomData<&'a ()>,
}

/// The way in which an event refers to its channel.
pub trait Share<T> {
    /// Whether the event has a share of its own, and gives it up.
    const OWNED: bool;
    #[doc(hidden)]
    fn lent(&self) -> &Lent<T>;
}

impl<T> Share<T> for Lent<T> {
    const OWNED: bool = true;
    #[inline(always)]
    fn lent(&self) -> &Self {
        self
    }
}

impl<T> Share<T> for Borrowed<'_, T> {
    const OWNED: bool = false;
    #[inline(always)]
    fn lent(&self) -> &Lent<T> {
        &self.lent
    }
}

/// Makes a channel's first two handles.
// Inlined, so that handles are made where they stay: a copy would wait for the stores.
#[inline(always)]
pub(super) fn pair<T>(capacity: u32) -> (Handle<T, TX>, Handle<T, RX>) {
    let owner = os_thread();
    let core = Core::boxed(capacity);
    (Handle::new(core, owner), Handle::new(core, owner))
}

impl<T, const END: bool> Handle<T, END> {
    const SIDE: End = if END == TX { End::Tx } else { End::Rx };

    #[inline(always)]
    fn new(core: NonNull<Core<T>>, owner: u32) -> Self {
        Self { core, owner, lent: AtomicU32::new(0) }
    }

    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        // SAFETY: the handle's share keeps the channel alive.
        unsafe { self.core.as_ref() }
    }

    /// The channel for a report, while the handle exists.
    #[cold]
    pub(super) fn probe(&self) -> Probe {
        Lent { core: self.core }.probe()
    }

    /// The handle's counts for a report. Its thread cannot run meanwhile.
    #[cold]
    pub(super) fn held(&self) -> Held {
        // ORDER: Relaxed: the owner's thread cannot run, and other threads do not write.
        let lent = self.lent.load(Ordering::Relaxed);
        Held { channel: self.core.as_ptr() as usize, sends: END == TX, lent }
    }

    /// Makes a share for an event.
    #[inline(always)]
    pub(super) fn lend(&self) -> Lent<T> {
        if os_thread() == self.owner {
            // ORDER: Relaxed: only this OS thread writes, and `drop` reads with exclusive access.
            let lent = self.lent.load(Ordering::Relaxed) + 1;
            self.lent.store(lent, Ordering::Relaxed);
            if lent == REPORT {
                self.report();
            }
        } else {
            self.core().lock().side(Self::SIDE).lend(1);
        }
        Lent { core: self.core }
    }

    /// Returns the handle's own share, for an event that borrows the handle.
    #[inline(always)]
    pub(super) fn borrow(&self) -> Borrowed<'_, T> {
        Borrowed { lent: Lent { core: self.core }, handle: PhantomData }
    }

    #[cold]
    fn report(&self) {
        self.core().lock().side(Self::SIDE).lend(self.lent.load(Ordering::Relaxed));
        self.lent.store(0, Ordering::Relaxed);
    }
}

impl<T, const END: bool> Clone for Handle<T, END> {
    fn clone(&self) -> Self {
        self.core().lock().side(Self::SIDE).add_handle();
        Self::new(self.core, os_thread())
    }
}

impl<T, const END: bool> Drop for Handle<T, END> {
    fn drop(&mut self) {
        let lent = self.lent.load(Ordering::Relaxed);
        // SAFETY: the handle ends here, and does not use the channel afterwards.
        unsafe { Core::drop_handle(self.core, Self::SIDE, lent) };
    }
}

impl<T> Lent<T> {
    #[inline(always)]
    pub(super) fn core_ptr(&self) -> NonNull<Core<T>> {
        self.core
    }

    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        // SAFETY: the share keeps the channel alive. An event that has given the share up does not call this again.
        unsafe { self.core.as_ref() }
    }

    /// The channel for a report, while the share is held.
    #[cold]
    pub(super) fn probe(&self) -> Probe {
        // SAFETY: the caller of each function knows that the channel is alive: it has a share itself, or a thread
        // that waits there has one.
        unsafe {
            Probe {
                channel: self.core.cast(),
                handles: |channel| channel.cast::<Core<T>>().as_ref().handles(),
                census: |channel, offers| channel.cast::<Core<T>>().as_ref().census(offers),
                retain: |channel| {
                    let mut state = channel.cast::<Core<T>>().as_ref().lock();
                    state.side(End::Tx).lend(1);
                    state.side(End::Rx).lend(1);
                },
                release: |channel| {
                    let mut wakes = WakeList::new();
                    let core = channel.cast::<Core<T>>();
                    Core::part::<Lent<T>>(core, End::Tx, false, &mut wakes);
                    Core::part::<Lent<T>>(core, End::Rx, false, &mut wakes);
                    wakes.queue();
                },
            }
        }
    }

    /// Makes another share, for an event's copy.
    pub(super) fn again(&self, end: End) -> Self {
        self.core().lock().side(end).lend(1);
        Self { core: self.core }
    }
}
