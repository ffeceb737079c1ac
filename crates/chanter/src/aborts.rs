//! For tests: what ends the process, because nothing else would be safe.

use std::process::{Command, ExitStatus};

/// Runs `f` in a process of its own: the test `name` of this binary, which calls this once more, and nowhere else. The
/// process is to abort in `f`.
pub(crate) fn aborts(name: &str, f: impl FnOnce()) {
    const CHILD: &str = "CHANTER_TEST_ABORTS";
    if std::env::var_os(CHILD).is_some() {
        f();
        std::process::exit(0);
    }
    let this = std::env::current_exe().expect("a test is a program");
    let child = Command::new(this).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output();
    let child = child.expect("it runs once more");
    assert!(
        was_aborted(child.status),
        "{name}: {}\n{}",
        child.status,
        String::from_utf8_lossy(&child.stderr)
    );
}

#[cfg(unix)]
fn was_aborted(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGABRT)
}

#[cfg(not(unix))]
fn was_aborted(status: ExitStatus) -> bool {
    !status.success()
}
