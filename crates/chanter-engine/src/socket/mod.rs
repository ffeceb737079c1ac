//! The socket engine: Unix sockets or TCP between the processes that a [launcher](crate::launcher) has started.
//!
//! Any two processes have one connection. The process with the higher number connects, and both prove that they know
//! the job's secret. A Chanter thread reads each connection. So a sleeping processor is woken by its own poller when
//! a message comes. Only the queue of arrived frames has to be polled. [`Engine::try_send`] writes at once as
//! much as the socket takes, and a second thread writes the rest.
//!
//! | limit | of | effect |
//! |---|---|---|
//! | 16 MiB | a body ([`Caps::eager`]) | [`Full`] |
//! | [`Config::queue`] | bytes in a queue, for each lane and peer | [`Full`] |
//! | 16 MiB | the received part of an unfinished message, in each lane of a peer | the connection is closed |
//! | [`Config::inbox`] | bytes that have come from one peer, and wait for a poll | its socket is not read |
//! | 76 bytes | bytes read from a peer that has not proved to belong to the job | |
//! | [`Config::hello`] | the time within which it must | the connection is closed |
//! | 64 | connections that have proved nothing | the oldest silent one gives way after a while (see `accepting.rs`) |

mod accepting;
mod cancelled;
mod config;
mod error;
pub(crate) mod frame;
pub(crate) mod hello;
mod inbox;
#[doc(hidden)]
pub mod joining;
mod link;
mod members;
mod outbox;
mod start;
mod stream;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::fmt;
use std::sync::Arc;

use chanter::prelude::*;

pub use self::config::Config;
pub use self::error::StartError;
use self::frame::LONGEST_BODY;
pub(super) use self::inbox::Beside;
use self::inbox::Happening;
use self::joining::Applicant;
#[doc(hidden)]
pub use self::members::Door;
use self::members::{Awaited, Member, Shared};
#[doc(hidden)]
pub use self::start::{Starting, host};
#[cfg(feature = "tls")]
pub use self::tls::BadTls;
pub use self::tls::Tls;
use crate::certificate::Certificate;
use crate::engine::{
    Caps, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
};
use crate::launcher::Launched;
use crate::polling::try_enter;
use crate::wire::Body;

/// The socket engine. When it is dropped, the process leaves at once ([`Leave::Now`]).
pub struct Sockets {
    shared: Arc<Shared>,
    /// The processes that want to join, if the job is open.
    applicants: Option<Receiver<Applicant>>,
}

impl Sockets {
    /// The way into the job, if it is open.
    #[doc(hidden)]
    pub fn door(&self) -> Option<Door> {
        let applicants = self.applicants.clone()?;
        Some(Door::new(Arc::clone(&self.shared), applicants))
    }

    /// Connects this process with all others that the same launcher has started. `None`: no launcher has started it,
    /// or this was called before. Otherwise this is [`start`](Self::start).
    ///
    /// # Errors
    /// [`StartError`].
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn from_launcher(config: Config) -> Result<Option<Self>, StartError> {
        match Launched::from_env()? {
            Some(launched) => Self::start(launched, config).await.map(Some),
            None => Ok(None),
        }
    }

    /// Calls the notifier of that process, which has work outside of this engine.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn notify_peer(&self, peer: ProcessId) {
        if let Some(link) = self.shared.link(peer) {
            link.notify_peer(&self.shared.inbox);
        }
    }

    /// Sets the engine whose statements are sent and received here from now on. Called once.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn set_beside(&self, beside: Arc<dyn Beside>) {
        if self.shared.inbox.beside.set(Arc::clone(&beside)).is_ok() {
            for (peer, link) in self.shared.links() {
                link.said_beside().inspect(|said| beside.hears(peer, *said));
            }
        }
    }

    /// Calls this process's notifier.
    #[cfg_attr(loom, allow(dead_code))]
    pub(super) fn notify(&self) {
        self.shared.inbox.notify();
    }

    /// Breaks the process's connections, as if it had been killed.
    #[cfg(test)]
    pub(super) fn kill(&self) {
        for (_, link) in self.shared.links() {
            link.break_off();
        }
    }

    /// The event that there is something to poll. It commits once for all frames that have come since a poll found
    /// nothing.
    ///
    /// It serves one waiter. If it is not chosen, it stays ready.
    pub fn news(&self) -> impl Event<Output = ()> + Clone + Send {
        // The other end of the channel lives as long as this one.
        self.shared.inbox.heard.recv().wrap(|_| ())
    }

    /// The event that no connection is left. Either all peers have gone, or this process has left and each peer has
    /// taken its frames or has gone. The event stays ready. Polls must go on until then.
    pub fn ended(&self) -> impl Event<Output = ()> + Clone + Send + use<> {
        self.shared.ended.get().wrap(|_| ())
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets")
            .field("me", &self.shared.me)
            .field("count", &self.shared.members.end())
            .finish()
    }
}

impl Engine for Sockets {
    fn me(&self) -> ProcessId {
        self.shared.me
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.shared.members.iter().map(|(peer, member)| (peer, member.node)).collect()
    }

    fn caps(&self, _to: ProcessId) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::OnReset, death: Death::Reports, eager: LONGEST_BODY as u32 }
    }

    fn has_ended(&self) -> bool {
        self.shared.ended.try_get().is_some()
    }

    fn attach(&self, notifier: Notifier) {
        let _ = self.shared.inbox.notifier.set(notifier);
        self.shared.inbox.notify();
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        let Shared { members, inbox, config, .. } = &*self.shared;
        match members.get(to).map(Member::link) {
            Some(Ok(Some(link))) => link.try_send(inbox, config, lane, body),
            Some(Err(Awaited)) => Err(Full { body }),
            Some(Ok(None)) | None => Ok(()),
        }
    }

    fn has_work(&self) -> bool {
        !self.shared.inbox.is_empty()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Shared { polling, inbox, config, .. } = &*self.shared;
        let Some(_alone) = try_enter(polling) else { return Polled::Busy };
        let (mut frames, mut polled) = (0, Polled::Nothing);
        while frames < budget {
            let Some(happening) = inbox.pop() else { return polled };
            if let Happening::Arrived(from, _, frame) = &happening {
                frames += 1;
                if let Some(link) = self.shared.link(*from) {
                    link.took(frame.len(), config);
                }
            }
            happening.tell(sink);
            polled = Polled::Some;
        }
        if inbox.is_empty() { polled } else { Polled::More }
    }

    fn park(&self) -> Idle {
        if self.has_work() { Idle::Work } else { Idle::Notified }
    }

    fn unpark(&self) {}

    fn leave(&self, how: Leave) {
        self.shared.leave(how);
    }

    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        if peer == self.shared.me {
            return self.shared.config.tls.as_ref().map(Tls::certificate);
        }
        self.shared.link(peer)?.certificate()
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        match self.shared.link(peer) {
            Some(link) => {
                link.give_up();
                true
            }
            None => self.shared.refuse(peer),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
#[cfg(all(test, feature = "tls"))]
mod tls_tests;
