//! The logger: a thread that turns records into lines, and the scribe, an OS thread that writes them
//! where they go and may block there as long as it likes.
//!
//! No server thread ever waits for the log for longer than [`PATIENCE`], and none that serves a
//! client waits at all, except in the synchronous form: a record is posted by a thread of its own.
//! While the scribe writes, the logger gathers; when it has gathered enough, it no longer chooses to receive, and the
//! posts wait; when they have waited long enough they choose to give up, and are counted. For a moment after the
//! first line it lets records come, and turns them into lines all at once.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;

use crate::config::{AccessLog, Mode};
use crate::record::{LineWriter, Record};

/// How long a post waits for a log that does not move.
const PATIENCE: Duration = Duration::from_secs(1);
/// Records on their way to the logger.
const QUEUE: usize = 1024;
/// Posts that may wait beyond that at the same time; more are lost at once.
const MOST_WAITING: usize = 8 * 1024;
/// How long the log may take to be written when everything else is over.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Bytes of lines gathered while the scribe writes.
const BATCH: usize = 64 * 1024;
/// How long lines are gathered though the scribe has nothing to do: to wake an OS thread for each line
/// would cost more than all the rest of the log.
const GATHER: Duration = Duration::from_millis(5);

/// Where to post records. Cheap to clone; the logger ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Log {
    records: Sender<Box<Record>>,
    mode: Mode,
    counts: Arc<Counts>,
}

/// What remains of a log when nobody can post to it any more.
pub(crate) struct Ending {
    logger: Thread<()>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    posted: AtomicU64,
    /// Posts that wait at present.
    waiting: AtomicUsize,
    written: AtomicU64,
}

/// Lines for the scribe, and how many.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
}

impl Log {
    /// Starts the logger and its scribe. `None`: there is nothing to log to.
    pub(crate) fn start(log: AccessLog, mode: Mode) -> io::Result<Option<(Log, Ending)>> {
        let sink: Box<dyn Write + Send> = match log {
            AccessLog::Off => return Ok(None),
            AccessLog::Stdout => Box::new(io::stdout()),
            AccessLog::To(sink) => sink,
        };
        let counts = Arc::new(Counts::default());
        let (records, queue) = if mode.is_synchronous() { channel() } else { bounded(QUEUE) };
        let (ask, asks) = channel();
        let (done, finished) = bounded(1);
        let written = counts.clone();
        thread::Builder::new().name("swerve-scribe".into()).spawn(move || {
            scribe(sink, &ask, &written);
            let _ = done.try_send(());
        })?;
        let logger = spawn(async move {
            gather(queue, asks, mode.is_synchronous()).await;
            let _ = finished.recv().await;
        });
        let ending = Ending { logger, counts: counts.clone() };
        Ok(Some((Log { records, mode, counts }, ending)))
    }

    /// Posts a record; waits for it in the synchronous form only.
    pub(crate) async fn post(&self, record: Box<Record>) {
        if self.is_synchronous() {
            self.counts.posted.fetch_add(1, Ordering::Relaxed);
            let taken = self.records.send(record).wrap(drop);
            choose_biased((taken, after(PATIENCE))).await;
        } else {
            self.post_and_leave(record);
        }
    }

    /// Whether [`Log::post`] waits.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.mode.is_synchronous()
    }

    /// Posts a record and does not wait for it.
    pub(crate) fn post_and_leave(&self, record: Box<Record>) {
        let Log { records, counts, .. } = self.clone();
        counts.posted.fetch_add(1, Ordering::Relaxed);
        if counts.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.mode.start(async move {
            choose_biased((records.send(record).wrap(drop), after(PATIENCE))).await;
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

impl Ending {
    /// Waits, within limits, until all is written. How many lines were not: nobody took them.
    pub(crate) async fn lost(self) -> u64 {
        choose((self.logger.join().wrap(drop), after(LAST_LINES))).await;
        let posted = self.counts.posted.load(Ordering::Relaxed);
        posted.saturating_sub(self.counts.written.load(Ordering::Relaxed))
    }
}

/// What the logger waits for.
enum Next {
    Record(Box<Record>),
    /// No more records will come.
    End,
    /// The scribe has nothing to do.
    Idle(Sender<Batch>),
    /// Enough has been gathered, or for long enough.
    Gathered,
}

/// The logger. `asks` is how the scribe asks for lines: it sends the channel on which it waits. `each`: who posts
/// a record waits until it is received, so none is left for later.
async fn gather(records: Receiver<Box<Record>>, asks: Receiver<Sender<Batch>>, each: bool) {
    let mut writer = LineWriter::default();
    let mut batch = Batch::default();
    let mut ended = false;
    // Until when lines are gathered; `None`: they may go.
    let mut until: Option<Instant> = None;
    while !ended || batch.lines > 0 {
        let record = || records.recv().wrap(|record| record.map_or(Next::End, Next::Record));
        // A scribe that is gone will never take anything.
        let idle = || asks.recv().wrap(|ask| ask.map_or(Next::End, Next::Idle));
        let next = if ended || batch.is_full() {
            idle().await
        } else if batch.lines == 0 {
            record().await
        } else if let Some(until) = until {
            let gathered = at(until).wrap(|()| Next::Gathered);
            // To be woken by each record would cost more than to write it.
            if each { choose_biased((record(), gathered)).await } else { gathered.await }
        } else {
            choose((idle(), record())).await
        };
        match next {
            Next::Record(record) => {
                let first = batch.lines == 0;
                batch.write(&mut writer, &record);
                batch.write_all(&mut writer, &records);
                let now = Instant::now();
                if first {
                    until = Some(now + GATHER);
                } else if until.is_some_and(|until| until <= now) {
                    until = None;
                }
            }
            Next::Gathered => {
                until = None;
                batch.write_all(&mut writer, &records);
            }
            Next::Idle(scribe) => {
                let _ = scribe.send(mem::take(&mut batch)).await;
            }
            Next::End if ended => return,
            Next::End => ended = true,
        }
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

    /// Writes the records that have come, as far as there is room.
    fn write_all(&mut self, writer: &mut LineWriter, records: &Receiver<Box<Record>>) {
        while !self.is_full()
            && let Ok(record) = records.try_recv()
        {
            self.write(writer, &record);
        }
    }
}

/// The scribe. Goes on taking lines when writing fails (a closed pipe), so that nobody waits.
fn scribe(mut sink: Box<dyn Write + Send>, asks: &Sender<Sender<Batch>>, counts: &Counts) {
    let (here, batches) = bounded(1);
    let mut broken = false;
    while asks.send(here.clone()).sync_blocking().is_ok() {
        let Ok(batch) = batches.recv().sync_blocking() else {
            return;
        };
        broken = broken || sink.write_all(&batch.text).and_then(|()| sink.flush()).is_err();
        if !broken {
            counts.written.fetch_add(batch.lines, Ordering::Relaxed);
        }
    }
}
