//! The time, and when a timer that is set now is due.

use std::time::{Duration, Instant};

use super::Worker;

/// The time by the clock that [`after`](crate::after) and [`at`](crate::at) go by. It is the OS's clock. A simulated
/// machine has a clock of its own, which stands still while threads are ready and jumps when none is.
///
/// ```
/// # use std::time::Duration;
/// # chanter::block_on(async {
/// let begun = chanter::now();
/// chanter::after(Duration::from_millis(1)).await;
/// assert!(chanter::now() >= begun + Duration::from_millis(1));
/// # });
/// ```
pub fn now() -> Instant {
    match Worker::current() {
        Some(worker) => worker.processor().now(),
        None => Instant::now(),
    }
}

/// The time `duration` from now. `None`: the clock does not go so far.
///
/// (The kernel's coarse clock would be cheaper to read. But it lags by more than a tick when the host takes the
/// processor away, so a timer would be early.)
pub(crate) fn due_after(duration: Duration) -> Option<Instant> {
    now().checked_add(duration)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn timers_are_never_due_early() {
        for _ in 0..2000 {
            for duration in [Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(3600)] {
                let before = Instant::now();
                let due = due_after(duration).unwrap();
                assert!(due >= before + duration);
                assert!(due <= Instant::now() + duration);
            }
        }
        assert_eq!(due_after(Duration::MAX), None);
    }
}
