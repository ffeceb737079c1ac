//! Signals as events: the handler writes a byte to a socket, and a thread waits for it.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;

use chanter::io::UnixStream;
use chanter::prelude::*;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use crate::stop::Stop;

/// Starts the thread that turns signals into orders.
pub(crate) fn relay(stop: Stop) -> io::Result<()> {
    let (bell, handler) = StdUnixStream::pair()?;
    let bell = UnixStream::from_std(bell)?;
    let interrupt = pipe::register(SIGINT, handler.try_clone()?)?;
    let terminate = pipe::register(SIGTERM, handler)?;
    drop(spawn(async move {
        let mut orders = 0;
        while orders < 2 {
            let rung = choose((
                bell.readable().wrap(|readable| readable.is_ok()),
                // Cut for another reason: there is nobody left to order about.
                stop.halted().wrap(|()| false),
            ));
            if !rung.await {
                break;
            }
            let mut bytes = [0; 16];
            if let Ok(rings) = bell.try_read(&mut bytes) {
                for _ in 0..rings {
                    orders += 1;
                    if orders == 1 { stop.ease() } else { stop.halt() }
                }
            }
        }
        unregister(interrupt);
        unregister(terminate);
    }));
    Ok(())
}
