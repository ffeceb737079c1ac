//! Signals that become orders.

use std::io;

use chanter::prelude::*;
use chanter::{event::optional, signal};

use crate::stop::Stop;

/// SIGHUP, which has this number everywhere.
const HANGUP: i32 = 1;

/// Starts the thread that turns signals into orders.
pub(crate) fn relay(stop: Stop) -> io::Result<()> {
    let (interrupt, terminate) = (signal::interrupt()?, signal::terminate()?);
    // A user who makes the process ignore it (`nohup`) means it to outlive its terminal.
    let hangup = if signal::is_ignored(HANGUP)? { None } else { Some(signal::listen(HANGUP)?) };
    drop(spawn(async move {
        for halts in [false, true] {
            let raised = choose((
                interrupt.recv().wrap(|()| true),
                terminate.recv().wrap(|()| true),
                optional(hangup.as_ref().map(|hangup| hangup.recv().wrap(|()| true))),
                // Cut for another reason: there is nobody left to order about.
                stop.halted().wrap(|()| false),
            ));
            if !raised.await {
                break;
            }
            if halts { stop.halt() } else { stop.ease() }
        }
    }));
    Ok(())
}
