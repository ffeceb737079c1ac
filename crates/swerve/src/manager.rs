//! The connection manager: the thread that knows how many connections there are, starts one thread
//! for each, and sees them out when the server stops.

use chanter::prelude::*;
use std::time::{Duration, Instant};

use crate::connection::{Shared, converse};
use crate::listener::Arrival;
use crate::server::Summary;

/// How long cut connections may take to notice.
const CUT: Duration = Duration::from_secs(2);

/// Sent when dropped: a connection that panics has ended, too.
struct Ending(Sender<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        // A mailbox is never full, and nobody minds when the manager has gone.
        let _ = self.0.try_send(());
    }
}

enum Happening {
    Arrived(Arrival),
    Ended,
    Stop,
}

/// Manages connections until the order to stop has been carried out.
pub(crate) async fn manage(
    arrivals: Receiver<Arrival>,
    shared: Shared,
    most: usize,
    grace: Duration,
) -> Summary {
    let (end, ended) = mailbox::<()>();
    let mut live = 0_usize;
    let mut served = 0_u64;
    loop {
        let stop = shared.stop.eased().wrap(|()| Happening::Stop);
        let over = ended.recv().wrap(|_| Happening::Ended);
        let happening = if live < most {
            let arrival = arrivals.recv().wrap(|arrival| arrival.map_or(Happening::Stop, Happening::Arrived));
            choose((stop, over, arrival)).await
        } else {
            choose((stop, over)).await
        };
        match happening {
            Happening::Stop => break,
            Happening::Ended => live -= 1,
            Happening::Arrived((stream, peer)) => {
                live += 1;
                served += 1;
                let ending = Ending(end.clone());
                let shared = shared.clone();
                drop(spawn(async move {
                    let _ending = ending;
                    // Answers are written whole; waiting to fill a packet only delays them.
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&stream, true);
                    converse(stream, peer, shared).await;
                }));
            }
        }
    }
    // A listener that waits to hand over its last connection learns that it is too late.
    drop(arrivals);

    let deadline = Instant::now() + grace;
    while live > 0 {
        let finished = choose((
            ended.recv().wrap(|_| true),
            shared.stop.halted().wrap(|()| false),
            at(deadline).wrap(|()| false),
        ));
        if !finished.await {
            break;
        }
        live -= 1;
    }
    let cut = live;
    shared.stop.halt();
    let deadline = Instant::now() + CUT;
    while live > 0 {
        let finished = choose((ended.recv().wrap(|_| true), at(deadline).wrap(|()| false)));
        if !finished.await {
            break;
        }
        live -= 1;
    }
    Summary { connections: served, cut }
}
