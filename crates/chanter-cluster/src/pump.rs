//! Engines that wake nobody, polled by a machine.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use chanter::Builder;
use chanter::base::{Pump as Polling, PumpRest};

use crate::engine::{Engine, Rest};
use crate::node::Node;

/// Lets the drivers of a machine poll an engine (Chant, section 4.2: the scheduler polls): while they look around, and before
/// they sleep. It is made before the machine, which it is [attached to](Self::attached_to); then an engine is
/// [started](crate::Here::start_polled) on it. Clones are the same pump.
#[derive(Clone, Default)]
pub struct Pump {
    served: Arc<Served>,
}

/// Whom a pump serves, once there is somebody.
#[derive(Default)]
struct Served(OnceLock<(Arc<dyn Engine>, Weak<Node>)>);

impl Pump {
    /// A pump that has no engine yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The builder of a machine that polls by this pump. (A machine has one.)
    pub fn attached_to(&self, builder: Builder) -> Builder {
        builder.pump(Arc::clone(&self.served) as Arc<dyn Polling>)
    }

    pub(crate) fn serve(&self, engine: Arc<dyn Engine>, node: &Arc<Node>) {
        let is_first = self.served.0.set((engine, Arc::downgrade(node))).is_ok();
        assert!(is_first, "a pump serves one engine");
    }
}

impl Polling for Served {
    #[inline]
    fn has_work(&self) -> bool {
        self.0.get().is_some_and(|(engine, _)| engine.has_work())
    }

    fn pump(&self) {
        if let Some((_, node)) = self.0.get()
            && let Some(node) = node.upgrade()
        {
            node.poll();
        }
    }

    fn rest(&self) -> PumpRest {
        match self.0.get().map_or(Rest::Notified, |(engine, _)| engine.rest()) {
            Rest::Work => PumpRest::Work,
            Rest::For(time) => PumpRest::For(time),
            Rest::Notified => PumpRest::Notified,
        }
    }

    fn rise(&self) {
        self.0.get().inspect(|(engine, _)| engine.rise());
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump").field("serves", &self.served.0.get().is_some()).finish()
    }
}
