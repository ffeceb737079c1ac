//! Bodies on their way: sends whose bytes MPI still reads, and receives of large ones, which it still writes.

use std::ops::Range;
use std::sync::Arc;

use crate::shim::{Comm, Found, Requests, Result, Right};

/// Sends, or receives, under way, each with the bytes that it keeps for MPI.
pub(super) struct Flight<T> {
    requests: Requests,
    /// What each keeps, while it is under way. Its bytes are on the heap: they stay where they are when it moves.
    kept: Vec<Option<T>>,
    free: Vec<usize>,
    found: Found,
    /// How many of the last sends were done at once, about.
    at_once: u8,
}

/// Of those that are not done at once one in so many is tested all the same.
const RARELY: u8 = 32;

impl<T> Flight<T> {
    pub(super) fn new(count: usize) -> Self {
        Self {
            requests: Requests::new(count),
            kept: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
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

    /// Most are under way.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        2 * self.free.len() < self.kept.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.kept.len()
    }

    /// Looks at all. What those have kept that are done is given to `done`, and how many bytes have come.
    pub(super) fn test(&mut self, right: &mut Right, mut done: impl FnMut(T, usize)) -> Result<()> {
        for (at, status) in self.requests.test_some(right, &mut self.found)? {
            self.free.push(at);
            if let Some(kept) = self.kept[at].take() {
                done(kept, status.bytes as usize);
            }
        }
        Ok(())
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        // MPI may read or write them still.
        self.kept.drain(..).flatten().for_each(std::mem::forget);
    }
}

/// What is sent keeps its bytes, or shares those of a frame with its other pieces.
pub(super) enum Sent {
    Whole(Vec<u8>),
    Piece(Arc<Vec<u8>>),
}

/// A body that is sent.
pub(super) type Sends = Flight<Sent>;

impl Sends {
    /// Sends a frame. There is room. If it is done at once, it is given back.
    #[inline]
    pub(super) fn send(
        &mut self,
        right: &mut Right,
        comm: Comm,
        frame: Vec<u8>,
        to: u32,
        tag: u16,
    ) -> Result<Option<Sent>> {
        let at = self.pop();
        let Sent::Whole(frame) = self.kept[at].insert(Sent::Whole(frame)) else { unreachable!("it is one") };
        // SAFETY: a free request is idle. The bytes are kept until a test says that it is done: below, or in `test`.
        unsafe { self.requests.isend(right, at, comm, &raw const **frame, to, tag)? };
        self.finish_at_once(right, at)
    }

    /// Sends a piece of a frame. There is room.
    pub(super) fn send_piece(
        &mut self,
        right: &mut Right,
        comm: Comm,
        (frame, piece): (&Arc<Vec<u8>>, Range<usize>),
        to: u32,
        tag: u16,
    ) -> Result<()> {
        let at = self.pop();
        let Sent::Piece(frame) = self.kept[at].insert(Sent::Piece(Arc::clone(frame))) else {
            unreachable!("it is one")
        };
        // SAFETY: as in `send`; the piece is a part of the frame's bytes, which nobody changes.
        unsafe { self.requests.isend(right, at, comm, &raw const frame[piece], to, tag)? };
        self.finish_at_once(right, at).map(drop)
    }

    fn pop(&mut self) -> usize {
        self.free.pop().expect("who sends has seen that there is room")
    }

    /// With some libraries a send is mostly done at once: its bytes are still in the cache for the next who wants memory. With
    /// others a test is in vain, and the next that are due find it.
    #[inline]
    fn finish_at_once(&mut self, right: &mut Right, at: usize) -> Result<Option<Sent>> {
        if self.at_once == 0 {
            self.at_once = 1;
            return Ok(None);
        }
        if self.at_once < RARELY / 2 {
            // Not tested; but now and then.
            self.at_once += 1;
            if self.at_once < RARELY / 2 {
                return Ok(None);
            }
        }
        if !self.requests.test_sent(right, at)? {
            self.at_once = if self.at_once > RARELY / 2 { self.at_once - 1 } else { 0 };
            return Ok(None);
        }
        self.at_once = RARELY;
        self.free.push(at);
        Ok(self.kept[at].take())
    }
}

/// A large body that is received: whose it is, and its bytes.
pub(super) struct Filling {
    pub(super) owner: u64,
    room: Vec<u8>,
    length: usize,
}

pub(super) type Fills = Flight<Filling>;

impl Fills {
    /// Receives a body of that length from `from`, into `room`, which is empty. There is room for one more.
    ///
    /// # Errors
    /// The inner one: there is no memory.
    pub(super) fn receive(
        &mut self,
        right: &mut Right,
        owner: u64,
        (mut room, length): (Vec<u8>, usize),
        from: u32,
        key: u16,
    ) -> Result<std::result::Result<(), NoMemory>> {
        if room.try_reserve_exact(length).is_err() {
            return Ok(Err(NoMemory));
        }
        let Some(at) = self.free.pop() else { unreachable!("who receives has seen that there is room") };
        // SAFETY: a free request is idle. The room is that large; it is kept until a test says that it is done, and is not
        // looked into before.
        unsafe {
            self.requests.irecv(right, at, Comm::Bulk, room.as_mut_ptr(), length, Some(from), Some(key))?;
        }
        self.kept[at] = Some(Filling { owner, room, length });
        Ok(Ok(()))
    }
}

impl Filling {
    /// The bytes, of which so many have come. `None`: they are not as many as were announced.
    pub(super) fn into_bytes(mut self, came: usize) -> Option<Vec<u8>> {
        if came != self.length {
            return None;
        }
        // SAFETY: MPI has written so many bytes, as it says, into a room that is no smaller.
        unsafe { self.room.set_len(came) };
        Some(self.room)
    }
}

pub(super) struct NoMemory;
