//! Asynchronous sends: parasites that consist of their message only.
//!
//! A parasite whose whole body is a send has nothing to do when the send has committed. So when it blocks, it is
//! reified to its offer alone. The partner that takes the message frees it instead of attaching it. The parasite is
//! never polled again, and no thread waits for it.
//!
//! A small message that finds no waiter needs not even an offer: it is left in the channel itself (`left.rs`).
//!
//! The offer is woken like any other, by a waker of its own. To wake it is to end it. INV-LAST holds because its
//! owner never looks once it has offered.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::core::Core;
use super::error::SendError;
use super::handle::Detached;
use super::send::Sender;
use super::state::Slot;
use crate::event::protocol::Group;
use crate::event::{Offered, Offering, Verdict, WakeList};
use crate::frame::body::fits;
use crate::frame::slab::class_of;
use crate::frame::state::State;
use crate::frame::{Header, Kind, arena, catch_panic};
use crate::sched::Worker;

/// A reified send: a frame without a body.
#[repr(C)]
pub(super) struct Reified<T> {
    header: Header,
    group: Group,
    slot: Slot<T>,
}

impl<T> Sender<T> {
    /// Sends `message` asynchronously. Returns at once, whether the message was taken, is kept, or waits for its
    /// receiver.
    ///
    /// This does the same as `parasite::spawn_in_place(tx.clone().into_send(message))`, for half the cost. The messages
    /// of one thread keep their order. Messages that wait count as senders: they keep the channel open. If it is closed before they are taken, they are
    /// dropped, as by a thread that ignores its error. A panic of a destructor is reported, and goes no further.
    ///
    /// On a rendezvous channel without waiters, a message of up to two words is left in the channel itself, which
    /// allocates nothing. Other messages take a frame.
    ///
    /// It may be called anywhere, also outside of a machine. It never blocks.
    ///
    /// # Errors
    /// Returns the message in the error if the channel is closed already.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let (tx, rx) = channel();
    /// tx.asend("nobody receives yet").unwrap();
    /// drop(tx);
    /// assert_eq!(rx.recv().sync_blocking(), Ok("nobody receives yet"));
    /// assert_eq!(rx.recv().sync_blocking(), Err(Closed));
    /// ```
    ///
    /// Featherweight Threads, section 3 (`aSend`).
    pub fn asend(&self, message: T) -> Result<(), SendError<T>> {
        match self.handle.core().leave(message) {
            Some(message) => Reified::offer(self, message),
            None => Reified::left(),
        }
    }
}

impl<T> Reified<T> {
    const IN_ARENA: &'static RawWakerVTable = &RawWakerVTable::new(
        Self::never_cloned,
        Self::end_in_arena,
        Self::never_cloned_wake,
        Self::end_in_arena,
    );
    const IN_BOX: &'static RawWakerVTable =
        &RawWakerVTable::new(Self::never_cloned, Self::end_in_box, Self::never_cloned_wake, Self::end_in_box);

    /// Counts a message that has been left in its channel.
    #[inline(always)]
    fn left() -> Result<(), SendError<T>> {
        if let Some(vp) = Worker::current() {
            vp.agree_if_reminded();
            vp.counters().asends.left.add_one();
        }
        Ok(())
    }

    /// Sends `message`, or offers it in a frame that has no owner.
    #[inline(never)]
    fn offer(sender: &Sender<T>, message: T) -> Result<(), SendError<T>> {
        let vp = Worker::current().filter(|_| fits::<Self>());
        let place = match vp {
            // SAFETY: the calling thread runs `vp`, and the class is large enough for a `Reified<T>`.
            Some(vp) => unsafe { vp.arena.take(class_of(size_of::<Self>())) }.cast::<Self>(),
            None => NonNull::from(Box::leak(Box::<Self>::new_uninit())).cast(),
        };
        let vtable = if vp.is_some() { Self::IN_ARENA } else { Self::IN_BOX };
        let home = vp.map_or(std::ptr::null(), |vp| vp.processor().address.opaque());
        // SAFETY: the functions of the vtable take pointers to a `Reified<T>`, which `place` is, and never clone the
        // waker.
        let waker = unsafe { Waker::new(place.as_ptr().cast(), vtable) };
        // SAFETY: the place is ours and large enough. It never moves, and stays allocated until `free`.
        let this = unsafe {
            place.write(Self {
                // The state is complete, with one reference, so the scheduler does not touch the frame.
                header: Header::new(State::new_complete(), crate::frame::body::NONE, Kind::Parasite, home),
                group: Group::new_detached(waker),
                slot: Slot::new(Some(message)),
            });
            place.as_ref()
        };
        let at = Offering { group: &this.group, leaf: 0, single: true, waker: None, task: None, kept: None };
        let mut wakes = WakeList::new();
        let core = sender.handle.core_ptr();
        // SAFETY: the sender keeps the channel alive during the call. The slot is pinned. No owner retracts it: its
        // partner, or the end of the channel, ends it, and it is not freed before. It gets a share if it waits.
        let offered = unsafe { Core::send::<Detached>(core, &this.slot, Some(&at), &mut wakes) };
        if let Some(vp) = vp {
            vp.agree_if_reminded();
            vp.counters().asends.offered.add_one();
        }
        if offered == Offered::Linked {
            // The frame belongs to the partner now.
            wakes.queue();
            return Ok(());
        }
        // Taken or kept at once, or closed.
        // SAFETY: the offer is not linked, so the slot is ours.
        let message = unsafe { this.slot.take() };
        let closed = this.slot.offer.verdict.get() == Verdict::Closed;
        // SAFETY: the offer is not linked, so no other thread refers to the place. The waker refers to the place
        // itself, and is forgotten. The message was taken out.
        unsafe {
            let _ = ManuallyDrop::new(this.group.disarm());
            Self::free(place, vp.is_some());
        }
        wakes.queue();
        match message {
            Some(message) if closed => Err(SendError(message)),
            _ => Ok(()),
        }
    }

    /// # Safety
    /// No other thread refers to the frame, and nothing in it has to be dropped.
    unsafe fn free(this: NonNull<Self>, in_arena: bool) {
        // SAFETY: `offer` made the frame, in the arena or in a box as `in_arena` says. The caller promises that no
        // other thread refers to it.
        unsafe {
            if in_arena {
                arena::free(this.cast());
            } else {
                drop(Box::from_raw(this.cast::<std::mem::MaybeUninit<Self>>().as_ptr()));
            }
        }
    }

    /// Ends a send. A partner has completed the offer, and given its share up.
    ///
    /// # Safety
    /// `data` is the waker's pointer. The waker is given up, so no other thread refers to the frame.
    unsafe fn end(data: *const (), in_arena: bool) {
        // SAFETY: the pointer is that of a frame that `offer` made, so it is not null.
        let this = unsafe { NonNull::new_unchecked(data.cast_mut().cast::<Self>()) };
        // SAFETY: the publication was the partner's last access, so the frame is ours alone. The message is taken out
        // first.
        let message = unsafe {
            let message = this.as_ref().slot.take();
            Self::free(this, in_arena);
            message
        };
        if let Some(message) = message {
            // The message is still there, so the channel was closed.
            catch_panic(|| drop(message));
        }
    }

    unsafe fn end_in_arena(data: *const ()) {
        // SAFETY: the waker of a frame in the arena is given up here.
        unsafe { Self::end(data, true) };
    }

    unsafe fn end_in_box(data: *const ()) {
        // SAFETY: the waker of a frame in a box is given up here.
        unsafe { Self::end(data, false) };
    }

    unsafe fn never_cloned(_: *const ()) -> RawWaker {
        unreachable!("a detached offer's waker is only ever woken")
    }

    unsafe fn never_cloned_wake(_: *const ()) {
        unreachable!("a detached offer's waker is only ever woken")
    }
}
