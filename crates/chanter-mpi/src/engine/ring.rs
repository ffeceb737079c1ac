//! A ring of persistent receives, of which only the first is tested.
//!
//! MPI gives a message to the receive that was posted first of all that want it. All receives of the ring want
//! everything, so messages are in the ring in the order in which MPI has matched them. Those of a sender are in the
//! order in which they were sent. While the first is not done, none behind it need be looked at; an empty poll costs
//! one test, however
//! many threads wait. A receive that has been read is started again, behind all others. The next look does so, as the
//! owner of the message need not wait for it.
//!
//! How many are posted follows from how messages come: see [`Posts`].

mod posts;

use posts::Posts;

use crate::shim::{Comm, Requests, Result, Right, Status};

pub(super) struct Ring {
    requests: Requests,
    /// The receives' bytes, which MPI writes.
    slots: Vec<Box<[u8]>>,
    comm: Comm,
    posts: Posts,
    /// The first is done, and what of it MPI has said.
    is_done: bool,
    status: Status,
    is_open: bool,
}

impl Ring {
    /// A ring of `count` receives with `room` bytes each, not yet started.
    pub(super) fn new(right: &mut Right, comm: Comm, count: usize, room: usize) -> Result<Self> {
        let mut ring = Self {
            requests: Requests::new(count),
            slots: (0..count).map(|_| vec![0; room].into_boxed_slice()).collect(),
            comm,
            posts: Posts::new(count),
            is_done: false,
            status: Status::default(),
            is_open: false,
        };
        for (at, slot) in ring.slots.iter_mut().enumerate() {
            // SAFETY: the request is idle. The slot is in a box of its own, which lives as long as the requests do; it is
            // read only in `message`, when the request is done.
            unsafe { ring.requests.recv_init(right, at, ring.comm, slot.as_mut_ptr(), room)? };
        }
        Ok(ring)
    }

    /// Receives from now on.
    pub(super) fn start(&mut self, right: &mut Right) -> Result<()> {
        self.is_open = true;
        self.start_wanted(right)
    }

    /// Whether a message is there: one test, if that is not known.
    #[inline]
    pub(super) fn has_message(&mut self, right: &mut Right, tests: &mut u64) -> Result<bool> {
        if self.is_done || !self.is_open {
            return Ok(self.is_done);
        }
        self.start_wanted(right)?;
        if let Some(first) = self.posts.first() {
            *tests += 1;
            self.is_done = self.requests.test(right, first, &mut self.status)?;
            self.posts.saw(self.is_done);
        }
        Ok(self.is_done)
    }

    /// Whether the last look has found one.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The message that is there, and its bytes.
    #[inline]
    pub(super) fn message(&self) -> Option<(&Status, &[u8])> {
        let first = self.posts.first().filter(|_| self.is_done)?;
        Some((&self.status, &self.slots[first][..self.status.bytes as usize]))
    }

    /// The message has been read. Its receive is started again by the next look.
    #[inline]
    pub(super) fn next(&mut self) {
        debug_assert!(self.is_done, "a message was read that a look has found");
        self.is_done = false;
        self.posts.take();
    }

    #[inline]
    fn start_wanted(&mut self, right: &mut Right) -> Result<()> {
        while let Some(at) = self.posts.wanted() {
            self.requests.start(right, at)?;
            self.posts.post();
        }
        Ok(())
    }

    /// Takes all receives back. Nothing comes any more.
    pub(super) fn close(&mut self, right: &mut Right) -> Result<()> {
        if self.is_done {
            self.next();
        }
        while let Some(at) = self.posts.first() {
            self.requests.cancel(right, at)?;
            self.posts.take();
        }
        (0..self.slots.len()).try_for_each(|at| self.requests.forget(right, at))?;
        self.is_open = false;
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_open {
            // MPI may write them still.
            std::mem::take(&mut self.slots).into_iter().for_each(std::mem::forget);
        }
    }
}
