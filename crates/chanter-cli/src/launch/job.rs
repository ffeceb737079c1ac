//! The processes of a job together: when it ends, and how.

use std::fmt::Write;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use chanter::prelude::*;
use chanter::{event::optional, process::Child, signal};
use chanter_cluster::engine::shm::Protocol;
use chanter_cluster::launcher;
use nix::sys::signal::Signal;

use super::LaunchArgs;
use super::addresses::{Listeners, secret};
use super::input;
use super::lines::Lines;
use super::output::{Output, Stream};
use super::process::{Process, code, command, describe, signal_group};

/// The time was up, as `timeout` says it.
const LATE: u8 = 124;
/// Nobody reads the output any more: as a shell shows a SIGPIPE.
const UNREAD: u8 = 128 + 13;

/// Descriptors that a process costs the launcher.
const DESCRIPTORS: usize = 8;

/// The next thing to happen to a job.
enum News {
    Ended(usize, io::Result<ExitStatus>),
    Told(Signal),
    Asked,
    Unread,
    Late,
    Impatient,
}

/// A job under way.
pub(super) struct Job {
    args: LaunchArgs,
    processes: Vec<Process>,
    ends: Receiver<(usize, io::Result<ExitStatus>)>,
    /// The threads that read and write.
    threads: Vec<Thread<()>>,
    output: Output,
    written: Receiver<io::Error>,
    signals: Signals,
    deadline: Option<Instant>,
    ending: Ending,
    failure: Option<u8>,
    _listeners: Listeners,
}

/// Whether the processes have been told to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// A process that has not ended by then is killed.
    By(Instant),
    /// All have been killed.
    Killed,
}

/// Signals that the launcher listens for.
struct Signals {
    interrupt: signal::Signal,
    terminate: signal::Signal,
    /// Not there if it is ignored, as by `nohup`.
    hangup: Option<signal::Signal>,
    asked: signal::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let ignored = signal::is_ignored(Signal::SIGHUP as i32)?;
        Ok(Self {
            interrupt: signal::interrupt()?,
            terminate: signal::terminate()?,
            hangup: if ignored { None } else { Some(signal::hangup()?) },
            asked: signal::user1()?,
        })
    }
}

/// Whether the OS has no room for what it was asked.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | OutOfMemory | QuotaExceeded | FileTooLarge)
}

impl Job {
    /// Starts all processes. If one cannot be started, those before it are killed.
    pub(super) fn start(args: LaunchArgs) -> Result<Self, (u8, String)> {
        let cannot = |error: io::Error| (1, format!("cannot start a job: {error}"));
        let signals = Signals::listen().map_err(cannot)?;
        let (output, written) = Output::start().map_err(cannot)?;
        let count = args.processes as usize;
        // A listener, and three pipes until they have been handed over.
        swerve::raise_descriptor_limit(DESCRIPTORS * count);
        let mut listeners = Listeners::bind(count, args.is_tcp()).map_err(cannot)?;
        let mut variables = vec![
            (launcher::COUNT, count.to_string()),
            (launcher::ADDRESSES, listeners.text()),
            (launcher::SECRET, secret().map_err(cannot)?.to_hex()),
        ];
        variables.extend(args.tls().map_err(cannot)?);
        // With TCP the processes behave as on several machines.
        let mut warning = None;
        let segment = if args.no_segment || args.is_tcp() || count == 1 {
            None
        } else {
            let protocol = if args.push { Protocol::Push } else { Protocol::Pull };
            match launcher::segment_of(args.processes, protocol) {
                Ok(segment) => Some(segment),
                Err(error) if is_full(&error) => {
                    warning =
                        Some(format!("{error}: the processes share no memory, and talk by sockets alone"));
                    None
                }
                Err(error) => return Err(cannot(error)),
            }
        };
        let mut children = Vec::with_capacity(count);
        // From here each process keeps the only end of its own socket: when it dies, nobody can connect to it.
        for (number, listener) in std::mem::take(&mut listeners.sockets).into_iter().enumerate() {
            let stdin = if args.stdin && number == 0 { Stdio::piped() } else { Stdio::null() };
            let mut command = command(&args.program, &variables, number, &listener, segment.as_ref(), stdin);
            // Until the job has them all.
            let child = command.kill_on_drop(true).spawn().map_err(|error| {
                let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
                (code, format!("cannot run {}: {error}", args.program[0].display()))
            })?;
            children.push(child);
        }
        let (ended, ends) = mailbox();
        let mut job = Self {
            processes: Vec::with_capacity(count),
            ends,
            threads: Vec::with_capacity(3 * count),
            output,
            written,
            signals,
            deadline: args.timeout.map(|timeout| Instant::now() + timeout),
            ending: Ending::No,
            failure: None,
            _listeners: listeners,
            args,
        };
        if let Some(warning) = warning {
            job.complain(&warning);
        }
        for (number, child) in children.into_iter().enumerate() {
            job.watch(number, child, ended.clone()).map_err(cannot)?;
        }
        Ok(job)
    }

    /// Threads that read what the process writes, and wait for its end.
    fn watch(
        &mut self,
        number: usize,
        mut child: Child,
        ended: Sender<(usize, io::Result<ExitStatus>)>,
    ) -> io::Result<()> {
        self.processes.push(Process::new(number, &child));
        if let Some(stdin) = child.stdin.take() {
            input::forward(stdin)?;
        }
        let over = IVar::new();
        for (stream, from) in [(Stream::Out, child.stdout.take()), (Stream::Err, child.stderr.take())] {
            if let Some(from) = from {
                let lines = Lines::new(self.prefix(number, stream));
                let over = over.get().wrap(|()| ());
                self.threads.push(spawn(self.output.clone().forward(from, stream, lines, over)));
            }
        }
        self.threads.push(spawn(async move {
            let status = child.exit().await;
            // Processes that it has started end with it.
            signal_group(child.id(), Signal::SIGKILL);
            let _ = over.put(());
            let _ = ended.send((number, status)).await;
        }));
        Ok(())
    }

    fn prefix(&self, number: usize, stream: Stream) -> Vec<u8> {
        const COLORS: [AnsiColor; 6] = [
            AnsiColor::Cyan,
            AnsiColor::Yellow,
            AnsiColor::Green,
            AnsiColor::Magenta,
            AnsiColor::Blue,
            AnsiColor::Red,
        ];
        let colored = match stream {
            Stream::Out => self.args.color.is_wanted(&io::stdout()),
            Stream::Err => self.args.color.is_wanted(&io::stderr()),
        };
        if self.args.no_prefix {
            Vec::new()
        } else if colored {
            let style = Style::new().fg_color(Some(COLORS[number % COLORS.len()].into()));
            format!("{style}[{number}]{style:#} ").into()
        } else {
            format!("[{number}] ").into()
        }
    }

    /// Sees the job to its end. The answer is the code to exit with.
    pub(super) async fn run(mut self) -> Result<u8, (u8, String)> {
        while self.processes.iter().any(Process::is_running) {
            match self.news().await {
                News::Ended(number, status) => {
                    let status =
                        status.map_err(|error| (1, format!("cannot wait for process {number}: {error}")))?;
                    self.processes[number].has_ended(status);
                    if !status.success() {
                        self.failed(number, status);
                    }
                }
                News::Told(signal) if self.ending == Ending::No => self.end(signal),
                News::Told(_) | News::Impatient => self.kill(),
                News::Asked => self.say(self.table()),
                News::Unread => {
                    self.failure.get_or_insert(UNREAD);
                    self.end(Signal::SIGTERM);
                }
                News::Late => {
                    self.deadline = None;
                    self.failure.get_or_insert(LATE);
                    self.complain("the time is up");
                    self.end(Signal::SIGTERM);
                }
            }
        }
        Ok(self.finish().await)
    }

    async fn news(&self) -> News {
        let signals = &self.signals;
        let kill_at = if let Ending::By(time) = self.ending { Some(time) } else { None };
        choose((
            // Never closed: a process that runs has a thread that holds the other end.
            self.ends.recv().wrap(|end| match end {
                Ok((number, status)) => News::Ended(number, status),
                Err(_) => News::Impatient,
            }),
            signals.interrupt.recv().wrap(|()| News::Told(Signal::SIGINT)),
            signals.terminate.recv().wrap(|()| News::Told(Signal::SIGTERM)),
            optional(signals.hangup.as_ref().map(signal::Signal::recv)).wrap(|()| News::Told(Signal::SIGHUP)),
            signals.asked.recv().wrap(|()| News::Asked),
            optional((self.ending == Ending::No).then(|| self.written.recv())).wrap(|_| News::Unread),
            optional(self.deadline.map(at)).wrap(|()| News::Late),
            optional(kill_at.map(at)).wrap(|()| News::Impatient),
        ))
        .await
    }

    /// Notes a failure. The first one decides the code, and ends the job unless it keeps going.
    fn failed(&mut self, number: usize, status: ExitStatus) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(code(status));
        if self.ending != Ending::No {
            return;
        }
        let others = self.processes.iter().any(Process::is_running);
        let fate = if others && !self.args.keep_going { ": ending the others" } else { "" };
        self.complain(&format!("process {number} failed ({}){fate}", describe(status)));
        if !self.args.keep_going {
            self.end(Signal::SIGTERM);
        }
    }

    /// Tells all who run to end, within the grace period.
    fn end(&mut self, signal: Signal) {
        if self.ending == Ending::No {
            self.ending = Ending::By(Instant::now() + self.args.grace);
            self.signal(signal);
        }
    }

    fn kill(&mut self) {
        self.ending = Ending::Killed;
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        for process in &self.processes {
            process.signal(signal);
        }
    }

    /// Output that is still to be read and written. A job that was told to end does not wait longer than the grace
    /// period for
    /// who reads its output.
    async fn finish(mut self) -> u8 {
        let code = self.failure.unwrap_or(0);
        let until = (self.ending != Ending::No).then(|| Instant::now() + self.args.grace);
        let status = self.args.status.then(|| self.table());
        let threads = std::mem::take(&mut self.threads);
        let Self { output, written, .. } = self;
        spawn(async move {
            for thread in threads {
                // None of them panics.
                let _ = thread.join().await;
            }
            if let Some(status) = status {
                output.say(Stream::Err, status.into()).await;
            }
            // The writer ends with the last handle of the output, which is this one.
        });
        choose((written.recv().wrap(drop), optional(until.map(at)))).await;
        code
    }

    fn complain(&mut self, what: &str) {
        self.say(format!("chanter: {what}\n"));
    }

    /// Writes these lines. The job goes on meanwhile: a reader that does not read must not keep it from its signals.
    fn say(&mut self, lines: String) {
        let output = self.output.clone();
        self.threads.push(spawn(async move { output.say(Stream::Err, lines.into()).await }));
    }

    fn table(&self) -> String {
        let mut table = format!("{:<6} {:<9} {:<22} time\n", "number", "pid", "state");
        for process in &self.processes {
            // Writing to a string does not fail.
            let _ = writeln!(table, "{process}");
        }
        table
    }
}
