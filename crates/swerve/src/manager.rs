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
    /// The listener has gone, and sends no more. Without an order to stop it has failed, and nobody new is served.
    NoMore,
    Ended,
    /// The order to stop.
    Ease,
    /// The order to cut, or the end of the time of grace.
    Halt,
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
    let mut open = true;
    let mut deadline = None;
    while open || live > 0 {
        let order = match deadline {
            None => shared.stop.eased().wrap(|()| Happening::Ease).boxed(),
            Some(deadline) => choose((shared.stop.halted(), at(deadline))).wrap(|()| Happening::Halt).boxed(),
        };
        let over = ended.recv().wrap(|_| Happening::Ended);
        let arrival = if open && live < most {
            arrivals.recv().wrap(|arrival| arrival.map_or(Happening::NoMore, Happening::Arrived)).boxed()
        } else {
            never().boxed()
        };
        match choose((order, over, arrival)).await {
            Happening::Ease => deadline = Some(Instant::now() + grace),
            Happening::Halt => break,
            Happening::NoMore => {
                open = false;
                shared.stop.ease();
            }
            Happening::Ended => live -= 1,
            Happening::Arrived((stream, peer)) => {
                live += 1;
                served += 1;
                let ending = Ending(end.clone());
                let shared = shared.clone();
                drop(spawn(async move {
                    let _ending = ending;
                    // Answers are written whole; waiting to fill a packet only delays them.
                    let _ = stream.set_nodelay(true);
                    converse(stream, peer, shared).await;
                }));
            }
        }
    }
    // A listener that waits to hand over a connection learns that it is too late.
    drop(arrivals);
    shared.stop.halt();
    let cut = live;
    let deadline = Instant::now() + CUT;
    while live > 0 {
        let noticed = choose((ended.recv().wrap(|_| true), at(deadline).wrap(|()| false)));
        if !noticed.await {
            break;
        }
        live -= 1;
    }
    Summary { connections: served, cut, lines_lost: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::errors::ErrorLog;
    use crate::files::FileProcessor;
    use crate::meter::Patience;
    use crate::stop::Stop;
    use crate::tree::Tree;

    /// Without a listener nobody new would be served, and nobody would know.
    #[test]
    fn a_listener_that_fails_is_an_order_to_stop() {
        let dir = tempfile::TempDir::new().unwrap();
        Machine::builder().vps(1).build().unwrap().block_on(async {
            let tree = Tree::new(dir.path(), false, Links::Inside).unwrap();
            let config = Config::new(dir.path(), ([127, 0, 0, 1], 0).into());
            let files = FileProcessor::new(tree, &config, ErrorLog::off());
            let patience = Patience::of(&config);
            let stop = Stop::new();
            let shared = Shared { files, log: None, stop: stop.clone(), patience };
            let (arrive, arrivals) = channel();
            let manager = spawn(manage(arrivals, shared, 1, Duration::from_secs(600)));
            drop(arrive);
            stop.eased().await;
            assert_eq!(manager.join().await.unwrap().connections, 0);
        });
    }
}
