//! Strangers: those who have connected, and have not proved to be of the job.
//!
//! Anybody may connect to a TCP port. So a stranger has a place for a short while only, if others want it:
//!
//! * There are 64 places. While one is free, a stranger may take its time ([`Config::hello`](super::Config::hello)).
//! * If none is, the next stranger waits in the OS until one of the 64 gives way. A stranger that has not greeted does so after 100 ms,
//!   the oldest first. If no place is free so, the oldest stranger that has greeted does, after a second.
//!
//! A process of the job greets as soon as it has connected, and proves itself as soon as it is answered. Silent strangers pass at 640
//! a second, and those that know the greeting at 64. A process of the job that comes behind them gets in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chanter::event::from_cancel_safe;
use chanter::prelude::*;

use super::hello;
use super::stream::{Listener, Stream};
use super::tls::Tls;
use crate::engine::ProcessId;
use crate::launcher::Secret;

/// Connections that have proved nothing, at a time.
pub(super) const STRANGERS: usize = 64;
/// In which time a stranger greets, if others want its place.
const GREETING: Duration = Duration::from_millis(100);
/// In which time after it has connected it proves who it is, if it has greeted, and others want its place.
const PROOF: Duration = Duration::from_secs(1);

/// Cancels its thread when dropped.
pub(super) struct Cancelled(pub(super) Thread<()>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        // Nobody waits for the answer.
        drop(self.0.cancel());
    }
}

/// Lets those in who are of the job.
pub(super) struct Accepting {
    pub(super) listener: Listener,
    pub(super) secret: Secret,
    pub(super) tls: Option<Tls>,
    pub(super) me: ProcessId,
    pub(super) count: u32,
    /// In which time a stranger must prove who it is, whether others want its place or not.
    pub(super) time: Duration,
    pub(super) welcome: Sender<(ProcessId, Stream)>,
}

impl Accepting {
    pub(super) async fn run(self) {
        let Self { listener, secret, tls, me, count, time, welcome } = self;
        let mut strangers = Strangers::default();
        let (leave, left) = mailbox();
        loop {
            while let Some(time) = strangers.make_room(chanter::now()) {
                // One may go by itself before.
                choose((left.recv().wrap(drop), at(time))).await;
            }
            while left.try_recv().is_ok() {}
            // Out of descriptors, say: the listener goes on, and the start has a limit.
            let Ok(stream) = listener.accept().await else {
                after(Duration::from_millis(10)).await;
                continue;
            };
            let (secret, welcome, tls, leave) = (secret.clone(), welcome.clone(), tls.clone(), leave.clone());
            let has_greeted = Arc::new(AtomicBool::new(false));
            let greets = Arc::clone(&has_greeted);
            let hello = spawn(async move {
                let hello = from_cancel_safe(async {
                    let stream = stream.secure(tls.as_ref()).await.ok()?;
                    let expected = |peer: ProcessId| me < peer && peer.0 < count;
                    // ORDER: Relaxed: a hint, which publishes nothing.
                    let greets = || greets.store(true, Ordering::Relaxed);
                    let peer = hello::accept(&stream, &secret, me, expected, greets).await.ok()?;
                    Some((peer, stream))
                });
                if let Some(Some(welcomed)) = hello.timeout(time).await {
                    let _ = welcome.try_send(welcomed);
                }
                let _ = leave.try_send(());
            });
            strangers.0.push_back(Stranger { since: chanter::now(), has_greeted, hello: Cancelled(hello) });
            // It reads what has come.
            yield_now().await;
        }
    }
}

/// Those who have connected and proved nothing, the oldest first.
#[derive(Default)]
struct Strangers(VecDeque<Stranger>);

struct Stranger {
    since: Instant,
    has_greeted: Arc<AtomicBool>,
    hello: Cancelled,
}

impl Stranger {
    /// When it gives way, and before whom: those who have not greeted go first.
    fn gives_way(&self) -> (bool, Instant) {
        // ORDER: Relaxed: a hint.
        let has_greeted = self.has_greeted.load(Ordering::Relaxed);
        (has_greeted, self.since + if has_greeted { PROOF } else { GREETING })
    }
}

impl Strangers {
    /// Makes room for one more. `Some`: there is none before that time.
    fn make_room(&mut self, now: Instant) -> Option<Instant> {
        if self.0.len() < STRANGERS {
            return None;
        }
        self.0.retain(|stranger| !stranger.hello.0.is_determined());
        if self.0.len() < STRANGERS {
            return None;
        }
        let due = self.0.iter().enumerate().map(|(at, stranger)| (stranger.gives_way(), at));
        match due.clone().filter(|((_, time), _)| *time <= now).min() {
            Some((_, at)) => {
                self.0.remove(at);
                None
            }
            None => due.map(|((_, time), _)| time).min(),
        }
    }
}
