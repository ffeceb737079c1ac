//! Guarantee 1 in both directions, on every executor: sends and receives that
//! are dropped at each poll, by code that is not Chanter's. No message is lost,
//! none is doubled, nobody is stuck; and the one who sends can see, after each
//! drop, whether it has sent.
//!
//! The adversary is [`Cut`]: a future that gives up in the very poll to which the
//! commit has woken it. `select!` of other libraries and their time limits do
//! that now and then.

use crate::common;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::prelude::*;
use chanter::sync::MVar;
use common::{machine, watchdog};
use tokio::runtime::Runtime;

/// Polls a future `polls` times. Then it gives up, without a look at the future.
struct Cut<F> {
    future: Pin<Box<F>>,
    polls: usize,
}

fn cut<F: IntoFuture>(future: F, polls: usize) -> Cut<F::IntoFuture> {
    Cut { future: Box::pin(future.into_future()), polls }
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.future.as_mut().poll(cx).map(Some)
    }
}

/// Messages of each sender, and senders.
const MESSAGES: usize = 60;
const SENDERS: usize = 2;

/// A kind of channel, as its ends are used here.
trait Ends: Clone + Send + Sync + 'static {
    /// Tries to give the message in `place`, for that many polls.
    fn give(&self, place: &mut Option<usize>, polls: usize) -> impl Future<Output = ()> + Send;
    /// Tries to take a message.
    fn take(&self, polls: usize) -> impl Future<Output = Option<usize>> + Send;
}

/// How one who gives is interrupted.
#[derive(Clone, Copy)]
enum By {
    Send,
    Choice,
}

#[derive(Clone)]
struct Pair(Sender<usize>, Receiver<usize>, By);

impl Ends for Pair {
    async fn give(&self, place: &mut Option<usize>, polls: usize) {
        let sent = match self.2 {
            By::Send => cut(self.0.send_from(place), polls).await,
            By::Choice => {
                let (_quiet, silent) = channel::<()>();
                let other = silent.recv().wrap(|_| Err(Closed));
                cut(choose((other, self.0.send_from(place))), polls).await
            }
        };
        assert!(!matches!(sent, Some(Err(Closed))), "nobody closes it");
    }

    async fn take(&self, polls: usize) -> Option<usize> {
        cut(self.1.recv(), polls).await.map(|got| got.expect("nobody closes it"))
    }
}

#[derive(Clone)]
struct Variable(MVar<usize>);

impl Ends for Variable {
    async fn give(&self, place: &mut Option<usize>, polls: usize) {
        let _ = cut(self.0.put_from(place), polls).await;
    }

    async fn take(&self, polls: usize) -> Option<usize> {
        cut(self.0.take(), polls).await
    }
}

/// Sends its messages, in order: one goes when its place is empty.
async fn produce(ends: impl Ends, base: usize) {
    let mut queue: VecDeque<_> = (base..base + MESSAGES).collect();
    let mut place = queue.pop_front();
    for round in 0.. {
        // The send that was cut off may have happened: the place says so.
        ends.give(&mut place, round % 4).await;
        if place.is_none() {
            place = queue.pop_front();
            if place.is_none() {
                return;
            }
        }
    }
}

/// Takes all messages.
async fn consume(ends: impl Ends) -> Vec<usize> {
    let mut got = Vec::new();
    for round in 0.. {
        if got.len() == MESSAGES * SENDERS {
            break;
        }
        got.extend(ends.take(round % 5).await);
    }
    got
}

/// The executor of one side.
#[derive(Clone, Copy, Debug)]
enum Executor {
    Tokio,
    /// An OS thread that polls by hand, as `futures` does it.
    Futures,
    /// A thread of Chanter's: its waker is that of the thread, whatever stands between.
    Host,
    Parasite,
}

const EXECUTORS: [Executor; 4] = [Executor::Tokio, Executor::Futures, Executor::Host, Executor::Parasite];

struct Stage {
    tokio: Runtime,
    machine: Machine,
}

impl Stage {
    fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        Self { tokio, machine: machine(2) }
    }

    fn run<T: Send + 'static>(
        &self,
        executor: Executor,
        body: impl Future<Output = T> + Send + 'static,
    ) -> std::sync::mpsc::Receiver<T> {
        let (done, ended) = std::sync::mpsc::channel();
        let body = async move {
            let value = body.await;
            // (Closed, if the test has failed.)
            let _ = done.send(value);
        };
        match executor {
            Executor::Tokio => drop(self.tokio.spawn(body)),
            Executor::Futures => drop(std::thread::spawn(move || futures::executor::block_on(body))),
            Executor::Host => drop(self.machine.spawn(body)),
            Executor::Parasite => drop(self.machine.spawn(async move { spawn_parasite(body) })),
        }
        ended
    }
}

fn everywhere<E: Ends>(make: impl Fn() -> E) {
    let stage = Stage::new();
    for from in EXECUTORS {
        for to in EXECUTORS {
            let ends = make();
            let producers: Vec<_> = (0..SENDERS)
                .map(|sender| stage.run(from, produce(ends.clone(), sender * MESSAGES)))
                .collect();
            let got = stage.run(to, consume(ends.clone())).recv().expect("stuck, or panicked");
            for producer in producers {
                producer.recv().expect("stuck, or panicked");
            }
            for sender in 0..SENDERS {
                let all = sender * MESSAGES..(sender + 1) * MESSAGES;
                let of: Vec<_> = got.iter().copied().filter(|got| all.contains(got)).collect();
                assert_eq!(of, all.collect::<Vec<_>>(), "{from:?} to {to:?}: lost, doubled, or out of order");
            }
        }
    }
}

fn pair(ends: (Sender<usize>, Receiver<usize>), by: By) -> Pair {
    Pair(ends.0, ends.1, by)
}

#[test]
fn rendezvous() {
    watchdog!();
    everywhere(|| pair(channel(), By::Send));
}

#[test]
fn rendezvous_in_choices() {
    watchdog!();
    everywhere(|| pair(channel(), By::Choice));
}

#[test]
fn bounded_channels() {
    watchdog!();
    everywhere(|| pair(bounded(1), By::Send));
}

#[test]
fn bounded_channels_in_choices() {
    watchdog!();
    everywhere(|| pair(bounded(2), By::Choice));
}

#[test]
fn mailboxes() {
    watchdog!();
    everywhere(|| pair(mailbox(), By::Send));
}

#[test]
fn variables() {
    watchdog!();
    everywhere(|| Variable(MVar::empty()));
}

/// The recipe of the book, in Tokio's `select!`, on each executor. The other branch is
/// asked first, so sends are dropped after their commit.
#[test]
fn select_of_tokio() {
    watchdog!();
    async fn relay(tx: Sender<usize>, ticks: Receiver<()>) {
        let mut queue: VecDeque<_> = (0..500).collect();
        let mut next = queue.pop_front();
        while next.is_some() {
            tokio::select! {
                biased;
                tick = ticks.recv().sync() => tick.unwrap(),
                sent = tx.send_from(&mut next).sync() => sent.unwrap(),
            }
            if next.is_none() {
                next = queue.pop_front();
            }
        }
    }
    let stage = Stage::new();
    for executor in EXECUTORS {
        let ((tx, rx), (tick, ticks)) = (channel(), mailbox());
        let end = stage.run(executor, relay(tx, ticks));
        let mut got = Vec::new();
        while let Ok(number) = rx.recv().sync_blocking() {
            // Both branches are ready when the sender is polled again.
            let _ = tick.try_send(());
            got.push(number);
        }
        end.recv().expect("stuck, or panicked");
        assert_eq!(got, (0..500).collect::<Vec<_>>(), "{executor:?}: lost, or doubled");
    }
}

/// An OS thread that blocks does not drop what it waits for; a time limit says whether
/// it has sent.
#[test]
fn time_limits_on_os_threads() {
    watchdog!();
    let (tx, rx) = channel();
    let sender = std::thread::spawn(move || {
        for number in 0..300 {
            let mut place = Some(number);
            let mut rounds = 0_u64;
            while place.is_some() {
                let limit = std::time::Duration::from_micros(rounds % 20);
                let sent = tx.send_from(&mut place).timeout(limit).sync_blocking();
                assert_eq!(sent.is_some(), place.is_none(), "told the truth");
                rounds += 1;
            }
        }
    });
    let mut got = Vec::new();
    while let Ok(number) = rx.recv().sync_blocking() {
        got.push(number);
    }
    sender.join().unwrap();
    assert_eq!(got, (0..300).collect::<Vec<_>>());
}

/// The place after each end of the event, where nobody else takes part.
#[test]
fn what_a_place_tells() {
    watchdog!();
    let (tx, rx) = bounded(1);
    // An empty place gives nothing, and the branch is never ready.
    let mut empty: Option<u32> = None;
    assert_eq!(tx.send_from(&mut empty).try_sync(), None);
    assert_eq!(choose((tx.send_from(&mut empty), always(Ok(())))).sync_blocking(), Ok(()));
    // An event that nobody synchronizes on leaves the place alone.
    let mut place = Some(1);
    drop(tx.send_from(&mut place));
    assert_eq!(place, Some(1));
    // So does a future that is not polled.
    drop(tx.send_from(&mut place).sync());
    assert_eq!(place, Some(1));
    assert_eq!(tx.send_from(&mut place).try_sync(), Some(Ok(())));
    assert_eq!(place, None);
    // No room: it is back. A loser's message, too.
    place = Some(2);
    assert_eq!(tx.send_from(&mut place).try_sync(), None);
    assert_eq!(choose((tx.send_from(&mut place), always(Err(Closed)))).sync_blocking(), Err(Closed));
    assert_eq!(place, Some(2));
    drop(rx);
    assert_eq!(tx.send_from(&mut place).sync_blocking(), Err(Closed));
    assert_eq!(place, Some(2));
}
