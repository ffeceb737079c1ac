//! A hang is a failure.

use std::time::Duration;

/// Aborts the process, with the test's name and what its threads wait on, if the test takes too
/// long. The number: seconds that it might take on a machine with nothing else to do.
#[allow(unused_macros, reason = "each test binary uses some of it")]
macro_rules! watchdog {
    () => {
        watchdog!(60)
    };
    ($seconds:expr) => {
        let _dog = {
            fn here() {}
            $crate::common::watchdog::watch(std::any::type_name_of_val(&here), $seconds)
        };
    };
}
#[allow(unused_imports, reason = "each test binary uses some of it")]
pub(crate) use watchdog;

/// A busy machine is slower than a quiet one.
const BUSY: u32 = 5;

pub(crate) fn watch(name: &'static str, seconds: u64) -> chanter::deadlock::Watchdog {
    // Miri takes a thousand times as long, and `ci/miri` ends what hangs.
    let times = if cfg!(miri) { 1000 } else { BUSY };
    chanter::deadlock::Watchdog::new(name.trim_end_matches("::here"), times * Duration::from_secs(seconds))
}
