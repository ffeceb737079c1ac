//! A ring of persistent receives, of which only the first is tested.
//!
//! Of all receives that match a message, MPI gives it to the one that was posted first. All receives of the ring match
//! every message, so messages are in the ring in the order in which MPI has matched them. Messages of one sender are in
//! the order in which they were sent. While the first receive is not done, the later ones need no test: an empty poll
//! costs one test, however many threads wait. A receive that has been read is started again, as the last one. The next
//! look does so, so that the owner of the message need not wait for it.
//!
//! The number of posted receives depends on how messages come: see [`ReceiveWindow`].

mod receive_window;

use receive_window::ReceiveWindow;

use crate::shim::{Comm, MpiToken, Requests, Result, Status};

pub(super) struct Ring {
    requests: Requests,
    /// The receives' bytes, which MPI writes.
    slots: Vec<Box<[u8]>>,
    comm: Comm,
    receive_window: ReceiveWindow,
    /// Whether the first receive is done, and MPI's status of it.
    is_done: bool,
    status: Status,
    is_open: bool,
}

impl Ring {
    /// A ring of `count` receives with `room` bytes each, not yet started.
    pub(super) fn new(token: &mut MpiToken, comm: Comm, count: usize, room: usize) -> Result<Self> {
        let mut ring = Self {
            requests: Requests::new(count),
            slots: (0..count).map(|_| vec![0; room].into_boxed_slice()).collect(),
            comm,
            receive_window: ReceiveWindow::new(count),
            is_done: false,
            status: Status::default(),
            is_open: false,
        };
        for (at, slot) in ring.slots.iter_mut().enumerate() {
            // SAFETY: the request is idle. The slot is in a box of its own, which lives as long as the requests do; it is
            // read only in `message`, when the request is done.
            unsafe { ring.requests.recv_init(token, at, ring.comm, slot.as_mut_ptr(), room)? };
        }
        Ok(ring)
    }

    /// Starts the receives.
    pub(super) fn start(&mut self, token: &mut MpiToken) -> Result<()> {
        self.is_open = true;
        self.start_wanted(token)
    }

    /// Whether a message is there. This takes one test, if it is not known.
    #[inline]
    pub(super) fn has_message(&mut self, token: &mut MpiToken, tests: &mut u64) -> Result<bool> {
        if self.is_done || !self.is_open {
            return Ok(self.is_done);
        }
        self.start_wanted(token)?;
        if let Some(first) = self.receive_window.first() {
            *tests += 1;
            self.is_done = self.requests.test(token, first, &mut self.status)?;
            self.receive_window.saw(self.is_done);
        }
        Ok(self.is_done)
    }

    /// Whether the last look has found a message.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The status and the bytes of the message that is there.
    #[inline]
    pub(super) fn message(&self) -> Option<(&Status, &[u8])> {
        let first = self.receive_window.first().filter(|_| self.is_done)?;
        Some((&self.status, &self.slots[first][..self.status.bytes as usize]))
    }

    /// Goes on to the next message. The receive of the message that was read is started again by the next look.
    #[inline]
    pub(super) fn next(&mut self) {
        debug_assert!(self.is_done, "a message was read that a look has found");
        self.is_done = false;
        self.receive_window.take();
    }

    #[inline]
    fn start_wanted(&mut self, token: &mut MpiToken) -> Result<()> {
        while let Some(at) = self.receive_window.wanted() {
            self.requests.start(token, at)?;
            self.receive_window.post();
        }
        Ok(())
    }

    /// Cancels all receives. Nothing comes any more.
    pub(super) fn close(&mut self, token: &mut MpiToken) -> Result<()> {
        if self.is_done {
            self.next();
        }
        while let Some(at) = self.receive_window.first() {
            self.requests.cancel(token, at)?;
            self.receive_window.take();
        }
        (0..self.slots.len()).try_for_each(|at| self.requests.forget(token, at))?;
        self.is_open = false;
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_open {
            // MPI may still write into the slots, so they are leaked.
            std::mem::take(&mut self.slots).into_iter().for_each(std::mem::forget);
        }
    }
}
