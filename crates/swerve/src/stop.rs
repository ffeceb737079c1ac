//! The order to stop, in two stages, each an event that any number of threads can wait for.

use std::io;

use chanter::prelude::*;

use crate::signals;

/// Tells a server to stop. Cheap to clone; every clone speaks to the same server.
#[derive(Clone)]
pub struct Stop {
    ease: IVar<()>,
    halt: IVar<()>,
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stop")
    }
}

impl Stop {
    pub(crate) fn new() -> Stop {
        Stop { ease: IVar::new(), halt: IVar::new() }
    }

    /// Take no more connections and requests, and finish those that are in flight. Whatever is
    /// still unfinished after the time of grace is cut. Asking again changes nothing.
    pub fn ease(&self) {
        let _ = self.ease.put(());
    }

    /// Cut what is in flight, now. Asking again changes nothing.
    pub fn halt(&self) {
        self.ease();
        let _ = self.halt.put(());
    }

    /// Eases at the first SIGINT, SIGTERM or SIGHUP, and halts at the second. A SIGHUP that the process ignores, as
    /// under `nohup`, stays ignored.
    ///
    /// Has to be called on a thread of a Chanter machine, which then listens for the signals until
    /// the server has stopped. The signals never again end the process by themselves.
    ///
    /// # Errors
    ///
    /// When the handlers cannot be installed.
    pub fn on_signals(&self) -> io::Result<()> {
        signals::relay(self.clone())
    }

    /// Ready once the first order is given.
    pub(crate) fn eased(&self) -> impl Event<Output = ()> + Send + use<> {
        self.ease.get()
    }

    /// Ready once the order to cut is given.
    pub(crate) fn halted(&self) -> impl Event<Output = ()> + Send + use<> {
        self.halt.get()
    }

    /// The next order to wait for, for somebody who has obeyed the first or has not.
    pub(crate) fn next(&self, eased: bool) -> impl Event<Output = ()> + Send + use<> {
        if eased { self.halt.get() } else { self.ease.get() }
    }
}
