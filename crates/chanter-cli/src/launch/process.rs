//! One process of a job.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::process::{Child, Command};
use chanter_cluster::launcher;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// State of the process, as far as it is known.
enum State {
    Running,
    /// It has ended so, after that time.
    Ended(ExitStatus, Duration),
}

/// A process that was started, the leader of its own process group: one of the job's, or the command that has started a
/// node of the job.
pub(super) struct Process {
    /// As messages call it.
    name: String,
    number: usize,
    pid: u32,
    started: Instant,
    state: State,
    /// A node's standard input.
    node: Option<Sender<Vec<u8>>>,
}

impl Process {
    /// The process of a job with that number.
    pub(super) fn new(number: usize, child: &Child) -> Self {
        let name = format!("process {number}");
        Self { name, number, pid: child.id(), started: Instant::now(), state: State::Running, node: None }
    }

    /// The command that has started a node on `host`, and takes lines.
    pub(super) fn node(number: usize, host: &str, child: &Child, lines: Sender<Vec<u8>>) -> Self {
        Self { name: format!("host {host}"), node: Some(lines), ..Self::new(number, child) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    pub(super) fn has_ended(&mut self, status: ExitStatus) {
        self.state = State::Ended(status, self.started.elapsed());
    }

    /// Sends a signal to it and to what it has started, unless it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        if self.is_running() {
            signal_group(self.pid, signal);
        }
    }

    /// Sends a line to the node. A node that has ended does not get it.
    pub(super) fn tell(&self, line: &[u8]) {
        if let Some(node) = &self.node {
            let _ = node.try_send(line.to_vec());
        }
    }
}

/// `3    41725   exit 1           0.52 s`
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, time) = match &self.state {
            State::Running => ("running".into(), self.started.elapsed()),
            State::Ended(status, time) => (describe(*status), *time),
        };
        write!(f, "{:<6} {:<9} {:<22} {:.2} s", self.number, self.pid, state, time.as_secs_f64())
    }
}

/// Sends a signal to all processes of the group.
pub(super) fn signal_group(leader: u32, signal: Signal) {
    if let Ok(leader) = i32::try_from(leader) {
        // All of them have ended, which is as well.
        let _ = killpg(Pid::from_raw(leader), signal);
    }
}

/// The end of a process, in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => format!("signal {number} {signal}"),
            Err(_) => format!("signal {number}"),
        },
        (None, None) => status.to_string(),
    }
}

/// The exit code that a shell would show for it.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The command of the process with that number, which gets `listener`, and `segment`, if there is one. It dies with the
/// OS thread that starts it.
pub(super) fn command(
    program: &[OsString],
    variables: &[(&str, String)],
    number: usize,
    listener: &OwnedFd,
    segment: Option<&OwnedFd>,
    stdin: Stdio,
) -> Command {
    let mut command = std::process::Command::new(&program[0]);
    let listener = listener.as_raw_fd();
    command
        .args(&program[1..])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .env(launcher::NUMBER, number.to_string())
        .env(launcher::LISTENER, listener.to_string())
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A signal from the terminal goes to the launcher, which passes it on, once.
        .process_group(0);
    let segment = segment.map(AsRawFd::as_raw_fd);
    match segment {
        Some(segment) => command.env(launcher::SEGMENT, segment.to_string()),
        // Of a launcher around this one, say.
        None => command.env_remove(launcher::SEGMENT),
    };
    let launcher = nix::unistd::getpid();
    let prepare = move || {
        die_with_parent(launcher, Signal::SIGKILL)?;
        for inherited in [Some(listener), segment].into_iter().flatten() {
            // SAFETY: the parent holds it open at least until this process runs its program.
            let inherited = unsafe { BorrowedFd::borrow_raw(inherited) };
            fcntl(inherited, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        Ok(())
    };
    // SAFETY: `prepare` makes system calls that are safe between fork and exec, and neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
    command.into()
}

/// The command that starts a node: `words`, and what is run there. It is told when the OS thread that starts it ends.
pub(super) fn node_command(words: &[String]) -> Command {
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let launcher = nix::unistd::getpid();
    // A node ends its processes first.
    let prepare = move || die_with_parent(launcher, Signal::SIGTERM);
    // SAFETY: `prepare` makes system calls that are safe between fork and exec, and neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
    command.into()
}

/// Asks the OS to send this process a signal when the one that has forked it ends.
#[cfg(target_os = "linux")]
fn die_with_parent(parent: Pid, signal: Signal) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(signal)?;
    // It may have ended already.
    if nix::unistd::getppid() == parent { Ok(()) } else { Err(nix::errno::Errno::ESRCH.into()) }
}

/// Other systems cannot be asked.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_parent: Pid, _signal: Signal) -> io::Result<()> {
    Ok(())
}
