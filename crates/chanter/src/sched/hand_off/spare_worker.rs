//! Spare workers: they run processors while the regular worker does not.

use std::cell::UnsafeCell;
use std::time::{Duration, Instant};

use super::super::address::Address;
use super::super::limits::{MOST_SPARES, SPARE_IDLE};
use super::super::park::{Sleeper, Wake};
use super::super::reactor::Reactor;
use super::super::run_loop::Driving;
use super::super::wake_list::WakeList;
use super::super::{Processor, Worker};
use crate::frame::Kind;
use crate::policy::{Ready, ReadyQueue};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{AliasedBox, Cell};

/// The part that only a spare worker has. It works for the same regular worker all its life.
pub(crate) struct Spare {
    /// The address of the threads that are bound to its OS thread.
    pub(crate) address: Address,
    /// Tells those that wake it whether it sleeps.
    pub(crate) sleeper: Sleeper,
    /// Where it sleeps while it owns nothing. It watches nothing, so that a spare worker that was needed once keeps no
    /// descriptors.
    pub(crate) parker: Reactor,
    /// Ready threads that are bound to its OS thread. Its own.
    own: UnsafeCell<ReadyQueue>,
    /// Whether the last turn was one of these.
    own_turn: Cell<bool>,
    /// Whether it has neither processors nor threads of its own.
    pub(crate) is_free: AtomicBool,
    /// Whether it has been free for long, so that its OS thread ends.
    is_over: Cell<bool>,
}

impl Spare {
    fn new() -> Self {
        Self {
            address: Address::new(),
            sleeper: Sleeper::new_vacant(),
            parker: Reactor::parker(),
            own: UnsafeCell::new(ReadyQueue::new()),
            own_turn: Cell::new(false),
            is_free: AtomicBool::new(true),
            is_over: Cell::new(false),
        }
    }

    /// Queues a thread that is bound to the caller's OS thread.
    pub(super) fn push_own(&self, thread: Ready) {
        // SAFETY: the worker itself calls; the borrow ends here.
        unsafe { &mut *self.own.get() }.push_back(thread);
    }

    /// The next of the threads that are bound to the caller's OS thread.
    fn pop_own(&self) -> Option<Ready> {
        for thread in self.address.take_all() {
            self.push_own(thread);
        }
        // SAFETY: the worker itself calls; the borrow ends here.
        unsafe { &mut *self.own.get() }.pop_front()
    }

    /// Whether a thread that is bound to the caller's OS thread is ready.
    pub(crate) fn has_ready(&self) -> bool {
        // SAFETY: the worker itself calls; the borrow ends here.
        !self.address.inbox.is_empty() || !unsafe { &*self.own.get() }.is_empty()
    }

    /// Ends the threads that are bound to the caller's OS thread and ready. Returns whether there were any.
    pub(crate) fn drop_own(&self) -> bool {
        let mut any = false;
        while let Some(thread) = self.pop_own() {
            any = true;
            drop(thread);
        }
        any
    }
}

impl Worker {
    /// One more spare worker for the processors that `leader` leads. It sleeps in their poller while it owns them.
    fn new_spare(leader: &Processor) -> AliasedBox<Self> {
        let machine = leader.machine();
        let regular = leader.regular_worker();
        let mut worker = Self::new(
            leader.index,
            machine.workers.len(),
            machine.processors.len(),
            regular.channels.layout(),
        );
        worker.spare = Some(Spare::new());
        let worker = AliasedBox::new(worker);
        worker.belong_to(leader);
        if let Some(spare) = &worker.spare {
            spare.address.belong_to(leader, &worker);
        }
        if let Some(observer) = machine.observer() {
            worker.arena.tell(observer);
        }
        worker
    }

    /// Wakes this worker, or starts its OS thread.
    pub(crate) fn notify(&self) {
        if self.is_spare() { self.notify_spare() } else { self.leader().notify() }
    }

    /// Wakes a spare worker, or starts its OS thread: a thread that is bound to it is ready, or it has been given
    /// processors.
    pub(crate) fn notify_spare(&self) {
        let Some(spare) = &self.spare else { return };
        match spare.sleeper.wake() {
            Wake::Nothing => (),
            Wake::Notify => {
                // It sleeps in the poller of its processors, or in its own.
                self.leader().reactor.notify();
                spare.parker.notify();
            }
            Wake::Start => self.machine().start_worker(self),
        }
    }

    /// Runs on the OS thread of a spare worker.
    pub(crate) fn run_as_spare(&self, spare: &Spare) {
        let machine = self.machine();
        loop {
            spare.is_over.set(false);
            {
                let driving = Driving::new(self);
                driving.run_until(&|| machine.is_closing() || spare.is_over.get());
                if machine.is_closing() {
                    // The threads left in the queues go to the regular worker, or end with the machine: see
                    // `serve_for_spare`.
                    driving.end_local_threads();
                }
            }
            self.bound.fibers.shrink();
            self.channels.shrink();
            spare.sleeper.vacate();
            // INV-SLEEP: the processors are given to us before we are woken.
            if machine.is_closing() || !self.is_needed(spare) || !spare.sleeper.occupy() {
                return;
            }
        }
    }

    /// The next thread that is bound to this spare worker, every other turn. The caller is inside.
    #[cold]
    pub(crate) fn next_bound(&self) -> Option<Ready> {
        let spare = self.spare.as_ref()?;
        let is_own_turn = !spare.own_turn.get();
        spare.own_turn.set(is_own_turn);
        if is_own_turn { spare.pop_own() } else { None }
    }

    /// Runs one of the threads that are bound to this spare worker, which owns no processors.
    pub(super) fn run_own(&self) -> bool {
        let Some(thread) = self.spare.as_ref().and_then(Spare::pop_own) else { return false };
        self.budget.set(self.processor().traits.quantum());
        self.counters().polls.add_one();
        self.run(thread);
        true
    }

    /// Waits for processors, or for a thread that is bound to this spare worker, which owns none. If neither comes for
    /// [`SPARE_IDLE`], its OS thread ends.
    #[cold]
    pub(crate) fn park_aside(&self, over: &dyn Fn() -> bool) {
        let Some(spare) = &self.spare else { return };
        // A nested scheduler has the thread below it on the stack.
        let has_own = !self.running.get().is_null() || self.has_own();
        if !has_own {
            self.become_free(spare);
        }
        spare.sleeper.announce();
        let begun = Instant::now();
        if !over() && !self.is_needed(spare) {
            self.counters().sleeps.add_one();
            spare.parker.poll(if has_own { None } else { Some(SPARE_IDLE) });
        }
        spare.sleeper.rise();
        if !has_own && begun.elapsed() >= SPARE_IDLE && !self.is_needed(spare) {
            spare.is_over.set(true);
        } else {
            self.begin_to_be_busy();
        }
    }

    /// Notes that this spare worker has neither processors nor threads of its own, unless it has just been given some.
    /// Returns whether it is free.
    fn become_free(&self, spare: &Spare) -> bool {
        // Not while a passer gives processors to us: it has taken the mark back, and then we would hold them with it.
        self.ownership().unless_held_by(&self.owner, || {
            // ORDER: Release, with the Acquire in `free_spare_worker`: all that we did comes before what is given to
            // us.
            spare.is_free.store(true, Ordering::Release);
        })
    }

    /// Serves the processors of a spare worker in the place of its OS thread, as the machine ends, and no more OS
    /// threads start. The regular worker is in the middle of a turn, and may wait for what happens here. Fires timers
    /// into `wakes`, polls I/O, and ends the threads that are ready. Those that are bound to the regular worker wait
    /// for it.
    ///
    /// The caller has occupied the sleeper, and so is the worker. It runs none of the machine's threads.
    pub(crate) fn serve_for_spare(&self, spare: &Spare, wakes: &mut WakeList) {
        if self.become_free(spare) {
            return;
        }
        let now = Instant::now();
        self.processors().for_each(|processor| processor.timers.fire(now, wakes));
        self.leader().reactor.poll_for(&spare.parker, Some(Duration::ZERO));
        // One by one, and outside: the end of a thread may wait until another thread ends.
        while let Some(thread) = self.take_ready() {
            drop(thread);
        }
    }

    /// Takes one of the threads that are ready on the processors, if they are ours.
    fn take_ready(&self) -> Option<Ready> {
        if !self.enter() {
            return None;
        }
        let mut found = None;
        self.on_each(|processor| {
            if found.is_none() {
                for thread in processor.address.take_all() {
                    // SAFETY: we are the owner, inside; the borrow ends here.
                    unsafe { processor.soon() }.push_back(thread);
                }
                self.drain_policies();
            }
            while found.is_none() {
                // SAFETY: we are the owner, inside; the borrow ends with the call.
                let Some(thread) = unsafe { processor.soon() }.pop_front() else { break };
                found = self.admit(thread);
            }
        });
        self.exit();
        found
    }

    fn is_needed(&self, spare: &Spare) -> bool {
        !spare.address.inbox.is_empty() || !self.is_away()
    }

    /// Whether threads are bound to the OS thread of this spare worker.
    fn has_own(&self) -> bool {
        if !self.bound.has_locals.get() {
            return false;
        }
        if !self.bound.fibers.is_empty() {
            return true;
        }
        // SAFETY: this OS thread owns the arena.
        let frames = unsafe { self.arena.frames_in_use() };
        let has_own = frames.into_iter().any(|frame| {
            // SAFETY: in use; `Local` frames are freed by us alone while they
            // are not complete.
            let header = unsafe { frame.as_ref() };
            header.kind.get() == Kind::Local && !header.state.is_complete()
        });
        self.bound.has_locals.set(has_own);
        has_own
    }
}

impl Processor {
    /// Passes the processors that this one leads from `owner`, which does not come back, to a spare worker. `computes` says
    /// whether `owner` computes. Returns the spare worker, and the number of its last turn. The caller keeps the
    /// machine from ending.
    pub(in crate::sched) fn hand_off(&self, owner: &Worker, computes: bool) -> Option<(&Worker, u64)> {
        if owner.owner.is_inside() {
            return None;
        }
        let to = self.free_spare_worker()?;
        let spare = to.spare.as_ref()?;
        // The spare worker is free, so the number does not change.
        let number = to.turn.number.get();
        let mut slept = false;
        let is_passed = self.ownership.pass(&owner.owner, &to.owner, || {
            spare.is_free.store(false, Ordering::Relaxed);
            self.handed.computes_aside.store(computes, Ordering::Relaxed);
            slept = self.wake_for_new_owner();
        });
        if !is_passed {
            return None;
        }
        self.machine().record().pass(self.index);
        if slept {
            self.reactor.notify();
        }
        to.notify_spare();
        Some((to, number))
    }

    fn free_spare_worker(&self) -> Option<&Worker> {
        let machine = self.machine();
        let mut spare_workers = machine.spare_workers();
        let is_free = |other: &Worker| {
            // ORDER: Acquire, with the Release in `park_aside`: what it did before it became free is visible here.
            std::ptr::eq(other.ownership(), &self.ownership)
                && other.spare.as_ref().is_some_and(|spare| spare.is_free.load(Ordering::Acquire))
        };
        let index = match spare_workers.iter().position(|other| is_free(other)) {
            Some(index) => index,
            None if spare_workers.len() >= MOST_SPARES => return None,
            None => {
                spare_workers.push(Worker::new_spare(self));
                machine.hand_offs.has_spare_workers.store(true, Ordering::Relaxed);
                spare_workers.len() - 1
            }
        };
        let worker: *const Worker = spare_workers[index].as_ptr();
        // SAFETY: spare workers live until the machine's memory goes.
        Some(unsafe { &*worker })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::super::Pool;
    use super::*;
    use crate::prelude::*;
    use crate::sync::fence_pair;

    /// Waits until `is_so`; a watchdog of a minute.
    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until every worker sleeps, or has no OS thread, and every processor is with its regular worker.
    fn until_at_rest(pool: &Pool) {
        let rests = |leader: &Processor| !leader.sleeper.is_awake() && !leader.is_handed_off();
        until("the machine does not come to rest", || pool.leaders().all(rests));
    }

    /// The processor belongs to nobody, so the test is its passer.
    #[test]
    fn a_pass_counts_a_sleeping_worker_as_awake_and_no_other() {
        let machine = Machine::builder().vps(1).build().unwrap();
        let (idle, leader) = (&machine.pool().idle, &*machine.pool().processors[0]);
        assert!(leader.sleeper.occupy(), "no worker has begun");
        assert!(!leader.wake_for_new_owner(), "it does not sleep");
        assert_eq!(idle.awake_in_order(), 0);
        leader.handed.is_down.store(true, Ordering::Relaxed);
        leader.sleeper.announce();
        assert!(leader.wake_for_new_owner(), "it sleeps");
        assert_eq!(idle.awake_in_order(), 1);
        assert!(leader.sleeper.is_awake() && !leader.handed.is_down.load(Ordering::Relaxed));
        assert!(!leader.wake_for_new_owner(), "it does not sleep any more");
        assert_eq!(idle.awake_in_order(), 1);
        idle.sink();
        leader.sleeper.vacate();
    }

    /// The worker that has lost the processors in its sleep reclaims them from a spare worker, which may sleep as well.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no heavy fence")]
    fn the_processors_of_a_sleeping_worker_are_taken_and_come_back_with_the_counts_as_they_were() {
        if !fence_pair::is_available() {
            return;
        }
        let machine = Machine::builder().vps(2).build().unwrap();
        let pool = machine.pool();
        let leader = &*pool.processors[1];
        for round in 0..50 {
            until_at_rest(pool);
            until("the count of awake workers is not 0 at rest", || pool.idle.awake_in_order() == 0);
            until("the processor is not passed", || {
                leader.hand_off(leader.regular_worker(), false).is_some()
            });
            let thread = machine.spawn_on(1, async move { round });
            assert_eq!(thread.join().sync_blocking().unwrap(), round);
        }
        until_at_rest(pool);
        until("the count of awake workers is not 0 at rest", || pool.idle.awake_in_order() == 0);
    }
}
