//! The engine that Zenoh makes by itself. Its frames may be lost when there are too many, and come in any order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use chanter_engine::polling::try_enter;
use chanter_engine::wire::{Body, LENGTH};
use chanter_engine::{
    Caps, Change, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId,
    Sink, Why,
};
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};

use crate::keys::{self, LANES, Once, Says, Token};
use crate::mailbox::{Happening, Mailbox};

/// The longest body of a frame, in bytes. With its header and the bytes that a link adds it is below the batches in
/// which Zenoh sends.
pub(crate) const EAGER: usize = 8 * 1024;
/// The longest frame that a link makes of such a body.
pub(crate) const LONGEST: usize = LENGTH + EAGER + 64;

/// Frames over Zenoh. They are put with [`CongestionControl::Drop`], so no thread waits for a peer that takes nothing,
/// and a frame may be lost at any time.
pub(crate) struct Frames {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) session: zenoh::Session,
    pub(crate) job: String,
    pub(crate) me: (ProcessId, Once),
    pub(crate) peers: BTreeMap<ProcessId, Remote>,
    pub(crate) mailbox: Arc<Mailbox>,
    polling: Mutex<()>,
    /// Liveliness token of this process; dropped when it leaves.
    tokens: Mutex<Vec<LivelinessToken>>,
    is_leaving: AtomicBool,
    /// Whether this process has left, and Zenoh has nothing more to do for it.
    has_left: AtomicBool,
}

/// Another process of the job.
pub(crate) struct Remote {
    pub(crate) once: Once,
    lanes: [Publisher<'static>; 3],
    /// Number of heartbeats of this process since something came from the other one.
    pub(crate) silence: Arc<AtomicU32>,
}

/// The priority of a lane. A lane that waits for its socket does not make lanes of another priority wait.
fn priority(lane: Lane) -> Priority {
    match lane {
        Lane::Control => Priority::RealTime,
        Lane::User => Priority::Data,
        Lane::Bulk => Priority::Background,
    }
}

impl Remote {
    /// Declares to Zenoh the publications for the process `to`.
    pub(crate) fn declare(
        session: &zenoh::Session,
        job: &str,
        me: (ProcessId, Once),
        to: (ProcessId, Once),
        silence: Arc<AtomicU32>,
    ) -> zenoh::Result<Self> {
        let [control, user, bulk] = LANES.map(|lane| {
            let publisher = session.declare_publisher(keys::frames(job, me, to, lane));
            publisher.congestion_control(CongestionControl::Drop).priority(priority(lane)).wait()
        });
        Ok(Self { once: to.1, lanes: [control?, user?, bulk?], silence })
    }
}

impl Shared {
    pub(crate) fn new(
        session: zenoh::Session,
        job: String,
        me: (ProcessId, Once),
        peers: BTreeMap<ProcessId, Remote>,
        mailbox: Arc<Mailbox>,
        tokens: Vec<LivelinessToken>,
    ) -> Self {
        mailbox.know(peers.iter().map(|(peer, remote)| (*peer, remote.once)).collect());
        Self {
            session,
            job,
            me,
            peers,
            mailbox,
            polling: Mutex::new(()),
            tokens: Mutex::new(tokens),
            is_leaving: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
        }
    }

    /// Whether `token` is one of a process of the job.
    pub(crate) fn knows(&self, token: Token) -> bool {
        self.peers.get(&token.peer).is_some_and(|peer| peer.once == token.once)
    }

    /// Handles a change of a process's token: `is_there`, or not any more.
    pub(crate) fn heard(&self, token: Token, is_there: bool) {
        let of = (token.peer, token.once);
        if !self.knows(token) {
            return;
        }
        match token.says {
            Says::Left if is_there => self.mailbox.put_change(of, Change::Down(Why::Left)),
            Says::Alive if !is_there => self.mailbox.put_change(of, Change::Down(Why::Died)),
            _ => {}
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `leave`.
        self.has_left.load(Ordering::Acquire) || self.mailbox.count_gone() == self.peers.len()
    }

    /// Says goodbye, then closes the session, on an OS thread of its own: Zenoh may wait for a peer's socket.
    fn leave(self: &Arc<Self>, how: Leave) {
        // ORDER: Relaxed: one caller finds `false`, and the functions that it calls publish its work.
        if self.is_leaving.swap(true, Ordering::Relaxed) {
            return;
        }
        self.mailbox.close();
        if how == Leave::Now {
            // ORDER: Release pairs with the Acquire in `has_ended`.
            self.has_left.store(true, Ordering::Release);
            self.mailbox.notify();
        }
        let this = Arc::clone(self);
        let closing = move || {
            let left = Token { peer: this.me.0, once: this.me.1, says: Says::Left };
            // A peer that misses this sees the end of the session.
            let said = this.session.liveliness().declare_token(keys::token(&this.job, left)).wait();
            drop(std::mem::take(&mut *this.tokens.lock().unwrap_or_else(PoisonError::into_inner)));
            drop(said);
            this.close();
        };
        if thread::Builder::new().name("zenoh leaves".into()).spawn(closing).is_err() {
            self.close();
        }
    }

    fn close(&self) {
        let _ = self.session.close().wait();
        // ORDER: Release pairs with the Acquire in `has_ended`.
        self.has_left.store(true, Ordering::Release);
        self.mailbox.notify();
    }
}

impl Frames {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Closes the session without a goodbye, as if the process had been killed.
    pub(crate) fn kill(&self) {
        // ORDER: Relaxed, as in `leave`.
        self.shared.is_leaving.store(true, Ordering::Relaxed);
        self.shared.mailbox.close();
        self.shared.close();
    }
}

impl Engine for Frames {
    fn me(&self) -> ProcessId {
        self.shared.me.0
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        let (me, once) = self.shared.me;
        let others = self.shared.peers.iter().map(|(peer, remote)| (*peer, remote.once.host()));
        let mut all: Vec<(ProcessId, u32)> = others.chain([(me, once.host())]).collect();
        all.sort_unstable();
        // A node has the number of its first process.
        let first = |host| all.iter().find(|(_, other)| *other == host).map_or(0, |(peer, _)| peer.0);
        all.iter().map(|(peer, host)| (*peer, NodeId(first(*host)))).collect()
    }

    fn caps(&self, _to: ProcessId) -> Caps {
        Caps { order: Order::None, loss: Loss::Any, death: Death::Reports, eager: EAGER as u32 + 64 }
    }

    fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.shared.mailbox.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        if body.frame().len() > LONGEST {
            return Err(Full { body });
        }
        // ORDER: Relaxed: a message that is sent while the process leaves may be heard or not.
        if !self.shared.is_leaving.load(Ordering::Relaxed)
            && let Some(peer) = self.shared.peers.get(&to)
        {
            // An error is a session that has been closed: the frame is lost, as any may be.
            let _ = peer.lanes[lane as usize].put(body.into_frame()).wait();
        }
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.shared.mailbox.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Shared { mailbox, peers, polling, .. } = &*self.shared;
        let Some(_alone) = try_enter(polling) else { return Polled::Busy };
        let (mut frames, mut polled) = (0, Polled::Nothing);
        while frames < budget {
            let Some((once, happening)) = mailbox.take() else { return polled };
            let is_ours = |peer: &ProcessId| peers.get(peer).is_some_and(|peer| peer.once == once);
            match happening {
                Happening::Frame(from, lane, frame) if is_ours(&from) && frame.len() <= LONGEST => {
                    let Some(frame) = Body::of_frame(frame) else { continue };
                    frames += 1;
                    sink.arrived(from, lane, frame);
                }
                Happening::ProcessId(peer, change) if is_ours(&peer) => sink.peer(peer, change),
                // A frame of another job, or no frame at all.
                Happening::Frame(..) | Happening::ProcessId(..) => continue,
            }
            polled = Polled::Some;
        }
        if mailbox.has_work() { Polled::More } else { polled }
    }

    fn park(&self) -> Idle {
        if self.has_work() { Idle::Work } else { Idle::Notified }
    }

    fn unpark(&self) {}

    fn leave(&self, how: Leave) {
        self.shared.leave(how);
    }

    fn give_up(&self, peer: ProcessId) -> bool {
        let known = self.shared.peers.get(&peer);
        known.inspect(|known| {
            self.shared.mailbox.put_change((peer, known.once), Change::Down(Why::Unreachable));
        });
        known.is_some()
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.shared.leave(Leave::Now);
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("me", &self.shared.me).finish_non_exhaustive()
    }
}
