//! Helpers that the tests share.

use std::time::{Duration, Instant};

use chanter::Machine;

/// A machine with the given number of virtual processors.
pub(crate) fn workers(vps: usize) -> Machine {
    Machine::builder().vps(vps).build().expect("a machine")
}

/// Waits until `condition` holds; a watchdog's limit of minutes.
pub(crate) fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not come true");
        std::thread::sleep(Duration::from_millis(1));
    }
}
