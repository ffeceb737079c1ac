//! Engines: what carries messages from one process to another.
//!
//! An engine moves frames (a header and a body, see [`wire`](crate::wire)) between numbered processes. It knows nothing of
//! threads, names, or tags. It never blocks: what it cannot take now it gives back, and what arrives it hands
//! to a [`Sink`] while somebody polls it.

mod alarm;
mod certificate;
#[doc(alias = "turn")]
pub mod combining_lock;
pub mod conformance;
mod local;
mod reliable;
#[cfg(unix)]
#[doc(alias = "near")]
pub mod shm;
mod simulated;
#[cfg(unix)]
pub mod socket;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::wire::Pace;
pub use certificate::Certificate;
pub use local::Local;
pub use reliable::Reliable;
pub(crate) use reliable::reliable;
pub use simulated::{Fault, Faults, Simulated};

use crate::wire::Body;

/// Rung by an engine that has work, for a process that may sleep.
#[derive(Clone)]
#[doc(alias = "Bell")]
pub struct Notifier(Arc<dyn Fn() + Send + Sync>);

impl Notifier {
    /// A notifier that does this when it is notified: on any OS thread, shortly, and without panics.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    /// Somebody should poll.
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

/// A process's number. It is never used again within a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[doc(alias = "Peer")]
pub struct ProcessId(pub u32);

/// A node, whose processes share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[doc(alias = "Pe")]
pub struct NodeId(pub u32);

/// Frames of different lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Lane {
    /// The cluster's own.
    Control,
    /// The users' messages.
    User,
    /// Large bodies.
    Bulk,
}

/// The engine takes no more for now, and gives the body back. It notifies the [`Notifier`] when it does again.
#[derive(Debug, PartialEq, Eq)]
pub struct Full {
    /// What was to be sent.
    pub body: Body,
}

/// The peer has gone, or cannot be reached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It has said good-bye.
    Left,
    /// Its process has ended without.
    Died,
    /// It has been silent for too long, or the connection broke.
    Unreachable,
}

impl Why {
    /// The same, where it stays: one pointer, as a message is.
    pub(crate) fn kept(self) -> &'static Self {
        match self {
            Self::Left => &Self::Left,
            Self::Died => &Self::Died,
            Self::Unreachable => &Self::Unreachable,
        }
    }
}

/// What is known of a peer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there.
    Up,
    /// It has been silent for a while.
    Suspect,
    /// It was suspected, and is well.
    Well,
    /// It has gone for good.
    Down(Why),
}

/// Whether frames of a lane come in the order in which they were sent to the same peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// They do.
    PerPeer,
    /// They may not.
    None,
}

/// When frames that were taken may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// While both live: never.
    Never,
    /// When the connection breaks.
    OnReset,
    /// At any time.
    Any,
}

/// What happens when a peer dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The sink is told.
    Reports,
    /// This process ends, too.
    Aborts,
    /// Nothing: heartbeats must find out.
    Silent,
}

/// What an engine can do, for one peer: tried, not told by its brand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// See [`Order`].
    pub order: Order,
    /// See [`Loss`].
    pub loss: Loss,
    /// See [`Death`].
    pub death: Death,
    /// The longest body that goes in one frame, in bytes.
    pub eager: u32,
}

/// What a poll has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing.
    Nothing,
    /// Something, and that was all.
    Some,
    /// Something, and there is more.
    More,
}

/// How long a processor may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "Rest")]
pub enum Idle {
    /// There is work after all.
    Work,
    /// For so long: the engine wakes nobody.
    For(Duration),
    /// Until the engine wakes it.
    Notified,
}

/// How a process leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// When all that was sent has been delivered.
    Drain,
    /// At once.
    Now,
}

/// Carries frames.
pub trait Engine: Send + Sync + 'static {
    /// This process.
    fn me(&self) -> ProcessId;

    /// Who is there at the start, this one among them, and on which node.
    fn roster(&self) -> Vec<(ProcessId, NodeId)>;

    /// What can be done with frames to `to`.
    fn caps(&self, to: ProcessId) -> Caps;

    /// Whether nothing comes any more, and nothing is on its way: nobody is left; or this process has left, and
    /// each peer has what it was sent, or has gone. The notifier is called when that begins.
    fn has_ended(&self) -> bool;

    /// Whoever polls it sleeps from now on until `notifier` is notified, unless a [`park`](Self::park) has said otherwise. Called
    /// once, before all others.
    fn attach(&self, notifier: Notifier);

    /// Takes a frame for another process, whose header has been written, to send it. Never blocks. What is for a peer that has gone, or that
    /// goes before it has the frame, is dropped, and so is everything after this process has left.
    ///
    /// # Errors
    /// [`Full`]: nothing has been taken. A body that is longer than [`Caps::eager`] is never taken.
    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full>;

    /// One cheap test: whether a poll would find something. After [`park`](Self::park) has said
    /// [`Idle::Notified`] it misses nothing.
    fn has_work(&self) -> bool;

    /// Between any two turns of a scheduler: whether there is something that others wait for. `None`, the default: to find that
    /// out takes more than a few loads, so it is not asked so often.
    fn has_work_at_a_turn(&self) -> Option<bool> {
        None
    }

    /// Makes progress, and hands at most `budget` frames to `sink`. Any OS thread may call it; of several one gets in,
    /// and the others return at once.
    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled;

    /// For how long it is worth polling in vain, between others' turns, before who polls sleeps. The default is not at all.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// A processor has nothing else to do, and is awake: tests for as long as it is worth it, or until `is_over`, whether a poll
    /// would find something; whether it would. `is_over` is to be asked every microsecond or so. The default tests once.
    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        let _ = is_over;
        self.has_work()
    }

    /// A processor is about to sleep, and has said so to those who may wake it.
    #[doc(alias = "rest")]
    fn park(&self) -> Idle;

    /// It does not sleep any more.
    #[doc(alias = "rise")]
    fn unpark(&self);

    /// The process leaves.
    fn leave(&self, how: Leave);

    /// The certificate that a peer has shown, or this process shows, where there are some. The default has none.
    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        let _ = peer;
        None
    }

    /// That peer does not keep to the rules: no more is to be had to do with it. True: the sink is told that it is
    /// [`Unreachable`](Why::Unreachable). The default does nothing, and says so.
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

/// Who gets what an engine finds. Calls come from within [`Engine::poll`] only.
pub trait Sink {
    /// A frame has come: header and body, unchecked.
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body);

    /// What is known of a peer has changed. After [`Change::Down`] nothing comes from it any more.
    fn peer(&mut self, peer: ProcessId, change: Change);
}
