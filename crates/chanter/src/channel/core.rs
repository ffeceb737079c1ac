//! The channel itself: one lock, two wait queues, a buffer.
//!
//! Rendezvous channels, bounded channels and mailboxes differ in their capacity only: 0, *n*, and none. A message
//! that was committed to a receiver may not be taken by it. Then it goes back to the head of the buffer, whatever the
//! capacity.
//!
//! * INV-MATCH: while the lock is free, no offer that can still commit waits beside a message, a place or a partner
//!   that it could have.
//! * INV-SIDE: a side (senders, receivers) is gone when it was closed, or when no share of it is left.
//!
//! **Shares.** Each handle has one share of its side. An event that borrows its handle has none: the handle stays
//! beside it. An event that owns its handle takes over the share of that handle. It gives the share up when it ends, if
//! possible under the lock that it holds then anyway.
//!
//! A partner never gives up another's share, so an event's channel is alive until its owner has ended the event.
//! There are three exceptions. A *counted* offer leaves its share to its partner, since the owner is told of the last
//! such offer only. A *detached* offer adds a share when it begins to wait, and leaves it to its partner, since it has
//! no owner. A message that lies in the channel itself (`left.rs`) has a share, too. The receiver that takes it gives
//! the share up.
//!
//! **The end.** A message that was committed to a waiting receiver may still come back. Until it is taken, no thread
//! is told that the channel is closed.

mod ending;

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::handle::Shared;
use super::left::Left;
use super::meet::{Meet, commit, meet};
use super::state::{End, RECEIVABLE, SENDABLE, Slot, State, WATCHED};
use crate::event::{Offer, Offered, Offering, Verdict, WakeList};
use crate::sched::Worker;
use crate::sync::switches::{CHANNEL_BLOCKS, INLINE_MESSAGE};
use crate::sync::{Guard, Lock};

/// The state that the handles and events of a channel share.
///
/// The lock's hint tells the poll phase what it can know without the lock. A bit that is clear rules an operation
/// out. A bit that is set promises nothing.
pub(super) struct Core<T>(Lock<State<T>>, #[allow(dead_code, reason = "for its size")] Apart);

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

    /// Makes a channel, for a first handle of each side.
    #[inline(never)]
    pub(super) fn boxed(capacity: u32) -> NonNull<Self> {
        let spare = || Worker::current().and_then(|worker| worker.channels.take());
        let place = match if Self::IS_KEPT { spare() } else { None } {
            Some(block) => block.cast::<Self>(),
            None => NonNull::from(Box::leak(Box::<Self>::new_uninit())).cast(),
        };
        // Built in place, since a copy would wait for the stores.
        // SAFETY: the block is large enough, and no other thread has it.
        unsafe { place.write(Self::new(capacity)) };
        place
    }

    /// Frees a channel that `boxed` has made.
    ///
    /// # Safety
    /// No handle and no event refers to the channel, and its content has been taken out.
    #[inline(always)]
    unsafe fn free(core: NonNull<Self>) {
        // SAFETY: the caller promises that no handle and no event refers to the channel. The content of the state has
        // been taken out, and nothing else in it has to be dropped.
        unsafe {
            Lock::end(&raw mut (*core.as_ptr()).0);
            let kept =
                Self::IS_KEPT && Worker::current().is_some_and(|worker| worker.channels.keep(core.cast()));
            if !kept {
                drop(Box::from_raw(core.as_ptr().cast::<MaybeUninit<Self>>()));
            }
        }
    }

    #[inline(always)]
    fn new(capacity: u32) -> Self {
        let hint = if capacity > 0 { SENDABLE } else { 0 };
        Self(Lock::hinted(State::new(capacity), hint), Apart::uninit())
    }

    /// The numbers of shares of the senders, and of the receivers.
    pub(super) fn shares(&self) -> [u64; 2] {
        let state = self.lock();
        [state.tx.shares(), state.rx.shares()]
    }

    /// Counts the shares of the channel. Returns `None` if one of `offers`, which are of this channel, does not wait
    /// any more.
    ///
    /// # Safety
    /// The offers are alive, and their owners cannot run.
    pub(super) unsafe fn census(&self, offers: &[NonNull<()>]) -> Option<[u64; 2]> {
        let state = self.lock();
        // SAFETY: the caller promises that the offers are alive and their owners cannot run, and the lock is held.
        let waiting = offers.iter().all(|offer| unsafe { offer.cast::<Offer>().as_ref() }.is_waiting());
        waiting.then(|| [state.tx.shares(), state.rx.shares()])
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Guard<'_, State<T>> {
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
    fn unlock(mut state: Guard<'_, State<T>>, wakes: &mut WakeList) {
        state.set_hint(SENDABLE | RECEIVABLE);
        if state.capacity & WATCHED != 0 {
            state.tell_watchers(wakes);
        }
    }

    /// Ends a critical section of a channel that has no watchers, with a precise hint.
    #[inline(always)]
    fn unlock_precisely(state: Guard<'_, State<T>>) {
        let sendable = if state.is_sendable() { SENDABLE } else { 0 };
        let receivable = if state.is_receivable() { RECEIVABLE } else { 0 };
        state.set_hint(sendable | receivable);
    }

    /// Leaves a small message that is sent asynchronously in the channel, if that is possible. If not, returns it.
    /// The message gets a share of the senders.
    #[inline(always)]
    pub(super) fn leave(&self, message: T) -> Option<T> {
        if const { !(INLINE_MESSAGE && Left::<T>::FITS) } || self.0.hint() != 0 {
            return Some(message);
        }
        let mut state = self.lock();
        if !state.may_leave() {
            return Some(message);
        }
        state.leave(message);
        state.set_hint(RECEIVABLE);
        None
    }

    /// Makes an offer of the slot, if `own` may wait.
    ///
    /// # Safety
    /// The slot is pinned and not linked. Its owner retracts it before it dies.
    #[inline(always)]
    unsafe fn wait<S: Shared>(
        mut state: Guard<'_, State<T>>,
        slot: &Slot<T>,
        end: End,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        match own {
            Some(own) => {
                // SAFETY: the lock is held. The rest is promised by the caller.
                unsafe { state.queue(end).push(slot.as_offer(), own) };
                if S::ADDS {
                    state.side(end).add();
                }
                Self::unlock(state, wakes);
            }
            None => Self::unlock_precisely(state),
        }
        Offered::Linked
    }

    /// Tries once to send the slot's message. If that fails and `own` may wait, makes an offer. A commit gives up the
    /// event's share of the side, if it owns one.
    ///
    /// # Safety
    /// The caller has a share, or borrows one. The slot is pinned, not linked, and belongs to the caller. If the result is `Linked`,
    /// the owner retracts the slot before it dies.
    #[inline(always)]
    pub(super) unsafe fn send<S: Shared>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        // SAFETY: the caller's share, or the one that it borrows, keeps the channel alive.
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
                        unsafe {
                            Self::end_with_share::<S>(core, state, slot, offer, End::Tx, own.is_none(), wakes)
                        };
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
                    // SAFETY: the slot is pinned and not linked, and its owner retracts it before it dies, as the
                    // caller promises.
                    Meet::Nobody => return unsafe { Self::wait::<S>(state, slot, End::Tx, own, wakes) },
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
    /// event's share of the side, if it owns one.
    ///
    /// # Safety
    /// The caller has a share, or borrows one. The slot is pinned, not linked, and belongs to the caller. If the result is `Linked`,
    /// the owner retracts the slot before it dies.
    #[inline(always)]
    pub(super) unsafe fn receive<S: Shared>(
        core: NonNull<Self>,
        slot: &Slot<T>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Offered {
        // SAFETY: the caller's share, or the one that it borrows, keeps the channel alive.
        let this = unsafe { core.as_ref() };
        let mut state = this.lock();
        'open: {
            if state.buffered() > 0 || state.has_left() {
                if !commit(own) {
                    break 'open;
                }
                let (message, ends) = state.take_own(wakes);
                // SAFETY: the slot belongs to the caller, and is not linked.
                unsafe { slot.put(message) };
                slot.offer.verdict.set(Verdict::Committed);
                if ends {
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
                            Self::end_with_share::<S>(core, state, slot, offer, End::Rx, own.is_none(), wakes)
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
                    // SAFETY: the slot is pinned and not linked, and its owner retracts it before it dies, as the
                    // caller promises.
                    Meet::Nobody => return unsafe { Self::wait::<S>(state, slot, End::Rx, own, wakes) },
                }
            }
            // SAFETY: the event has committed, so its share is given up here, and the channel is not used afterwards.
            unsafe { Self::give_up::<S>(core, state, End::Rx, own.is_none(), wakes) };
            return Offered::Committed;
        }
        Self::unlock(state, wakes);
        Offered::Lost
    }
}
