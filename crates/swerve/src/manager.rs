//! The connection manager: the thread that knows how many connections there are, starts one thread
//! for each, and sees them out when the server stops.

use chanter::prelude::*;
use std::time::{Duration, Instant};

use crate::connection::{Shared, converse};
use crate::listener::Arrival;
use crate::occupancy::{Ending, Note, Occupancy};
use crate::server::Summary;

/// Time that cut connections may take to notice.
const CUT: Duration = Duration::from_secs(2);

enum Happening {
    Arrived(Arrival),
    /// The listener has gone, and sends no more. Without an order to stop it has failed, and nobody new is served.
    NoMore,
    /// A note of a connection.
    Noted(Note),
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
    let (mut occupancy, noted) = Occupancy::new();
    // A newcomer for whom there is no room yet. While there is one, the others wait in the kernel's queue.
    let mut waiting: Option<Arrival> = None;
    let mut open = true;
    let mut deadline = None;
    while open || occupancy.len() > 0 {
        let order = match deadline {
            None => shared.stop.eased().wrap(|()| Happening::Ease).boxed(),
            Some(deadline) => choose((shared.stop.halted(), at(deadline))).wrap(|()| Happening::Halt).boxed(),
        };
        // The occupancy holds a sending end.
        let note = noted.recv().wrap(|note| Happening::Noted(note.unwrap_or(Note::Look)));
        let arrival = if open && waiting.is_none() {
            arrivals.recv().wrap(|arrival| arrival.map_or(Happening::NoMore, Happening::Arrived)).boxed()
        } else {
            never().boxed()
        };
        match choose((order, note, arrival)).await {
            Happening::Ease => deadline = Some(Instant::now() + grace),
            Happening::Halt => break,
            Happening::NoMore => {
                open = false;
                shared.stop.ease();
            }
            Happening::Noted(Note::Ended(id)) => {
                occupancy.leave(id);
                if let Some(arrival) = waiting.take() {
                    occupancy.has_room();
                    start(arrival, &mut occupancy, &shared);
                }
            }
            Happening::Noted(Note::Look) if waiting.is_some() => occupancy.make_room(),
            Happening::Noted(Note::Look) => {}
            Happening::Arrived(arrival) if occupancy.len() < most => start(arrival, &mut occupancy, &shared),
            Happening::Arrived(arrival) => {
                waiting = Some(arrival);
                occupancy.make_room();
            }
        }
    }
    drop(waiting);
    // A listener that waits to hand over a connection learns that it is too late.
    drop(arrivals);
    shared.stop.halt();
    let cut = occupancy.len();
    let deadline = Instant::now() + CUT;
    while occupancy.len() > 0 {
        let noticed = choose((noted.recv().wrap(Result::ok), at(deadline).wrap(|()| None)));
        match noticed.await {
            Some(Note::Ended(id)) => occupancy.leave(id),
            Some(Note::Look) => {}
            None => break,
        }
    }
    Summary { connections: occupancy.entered(), cut, lines_lost: 0 }
}

/// Starts the thread of a connection.
fn start((stream, peer): Arrival, occupancy: &mut Occupancy, shared: &Shared) {
    let presence = occupancy.enter();
    let ending = Ending::of(&presence);
    let shared = shared.clone();
    drop(spawn(async move {
        let _ending = ending;
        // Answers are written whole; waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        converse(stream, peer, shared, presence).await;
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::errors::ErrorLog;
    use crate::files::FileProcessor;
    use crate::meter::Patience;
    use crate::platform::Links;
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
