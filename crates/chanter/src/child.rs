//! Helpers for tests that need a process of their own.

use std::process::{Command, Output};

/// Runs `f` in a process of its own: the test `name` of this binary, which calls this function a
/// second time there. Each test may call it at one place only.
fn run(name: &str, f: impl FnOnce()) -> Output {
    const CHILD: &str = "CHANTER_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        f();
        std::process::exit(0);
    }
    let this = std::env::current_exe().expect("a test is a program");
    let output = Command::new(this).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output();
    output.expect("it runs once more")
}

fn told(name: &str, output: &Output) -> String {
    format!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// Asserts that `f` aborts the process, because nothing else would be safe.
pub(crate) fn aborts(name: &str, f: impl FnOnce()) {
    let output = run(name, f);
    #[cfg(unix)]
    let aborted = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(libc::SIGABRT);
    #[cfg(not(unix))]
    let aborted = !output.status.success();
    assert!(aborted, "{}", told(name, &output));
}

/// Asserts that `f` ends without failure, in a process of its own.
pub(crate) fn succeeds(name: &str, f: impl FnOnce()) {
    let output = run(name, f);
    assert!(output.status.success(), "{}", told(name, &output));
}
