//! The logger: a thread that turns records into lines, and the scribe, an OS thread that writes them
//! where they go and may block there as long as it likes.
//!
//! No server thread ever waits for the log for longer than [`PATIENCE`], and none that serves a
//! client waits at all: a record is posted by a thread of its own. While the scribe writes, the
//! logger gathers; when it has gathered enough, it no longer chooses to receive, and the posts wait;
//! when they have waited long enough they choose to give up, and are counted.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use chanter::prelude::*;

use crate::config::{AccessLog, Mode};
use crate::record::{LineWriter, Record};

/// How long a post waits for a log that does not move.
const PATIENCE: Duration = Duration::from_secs(1);
/// Records on their way to the logger.
const QUEUE: usize = 1024;
/// Posts that may wait beyond that at the same time; more are lost at once.
const MOST_WAITING: usize = 8 * 1024;
/// Bytes of lines gathered while the scribe writes.
const BATCH: usize = 64 * 1024;

/// Where to post records. Cheap to clone; the logger ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Log {
    records: Sender<Record>,
    mode: Mode,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    lost: AtomicU64,
}

impl Log {
    /// Starts the logger and its scribe. `None`: there is nothing to log to. The second part is
    /// ready when all that was posted has been written.
    pub(crate) fn start(log: AccessLog, mode: Mode) -> io::Result<Option<(Log, Thread<()>)>> {
        let sink: Box<dyn Write + Send> = match log {
            AccessLog::Off => return Ok(None),
            AccessLog::Stdout => Box::new(io::stdout()),
            AccessLog::To(sink) => sink,
        };
        let (records, queue) = bounded(QUEUE);
        let (ask, asks) = channel();
        let (done, finished) = bounded(1);
        thread::Builder::new().name("swerve-scribe".into()).spawn(move || {
            scribe(sink, &ask);
            let _ = done.try_send(());
        })?;
        let counts = Arc::new(Counts::default());
        let log = Log { records, mode, counts: counts.clone() };
        let logger = spawn(async move {
            gather(queue, asks, &counts).await;
            let _ = finished.recv().await;
        });
        Ok(Some((log, logger)))
    }

    /// Posts a record and does not wait for it.
    pub(crate) fn post(&self, record: Record) {
        let Log { records, counts, .. } = self.clone();
        if counts.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
            counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.mode.start(async move {
            let posted = choose_biased((
                records.send(record).wrap(|sent| sent.is_ok()),
                after(PATIENCE).wrap(|()| false),
            ));
            if !posted.await {
                counts.lost.fetch_add(1, Ordering::Relaxed);
            }
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// What the logger waits for.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
enum Next {
    Record(Record),
    /// No more records will come.
    End,
    /// The scribe has nothing to do.
    Idle(Sender<String>),
}

/// The logger. `asks` is how the scribe asks for lines: it sends the channel on which it waits.
async fn gather(records: Receiver<Record>, asks: Receiver<Sender<String>>, counts: &Counts) {
    let mut writer = LineWriter::default();
    let mut lines = String::new();
    let mut ended = false;
    loop {
        let record = || records.recv().wrap(|r| r.map_or(Next::End, Next::Record));
        // A scribe that has gone is one that will never take anything.
        let idle = || asks.recv().wrap(|ask| ask.map_or(Next::End, Next::Idle));
        let next = if ended || lines.len() >= BATCH {
            idle().await
        } else if lines.is_empty() {
            record().await
        } else {
            choose((idle(), record())).await
        };
        match next {
            Next::Record(record) => writer.write(&record, &mut lines),
            Next::Idle(scribe) => {
                let _ = scribe.send(mem::take(&mut lines)).await;
            }
            Next::End if ended => break,
            Next::End => ended = true,
        }
        if ended && lines.is_empty() {
            break;
        }
    }
    let lost = counts.lost.load(Ordering::Relaxed);
    if lost > 0 {
        eprintln!("swerve: {lost} lines of the access log were lost: nobody took them");
    }
}

/// The scribe. Goes on taking lines when writing fails (a closed pipe), so that nobody waits.
fn scribe(mut sink: Box<dyn Write + Send>, asks: &Sender<Sender<String>>) {
    let (here, lines) = bounded(1);
    let mut broken = false;
    while asks.send(here.clone()).sync_blocking().is_ok() {
        let Ok(batch) = lines.recv().sync_blocking() else {
            return;
        };
        if !broken {
            broken = sink.write_all(batch.as_bytes()).and_then(|()| sink.flush()).is_err();
        }
    }
}
