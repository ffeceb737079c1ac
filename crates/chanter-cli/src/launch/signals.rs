//! Signals that the launcher listens for.

use std::io;

use chanter::event::optional;
use chanter::prelude::*;
use chanter::signal;
use nix::sys::signal::Signal;

/// Listens from its beginning on.
pub(super) struct Signals {
    interrupt: signal::Signal,
    terminate: signal::Signal,
    /// Not there if it is ignored, as by `nohup`.
    hangup: Option<signal::Signal>,
    asked: signal::Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = signal::is_ignored(Signal::SIGHUP as i32)?;
        Ok(Self {
            interrupt: signal::interrupt()?,
            terminate: signal::terminate()?,
            hangup: if ignored { None } else { Some(signal::hangup()?) },
            asked: signal::user1()?,
        })
    }

    /// The event of the next one.
    pub(super) fn next(&self) -> impl Event<Output = Signal> {
        choose((
            self.interrupt.recv().wrap(|()| Signal::SIGINT),
            self.terminate.recv().wrap(|()| Signal::SIGTERM),
            optional(self.hangup.as_ref().map(signal::Signal::recv)).wrap(|()| Signal::SIGHUP),
            self.asked.recv().wrap(|()| Signal::SIGUSR1),
        ))
    }
}
