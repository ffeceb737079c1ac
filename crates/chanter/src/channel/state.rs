//! What is under a channel's lock: who waits, what is kept, and who shares each side.

use std::ptr::NonNull;
use std::task::Waker;

use super::buffer::Buffer;
use super::left::Left;
use super::returned::Ticket;
use crate::event::{Offer, OfferList, Verdict, WakeList};
use crate::frame::catch_panic;
use crate::sched::Turn;
use crate::sync::UnsafeCell;

/// The hint of the lock: a send, or a receive, may commit now.
pub(super) const SENDABLE: u8 = 1;
pub(super) const RECEIVABLE: u8 = 2;

/// See the module.
pub(super) struct State<T> {
    pub(super) senders: OfferList,
    pub(super) receivers: OfferList,
    /// Allocated when the first message is kept.
    pub(super) buffer: Option<Box<Buffer<T>>>,
    /// The capacity, and the flags.
    pub(super) capacity: u32,
    /// How many of the commits to waiting receivers have been taken, or have come back, modulo 2^32. If the low half
    /// of `ticket` is the same, none is on its way: 2^32 at a time do not fit into memory.
    pub(super) taken: u32,
    /// The next commit to a waiting receiver.
    pub(super) ticket: Ticket,
    pub(super) tx: Side,
    pub(super) rx: Side,
    /// A message that was sent asynchronously: INV-LEFT.
    left: Left<T>,
}

/// What nobody will receive: to be dropped when no lock is held.
pub(super) struct Unread<T> {
    buffer: Option<Box<Buffer<T>>>,
    left: Option<T>,
}

/// The bits of `State::capacity` that are the capacity.
const CAPACITY: u32 = (1 << 27) - 1;
/// The capacity of a mailbox.
pub(super) const UNBOUNDED: u32 = CAPACITY;
/// A message is left.
const LEFT: u32 = 1 << 27;
/// Somebody has called `close`.
pub(super) const CLOSED: u32 = 1 << 28;
/// Sends fail.
const CLOSED_FOR_SENDERS: u32 = 1 << 29;
/// No message will follow those that are buffered, or on their way.
const CLOSED_FOR_RECEIVERS: u32 = 1 << 30;
/// A stream waits.
pub(super) const WATCHED: u32 = 1 << 31;

/// Senders or receivers: how many handles there are (the lower 24 bits), and
/// how many events besides (the upper 40, modulo 2^40: see "Counting" in `core.rs`).
#[derive(Debug)]
pub(super) struct Side(u64);

const EVENT: u64 = 1 << 24;
const HANDLES: u64 = EVENT - 1;

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Tx,
    Rx,
}

/// A base event's offer and its message: to be sent, or received.
#[repr(C)]
pub(super) struct Slot<T> {
    /// First, so that a pointer to it is a pointer to the slot.
    pub(super) offer: Offer,
    /// Owned as the offer is.
    pub(super) message: UnsafeCell<Option<T>>,
}

impl<T> Slot<T> {
    pub(super) fn new(message: Option<T>) -> Self {
        Self { offer: Offer::new(), message: UnsafeCell::new(message) }
    }

    pub(super) fn as_offer(&self) -> NonNull<Offer> {
        NonNull::from(self).cast()
    }

    /// # Safety
    /// The caller owns the message: it is the owner and nothing is linked, or
    /// a partner that has won the offer.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> Option<T> {
        // SAFETY: the caller's contract.
        self.message.with_mut(|message| unsafe { (*message).take() })
    }

    /// # Safety
    /// As for `take`.
    #[inline(always)]
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: the caller's contract; the place is empty.
        self.message.with_mut(|message| unsafe { *message = Some(value) });
    }
}

impl Side {
    pub(super) fn new() -> Self {
        Self(1)
    }

    #[inline(always)]
    pub(super) fn has_handles(&self) -> bool {
        self.0 & HANDLES != 0
    }

    pub(super) fn handles(&self) -> u32 {
        (self.0 & HANDLES) as u32
    }

    pub(super) fn events(&self) -> u64 {
        self.0 >> EVENT.trailing_zeros()
    }

    #[inline(always)]
    pub(super) fn is_unreferenced(&self) -> bool {
        self.0 == 0
    }

    /// # Panics
    /// If there are 2^24 - 1 handles already.
    pub(super) fn add_handle(&mut self) {
        assert!(self.0 & HANDLES != HANDLES, "a channel has fewer than 2^24 handles of a kind");
        self.0 += 1;
    }

    /// A handle goes, and leaves what it has lent.
    pub(super) fn drop_handle(&mut self, lent: u32) {
        self.0 -= 1;
        self.lend(lent);
    }

    /// More events. Handles report what they lend in small parts, so a large
    /// sum means that hundreds of billions of events have been leaked: then the
    /// count may not wrap, and the process ends.
    pub(super) fn lend(&mut self, events: u32) {
        self.0 = self.0.wrapping_add(u64::from(events) * EVENT);
        if (self.0 as i64) >> 24 > 1 << 38 {
            std::process::abort();
        }
    }

    #[inline(always)]
    pub(super) fn give_up(&mut self) {
        self.0 = self.0.wrapping_sub(EVENT);
    }
}

impl<T> Unread<T> {
    /// Drops it for whoever let the channel go. A panic of what was kept is theirs.
    pub(super) fn end(self) {
        let Self { buffer, left } = self;
        // Nobody can answer for what was sent asynchronously.
        catch_panic(|| drop(left));
        drop(buffer);
    }

    /// Drops it on behalf of an operation that has its own result to deliver.
    pub(super) fn drop_quietly(self) {
        catch_panic(|| self.end());
    }
}

impl<T> State<T> {
    #[inline(always)]
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            senders: OfferList::new(),
            receivers: OfferList::new(),
            buffer: None,
            capacity,
            tx: Side::new(),
            rx: Side::new(),
            ticket: 0,
            taken: 0,
            left: Left::NOTHING,
        }
    }

    #[inline(always)]
    pub(super) fn buffered(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len())
    }

    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        let capacity = self.capacity & CAPACITY;
        capacity == UNBOUNDED || self.buffered() < capacity as usize
    }

    #[inline(always)]
    pub(super) fn is_closed_for_senders(&self) -> bool {
        self.capacity & CLOSED_FOR_SENDERS != 0
    }

    #[inline(always)]
    pub(super) fn is_closed_for_receivers(&self) -> bool {
        self.capacity & CLOSED_FOR_RECEIVERS != 0
    }

    /// No message is buffered, and none is committed to a receiver that has not
    /// taken it yet, and might give it back.
    pub(super) fn is_drained(&self) -> bool {
        self.buffered() == 0 && self.ticket as u32 == self.taken
    }

    pub(super) fn len(&self) -> usize {
        self.buffered()
    }

    #[inline(always)]
    pub(super) fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Tx => &mut self.tx,
            End::Rx => &mut self.rx,
        }
    }

    /// A partner that has won an offer of the side `end` that leaves its share,
    /// and filled or emptied its slot, ends the owner's wait there.
    ///
    /// # Safety
    /// As for [`Offer::end_with_share`].
    #[inline(always)]
    pub(super) unsafe fn end_with_share(
        &mut self,
        offer: NonNull<Offer>,
        end: End,
        verdict: Verdict,
    ) -> Option<Waker> {
        self.side(end).give_up();
        // SAFETY: the caller's contract.
        unsafe { Offer::end_with_share(offer, verdict) }
    }

    /// Tells one who waits at `end` that the channel is closed. True: it has left
    /// its side.
    ///
    /// # Safety
    /// The caller has won and unlinked the offer, and holds the lock.
    unsafe fn complete_closed(&mut self, offer: NonNull<Offer>, end: End, wakes: &mut WakeList) -> bool {
        // SAFETY: the caller's contract. A message stays in the slot, for its
        // owner.
        unsafe {
            let leaves_its_share = offer.as_ref().group().leaves_its_share();
            if leaves_its_share {
                wakes.push(self.end_with_share(offer, end, Verdict::Closed));
            } else {
                wakes.push(Offer::complete(offer, Verdict::Closed));
            }
            leaves_its_share
        }
    }

    /// Whether nobody refers to the channel any more.
    #[inline(always)]
    pub(super) fn is_unreferenced(&self) -> bool {
        self.tx.is_unreferenced() && self.rx.is_unreferenced()
    }

    /// A side may have gone: those who wait for it are told, and what nobody
    /// can receive any more is taken out.
    #[inline(always)]
    pub(super) fn sides_changed(&mut self, wakes: &mut WakeList) -> Unread<T> {
        let mut left = None;
        // (A borrowed event that was forgotten may wait without a share.)
        if !self.is_unreferenced() || !self.senders.is_empty() || !self.receivers.is_empty() {
            while self.tell_sides(&mut left, wakes) {}
        }
        let buffer = if self.rx.is_unreferenced() { self.buffer.take() } else { None };
        Unread { buffer, left }
    }

    /// Nobody waits, and nothing is kept: there is nothing to tell of a side that has gone.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.senders.is_empty() && self.receivers.is_empty() && self.buffer.is_none() && !self.has_left()
    }

    /// Notes which sides are gone.
    #[inline(always)]
    pub(super) fn close_sides(&mut self) {
        let closed = self.capacity & CLOSED != 0;
        if closed || self.rx.is_unreferenced() {
            self.capacity |= CLOSED_FOR_SENDERS;
        }
        if closed || self.tx.is_unreferenced() {
            self.capacity |= CLOSED_FOR_RECEIVERS;
        }
    }

    /// One pass over those who wait. True: some have gone, so look again.
    fn tell_sides(&mut self, left: &mut Option<T>, wakes: &mut WakeList) -> bool {
        let mut some_gone = false;
        self.close_sides();
        if self.is_closed_for_senders() && self.has_left() {
            *left = Some(self.take_left());
            some_gone = true;
        }
        if self.is_closed_for_senders() && !self.senders.is_empty() {
            // SAFETY: the lock is held, and no group of ours is claimed.
            while let Some(offer) = unsafe { self.senders.win() } {
                // SAFETY: won.
                some_gone |= unsafe { self.complete_closed(offer, End::Tx, wakes) };
            }
        }
        if self.is_closed_for_receivers() && self.is_drained() && !self.receivers.is_empty() {
            // SAFETY: as above.
            while let Some(offer) = unsafe { self.receivers.win() } {
                // SAFETY: as above.
                some_gone |= unsafe { self.complete_closed(offer, End::Rx, wakes) };
            }
        }
        some_gone
    }

    pub(super) fn is_sendable(&self) -> bool {
        !self.receivers.is_empty() || self.has_room() || self.is_closed_for_senders()
    }

    pub(super) fn is_receivable(&self) -> bool {
        !self.senders.is_empty() || self.buffered() > 0 || self.capacity & (LEFT | CLOSED_FOR_RECEIVERS) != 0
    }

    /// A message may be left: INV-LEFT. (And nobody watches.)
    #[inline(always)]
    pub(super) fn may_leave(&self) -> bool {
        self.capacity & (CAPACITY | CLOSED | CLOSED_FOR_SENDERS | LEFT | WATCHED) == 0
            && self.buffered() == 0
            && self.senders.is_empty()
            && self.receivers.is_empty()
    }

    #[inline(always)]
    pub(super) fn has_left(&self) -> bool {
        Left::<T>::FITS && self.capacity & LEFT != 0
    }

    /// Leaves a message, which has a share of the senders.
    #[inline(always)]
    pub(super) fn leave(&mut self, message: T) {
        self.capacity |= LEFT;
        self.left.put(message);
    }

    /// Takes what is left, and gives its share up.
    #[inline(always)]
    pub(super) fn take_left(&mut self) -> T {
        assert!(self.has_left());
        self.capacity &= !LEFT;
        self.tx.give_up();
        // SAFETY: it is there, and now it is not.
        unsafe { self.left.take() }
    }

    /// If there is something to take, streams that wait poll again.
    #[cold]
    pub(super) fn tell_watchers(&mut self, wakes: &mut WakeList) {
        if !self.is_receivable() {
            return;
        }
        self.capacity &= !WATCHED;
        if let Some(buffer) = &mut self.buffer {
            buffer.take_watchers().into_iter().for_each(|(_, waker)| wakes.push(Some(waker)));
        }
    }

    /// The stream `id` (0: a new one) waits; see [`Buffer::watch`].
    pub(super) fn watch(&mut self, id: u64, waker: Waker) -> (u64, Option<Waker>) {
        self.capacity |= WATCHED;
        self.buffer.get_or_insert_default().watch(id, waker)
    }

    pub(super) fn unwatch(&mut self, id: u64) -> Option<Waker> {
        let buffer = self.buffer.as_mut()?;
        let waker = buffer.unwatch(id);
        if !buffer.is_watched() {
            self.capacity &= !WATCHED;
        }
        waker
    }

    /// A place is free: the first sender's message moves in. True: that may have
    /// been the last of its side.
    pub(super) fn refill(&mut self, wakes: &mut WakeList) -> bool {
        let mut some_gone = false;
        while self.capacity & CAPACITY > 0 && self.has_room() {
            // SAFETY: the lock is held, and no group of ours is claimed.
            let Some(offer) = (unsafe { self.senders.win() }) else { break };
            // SAFETY: won.
            unsafe {
                let message = offer.cast::<Slot<T>>().as_ref().take();
                self.keep(message.expect("a waiting sender has its message"));
                if offer.as_ref().group().leaves_its_share() {
                    wakes.push(self.end_with_share(offer, End::Tx, Verdict::Committed));
                    some_gone = true;
                } else {
                    wakes.push(Offer::complete(offer, Verdict::Committed));
                }
            }
        }
        some_gone && !self.tx.has_handles()
    }

    pub(super) fn keep(&mut self, message: T) {
        self.buffer.get_or_insert_default().push(message);
    }

    /// A message goes to the head of the channel, or to who waits for it. True:
    /// it has been taken at once, and was perhaps the last.
    pub(super) fn give_back(&mut self, ticket: Ticket, message: T, wakes: &mut WakeList) -> bool {
        // SAFETY: the lock is held; the caller's group is withdrawn.
        match unsafe { self.receivers.win() } {
            // SAFETY: won.
            Some(offer) if unsafe { offer.as_ref().group() }.leaves_its_share() => {
                // SAFETY: as above.
                unsafe {
                    offer.cast::<Slot<T>>().as_ref().put(message);
                    wakes.push_for(self.end_with_share(offer, End::Rx, Verdict::Committed), Turn::Given);
                }
                return self.is_closed_for_receivers();
            }
            Some(offer) => {
                // SAFETY: won.
                unsafe {
                    offer.cast::<Slot<T>>().as_ref().put(message);
                    self.taken = self.taken.wrapping_sub(1);
                    let turn = offer.as_ref().group().turn_if_given();
                    wakes.push_for(Offer::complete_stamped(offer, ticket), turn);
                }
            }
            // If no receiver is left, `sides_changed` takes it out again.
            None => self.buffer.get_or_insert_default().give_back(ticket, message),
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{EVENT, HANDLES, Side};
    use crate::child::aborts;

    #[test]
    fn the_handle_that_is_too_much_is_not_counted() {
        let mut side = Side(5 * EVENT + HANDLES - 1);
        side.add_handle();
        assert!(catch_unwind(AssertUnwindSafe(|| side.add_handle())).is_err());
        assert_eq!((u64::from(side.handles()), side.events()), (HANDLES, 5));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn leaked_events_end_the_process_before_their_count_wraps() {
        let name = "channel::state::tests::leaked_events_end_the_process_before_their_count_wraps";
        let many = (1 << 38) * EVENT;
        // As many as a handle reports; and what handles have yet to report, less those that have ended.
        Side(many - 4096 * EVENT).lend(4096);
        Side((many / 4).wrapping_neg()).lend(1);
        aborts(name, || Side(many).lend(1));
    }
}
