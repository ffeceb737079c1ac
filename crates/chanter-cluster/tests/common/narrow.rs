//! An engine whose frames and messages are short, and which refuses frames now and then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter_cluster::engine::{
    Caps, Engine, Full, Idle, Lane, Leave, NodeId, Notifier, Polled, ProcessId, Sink,
};
use chanter_cluster::wire::Body;

pub(crate) struct Narrow<E> {
    pub(crate) engine: E,
    /// Length of the longest frame, and (in `longest`) of the longest message.
    pub(crate) eager: u32,
    pub(crate) longest: u32,
    /// One frame in this many is refused the first time. 0: none.
    pub(crate) refuses: u32,
    /// Number of frames after which all are refused.
    pub(crate) most: u32,
    pub(crate) sent: AtomicU32,
    pub(crate) notifier: OnceLock<Notifier>,
}

impl<E: Engine> Narrow<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self {
            eager: u32::MAX,
            longest: engine.longest(),
            refuses: 0,
            most: u32::MAX,
            sent: AtomicU32::new(0),
            notifier: OnceLock::new(),
            engine,
        }
    }
}

impl<E: Engine> Engine for Narrow<E> {
    fn caps(&self, to: ProcessId) -> Caps {
        let caps = self.engine.caps(to);
        Caps { eager: caps.eager.min(self.eager), ..caps }
    }

    fn longest(&self) -> u32 {
        self.longest
    }

    fn attach(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier.clone());
        self.engine.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        assert!(body.len() <= self.caps(to).eager as usize, "a frame of {} bytes", body.len());
        let sent = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        if sent > self.most {
            return Err(Full { body });
        }
        if self.refuses > 0 && sent.is_multiple_of(self.refuses) {
            self.notifier.get().unwrap().notify();
            return Err(Full { body });
        }
        self.engine.try_send(to, lane, body)
    }

    fn me(&self) -> ProcessId {
        self.engine.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.engine.roster()
    }

    fn has_ended(&self) -> bool {
        self.engine.has_ended()
    }

    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.engine.poll(budget, sink)
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
}
