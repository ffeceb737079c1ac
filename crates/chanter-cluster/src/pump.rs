//! Engines that cannot wake a sleeping worker, polled by a machine.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use chanter::Builder;
use chanter::base::{Pump as Polling, PumpRest, attach_pump};

use crate::engine::{Engine, Idle};
use crate::node::Node;

/// Lets the workers of a machine poll an engine (Chant, section 4.2: the scheduler polls): between threads, and
/// before they park. It is made before the machine, which it is [attached to](Self::attached_to); then an engine is
/// [started](crate::Process::start_polled) on it. Clones are the same pump.
#[derive(Clone, Default)]
pub struct Pump {
    served: Arc<Served>,
}

/// The engine and node that a pump serves, once there is one.
#[derive(Default)]
struct Served(OnceLock<Serving>);

struct Serving {
    engine: Arc<dyn Engine>,
    node: Weak<Node>,
    /// Number of waiting threads that are tested at each turn, even if the engine has no work.
    tested: Arc<AtomicUsize>,
}

impl Pump {
    /// A pump that has no engine yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The builder of a machine that polls by this pump. (A machine has one.)
    pub fn attached_to(&self, builder: Builder) -> Builder {
        builder.pump(Arc::clone(&self.served) as Arc<dyn Polling>)
    }

    /// A pump of the current machine. `None`: the machine has a pump already, or there is no current machine.
    #[cfg(unix)]
    pub(crate) fn here() -> Option<Self> {
        let pump = Self::new();
        attach_pump(Arc::clone(&pump.served) as Arc<dyn Polling>).then_some(pump)
    }

    pub(crate) fn serve(&self, engine: Arc<dyn Engine>, node: &Arc<Node>) {
        let serving = Serving { engine, node: Arc::downgrade(node), tested: node.waiting().tested() };
        let is_first = self.served.0.set(serving).is_ok();
        assert!(is_first, "a pump serves one engine");
    }
}

impl Serving {
    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        // ORDER: Relaxed: a thread that is not seen yet is seen at the next turn.
        self.tested.load(Ordering::Relaxed) > 0 || self.engine.wait(is_over)
    }

    fn park(&self) -> Idle {
        // ORDER: Relaxed: a thread that is not seen yet is seen at the next turn.
        if self.tested.load(Ordering::Relaxed) > 0 { Idle::Work } else { self.engine.park() }
    }
}

impl Polling for Served {
    #[inline]
    fn has_work(&self) -> bool {
        // ORDER: Relaxed: a thread that is not seen yet is seen at the next turn.
        self.0
            .get()
            .is_some_and(|serving| serving.tested.load(Ordering::Relaxed) > 0 || serving.engine.has_work())
    }

    #[inline]
    fn has_work_at_a_turn(&self) -> Option<bool> {
        self.0.get().and_then(|serving| serving.engine.has_work_at_a_turn())
    }

    fn pump(&self) {
        if let Some(serving) = self.0.get()
            && let Some(node) = serving.node.upgrade()
        {
            node.poll();
        }
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        self.0.get().is_some_and(|serving| serving.wait(is_over))
    }

    fn rest(&self) -> PumpRest {
        match self.0.get().map_or(Idle::Notified, Serving::park) {
            Idle::Work => PumpRest::Work,
            Idle::For(time) => PumpRest::For(time),
            Idle::Notified => PumpRest::Notified,
        }
    }

    fn rise(&self) {
        self.0.get().inspect(|serving| serving.engine.unpark());
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump").field("serves", &self.served.0.get().is_some()).finish()
    }
}
