//! Addresses of threads: where a thread that becomes ready elsewhere is sent.
//!
//! A frame names the address at which its thread ran last, or is to run. Nearly always that is a processor's. Threads that
//! are bound to the OS thread of a spare worker are at the address of that worker, since it has no processor of its own.

use std::cell::Cell;
use std::ptr;

use super::{Pool, Processor, Worker, run};
use crate::frame::{Header, OpaqueAddress};
use crate::policy::Ready;
use crate::sync::Stack;

/// Where the threads of a processor, or of a spare worker, are sent.
pub(crate) struct Address {
    pub(crate) inbox: Stack<Header>,
    /// The processor of these threads.
    processor: Cell<*const Processor>,
    /// The worker to whose OS thread these threads are bound, if they are bound to one.
    worker: Cell<*const Worker>,
}

// SAFETY: both pointers are set before the machine's first worker begins, or before the spare worker is known to others. They
// are to parts of the machine, which are `Sync` and live for as long as it. The inbox is `Sync`.
unsafe impl Sync for Address {}
// SAFETY: as for `Sync`: the pointers are to `Sync` parts of the machine.
unsafe impl Send for Address {}

impl Address {
    pub(super) fn new() -> Self {
        Self { inbox: Stack::new(), processor: Cell::new(ptr::null()), worker: Cell::new(ptr::null()) }
    }

    /// Says whose address it is. Called once, before others see it.
    pub(super) fn belong_to(&self, processor: &Processor, worker: &Worker) {
        self.processor.set(processor);
        self.worker.set(worker);
    }

    /// The processor of the threads at this address.
    #[inline(always)]
    pub(crate) fn processor(&self) -> &Processor {
        // SAFETY: set before others see the address; the machine keeps its processors.
        unsafe { &*self.processor.get() }
    }

    /// The worker to whose OS thread the threads at this address are bound, if they are bound to one.
    #[inline(always)]
    pub(crate) fn worker(&self) -> &Worker {
        // SAFETY: set before others see the address; the machine keeps its workers.
        unsafe { &*self.worker.get() }
    }

    #[inline(always)]
    pub(crate) fn machine(&self) -> &Pool {
        self.processor().machine()
    }

    #[inline(always)]
    pub(crate) fn is_of_same_machine(&self, other: &Processor) -> bool {
        ptr::eq(&other.address, self) || ptr::eq(self.machine(), other.machine())
    }

    /// The address, as frames name it.
    #[inline(always)]
    pub(crate) fn opaque(&self) -> *const OpaqueAddress {
        ptr::from_ref(self).cast()
    }

    /// Sends a thread that became ready to the inbox; any OS thread may call.
    ///
    /// The caller keeps the machine's memory alive: it is one of its workers, or holds the machine, or a reference to a
    /// frame.
    pub(crate) fn push(&self, thread: Ready) {
        let frame = thread.into_frame();
        // SAFETY: the token is ours to give.
        if unsafe { self.inbox.push(frame) }.is_ok() {
            return self.notify();
        }
        // The machine has ended, and its threads with it.
        // SAFETY: the token is ours still.
        let alive = run::forget_if_stale(unsafe { Ready::from_frame(frame) });
        debug_assert!(alive.is_none(), "INV-SEIZE: a machine ends when its threads have");
        std::mem::forget(alive);
    }

    /// Wakes the worker that looks here, or starts one.
    fn notify(&self) {
        if ptr::eq(self, &self.processor().address) {
            self.processor().notify();
        } else {
            self.worker().notify_spare();
        }
    }

    /// Takes no threads any more. Those that are left have ended: their tokens are dead.
    pub(crate) fn close(&self) {
        for frame in self.inbox.close() {
            // SAFETY: inboxes hold tokens, and this one has just been taken out.
            drop(unsafe { Ready::from_frame(frame) });
        }
    }

    /// Takes out all threads, the oldest first.
    pub(super) fn take_all(&self) -> impl Iterator<Item = Ready> {
        // SAFETY: inboxes hold tokens, and these have just been taken out.
        self.inbox.take_all().oldest_first().map(|frame| unsafe { Ready::from_frame(frame) })
    }
}
