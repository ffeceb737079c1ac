//! Signals that become orders.

use std::io;

use chanter::prelude::*;
use chanter::signal;

use crate::stop::Stop;

/// Starts the thread that turns signals into orders.
pub(crate) fn relay(stop: Stop) -> io::Result<()> {
    let (interrupt, terminate) = (signal::interrupt()?, signal::terminate()?);
    drop(spawn(async move {
        for halts in [false, true] {
            let raised = choose((
                interrupt.recv().wrap(|()| true),
                terminate.recv().wrap(|()| true),
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
