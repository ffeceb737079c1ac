//! The state under a channel's lock: the waiters, the messages that are kept, and the shares of each side.

use std::ptr::NonNull;
use std::task::Waker;

use super::buffer::Buffer;
use super::left::Left;
use super::returned::Ticket;
use crate::event::{Offer, OfferList, Verdict, WakeList};
use crate::frame::catch_panic;
use crate::sched::WakePriority;
use crate::sync::UnsafeCell;
use crate::sync::switches::INLINE_MESSAGE;

/// A bit of the lock's hint: a send, or a receive, may commit now.
pub(super) const SENDABLE: u8 = 1;
pub(super) const RECEIVABLE: u8 = 2;

/// The state of a channel: see the module.
pub(super) struct State<T> {
    pub(super) senders: OfferList,
    pub(super) receivers: OfferList,
    /// Allocated when the first message is kept.
    pub(super) buffer: Option<Box<Buffer<T>>>,
    /// The capacity in the lower bits, and flags above.
    pub(super) capacity: u32,
    /// The number of commits to waiting receivers that have been taken, or have come back, modulo 2^32. If it equals
    /// the low half of `ticket`, none is on its way: 2^32 at a time do not fit into memory.
    pub(super) taken: u32,
    /// The number of the next commit to a waiting receiver.
    pub(super) ticket: Ticket,
    pub(super) tx: Side,
    pub(super) rx: Side,
    /// A message that was sent asynchronously, if the flag LEFT is set: INV-LEFT.
    left: Left<T>,
}

/// Messages that no receiver will get. They are dropped when no lock is held.
pub(super) struct Unread<T> {
    buffer: Option<Box<Buffer<T>>>,
    left: Option<T>,
}

/// The bits of `State::capacity` that hold the capacity, in messages.
const CAPACITY: u32 = (1 << 27) - 1;
/// The capacity of a mailbox, which is without limit.
pub(super) const UNBOUNDED: u32 = CAPACITY;
/// Flag: a message lies in `State::left`.
const LEFT: u32 = 1 << 27;
/// Flag: `close` was called.
pub(super) const CLOSED: u32 = 1 << 28;
/// Flag: sends fail.
const CLOSED_FOR_SENDERS: u32 = 1 << 29;
/// Flag: no message will follow those that are buffered, or on their way.
const CLOSED_FOR_RECEIVERS: u32 = 1 << 30;
/// Flag: a stream waits.
pub(super) const WATCHED: u32 = 1 << 31;

/// The number of shares of one side: of its handles, of the events that own one, and of the messages that were sent
/// asynchronously and wait. It has 64 bits, so that it cannot overflow, whatever a program leaks.
#[derive(Debug)]
pub(super) struct Side(u64);

/// A side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Tx,
    Rx,
}

/// The offer of a base event, and its message, which is to be sent or was received.
#[repr(C)]
pub(super) struct Slot<T> {
    /// The first field, so that a pointer to it is a pointer to the slot.
    pub(super) offer: Offer,
    /// The message belongs to the thread that the offer belongs to.
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
    /// The message belongs to the caller. The caller is the owner and the offer is not linked, or it is a partner
    /// that has won the offer.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> Option<T> {
        // SAFETY: the message belongs to the caller, as it promises, so no other thread touches the cell.
        self.message.with_mut(|message| unsafe { (*message).take() })
    }

    /// # Safety
    /// The message belongs to the caller. The caller is the owner and the offer is not linked, or it is a partner
    /// that has won the offer.
    #[inline(always)]
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: the message belongs to the caller, as it promises, so no other thread touches the cell. The cell is
        // empty, so no message is dropped.
        self.message.with_mut(|message| unsafe { *message = Some(value) });
    }
}

impl Side {
    pub(super) fn new() -> Self {
        Self(1)
    }

    pub(super) fn shares(&self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn is_gone(&self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(super) fn add(&mut self) {
        self.0 += 1;
    }

    #[inline(always)]
    pub(super) fn give_up(&mut self) {
        self.0 -= 1;
    }
}

impl<T> Unread<T> {
    /// Drops the messages for the thread that ended the channel. A panic of a buffered message goes to that thread.
    pub(super) fn end(self) {
        let Self { buffer, left } = self;
        // A panic of a message that was sent asynchronously has no caller to go to, so it is reported.
        catch_panic(|| drop(left));
        drop(buffer);
    }

    /// Drops the messages on behalf of an operation that has its own result to deliver. Panics are reported.
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

    /// Whether no message is buffered, and none is committed to a receiver that has not taken it yet, and might give
    /// it back.
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

    /// Ends the wait of an offer of the side `end` that leaves its share. The partner has won it, and has filled or
    /// emptied its slot.
    ///
    /// # Safety
    /// The caller has won and unlinked the offer, and holds the lock.
    #[inline(always)]
    pub(super) unsafe fn end_with_share(
        &mut self,
        offer: NonNull<Offer>,
        end: End,
        verdict: Verdict,
    ) -> Option<Waker> {
        self.side(end).give_up();
        // SAFETY: the caller has won the offer, and holds the lock of its queue.
        unsafe { Offer::end_with_share(offer, verdict) }
    }

    /// Tells an event that waits at `end` that the channel is closed. Returns true if its share was given up.
    ///
    /// # Safety
    /// The caller has won and unlinked the offer, and holds the lock.
    unsafe fn complete_closed(&mut self, offer: NonNull<Offer>, end: End, wakes: &mut WakeList) -> bool {
        // SAFETY: the caller has won and unlinked the offer, and holds the lock. A message stays in the slot, for its
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

    /// Whether no share of the channel is left.
    #[inline(always)]
    pub(super) fn is_unreferenced(&self) -> bool {
        self.tx.is_gone() && self.rx.is_gone()
    }

    /// Called when a side may have gone. Tells those that wait for it, and takes out the messages that no receiver
    /// can get any more.
    #[inline(always)]
    pub(super) fn sides_changed(&mut self, wakes: &mut WakeList) -> Unread<T> {
        let mut left = None;
        // (An event that borrows its handle and was forgotten may wait without a share.)
        if !self.is_unreferenced() || !self.senders.is_empty() || !self.receivers.is_empty() {
            while self.tell_sides(&mut left, wakes) {}
        }
        let buffer = if self.rx.is_gone() { self.buffer.take() } else { None };
        Unread { buffer, left }
    }

    /// Whether the channel has no waiters and no content. Then no thread has to be told that a side is gone.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.senders.is_empty() && self.receivers.is_empty() && self.buffer.is_none() && !self.has_left()
    }

    /// Sets the flags of the sides that are gone.
    #[inline(always)]
    pub(super) fn close_sides(&mut self) {
        let closed = self.capacity & CLOSED != 0;
        if closed || self.rx.is_gone() {
            self.capacity |= CLOSED_FOR_SENDERS;
        }
        if closed || self.tx.is_gone() {
            self.capacity |= CLOSED_FOR_RECEIVERS;
        }
    }

    /// Makes one pass over the waiters. Returns true if shares were given up, so that another pass is needed.
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
                // SAFETY: the offer was won and unlinked by `win`, under the lock.
                some_gone |= unsafe { self.complete_closed(offer, End::Tx, wakes) };
            }
        }
        if self.is_closed_for_receivers() && self.is_drained() && !self.receivers.is_empty() {
            // SAFETY: the lock is held, and no group of ours is claimed.
            while let Some(offer) = unsafe { self.receivers.win() } {
                // SAFETY: the offer was won and unlinked by `win`, under the lock.
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

    /// Whether a message may be left in the channel: INV-LEFT. (And no stream watches.)
    #[inline(always)]
    pub(super) fn may_leave(&self) -> bool {
        self.capacity & (CAPACITY | CLOSED | CLOSED_FOR_SENDERS | LEFT | WATCHED) == 0
            && self.buffered() == 0
            && self.senders.is_empty()
            && self.receivers.is_empty()
    }

    #[inline(always)]
    pub(super) fn has_left(&self) -> bool {
        INLINE_MESSAGE && Left::<T>::FITS && self.capacity & LEFT != 0
    }

    /// Leaves a message in the channel, with a share of the senders.
    #[inline(always)]
    pub(super) fn leave(&mut self, message: T) {
        self.tx.add();
        self.capacity |= LEFT;
        self.left.put(message);
    }

    /// Takes the message that was left, and gives its share up.
    #[inline(always)]
    pub(super) fn take_left(&mut self) -> T {
        assert!(self.has_left());
        self.capacity &= !LEFT;
        self.tx.give_up();
        // SAFETY: the flag says that a message is there. The flag is cleared, so the message is taken once.
        unsafe { self.left.take() }
    }

    /// The wait queue of a side.
    #[inline(always)]
    pub(super) fn queue(&mut self, end: End) -> &mut OfferList {
        if end == End::Tx { &mut self.senders } else { &mut self.receivers }
    }

    /// Takes a message that lies in the channel. The flag is true if the last share of the senders may have been given
    /// up with it.
    #[inline(always)]
    pub(super) fn take_own(&mut self, wakes: &mut WakeList) -> (T, bool) {
        if self.buffered() == 0 {
            let message = self.take_left();
            return (message, self.tx.is_gone());
        }
        let message = self.buffer.as_mut().and_then(|buffer| buffer.pop());
        let ends = !self.senders.is_empty() && self.refill(wakes);
        (message.expect("not empty"), ends)
    }

    /// Wakes the streams that wait, if there is a message to take.
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

    /// Makes the stream `id` wait (0: a new one): see [`Buffer::watch`].
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

    /// Fills free places with the messages of the first senders. Returns true if the last share of their side may
    /// have been given up.
    pub(super) fn refill(&mut self, wakes: &mut WakeList) -> bool {
        let mut some_gone = false;
        while self.capacity & CAPACITY > 0 && self.has_room() {
            // SAFETY: the lock is held, and no group of ours is claimed.
            let Some(offer) = (unsafe { self.senders.win() }) else { break };
            // SAFETY: the offer was won and unlinked by `win`, under the lock.
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
        some_gone && self.tx.is_gone()
    }

    pub(super) fn keep(&mut self, message: T) {
        self.buffer.get_or_insert_default().push(message);
    }

    /// Gives a message to the head of the channel, or to a receiver that waits. Returns true if it has been taken at
    /// once, and was perhaps the last.
    pub(super) fn give_back(&mut self, ticket: Ticket, message: T, wakes: &mut WakeList) -> bool {
        // SAFETY: the lock is held, and the caller's group is withdrawn, so it holds no claim.
        match unsafe { self.receivers.win() } {
            // SAFETY: the offer was won under the lock, so its owner waits, and the group is alive.
            Some(offer) if unsafe { offer.as_ref().group() }.leaves_its_share() => {
                // SAFETY: the offer was won and unlinked by `win`, under the lock.
                unsafe {
                    offer.cast::<Slot<T>>().as_ref().put(message);
                    wakes.push_for(
                        self.end_with_share(offer, End::Rx, Verdict::Committed),
                        WakePriority::Given,
                    );
                }
                return self.is_closed_for_receivers();
            }
            Some(offer) => {
                // SAFETY: the offer was won and unlinked by `win`, under the lock.
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
