//! How operations and handles end: shares are given up, waiters are told, and the last one frees the channel. The
//! rules of the shares are in `core.rs`.

use std::ptr::NonNull;

use super::super::handle::Shared;
use super::super::state::{CLOSED, End, RECEIVABLE, SENDABLE, Slot, State, Unread, WATCHED};
use super::Core;
use crate::event::{Offer, Verdict, WakeList};
use crate::sched::WakePriority;
use crate::sync::Guard;

impl<T> Core<T> {
    /// Ends a critical section in which an event committed. The event gives its share up, if it has one of its own.
    /// `chosen` says that other threads are likely to ask for the hint.
    ///
    /// # Safety
    /// The share belongs to the caller, which does not use the channel afterwards.
    #[inline(always)]
    pub(super) unsafe fn give_up<S: Shared>(
        core: NonNull<Self>,
        mut state: Guard<'_, State<T>>,
        end: End,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        if S::OWNED {
            state.side(end).give_up();
        }
        // An event that borrows its handle has that handle beside it.
        let is_held = !S::OWNED || !state.side(end).is_gone();
        if chosen && is_held && state.capacity & WATCHED == 0 {
            // SAFETY: a share of this side keeps the channel alive until the lock is released.
            Self::unlock_precisely(state);
        } else if is_held {
            // SAFETY: a share of this side keeps the channel alive until the lock is released.
            Self::unlock(state, wakes);
        } else {
            // SAFETY: the caller's share was given up above, and the caller does not use the channel afterwards.
            unsafe { Self::finish(core, state, wakes) };
        }
    }

    /// Ends a critical section in which an event of the side `end` committed with an offer that leaves its share. Passes
    /// the message on, and gives up both shares.
    ///
    /// # Safety
    /// The share and the slot belong to the caller, which does not use the channel afterwards. It has won and
    /// unlinked `theirs`, and holds the lock.
    #[inline(never)]
    pub(super) unsafe fn end_with_share<S: Shared>(
        core: NonNull<Self>,
        mut state: Guard<'_, State<T>>,
        slot: &Slot<T>,
        theirs: NonNull<Offer>,
        end: End,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller promises that the slot is its own, and that it has won `theirs` under the lock. So both
        // messages are ours.
        unsafe {
            let partner = theirs.cast::<Slot<T>>().as_ref();
            let (from, to) = if end == End::Tx { (slot, partner) } else { (partner, slot) };
            to.put(from.take().expect("a sender has its message"));
        }
        slot.offer.verdict.set(Verdict::Committed);
        let other = if end == End::Tx { End::Rx } else { End::Tx };
        // SAFETY: the caller has won and unlinked the offer, and holds the lock.
        let waiter = unsafe { state.end_with_share(theirs, other, Verdict::Committed) };
        match end {
            End::Tx => wakes.push_for(waiter, WakePriority::Given),
            End::Rx => wakes.push(waiter),
        }
        if !state.side(other).is_gone() {
            // SAFETY: the share belongs to the caller, which does not use the channel afterwards.
            return unsafe { Self::give_up::<S>(core, state, end, chosen, wakes) };
        }
        if S::OWNED {
            state.side(end).give_up();
        }
        // SAFETY: the caller's share was given up above, and the caller does not use the channel afterwards.
        unsafe { Self::finish(core, state, wakes) };
    }

    /// Ends a critical section after which a side may be gone.
    ///
    /// # Safety
    /// The caller has no share of the channel any more.
    #[inline(never)]
    pub(super) unsafe fn finish(core: NonNull<Self>, mut state: Guard<'_, State<T>>, wakes: &mut WakeList) {
        if !state.is_quiet() {
            // SAFETY: the caller has no share of the channel any more.
            return unsafe { Self::finish_and_tell(core, state, wakes) }.drop_quietly();
        }
        if state.is_unreferenced() {
            // SAFETY: no share is left, the caller's included. A quiet channel has no content.
            unsafe { Self::finish_for_good(core, state) };
        } else {
            state.close_sides();
            state.set_hint(SENDABLE | RECEIVABLE);
        }
    }

    /// Frees the channel. No share of it is left.
    ///
    /// # Safety
    /// No share of the channel is left, and its content has been taken out.
    #[inline(always)]
    unsafe fn finish_for_good(core: NonNull<Self>, state: Guard<'_, State<T>>) {
        debug_assert!(state.buffer.is_none() && !state.has_left(), "it is with the unread");
        drop(state);
        // SAFETY: `Core::boxed` made the channel. No share is left, and only one critical section finds that.
        unsafe { Self::free(core) };
    }

    /// Like `finish`, for a channel with waiters or content. The caller drops the messages that no receiver will get.
    ///
    /// # Safety
    /// The caller has no share of the channel any more.
    #[cold]
    #[inline(never)]
    unsafe fn finish_and_tell(
        core: NonNull<Self>,
        mut state: Guard<'_, State<T>>,
        wakes: &mut WakeList,
    ) -> Unread<T> {
        let unread = state.sides_changed(wakes);
        if state.is_unreferenced() {
            // SAFETY: no share is left, the caller's included, and `sides_changed` has taken the content out.
            unsafe { Self::finish_for_good(core, state) };
        } else {
            // The last access: the next thread to take the lock may find that no share is left.
            Self::unlock(state, wakes);
        }
        unread
    }

    /// Gives up an event's share, and does nothing else: a partner has completed the event, or it was never offered.
    /// `arrived` says that it is a receive which has its message from a partner. Then waiters may be told of the
    /// channel's end.
    ///
    /// # Safety
    /// The share belongs to the caller, which does not use the channel afterwards.
    #[inline(always)]
    pub(in super::super) unsafe fn part<S: Shared>(
        core: NonNull<Self>,
        end: End,
        arrived: bool,
        wakes: &mut WakeList,
    ) {
        if !S::OWNED && !arrived {
            return;
        }
        // SAFETY: the caller's share keeps the channel alive.
        let mut state = unsafe { core.as_ref() }.lock();
        if arrived {
            state.taken = state.taken.wrapping_add(1);
        }
        let mut ends = arrived && state.is_closed_for_receivers();
        if S::OWNED {
            state.side(end).give_up();
            ends |= state.side(end).is_gone();
        }
        if ends {
            // SAFETY: the caller's share, if it was owned, was given up above, and the caller does not use the
            // channel afterwards.
            unsafe { Self::finish(core, state, wakes) };
        }
    }

    /// Ends an event that did not win: unlinks it, and gives its share up. A message that a partner committed to it
    /// goes back to the head of the channel.
    ///
    /// # Safety
    /// The share belongs to the caller, which does not use the channel afterwards. The slot is the caller's own, of
    /// the side `end`.
    #[inline(never)]
    pub(in super::super) unsafe fn retract<S: Shared>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        end: End,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller's share keeps the channel alive.
        let mut guard = unsafe { core.as_ref() }.lock();
        let state = &mut *guard;
        let mut ends = false;
        if slot.offer.is_linked() {
            // SAFETY: the offer is linked, and the lock of its list is held.
            unsafe { state.queue(end).unlink(NonNull::from(&slot.offer)) };
        } else if end == End::Rx && slot.offer.verdict.get() == Verdict::Committed {
            // SAFETY: the offer is unlinked, so the message belongs to the owner.
            if let Some(message) = unsafe { slot.take() } {
                state.taken = state.taken.wrapping_add(1);
                // SAFETY: a partner has completed the offer with a ticket, and the caller is its owner.
                let ticket = unsafe { slot.offer.stamp() };
                ends = state.give_back(ticket, message, wakes);
            }
        }
        if S::OWNED {
            state.side(end).give_up();
            ends |= state.side(end).is_gone();
        }
        if ends {
            // SAFETY: the caller's share, if it was owned, was given up above, and the caller does not use the
            // channel afterwards.
            return unsafe { Self::finish_and_tell(core, guard, wakes) }.end();
        }
        if guard.capacity & WATCHED == 0 {
            Self::unlock_precisely(guard);
        } else {
            Self::unlock(guard, wakes);
        }
    }

    /// Takes an offer out of its queue, and does nothing else. Returns false if it is in none.
    ///
    /// # Safety
    /// The slot is the caller's own, of the side `end`.
    pub(in super::super) unsafe fn take_back(&self, slot: &Slot<T>, end: End) -> bool {
        let mut state = self.lock();
        let linked = slot.offer.is_linked();
        if linked {
            // SAFETY: the offer is linked, and the lock of its list is held.
            unsafe { state.queue(end).unlink(NonNull::from(&slot.offer)) };
        }
        linked
    }

    /// Closes the channel.
    pub(in super::super) fn close(&self, wakes: &mut WakeList) {
        let mut state = self.lock();
        state.capacity |= CLOSED;
        // The caller has a handle, so the channel stays alive.
        let unread = state.sides_changed(wakes);
        Self::unlock(state, wakes);
        unread.end();
    }

    /// Drops a handle.
    ///
    /// # Safety
    /// The caller does not use the channel afterwards.
    pub(in super::super) unsafe fn drop_handle(core: NonNull<Self>, end: End) {
        // SAFETY: the handle keeps the channel alive.
        let mut state = unsafe { core.as_ref() }.lock();
        state.side(end).give_up();
        if state.side(end).is_gone() {
            // SAFETY: the handle is not counted any more, and the caller does not use the channel afterwards.
            unsafe { Self::drop_last(core, state) };
        }
    }

    /// Ends a side: its last share is gone.
    ///
    /// # Safety
    /// The caller has no share of the channel any more.
    #[inline(never)]
    unsafe fn drop_last(core: NonNull<Self>, state: Guard<'_, State<T>>) {
        if state.is_quiet() && state.is_unreferenced() {
            // SAFETY: no share is left, the caller's included. A quiet channel has no content.
            return unsafe { Self::finish_for_good(core, state) };
        }
        let mut wakes = WakeList::new();
        // SAFETY: the caller has no share of the channel any more.
        let unread = unsafe { Self::finish_and_tell(core, state, &mut wakes) };
        wakes.queue();
        unread.end();
    }
}
