//! Receives that a program posts to MPI itself, beside the engine's own.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use chanter_engine::ProcessId;

use super::Mpi;
use crate::shim::{Comm, Found, MpiError, Requests, Status};

/// A number of receives, each posted by itself (`MPI_Irecv`), and tested one by one (`MPI_Test`) or all at once
/// (`MPI_Testsome`). It is here for measurements of what Chant did (section 4.2). The engine receives otherwise.
#[doc(hidden)]
pub struct Posted {
    mpi: Arc<Mpi>,
    receives: Requests,
    sends: Requests,
    found: Found,
    /// MPI writes into the buffer of a receive that is under way. So the buffers go only if none is.
    buffers: ManuallyDrop<Vec<Box<[u8]>>>,
    is_under_way: Vec<bool>,
    out: Box<[u8]>,
}

impl Posted {
    /// Receives of messages of at most `length` bytes, none of them posted yet.
    pub fn new(mpi: Arc<Mpi>, count: usize, length: usize) -> Self {
        let buffer = || vec![0; length].into_boxed_slice();
        Self {
            mpi,
            receives: Requests::new(count),
            sends: Requests::new(1),
            found: Found::new(count),
            buffers: ManuallyDrop::new((0..count).map(|_| buffer()).collect()),
            is_under_way: vec![false; count],
            out: buffer(),
        }
    }

    /// Posts the receive `at`.
    ///
    /// # Errors
    /// MPI has failed.
    ///
    /// # Panics
    /// It is posted already.
    pub fn receive(&mut self, at: usize, from: ProcessId, tag: u16) -> Result<(), MpiError> {
        assert!(!std::mem::replace(&mut self.is_under_way[at], true), "receive {at} is posted already");
        let (to, room) = (self.buffers[at].as_mut_ptr(), self.buffers[at].len());
        let token = &mut self.mpi.enter().token;
        // SAFETY: the request is idle, as it is not under way. The buffer has that length. It is read only when it is not under
        // way, and it is not freed before.
        unsafe { self.receives.irecv(token, at, Comm::Measured, to, room, Some(from.0), Some(tag)) }
    }

    /// Tests whether the receive `at`, which is posted, is done.
    ///
    /// # Errors
    /// MPI has failed.
    pub fn test(&mut self, at: usize) -> Result<bool, MpiError> {
        let is_done = self.receives.test(&mut self.mpi.enter().token, at, &mut Status::default())?;
        self.is_under_way[at] &= !is_done;
        Ok(is_done)
    }

    /// Makes one test of all receives that are posted, and calls `tell` with each that is done.
    ///
    /// # Errors
    /// MPI has failed.
    pub fn test_all(&mut self, mut tell: impl FnMut(usize)) -> Result<(), MpiError> {
        let mut within = self.mpi.enter();
        for (at, _) in self.receives.test_some(&mut within.token, &mut self.found)? {
            self.is_under_way[at] = false;
            tell(at);
        }
        Ok(())
    }

    /// The message of the receive `at`, which is done.
    ///
    /// # Panics
    /// The receive is under way.
    pub fn message(&self, at: usize) -> &[u8] {
        assert!(!self.is_under_way[at], "receive {at} is under way");
        &self.buffers[at]
    }

    /// Sends a message (`MPI_Isend`), and tests until its bytes have been taken. The OS thread is blocked. MPI takes
    /// short messages at once.
    ///
    /// # Errors
    /// MPI has failed.
    ///
    /// # Panics
    /// The message is longer than the receives.
    pub fn send(&mut self, to: ProcessId, tag: u16, message: &[u8]) -> Result<(), MpiError> {
        let mut out = std::mem::take(&mut self.out);
        out[..message.len()].copy_from_slice(message);
        let sent = self.send_bytes(to, tag, &out[..message.len()]);
        match sent {
            Ok(()) => self.out = out,
            // MPI may have the bytes for ever.
            Err(_) => std::mem::forget(out),
        }
        sent
    }

    fn send_bytes(&mut self, to: ProcessId, tag: u16, bytes: &[u8]) -> Result<(), MpiError> {
        let token = &mut self.mpi.enter().token;
        // SAFETY: the request is idle, as this function waits until it is done. The caller keeps the bytes until then, or for ever
        // if this fails.
        unsafe { self.sends.isend(token, 0, Comm::Measured, bytes, to.0, tag) }?;
        while !self.sends.test_sent(token, 0)? {}
        Ok(())
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        if !self.is_under_way.contains(&true) {
            // SAFETY: this value goes, and nothing uses the buffers after it. No receive writes to them, either.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}
