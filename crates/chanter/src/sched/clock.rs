//! The time, and when a timer that is set now is due.

use std::time::{Duration, Instant};

use super::Vp;

/// The duration from which on a timer may be late by a tick of the kernel's clock, less than one
/// part in a hundred.
const LONG: Duration = Duration::from_secs(1);

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
    match Vp::current() {
        Some(vp) => vp.now(),
        None => Instant::now(),
    }
}

/// The time `duration` from now, or a little later. `None`: the clock does not go so far.
///
/// Most timers are time-outs that hardly ever fire, and a read of the clock is half of their cost.
/// A long timer uses the kernel's coarse clock, whose read is a load. This clock lags by less than
/// a tick, which is added.
pub(crate) fn due_after(duration: Duration) -> Option<Instant> {
    let is_simulated = || Vp::current().is_some_and(|vp| vp.simulated.is_some());
    let coarse = if duration >= LONG && !is_simulated() { coarse::now() } else { None };
    coarse.unwrap_or_else(now).checked_add(duration)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod coarse {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// The readings of `Instant` and of the kernel's clock at one moment, and the length of a tick.
    struct Origin {
        instant: Instant,
        clock: Duration,
        tick: Duration,
    }

    /// A time that is not before the present, and less than two ticks after it.
    pub(super) fn now() -> Option<Instant> {
        static ORIGIN: OnceLock<Option<Origin>> = OnceLock::new();
        let origin = ORIGIN.get_or_init(origin).as_ref()?;
        let passed = read(libc::CLOCK_MONOTONIC_COARSE)?.checked_sub(origin.clock).unwrap_or_default();
        Some(origin.instant + passed + origin.tick)
    }

    fn origin() -> Option<Origin> {
        let mut tick = zero();
        // SAFETY: the pointer is to a local variable.
        if unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) } != 0 {
            return None;
        }
        // The kernel's clock is read first, so that the result of `now` is never before the
        // present.
        let clock = read(libc::CLOCK_MONOTONIC)?;
        Some(Origin { instant: Instant::now(), clock, tick: duration(&tick)? })
    }

    fn read(clock: libc::clockid_t) -> Option<Duration> {
        let mut time = zero();
        // SAFETY: the pointer is to a local variable.
        let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
        if failed { None } else { duration(&time) }
    }

    const fn zero() -> libc::timespec {
        // SAFETY: all fields are numbers, which may be zero.
        unsafe { std::mem::zeroed() }
    }

    fn duration(time: &libc::timespec) -> Option<Duration> {
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod coarse {
    pub(super) fn now() -> Option<std::time::Instant> {
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn long_timers_are_never_early_and_hardly_late() {
        for _ in 0..2000 {
            for duration in [Duration::from_millis(1), LONG, Duration::from_secs(3600)] {
                let before = Instant::now();
                let due = due_after(duration).unwrap();
                assert!(due >= before + duration);
                assert!(due <= Instant::now() + duration + Duration::from_millis(50));
            }
        }
        assert_eq!(due_after(Duration::MAX), None);
    }
}
