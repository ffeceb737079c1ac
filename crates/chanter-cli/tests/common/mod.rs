//! Jobs as the tests start and watch them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tempfile::TempDir;

/// Lines of the output, in their order.
pub(crate) fn lines(bytes: &[u8]) -> Vec<&str> {
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"));
    std::str::from_utf8(bytes).unwrap().lines().collect()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running job; the launcher is killed when dropped.
pub(crate) struct Job {
    pub(crate) launcher: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Job {
    /// Starts it, and waits until `count` lines have come.
    pub(crate) fn ready_as(command: &mut Command, count: usize) -> Self {
        let mut launcher = command.spawn().unwrap();
        let mut job = Self { stdout: BufReader::new(launcher.stdout.take().unwrap()), launcher };
        for _ in 0..count {
            let mut line = String::new();
            assert!(job.stdout.read_line(&mut line).unwrap() > 0, "it has ended");
            assert!(line.ends_with("] ready\n"), "{line:?}");
        }
        job
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.launcher.id().try_into().unwrap()), signal).unwrap();
    }

    /// Its code, and what else it has written to its two streams.
    pub(crate) fn ended(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.launcher.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.launcher.wait().unwrap().code(), out, err)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// A pipe with a name. The end of the file can be read once its writer has ended, and no sooner.
pub(crate) struct Leash {
    pub(crate) folder: TempDir,
}

impl Leash {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        mkfifo(&folder.path().join("leash"), Mode::S_IRWXU).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> String {
        self.folder.path().join("leash").display().to_string()
    }
}
