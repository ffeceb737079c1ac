//! Bodies on their way: sends, whose bytes MPI still reads, and receives of large bodies, whose bytes it still writes.

use std::ops::Range;
use std::sync::Arc;

use super::class::Class;
use super::preposted::{Kind, Ticket};
use crate::shim::{Comm, Found, MpiToken, Requests, Result, Status};
use chanter_engine::wire::Body;

/// Sends, or receives, under way, each with the bytes that it keeps for MPI.
pub(super) struct InFlight<T> {
    requests: Requests,
    /// Memory that each request keeps while it is under way. The bytes are on the heap: they stay where they are when
    /// the `T` moves.
    kept: Vec<Option<T>>,
    free: Vec<usize>,
    /// Indices of the requests that are under way, in no order.
    active: Vec<usize>,
    found: Found,
    /// Rough number of the last sends that were done at once.
    at_once: u8,
}

/// Greatest count of sends that were done at once. After half as many sends without a test, one is tested again.
const RARELY: u8 = 32;
/// Number of sends up to which they are tested one by one: a test of all looks at idle requests, too.
const FEW: usize = 4;

impl<T> InFlight<T> {
    pub(super) fn new(count: usize) -> Self {
        Self {
            requests: Requests::new(count),
            kept: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            active: Vec::with_capacity(count),
            found: Found::new(count),
            at_once: RARELY,
        }
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline]
    pub(super) fn has_room_for(&self, count: usize) -> bool {
        self.free.len() >= count
    }

    /// Whether more than half of the requests are under way.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        2 * self.free.len() < self.kept.len()
    }

    /// Tests all requests that are under way. `done` gets the memory of each one that is done, and the number of bytes
    /// that have come.
    #[inline]
    pub(super) fn test(
        &mut self,
        token: &mut MpiToken,
        tests: &mut u64,
        mut done: impl FnMut(T, usize),
    ) -> Result<()> {
        if self.active.len() > FEW {
            *tests += 1;
            for (at, status) in self.requests.test_some(token, &mut self.found)? {
                self.active.retain(|other| *other != at);
                self.free.push(at);
                if let Some(kept) = self.kept[at].take() {
                    done(kept, status.bytes as usize);
                }
            }
            return Ok(());
        }
        for place in (0..self.active.len()).rev() {
            *tests += 1;
            let at = self.active[place];
            let mut status = Status::default();
            if self.requests.test(token, at, &mut status)? {
                self.active.swap_remove(place);
                self.free.push(at);
                if let Some(kept) = self.kept[at].take() {
                    done(kept, status.bytes as usize);
                }
            }
        }
        Ok(())
    }

    /// Takes a free request. There must be one.
    #[inline]
    fn pop(&mut self) -> usize {
        self.free.pop().expect("who sends or receives has seen that there is room")
    }
}

impl<T> Drop for InFlight<T> {
    fn drop(&mut self) {
        // MPI may still read or write this memory, so it is leaked.
        self.kept.drain(..).flatten().for_each(std::mem::forget);
    }
}

/// The bytes of a send. It owns them, or shares a frame's with the frame's other pieces.
pub(super) enum Sent {
    Whole(Body),
    Piece(Arc<Body>),
    /// A word of the engine's own.
    Word(Box<[u8; 8]>),
}

/// Sends that are under way.
pub(super) type Sends = InFlight<Sent>;

impl Sends {
    /// Sends a frame, or a word. The caller has seen that there is room. A send that is done at once gives its memory
    /// back.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        token: &mut MpiToken,
        comm: Comm,
        sent: Sent,
        to: u32,
        tag: u16,
    ) -> Result<Option<Sent>> {
        let at = self.pop();
        let bytes = match self.kept[at].insert(sent) {
            Sent::Whole(frame) => frame.frame(),
            Sent::Piece(frame) => frame.frame(),
            Sent::Word(word) => &word[..],
        };
        // SAFETY: a free request is idle. The bytes are kept until a test says that it is done: below, or in `test`.
        unsafe { self.requests.isend(token, at, comm, bytes, to, tag)? };
        self.finish_at_once(token, at)
    }

    /// Sends a piece of a frame. The caller has seen that there is room. Returns whether the send is done at once.
    pub(super) fn send_piece(
        &mut self,
        token: &mut MpiToken,
        comm: Comm,
        (frame, piece): (&Arc<Body>, Range<usize>),
        to: u32,
        tag: u16,
    ) -> Result<bool> {
        let at = self.pop();
        let Sent::Piece(frame) = self.kept[at].insert(Sent::Piece(Arc::clone(frame))) else {
            unreachable!("it is one")
        };
        // SAFETY: a free request is idle. The piece is a part of the frame's bytes. Nobody changes these, and they
        // are kept until a test says that the send is done.
        unsafe { self.requests.isend(token, at, comm, &raw const frame.frame()[piece], to, tag)? };
        self.finish_at_once(token, at).map(|sent| sent.is_some())
    }

    /// Tests a new send once. With some libraries a send is mostly done at once, and its bytes are still in the cache
    /// for the next user of the memory. With other libraries this test is in vain, and the next regular test finds the
    /// send done.
    #[inline]
    fn finish_at_once(&mut self, token: &mut MpiToken, at: usize) -> Result<Option<Sent>> {
        if self.is_worth_a_test() {
            if self.requests.test_sent(token, at)? {
                self.at_once = RARELY;
                self.free.push(at);
                return Ok(self.kept[at].take());
            }
            self.at_once = if self.at_once > RARELY / 2 { self.at_once - 1 } else { 0 };
        }
        self.active.push(at);
        Ok(None)
    }

    /// Whether the last sends were done at once, or another test is due.
    #[inline]
    fn is_worth_a_test(&mut self) -> bool {
        if self.at_once >= RARELY / 2 {
            return true;
        }
        self.at_once += 1;
        self.at_once == RARELY / 2
    }
}

/// A large body that is received, and its bytes.
pub(super) struct Filling {
    pub(super) kind: Kind,
    pub(super) ticket: Ticket,
    room: Vec<u8>,
}

pub(super) type Fills = InFlight<Filling>;

/// Makes room for a body of `class` in a vector that is empty. `None`: there is not enough memory.
pub(super) fn room_for(class: Class, mut room: Vec<u8>) -> Option<Vec<u8>> {
    room.try_reserve_exact(class.longest()).ok().map(|()| room)
}

impl Fills {
    /// Receives a body into a [room](room_for) for its class. The caller has seen that there is a free request.
    pub(super) fn receive(
        &mut self,
        token: &mut MpiToken,
        kind: Kind,
        ticket: Ticket,
        mut room: Vec<u8>,
    ) -> Result<()> {
        let (from, class) = kind;
        assert!(room.capacity() >= class.longest(), "room for a body");
        let at = self.pop();
        let bytes = room.as_mut_ptr();
        // SAFETY: a free request is idle. The room is that large; it is kept until a test says that it is done, and is not
        // looked into before.
        unsafe {
            let (source, tag) = (Some(from), Some(class.tag()));
            self.requests.irecv(token, at, Comm::Bulk, bytes, class.longest(), source, tag)?;
        }
        self.kept[at] = Some(Filling { kind, ticket, room });
        self.active.push(at);
        Ok(())
    }

    /// Cancels the requests for which `is_it` returns true. If a cancellation is too late, the body that has come is
    /// dropped.
    pub(super) fn cancel(&mut self, token: &mut MpiToken, is_it: impl Fn(Ticket) -> bool) -> Result<()> {
        for place in (0..self.active.len()).rev() {
            let at = self.active[place];
            if self.kept[at].as_ref().is_some_and(|filling| is_it(filling.ticket)) {
                self.requests.cancel(token, at)?;
                self.active.swap_remove(place);
                self.free.push(at);
                self.kept[at] = None;
            }
        }
        Ok(())
    }
}

impl Filling {
    /// The bytes that have come. `None`: they are not as many as were announced.
    pub(super) fn into_bytes(mut self, came: usize, announced: usize) -> Option<Vec<u8>> {
        if came != announced || came > self.room.capacity() {
            return None;
        }
        // SAFETY: MPI has written this number of bytes, as it says, into a room that is no smaller.
        unsafe { self.room.set_len(came) };
        Some(self.room)
    }
}
