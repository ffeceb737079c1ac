//! The guard of a worker's stack: how parasites start, and what others ask of a worker in the middle of a turn.

use std::time::{Duration, Instant};

use super::limits::{DEPTH, HEARTBEAT, LONG_PARASITE, PROMOTED};
use super::{Worker, stack};
use crate::sync::atomic::Ordering;
use crate::sync::switches;

/// Value of `guard` that every stack pointer is below: the next spawn takes the slow path.
const LOOK_CLOSER: usize = usize::MAX;
/// As [`LOOK_CLOSER`], but the worker is only asked to acknowledge the end of a bias.
const AGREE: usize = LOOK_CLOSER - 1;

/// How a parasite starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spawn {
    /// Polled in place.
    InPlace,
    /// In the queue, as a parasite: the stack is nearly used up.
    Queue,
    /// In the queue, as a host: another processor is searching, or the spawner's parasites tend to be long.
    Promote,
}

impl Worker {
    /// Whether a woken parasite may run on this stack, now.
    #[inline]
    pub(crate) fn may_attach(&self) -> bool {
        self.depth.get() < DEPTH && (self.budget.get() > 0 || self.attaches_unpaid()) && self.has_stack()
    }

    /// On a simulated machine budgets are always spent, and mean nothing.
    #[cold]
    #[inline(never)]
    fn attaches_unpaid(&self) -> bool {
        self.processor().simulated.is_some() && !self.is_asking()
    }

    /// Whether the stack has room for another nested thread.
    pub(crate) fn has_stack(&self) -> bool {
        stack::pointer() > self.stack_limit.get()
    }

    /// Notes that the worker goes to another stack, on which nothing nests below `limit`. Returns the limit of the
    /// stack that it leaves.
    #[inline(always)]
    pub(crate) fn change_stack(&self, limit: usize) -> usize {
        let outer = self.stack_limit.replace(limit);
        // ORDER: Relaxed: a request that is overwritten comes again.
        if self.guard.load(Ordering::Relaxed) != LOOK_CLOSER {
            self.guard.store(limit, Ordering::Relaxed);
        }
        outer
    }

    /// Whether a parasite may simply be polled where it is spawned.
    #[inline(always)]
    pub(crate) fn may_spawn_in_place(&self) -> bool {
        // ORDER: Relaxed: a request that is seen late is served late.
        stack::pointer() > self.guard.load(Ordering::Relaxed)
    }

    /// As [`may_spawn_in_place`](Processor::may_spawn_in_place), for a thread that was demanded, when the guard asks for a
    /// closer look. Such a thread cannot be given away, so the look waits for the next spawn.
    #[cold]
    #[inline(never)]
    pub(crate) fn may_evaluate_in_place(&self) -> bool {
        self.announcement.get().acknowledge();
        self.has_stack() && self.processor().simulated.is_none() && self.machine().observer.is_none()
    }

    /// The slow path of a spawn: does what the guard has asked for, and says how the parasite starts. It starts as a host
    /// only if it `may_inflate`, and so may the parasites of its spawner.
    #[cold]
    pub(crate) fn look_closer(&self, may_inflate: bool) -> Spawn {
        let is_all = self.agree_if_asked();
        if !self.has_stack() {
            return Spawn::Queue;
        }
        if is_all {
            return Spawn::InPlace;
        }
        // SAFETY: the running thread is being polled below us on this stack.
        let spawner = unsafe { self.running.get().as_ref() };
        if !may_inflate || spawner.is_some_and(|spawner| spawner.penalty.forbids_inflation()) {
            // A searching processor asks again.
            self.trust_guard();
            return Spawn::InPlace;
        }
        if let Some(simulated) = &self.processor().simulated {
            return if simulated.is_in_place() { Spawn::InPlace } else { Spawn::Promote };
        }
        if !self.machine().config.inflates {
            self.trust_guard();
            return Spawn::InPlace;
        }
        if let Some(spawner) = spawner
            && spawner.penalty.take_one()
        {
            if spawner.penalty.count() == 0 {
                self.trust_guard();
            }
            return Spawn::Promote;
        }
        if self.promotion.to_promote.get() > 0 {
            self.promotion.to_promote.set(self.promotion.to_promote.get() - 1);
            self.ask_closer_look();
            if self.promotion.to_promote.get() == 0 {
                self.begin_sample();
            }
            return Spawn::Promote;
        }
        if !self.is_to_share() {
            return Spawn::InPlace;
        }
        if switches::SAMPLES && self.sample().is_some_and(|mean| mean >= LONG_PARASITE) {
            // The promoted threads keep a searching processor busy for a while.
            self.promotion.to_promote.set(PROMOTED);
            self.ask_closer_look();
        }
        Spawn::Promote
    }

    fn begin_sample(&self) {
        self.promotion.sampled.set((Instant::now(), self.parasites.get()));
    }

    /// How long parasites took since the last sample, on average, if there were any.
    fn sample(&self) -> Option<Duration> {
        let (from, before) = self.promotion.sampled.get();
        self.begin_sample();
        let spawned = u32::try_from(self.parasites.get() - before).unwrap_or(u32::MAX);
        from.elapsed().checked_div(spawned)
    }

    /// Whether a processor is searching, and the heartbeat has passed. The guard has asked for a closer look.
    fn is_to_share(&self) -> bool {
        let now = Instant::now();
        if self.machine().idle.is_unwatched() {
            // Only a processor that stays busy is worth a watch.
            if now.duration_since(self.promotion.busy_since.get()) >= HEARTBEAT {
                self.machine().wake_one(self);
                self.trust_guard();
            }
            return false;
        }
        self.trust_guard();
        if self.promotion.asked_in.replace(self.promotion.busy_since.get()) != self.promotion.busy_since.get()
        {
            // The first request in this busy period: the heartbeat begins.
            self.promotion.asked_since.set(now);
        }
        let promote = switches::HEARTBEAT
            && now.duration_since(self.promotion.asked_since.get()) >= HEARTBEAT
            && self.machine().has_sleepers();
        if promote && self.machine().tells_of_births() {
            // Every birth comes here, asked for or not: one in a heartbeat.
            self.promotion.asked_since.set(now);
        }
        promote
    }

    /// Resets the guard, so that the next spawns and forks look at the stack only.
    pub(crate) fn trust_guard(&self) {
        if self.machine().tells_of_births() {
            // Every birth is to be seen.
            return;
        }
        // ORDER: Relaxed: a request that is overwritten comes again.
        self.guard.store(self.stack_limit.get(), Ordering::Relaxed);
    }

    /// Acknowledges the end of biases, in the slow path of a spawn, fork or demand. True: that was all that was asked
    /// for.
    pub(crate) fn agree_if_asked(&self) -> bool {
        self.announcement.get().acknowledge();
        // ORDER: Relaxed: a request that is overwritten comes again.
        let is_all = self.guard.load(Ordering::Relaxed) == AGREE;
        if is_all {
            self.guard.store(self.stack_limit.get(), Ordering::Relaxed);
        }
        is_all
    }

    /// Acknowledges the end of biases, if asked, from the worker in the middle of a turn.
    #[inline(always)]
    pub(crate) fn agree_if_reminded(&self) {
        // ORDER: Relaxed: a request that is seen late is served late.
        if self.guard.load(Ordering::Relaxed) >= AGREE {
            self.agree_aside();
        }
    }

    #[cold]
    #[inline(never)]
    fn agree_aside(&self) {
        self.agree_if_asked();
    }

    /// Asks the worker to acknowledge the end of a bias; any OS thread may call.
    pub(super) fn ask_to_agree(&self) {
        // ORDER: Relaxed, as in `ask_closer_look`: only a request. A guard at `LOOK_CLOSER` asks for more, and stays.
        let guard = self.guard.load(Ordering::Relaxed);
        if guard < AGREE {
            let _ = self.guard.compare_exchange(guard, AGREE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Sends the next spawn of a parasite, or fork, here through the slow path.
    pub(crate) fn ask_closer_look(&self) {
        // ORDER: Relaxed: only a request.
        self.guard.store(LOOK_CLOSER, Ordering::Relaxed);
    }
}
