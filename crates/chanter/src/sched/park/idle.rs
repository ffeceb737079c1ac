//! The idle word of a machine: how many of its workers are awake, and who looks for work.

use super::super::{Pool, Worker};
use super::sleeper::Wake;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The lowest bit of the count of workers that are awake.
const AWAKE: u64 = 1;
/// The lowest bit of the count of workers that search.
const SEARCHING: u64 = 1 << 20;
/// The lowest bit of the count of processors that accept threads.
const ACCEPTING: u64 = 1 << 40;
/// Set while nobody watches.
const UNWATCHED: u64 = 1 << 63;
/// The bits of a count.
const COUNT: u64 = (1 << 20) - 1;
/// The count of awake workers begins here: it is below for a moment when a worker leaves before another has come.
const NONE_AWAKE: u64 = 1 << 19;

/// The idle word. Its header is that of `park.rs`.
#[derive(Debug)]
pub(crate) struct Idle(AtomicU64);

impl Idle {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NONE_AWAKE))
    }

    /// Counts a worker as awake.
    pub(in crate::sched) fn rise(&self) {
        // ORDER: SeqCst: INV-WATCH, and the monitor's sleep.
        self.0.fetch_add(AWAKE, Ordering::SeqCst);
    }

    /// Counts a worker as asleep, before it announces its sleep.
    pub(in crate::sched) fn sink(&self) {
        // ORDER: SeqCst: INV-WATCH, and the monitor's sleep.
        self.0.fetch_sub(AWAKE, Ordering::SeqCst);
    }

    /// The number of workers that are awake: a hint.
    #[inline(always)]
    pub(crate) fn awake(&self) -> i64 {
        Self::awake_of(self.0.load(Ordering::Relaxed))
    }

    /// The number of workers that are awake, in the one order of all such looks and counts.
    pub(crate) fn awake_in_order(&self) -> i64 {
        // ORDER: SeqCst: INV-WATCH, and the monitor's sleep.
        Self::awake_of(self.0.load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn awake_of(word: u64) -> i64 {
        (word & COUNT) as i64 - NONE_AWAKE as i64
    }

    /// Counts a worker as searching while `search` runs. Nobody else is woken meanwhile.
    pub(super) fn while_searching<R>(&self, search: impl FnOnce() -> R) -> R {
        self.0.fetch_add(SEARCHING, Ordering::SeqCst);
        let found = search();
        self.0.fetch_sub(SEARCHING, Ordering::SeqCst);
        found
    }

    /// Counts a processor that accepts threads, or that does so no more.
    pub(in crate::sched) fn accept(&self, accepts: bool) {
        // ORDER: Relaxed: a hint.
        if accepts {
            self.0.fetch_add(ACCEPTING, Ordering::Relaxed);
        } else {
            self.0.fetch_sub(ACCEPTING, Ordering::Relaxed);
        }
    }

    /// Whether some processor accepts threads: a hint.
    #[inline(always)]
    pub(in crate::sched) fn accepts(&self) -> bool {
        self.0.load(Ordering::Relaxed) >> ACCEPTING.trailing_zeros() & COUNT != 0
    }

    /// Whether all workers slept, and none watches those that are busy since: a hint.
    #[inline(always)]
    pub(in crate::sched) fn is_unwatched(&self) -> bool {
        self.0.load(Ordering::Relaxed) & UNWATCHED != 0
    }

    /// As [`is_unwatched`](Self::is_unwatched), for a worker that has counted itself as awake.
    pub(super) fn is_found_unwatched(&self) -> bool {
        // ORDER: SeqCst: INV-WATCH.
        self.0.load(Ordering::SeqCst) & UNWATCHED != 0
    }

    /// Says that nobody watches, as the caller is the last to sleep. Returns whether no worker has risen since.
    pub(super) fn leave_unwatched(&self) -> bool {
        // ORDER: SeqCst: INV-WATCH.
        Self::awake_of(self.0.fetch_or(UNWATCHED, Ordering::SeqCst)) <= 0
    }

    /// Whether to wake somebody is of use: a worker sleeps, and none searches. A hint.
    #[inline(always)]
    fn wants_wake(&self, workers: usize) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        Self::awake_of(word) < workers as i64 && word >> SEARCHING.trailing_zeros() & COUNT == 0
    }

    fn watch(&self) {
        if self.is_unwatched() {
            self.0.fetch_and(!UNWATCHED, Ordering::Relaxed);
        }
    }
}

impl Pool {
    /// Whether some worker of the machine has nothing to do.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.idle.awake() < self.workers.len() as i64
    }

    /// Wakes a sleeping worker for threads that wait on the processors of `busy`, which is awake, unless one is on its
    /// way already.
    ///
    /// The usual case, in which none sleeps, costs a look and no fence. A worker that is falling asleep may
    /// therefore be missed, and may miss the thread that has just been queued. It watches, as another one is awake
    /// (`Worker::watch_for`), and finds the thread at its next look. INV-SLEEP is for threads that no other worker
    /// would run.
    #[inline]
    pub(crate) fn wake_one(&self, busy: &Worker) {
        if self.idle.wants_wake(self.workers.len()) {
            self.wake_a_sleeper(busy);
        }
    }

    #[inline(never)]
    fn wake_a_sleeper(&self, busy: &Worker) {
        self.idle.watch();
        let count = self.workers.len();
        for step in 1..count {
            let leader = &*self.processors[(busy.index() + step) % count];
            let is_backing_off = leader.steals.is_backing_off() && !busy.forks.has_exposed();
            let is_reserved = self.is_reserved(leader.regular_worker());
            if is_reserved || leader.handed.computes_aside.load(Ordering::Relaxed) || is_backing_off {
                continue;
            }
            match leader.sleeper.wake_fenced() {
                Wake::Nothing => continue,
                Wake::Notify => leader.reactor.notify(),
                Wake::Start => self.start_worker(leader.regular_worker()),
            }
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Idle {
        /// The three counts: of workers awake, of workers searching, of processors accepting.
        pub(in crate::sched) fn counts(&self) -> (i64, u64, u64) {
            let word = self.0.load(Ordering::SeqCst);
            let count = |lowest: u64| word >> lowest.trailing_zeros() & COUNT;
            (Self::awake_of(word), count(SEARCHING), count(ACCEPTING))
        }
    }

    #[test]
    fn a_search_keeps_others_asleep_until_it_ends() {
        let idle = Idle::new();
        assert!(idle.wants_wake(1), "one sleeps, and nobody searches");
        let found = idle.while_searching(|| {
            assert!(!idle.wants_wake(1));
            idle.while_searching(|| assert_eq!(idle.counts(), (0, 2, 0)));
            assert!(!idle.wants_wake(1), "the first search goes on");
            7
        });
        assert_eq!((found, idle.counts()), (7, (0, 0, 0)));
        assert!(idle.wants_wake(1), "the search is over");
    }

    #[test]
    fn each_part_of_the_word_goes_down_as_it_went_up() {
        let idle = Idle::new();
        idle.sink();
        assert_eq!(idle.counts(), (-1, 0, 0), "a worker may leave before another one comes");
        idle.rise();
        idle.rise();
        idle.accept(true);
        assert!(idle.accepts());
        idle.while_searching(|| assert_eq!(idle.counts(), (1, 1, 1)));
        assert!(!idle.leave_unwatched() && idle.is_found_unwatched());
        assert_eq!(idle.counts(), (1, 0, 1));
        idle.watch();
        idle.accept(false);
        idle.sink();
        assert!(!idle.accepts() && !idle.is_unwatched());
        assert_eq!(idle.counts(), (0, 0, 0));
        assert!(!idle.wants_wake(0) && idle.wants_wake(1));
    }
}
