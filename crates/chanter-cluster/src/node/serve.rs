//! The server thread: it serves the engine, and begins the requests that have come.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::Node;
use super::notifier::ServerNotifier;
use crate::engine::{Idle, Polled};

/// Serves the engine whenever the notifier is called, as long as the process is in use.
pub(super) async fn serve(node: Weak<Node>, notifier: Arc<ServerNotifier>) {
    let mut linger = Linger::default();
    let mut still = None;
    loop {
        let Some(serving) = still.take().or_else(|| node.upgrade()) else { return };
        if let Some(begins) = serving.begin_requests() {
            drop(serving);
            begins.get().await;
            continue;
        }
        let rest = match work(&serving, &mut linger) {
            Next::Poll => {
                still = Some(serving);
                continue;
            }
            Next::Yield => {
                drop(serving);
                yield_now().await;
                continue;
            }
            Next::Linger => {
                drop(serving);
                if !wait_briefly(&node, &notifier).await {
                    return;
                }
                continue;
            }
            Next::Idle(rest) => rest,
        };
        // Whoever rests may be the last one.
        drop(serving);
        match rest {
            Idle::Work => yield_now().await,
            Idle::For(time) => choose((notifier.notified(), after(time))).await,
            Idle::Notified => notifier.notified().await,
        }
        notifier.hear();
        still = node.upgrade();
        let Some(node) = &still else { return };
        if !node.is_pumped {
            node.engine.unpark();
        }
    }
}

/// What to do once the engine was polled.
enum Next {
    /// Requests have come.
    Poll,
    /// There is more, but others have their turn.
    Yield,
    /// Nothing has come: it may do so soon.
    Linger,
    Idle(Idle),
}

fn work(node: &Node, linger: &mut Linger) -> Next {
    node.flush();
    match node.poll_as_server() {
        Polled::Nothing => {}
        Polled::Some => linger.has_come(),
        Polled::More => {
            linger.has_come();
            return Next::Yield;
        }
    }
    node.see_whether_ended();
    if node.server_side.has_arrivals() {
        Next::Poll
    } else if node.is_pumped {
        // The pump rests for it.
        Next::Idle(Idle::Notified)
    } else if linger.goes_on(node.engine.linger()) {
        Next::Linger
    } else {
        Next::Idle(node.engine.park())
    }
}

/// So often others have their turn before the clock is read again.
const TURNS: u32 = 8;
/// So often it is looked for work in each turn: that is a load, where a turn is a hundred times as much.
pub(crate) const LOOKS: u32 = 16;

/// Lets others have their turns, until the engine has work, the notifier was called, or some time has gone. Nobody was told that
/// the process sleeps. False: nobody needs it any more.
async fn wait_briefly(node: &Weak<Node>, notifier: &ServerNotifier) -> bool {
    for _ in 0..TURNS {
        yield_now().await;
        let Some(node) = node.upgrade() else { return false };
        if node.has_work_soon() || node.server_side.has_arrivals() {
            return true;
        }
        if notifier.hear() {
            return true;
        }
    }
    true
}

/// How long to poll in vain: who talks answers soon, or not at all. After each time that nothing came, twice as many rests
/// pass without.
#[derive(Default)]
struct Linger {
    since: Option<Instant>,
    vain: u32,
    pass: u32,
}

/// At most 2 to this number rests pass without.
const MOST_VAIN: u32 = 6;

impl Linger {
    fn has_come(&mut self) {
        if self.since.take().is_some() {
            self.vain = 0;
        }
    }

    /// Nothing has come: whether to poll again, rather than to rest.
    fn goes_on(&mut self, time: Duration) -> bool {
        if time.is_zero() {
            return false;
        }
        match self.since {
            Some(since) if since.elapsed() < time => true,
            Some(_) => {
                self.since = None;
                self.vain = (self.vain + 1).min(MOST_VAIN);
                self.pass = (1 << self.vain) - 1;
                false
            }
            None if self.pass > 0 => {
                self.pass -= 1;
                false
            }
            None => {
                self.since = Some(Instant::now());
                true
            }
        }
    }
}
