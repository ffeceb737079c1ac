//! The logger is a thread that turns records into lines. The scribe is an OS thread that writes them, and may block
//! as long as it likes.
//!
//! ```text
//!  connections ──records──▶ logger ──lines──▶ scribe ──▶ sink
//!               bounded       │ lost, once the scribe
//!                             ▼ has not moved for PATIENCE
//!                         error log
//! ```
//!
//! While the scribe writes, the logger gathers. When it has gathered enough, it no longer chooses to receive: posts
//! wait, and in the end the connections. So a log that is slow makes the server slow, and loses nothing. When the
//! scribe has asked for nothing for [`PATIENCE`], the log is *stuck*. The logger then receives again, drops the
//! records, and tells the error log their number. No post waits for longer than that.
//!
//! The scribe goes on where a write failed until it succeeds, so no line is torn. To the logger a failing sink is a
//! slow one. For a moment after the first line the logger lets records come, and turns them into
//! lines all at once.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;

use crate::config::{AccessLog, Mode};
use crate::errors::ErrorLog;
use crate::record::{LineWriter, Record};

/// Time that a full logger waits for the scribe before the log counts as stuck.
const PATIENCE: Duration = Duration::from_secs(1);
/// Records on their way to the logger.
const QUEUE: usize = 4 * 1024;
/// Posts that may wait beyond that, while their connections go on.
const MOST_WAITING: usize = 4 * 1024;
/// Times for writing the log when all else is over: without a line that is written, and in all.
const LAST_LINE: Duration = Duration::from_secs(2);
const LAST_LINES: Duration = Duration::from_secs(10);
/// Bytes of lines gathered while the scribe writes.
const BATCH: usize = 256 * 1024;
/// Time for which lines are gathered although the scribe is idle. A wake-up of an OS thread for each line would cost
/// more than the rest of the log.
const GATHER: Duration = Duration::from_millis(5);
/// While the log is stuck: how long until the error log is told again how much is lost.
const BETWEEN_TELLING: Duration = Duration::from_secs(10);
/// Pauses of the scribe after a write that failed: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The way to post records. Cheap to clone; the logger ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Log {
    records: Sender<Box<Record>>,
    mode: Mode,
    counts: Arc<Counts>,
}

/// Rest of a log when nobody can post to it any more.
pub(crate) struct Ending {
    logger: Thread<()>,
    counts: Arc<Counts>,
    /// Lines that are not written by now are lost.
    given_up: IVar<()>,
}

#[derive(Default)]
struct Counts {
    posted: AtomicU64,
    /// Posts that were started and are not done.
    waiting: AtomicUsize,
    written: AtomicU64,
}

impl Log {
    /// Starts the logger and its scribe. `None`: there is nothing to log to.
    pub(crate) fn start(log: AccessLog, mode: Mode, errors: &ErrorLog) -> io::Result<Option<(Log, Ending)>> {
        let sink: Box<dyn Write + Send> = match log {
            AccessLog::Off => return Ok(None),
            // Without a buffer: the scribe has to know what was written.
            AccessLog::Stdout => Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            AccessLog::To(sink) => sink,
        };
        let counts = Arc::new(Counts::default());
        let given_up = IVar::new();
        let (records, queue) = if mode.leaves_messages() { bounded(QUEUE) } else { channel() };
        let (ask, asks) = channel();
        let (done, finished) = bounded(1);
        let scribe =
            Scribe { sink, counts: counts.clone(), errors: errors.clone(), given_up: given_up.clone() };
        thread::Builder::new().name("swerve-scribe".into()).spawn(move || {
            scribe.run(&ask);
            let _ = done.try_send(());
        })?;
        let logger = Logger::new(queue, asks, given_up.clone(), !mode.leaves_messages(), errors.clone());
        let over = given_up.clone();
        let logger = spawn(async move {
            logger.run().await;
            choose((finished.recv().wrap(drop), over.get())).await;
        });
        let ending = Ending { logger, counts: counts.clone(), given_up };
        Ok(Some((Log { records, mode, counts }, ending)))
    }

    /// Posts a record, and waits until the logger has it or the log counts as stuck.
    ///
    /// In the paper's form nobody does: a parasite waits in its place, while there are not too many.
    pub(crate) async fn post(&self, record: Box<Record>) {
        if self.mode == Mode::PaperParasites && !self.has_to_be_waited_for() {
            return self.post_and_leave(record);
        }
        self.counts.posted.fetch_add(1, Ordering::Relaxed);
        // Refused when the logger has gone.
        let _ = self.records.send(record).await;
    }

    /// Whether who has a record should [`post`](Log::post) it, rather than leave it: in the synchronous form, and
    /// when too many are left already.
    pub(crate) fn has_to_be_waited_for(&self) -> bool {
        self.mode.is_synchronous() || self.counts.waiting.load(Ordering::Relaxed) >= MOST_WAITING
    }

    /// Posts a record and does not wait for it.
    pub(crate) fn post_and_leave(&self, record: Box<Record>) {
        let Log { records, counts, .. } = self.clone();
        counts.posted.fetch_add(1, Ordering::Relaxed);
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        self.mode.start(async move {
            let _ = records.send(record).await;
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

impl Ending {
    /// Waits, within limits, until all is written. How many lines were not.
    pub(crate) async fn lost(self) -> u64 {
        let written = || self.counts.written.load(Ordering::Relaxed);
        let end = Instant::now() + LAST_LINES;
        loop {
            let before = written();
            let patience = end.min(Instant::now() + LAST_LINE);
            let over = choose((self.logger.join().wrap(|_| true), at(patience).wrap(|()| false)));
            if over.await || patience == end || written() == before {
                break;
            }
        }
        let _ = self.given_up.put(());
        self.counts.posted.load(Ordering::Relaxed).saturating_sub(written())
    }
}

/// Lines for the scribe, and how many.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
}

/// Events that the logger waits for.
enum Next {
    Record(Box<Record>),
    /// Whether no more records will come.
    End,
    /// The scribe has nothing to do.
    Idle(Sender<Batch>),
    /// There is no scribe any more.
    Alone,
    /// It is of no use to go on.
    GivenUp,
    /// Time has passed: see [`Phase`].
    Time,
}

/// State of the logger. The batch is empty in `Waiting` only, and full in `Full` and `Stuck`.
#[derive(Clone, Copy)]
enum Phase {
    /// For a first record.
    Waiting,
    /// Lets records come until then.
    Gathering(Instant),
    /// Its lines may go, and more records may come.
    Ready,
    /// It has enough. At this time the log counts as stuck.
    Full(Instant),
    /// New records are lost. At this time the error log is told of it.
    Stuck(Instant),
}

struct Logger {
    records: Receiver<Box<Record>>,
    /// Requests of the scribe for lines: it sends the channel on which it waits.
    asks: Receiver<Sender<Batch>>,
    given_up: IVar<()>,
    /// Whether the sender of a record waits until it is received, so that none is left for later.
    each: bool,
    errors: ErrorLog,
    writer: LineWriter,
    batch: Batch,
    phase: Phase,
    /// Whether no more records will come.
    ended: bool,
    /// Whether the scribe has gone: all that comes is lost then.
    alone: bool,
    /// Records lost since the log is stuck, and how many of them have been told of.
    lost: u64,
    told: u64,
}

impl Logger {
    fn new(
        records: Receiver<Box<Record>>,
        asks: Receiver<Sender<Batch>>,
        given_up: IVar<()>,
        each: bool,
        errors: ErrorLog,
    ) -> Logger {
        Logger {
            records,
            asks,
            given_up,
            each,
            errors,
            writer: LineWriter::default(),
            batch: Batch::default(),
            phase: Phase::Waiting,
            ended: false,
            alone: false,
            lost: 0,
            told: 0,
        }
    }

    async fn run(mut self) {
        while !self.ended || self.batch.lines > 0 {
            match self.next().await {
                Next::Record(_) if matches!(self.phase, Phase::Stuck(_)) => self.lose(),
                Next::Record(record) => {
                    self.batch.write(&mut self.writer, &record);
                    self.write_all();
                }
                Next::End => self.ended = true,
                Next::Idle(scribe) => {
                    self.phase = Phase::Waiting;
                    let _ = scribe.send(mem::take(&mut self.batch)).await;
                    if self.lost > 0 {
                        let lost = mem::take(&mut self.lost);
                        self.told = 0;
                        self.errors
                            .tell(format_args!("swerve: the access log takes lines again: {lost} were lost"));
                    }
                }
                Next::Alone => {
                    self.alone = true;
                    self.lost += mem::take(&mut self.batch).lines;
                    self.be_stuck();
                }
                Next::GivenUp => return,
                Next::Time => match self.phase {
                    Phase::Full(_) | Phase::Stuck(_) => self.be_stuck(),
                    _ => {
                        self.phase = Phase::Ready;
                        self.write_all();
                    }
                },
            }
        }
    }

    async fn next(&self) -> Next {
        let record = || self.records.recv().wrap(|record| record.map_or(Next::End, Next::Record));
        let scribe = || {
            let idle = self.asks.recv().wrap(|ask| ask.map_or(Next::Alone, Next::Idle));
            choose((idle, self.given_up.get().wrap(|()| Next::GivenUp)))
        };
        let time = |when| at(when).wrap(|()| Next::Time);
        match self.phase {
            _ if self.ended => scribe().await,
            Phase::Waiting => record().await,
            // To be woken by each record would cost more than to write it.
            Phase::Gathering(until) if !self.each => time(until).await,
            Phase::Gathering(until) => choose_biased((record(), time(until))).await,
            Phase::Ready => choose((scribe(), record())).await,
            Phase::Full(stuck) => choose((scribe(), time(stuck))).await,
            Phase::Stuck(tell) if self.alone => choose((record(), time(tell))).await,
            Phase::Stuck(tell) => choose((scribe(), record(), time(tell))).await,
        }
    }

    /// Writes the records that have come, as far as there is room.
    fn write_all(&mut self) {
        while !self.batch.is_full()
            && let Ok(record) = self.records.try_recv()
        {
            self.batch.write(&mut self.writer, &record);
        }
        let now = Instant::now();
        self.phase = match self.phase {
            _ if self.batch.is_full() => Phase::Full(now + PATIENCE),
            Phase::Waiting => Phase::Gathering(now + GATHER),
            Phase::Gathering(until) if until <= now => Phase::Ready,
            phase => phase,
        };
    }

    /// Counts a record that is lost, and all others that have come.
    fn lose(&mut self) {
        self.lost += 1;
        while self.records.try_recv().is_ok() {
            self.lost += 1;
        }
        if self.told == 0 {
            self.be_stuck();
        }
    }

    /// Tells what has not been told, and goes on losing records.
    fn be_stuck(&mut self) {
        if self.lost > self.told {
            self.told = self.lost;
            self.errors
                .tell(format_args!("swerve: the access log takes no lines: {} are lost so far", self.lost));
        }
        self.phase = Phase::Stuck(Instant::now() + BETWEEN_TELLING);
    }
}

impl Batch {
    fn is_full(&self) -> bool {
        self.text.len() >= BATCH
    }

    fn write(&mut self, writer: &mut LineWriter, record: &Record) {
        writer.write(record, &mut self.text);
        self.lines += 1;
    }
}

/// The body of the OS thread.
struct Scribe {
    sink: Box<dyn Write + Send>,
    counts: Arc<Counts>,
    errors: ErrorLog,
    given_up: IVar<()>,
}

impl Scribe {
    fn run(mut self, asks: &Sender<Sender<Batch>>) {
        let (here, batches) = bounded(1);
        while asks.send(here.clone()).sync_blocking().is_ok() {
            let Ok(batch) = batches.recv().sync_blocking() else {
                return;
            };
            match catch_unwind(AssertUnwindSafe(|| self.write(&batch))) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    return self
                        .errors
                        .tell("swerve: the writer of the access log panicked; there is no log");
                }
            }
        }
    }

    /// Writes all of a batch, however many tries it takes. False: it has been given up.
    fn write(&mut self, batch: &Batch) -> bool {
        let (mut rest, mut lines) = (&*batch.text, batch.lines);
        let mut pause = None;
        loop {
            let error = match self.write_some(&mut rest, &mut lines) {
                Ok(()) if pause.is_some() => {
                    self.errors.tell("swerve: the access log is written again");
                    return true;
                }
                Ok(()) => return true,
                Err(error) => error,
            };
            if pause.is_none() {
                self.errors
                    .tell(format_args!("swerve: cannot write the access log, will try again: {error}"));
            }
            let now = pause.map_or(FIRST_PAUSE, |last: Duration| (last * 2).min(LONGEST_PAUSE));
            pause = Some(now);
            let over = choose_biased((self.given_up.get().wrap(|()| true), after(now).wrap(|()| false)));
            if over.sync_blocking() {
                return false;
            }
        }
    }

    /// Writes until all is written or a write fails. `rest` is what is not written yet, and `lines` how many
    /// lines end in it.
    fn write_some(&mut self, rest: &mut &[u8], lines: &mut u64) -> io::Result<()> {
        while !rest.is_empty() {
            let written = match self.sink.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => n.min(rest.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (gone, left) = rest.split_at(written);
            let ended = if left.is_empty() { *lines } else { line_ends(gone) };
            self.counts.written.fetch_add(ended, Ordering::Relaxed);
            (*rest, *lines) = (left, *lines - ended);
        }
        self.sink.flush()
    }
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().map(|b| u64::from(*b == b'\n')).sum()
}
