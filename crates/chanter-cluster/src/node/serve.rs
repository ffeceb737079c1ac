//! The server thread: it serves the engine, and begins the requests that have come.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chanter::base::wake_first;
use chanter::{ThreadBuilder, prelude::*};

use super::Node;
use super::notifier::ServerNotifier;
use crate::engine::{Idle, Notifier, Polled};

impl Node {
    /// Begins the process: from now on a thread of the current machine serves its engine.
    pub(crate) fn begin(self: &Arc<Self>) {
        let notifier = &self.serving.notifier;
        let serving = serve(Arc::downgrade(self), Arc::clone(notifier));
        drop(ThreadBuilder::new().name("cluster").spawn(serving));
        let notifier = Arc::clone(notifier);
        self.engine.attach(Notifier::new(move || {
            wake_first(|| notifier.notify());
        }));
    }
}

/// Serves the engine whenever the notifier is called, as long as the process is in use.
async fn serve(node: Weak<Node>, notifier: Arc<ServerNotifier>) {
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
        // The server's reference must not be the last one while it is parked.
        drop(serving);
        match rest {
            Idle::Work => yield_now().await,
            Idle::For(time) => choose((notifier.notified(), after(time))).await,
            Idle::Notified => notifier.notified().await,
        }
        notifier.hear();
        still = node.upgrade();
        let Some(node) = &still else { return };
        if !node.serving.is_pumped {
            node.engine.unpark();
        }
    }
}

/// The server's next step after a poll of the engine.
enum Next {
    /// Requests have come.
    Poll,
    /// There is more work, but other threads run first.
    Yield,
    /// Nothing has come, but it may come soon.
    Linger,
    Idle(Idle),
}

fn work(node: &Node, linger: &mut Linger) -> Next {
    node.flush();
    match node.poll_as_server() {
        Polled::Busy | Polled::Nothing => {}
        Polled::Some => linger.has_come(),
        Polled::More => {
            linger.has_come();
            return Next::Yield;
        }
    }
    if !node.see_whether_ended() {
        return Next::Yield;
    }
    if node.has_requests() {
        Next::Poll
    } else if node.serving.is_pumped {
        // The pump parks the engine.
        Next::Idle(Idle::Notified)
    } else if linger.goes_on(node.engine.linger()) {
        Next::Linger
    } else {
        Next::Idle(node.engine.park())
    }
}

/// Number of yields before the clock is read again.
const TURNS: u32 = 8;
/// Number of looks for work after each yield. A look is a load; a yield costs a hundred times as much.
pub(crate) const LOOKS: u32 = 16;

/// Lets other threads run until the engine has work, the notifier was called, or `TURNS` yields have passed. The
/// process is not announced as asleep meanwhile. False: the node is no longer in use.
async fn wait_briefly(node: &Weak<Node>, notifier: &ServerNotifier) -> bool {
    for _ in 0..TURNS {
        yield_now().await;
        let Some(node) = node.upgrade() else { return false };
        if node.has_work_soon() || node.has_requests() {
            return true;
        }
        if notifier.hear() {
            return true;
        }
    }
    true
}

/// Decides how long to poll in vain before parking. A peer in conversation answers soon or not at all. After each
/// linger in which nothing came, about twice as many parks pass without one.
#[derive(Default)]
struct Linger {
    since: Option<Instant>,
    vain: u32,
    pass: u32,
}

/// Limit of the exponent: fewer than 2 to this number parks pass without a linger.
const MOST_VAIN: u32 = 6;

impl Linger {
    fn has_come(&mut self) {
        if self.since.take().is_some() {
            self.vain = 0;
        }
    }

    /// Whether to poll again rather than park, as nothing has come.
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
