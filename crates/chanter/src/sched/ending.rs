//! The end of a worker: its bound threads, its queues, and threads whose tokens do not come back.

use std::ptr::{self, NonNull};

use super::limits::DEPTH;
use super::park::Sleeper;
use super::run::Revoked;
use super::{Processor, Stats, Worker, wake};
use crate::frame::{Header, Kind};
use crate::policy::{Ready, ReadyQueue, Reason};

impl Worker {
    /// Ends the `Local` threads, whose bodies belong to this OS thread, before it stops driving. The caller is
    /// inside, or drives a spare worker.
    pub(super) fn end_local_threads(&self) {
        // Threads that destructors wake are queued, not attached: an attached one might be revoked (see
        // `revoke_misplaced`).
        let depth = self.depth.replace(DEPTH);
        self.end_all_local_threads();
        self.depth.set(depth);
    }

    fn end_all_local_threads(&self) {
        while self.bound.has_locals.get() {
            let mut any = self.drop_queued_bound();
            let frames = self.local_threads();
            if frames.is_empty() && self.bound.fibers.is_empty() {
                self.bound.has_locals.set(false);
                return;
            }
            for frame in frames {
                // SAFETY: a frame of our arena. It may have ended meanwhile.
                let claimed = unsafe { wake::claim(frame, true) };
                any |= claimed.is_some();
                self.outside(|| drop(claimed));
            }
            while let Some(fiber) = self.bound.fibers.claim_one() {
                any = true;
                self.outside(|| drop(fiber));
            }
            if !any {
                // Others have the tokens of those left: wakers elsewhere, and policies.
                self.revoke_local_threads();
                self.outside(|| while self.end_one_revoked() {});
            }
        }
    }

    /// Calls `f`, which ends threads, and so runs code of the user. A regular worker, which is inside, is not so
    /// meanwhile: the code may wait for threads of the processors, which are then handed off.
    fn outside(&self, f: impl FnOnce()) {
        if self.is_spare() {
            return f();
        }
        self.end_use();
        f();
        self.begin_use();
    }

    /// The frames of the `Local` threads that were spawned here and have not ended. The caller is the worker.
    fn local_threads(&self) -> Vec<NonNull<Header>> {
        // SAFETY: this OS thread is the worker, hence owns the arena.
        let mut frames = unsafe { self.arena.frames_in_use() };
        frames.retain(|frame| {
            // SAFETY: in use, and `Local` frames are freed by us alone
            // while they are not complete.
            let header = unsafe { frame.as_ref() };
            // A fiber that was spawned here may have begun elsewhere.
            // SAFETY: a frame keeps its machine, and so the address that it names.
            let is_ours = || ptr::eq(unsafe { &*header.address() }.worker(), self);
            header.kind.get() == Kind::Local && is_ours() && !header.state.is_complete()
        });
        frames
    }

    /// Whether threads are bound to its OS thread. If `is_only`, it has no other one to go on with, and the answer may be
    /// true without need. The caller is the worker.
    pub(super) fn is_bound_to_os_thread(&self, is_only: bool) -> bool {
        if !self.bound.has_locals.get() || is_only {
            return self.bound.has_locals.get();
        }
        let is_bound = !self.bound.fibers.is_empty() || !self.local_threads().is_empty();
        self.bound.has_locals.set(is_bound);
        is_bound
    }

    fn revoke_local_threads(&self) {
        // SAFETY: the worker's; the borrow ends here, and nothing below is user code.
        let revoked_threads = unsafe { &mut *self.bound.revoked.get() };
        // SAFETY: they are bound to this OS thread, which polls nothing now.
        revoked_threads
            .extend(self.local_threads().into_iter().filter_map(|frame| unsafe { Revoked::take(frame) }));
        self.bound.fibers.revoke_thread(revoked_threads);
    }

    /// Revokes threads whose tokens do not come back, at the end of the machine: the worker ends its threads, and
    /// waits for these. Revokes those that it can reach, if no worker polls threads any more. (The others are within
    /// reach of another worker, or of the machine's end.)
    pub(super) fn revoke_misplaced(&self) {
        let machine = self.machine();
        if machine.is_closing() && !self.bound.fibers.is_polled_below(self.running.get()) {
            // SAFETY: this OS thread is the worker, hence owns the arena.
            machine
                .revoke_misplaced(self, |revoke_thread| unsafe { self.arena.each_not_ended(revoke_thread) });
            machine.revoke_misplaced(self, |revoke_thread| {
                // SAFETY: we hold the lock.
                machine.with_arena(|arena| unsafe { arena.each_not_ended(revoke_thread) });
            });
        }
    }

    /// Ends one of the revoked threads; false: there was none. They end one by one: the end of a thread may wait
    /// until another thread ends. The caller is the worker, or no worker is left.
    pub(crate) fn end_one_revoked(&self) -> bool {
        // SAFETY: the worker's; the borrow ends here.
        let Some(revoked_threads) = unsafe { &mut *self.bound.revoked.get() }.pop() else {
            return false;
        };
        self.counters().revoked_threads.add_one();
        revoked_threads.end();
        true
    }

    /// Ends the `Local` threads that are ready. Returns whether there were any.
    fn drop_queued_bound(&self) -> bool {
        if let Some(spare) = &self.spare {
            return spare.drop_own();
        }
        let mut any = false;
        self.on_each(|_| {
            self.drain_inbox();
            any |= self.drop_local();
        });
        any
    }

    /// Drops the tokens of `Local` threads of the processor; returns whether there were any. They are dropped one by one, with all
    /// others in their queues: the end of a fiber may wait for the ends of its scope's threads.
    fn drop_local(&self) -> bool {
        self.serve_replacement();
        let mut any = false;
        let (mut locals, mut others) = (ReadyQueue::new(), ReadyQueue::new());
        while let Some(thread) = self.next() {
            let queue = if thread.kind() == Kind::Local { &mut locals } else { &mut others };
            queue.push_back(thread);
        }
        while let Some(thread) = others.pop_front() {
            self.enqueue(thread, Reason::Remote);
        }
        while let Some(thread) = locals.pop_front() {
            // SAFETY: we are the worker.
            unsafe { self.processor().soon() }.push_back(thread);
        }
        let is_local = |thread: &Ready| thread.kind() == Kind::Local;
        // SAFETY: we are the owner, inside; the borrow ends with the call.
        while let Some(local) = unsafe { self.processor().soon() }.take_first(is_local) {
            any = true;
            self.outside(|| drop(local));
        }
        any
    }
}

/// The result of [`Worker::begin_polls`].
pub(super) struct Polls<'a>(&'a Worker);

impl Drop for Polls<'_> {
    fn drop(&mut self) {
        self.0.turn.nested.set(self.0.turn.nested.get() - 1);
        *self.0.machine().pollers() -= 1;
    }
}

impl Worker {
    /// Counts the worker as one that runs threads from its queues, until the result is dropped. Meanwhile no thread
    /// whose token others have is revoked.
    pub(super) fn begin_polls(&self) -> Polls<'_> {
        *self.machine().pollers() += 1;
        self.turn.nested.set(self.turn.nested.get() + 1);
        Polls(self)
    }

    /// The state that says whether this worker sleeps.
    pub(crate) fn sleeper(&self) -> &Sleeper {
        self.spare.as_ref().map_or(&self.leader().sleeper, |spare| &spare.sleeper)
    }

    /// Ends the role of a regular worker; another OS thread takes over if there is anything to do. The caller is inside.
    pub(crate) fn leave(&self) {
        let machine = self.machine();
        let leader = self.leader();
        self.bound.fibers.shrink();
        // The messages that a pump brings wake nobody.
        let mut is_busy = machine.pump.get().is_some();
        self.on_each(|_| is_busy |= self.is_busy());
        // The next OS thread is assigned the ownership.
        leader.ownership.vacate();
        self.end_use();
        leader.sleeper.vacate();
        if machine.is_closing() || machine.is_reserved(self) {
            return;
        }
        let is_needed = |led: &Processor| !led.address.inbox.is_empty() || led.policies.is_asked();
        if (is_busy || leader.led().any(is_needed)) && leader.sleeper.occupy() {
            machine.start_worker(self);
        }
    }

    /// Whether there is anything to do on the processor for the next OS thread.
    fn is_busy(&self) -> bool {
        let processor = self.processor();
        match self.policy().next() {
            Some(thread) => {
                processor.address.push(thread);
                true
            }
            None => {
                self.has_soon()
                    || self.has_replacement()
                    || !processor.timers.is_empty()
                    || processor.reactor.has_sources()
            }
        }
    }

    /// Ends the threads in the queues, at shutdown; false: there were none. The caller is the worker, inside, or none is
    /// left.
    pub(crate) fn drop_queued(&self) -> bool {
        let mut any = false;
        match &self.spare {
            Some(spare) => any |= spare.drop_own(),
            None => self.on_each(|_| any |= self.drop_queued_here()),
        }
        while self.end_one_revoked() {
            any = true;
        }
        any
    }

    fn drop_queued_here(&self) -> bool {
        let processor = self.processor();
        for thread in processor.address.take_all() {
            // SAFETY: we are the owner, inside, or no worker is left; the borrow ends here.
            unsafe { processor.soon() }.push_back(thread);
        }
        self.drain_policies();
        let mut any = false;
        // One by one: the end of a thread may wait until another thread ends.
        for queue in [processor.core.soon.get(), processor.handed.kept.get()] {
            // SAFETY: we are the owner, inside, or no worker is left; the borrow ends with the call.
            while let Some(thread) = unsafe { &mut *queue }.pop_front() {
                any = true;
                if ptr::eq(thread.header().machine(), self.machine()) {
                    drop(thread);
                } else {
                    // It was misplaced: it belongs to another machine, which goes on.
                    Self::send_home(thread);
                }
            }
        }
        any
    }
}

impl Processor {
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let mut stale = 0;
        let mut add = |worker: &Worker| {
            let (counters, parasites) = worker.counts_for(self);
            stats.add(counters, parasites);
            stale += counters.stale.get();
            // A worker's frames count where its processors begin.
            if ptr::eq(self.leader(), self) {
                stats.add_frames(&worker.arena);
            }
        };
        add(self.regular_worker());
        let leader = self.leader();
        let spare_workers = self.machine().spare_workers();
        spare_workers.iter().filter(|other| ptr::eq(other.leader(), leader)).for_each(|other| add(other));
        drop(spare_workers);
        // Turns end before their kind is counted, so the two may be a moment apart.
        stats.dispatched += self.core.turns.get().saturating_sub(stale);
        stats.policies_failed += self.policies_failed.get();
    }
}
