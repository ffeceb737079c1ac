//! How long an idle processor looks for messages before it sleeps. A peer in conversation answers soon or not at all.
//!
//! After each look in vain, about twice as many waits pass without a look, up to a bound. So a process that waits for
//! long uses no processor, and one in conversation does not sleep in between. One processor of a process looks at a
//! time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Limit of the exponent: fewer than 2 to this number waits pass without a look.
const MOST_VAIN: u32 = 4;
/// Number of tests for messages before `is_over` and the clock are asked.
const LOOKS: u32 = 8;

/// Guesses, which may be lost: all accesses are relaxed.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Set while a processor looks.
    is_taken: AtomicBool,
    /// Number of looks in vain in a row, at most `MOST_VAIN`.
    vain: AtomicU32,
    /// Number of waits still to pass without a look.
    pass: AtomicU32,
}

impl Patience {
    /// Tests `has_come` for up to `time`, or until `is_over`, and returns whether it became true.
    pub(super) fn wait(
        &self,
        time: Duration,
        has_come: impl Fn() -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> bool {
        if time.is_zero() || !self.begins() {
            return false;
        }
        let from = Instant::now();
        loop {
            if (0..LOOKS).any(|_| has_come()) {
                self.ends(true);
                return true;
            }
            let is_over = is_over();
            if is_over || from.elapsed() >= time {
                self.ends(is_over);
                return false;
            }
        }
    }

    fn begins(&self) -> bool {
        let pass = self.pass.load(Ordering::Relaxed);
        if pass > 0 {
            self.pass.store(pass - 1, Ordering::Relaxed);
            return false;
        }
        !self.is_taken.swap(true, Ordering::Relaxed)
    }

    /// Ends a look, and sets how many waits pass without one.
    fn ends(&self, was_worth_it: bool) {
        let vain = if was_worth_it { 0 } else { (self.vain.load(Ordering::Relaxed) + 1).min(MOST_VAIN) };
        self.vain.store(vain, Ordering::Relaxed);
        self.pass.store((1 << vain) - 1, Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_vain_becomes_rare_and_what_pays_does_not() {
        let patience = Patience::default();
        let mut looks = 0;
        for _ in 0..10_000 {
            if patience.begins() {
                looks += 1;
                patience.ends(false);
            }
        }
        assert!((600..=640).contains(&looks), "{looks} of 10000");
        while !patience.begins() {}
        patience.ends(true);
        assert!(patience.begins());
    }

    #[test]
    fn one_looks_at_a_time() {
        let patience = Patience::default();
        assert!(patience.begins());
        assert!(!patience.begins());
        patience.ends(true);
        assert!(patience.begins());
    }

    #[test]
    fn a_wait_ends_when_it_has_come_or_is_over() {
        let long = Duration::from_secs(3600);
        assert!(Patience::default().wait(long, || true, &|| false));
        assert!(!Patience::default().wait(long, || false, &|| true));
        assert!(!Patience::default().wait(Duration::ZERO, || true, &|| false));
        assert!(!Patience::default().wait(Duration::from_micros(1), || false, &|| false));
    }
}
