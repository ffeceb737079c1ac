//! Parking: no wake-up is lost, and an idle machine uses no core.
//!
//! # The words
//!
//! Each worker has a state ([`Sleeper`]). It is that of the first of its processors, or a spare worker's own:
//!
//! ```text
//!   VACANT ──(start)──► AWAKE ◄──(wake, by another)── ASLEEP
//!      ▲                  │ └────────(announce)──────────▲
//!      └─────(vacate)─────┘ ◄───────(rise, by itself)────┘
//! ```
//!
//! VACANT means that no OS thread is the worker; a waker must then start one.
//!
//! The machine has one idle word ([`Idle`]):
//!
//! | part | what it counts |
//! |---|---|
//! | awake | the workers that own processors and do not sleep |
//! | searching | the workers that look through the others' queues at this moment |
//! | accepting | the processors that have nothing to run, and take what they are given (`steal.rs`) |
//! | unwatched | set when the last worker has gone to sleep without a timeout |
//!
//! # The protocol of sleep
//!
//! A worker that finds nothing to run counts itself out and *announces* its sleep. It looks at every queue of its own once
//! more, and only then sleeps in its poller. A waker publishes the ready thread first, and looks at the state afterwards:
//!
//! ```text
//!   sleeper: awake -= 1; state := ASLEEP; FENCE; look at the queues
//!   waker:   put into a queue; FENCE; look at the state
//! ```
//!
//! INV-SLEEP: either the sleeper sees the thread, or the waker sees ASLEEP, or both.
//!
//! *The race.* Without the fences, both looks may come before both stores, and each sees the old value: store buffering.
//! The thread would lie in the queue of a worker that sleeps.
//!
//! *The proof.* Both fences are sequentially consistent, so one of them comes first in their one order. If it is the
//! sleeper's, the waker's look comes after the sleeper's store, and finds ASLEEP. If it is the waker's, the sleeper's look
//! comes after the waker's store, and finds the thread. A waker that finds ASLEEP moves the state to AWAKE and notifies the
//! poller. Only one of several wakers does so, as the move is a swap. The notification sticks, so it does not matter whether
//! the sleeper has begun to wait.
//!
//! # The protocol of watches
//!
//! A thread in a processor's own policy may be run by others. Its waker pays no fence: [`Pool::wake_one`] only looks at the
//! idle word, so it may miss a worker that is falling asleep. Therefore a sleeper *watches* while others are awake. It
//! sleeps for a heartbeat, then for twice as long, and so on. Each time it looks through the queues of the others. The last
//! one to fall asleep does not watch, as nothing is left to see. It says so with UNWATCHED. The next worker that becomes
//! busy must then wake another one, once it has been busy for a heartbeat.
//!
//! INV-WATCH: while a worker is awake, another one watches, or the awake one knows that none does.
//!
//! *The race.* The last worker looks at the count while another one rises: it takes itself for the last, and the other takes
//! it for a watcher.
//!
//! *The proof.* Both change the one word, SeqCst: the last worker sets UNWATCHED with a read-modify-write, which returns the
//! count before it. A worker that rises counts itself first, and looks for UNWATCHED afterwards. Of the two changes one is
//! first. If it is the count, the last worker reads it, and watches. If it is UNWATCHED, the risen worker finds it.
//!
//! The models of the first protocol are in `models.rs`; those of the second in `park/models.rs`.

mod idle;
#[cfg(all(test, loom))]
mod models;
mod sleeper;

use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hand_off::{Spare, monitor};
use super::limits::{HEARTBEAT, LONGEST_WATCH, LOOK_TURNS, PUMPS};
use super::policy_guard::Stealer;
use super::pump::rest_of_pump;
use super::{Processor, Pump, Worker, fork};
use crate::policy::{Others, Ready};
use crate::sync::atomic::Ordering;

pub(crate) use idle::Idle;
pub(crate) use sleeper::{Sleeper, Wake};

/// How long a worker sleeps at most.
#[derive(Clone, Copy)]
pub(super) struct Sleep {
    pub(super) timeout: Option<Duration>,
    /// The part of this that is for stacks, which could be given back.
    pub(super) stacks: Option<Duration>,
}

impl Worker {
    /// Looks for threads elsewhere, as none is ready here; then parks until woken, until a timer or I/O is due, or until
    /// `over`.
    #[cold]
    pub(super) fn park(&self, over: &dyn Fn() -> bool) {
        if self.enter() {
            self.park_inside(over);
        } else if self.is_spare() {
            // (If it is, a passer was at work, and has given up.)
            if !self.ownership().is_still_of(&self.owner) {
                self.park_aside(over);
            }
        } else {
            self.reclaim();
        }
    }

    /// As [`park`](Self::park); the caller is inside, and this is its last act there.
    fn park_inside(&self, over: &dyn Fn() -> bool) {
        match self.look_around(over) {
            ControlFlow::Break(None) => (),
            ControlFlow::Break(Some(thread)) => self.run(thread),
            ControlFlow::Continue(now) => self.wait_for_work(now, over),
        }
    }

    /// Looks for something to run, here and elsewhere, before a park. Stops the park, perhaps with a thread. Otherwise
    /// returns the time. The caller is inside; it is not any more if this stops.
    pub(super) fn look_around(&self, over: &dyn Fn() -> bool) -> ControlFlow<Option<Ready>, Instant> {
        let has_pump = self.machine().pump.get().is_some();
        if has_pump {
            // A thread that waits for an answer that comes soon pays for nothing else.
            for _ in 0..PUMPS {
                let has_come = self.wait_for_pump(over);
                self.put_off_pump();
                if let Some(thread) = self.find_on_any() {
                    self.exit();
                    return ControlFlow::Break(Some(thread));
                }
                if !has_come {
                    break;
                }
            }
        }
        let now = Instant::now();
        self.look_at_all(now, has_pump);
        if let Some(thread) = self.find_on_any() {
            self.exit();
            return ControlFlow::Break(Some(thread));
        }
        match self.look_elsewhere(now, over) {
            ControlFlow::Break(found) => ControlFlow::Break(found),
            ControlFlow::Continue(()) => ControlFlow::Continue(now),
        }
    }

    /// Serves the timers, the I/O and the requests of all its processors, without waiting. The caller is inside.
    pub(super) fn look_at_all(&self, now: Instant, has_pump: bool) {
        self.owner.hold(|| {
            self.on_each(|processor| {
                processor.core.looked.set(now);
                // With a pump, the next turn finds out whether it is to be asked at each turn.
                processor.core.until_look.set(if has_pump { 1 } else { LOOK_TURNS });
                self.fire_timers(now);
                self.serve_requests();
            });
            self.poll_io();
        });
    }

    /// Waits for something to run. The caller is inside, and this is its last act there.
    fn wait_for_work(&self, now: Instant, over: &dyn Fn() -> bool) {
        let pump = self.machine().pump.get();
        let sleep = self.fall_asleep(now, pump, over);
        if let Some(Sleep { timeout, stacks }) = sleep {
            // The processors may be taken while we wait.
            self.exit();
            self.leave_carrier();
            self.wait_io(timeout);
            if stacks.is_some() {
                self.bound.fibers.slept(now.elapsed());
            }
        }
        let leader = self.leader();
        pump.inspect(|pump| pump.rise());
        if let Some(spare) = &self.spare {
            spare.sleeper.rise();
        }
        if sleep.is_some() && !self.owner.enter_unless_taken(self.ownership()) {
            // The processors were taken; the new owner counts as awake. The notification that ended our wait may have
            // been meant for it.
            leader.reactor.notify();
            return;
        }
        self.wake_up();
        self.exit();
        self.begin_to_be_busy();
        if self.machine().config.reports_deadlocks {
            self.look_for_deadlock();
        }
    }

    /// Announces the sleep, also to the pump. Returns how long to sleep; `None`: something has come meanwhile. The caller
    /// is inside.
    pub(super) fn fall_asleep(
        &self,
        now: Instant,
        pump: Option<&Arc<dyn Pump>>,
        over: &dyn Fn() -> bool,
    ) -> Option<Sleep> {
        let leader = self.leader();
        self.on_each(|_| self.policy().idle());
        let machine = self.machine();
        // Before `announce`, whose fence orders both for `wake_one`.
        machine.idle.sink();
        leader.handed.is_down.store(true, Ordering::Relaxed);
        if let Some(spare) = &self.spare {
            spare.sleeper.announce();
        }
        leader.sleeper.announce();
        let pump = rest_of_pump(pump)?;
        if over()
            || self.has_local_work()
            || self.others_wait()
            // (The looks call policies. One that blocks there parks, and rises.)
            || !leader.sleeper.is_asleep()
        {
            return None;
        }
        let stacks = self.bound.fibers.patience();
        let timeout = [self.sleep_time(now), stacks, pump].into_iter().flatten().min();
        self.counters().sleeps.add_one();
        Some(Sleep { timeout, stacks })
    }

    /// Counts the worker as awake again. The caller is inside.
    pub(super) fn wake_up(&self) {
        let leader = self.leader();
        self.on_each(|_| self.stop_asking());
        leader.handed.is_down.store(false, Ordering::Relaxed);
        leader.sleeper.rise();
        self.machine().idle.rise();
    }

    /// The last looks before a park: at long turns, for a moment at the inbox, and at the threads of others. Stops the
    /// park, perhaps with a thread. The caller is inside; it is not any more if this stops.
    fn look_elsewhere(&self, now: Instant, over: &dyn Fn() -> bool) -> ControlFlow<Option<Ready>> {
        self.on_each(|_| {
            if self.may_steal(now) {
                self.ask_for_half();
            }
        });
        if self.look_at_long_turns(over) {
            self.exit();
            return ControlFlow::Break(None);
        }
        if self.spin(over) {
            self.on_each(|_| self.stop_asking());
            self.exit();
            return ControlFlow::Break(None);
        }
        let back = self.processor();
        for processor in self.processors() {
            self.go_to(processor);
            let may_steal = self.may_steal(now);
            if !self.has_enough()
                && let Some(thread) = self.search(may_steal)
            {
                let thread = self.admit(thread);
                self.budget.set(processor.traits.quantum());
                self.on_each(|_| self.stop_asking());
                processor.leader().core.watch.set(HEARTBEAT);
                self.exit();
                return ControlFlow::Break(thread);
            }
            processor.steals.has_searched(may_steal && self.others_give());
        }
        self.go_to(back);
        ControlFlow::Continue(())
    }

    /// How long to sleep at most: until a timer is due, or the next look at the others. The caller is inside.
    fn sleep_time(&self, now: Instant) -> Option<Duration> {
        let mut time = [self.watch_for(), self.patience()].into_iter().flatten().min();
        self.on_each(|processor| {
            let due = processor.timers.next_due().map(|due| due.saturating_duration_since(Instant::now()));
            let (visitors, backoff) = (self.patience_for_visitors(), processor.steals.rest_of_backoff(now));
            time = [time, due, visitors, backoff].into_iter().flatten().min();
        });
        time
    }

    /// Whether other processors have work for us. The caller is inside.
    pub(super) fn others_wait(&self) -> bool {
        if self.has_enough() {
            return false;
        }
        let is_worth_it = self.processors().any(|processor| processor.steals.is_worth_a_search());
        (is_worth_it && self.others_give())
            || self.machine().find_worker(&|other| self.exposes_to_us(other)).is_some()
    }

    /// Whether `other` exposes halves of its computation, which we may take.
    fn exposes_to_us(&self, other: &Self) -> bool {
        !ptr::eq(other, self) && other.forks.has_exposed()
    }

    /// Whether others say that they have threads to give.
    fn others_give(&self) -> bool {
        let leader = self.leader();
        // (A processor that sleeps has nothing. A look into a policy costs all that look there a shared word.)
        let gives =
            |other: &Processor| !ptr::eq(other.leader(), leader) && !other.is_asleep() && other.gives() > 1;
        self.machine().processors.iter().any(|other| gives(other))
    }

    /// Notes that the worker becomes busy. If no worker watches the machine, the next spawns and forks take the slow
    /// path and find that out.
    pub(super) fn begin_to_be_busy(&self) {
        self.promotion.busy_since.set(Instant::now());
        monitor::wake(self.machine());
        self.see_whether_watched();
    }

    /// Asks for a closer look if all workers sleep without a watch. The worker has counted itself as awake.
    fn see_whether_watched(&self) {
        if self.machine().idle.is_found_unwatched() {
            self.ask_closer_look();
        }
    }

    /// Whether any of its processors has something to run. The caller is inside.
    pub(super) fn has_local_work(&self) -> bool {
        let is_sent = |spare: &Spare| spare.has_ready();
        let mut has_work = self.spare.as_ref().is_some_and(is_sent);
        self.on_each(|processor| {
            has_work = has_work
                || !processor.address.inbox.is_empty()
                || self.has_soon()
                || processor.policies.is_asked()
                || self.is_to_be_bound()
                || self.policy().waiting() > 0
                || processor.long_turns.is_called();
        });
        has_work
    }

    /// How long a sleeper sleeps before it looks again at the others; `None`: it does not watch. While others are
    /// busy, a sleeper keeps watch: it asks the busy ones for a parasite (heartbeat scheduling), wakes up soon, and
    /// takes what lies in their queues. The watches get longer while nothing comes of them. On an idle machine none
    /// watches. Where a worker has lost its processors the watch ends after a while, as that worker may wait
    /// for something rather than compute. A worker whose core is in use (`has_enough`) does not watch either.
    fn watch_for(&self) -> Option<Duration> {
        let machine = self.machine();
        if machine.workers.len() == 1 {
            return None;
        }
        let core = &self.leader().core;
        let may_come_back = || core.watch.get() < LONGEST_WATCH && machine.has_spare_workers_at_work();
        if machine.idle.awake_in_order() <= 0 && !may_come_back() && machine.idle.leave_unwatched() {
            core.watch.set(HEARTBEAT);
            self.ask_those_away();
            return None;
        }
        if self.has_enough() {
            return None;
        }
        let now = Instant::now();
        if core.asked.get().is_none_or(|asked| now.duration_since(asked) >= HEARTBEAT) {
            core.asked.set(Some(now));
            for leader in machine.leaders().filter(|leader| leader.sleeper.is_awake()) {
                leader.ownership.owner().inspect(|owner| owner.ask_for_work());
            }
            self.ask_those_away();
        }
        let watch = core.watch.get();
        core.watch.set((watch * 2).min(LONGEST_WATCH));
        Some(watch)
    }

    /// Asks the workers that compute without their processors for a parasite: the count of awake workers leaves them
    /// out.
    fn ask_those_away(&self) {
        if self.machine().has_spare_workers_at_work() {
            self.machine()
                .workers
                .iter()
                .filter(|other| other.is_away())
                .for_each(|other| other.ask_closer_look());
        }
    }

    /// Asks the others to share their parts of a computation. The worker waits for such a part, in the middle of a
    /// turn. (It counts as awake, as in any turn. Its turn may be long, and the monitor must not sleep before it has
    /// handed the processor off.)
    pub(crate) fn ask_for_parts(&self) {
        let others = self.machine().workers.iter().filter(|other| !ptr::eq(&***other, self));
        others.filter(|other| other.leader().sleeper.is_awake()).for_each(|other| other.ask_closer_look());
        self.ask_those_away();
    }

    /// Looks for a thread of other processors, if `may_steal`, or for a job. The caller is inside.
    fn search(&self, may_steal: bool) -> Option<Ready> {
        let machine = self.machine();
        // A spare worker of a single processor steals from the turn that has lost it.
        if machine.processors.len() == 1 && !machine.hand_offs.has_spare_workers.load(Ordering::Relaxed) {
            return None;
        }
        machine.idle.while_searching(|| {
            let found = if may_steal { self.search_policies() } else { None };
            found.or_else(|| {
                let has_stolen = self.owner.hold(|| fork::steal(self));
                has_stolen.then(|| self.next()).flatten()
            })
        })
    }

    fn search_policies(&self) -> Option<Ready> {
        let machine = self.machine();
        let processor = self.processor();
        let visit = processor.policies.visit();
        // SAFETY: the visit is one to our processor's policy, and lasts for longer than any use of the stealer.
        let stealer = unsafe { Stealer::new(processor, &visit) };
        let found =
            self.policy().need_thread(Others { stealer: &stealer, vps: machine, index: processor.index });
        // A policy that gives may return nothing, or panic, and yet have left threads with us. Nothing else tells us
        // of them.
        let found = if stealer.has_stolen() {
            self.policy_has_some();
            found.or_else(|| self.policy().next())
        } else {
            found
        };
        drop(visit);
        if let Some(thread) = &found {
            processor.leader().core.spin.was_sent();
            // SAFETY: a thread with a token keeps its machine alive, and so the address that it names.
            processor.has_stolen_from(unsafe { &*thread.header().address() }.processor());
        }
        found
    }
}
