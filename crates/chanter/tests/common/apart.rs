//! Tests whose failure would end the whole process run in one of their own.

use std::process::{Command, Output};

const CASE: &str = "CHANTER_TEST_CASE";

/// Runs the test `name`, with its modules, in a process of its own, where [`is_apart`] says so.
pub(crate) fn run_apart(name: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", name]);
    command.env(CASE, name).env("RUST_BACKTRACE", "0").output().unwrap()
}

/// Whether this process was started for the test `name`.
pub(crate) fn is_apart(name: &str) -> bool {
    std::env::var(CASE).is_ok_and(|case| case == name)
}

/// The text that the process wrote to its standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the rest of a test in a process of its own, which must end well.
#[allow(unused_macros, reason = "each test binary uses some of it")]
macro_rules! apart {
    () => {
        $crate::common::apart!(60)
    };
    ($seconds:expr) => {
        let name = {
            fn here() {}
            let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
            // Without the crate.
            name.split_once("::").expect("a test is in a crate").1
        };
        if !$crate::common::apart::is_apart(name) {
            let output = $crate::common::apart::run_apart(name);
            assert!(output.status.success(), "{}: {}", output.status, $crate::common::apart::said(&output));
            return;
        }
        $crate::common::watchdog!($seconds);
    };
}
pub(crate) use apart;
