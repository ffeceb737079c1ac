//! The channel itself: one lock, two wait queues, a buffer.
//!
//! Rendezvous, bounded channels and mailboxes differ in their capacity only:
//! 0, *n*, and none. A message that was committed to a receiver that never
//! took it goes back to the head of the buffer, whatever the capacity.
//!
//! * INV-MATCH: while the lock is free, no offer that can still commit waits
//!   beside a message, a place or a partner that it could have.
//! * INV-SIDE: a side (senders, receivers) is gone when it was closed, or when
//!   no handle and no event of it is left.
//!
//! **Counting.** Events own a share of their side, or a message could be lost
//! to a receiver that still waits. A handle counts the events that it lends
//! with a plain store (`handle.rs`) and reports the sum now and then, and when
//! it is dropped; events subtract one when they end, if possible under the lock
//! that they hold then anyway. A partner never gives up another's share, so an
//! event's channel is alive while its owner has not ended it. (Some offers *leave
//! their share* to their partner: of those that are counted the owner is told of the
//! last one only, and a detached one has no owner. A message that is left, `left.rs`, keeps
//! the share of its send.) So the count of events wraps while a handle lives, and is exact when there is none.
//!
//! **The end.** A message that was committed to a waiting receiver may still
//! come back. Until it is taken, nobody is told that the channel is closed.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::handle::Share;
use super::left::Left;
use super::meet::{Meet, commit, meet};
use super::state::{CLOSED, End, RECEIVABLE, SENDABLE, Side, Slot, State, Unread, WATCHED};
use crate::event::{Offer, Offered, Offering, Verdict, WakeList};
use crate::frame::report::Census;
use crate::sched::{Turn, Vp};
use crate::sync::{BiasedGuard, BiasedLock, History};

/// What the handles and events of a channel share.
///
/// The lock's hint is what the poll phase can know without it: a bit that is
/// not set denies; one that is set promises nothing.
pub(super) struct Core<T>(BiasedLock<State<T>>, #[allow(dead_code, reason = "for its size")] Apart);

/// Nothing. Channels that are made one after the other, each of 80 bytes with a word before it, are so far apart by it that
/// none of them shares a cache line of 64 bytes with the next, wherever the first one lies: two processors may use them. To
/// align them would cost five times the memory.
type Apart = MaybeUninit<[u8; 32]>;

impl<T> Core<T> {
    /// One that a first handle of each side will share; made by the OS thread `me`.
    #[inline(never)]
    pub(super) fn boxed(capacity: u32, me: u32) -> NonNull<Self> {
        let (place, history) = match Vp::current().and_then(|vp| vp.channels.take::<Self>(me, vp.revoked())) {
            Some(spare) => spare,
            None => (NonNull::from(Box::leak(Box::<Self>::new_uninit())).cast(), History::NONE),
        };
        // In place: a copy would wait for the stores.
        // SAFETY: the block is large enough, and ours.
        unsafe { place.write(Self::new(capacity, history)) };
        place
    }

    /// Frees what `boxed` has made.
    ///
    /// # Safety
    /// Nobody refers to it any more, and what was in it has been taken out.
    #[inline(always)]
    unsafe fn free(core: NonNull<Self>, history: History) {
        // SAFETY: the caller's contract; of a state only what was in it has to be dropped.
        unsafe {
            BiasedLock::end(&raw mut (*core.as_ptr()).0);
            let kept = Vp::current().is_some_and(|vp| vp.channels.keep(core, history));
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

    /// How many senders and receivers there are, not counting events.
    pub(super) fn handles(&self) -> [u32; 2] {
        let state = self.lock();
        [state.tx.handles(), state.rx.handles()]
    }

    /// Counts those who share the channel. `None` if one of `offers`, which are
    /// of this channel, does not wait any more.
    ///
    /// # Safety
    /// The offers are alive, and their owners cannot run.
    pub(super) unsafe fn census(&self, offers: &[NonNull<Offer>]) -> Option<[Census; 2]> {
        let state = self.lock();
        // SAFETY: the caller's contract, and the lock is held.
        let waiting = offers.iter().all(|offer| unsafe { offer.as_ref() }.is_waiting());
        let count = |side: &Side| Census { handles: side.handles(), events: side.events() };
        waiting.then(|| [count(&state.tx), count(&state.rx)])
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> BiasedGuard<'_, State<T>> {
        self.0.lock()
    }

    /// Whether an operation might commit now (a hint: ask under the lock).
    #[inline(always)]
    pub(super) fn may_commit(&self, end: End) -> bool {
        let bit = if end == End::Tx { SENDABLE } else { RECEIVABLE };
        // What it promises is looked for under the lock, and what it denies is
        // looked for again when the offer is made.
        self.0.hint() & bit != 0
    }

    /// Ends a critical section that changed the queues or the buffer. Then
    /// anything may be possible: whoever tries in vain says what is not.
    #[inline(always)]
    fn unlock(mut state: BiasedGuard<'_, State<T>>, wakes: &mut WakeList) {
        state.set_hint(SENDABLE | RECEIVABLE);
        if state.capacity & WATCHED != 0 {
            state.tell_watchers(wakes);
        }
    }

    /// Ends a critical section that nobody watches, with a precise hint.
    #[inline(always)]
    fn unlock_precisely(state: BiasedGuard<'_, State<T>>) {
        let sendable = if state.is_sendable() { SENDABLE } else { 0 };
        let receivable = if state.is_receivable() { RECEIVABLE } else { 0 };
        state.set_hint(sendable | receivable);
    }

    /// Leaves a small message that is sent asynchronously in the channel, if it may be left there. Otherwise gives
    /// it back. It has the share of the caller's event, or (`lends` 1) of the caller's handle.
    #[inline(always)]
    pub(super) fn leave(&self, message: T, lends: u32) -> Option<T> {
        if const { !Left::<T>::FITS } || self.0.hint() != 0 {
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

    /// One try to send the slot's message, then, if `own` may wait, an offer.
    /// On a commit the event's share of the side is given up.
    ///
    /// # Safety
    /// The caller has a share. The slot is pinned, not linked, and the caller's
    /// own. If the result is `Linked`, the owner retracts it before it dies.
    #[inline(always)]
    pub(super) unsafe fn send<S: Share<T>>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        // SAFETY: the caller's share keeps it alive.
        let this = unsafe { core.as_ref() };
        let mut state = this.lock();
        'open: {
            if state.is_closed_for_senders() {
                if !commit(own) {
                    break 'open;
                }
                slot.offer.verdict.set(Verdict::Closed);
            } else {
                // SAFETY: the lock is held.
                match unsafe { meet(&mut state.receivers, own) } {
                    Meet::Won(offer) => {
                        // SAFETY: the slot is ours, the partner's is won.
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
                        // SAFETY: the slot is ours, the partner's is won.
                        unsafe { Self::send_with_share::<S>(core, state, slot, offer, own.is_none(), wakes) };
                        return Offered::Committed;
                    }
                    Meet::Lost => break 'open,
                    Meet::Nobody if state.has_room() => {
                        if !commit(own) {
                            break 'open;
                        }
                        // SAFETY: the slot is ours.
                        state.keep(unsafe { slot.take() }.expect("a message is sent once"));
                    }
                    Meet::Nobody => {
                        let Some(own) = own else {
                            Self::unlock_precisely(state);
                            return Offered::Linked;
                        };
                        // SAFETY: the caller's contract.
                        unsafe { state.senders.push(slot.as_offer(), own) };
                        Self::unlock(state, wakes);
                        return Offered::Linked;
                    }
                }
                slot.offer.verdict.set(Verdict::Committed);
            }
            // SAFETY: the share goes with the commit.
            unsafe { Self::give_up::<S>(core, state, End::Tx, own.is_none(), wakes) };
            return Offered::Committed;
        }
        Self::unlock(state, wakes);
        Offered::Lost
    }

    /// One try to receive into the slot, then, if `own` may wait, an offer.
    /// On a commit the event's share of the side is given up.
    ///
    /// # Safety
    /// As for [`Core::send`].
    #[inline(always)]
    pub(super) unsafe fn receive<S: Share<T>>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        // SAFETY: the caller's share keeps it alive.
        let this = unsafe { core.as_ref() };
        let mut state = this.lock();
        'open: {
            if state.buffered() > 0 {
                if !commit(own) {
                    break 'open;
                }
                let message = state.buffer.as_mut().and_then(|buffer| buffer.pop());
                // SAFETY: the slot is ours.
                unsafe { slot.put(message.expect("not empty")) };
                slot.offer.verdict.set(Verdict::Committed);
                if !state.senders.is_empty() && state.refill(wakes) {
                    if S::OWNED {
                        state.side(End::Rx).give_up();
                    }
                    // SAFETY: the share went with the commit.
                    unsafe { Self::finish(core, state, wakes) };
                    return Offered::Committed;
                }
            } else if state.has_left() {
                if !commit(own) {
                    break 'open;
                }
                let message = state.take_left();
                // SAFETY: the slot is ours.
                unsafe { slot.put(message) };
                slot.offer.verdict.set(Verdict::Committed);
                if !state.tx.has_handles() {
                    if S::OWNED {
                        state.side(End::Rx).give_up();
                    }
                    // SAFETY: the share went with the commit.
                    unsafe { Self::finish(core, state, wakes) };
                    return Offered::Committed;
                }
            } else {
                // SAFETY: the lock is held.
                match unsafe { meet(&mut state.senders, own) } {
                    Meet::Won(offer) => {
                        // SAFETY: the slot is ours, the partner's is won.
                        unsafe {
                            let message = offer.cast::<Slot<T>>().as_ref().take();
                            slot.put(message.expect("a waiting sender has its message"));
                            wakes.push(Offer::complete(offer, Verdict::Committed));
                        }
                        slot.offer.verdict.set(Verdict::Committed);
                    }
                    Meet::WithShare(offer) => {
                        // SAFETY: the slot is ours, the partner's is won.
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
                        // SAFETY: the caller's contract.
                        unsafe { state.receivers.push(slot.as_offer(), own) };
                        Self::unlock(state, wakes);
                        return Offered::Linked;
                    }
                }
            }
            // SAFETY: the share goes with the commit.
            unsafe { Self::give_up::<S>(core, state, End::Rx, own.is_none(), wakes) };
            return Offered::Committed;
        }
        Self::unlock(state, wakes);
        Offered::Lost
    }

    /// Ends a critical section in which an event committed, which gives its
    /// share up, if it has one of its own. `chosen`: others are likely to ask for the hint.
    ///
    /// # Safety
    /// The share is the caller's, who does not use the channel afterwards.
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
        // An event that borrows its handle has that beside it.
        let has_handles = !S::OWNED || state.side(end).has_handles();
        if chosen && has_handles && state.capacity & WATCHED == 0 {
            // SAFETY: a handle keeps it alive until the lock is released.
            Self::unlock_precisely(state);
        } else if has_handles {
            // SAFETY: as above.
            Self::unlock(state, wakes);
        } else {
            // SAFETY: the caller's contract.
            unsafe { Self::finish(core, state, wakes) };
        }
    }

    /// Sends the slot's message to an offer that has been won and leaves its share.
    ///
    /// # Safety
    /// As for `end_both`; the slot is the caller's own.
    #[inline(never)]
    unsafe fn send_with_share<S: Share<T>>(
        core: NonNull<Self>,
        state: BiasedGuard<'_, State<T>>,
        slot: &Slot<T>,
        theirs: NonNull<Offer>,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller's contract.
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
    /// As for `send_with_share`.
    #[inline(never)]
    unsafe fn receive_with_share<S: Share<T>>(
        core: NonNull<Self>,
        state: BiasedGuard<'_, State<T>>,
        slot: &Slot<T>,
        theirs: NonNull<Offer>,
        chosen: bool,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller's contract.
        unsafe {
            let message = theirs.cast::<Slot<T>>().as_ref().take();
            slot.put(message.expect("a waiting sender has its message"));
            slot.offer.verdict.set(Verdict::Committed);
            Self::end_both::<S>(core, state, theirs, End::Rx, chosen, wakes);
        }
    }

    /// Ends a critical section in which an event of the side `end` committed
    /// with an offer that leaves its share: both go.
    ///
    /// # Safety
    /// As for `give_up`, and for [`State::end_with_share`].
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
        // SAFETY: the caller's contract.
        let waiter = unsafe { state.end_with_share(theirs, other, Verdict::Committed) };
        match end {
            End::Tx => wakes.push_for(waiter, Turn::Given),
            End::Rx => wakes.push(waiter),
        }
        if state.side(other).has_handles() {
            // SAFETY: the caller's contract.
            return unsafe { Self::give_up::<S>(core, state, end, chosen, wakes) };
        }
        if S::OWNED {
            state.side(end).give_up();
        }
        // SAFETY: the caller's contract.
        unsafe { Self::finish(core, state, wakes) };
    }

    /// Ends a critical section after which a side may be gone.
    ///
    /// # Safety
    /// The caller has no share of the channel any more.
    #[inline(never)]
    unsafe fn finish(core: NonNull<Self>, mut state: BiasedGuard<'_, State<T>>, wakes: &mut WakeList) {
        if !state.is_quiet() {
            // SAFETY: the caller's contract.
            return unsafe { Self::finish_and_tell(core, state, wakes) }.drop_quietly();
        }
        if state.is_unreferenced() {
            // SAFETY: the caller's contract.
            unsafe { Self::finish_for_good(core, state) };
        } else {
            state.close_sides();
            state.set_hint(SENDABLE | RECEIVABLE);
        }
    }

    /// As `finish`, of a channel that nobody refers to.
    ///
    /// # Safety
    /// As for `finish`; what was in it has been taken out.
    #[inline(always)]
    unsafe fn finish_for_good(core: NonNull<Self>, state: BiasedGuard<'_, State<T>>) {
        debug_assert!(state.buffer.is_none() && !state.has_left(), "it is with the unread");
        let history = state.history();
        drop(state);
        // SAFETY: made by `handle::pair`; one critical section is the last.
        unsafe { Self::free(core, history) };
    }

    /// As `finish`, where somebody may wait, or something be kept. What nobody will receive is the caller's to drop.
    ///
    /// # Safety
    /// As for `finish`.
    #[cold]
    #[inline(never)]
    unsafe fn finish_and_tell(
        core: NonNull<Self>,
        mut state: BiasedGuard<'_, State<T>>,
        wakes: &mut WakeList,
    ) -> Unread<T> {
        let unread = state.sides_changed(wakes);
        if state.is_unreferenced() {
            // SAFETY: the caller's contract; it has been taken out.
            unsafe { Self::finish_for_good(core, state) };
        } else {
            // The last touch: whoever comes next may find that nobody refers to it.
            Self::unlock(state, wakes);
        }
        unread
    }

    /// An event gives its share up, and nothing else: a partner has completed
    /// it, or it was never offered. `arrived`: it is a receive that has its
    /// message from a partner, so that the end of the channel may be told.
    ///
    /// # Safety
    /// As for `give_up`.
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
        // SAFETY: the caller's share keeps it alive.
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
            // SAFETY: the caller's contract.
            unsafe { Self::finish(core, state, wakes) };
        }
    }

    /// An event that did not win ends: unlinks it, and gives its share up. A
    /// message that a partner committed to it goes back to the head of the
    /// channel.
    ///
    /// # Safety
    /// As for `give_up`; the slot is the caller's own, of the side `end`.
    #[inline(never)]
    pub(super) unsafe fn retract<S: Share<T>>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        end: End,
        wakes: &mut WakeList,
    ) {
        // SAFETY: the caller's share keeps it alive.
        let mut guard = unsafe { core.as_ref() }.lock();
        let state = &mut *guard;
        let mut ends = false;
        if slot.offer.is_linked() {
            let list = if end == End::Tx { &mut state.senders } else { &mut state.receivers };
            // SAFETY: linked, under the lock of its list.
            unsafe { list.unlink(NonNull::from(&slot.offer)) };
        } else if end == End::Rx && slot.offer.verdict.get() == Verdict::Committed {
            // SAFETY: unlinked, so it is the owner's.
            if let Some(message) = unsafe { slot.take() } {
                state.taken = state.taken.wrapping_add(1);
                // SAFETY: a partner has completed it, with a ticket.
                let ticket = unsafe { slot.offer.stamp() };
                ends = state.give_back(ticket, message, wakes);
            }
        }
        if S::OWNED {
            state.side(end).give_up();
            ends |= !state.side(end).has_handles();
        }
        if ends {
            // SAFETY: the caller's contract.
            return unsafe { Self::finish_and_tell(core, guard, wakes) }.end();
        }
        if guard.capacity & WATCHED == 0 {
            Self::unlock_precisely(guard);
        } else {
            Self::unlock(guard, wakes);
        }
    }

    /// An offer leaves its queue, and nothing else. False: it is in none.
    ///
    /// # Safety
    /// The slot is the caller's own, of the side `end`.
    pub(super) unsafe fn take_back(&self, slot: &Slot<T>, end: End) -> bool {
        let mut state = self.lock();
        let linked = slot.offer.is_linked();
        if linked {
            let list = if end == End::Tx { &mut state.senders } else { &mut state.receivers };
            // SAFETY: linked, under the lock of its list.
            unsafe { list.unlink(NonNull::from(&slot.offer)) };
        }
        linked
    }

    /// Closes the channel.
    pub(super) fn close(&self, wakes: &mut WakeList) {
        let mut state = self.lock();
        state.capacity |= CLOSED;
        // The caller refers to the channel.
        let unread = state.sides_changed(wakes);
        Self::unlock(state, wakes);
        unread.end();
    }

    /// A handle goes, and leaves what it has lent.
    ///
    /// # Safety
    /// The caller does not use the channel afterwards.
    pub(super) unsafe fn drop_handle(core: NonNull<Self>, end: End, lent: u32) {
        // SAFETY: the handle keeps it alive.
        let mut state = unsafe { core.as_ref() }.lock();
        state.side(end).drop_handle(lent);
        if state.side(end).is_unreferenced() {
            // SAFETY: the caller's contract.
            unsafe { Self::drop_last(core, state) };
        }
    }

    /// The last handle of a side has gone, and no event of it is left.
    ///
    /// # Safety
    /// As for `finish`.
    #[inline(never)]
    unsafe fn drop_last(core: NonNull<Self>, state: BiasedGuard<'_, State<T>>) {
        if state.is_quiet() && state.is_unreferenced() {
            // SAFETY: the caller's contract.
            return unsafe { Self::finish_for_good(core, state) };
        }
        let mut wakes = WakeList::new();
        // SAFETY: as above.
        let unread = unsafe { Self::finish_and_tell(core, state, &mut wakes) };
        wakes.queue();
        unread.end();
    }
}
