//! The trait of engines, and the words of its methods.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::wire::Body;

/// A callback by which an engine with work wakes a process that may sleep.
#[derive(Clone)]
#[doc(alias = "Bell")]
pub struct Notifier(Arc<dyn Fn() + Send + Sync>);

impl Notifier {
    /// A notifier that calls `notify`. The function may run on any OS thread; it must be short and must not panic.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    /// Asks the process to poll.
    #[doc(alias = "ring")]
    pub fn notify(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier(..)")
    }
}

/// Number of a process. It is never used again within a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[doc(alias = "Peer")]
pub struct ProcessId(pub u32);

/// Number of a node, whose processes can share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[doc(alias = "Pe")]
pub struct NodeId(pub u32);

/// A lane of frames. Frames of different lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Lane {
    /// The cluster's own frames.
    Control,
    /// Messages of users.
    User,
    /// Large bodies.
    Bulk,
}

/// The engine is full and gives the body back. It calls the [`Notifier`] when it can take frames again.
#[derive(Debug, PartialEq, Eq)]
pub struct Full {
    /// The body that was to be sent.
    pub body: Body,
}

/// The reason why a peer is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The peer has said that it leaves.
    Left,
    /// The peer's process has ended without saying so.
    Died,
    /// The peer has been silent for too long, or the connection broke.
    Unreachable,
}

impl Why {
    /// The same value as a static reference: one pointer, like a message.
    #[doc(hidden)]
    pub fn kept(self) -> &'static Self {
        match self {
            Self::Left => &Self::Left,
            Self::Died => &Self::Died,
            Self::Unreachable => &Self::Unreachable,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "has left the cluster",
            Self::Died => "has died",
            Self::Unreachable => "cannot be reached any more",
        })
    }
}

/// A change in the state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A peer is about to join, on that node. Frames may be sent to it from now on. It is told once, before all else of
    /// the peer.
    Awaited(NodeId),
    /// The peer has joined.
    Up,
    /// The peer has been silent for a while.
    Suspect,
    /// The peer was suspected, and has been heard of again.
    Well,
    /// The peer has gone for good.
    Down(Why),
}

/// Whether frames of a lane come in the order in which they were sent to the same peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Frames of a lane to one peer arrive in order.
    PerPeer,
    /// Frames may arrive in any order.
    None,
}

/// The case in which an engine may lose frames that it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Never, while both processes live.
    Never,
    /// When the connection breaks.
    OnReset,
    /// At any time.
    Any,
}

/// The effect of a peer's death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The sink is told.
    Reports,
    /// This process ends as well.
    Aborts,
    /// None: heartbeats must detect it.
    Silent,
}

/// The capabilities of an engine towards one peer. An engine finds them by tests, not by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Order of frames within a lane.
    pub order: Order,
    /// Loss of frames.
    pub loss: Loss,
    /// Effect of the peer's death.
    pub death: Death,
    /// Longest body of one frame, in bytes. [Longer ones](Engine::longest) go in parts.
    pub eager: u32,
}

/// The result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing yet: another thread is inside, or there is more to look through.
    Busy,
    /// Nothing, and all that had come before the poll was taken.
    Nothing,
    /// Something, and there is no more.
    Some,
    /// Something, and there is more.
    More,
}

impl Polled {
    /// Whether the sink was told something.
    pub fn has_found(self) -> bool {
        matches!(self, Self::Some | Self::More)
    }
}

/// The time that a processor may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "Rest")]
pub enum Idle {
    /// Not at all: there is work.
    Work,
    /// At most this long, as the engine does not wake it.
    For(Duration),
    /// Until the engine wakes it.
    Notified,
}

/// The way in which a process leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// After all that was sent has been delivered.
    Drain,
    /// At once.
    Now,
}

/// An engine, which carries frames between processes.
pub trait Engine: Send + Sync + 'static {
    /// The number of this process.
    fn me(&self) -> ProcessId;

    /// The processes that are there at the start, including this one, with their nodes.
    fn roster(&self) -> Vec<(ProcessId, NodeId)>;

    /// The capabilities for frames to `to`.
    fn caps(&self, to: ProcessId) -> Caps;

    /// Longest body of a message, a request, or an answer, in bytes. A process cuts what is longer than
    /// [`Caps::eager`] into parts, which its receiver puts together. The default is 1 GiB. All processes of a cluster
    /// must have the same.
    fn longest(&self) -> u32 {
        1 << 30
    }

    /// Whether the engine has ended: no more frames come and none are on their way. Either no other process is left,
    /// or this process has left and each peer has got its frames or has gone. The notifier is called when the engine
    /// ends.
    ///
    /// A poll may still hand over frames that came before. It says [`Polled::Nothing`] only when it has told of all of them,
    /// and, unless this process has left, of the end of each peer.
    fn has_ended(&self) -> bool;

    /// Sets the notifier. From now on the polling thread sleeps until `notifier` is notified, unless
    /// [`park`](Self::park) has said otherwise. Called once, before the other methods that send or poll.
    fn attach(&self, notifier: Notifier);

    /// Takes a frame, with its header written, and sends it to another process. Never blocks. A frame is dropped if
    /// the peer has gone, or goes before it has the frame, or if this process has left.
    ///
    /// # Errors
    /// [`Full`]: the frame was not taken. A body longer than [`Caps::eager`] is never taken.
    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full>;

    /// Whether a poll would find something. The test is cheap. After [`park`](Self::park) has returned
    /// [`Idle::Notified`], it misses nothing.
    fn has_work(&self) -> bool;

    /// Whether there is work that others wait for, asked between any two turns of a scheduler. `None`, the default:
    /// the test takes more than a few loads, so it is asked less often.
    fn has_work_at_a_turn(&self) -> Option<bool> {
        None
    }

    /// Makes progress, and hands at most `budget` frames to `sink`. Any OS thread may call it. One caller is inside
    /// at a time, and the others return at once: [`Polled::Busy`].
    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled;

    /// The time for which polling in vain is worth it, between turns of other threads, before the polling thread
    /// sleeps. Zero by default.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// Waits on an awake processor without other work, and returns whether a poll would find something. It tests for
    /// as long as that is worth it, or until `is_over`, which it asks about every microsecond. The default tests
    /// once.
    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        let _ = is_over;
        self.has_work()
    }

    /// Prepares for sleep, and returns how long the processor may sleep. The caller has announced that it is about to
    /// sleep.
    #[doc(alias = "rest")]
    fn park(&self) -> Idle;

    /// Ends the sleep that [`park`](Self::park) has prepared.
    #[doc(alias = "rise")]
    fn unpark(&self);

    /// Leaves the cluster.
    fn leave(&self, how: Leave);

    /// The certificate that a peer has shown, or that this process shows. The default is `None`.
    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        let _ = peer;
        None
    }

    /// Gives up a peer that breaks the rules. True: the engine tells the sink that it is
    /// [`Unreachable`](Why::Unreachable). The default does nothing and returns false.
    fn give_up(&self, peer: ProcessId) -> bool {
        let _ = peer;
        false
    }
}

impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn me(&self) -> ProcessId {
        (**self).me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        (**self).roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        (**self).caps(to)
    }

    fn longest(&self) -> u32 {
        (**self).longest()
    }

    fn has_ended(&self) -> bool {
        (**self).has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        (**self).attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        (**self).try_send(to, lane, body)
    }

    fn has_work(&self) -> bool {
        (**self).has_work()
    }

    fn has_work_at_a_turn(&self) -> Option<bool> {
        (**self).has_work_at_a_turn()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        (**self).poll(budget, sink)
    }

    fn linger(&self) -> Duration {
        (**self).linger()
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        (**self).wait(is_over)
    }

    fn park(&self) -> Idle {
        (**self).park()
    }

    fn unpark(&self) {
        (**self).unpark();
    }

    fn leave(&self, how: Leave) {
        (**self).leave(how);
    }

    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        (**self).certificate(peer)
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        (**self).give_up(peer)
    }
}

/// A receiver of frames and changes from an engine. Calls come only from within [`Engine::poll`].
pub trait Sink {
    /// Takes a frame that has come: header and body, unchecked.
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body);

    /// Takes a change in the state of a peer. After [`Change::Down`] nothing more comes from it.
    fn peer(&mut self, peer: ProcessId, change: Change);
}
