//! Child processes, whose exit is an event (Unix).
//!
//! [`Command`] is like the standard library's, but has other children: [`Child::exit`] is an event, and pipes are
//! streams. A child that ends is reaped, whether or not anybody waits for it. On Linux a thread waits for its
//! descriptor. Elsewhere, and outside of a machine, an OS thread does.
//!
//! # Forks
//!
//! A child of the C library's `fork` has one OS thread. The others have stayed in the parent: those that run machines,
//! keep the time and hear signals. A child that calls `exec` needs none of them. A child that goes on without `exec`
//! must not use machines, timers and signals from before the fork. Such a use fails.
//! [`Machine::block_on`](crate::Machine::block_on), and [`after`](crate::after) on OS threads, panic.
//! [`signal::listen`](crate::signal::listen) is an error. The drop of a machine waits for no thread. Channels between
//! the child's own OS threads work.
//!
//! The children of this module call `exec`, so this does not concern them.

mod reaper;
mod stdio;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use reaper::Reaped;
pub use stdio::{ChildOutput, ChildStdin};

use crate::event::Event;

/// A command to be run, like [`std::process::Command`].
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::process::Command;
/// # use std::time::Duration;
/// # chanter::block_on(async {
/// let child = Command::new("sleep").arg("3600").spawn()?;
/// assert!(child.exit().timeout(Duration::from_millis(10)).await.is_none());
/// child.kill()?;
/// assert!(!child.exit().await?.success());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct Command {
    command: std::process::Command,
    kill_on_drop: bool,
}

impl Command {
    /// The command that runs `program`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        std::process::Command::new(program).into()
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(&mut self, arguments: I) -> &mut Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(name, value);
        self
    }

    /// Sets the folder in which the child runs.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.command.current_dir(directory);
        self
    }

    /// Sets the child's standard input. It is inherited if not set.
    pub fn stdin(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(stdio);
        self
    }

    /// Sets the child's standard output. It is inherited if not set.
    pub fn stdout(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
        self.command.stdout(stdio);
        self
    }

    /// Sets the child's standard error. It is inherited if not set.
    pub fn stderr(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
        self.command.stderr(stdio);
        self
    }

    /// Sets whether the child is killed when its [`Child`] is dropped. It is not, by default.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// The standard library's command, for all else that it can do.
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.command
    }

    /// Starts the child. Blocks the OS thread while the OS does so.
    ///
    /// # Errors
    /// If the OS refuses, or if a stream is piped and the caller is no thread of a machine. In the second case the
    /// child is killed.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let mut child = self.command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut child = Child {
            id: child.id(),
            stdin: None,
            stdout: None,
            stderr: None,
            reaped: Reaped::watch(child)?,
            kill_on_drop: true,
        };
        child.stdin = stdin.map(|pipe| ChildStdin::new(pipe.into())).transpose()?;
        child.stdout = stdout.map(|pipe| ChildOutput::new(pipe.into())).transpose()?;
        child.stderr = stderr.map(|pipe| ChildOutput::new(pipe.into())).transpose()?;
        child.kill_on_drop = self.kill_on_drop;
        Ok(child)
    }
}

impl From<std::process::Command> for Command {
    fn from(command: std::process::Command) -> Self {
        Self { command, kill_on_drop: false }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

/// A child process; see [`Command::spawn`]. If this is dropped, the child goes on by itself, and is reaped when it
/// ends.
pub struct Child {
    id: u32,
    /// The child's standard input, if it is piped. When this is dropped, the child sees the end of its input.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is piped.
    pub stdout: Option<ChildOutput>,
    /// The child's standard error, if it is piped.
    pub stderr: Option<ChildOutput>,
    reaped: Arc<Reaped>,
    kill_on_drop: bool,
}

impl Child {
    /// The event of the child's exit. Any number of threads may wait for it, and it stays ready.
    ///
    /// If it is not chosen, nothing happens to the child. Its standard input is not closed: drop it, if the child waits
    /// for the end of it.
    pub fn exit(&self) -> impl Event<Output = io::Result<ExitStatus>> + Clone + Send + use<> {
        self.reaped.exit.get().wrap(|exit| exit.map_err(|error| io::Error::new(error.kind(), error)))
    }

    /// The exit status of the child, if it has ended. Never blocks.
    ///
    /// # Errors
    /// The OS could not say.
    pub fn try_exit(&self) -> io::Result<Option<ExitStatus>> {
        self.exit().try_sync().transpose()
    }

    /// Kills the child (SIGKILL). Does nothing if it has ended.
    ///
    /// # Errors
    /// Errors of the OS.
    pub fn kill(&self) -> io::Result<()> {
        self.reaped.kill()
    }

    /// The child's process number. Once the child has ended, another process may get the same number.
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop {
            let _ = self.reaped.kill();
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id).finish_non_exhaustive()
    }
}
