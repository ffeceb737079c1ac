//! Processes of a job on this computer: they are started here, and their launcher is this process.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use chanter::process::Child;
use chanter_cluster::engine::shm::Protocol;
use chanter_cluster::launcher;

use super::addresses::{Listeners, secret};
use super::job::{Job, Options};
use super::process::{Process, command};
use super::{Failure, LaunchArgs, cannot, open};

/// Descriptors that a process costs the launcher: a listener, and three pipes until they have been handed over.
const DESCRIPTORS: usize = 8;

/// Processes to be started.
pub(super) struct Local<'a> {
    pub(super) program: &'a [OsString],
    /// Number of the first one.
    pub(super) first: usize,
    /// Variables that all have.
    pub(super) variables: &'a [(&'a str, String)],
    /// The listener of each.
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) segment: Option<OwnedFd>,
    /// Whether the first one gets the standard input of this process.
    pub(super) stdin: bool,
}

impl Local<'_> {
    /// Starts all of them. If one cannot be started, those before it are killed.
    ///
    /// From here each process keeps the only end of its own socket: when it dies, nobody can connect to it.
    pub(super) fn spawn(self) -> Result<Vec<Child>, Failure> {
        let mut children = Vec::with_capacity(self.listeners.len());
        for (number, listener) in (self.first..).zip(self.listeners) {
            let is_given = self.stdin && number == self.first;
            let stdin = if is_given { Stdio::piped() } else { Stdio::null() };
            let segment = self.segment.as_ref();
            let mut command = command(self.program, self.variables, number, &listener, segment, stdin);
            // Until the job has them all.
            let child =
                command.kill_on_drop(true).spawn().map_err(|error| cannot_run(&self.program[0], &error))?;
            children.push(child);
        }
        Ok(children)
    }
}

/// The failure of a program that the OS does not start.
pub(super) fn cannot_run(program: impl AsRef<std::path::Path>, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    (code, format!("cannot run {}: {error}", program.as_ref().display()))
}

/// Raises the limit of descriptors, for those of the processes.
pub(super) fn make_room(processes: u32) {
    swerve::raise_descriptor_limit(DESCRIPTORS * processes as usize);
}

/// The memory of a job's processes; or, if there is no room for it, a warning.
pub(super) fn segment(
    processes: u32,
    protocol: Protocol,
) -> Result<(Option<OwnedFd>, Option<String>), Failure> {
    match launcher::segment_of(processes, protocol) {
        Ok(segment) => Ok((Some(segment), None)),
        Err(error) if is_full(&error) => {
            Ok((None, Some(format!("{error}: the processes share no memory, and talk by sockets alone"))))
        }
        Err(error) => Err(cannot(error)),
    }
}

/// Whether the OS has no room for what it was asked.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | OutOfMemory | QuotaExceeded | FileTooLarge)
}

/// Starts a job whose processes are all here.
pub(super) fn start(args: &LaunchArgs) -> Result<Job, Failure> {
    let mut job = Job::new(Options::new(args)).map_err(cannot)?;
    let count = args.processes.unwrap_or(1);
    make_room(count);
    let mut listeners = Listeners::bind(count as usize, args.is_tcp()).map_err(cannot)?;
    let secret = secret().map_err(cannot)?.to_hex();
    if let Some(file) = &args.open {
        open::write(file, &listeners.text(), &secret).map_err(cannot)?;
    }
    let mut variables = vec![
        (launcher::COUNT, count.to_string()),
        (launcher::ADDRESSES, listeners.text()),
        (launcher::SECRET, secret),
    ];
    variables.extend(args.open.as_ref().map(|_| (launcher::OPEN, "1".to_owned())));
    variables.extend(args.tls.here().map_err(cannot)?);
    // With TCP the processes behave as on several machines.
    let (segment, warning) = if args.no_segment || args.is_tcp() || count == 1 {
        (None, None)
    } else {
        segment(count, if args.push { Protocol::Push } else { Protocol::Pull })?
    };
    let sockets = std::mem::take(&mut listeners.sockets);
    let processes = Local {
        program: &args.program,
        first: 0,
        variables: &variables,
        listeners: sockets,
        segment,
        stdin: args.stdin,
    };
    let children = processes.spawn()?;
    job.keep(listeners);
    if let Some(warning) = warning {
        job.complain(&warning);
    }
    for (number, child) in children.into_iter().enumerate() {
        job.watch(Process::new(number, &child), child, None).map_err(cannot)?;
    }
    Ok(job)
}
