//! Strangers: connections that have not proved to belong to the job.
//!
//! Any process may connect to a TCP port. So a stranger keeps its place only for a short while if others want it:
//!
//! * There are 64 places. While one is free, a stranger may take its time ([`Config::hello`](super::config::Config::hello)).
//! * If none is free, the next stranger waits in the OS until one of the 64 gives way. Strangers that have not
//!   greeted give way after 100 ms, the oldest first. If that frees no place, the oldest stranger that has greeted
//!   gives way after a second.
//!
//! A process of the job greets as soon as it has connected, and proves itself as soon as it is answered. Silent
//! strangers pass at 640 a second, and those that know the greeting at 64. A process of the job that comes behind
//! them gets in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chanter::event::from_cancel_safe;
use chanter::prelude::*;

use super::cancelled::Cancelled;
use super::hello::{self, JOINS, STRANGERS};
use super::joining::Applicant;
use super::members::{Member, Shared};
use super::stream::Listener;
use crate::engine::ProcessId;
use crate::launcher::Secret;

/// Time within which a stranger must greet, if others want its place.
const GREETING: Duration = Duration::from_millis(100);
/// Time from connecting within which a stranger that has greeted must prove itself, if others want its place.
const PROOF: Duration = Duration::from_secs(1);

/// The accepting side, which lets in processes of the job.
pub(super) struct Accepting {
    pub(super) listener: Listener,
    pub(super) secret: Secret,
    pub(super) shared: Arc<Shared>,
    /// Told of each process that has connected.
    pub(super) welcome: Sender<()>,
}

impl Accepting {
    pub(super) async fn run(self) {
        let Self { listener, secret, shared, welcome } = self;
        let me = shared.me;
        let mut strangers = Strangers::default();
        let (leave, left) = mailbox();
        loop {
            while let Some(time) = strangers.make_room(chanter::now()) {
                // A stranger may go by itself before.
                choose((left.recv().wrap(drop), at(time))).await;
            }
            while left.try_recv().is_ok() {}
            // For example, the process is out of descriptors. The listener goes on, and the start has a time limit.
            let Ok(stream) = listener.accept().await else {
                after(Duration::from_millis(10)).await;
                continue;
            };
            let (secret, shared, welcome, leave) =
                (secret.clone(), Arc::clone(&shared), welcome.clone(), leave.clone());
            let has_greeted = Arc::new(AtomicBool::new(false));
            let greets = Arc::clone(&has_greeted);
            let hello = spawn(async move {
                let hello = from_cancel_safe(async {
                    let stream = stream.secure(shared.config.tls.as_ref()).await.ok()?;
                    let is_awaited = |peer| shared.members.get(peer).is_some_and(Member::is_awaited);
                    let expected = |peer: ProcessId| {
                        if peer == JOINS { shared.joins.is_some() } else { me < peer && is_awaited(peer) }
                    };
                    // ORDER: Relaxed: a hint, which publishes nothing.
                    let greets = || greets.store(true, Ordering::Relaxed);
                    let peer = hello::accept(&stream, &secret, me, expected, greets).await.ok()?;
                    Some((peer, stream))
                });
                match (hello.timeout(shared.config.hello).await, &shared.joins) {
                    (Some(Some((JOINS, stream))), Some(joins)) => {
                        drop(joins.try_send(Applicant::new(stream)))
                    }
                    (Some(Some((peer, stream))), _) => {
                        shared.connect(peer, stream);
                        let _ = welcome.try_send(());
                    }
                    _ => {}
                }
                let _ = leave.try_send(());
            });
            strangers.0.push_back(Stranger { since: chanter::now(), has_greeted, hello: Cancelled(hello) });
            // Lets the new thread read the bytes that have come.
            yield_now().await;
        }
    }
}

/// All strangers, the oldest first.
#[derive(Default)]
struct Strangers(VecDeque<Stranger>);

struct Stranger {
    since: Instant,
    has_greeted: Arc<AtomicBool>,
    hello: Cancelled,
}

impl Stranger {
    /// Key by which strangers give way, and the time from which this one does. Strangers that have not greeted come
    /// first.
    fn gives_way(&self) -> (bool, Instant) {
        // ORDER: Relaxed: a hint, which publishes nothing.
        let has_greeted = self.has_greeted.load(Ordering::Relaxed);
        (has_greeted, self.since + if has_greeted { PROOF } else { GREETING })
    }
}

impl Strangers {
    /// Makes room for one more stranger. `Some`: there is none before that time.
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
