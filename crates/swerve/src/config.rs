//! Settings of a server before it starts.

use std::fmt;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chanter::prelude::{spawn, spawn_parasite};

use crate::errors::ErrorLog;

/// The way in which the parts of the server talk, and the threads for operations that are started and not waited for.
/// The paper measures its Swerve in the first three (section 6.4). The last one has the paper's parasites to the
/// letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// As in Parallel CML: a sender waits until its message is received. A file processor hands over the head of its
    /// answer and then each chunk, of small files too. A connection hands over each record for the log before it goes
    /// on. File processors are hosts.
    Synchronous,
    /// File processors and the posts of log records are hosts, which nobody waits for: threads of their
    /// own from the start, queued and scheduled. An answer that is ready is left for the connection to
    /// find, small files and all.
    Hosts,
    /// Like `Hosts`, but they are parasites: each is a call on its starter's stack, and becomes a thread only if it
    /// blocks.
    #[default]
    Parasites,
    /// Like `Parasites`, but a message is never left in a channel. A parasite of its own sends each answer and each log
    /// record, and blocks until it is received (section 2.3 of the paper). It is slower than `Parasites`, and there to
    /// be measured.
    PaperParasites,
}

impl Mode {
    /// Whether senders wait for receivers.
    pub(crate) fn is_synchronous(self) -> bool {
        self == Mode::Synchronous
    }

    /// Whether a message lies in a channel until it is received, without a thread that waits.
    pub(crate) fn leaves_messages(self) -> bool {
        matches!(self, Mode::Hosts | Mode::Parasites)
    }

    /// Starts a part and does not wait for it.
    pub(crate) fn start<F>(self, part: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self {
            Mode::Synchronous | Mode::Hosts => drop(spawn(part)),
            Mode::Parasites | Mode::PaperParasites => spawn_parasite(part),
        }
    }
}

/// The place of the lines of the access log.
#[derive(Default)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// The standard output.
    Stdout,
    /// A writer, which an OS thread of its own calls: it may block as it likes. Bytes that it fails to write come
    /// again, from the first one that it did not take.
    To(Box<dyn Write + Send>),
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessLog::Off => "Off",
            AccessLog::Stdout => "Stdout",
            AccessLog::To(_) => "To(..)",
        })
    }
}

/// The settings of a server. [`Config::new`] has sensible values for all but the first two.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// The directory to serve. Nothing outside it is, unless [`follow_links`](Self::follow_links) says so.
    pub directory: PathBuf,
    /// The address to listen at; port 0 takes a free one.
    pub addr: SocketAddr,
    /// The way in which the parts talk, and the threads on which the asynchronous ones run.
    pub mode: Mode,
    /// Time that a connection may stay without a request. Before the first one it may stay for `head_timeout`, if that
    /// is longer. Zero: a connection is closed after its first answer, which says so.
    pub keep_alive: Duration,
    /// Time that the head of a request may take from its first byte to its last.
    pub head_timeout: Duration,
    /// Time during which a client may take none of the bytes that wait for it.
    pub stall_timeout: Duration,
    /// Time that requests in flight may go on after the order to stop.
    pub grace: Duration,
    /// Largest number of connections that are held at once, one at least. In a full server a newcomer takes the place
    /// of the connection that has been idle for longest. If none is idle, the newcomer waits, and others wait in the
    /// kernel's queue.
    pub max_connections: usize,
    /// Largest number of bytes of small files that are kept in memory. 0: none is kept.
    pub kept_bytes: u64,
    /// Time that a kept file answers requests after a look that found it unchanged; the next request looks again. 0:
    /// each request looks. (A change that does not show, through a shared mapping, is seen within a second.)
    pub kept_for: Duration,
    /// Time that a call may wait for the disk, or for the server of a mounted file system. Then the request is given
    /// up: 504, or 503 if the queue was so long that the call was not begun.
    pub disk_timeout: Duration,
    /// Whether names that begin with a dot are served and listed, and what is below them. `.well-known` at the
    /// top always is (RFC 8615).
    pub hidden: bool,
    /// Whether symbolic links that lead out of the directory are followed: then what they lead to is served and listed,
    /// and links there are followed as well. Without it, such links are 403. Links that stay inside always are followed.
    pub follow_links: bool,
    /// The access log.
    pub log: AccessLog,
    /// The log of errors. `None`: they go to the standard error.
    pub errors: Option<ErrorLog>,
}

impl Config {
    /// Serves `directory` at `addr`, on parasites, without an access log.
    pub fn new(directory: impl Into<PathBuf>, addr: SocketAddr) -> Config {
        Config {
            directory: directory.into(),
            addr,
            mode: Mode::default(),
            keep_alive: Duration::from_secs(60),
            head_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            max_connections: 10_240,
            kept_bytes: 64 << 20,
            kept_for: Duration::from_millis(100),
            disk_timeout: Duration::from_secs(10),
            hidden: false,
            follow_links: false,
            log: AccessLog::Off,
            errors: None,
        }
    }
}
