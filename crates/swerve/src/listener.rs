//! The network: the thread that takes connections from the kernel.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chanter::io::{TcpListener, TcpStream};
use chanter::prelude::*;

use crate::errors::ErrorLog;
use crate::stop::Stop;

/// Pause after the kernel had no descriptor for a new connection.
const BREATH: Duration = Duration::from_millis(50);

/// Time until the error log is told again that the kernel has no descriptor.
const BETWEEN_TELLING: Duration = Duration::from_secs(10);

/// Number of clients that may be in the kernel's queue at the order to stop, with one that was taken ahead. They have
/// connected, and may have asked; clients that come later may be turned away.
const QUEUE: usize = 4096 + 1;

/// A connection on its way to the manager.
pub(crate) type Arrival = (TcpStream, SocketAddr);

/// Takes connections and hands each to the manager, until the order to stop. Then it hands over those
/// that had already come, and gives up the port.
pub(crate) async fn listen(listener: TcpListener, arrivals: Sender<Arrival>, stop: Stop, errors: ErrorLog) {
    let mut told: Option<Instant> = None;
    loop {
        let accepted = choose((stop.eased().wrap(|()| None), listener.accept().wrap(Some)));
        match accepted.await {
            None => break,
            Some(Ok(arrival)) => {
                // The manager takes it when it has room; meanwhile the kernel's queue fills.
                let handed = choose((
                    stop.halted().wrap(|()| false),
                    arrivals.send(arrival).wrap(|sent| sent.is_ok()),
                ));
                if !handed.await {
                    return;
                }
            }
            Some(Err(error)) if is_of_one_connection(&error) => {}
            Some(Err(error)) => {
                if told.is_none_or(|told| told.elapsed() >= BETWEEN_TELLING) {
                    errors.tell(format_args!("swerve: cannot take connections: {error}"));
                    told = Some(Instant::now());
                }
                choose((stop.eased(), after(BREATH))).await;
            }
        }
    }
    let waiting = listener.close();
    for _ in 0..QUEUE {
        let accepted = choose((stop.halted().wrap(|()| None), waiting.recv().wrap(Result::ok)));
        let arrival = match accepted.await {
            Some(Ok(arrival)) => arrival,
            // Not now; the next one may be better.
            Some(Err(_)) => continue,
            None => return,
        };
        let handed =
            choose((stop.halted().wrap(|()| false), arrivals.send(arrival).wrap(|sent| sent.is_ok())));
        if !handed.await {
            return;
        }
    }
}

/// Whether the error is one of a client that left before it was let in; the next one may be better.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
