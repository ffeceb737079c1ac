//! The vocabulary of reports: the things that a blocked synchronization waits for.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// Something that a blocked thread waits for. Channels are numbered from 1, in the order in which a
/// report names them, or the explorer's account of the schedule before it. Locks are numbered
/// likewise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// The thread waits to send on a channel.
    Send {
        /// The channel's number in this report.
        channel: usize,
    },
    /// The thread waits to receive from a channel.
    Receive {
        /// The channel's number in this report.
        channel: usize,
    },
    /// The thread waits for the end of another thread.
    Join {
        /// The number of that thread, if it is known.
        thread: Option<u64>,
    },
    /// The thread waits for a lock, or for permits of a semaphore.
    Lock {
        /// The lock's number in this report.
        lock: usize,
        /// The kind of lock, and the access that the thread wants.
        wants: Wanted,
        /// The type of the value that it protects.
        of: &'static str,
        /// The numbers of the threads that are known to hold it. A report of the explorer knows all
        /// of them; other reports know none.
        holders: Vec<u64>,
    },
    /// The thread waits until an `IVar` is written.
    Read,
    /// The thread waits for a negative acknowledgement.
    Nack,
    /// The thread waits for a point in time.
    Time(Instant),
    /// The thread waits for a socket.
    Io,
    /// The thread waits to be attached, after `reify`.
    Attach,
    /// The event is always ready: a thread passes it without blocking.
    Always,
    /// The event never happens.
    Never,
    /// The thread waits for something else, which the text names.
    Other(&'static str),
    /// The thread waits for an operation of another crate. The text continues the words "waits to".
    Described(String),
}

/// The access that a thread wants which waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// The lock of a `Mutex`.
    Mutex,
    /// Read access to an `RwLock`.
    Read,
    /// Write access to an `RwLock`.
    Write,
    /// This number of permits of a `Semaphore`.
    Permits(usize),
    /// An object, in order to run one of its methods.
    Object,
}

impl fmt::Display for Waiting {
    /// Continues the words "waits to".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { channel } => write!(f, "send on channel #{channel}"),
            Self::Receive { channel } => write!(f, "receive from channel #{channel}"),
            Self::Join { thread: Some(thread) } => write!(f, "join thread {thread}"),
            Self::Join { thread: None } => write!(f, "join a thread"),
            Self::Lock { lock, wants, of, holders } => {
                match wants {
                    Wanted::Mutex => write!(f, "lock Mutex<{of}> #{lock}")?,
                    Wanted::Read => write!(f, "read RwLock<{of}> #{lock}")?,
                    Wanted::Write => write!(f, "write RwLock<{of}> #{lock}")?,
                    Wanted::Permits(1) => write!(f, "take a permit of Semaphore #{lock}")?,
                    Wanted::Object => write!(f, "call a method of {of} #{lock}")?,
                    Wanted::Permits(many) => write!(f, "take {many} permits of Semaphore #{lock}")?,
                }
                match holders.is_empty() {
                    true => Ok(()),
                    false => write!(f, " (held by {})", Threads(holders)),
                }
            }
            Self::Read => write!(f, "read an IVar that nobody has written"),
            Self::Nack => write!(f, "hear a nack"),
            Self::Time(_) => write!(f, "see a time come"),
            Self::Io => write!(f, "use a socket"),
            Self::Attach => write!(f, "be attached"),
            Self::Always => write!(f, "pass what is always ready"),
            Self::Never => write!(f, "see what never happens"),
            Self::Other(what) => write!(f, "synchronize on {what}"),
            Self::Described(what) => f.write_str(what),
        }
    }
}

/// Collects the things that one thread waits for.
#[derive(Default)]
pub(crate) struct Waits {
    /// The things it waits for. Until they are numbered, channels stand by their addresses, and
    /// threads by the addresses of their frames.
    pub(crate) list: Vec<Waiting>,
    /// Indices of entries of `list` that cannot become ready before another thread acts.
    pub(crate) shut: Vec<usize>,
    /// Indices of entries whose readiness only an attempt can show.
    pub(crate) unsure: Vec<usize>,
    /// The place of the thread's `await`, if it is known.
    pub(crate) place: Option<Place>,
    /// The threads that are waited for: indices into `list`, and addresses of frames.
    pub(crate) joins: Vec<(usize, usize)>,
    /// The channels that are waited for.
    pub(crate) channels: Vec<Probe>,
    /// The locks that are waited for.
    pub(crate) locks: Vec<LockProbe>,
    /// The offers that the thread has left at these channels.
    pub(crate) offers: Vec<Waiter>,
    /// The handles that the thread is known to hold, each list with the address of the object that
    /// holds them.
    pub(crate) held: Vec<(usize, Vec<Held>)>,
    /// True if the thread went on instead of blocking.
    pub(crate) went_on: bool,
    /// True if the thread also waits for something that is no event of ours.
    pub(crate) strangers: bool,
}

/// A place in a program.
pub(crate) type Place = &'static Location<'static>;

/// A lock that a blocked thread waits for.
pub(crate) struct LockProbe {
    /// The address of the lock.
    pub(crate) lock: usize,
    pub(crate) line: Arc<dyn Gauged>,
}

/// An offer that waits in a channel's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) channel: usize,
    pub(crate) sends: bool,
    /// True if it has a share of the channel's side, as a handle has.
    pub(crate) owns: bool,
    pub(crate) offer: NonNull<()>,
}

/// A sender or a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) channel: usize,
    pub(crate) sends: bool,
}

/// The type of a function that looks at a channel; see [`Probe::census`].
pub(crate) type Look = unsafe fn(NonNull<()>, &[NonNull<()>]) -> Option<[u64; 2]>;

/// A channel that a blocked thread waits for. It lives as long as that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) channel: NonNull<()>,
    /// Returns the numbers of shares of its senders, and of its receivers.
    pub(crate) shares: unsafe fn(NonNull<()>) -> [u64; 2],
    /// Counts the shares of both sides, if all the given offers still wait at the channel.
    pub(crate) census: Look,
    /// Takes a share of both sides, which keeps the channel alive, and open.
    pub(crate) retain: unsafe fn(NonNull<()>),
    /// Gives these shares up.
    pub(crate) release: unsafe fn(NonNull<()>),
}

impl Waits {
    pub(crate) fn push(&mut self, wait: Waiting) {
        self.list.push(wait);
    }

    /// Like `push`, for a wait that is ready now if `is_open`.
    pub(crate) fn push_if(&mut self, is_open: bool, wait: Waiting) {
        if !is_open {
            self.shut.push(self.list.len());
        }
        self.push(wait);
    }

    /// Like `push`, for a wait whose readiness only an attempt can show.
    pub(crate) fn push_unsure(&mut self, wait: Waiting) {
        self.unsure.push(self.list.len());
        self.push(wait);
    }

    pub(crate) fn join(&mut self, frame: usize, has_ended: bool) {
        self.joins.push((self.list.len(), frame));
        self.push_if(has_ended, Waiting::Join { thread: None });
    }

    pub(crate) fn offer(&mut self, channel: NonNull<()>, sends: bool, owns: bool, offer: NonNull<()>) {
        let channel = channel.as_ptr() as usize;
        self.offers.push(Waiter { channel, sends, owns, offer });
    }

    pub(crate) fn channel(&mut self, sends: bool, probe: Probe) {
        let channel = probe.channel.as_ptr() as usize;
        self.channels.push(probe);
        self.push(if sends { Waiting::Send { channel } } else { Waiting::Receive { channel } });
    }
}

/// A resource that others wait for, by the address of its channel or its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    Sender(usize),
    Receiver(usize),
    /// A lock's guard, or a semaphore's permit.
    Lock(usize),
}

impl Resource {
    /// The sending or the receiving end of a channel.
    pub(crate) fn end(channel: usize, sends: bool) -> Self {
        if sends { Self::Sender(channel) } else { Self::Receiver(channel) }
    }
}

/// A thread that holds a resource, and so can end the wait of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) resource: Resource,
    pub(crate) thread: u64,
}

/// The waiters of a lock.
pub(crate) trait Gauged {
    /// Returns a gauge that follows the number of free permits of the lock.
    fn gauge(self: Arc<Self>) -> Box<dyn Gauge>;
}

/// Tells the number of free permits of a lock, even after the lock is gone.
pub(crate) trait Gauge {
    fn free(&self) -> usize;
}

/// Formats threads by their numbers.
struct Threads<'a>(&'a [u64]);

impl fmt::Display for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return Ok(()) };
        write!(f, "thread{} {first}", if rest.is_empty() { "" } else { "s" })?;
        rest.iter().try_for_each(|id| write!(f, ", {id}"))
    }
}

/// The place where a thread was spawned.
pub(crate) type Site = &'static Location<'static>;
