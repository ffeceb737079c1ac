//! The error log: lines for the server's operator. An OS thread writes them. So no thread of the server waits for
//! their reader, or fails without one.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;

/// Lines on their way to the writer; more are lost, and counted.
const QUEUE: usize = 256;

/// The log of errors. Cheap to clone; every clone writes to the same place.
///
/// To tell an error neither blocks nor fails. When the place takes no lines (a pipe that nobody reads, a full disk),
/// those that find no room are lost. Their number is told when it takes lines again.
#[derive(Clone)]
pub struct ErrorLog {
    teller: Option<Arc<Teller>>,
}

struct Teller {
    notes: Sender<Note>,
    /// Lines that have found no room, or could not be written, and have not been told of.
    lost: Arc<AtomicU64>,
}

enum Note {
    Line(String),
    /// All that came before has been written, or is lost.
    Flush(Sender<()>),
}

impl fmt::Debug for ErrorLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.teller.is_some() { "ErrorLog" } else { "ErrorLog(off)" })
    }
}

impl ErrorLog {
    /// Tells nobody.
    pub fn off() -> ErrorLog {
        ErrorLog { teller: None }
    }

    /// Tells the standard error.
    ///
    /// # Errors
    ///
    /// When the OS thread that writes cannot be started.
    pub fn stderr() -> io::Result<ErrorLog> {
        ErrorLog::to(Box::new(io::stderr()))
    }

    /// Tells a writer, on an OS thread of its own: it may block as it likes. It is given a line at a time.
    ///
    /// # Errors
    ///
    /// When the OS thread cannot be started.
    pub fn to(sink: Box<dyn Write + Send>) -> io::Result<ErrorLog> {
        let (notes, queue) = bounded(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer { sink, torn: false, lost: lost.clone() };
        thread::Builder::new().name("swerve-errors".into()).spawn(move || writer.run(&queue))?;
        Ok(ErrorLog { teller: Some(Arc::new(Teller { notes, lost })) })
    }

    /// Tells a line, without its end. Neither blocks nor fails.
    pub fn tell(&self, line: impl fmt::Display) {
        if let Some(teller) = &self.teller
            && teller.notes.try_send(Note::Line(format!("{line}\n"))).is_err()
        {
            teller.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was told has been written, but not for longer than `patience`. Blocks the OS
    /// thread: for the end of a program.
    pub fn flush(&self, patience: Duration) {
        let Some(teller) = &self.teller else { return };
        let patience = Instant::now() + patience;
        let (done, flushed) = bounded(1);
        let taken = choose((
            teller.notes.send(Note::Flush(done)).wrap(|sent| sent.is_ok()),
            at(patience).wrap(|()| false),
        ));
        if taken.sync_blocking() {
            choose((flushed.recv().wrap(drop), at(patience))).sync_blocking();
        }
    }
}

/// The body of the OS thread.
struct Writer {
    sink: Box<dyn Write + Send>,
    /// Whether a line was begun and could not be ended.
    torn: bool,
    lost: Arc<AtomicU64>,
}

impl Writer {
    fn run(mut self, notes: &Receiver<Note>) {
        while let Ok(note) = notes.recv().sync_blocking() {
            match note {
                Note::Line(line) => {
                    self.write(&line);
                    self.tell_lost();
                }
                Note::Flush(done) => {
                    self.tell_lost();
                    let _ = done.try_send(());
                }
            }
        }
    }

    fn tell_lost(&mut self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.try_write(&format!("swerve: {lost} lines before this one were lost\n")) {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    fn write(&mut self, line: &str) {
        if !self.try_write(line) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the line could be written. A failed line is not tried again, since a reader of errors wants the
    /// latest.
    fn try_write(&mut self, line: &str) -> bool {
        if self.torn && self.sink.write_all(b"\n").is_err() {
            return false;
        }
        self.torn = false;
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.sink.write(rest) {
                Ok(n) if n > 0 => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.torn = rest.len() < line.len();
                    return false;
                }
            }
        }
        self.sink.flush().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    /// Takes what it is allowed to, and tells what it took.
    struct Sink {
        allowed: mpsc::Receiver<io::Result<usize>>,
        taken: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let most = self.allowed.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            let _ = self.taken.send(bytes[..most].to_vec());
            Ok(most)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn told(taken: &mpsc::Receiver<Vec<u8>>) -> String {
        String::from_utf8(taken.try_iter().flatten().collect()).unwrap()
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (allow, allowed) = mpsc::channel();
        let (taken, took) = mpsc::channel();
        let errors = ErrorLog::to(Box::new(Sink { allowed, taken })).unwrap();
        // Nobody reads: this returns nevertheless.
        let many = 10 * QUEUE;
        (0..many).for_each(|i| errors.tell(i));
        errors.flush(Duration::ZERO);
        drop(allow);
        errors.flush(LONG);
        let told = told(&took);
        let mut lost = 0;
        let written = told.lines().filter(|line| {
            let count = line.strip_prefix("swerve: ").and_then(|rest| rest.split(' ').next());
            lost += count.map_or(0, |count| count.parse::<usize>().unwrap());
            count.is_none()
        });
        let written = written.count();
        assert!(lost > 0, "{told}");
        assert_eq!(written + lost, many, "{told}");
    }

    #[test]
    fn a_line_that_was_begun_is_not_gone_on_with() {
        let (allow, allowed) = mpsc::channel();
        let (taken, took) = mpsc::channel();
        let errors = ErrorLog::to(Box::new(Sink { allowed, taken })).unwrap();
        allow.send(Ok(2)).unwrap();
        allow.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        // The line that tells of a lost line is lost, too.
        allow.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        drop(allow);
        errors.tell("first");
        errors.tell("second");
        errors.flush(LONG);
        assert_eq!(told(&took), "fi\nsecond\nswerve: 1 lines before this one were lost\n");
    }
}
