//! The scheduler: the loop in which a driver runs a virtual processor.

use std::ops::ControlFlow;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use super::hand_off::monitor;
use super::limits::{DEPTH, HEARTBEAT, LONGEST_WATCH, LOOK, LOOK_TURNS, PUMPS};
use super::policy_guard::Stealer;
use super::pump::rest_of_pump;
use super::replace::WakeSource;
use super::run::Revoked;
use super::wake_list::WakeList;
use super::{Vp, fork, run, stack};
use crate::frame::{Header, Kind, catch_panic};
use crate::policy::{Others, Ready, ReadyQueue, Reason};
use crate::sync::Announcement;
use crate::sync::atomic::Ordering;

/// The role of driver of a virtual processor, held by this OS thread.
pub(crate) struct Driving<'a> {
    vp: &'a Vp,
    outer: *const Vp,
}

impl<'a> Driving<'a> {
    /// Starts to drive `vp`, which the caller has occupied.
    pub(crate) fn new(vp: &'a Vp) -> Self {
        if vp.is_spare_worker() {
            // A spare worker counts as awake for its principal, while it owns the processor.
            vp.drive();
        } else {
            vp.machine().idle.awake.fetch_add(1, Ordering::SeqCst);
            for vp in vp.machine().crew(vp) {
                vp.drive();
                vp.ownership.assign(&vp.owner);
            }
        }
        // SAFETY: the machine outlives its drivers.
        Self { vp, outer: unsafe { Vp::make_current(vp) } }
    }

    /// Ends the threads that are bound to this OS thread, before it stops
    /// driving.
    pub(crate) fn end_local_threads(&self) {
        if self.vp.is_spare_worker() {
            return self.vp.end_local_threads();
        }
        for vp in self.vp.machine().crew(self.vp) {
            vp.on_shift(|vp| {
                vp.begin_use();
                vp.end_local_threads();
            });
        }
    }

    /// Runs threads until `over`; sleeps when there are none.
    ///
    pub(crate) fn run_until(&self, over: &dyn Fn() -> bool) {
        let bomb = AbortOnUnwind;
        let _polls = self.vp.begin_polls();
        if self.vp.machine().has_crews() {
            while !over() {
                if !self.vp.take_shifts(over) {
                    self.vp.rest_crew(over);
                }
            }
        }
        while !over() {
            if !self.vp.dispatch() {
                self.vp.rest(over);
            }
        }
        std::mem::forget(bomb);
    }
}

/// Ends the process if the scheduler unwinds. The panics of bodies, wakers and policies are caught, so nothing
/// unwinds through it. If something did, threads would be lost, and `block_on` would return before its future was
/// dropped.
pub(crate) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("chanter: the scheduler panicked; its threads cannot go on");
        std::process::abort();
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.vp.worker.announcement.get().set_responsive(false);
        self.vp.worker.home.set_driver(None);
        self.vp.binding.leave();
        if !self.vp.is_spare_worker() {
            for vp in self.vp.machine().crew(self.vp) {
                vp.worker.home.set_driver(None);
                vp.binding.leave();
            }
            self.vp.machine().idle.awake.fetch_sub(1, Ordering::SeqCst);
        }
        // SAFETY: the drivers of an OS thread nest, so the outer one goes on.
        unsafe { Vp::make_current(self.outer) };
    }
}

impl Vp {
    /// Begins to drive us, on this OS thread.
    fn drive(&self) {
        let limit = stack::limit();
        self.worker.stack_limit.set(limit);
        let announcement = Announcement::mine();
        self.worker.home.set_driver(announcement);
        self.worker.announcement.set(announcement.unwrap_or(Announcement::nobodys()));
        self.steals.forget();
        self.worker.channels.begin(self.revoked());
        self.worker.announcement.get().set_responsive(true);
        self.worker.guard.store(limit, Ordering::Relaxed);
        if self.machine().tells_of_births() {
            self.ask_closer_look();
        }
        self.be_known();
        self.begin_to_be_busy();
        self.serve_binding();
    }

    /// Runs one thread, if one is ready.
    pub(crate) fn dispatch(&self) -> bool {
        if !self.enter() {
            return self.dispatch_slowly();
        }
        let found = self.find(self);
        self.exit();
        let Some(thread) = found else { return false };
        self.run(thread);
        true
    }

    #[inline]
    pub(super) fn run(&self, thread: Ready) {
        self.worker.budget.set(self.quantum());
        self.counters.polls.add_one();
        // SAFETY: this OS thread drives us, so we are its current virtual processor.
        unsafe { run::run(self, thread) };
    }

    /// Number of operations that a turn has, as the policy says.
    #[inline(always)]
    pub(crate) fn quantum(&self) -> u32 {
        self.core.terms.get().quantum
    }

    /// The next thread. The caller is inside, as for the functions below; `of` is its principal.
    #[inline(always)]
    fn find(&self, of: &Self) -> Option<Ready> {
        let left = self.core.until_look.get() - 1;
        self.core.until_look.set(left);
        if left == 0 {
            self.owner.hold(|| self.look_around());
        }
        self.worker.announcement.get().acknowledge();
        self.drain_inbox();
        self.share();
        loop {
            let thread = self.next(of)?;
            if let Some(thread) = self.admit(thread) {
                return Some(thread);
            }
        }
    }

    /// As [`find`](Self::find), but not inlined: for the rare paths.
    #[cold]
    pub(super) fn find_slowly(&self) -> Option<Ready> {
        self.find(self.principal())
    }

    #[inline(always)]
    pub(crate) fn drain_inbox(&self) {
        if !self.inbox.is_empty() {
            self.drain_inbox_now();
        }
    }

    #[inline(never)]
    fn drain_inbox_now(&self) {
        self.core.spin.was_sent();
        self.owner.hold(|| {
            for frame in self.inbox.take_all().oldest_first() {
                // SAFETY: inboxes hold tokens, and this one has just been taken out.
                let thread = unsafe { Ready::from_frame(frame) };
                if let Some(thread) = self.admit(thread) {
                    self.enqueue(thread, Reason::Remote);
                }
            }
        });
    }

    /// Looks at the clock; if it is time, at timers and I/O, without waiting.
    #[cold]
    fn look_around(&self) {
        self.serve_requests();
        if self.pump_at_a_turn() {
            self.core.until_look.set(1);
            let left = self.core.until_clock.get().saturating_sub(1);
            self.core.until_clock.set(if left > 0 { left } else { LOOK_TURNS });
            if left > 0 {
                return;
            }
        } else {
            self.core.until_look.set(LOOK_TURNS);
        }
        let now = Instant::now();
        if now.duration_since(self.core.looked.get()) >= LOOK {
            self.core.looked.set(now);
            self.judge_steal(now);
            self.fire_timers(now);
            self.poll_io();
        }
    }

    /// Skips the pump for this turn and the next, if it is asked at each turn: it was asked just now. The clock is
    /// looked at as often as ever, however often the pump has something.
    fn put_off_pump(&self) {
        const TURNS: u32 = 2;
        if let Some(left) = self.core.until_clock.get().checked_sub(TURNS).filter(|left| *left > 0) {
            self.core.until_clock.set(left);
            self.core.until_look.set(self.core.until_look.get() + TURNS);
        }
    }

    /// Polls I/O, without waiting. The caller is inside.
    fn poll_io(&self) {
        self.wait_io(Some(Duration::ZERO));
        self.machine().pump();
    }

    /// Polls I/O, waiting for as long as `timeout` says.
    pub(super) fn wait_io(&self, timeout: Option<Duration>) {
        let outer = self.worker.cause.replace(WakeSource::Io);
        // The principal of a spare worker leads its own crew.
        self.principal().leader().reactor.poll_for(&self.reactor, timeout);
        self.worker.cause.set(outer);
    }

    /// Serves what was asked of the driver: replacements of its policy, and its binding to cores.
    #[inline]
    pub(super) fn serve_requests(&self) {
        self.serve_replacement();
        self.serve_binding();
    }

    fn serve_binding(&self) {
        self.binding.serve(&self.principal().binding);
    }

    pub(super) fn fire_timers(&self, now: Instant) {
        let mut wakes = WakeList::new();
        self.principal().timers.fire(now, &mut wakes);
        let outer = self.worker.cause.replace(WakeSource::Timer);
        // A foreign waker may panic: the driver goes on.
        catch_panic(|| wakes.queue());
        self.worker.cause.set(outer);
    }

    /// Looks for threads elsewhere, as none is ready here; then sleeps until woken, until a timer or I/O is due, or
    /// until `over`.
    #[cold]
    pub(super) fn rest(&self, over: &dyn Fn() -> bool) {
        if self.enter() {
            self.rest_inside(over);
        } else if !self.is_spare_worker() {
            self.reclaim();
        } else if self.enter_slowly() {
            self.rest_inside(over);
        } else {
            self.rest_aside(over);
        }
    }

    /// As [`rest`](Self::rest); the caller is inside, and this is its last act there.
    fn rest_inside(&self, over: &dyn Fn() -> bool) {
        if self.machine().pump.get().is_some() {
            // A thread that waits for an answer that comes soon pays for nothing else.
            for _ in 0..PUMPS {
                let has_come = self.wait_for_pump(over);
                self.put_off_pump();
                if let Some(thread) = self.find_slowly() {
                    self.exit();
                    return self.run(thread);
                }
                if !has_come {
                    break;
                }
            }
        }
        let now = Instant::now();
        self.core.looked.set(now);
        // With a pump, the next turn finds out whether it is to be asked at each turn.
        self.core.until_look.set(if self.machine().pump.get().is_some() { 1 } else { LOOK_TURNS });
        self.owner.hold(|| {
            self.fire_timers(now);
            self.poll_io();
            self.serve_requests();
        });
        if let Some(thread) = self.find_slowly() {
            self.exit();
            return self.run(thread);
        }
        if let Some(thread) = self.wait_for_work(now, over) {
            self.run(thread);
        }
    }

    /// Waits for something to run. Returns a thread that it found elsewhere. The caller is inside, and this is its last
    /// act there.
    fn wait_for_work(&self, now: Instant, over: &dyn Fn() -> bool) -> Option<Ready> {
        if let ControlFlow::Break(thread) = self.look_elsewhere(now, over) {
            return thread;
        }
        let vp = self.principal();
        self.policy().idle();
        let machine = self.machine();
        // Before `announce`, whose fence orders both for `wake_one`.
        machine.idle.awake.fetch_sub(1, Ordering::SeqCst);
        vp.core.is_down.store(true, Ordering::Relaxed);
        if self.is_spare_worker() {
            self.sleeper.announce();
        }
        vp.sleeper.announce();
        let mut is_asleep = false;
        let pumps = machine.pump.get();
        let rest = rest_of_pump(pumps);
        if let Some(pump) = rest
            && !over()
            && !self.has_local_work()
            && !self.others_wait()
        {
            is_asleep = true;
            let stacks = self.worker.fibers.patience();
            let timeout = [self.sleep_time(now), stacks, pump].into_iter().flatten().min();
            self.counters.sleeps.add_one();
            // The processor may be taken while we wait.
            self.exit();
            self.wait_io(timeout);
            if stacks.is_some() {
                self.worker.fibers.slept(now.elapsed());
            }
        }
        self.stop_asking();
        pumps.inspect(|pump| pump.rise());
        if self.is_spare_worker() {
            self.sleeper.rise();
        }
        if is_asleep && !self.enter_again() {
            // The processor was taken; the new owner counts as awake. The notification that ended our wait may have
            // been meant for it.
            vp.reactor.notify();
            return None;
        }
        vp.core.is_down.store(false, Ordering::Relaxed);
        vp.sleeper.rise();
        machine.idle.awake.fetch_add(1, Ordering::SeqCst);
        self.exit();
        self.begin_to_be_busy();
        if machine.config.reports_deadlocks {
            self.look_for_deadlock();
        }
        None
    }

    /// The last looks before a park: at long turns, for a moment at the inbox, and at the threads of others. Stops the
    /// park, perhaps with a thread. The caller is inside; it is not any more if this stops.
    fn look_elsewhere(&self, now: Instant, over: &dyn Fn() -> bool) -> ControlFlow<Option<Ready>> {
        let may_steal = self.may_steal(now);
        if may_steal {
            self.ask_for_half();
        }
        if self.look_at_long_turns(over) {
            self.exit();
            return ControlFlow::Break(None);
        }
        if self.spin(over) {
            self.stop_asking();
            self.exit();
            return ControlFlow::Break(None);
        }
        if !self.has_enough()
            && let Some(thread) = self.search(may_steal)
        {
            self.stop_asking();
            self.core.watch.set(HEARTBEAT);
            let thread = self.admit(thread);
            self.exit();
            return ControlFlow::Break(thread);
        }
        self.steals.has_searched(may_steal && self.others_give());
        ControlFlow::Continue(())
    }

    /// How long to sleep at most: until a timer is due, or the next look at the others.
    fn sleep_time(&self, now: Instant) -> Option<Duration> {
        let due = self.principal().timers.next_due().map(|due| due.saturating_duration_since(Instant::now()));
        let (watch, visitors) = (self.watch_for(), self.patience_for_visitors());
        [due, watch, self.patience(), visitors, self.steals.rest_of_backoff(now)].into_iter().flatten().min()
    }

    /// Enters again after a wait. False: the processor has been taken.
    fn enter_again(&self) -> bool {
        if self.is_spare_worker() {
            return self.enter_slowly();
        }
        self.owner.enter_unless_taken(&self.ownership)
    }

    /// Whether other processors have work for us.
    pub(super) fn others_wait(&self) -> bool {
        let exposes = |other: &Self| !ptr::eq(other, self) && other.worker.forks.has_exposed();
        let machine = self.machine();
        !self.has_enough()
            && ((self.steals.is_worth_a_search() && self.others_give())
                || machine.vps.iter().any(|other| exposes(other))
                || machine.find_spare_worker(exposes).is_some())
    }

    /// Whether others say that they have threads to give.
    fn others_give(&self) -> bool {
        let vp = self.principal();
        // (A processor that sleeps has nothing. A look into a policy costs all that look there a shared word.)
        let gives = |other: &Self| !ptr::eq(other, vp) && !other.is_asleep() && other.gives() > 1;
        self.machine().vps.iter().any(|other| gives(other))
    }

    /// Notes that the driver becomes busy. If no driver watches the machine, the next spawns and forks take the slow
    /// path and find that out.
    pub(super) fn begin_to_be_busy(&self) {
        self.core.risen.set(Instant::now());
        monitor::wake(self.machine());
        self.see_whether_watched();
    }

    /// Asks for a closer look if all processors sleep without a watch. The driver has counted itself as awake.
    fn see_whether_watched(&self) {
        // ORDER: SeqCst: either `watch_for` sees our count, or we see its flag.
        if self.machine().idle.unwatched.load(Ordering::SeqCst) {
            self.ask_closer_look();
        }
    }

    pub(super) fn has_local_work(&self) -> bool {
        let vp = self.principal();
        !vp.inbox.is_empty()
            || !self.inbox.is_empty()
            || self.has_soon()
            || vp.policies.is_asked()
            || self.binding.is_asked(&vp.binding)
            || self.policy().waiting() > 0
            || self.long_turns.is_called()
    }

    /// How long a sleeper sleeps before it looks again at the others; `None`: it does not watch. While others are
    /// busy, a sleeper keeps watch: it asks the busy ones for a parasite (heartbeat scheduling), wakes up soon, and
    /// takes what lies in their queues. The watches get longer while nothing comes of them. On an idle machine none
    /// watches. Where a driver has lost its processor the watch ends after a while, as that driver may wait
    /// for something rather than compute. A driver whose core is in use (`has_enough`) does not watch either.
    pub(super) fn watch_for(&self) -> Option<Duration> {
        let machine = self.machine();
        if machine.config.crews == 1 {
            return None;
        }
        let may_come_back = || self.core.watch.get() < LONGEST_WATCH && machine.has_spare_workers_at_work();
        if machine.idle.awake.load(Ordering::SeqCst) <= 0 && !may_come_back() {
            // ORDER: SeqCst, as in INV-SLEEP: either we see the driver that has become busy, or it sees that none
            // watches.
            machine.idle.unwatched.store(true, Ordering::SeqCst);
            if machine.idle.awake.load(Ordering::SeqCst) <= 0 {
                self.core.watch.set(HEARTBEAT);
                self.ask_those_away();
                return None;
            }
        }
        if self.has_enough() {
            return None;
        }
        let now = Instant::now();
        if self.core.asked.get().is_none_or(|asked| now.duration_since(asked) >= HEARTBEAT) {
            self.core.asked.set(Some(now));
            for vp in machine.vps.iter().filter(|vp| vp.leader().sleeper.is_awake()) {
                vp.with_holder(Self::ask_for_work);
            }
            self.ask_those_away();
        }
        let watch = self.core.watch.get();
        self.core.watch.set((watch * 2).min(LONGEST_WATCH));
        Some(watch)
    }

    /// Asks the drivers that compute without their processors for a parasite: the count of awake drivers leaves them
    /// out.
    fn ask_those_away(&self) {
        if self.machine().has_spare_workers_at_work() {
            self.machine().vps.iter().filter(|vp| vp.is_away()).for_each(|vp| vp.ask_closer_look());
        }
    }

    /// Asks the others to share their parts of a computation. The driver waits for such a part, in the middle of a
    /// turn. (It counts as awake, as in any turn. Its turn may be long, and the monitor must not sleep before it has
    /// handed the virtual processor off.)
    pub(crate) fn ask_for_parts(&self) {
        let others = self.machine().vps.iter().filter(|vp| !ptr::eq(&***vp, self));
        others.filter(|vp| vp.leader().sleeper.is_awake()).for_each(|vp| vp.ask_closer_look());
        self.ask_those_away();
    }

    /// Looks for a thread of other processors, if `may_steal`, or for a job.
    pub(super) fn search(&self, may_steal: bool) -> Option<Ready> {
        let machine = self.machine();
        // A spare worker of a single processor steals from the turn that has lost it.
        if machine.vps.len() == 1 && !machine.hand_offs.has_spare_workers.load(Ordering::Relaxed) {
            return None;
        }
        machine.idle.searching.fetch_add(1, Ordering::SeqCst);
        let found = if may_steal { self.search_policies() } else { None };
        let found = found.or_else(|| {
            let has_stolen = self.owner.hold(|| fork::steal(self));
            has_stolen.then(|| self.next(self.principal())).flatten()
        });
        machine.idle.searching.fetch_sub(1, Ordering::SeqCst);
        found
    }

    fn search_policies(&self) -> Option<Ready> {
        let machine = self.machine();
        let visit = self.principal().policies.visit();
        // SAFETY: the visit is one to our principal's policy, and lasts for longer than any use of the stealer.
        let stealer = unsafe { Stealer::new(self.principal(), &visit) };
        let found = self.policy().need_thread(Others { stealer: &stealer, vps: machine, index: self.index });
        // A policy that gives may return nothing, or panic, and yet have left threads with us. Nothing else tells us
        // of them.
        let found = if stealer.has_loot() {
            self.policy_has_some();
            found.or_else(|| self.policy().next())
        } else {
            found
        };
        drop(visit);
        if let Some(thread) = &found {
            self.core.spin.was_sent();
            // SAFETY: a thread with a token keeps its machine alive.
            self.has_stolen_from(unsafe { &*thread.header().vp() });
        }
        found
    }

    /// Ends the `Local` threads, whose bodies belong to this OS thread, before it stops driving. The caller is
    /// inside, or drives a spare worker.
    pub(super) fn end_local_threads(&self) {
        // Threads that destructors wake are queued, not attached: an attached one might be revoked (see
        // `revoke_misplaced`).
        let depth = self.worker.depth.replace(DEPTH);
        self.end_all_local_threads();
        self.worker.depth.set(depth);
    }

    fn end_all_local_threads(&self) {
        while self.worker.has_locals.get() {
            self.drain_inbox();
            let mut any = if self.is_spare_worker() { self.drop_own() } else { self.drop_local() };
            let frames = self.local_threads();
            if frames.is_empty() && self.worker.fibers.is_empty() {
                self.worker.has_locals.set(false);
                return;
            }
            for frame in frames {
                // SAFETY: a frame of our arena. It may have ended meanwhile.
                let claimed = unsafe { run::claim(frame, true) };
                any |= claimed.is_some();
                drop(claimed);
            }
            while let Some(fiber) = self.worker.fibers.claim_one() {
                any = true;
                drop(fiber);
            }
            if !any {
                // Others have the tokens of those left: wakers elsewhere, and policies.
                self.revoke_local_threads();
                while self.end_one_revoked() {}
            }
        }
    }

    /// The frames of the `Local` threads that were spawned here and have not ended. The caller drives us.
    fn local_threads(&self) -> Vec<NonNull<Header>> {
        // SAFETY: this OS thread drives us, hence owns the arena.
        let mut frames = unsafe { self.worker.arena.frames_in_use() };
        frames.retain(|frame| {
            // SAFETY: in use, and `Local` frames are freed by us alone
            // while they are not complete.
            let header = unsafe { frame.as_ref() };
            // A fiber that was spawned here may have begun elsewhere.
            let is_ours = ptr::eq(header.vp(), self);
            header.kind.get() == Kind::Local && is_ours && !header.state.is_complete()
        });
        frames
    }

    fn revoke_local_threads(&self) {
        // SAFETY: the driver's; the borrow ends here, and nothing below is user code.
        let revoked_threads = unsafe { &mut *self.worker.revoked_threads.get() };
        // SAFETY: they are bound to this OS thread, which polls nothing now.
        revoked_threads
            .extend(self.local_threads().into_iter().filter_map(|frame| unsafe { Revoked::take(frame) }));
        self.worker.fibers.revoke_thread(revoked_threads);
    }

    /// Revokes threads whose tokens do not come back, at the end of the machine: the driver ends its threads, and
    /// waits for these. Revokes those that it can reach, if no driver polls threads any more. (The others are within
    /// reach of another driver, or of the machine's end.)
    pub(super) fn revoke_misplaced(&self) {
        let machine = self.machine();
        if machine.is_closing() && !self.worker.fibers.is_polled_below(self.worker.running.get()) {
            // SAFETY: this OS thread drives us, hence owns the arena.
            machine.revoke_misplaced(self, |revoke_thread| unsafe {
                self.worker.arena.each_not_ended(revoke_thread)
            });
            machine.revoke_misplaced(self, |revoke_thread| {
                // SAFETY: we hold the lock.
                machine.with_arena(|arena| unsafe { arena.each_not_ended(revoke_thread) });
            });
        }
    }

    /// Ends one of the revoked threads; false: there was none. They end one by one: the end of a thread may wait
    /// until another thread ends. The caller drives us, or no driver is left.
    pub(crate) fn end_one_revoked(&self) -> bool {
        // SAFETY: the driver's; the borrow ends here.
        let Some(revoked_threads) = unsafe { &mut *self.worker.revoked_threads.get() }.pop() else {
            return false;
        };
        self.counters.revoked_threads.add_one();
        revoked_threads.end();
        true
    }

    /// Drops the tokens of `Local` threads; returns whether there were any. They are dropped one by one, with all
    /// others in their queues: the end of a fiber may wait for the ends of its scope's threads.
    fn drop_local(&self) -> bool {
        self.serve_replacement();
        let mut any = false;
        let (mut locals, mut others) = (ReadyQueue::new(), ReadyQueue::new());
        while let Some(thread) = self.next(self.principal()) {
            let queue = if thread.kind() == Kind::Local { &mut locals } else { &mut others };
            queue.push_back(thread);
        }
        while let Some(thread) = others.pop_front() {
            self.enqueue(thread, Reason::Remote);
        }
        while let Some(thread) = locals.pop_front() {
            // SAFETY: we are the driver.
            unsafe { self.soon() }.push_back(thread);
        }
        let is_local = |thread: &Ready| thread.kind() == Kind::Local;
        // SAFETY: we are the driver, and inside; the borrow ends with the call.
        while let Some(local) = unsafe { self.soon() }.take_first(is_local) {
            any = true;
            drop(local);
        }
        any
    }
}
