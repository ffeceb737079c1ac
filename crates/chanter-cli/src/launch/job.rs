//! The processes of a job together: when it ends, and how. With `--hosts` the processes of the launcher's job are
//! nodes. Each node has a job of its own: the processes of its host.

use std::fmt::Write;
use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{event::optional, process::Child};
use nix::sys::signal::Signal;

use super::addresses::Listeners;
use super::lines::Lines;
use super::nodes::{Answered, Expected, Nodes};
use super::output::{Output, Source, Stream};
use super::prefix::Prefix;
use super::process::{Process, code, describe, signal_group};
use super::protocol::{Word, line};
use super::signals::Signals;
use super::{Failure, LaunchArgs};

/// The time was up, as `timeout` says it.
const LATE: u8 = 124;
/// Nobody reads the output any more: as a shell shows a SIGPIPE.
const UNREAD: u8 = 128 + 13;

/// Time beyond the grace period in which a node may tell how its processes have ended.
const MARGIN: Duration = Duration::from_secs(5);

/// The next thing to happen to a job.
enum News {
    Ended(usize, io::Result<ExitStatus>),
    Told(Signal),
    /// The launcher of this node has told it something; or has gone.
    Word(Option<Word>),
    Answered(Option<Answered>),
    Silent,
    Unread,
    Late,
    Impatient,
}

/// How a job is run.
pub(super) struct Options {
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) keep_going: bool,
    pub(super) status: bool,
    pub(super) prefix: Prefix,
    /// Name of this host, if this is one of several nodes.
    pub(super) host: Option<String>,
}

impl Options {
    /// The options of a launcher.
    pub(super) fn new(args: &LaunchArgs) -> Self {
        Self {
            timeout: args.timeout,
            grace: args.grace,
            keep_going: args.keep_going,
            status: args.status,
            prefix: Prefix::new(args),
            host: None,
        }
    }
}

/// A job under way.
pub(super) struct Job {
    options: Options,
    processes: Vec<Process>,
    ended: Sender<(usize, io::Result<ExitStatus>)>,
    ends: Receiver<(usize, io::Result<ExitStatus>)>,
    /// The threads that read and write.
    threads: Vec<Thread<()>>,
    output: Output,
    written: Receiver<io::Error>,
    signals: Signals,
    deadline: Option<Instant>,
    ending: Ending,
    failure: Option<u8>,
    /// Lines of the launcher of this node, until it has gone.
    launcher: Option<Receiver<Vec<u8>>>,
    /// The nodes, if the job has some.
    nodes: Option<Nodes>,
    listeners: Option<Listeners>,
}

/// Whether the processes have been told to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// A process that has not ended by then is killed.
    By(Instant),
    /// Nodes have been told to kill their processes. A node that has not ended by then is killed.
    Killing(Instant),
    /// All have been killed.
    Killed,
}

impl Job {
    /// A job without processes.
    ///
    /// # Errors
    /// Errors of the OS.
    pub(super) fn new(options: Options) -> io::Result<Self> {
        let signals = Signals::listen()?;
        let (output, written) = Output::start()?;
        let (ended, ends) = mailbox();
        Ok(Self {
            processes: Vec::new(),
            ended,
            ends,
            threads: Vec::new(),
            output,
            written,
            signals,
            deadline: options.timeout.map(|timeout| Instant::now() + timeout),
            ending: Ending::No,
            failure: None,
            launcher: None,
            nodes: None,
            listeners: None,
            options,
        })
    }

    /// Keeps the places of the processes' sockets until the end of the job.
    pub(super) fn keep(&mut self, listeners: Listeners) {
        self.listeners = Some(listeners);
    }

    /// Makes this the job of a node, whose launcher says that.
    pub(super) fn has_launcher(&mut self, lines: Receiver<Vec<u8>>) {
        self.launcher = Some(lines);
    }

    /// Makes this a job of nodes.
    pub(super) fn has_nodes(&mut self, nodes: Nodes) {
        self.nodes = Some(nodes);
    }

    /// Adds a process, with threads that read what it writes and wait for its end. A node's first line is `expected`.
    ///
    /// # Errors
    /// Errors of the OS.
    pub(super) fn watch(
        &mut self,
        process: Process,
        mut child: Child,
        expected: Option<Expected>,
    ) -> io::Result<()> {
        let index = self.processes.len();
        if let Some(stdin) = child.stdin.take() {
            super::input::forward(stdin)?;
        }
        let (over, heard) = (IVar::new(), IVar::new());
        let prefix = |stream| match expected {
            // A node's lines have their prefixes.
            Some(_) => Vec::new(),
            None => self.options.prefix.of(process.number(), stream),
        };
        let lines = [Stream::Out, Stream::Err].map(|stream| Lines::new(prefix(stream)));
        let [out_lines, err_lines] = lines;
        let source = |from| Source::new(from, over.get().wrap(|()| ()));
        if let Some(from) = child.stderr.take() {
            let output = self.output.clone();
            self.threads.push(spawn(output.forward(source(from), Stream::Err, err_lines)));
        }
        if let Some(from) = child.stdout.take() {
            let (output, from) = (self.output.clone(), source(from));
            self.threads.push(match expected {
                Some(expected) => spawn(expected.forward(from, output, heard.clone())),
                None => {
                    let _ = heard.put(());
                    spawn(output.forward(from, Stream::Out, out_lines))
                }
            });
        }
        self.processes.push(process);
        let ended = self.ended.clone();
        self.threads.push(spawn(async move {
            let status = child.exit().await;
            // Processes that it has started end with it.
            signal_group(child.id(), Signal::SIGKILL);
            let _ = over.put(());
            // Its answer comes before its end.
            heard.get().await;
            let _ = ended.send((index, status)).await;
        }));
        Ok(())
    }

    /// Sees the job to its end. The answer is the code to exit with.
    pub(super) async fn run(mut self) -> Result<u8, Failure> {
        while self.processes.iter().any(Process::is_running) {
            match self.news().await {
                News::Ended(index, status) => self.ended(index, status)?,
                News::Told(signal) => self.told(signal),
                News::Word(word) => self.ordered(word),
                News::Answered(Some((node, Ok(addresses)))) => self.answered(node, addresses),
                News::Answered(Some((node, Err(why)))) => self.failed(node, 1, &format!(": {why}")),
                News::Answered(None) | News::Impatient => self.kill(),
                News::Silent => {
                    let silent = self.nodes.as_ref().map(|nodes| nodes.silent(&self.processes));
                    self.stop(1, silent.as_deref());
                }
                News::Unread => self.stop(UNREAD, None),
                News::Late => {
                    self.deadline = None;
                    self.stop(LATE, Some("the time is up"));
                }
            }
        }
        Ok(self.finish().await)
    }

    async fn news(&self) -> News {
        let kill_at = match self.ending {
            Ending::By(time) | Ending::Killing(time) => Some(time),
            Ending::No | Ending::Killed => None,
        };
        let is_going_on = self.ending == Ending::No;
        let answering = self.nodes.as_ref().filter(|nodes| is_going_on && nodes.is_waiting());
        choose((
            // Never closed: the job holds the other end.
            self.ends.recv().wrap(|end| match end {
                Ok((index, status)) => News::Ended(index, status),
                Err(_) => News::Impatient,
            }),
            self.signals.next().wrap(News::Told),
            optional(self.launcher.as_ref().map(Receiver::recv))
                .wrap(|line| News::Word(line.ok().and_then(|line| serde_json::from_slice(&line).ok()))),
            optional(answering.map(Nodes::answer)).wrap(News::Answered),
            optional(answering.and_then(Nodes::until).map(at)).wrap(|()| News::Silent),
            optional(is_going_on.then(|| self.written.recv())).wrap(|_| News::Unread),
            optional(self.deadline.map(at)).wrap(|()| News::Late),
            optional(kill_at.map(at)).wrap(|()| News::Impatient),
        ))
        .await
    }

    fn ended(&mut self, index: usize, status: io::Result<ExitStatus>) -> Result<(), Failure> {
        let name = self.processes[index].name();
        let status = status.map_err(|error| (1, format!("cannot wait for {name}: {error}")))?;
        self.processes[index].has_ended(status);
        if self.is_waiting() {
            let how = format!(" has ended before the job began ({})", describe(status));
            self.failed(index, code(status).max(1), &how);
        } else if !status.success() {
            self.failed(index, code(status), &format!(" failed ({})", describe(status)));
        }
        Ok(())
    }

    /// Acts on a signal to this process.
    fn told(&mut self, signal: Signal) {
        match self.ending {
            _ if signal == Signal::SIGUSR1 => self.show(),
            Ending::No => self.end(signal),
            // Its launcher says when it is impatient.
            _ if self.options.host.is_some() => {}
            Ending::By(_) if self.nodes.is_some() && !self.is_waiting() => {
                self.ending = Ending::Killing(Instant::now() + MARGIN);
                self.signal(Signal::SIGKILL);
            }
            _ => self.kill(),
        }
    }

    /// Does what the launcher of this node says.
    fn ordered(&mut self, word: Option<Word>) {
        match word {
            Some(Word::Signal(signal)) => match Signal::try_from(signal) {
                Ok(Signal::SIGUSR1) => self.show(),
                Ok(signal) if signal != Signal::SIGKILL && self.ending == Ending::No => self.end(signal),
                _ => self.kill(),
            },
            // It has gone, or says what no launcher says.
            Some(Word::Start(_)) | None => {
                self.launcher = None;
                self.end(Signal::SIGTERM);
            }
        }
    }

    /// Notes that the processes of a node listen. The last such answer begins the job.
    fn answered(&mut self, node: usize, addresses: Vec<std::net::SocketAddr>) {
        match self.nodes.as_mut().map(|nodes| nodes.note(node, addresses)) {
            Some(Ok(Some(start))) => {
                let start = line(&Word::Start(start));
                self.processes.iter().for_each(|node| node.tell(&start));
            }
            Some(Err(error)) => self.failed(node, 1, &format!(" is not begun: {error}")),
            Some(Ok(None)) | None => {}
        }
    }

    /// Whether nodes have not begun yet.
    fn is_waiting(&self) -> bool {
        self.nodes.as_ref().is_some_and(Nodes::is_waiting)
    }

    /// Notes a failure. The first one decides the code, and ends the job unless it keeps going.
    fn failed(&mut self, index: usize, code: u8, how: &str) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(code);
        if self.ending != Ending::No {
            return;
        }
        let is_end = !self.options.keep_going || self.is_waiting();
        let others = self.processes.iter().any(Process::is_running);
        let fate = if others && is_end { ": ending the others" } else { "" };
        let name = self.processes[index].name();
        self.complain(&format!("{name}{how}{fate}"));
        if is_end {
            self.end(Signal::SIGTERM);
        }
    }

    /// Ends the job with that code, unless it has failed before.
    fn stop(&mut self, code: u8, why: Option<&str>) {
        self.failure.get_or_insert(code);
        if let Some(why) = why {
            self.complain(why);
        }
        self.end(Signal::SIGTERM);
    }

    /// Tells all who run to end, within the grace period.
    fn end(&mut self, signal: Signal) {
        if self.ending == Ending::No {
            let margin = if self.nodes.is_some() && !self.is_waiting() { MARGIN } else { Duration::ZERO };
            self.ending = Ending::By(Instant::now() + self.options.grace + margin);
            self.signal(signal);
        }
    }

    fn kill(&mut self) {
        self.ending = Ending::Killed;
        self.processes.iter().for_each(|process| process.signal(Signal::SIGKILL));
    }

    /// Sends the signal to the processes. Nodes that run some get it as a line: a signal to the command that has started
    /// a node would not reach it.
    fn signal(&self, signal: Signal) {
        if self.nodes.is_some() && !self.is_waiting() {
            let word = line(&Word::Signal(signal as i32));
            self.processes.iter().for_each(|node| node.tell(&word));
        } else {
            self.processes.iter().for_each(|process| process.signal(signal));
        }
    }

    /// Output that is still to be read and written. A job that was told to end does not wait longer than the grace
    /// period for a reader of its output.
    async fn finish(mut self) -> u8 {
        let code = self.failure.unwrap_or(0);
        let until = (self.ending != Ending::No).then(|| Instant::now() + self.options.grace);
        let status = (self.options.status && self.nodes.is_none()).then(|| self.table());
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

    pub(super) fn complain(&mut self, what: &str) {
        self.say(format!("chanter: {what}\n"));
    }

    /// Writes these lines. The job goes on meanwhile: a reader that does not read must not keep it from its signals.
    fn say(&mut self, lines: String) {
        let output = self.output.clone();
        self.threads.push(spawn(async move { output.say(Stream::Err, lines.into()).await }));
    }

    /// Lists the processes. Nodes list their own.
    fn show(&mut self) {
        match &self.nodes {
            None => self.say(self.table()),
            Some(nodes) if nodes.is_waiting() => self.complain(&nodes.silent(&self.processes)),
            Some(_) => self.signal(Signal::SIGUSR1),
        }
    }

    fn table(&self) -> String {
        let mut table = self.options.host.as_ref().map_or(String::new(), |host| format!("host {host}\n"));
        // Writing to a string does not fail.
        let _ = writeln!(table, "{:<6} {:<9} {:<22} time", "number", "pid", "state");
        for process in &self.processes {
            let _ = writeln!(table, "{process}");
        }
        table
    }
}
