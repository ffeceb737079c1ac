//! Spinning before a park: a worker that has run out of threads stays awake for a moment, as an answer may come.
//!
//! To park and be unparked takes ten times as long as a message between two processors. A worker that was sent a
//! thread from elsewhere since it parked last therefore looks at its inbox for a while. Its partner need not count as
//! awake: a partner that was just woken counts itself late, and two that talk would park in turns.
//!
//! A spin in vain makes spins rarer: each time, twice as many parks pass without one. On an idle machine no processor
//! sends, so none spins.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::limits::{MOST_VAIN, SPIN};
use super::{Pool, Worker};
use crate::sync::{pause, switches};

/// A worker's record of its spins.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// Whether a thread was sent from elsewhere since the last park.
    was_sent: Cell<bool>,
    /// Number of spins in a row in which nothing came.
    vain: Cell<u32>,
    /// Number of parks that pass without a spin.
    pass: Cell<u32>,
}

impl Spin {
    pub(super) fn was_sent(&self) {
        self.was_sent.set(true);
    }

    /// Whether the worker, which has nothing to run, may spin, if there is a core for it.
    fn begins(&self) -> bool {
        let was_sent = self.was_sent.replace(false);
        let pass = self.pass.get();
        self.pass.set(pass.saturating_sub(u32::from(was_sent)));
        was_sent && pass == 0
    }

    /// Ends a spin, of which `came` says whether something came in it.
    fn ends(&self, came: bool) {
        let vain = if came { 0 } else { (self.vain.get() + 1).min(MOST_VAIN) };
        self.vain.set(vain);
        self.pass.set((1 << vain) - 1);
    }
}

impl Pool {
    /// Whether all awake processors, and `more` others, would have a core each. An estimate.
    pub(super) fn has_cores_for(&self, more: i64) -> bool {
        u64::try_from(self.idle.awake() + more).is_ok_and(|awake| awake <= self.config.cores)
    }
}

impl Worker {
    /// Spins for threads that others may send, if they have lately, as there is nothing to run. It ends also when
    /// there is something to take from others. Returns whether something has come. The caller is inside.
    pub(super) fn spin(&self, over: &dyn Fn() -> bool) -> bool {
        let spin = &self.leader().core.spin;
        if !switches::SPIN
            || self.processor().simulated.is_some()
            || self.carried().is_some()
            || !spin.begins()
            || !self.machine().has_cores_for(0)
        {
            return false;
        }
        let due = self.processors().filter_map(|processor| processor.timers.next_due()).min();
        let time = due.map_or(SPIN, |due| due.saturating_duration_since(Instant::now()).min(SPIN));
        let came = self.spin_for(time, &|| over() || self.others_wait());
        spin.ends(came || self.others_wait());
        came
    }

    /// Waits so long for what others may send, or until `over`. Whether something has come.
    pub(super) fn spin_for(&self, time: Duration, over: &dyn Fn() -> bool) -> bool {
        let from = Instant::now();
        loop {
            for _ in 0..16 {
                pause();
                self.announcement.get().acknowledge();
                if self.processors().any(|processor| !processor.address.inbox.is_empty()) {
                    return true;
                }
            }
            if over() || from.elapsed() >= time {
                return false;
            }
        }
    }
}

/// How many cores the process has, as the system said when the first machine was made. Asked later, an OS thread that
/// is bound to one core would be told 1.
pub(crate) fn cores() -> u64 {
    static CORES: OnceLock<u64> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(u64::MAX, |cores| cores.get() as u64))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_was_sent_nothing_does_not_linger() {
        let spin = Spin::default();
        assert!(!spin.begins());
        spin.was_sent();
        assert!(spin.begins());
        assert!(!spin.begins(), "nothing was sent since");
    }

    /// Its partner may be on the way, and not count as awake yet.
    #[test]
    fn a_worker_that_was_sent_something_spins_beside_sleepers() {
        let machine = crate::machine::Machine::builder().vps(2).hand_off_after(None).build().unwrap();
        machine.block_on_local(async {
            let worker = Worker::current().unwrap();
            while worker.machine().idle.awake() > 1 {
                std::thread::yield_now();
            }
            let spins = || {
                let was_asked = Cell::new(false);
                worker.spin(&|| {
                    was_asked.set(true);
                    true
                });
                was_asked.get()
            };
            worker.processor().core.spin.was_sent();
            worker.processor().core.spin.pass.set(0);
            assert_eq!(spins(), switches::SPIN);
            assert!(!spins(), "nothing was sent since");
        });
    }

    #[test]
    fn a_machine_that_is_made_in_a_bound_thread_has_all_cores() {
        let all = available_parallelism().unwrap().get() as u64;
        let machine = || crate::machine::Machine::builder().vps(1).build().unwrap();
        let first = machine();
        drop(first.vp(0).bind(0));
        first.block_on(async { assert_eq!(machine().pool().config.cores, all) });
    }

    #[test]
    fn what_was_in_vain_becomes_rare_and_what_pays_does_not() {
        let spin = Spin::default();
        let mut rests = 0;
        let mut spins = 0;
        while rests < 10_000 {
            spin.was_sent();
            rests += 1;
            if spin.begins() {
                spins += 1;
                spin.ends(false);
            }
        }
        assert!((600..=640).contains(&spins), "{spins} of {rests}");
        // Once a spin pays, the next park spins.
        spin.ends(true);
        spin.was_sent();
        assert!(spin.begins());
    }
}
