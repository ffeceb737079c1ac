//! Bodies on their way: sends whose bytes MPI still reads, and receives of large ones, which it still writes.

use crate::shim::{Comm, Found, Requests, Result, Right};

/// Sends, or receives, under way, each with the bytes that it keeps for MPI.
pub(super) struct Flight<T> {
    requests: Requests,
    /// What each keeps, while it is under way. Its bytes are on the heap: they stay where they are when it moves.
    kept: Vec<Option<T>>,
    free: Vec<usize>,
    found: Found,
}

impl<T> Flight<T> {
    pub(super) fn new(count: usize) -> Self {
        Self {
            requests: Requests::new(count),
            kept: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            found: Found::new(count),
        }
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
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

/// A body that is sent.
pub(super) type Sends = Flight<Vec<u8>>;

impl Sends {
    /// Sends a frame. There is room.
    #[inline]
    pub(super) fn send(
        &mut self,
        right: &mut Right,
        comm: Comm,
        frame: Vec<u8>,
        to: u32,
        tag: u16,
    ) -> Result<()> {
        let Some(at) = self.free.pop() else { unreachable!("who sends has seen that there is room") };
        let frame = self.kept[at].insert(frame);
        // SAFETY: a free request is idle. The bytes are kept until a test says that it is done: below, or in `test`.
        unsafe { self.requests.isend(right, at, comm, &raw const **frame, to, tag)? };
        // Mostly it is done at once: the bytes are still in the cache for the next who wants memory.
        if self.requests.test_sent(right, at)? {
            self.kept[at] = None;
            self.free.push(at);
        }
        Ok(())
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
    /// Receives a body of that length from `from`. There is room.
    ///
    /// # Errors
    /// The inner one: there is no memory.
    pub(super) fn receive(
        &mut self,
        right: &mut Right,
        owner: u64,
        length: usize,
        from: u32,
        key: u16,
    ) -> Result<std::result::Result<(), NoMemory>> {
        let mut room = Vec::new();
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
