//! Engines: what carries messages from one process to another.
//!
//! An engine moves frames (a header and a body, see [`wire`](crate::wire)) between numbered processes. It knows nothing of
//! threads, names, or tags. It never blocks: what it cannot take now it gives back, and what arrives it hands
//! to a [`Sink`] while somebody polls it.

#[cfg(unix)]
pub mod socket;

use std::time::Duration;

use crate::wire::Body;

/// A process's number. It is never used again within a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u32);

/// A node, whose processes share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pe(pub u32);

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

/// What the caller calls a send, to know it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// The engine takes no more for now, and gives the body back: try again after a poll.
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
pub enum Rest {
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
    fn me(&self) -> Peer;

    /// Who is there at the start, this one among them, and on which node.
    fn roster(&self) -> Vec<(Peer, Pe)>;

    /// What can be done with frames to `to`.
    fn caps(&self, to: Peer) -> Caps;

    /// Takes a frame, whose header has been written, to send it. Never blocks. Afterwards [`Sink::sent`] comes, once.
    ///
    /// # Errors
    /// [`Full`]: nothing has been taken.
    fn try_send(&self, to: Peer, lane: Lane, body: Body, token: Token) -> Result<(), Full>;

    /// One cheap test: whether a poll would find something. After [`rest`](Self::rest) has said
    /// [`Rest::Notified`] it misses nothing.
    fn has_work(&self) -> bool;

    /// Makes progress, and hands at most `budget` frames to `sink`. Any OS thread may call it; of several one gets in,
    /// and the others return at once.
    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled;

    /// A processor is about to sleep, and has said so to those who may wake it.
    fn rest(&self) -> Rest;

    /// It does not sleep any more.
    fn rise(&self);

    /// The process leaves.
    fn leave(&self, how: Leave);
}

/// Who gets what an engine finds. Calls come from within [`Engine::poll`] only.
pub trait Sink {
    /// A frame has come: header and body.
    fn arrived(&mut self, from: Peer, lane: Lane, frame: &[u8]);

    /// The engine is through with a body, and gives it back: sent, or not because the peer has gone.
    fn sent(&mut self, token: Token, body: Body, outcome: Result<(), Why>);

    /// What is known of a peer has changed.
    fn peer(&mut self, peer: Peer, change: Change);
}
