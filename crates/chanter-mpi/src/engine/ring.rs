//! A ring of persistent receives, of which only the first is tested.
//!
//! MPI gives a message to the receive that was posted first of all that want it. All receives of the ring want everything, so
//! messages are in the ring in the order in which MPI has matched them: those of a sender in the order in which they
//! were sent. While the first is not done, none behind it need be looked at; an empty poll costs one test, however
//! many threads wait. A receive that has been read is started again, behind all others: by the next
//! look, since who has got the message need not wait for that.

use crate::shim::{Comm, Requests, Result, Right, Status};

pub(super) struct Ring {
    requests: Requests,
    /// The receives' bytes, which MPI writes.
    slots: Vec<Box<[u8]>>,
    comm: Comm,
    first: usize,
    /// The first is done: so much has come.
    done: Option<Status>,
    is_started: bool,
    /// The last that was read is to be started again.
    owes_start: bool,
}

impl Ring {
    /// A ring of so many receives with so many bytes of room, not yet started.
    pub(super) fn new(right: &mut Right, comm: Comm, count: usize, room: usize) -> Result<Self> {
        let mut ring = Self {
            requests: Requests::new(count),
            slots: (0..count).map(|_| vec![0; room].into_boxed_slice()).collect(),
            comm,
            first: 0,
            done: None,
            is_started: false,
            owes_start: false,
        };
        for (at, slot) in ring.slots.iter_mut().enumerate() {
            // SAFETY: the request is idle. The slot is in a box of its own, which lives as long as the requests do; it is
            // read only in `slot`, when the request is done.
            unsafe { ring.requests.recv_init(right, at, ring.comm, slot.as_mut_ptr(), room)? };
        }
        Ok(ring)
    }

    /// Receives from now on.
    pub(super) fn start(&mut self, right: &mut Right) -> Result<()> {
        if !std::mem::replace(&mut self.is_started, true) {
            (0..self.slots.len()).try_for_each(|at| self.requests.start(right, at))?;
        }
        Ok(())
    }

    /// Whether a message is there: one test, if that is not known.
    #[inline]
    pub(super) fn has_message(&mut self, right: &mut Right, tests: &mut u64) -> Result<bool> {
        if self.done.is_none() && self.is_started {
            self.start_again(right)?;
            *tests += 1;
            self.done = self.requests.test(right, self.first)?;
        }
        Ok(self.done.is_some())
    }

    /// Whether the last look has found one.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// The message that is there, and its bytes.
    #[inline]
    pub(super) fn message(&self) -> Option<(Status, &[u8])> {
        let status = self.done?;
        Some((status, &self.slots[self.first][..status.bytes as usize]))
    }

    /// The message has been read. Its receive is started again by the next look.
    #[inline]
    pub(super) fn next(&mut self) {
        debug_assert!(self.done.is_some() && !self.owes_start, "a message was read that a look has found");
        self.done = None;
        self.owes_start = true;
        self.first = if self.first + 1 == self.slots.len() { 0 } else { self.first + 1 };
    }

    /// The receive before the first.
    fn last(&self) -> usize {
        self.first.checked_sub(1).unwrap_or(self.slots.len() - 1)
    }

    #[inline]
    fn start_again(&mut self, right: &mut Right) -> Result<()> {
        if std::mem::take(&mut self.owes_start) { self.requests.start(right, self.last()) } else { Ok(()) }
    }

    /// Takes all receives back. Nothing comes any more.
    pub(super) fn close(&mut self, right: &mut Right) -> Result<()> {
        for at in 0..self.slots.len() {
            let is_read = self.owes_start && at == self.last();
            if self.is_started && !is_read && (at != self.first || self.done.is_none()) {
                self.requests.cancel(right, at)?;
            }
            self.requests.forget(right, at)?;
        }
        self.is_started = false;
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_started {
            // MPI may write them still.
            std::mem::take(&mut self.slots).into_iter().for_each(std::mem::forget);
        }
    }
}
