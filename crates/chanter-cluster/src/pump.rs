//! Engines that wake nobody, polled by a machine.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use chanter::Builder;
use chanter::base::{Pump as Polling, PumpRest, attach_pump};

use crate::engine::{Engine, Idle};
use crate::node::Node;

/// Lets the drivers of a machine poll an engine (Chant, section 4.2: the scheduler polls): while they look around, and before
/// they sleep. It is made before the machine, which it is [attached to](Self::attached_to); then an engine is
/// [started](crate::Process::start_polled) on it. Clones are the same pump.
#[derive(Clone, Default)]
pub struct Pump {
    served: Arc<Served>,
}

/// Whom a pump serves, once there is somebody.
#[derive(Default)]
struct Served(OnceLock<Serving>);

struct Serving {
    engine: Arc<dyn Engine>,
    node: Weak<Node>,
    /// How many threads wait of which something is asked at each turn, whatever the engine has.
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

    /// A pump of the current machine. `None`: that has one, or there is none.
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
        // ORDER: Relaxed: as in `has_work`.
        self.tested.load(Ordering::Relaxed) > 0 || self.engine.wait(is_over)
    }

    fn park(&self) -> Idle {
        // ORDER: Relaxed: as in `has_work`.
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
