//! Engines that cannot wake a sleeping worker, polled by a machine.

use std::fmt;
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
        let serving = Serving { engine, node: Arc::downgrade(node) };
        let is_first = self.served.0.set(serving).is_ok();
        assert!(is_first, "a pump serves one engine");
    }
}

impl Polling for Served {
    #[inline]
    fn has_work(&self) -> bool {
        self.0.get().is_some_and(|serving| serving.engine.has_work())
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
        self.0.get().is_some_and(|serving| serving.engine.wait(is_over))
    }

    fn rest(&self) -> PumpRest {
        match self.0.get().map_or(Idle::Notified, |serving| serving.engine.park()) {
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
