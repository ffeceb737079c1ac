//! A hang is a failure.

use std::sync::mpsc;
use std::time::Duration;

/// Aborts the process, with the test's name, if the test takes too long: a
/// hang is a failure.
macro_rules! watchdog {
    () => {
        watchdog!(60)
    };
    ($seconds:expr) => {
        let _dog = {
            fn here() {}
            $crate::common::watchdog::Watchdog::new(std::any::type_name_of_val(&here), $seconds)
        };
    };
}
pub(crate) use watchdog;

pub(crate) struct Watchdog {
    _stop: mpsc::Sender<()>,
}

impl Watchdog {
    /// `seconds`: more than it takes on a machine with nothing else to do.
    pub(crate) fn new(name: &'static str, seconds: u64) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let name = name.trim_end_matches("::here");
        std::thread::spawn(move || {
            if stopped.recv_timeout(Duration::from_secs(seconds)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("watchdog: {name} still runs after {seconds} s");
                std::process::abort();
            }
        });
        Self { _stop: stop }
    }
}
