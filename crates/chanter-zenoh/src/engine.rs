//! The engine: Zenoh's frames, and links above them.

use std::fmt;
use std::time::Duration;

use chanter_engine::wire::Body;
use chanter_engine::{
    Caps, Engine, Full, Idle, Lane, Leave, NodeId, Notifier, Polled, ProcessId, Reliable, Sink,
};

use crate::config::Config;
use crate::error::StartError;
use crate::frames::Frames;
use crate::meet;

/// An engine that carries messages by Zenoh. When it is dropped, the process leaves at once ([`Leave::Now`]).
///
/// | limit | of | what happens there |
/// |---|---|---|
/// | 8 KB | a body ([`Caps::eager`]); a process sends longer ones in parts | [`Full`] |
/// | [`Pace::window`](chanter_engine::Pace) | frames of 8 KB on their way in each lane to each peer (128) | [`Full`] |
/// | 512 | frames of each lane of a peer that wait for a poll | they are dropped, and sent again |
pub struct Zenoh {
    engine: Reliable<Frames>,
}

impl Zenoh {
    /// Connects this process with all others of its job: opens a session of Zenoh, and waits until all know each other.
    /// Blocks neither the OS thread nor the virtual processor.
    ///
    /// Zenoh's threads put messages that come into a mailbox, and notify; they run nothing else of this process. The
    /// engine's threads, which send heartbeats, belong to the machine on which this is called.
    ///
    /// If the future is dropped before it is ready, the session is closed.
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// Outside of a machine.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let pace = config.pace.clone();
        let frames = meet::start(config).await?;
        Ok(Self { engine: Reliable::over(frames, pace) })
    }

    /// Closes the process's session without a goodbye, as if the process had been killed. This is for tests.
    pub fn kill(&self) {
        self.engine.engine().kill();
    }
}

impl Engine for Zenoh {
    fn me(&self) -> ProcessId {
        self.engine.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.engine.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        self.engine.caps(to)
    }

    fn has_ended(&self) -> bool {
        self.engine.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.engine.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        self.engine.try_send(to, lane, body)
    }

    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.engine.poll(budget, sink)
    }

    fn linger(&self) -> Duration {
        self.engine.linger()
    }

    fn park(&self) -> Idle {
        self.engine.park()
    }

    fn unpark(&self) {
        self.engine.unpark();
    }

    fn leave(&self, how: Leave) {
        self.engine.leave(how);
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        self.engine.give_up(peer)
    }
}

impl fmt::Debug for Zenoh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zenoh").field("me", &self.me()).finish_non_exhaustive()
    }
}
