//! What a blocked synchronization waits on.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// Something that a blocked thread waits on. Channels are numbered from 1 in
/// the order in which a report, or the explorer's account of the schedule before it,
/// names them, and so are locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// To send on a channel.
    Send {
        /// The channel's number in this report.
        channel: usize,
    },
    /// To receive from a channel.
    Receive {
        /// The channel's number in this report.
        channel: usize,
    },
    /// For the end of a thread.
    Join {
        /// Which one, if it is known.
        thread: Option<u64>,
    },
    /// For a lock, or for permits of a semaphore.
    Lock {
        /// The lock's number in this report.
        lock: usize,
        /// What it is, and what is wanted of it.
        wants: Wanted,
        /// The type of what it protects.
        of: &'static str,
        /// The threads that are known to hold it. A report of the explorer knows
        /// them all, others know none.
        holders: Vec<u64>,
    },
    /// For an `IVar` to be written.
    Read,
    /// For a negative acknowledgement.
    Nack,
    /// For a point in time.
    Time(Instant),
    /// For a socket.
    Io,
    /// For somebody to attach it, after `reify`.
    Attach,
    /// For what is always ready: a thread passes it, and does not block there.
    Always,
    /// For what never happens.
    Never,
    /// For something else.
    Other(&'static str),
}

/// What a thread that waits for a lock wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// A `Mutex`.
    Mutex,
    /// An `RwLock`, to read.
    Read,
    /// An `RwLock`, to write.
    Write,
    /// So many permits of a `Semaphore`.
    Permits(usize),
    /// An object, to run a method of it.
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
        }
    }
}

/// Collects what one thread waits on.
#[derive(Default)]
pub(crate) struct Waits {
    /// Channels by their addresses, threads by their frames' (until numbered).
    pub(crate) list: Vec<Waiting>,
    /// Entries of `list` that cannot be ready before somebody else does something.
    pub(crate) shut: Vec<usize>,
    /// Those of which only an attempt can tell.
    pub(crate) unsure: Vec<usize>,
    /// Where the thread awaits, if that is known.
    pub(crate) place: Option<Place>,
    /// Frames of threads that are waited for, by their place in `list`.
    pub(crate) joins: Vec<(usize, usize)>,
    /// Channels that are waited for.
    pub(crate) channels: Vec<Probe>,
    /// Locks that are waited for.
    pub(crate) locks: Vec<LockProbe>,
    /// The offers that it has left there.
    pub(crate) offers: Vec<Waiter>,
    /// The handles that it is known to hold, and where.
    pub(crate) held: Vec<(usize, Vec<Held>)>,
    /// The thread went on instead.
    pub(crate) went_on: bool,
    /// It waits, besides, for something that is no event of ours.
    pub(crate) strangers: bool,
}

/// A place in a program.
pub(crate) type Place = &'static Location<'static>;

/// A lock that a blocked thread waits for.
pub(crate) struct LockProbe {
    /// Its address.
    pub(crate) lock: usize,
    pub(crate) line: Arc<dyn Gauged>,
}

/// An offer that waits at a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) channel: usize,
    pub(crate) sends: bool,
    /// It counts among the channel's events.
    pub(crate) counts: bool,
    pub(crate) offer: NonNull<()>,
}

/// A sender or a receiver, and how many events it has lent without having told
/// its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) channel: usize,
    pub(crate) sends: bool,
    pub(crate) lent: u32,
}

/// How many share one side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) handles: u32,
    /// Events, less what handles have lent and not told; modulo 2^40.
    pub(crate) events: u64,
}

/// Looks at a channel; see [`Probe::census`].
pub(crate) type Look = unsafe fn(NonNull<()>, &[NonNull<()>]) -> Option<[Census; 2]>;

/// A channel that a blocked thread waits on: it lives while that wait does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) channel: NonNull<()>,
    /// How many senders and receivers it has, not counting events.
    pub(crate) handles: unsafe fn(NonNull<()>) -> [u32; 2],
    /// Who shares it, if all these offers of it still wait.
    pub(crate) census: Look,
    /// Takes a share of both of its sides: keeps it alive, and open.
    pub(crate) retain: unsafe fn(NonNull<()>),
    /// Gives those shares up again.
    pub(crate) release: unsafe fn(NonNull<()>),
}

impl Waits {
    pub(crate) fn push(&mut self, wait: Waiting) {
        self.list.push(wait);
    }

    /// As `push`, of what may be ready now, or not.
    pub(crate) fn push_if(&mut self, is_open: bool, wait: Waiting) {
        if !is_open {
            self.shut.push(self.list.len());
        }
        self.push(wait);
    }

    /// As `push`, of what says whether it is ready only when it is tried.
    pub(crate) fn push_unsure(&mut self, wait: Waiting) {
        self.unsure.push(self.list.len());
        self.push(wait);
    }

    pub(crate) fn join(&mut self, frame: usize, has_ended: bool) {
        self.joins.push((self.list.len(), frame));
        self.push_if(has_ended, Waiting::Join { thread: None });
    }

    pub(crate) fn offer(&mut self, channel: NonNull<()>, sends: bool, counts: bool, offer: NonNull<()>) {
        let channel = channel.as_ptr() as usize;
        self.offers.push(Waiter { channel, sends, counts, offer });
    }

    pub(crate) fn channel(&mut self, sends: bool, probe: Probe) {
        let channel = probe.channel.as_ptr() as usize;
        self.channels.push(probe);
        self.push(if sends { Waiting::Send { channel } } else { Waiting::Receive { channel } });
    }
}

/// What others wait for, by the address of the channel or the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    Sender(usize),
    Receiver(usize),
    /// A guard, or a permit.
    Lock(usize),
}

impl Resource {
    /// An end of a channel.
    pub(crate) fn end(channel: usize, sends: bool) -> Self {
        if sends { Self::Sender(channel) } else { Self::Receiver(channel) }
    }
}

/// A thread that can end the wait of others by what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) resource: Resource,
    pub(crate) thread: u64,
}

/// Those who wait for a lock.
pub(crate) trait Gauged {
    /// Follows how many permits of the lock are free.
    fn gauge(self: Arc<Self>) -> Box<dyn Gauge>;
}

/// Tells how many permits of a lock are free, also when the lock is gone.
pub(crate) trait Gauge {
    fn free(&self) -> usize;
}

/// Threads by their numbers.
struct Threads<'a>(&'a [u64]);

impl fmt::Display for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return Ok(()) };
        write!(f, "thread{} {first}", if rest.is_empty() { "" } else { "s" })?;
        rest.iter().try_for_each(|id| write!(f, ", {id}"))
    }
}

/// Where a thread was spawned.
pub(crate) type Site = &'static Location<'static>;
