//! The channel itself: one lock, two wait queues, a buffer.
//!
//! Rendezvous channels, bounded channels and mailboxes differ in their capacity only: 0, *n*, and none. A message
//! that was committed to a receiver may not be taken by it. Then it goes back to the head of the buffer, whatever the
//! capacity.
//!
//! * INV-MATCH: while the lock is free, no offer that can still commit waits beside a message, a place or a partner
//!   that it could have.
//! * INV-SIDE: a side (senders, receivers) is gone when it was closed, or when no handle and no event of it is left.
//!
//! **Counting.** Events own a share of their side. If they did not, a message could be lost to a receiver that still
//! waits. A handle counts the events that it lends with a plain store (`handle.rs`). It reports the sum now and then,
//! and when it is dropped. An event subtracts one when it ends, if possible under the lock that it holds then anyway.
//! So the count of events wraps while a handle lives, and is exact when there is none.
//!
//! A partner never gives up another's share, so an event's channel is alive until its owner has ended the event.
//! There are three exceptions. A *counted* offer leaves its share to its partner, since the owner is told of the last
//! such offer only. A *detached* offer does too, since it has no owner. A message that lies in the channel itself
//! (`left.rs`) keeps the share of its send, and the receiver that takes it gives the share up.
//!
//! **The end.** A message that was committed to a waiting receiver may still come back. Until it is taken, no thread
//! is told that the channel is closed.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::handle::Share;
use super::left::Left;
use super::meet::{Meet, commit, meet};
use super::state::{CLOSED, End, RECEIVABLE, SENDABLE, Side, Slot, State, Unread, WATCHED};
use crate::event::{Offer, Offered, Offering, Verdict, WakeList};
use crate::frame::report::Census;
use crate::sched::{WakePriority, Worker};
use crate::sync::switches::{CHANNEL_BLOCKS, INLINE_MESSAGE};
use crate::sync::{BiasedGuard, BiasedLock, History};

/// The state that the handles and events of a channel share.
///
/// The lock's hint tells the poll phase what it can know without the lock. A bit that is clear rules an operation
/// out. A bit that is set promises nothing.
pub(super) struct Core<T>(BiasedLock<State<T>>, #[allow(dead_code, reason = "for its size")] Apart);

/// Padding of 32 bytes. Channels are made one after the other, each of 80 bytes with a word before it. With the
/// padding, none shares a cache line of 64 bytes with the next, wherever the first one lies. Two processors may use
/// them. To align them would cost five times the memory.
type Apart = MaybeUninit<[u8; 32]>;

/// The layout of the channels whose memory is kept for the next ones.
pub(crate) const CHANNEL: Layout = Layout::new::<Core<()>>();

impl<T> Core<T> {
    const IS_KEPT: bool = {
        let layout = Layout::new::<Self>();
        CHANNEL_BLOCKS && layout.size() == CHANNEL.size() && layout.align() == CHANNEL.align()
    };

    /// Makes a channel, for a first handle of each side. `me` is the calling OS thread.
    #[inline(never)]
    pub(super) fn boxed(capacity: u32, me: u32) -> NonNull<Self> {
        let spare = || Worker::current().and_then(|vp| vp.channels.take(me, vp.revoked()));
        let (place, history) = match if Self::IS_KEPT { spare() } else { None } {
            Some((block, history)) => (block.cast::<Self>(), history),
            None => (NonNull::from(Box::leak(Box::<Self>::new_uninit())).cast(), History::NONE),
        };
        // Built in place, since a copy would wait for the stores.
        // SAFETY: the block is large enough, and no other thread has it.
        unsafe { place.write(Self::new(capacity, history)) };
        place
    }

    /// Frees a channel that `boxed` has made.
    ///
    /// # Safety
    /// No handle and no event refers to the channel, and its content has been taken out.
    #[inline(always)]
    unsafe fn free(core: NonNull<Self>, history: History) {
        // SAFETY: the caller promises that no handle and no event refers to the channel. The content of the state has
        // been taken out, and nothing else in it has to be dropped.
        unsafe {
            BiasedLock::end(&raw mut (*core.as_ptr()).0);
            let kept =
                Self::IS_KEPT && Worker::current().is_some_and(|vp| vp.channels.keep(core.cast(), history));
            if !kept {
                drop(Box::from_raw(core.as_ptr().cast::<MaybeUninit<Self>>()));
            }
        }
    }

    #[inline(always)]
    fn new(capacity: u32, history: History) -> Self {
        Self(
            BiasedLock::with_history(State::new(capacity), if capacity > 0 { SENDABLE } else { 0 }, history),
            Apart::uninit(),
        )
    }

    /// The numbers of senders and receivers, not counting events.
    pub(super) fn handles(&self) -> [u32; 2] {
        let state = self.lock();
        [state.tx.handles(), state.rx.handles()]
    }

    /// Counts the handles and events that share the channel. Returns `None` if one of `offers`, which are of this
    /// channel, does not wait any more.
    ///
    /// # Safety
    /// The offers are alive, and their owners cannot run.
    pub(super) unsafe fn census(&self, offers: &[NonNull<()>]) -> Option<[Census; 2]> {
        let state = self.lock();
        // SAFETY: the caller promises that the offers are alive and their owners cannot run, and the lock is held.
        let waiting = offers.iter().all(|offer| unsafe { offer.cast::<Offer>().as_ref() }.is_waiting());
        let count = |side: &Side| Census { handles: side.handles(), events: side.events() };
        waiting.then(|| [count(&state.tx), count(&state.rx)])
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> BiasedGuard<'_, State<T>> {
        self.0.lock()
    }

    /// Whether an operation might commit now. A hint: ask again under the lock.
    #[inline(always)]
    pub(super) fn may_commit(&self, end: End) -> bool {
        let bit = if end == End::Tx { SENDABLE } else { RECEIVABLE };
        // A set bit is checked under the lock, and a clear one is checked again when the offer is made.
        self.0.hint() & bit != 0
    }

    /// Ends a critical section that changed the queues or the buffer. Any operation may be possible then, so both
    /// bits are set. An attempt that fails clears those that do not hold.
    #[inline(always)]
    fn unlock(mut state: BiasedGuard<'_, State<T>>, wakes: &mut WakeList) {
        state.set_hint(SENDABLE | RECEIVABLE);
        if state.capacity & WATCHED != 0 {
            state.tell_watchers(wakes);
        }
    }

    /// Ends a critical section of a channel that has no watchers, with a precise hint.
    #[inline(always)]
    fn unlock_precisely(state: BiasedGuard<'_, State<T>>) {
        let sendable = if state.is_sendable() { SENDABLE } else { 0 };
        let receivable = if state.is_receivable() { RECEIVABLE } else { 0 };
        state.set_hint(sendable | receivable);
    }

    /// Leaves a small message that is sent asynchronously in the channel, if that is possible. If not, returns it.
    /// The message has the share of the caller's event, or, if `lends` is 1, one of the caller's handle.
    #[inline(always)]
    pub(super) fn leave(&self, message: T, lends: u32) -> Option<T> {
        if const { !(INLINE_MESSAGE && Left::<T>::FITS) } || self.0.hint() != 0 {
            return Some(message);
        }
        let mut state = self.lock();
        if !state.may_leave() {
            return Some(message);
        }
        if lends > 0 {
            state.side(End::Tx).lend(lends);
        }
        state.leave(message);
        state.set_hint(RECEIVABLE);
        None
    }

    /// Tries once to send the slot's message. If that fails and `own` may wait, makes an offer. A commit gives up the
    /// event's share of the side.
    ///
    /// # Safety
    /// The caller has a share. The slot is pinned, not linked, and belongs to the caller. If the result is `Linked`,
    /// the owner retracts the slot before it dies.
    #[inline(always)]
    pub(super) unsafe fn send<S: Share<T>>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        // SAFETY: the caller's share keeps the channel alive.
        let this = unsafe { core.as_ref() };
        let mut state = this.lock();
        'open: {
            if state.is_closed_for_senders() {
                if !commit(own) {
                    break 'open;
                }
                slot.offer.verdict.set(Verdict::Closed);
            } else {
                // SAFETY: the lock of the list is held.
                match unsafe { meet(&mut state.receivers, own) } {
                    Meet::Won(offer) => {
                        // SAFETY: the slot belongs to the caller, and the partner's offer is won. So both messages
                        // are ours under the lock.
                        unsafe {
                            let message = slot.take().expect("a message is sent once");
                            offer.cast::<Slot<T>>().as_ref().put(message);
                            let ticket = state.ticket;
                            state.ticket = ticket + 1;
                            let turn = offer.as_ref().group().turn_if_given();
                            wakes.push_for(Offer::complete_stamped(offer, ticket), turn);
                        }
                    }
                    Meet::WithShare(offer) => {
                        // SAFETY: the slot belongs to the caller, the partner's offer is won and unlinked, and the
                        // lock is held. The caller's share is given up by this.
                        unsafe { Self::send_with_share::<S>(core, state, slot, offer, own.is_none(), wakes) };
                        return Offered::Committed;
                    }
                    Meet::Lost => break 'open,
                    Meet::Nobody if state.has_room() => {
                        if !commit(own) {
                            break 'open;
                        }
                        // SAFETY: the slot belongs to the caller, and is not linked.
                        state.keep(unsafe { slot.take() }.expect("a message is sent once"));
                    }
                    Meet::Nobody => {
                        let Some(own) = own else {
                            Self::unlock_precisely(state);
                            return Offered::Linked;
                        };
                        // SAFETY: the lock is held. The slot is pinned and not linked, and its owner retracts it
                        // before it dies, as the caller promises.
                        unsafe { state.senders.push(slot.as_offer(), own) };
                        Self::unlock(state, wakes);
                        return Offered::Linked;
                    }
                }
                slot.offer.verdict.set(Verdict::Committed);
            }
            // SAFETY: the event has committed, so its share is given up here, and the channel is not used afterwards.
            unsafe { Self::give_up::<S>(core, state, End::Tx, own.is_none(), wakes) };
            return Offered::Committed;
        }
        Self::unlock(state, wakes);
        Offered::Lost
    }

    /// Tries once to receive into the slot. If that fails and `own` may wait, makes an offer. A commit gives up the
    /// event's share of the side.
    ///
    /// # Safety
    /// The caller has a share. The slot is pinned, not linked, and belongs to the caller. If the result is `Linked`,
    /// the owner retracts the slot before it dies.
    #[inline(always)]
    pub(super) unsafe fn receive<S: Share<T>>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        // SAFETY: the caller's share keeps the channel alive.
        let this = unsafe { core.as_ref() };
        let mut state = this.lock();
        'open: {
            if state.buffered() > 0 {
                if !commit(own) {
                    break 'open;
                }
                let message = state.buffer.as_mut().and_then(|buffer| buffer.pop());
                // SAFETY: the slot belongs to the caller, and is not linked.
                unsafe { slot.put(message.expect("not empty")) };
                slot.offer.verdict.set(Verdict::Committed);
                if !state.senders.is_empty() && state.refill(wakes) {
                    if S::OWNED {
                        state.side(End::Rx).give_up();
                    }
                    // SAFETY: the event has committed, and its share, if it has one, was given up above.
                    unsafe { Self::finish(core, state, wakes) };
                    return Offered::Committed;
                }
            } else if state.has_left() {
                if !commit(own) {
                    break 'open;
                }
                let message = state.take_left();
                // SAFETY: the slot belongs to the caller, and is not linked.
                unsafe { slot.put(message) };
                slot.offer.verdict.set(Verdict::Committed);
                if !state.tx.has_handles() {
                    if S::OWNED {
                        state.side(End::Rx).give_up();
                    }
                    // SAFETY: the event has committed, and its share, if it has one, was given up above.
                    unsafe { Self::finish(core, state, wakes) };
                    return Offered::Committed;
                }
            } else {
                // SAFETY: the lock of the list is held.
                match unsafe { meet(&mut state.senders, own) } {
                    Meet::Won(offer) => {
                        // SAFETY: the slot belongs to the caller, and the partner's offer is won. So both messages
                        // are ours under the lock.
                        unsafe {
                            let message = offer.cast::<Slot<T>>().as_ref().take();
                            slot.put(message.expect("a waiting sender has its message"));
                            wakes.push(Offer::complete(offer, Verdict::Committed));
                        }
                        slot.offer.verdict.set(Verdict::Committed);
                    }
                    Meet::WithShare(offer) => {
                        // SAFETY: the slot belongs to the caller, the partner's offer is won and unlinked, and the
                        // lock is held. The caller's share is given up by this.
                        unsafe {
                            Self::receive_with_share::<S>(core, state, slot, offer, own.is_none(), wakes)
                        };
                        return Offered::Committed;
                    }
                    Meet::Lost => break 'open,
                    Meet::Nobody if state.is_closed_for_receivers() && state.is_drained() => {
                        if !commit(own) {
                            break 'open;
                        }
                        slot.offer.verdict.set(Verdict::Closed);
                    }
                    Meet::Nobody => {
                        let Some(own) = own else {
                            Self::unlock_precisely(state);
                            return Offered::Linked;
                        };
                        // SAFETY: the lock is held. The slot is pinned and not linked, and its owner retracts it
                        // before it dies, as the caller promises.
                        unsafe { state.receivers.push(slot.as_offer(), own) };
                        Self::unlock(state, wakes);
                        return Offered::Linked;
                    }
                }
            }
            // SAFETY: the event has committed, so its share is given up here, and the channel is not used afterwards.
            unsafe { Self::give_up::<S>(core, state, End::Rx, own.is_none(), wakes) };
            return Offered::Committed;
        }
        Self::unlock(state, wakes);
        Offered::Lost
    }

    /// Ends a critical section in which an event committed. The event gives its share up, if it has one of its own.
    /// `chosen` says that other threads are likely to ask for the hint.
    ///
    /// # Safety
    /// The share belongs to the caller, which does not use the channel afterwards.
    #[inline(always)]
    unsafe fn give_up<S: Share<T>>(
        core: NonNull<Self>,
        mut state: BiasedGuard<'_, State<T>>,
        end: End,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        if S::OWNED {
            state.side(end).give_up();
        }
        // An event that borrows its handle has that handle beside it.
        let has_handles = !S::OWNED || state.side(end).has_handles();
        if chosen && has_handles && state.capacity & WATCHED == 0 {
            // SAFETY: a handle keeps the channel alive until the lock is released.
            Self::unlock_precisely(state);
        } else if has_handles {
            // SAFETY: a handle keeps the channel alive until the lock is released.
            Self::unlock(state, wakes);
        } else {
            // SAFETY: the caller's share was given up above, and the caller does not use the channel afterwards.
            unsafe { Self::finish(core, state, wakes) };
        }
    }

    /// Sends the slot's message to an offer that has been won and leaves its share.
    ///
    /// # Safety
    /// The share and the slot belong to the caller, which does not use the channel afterwards. It has won and
    /// unlinked `theirs`, and holds the lock.
    #[inline(never)]
    unsafe fn send_with_share<S: Share<T>>(
        core: NonNull<Self>,
        state: BiasedGuard<'_, State<T>>,
        slot: &Slot<T>,
        theirs: NonNull<Offer>,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller promises that the slot is its own, and that it has won `theirs` under the lock. So both
        // messages are ours. The promises about share and lock pass on to `end_both`.
        unsafe {
            let message = slot.take().expect("a message is sent once");
            theirs.cast::<Slot<T>>().as_ref().put(message);
            slot.offer.verdict.set(Verdict::Committed);
            Self::end_both::<S>(core, state, theirs, End::Tx, chosen, wakes);
        }
    }

    /// Receives the message of an offer that has been won and leaves its share.
    ///
    /// # Safety
    /// The share and the slot belong to the caller, which does not use the channel afterwards. It has won and
    /// unlinked `theirs`, and holds the lock.
    #[inline(never)]
    unsafe fn receive_with_share<S: Share<T>>(
        core: NonNull<Self>,
        state: BiasedGuard<'_, State<T>>,
        slot: &Slot<T>,
        theirs: NonNull<Offer>,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller promises that the slot is its own, and that it has won `theirs` under the lock. So both
        // messages are ours. The promises about share and lock pass on to `end_both`.
        unsafe {
            let message = theirs.cast::<Slot<T>>().as_ref().take();
            slot.put(message.expect("a waiting sender has its message"));
            slot.offer.verdict.set(Verdict::Committed);
            Self::end_both::<S>(core, state, theirs, End::Rx, chosen, wakes);
        }
    }

    /// Ends a critical section in which an event of the side `end` committed with an offer that leaves its share.
    /// Both shares are given up.
    ///
    /// # Safety
    /// The share belongs to the caller, which does not use the channel afterwards. It has won and unlinked `theirs`,
    /// and holds the lock.
    #[inline(always)]
    unsafe fn end_both<S: Share<T>>(
        core: NonNull<Self>,
        mut state: BiasedGuard<'_, State<T>>,
        theirs: NonNull<Offer>,
        end: End,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        let other = if end == End::Tx { End::Rx } else { End::Tx };
        // SAFETY: the caller has won and unlinked the offer, and holds the lock.
        let waiter = unsafe { state.end_with_share(theirs, other, Verdict::Committed) };
        match end {
            End::Tx => wakes.push_for(waiter, WakePriority::Given),
            End::Rx => wakes.push(waiter),
        }
        if state.side(other).has_handles() {
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
    unsafe fn finish(core: NonNull<Self>, mut state: BiasedGuard<'_, State<T>>, wakes: &mut WakeList) {
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

    /// Frees the channel. No handle and no event refers to it.
    ///
    /// # Safety
    /// No share of the channel is left, and its content has been taken out.
    #[inline(always)]
    unsafe fn finish_for_good(core: NonNull<Self>, state: BiasedGuard<'_, State<T>>) {
        debug_assert!(state.buffer.is_none() && !state.has_left(), "it is with the unread");
        let history = state.history();
        drop(state);
        // SAFETY: `Core::boxed` made the channel. No share is left, and only one critical section finds that.
        unsafe { Self::free(core, history) };
    }

    /// Like `finish`, for a channel with waiters or content. The caller drops the messages that no receiver will get.
    ///
    /// # Safety
    /// The caller has no share of the channel any more.
    #[cold]
    #[inline(never)]
    unsafe fn finish_and_tell(
        core: NonNull<Self>,
        mut state: BiasedGuard<'_, State<T>>,
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
    pub(super) unsafe fn part<S: Share<T>>(
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
            ends |= state.side(end).is_unreferenced();
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
    pub(super) unsafe fn retract<S: Share<T>>(
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
            let list = if end == End::Tx { &mut state.senders } else { &mut state.receivers };
            // SAFETY: the offer is linked, and the lock of its list is held.
            unsafe { list.unlink(NonNull::from(&slot.offer)) };
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
            ends |= !state.side(end).has_handles();
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
    pub(super) unsafe fn take_back(&self, slot: &Slot<T>, end: End) -> bool {
        let mut state = self.lock();
        let linked = slot.offer.is_linked();
        if linked {
            let list = if end == End::Tx { &mut state.senders } else { &mut state.receivers };
            // SAFETY: the offer is linked, and the lock of its list is held.
            unsafe { list.unlink(NonNull::from(&slot.offer)) };
        }
        linked
    }

    /// Closes the channel.
    pub(super) fn close(&self, wakes: &mut WakeList) {
        let mut state = self.lock();
        state.capacity |= CLOSED;
        // The caller has a handle, so the channel stays alive.
        let unread = state.sides_changed(wakes);
        Self::unlock(state, wakes);
        unread.end();
    }

    /// Drops a handle, and adds the events that it has lent to the channel's count.
    ///
    /// # Safety
    /// The caller does not use the channel afterwards.
    pub(super) unsafe fn drop_handle(core: NonNull<Self>, end: End, lent: u32) {
        // SAFETY: the handle keeps the channel alive.
        let mut state = unsafe { core.as_ref() }.lock();
        state.side(end).drop_handle(lent);
        if state.side(end).is_unreferenced() {
            // SAFETY: the handle is not counted any more, and the caller does not use the channel afterwards.
            unsafe { Self::drop_last(core, state) };
        }
    }

    /// Ends a side: its last handle is gone, and no event of it is left.
    ///
    /// # Safety
    /// The caller has no share of the channel any more.
    #[inline(never)]
    unsafe fn drop_last(core: NonNull<Self>, state: BiasedGuard<'_, State<T>>) {
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
