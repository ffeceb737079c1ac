//! Sends whose futures are dropped: Chanter's channels beside those of other libraries.
//!
//! A thousand numbers are sent, one after the other, over a channel that has no place free. The sender waits, and the receiver
//! takes what it can. Then the sender's future is dropped before it is polled again. A `select!` does that when another
//! branch is ready. Every second time the future is polled once more instead. A sender that was not told that its number was
//! sent sends it again. The table says how many numbers were lost, how many came more than once, and how many
//! the sender could not get rid of.
//!
//! crossbeam's sends are no futures: one that is given up is one whose time limit has passed, between two OS threads.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Waker};
use std::time::Duration;

use chanter::prelude::*;

const NUMBERS: u32 = 1000;
/// Fills a channel.
const FILLER: u32 = u32::MAX;
/// Attempts for one number, before it counts as stuck.
const ATTEMPTS: usize = 20;

type Wait<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The sending end of a channel, polled by hand.
trait Sends {
    fn send(&mut self, number: u32) -> Wait<'_>;

    /// After a send was dropped: whether it is known to have happened.
    fn has_sent(&self) -> bool {
        false
    }
}

fn is_ready(wait: &mut Wait<'_>) -> bool {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Numbers that did not arrive once.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    lost: usize,
    doubled: usize,
    stuck: usize,
}

/// How often each number was received.
#[derive(Default)]
struct Got(HashMap<u32, usize>);

impl Got {
    fn take_all(&mut self, try_recv: &mut impl FnMut() -> Option<u32>) {
        while let Some(number) = try_recv() {
            *self.0.entry(number).or_default() += 1;
        }
    }

    fn counts(&self, stuck: usize) -> Counts {
        let times = |number| self.0.get(&number).copied().unwrap_or(0);
        Counts {
            lost: (0..NUMBERS).filter(|number| times(*number) == 0).count(),
            doubled: (0..NUMBERS).filter(|number| times(*number) > 1).count(),
            stuck,
        }
    }
}

/// Sends the numbers over a channel with `places` places.
fn play(places: usize, mut tx: impl Sends, mut try_recv: impl FnMut() -> Option<u32>) -> Counts {
    let mut got = Got::default();
    let mut stuck = 0;
    for number in 0..NUMBERS {
        let mut attempts = 0;
        loop {
            for _ in 0..places {
                assert!(is_ready(&mut tx.send(FILLER)), "there was room");
            }
            attempts += 1;
            let mut wait = tx.send(number);
            let mut is_told = is_ready(&mut wait);
            got.take_all(&mut try_recv);
            if !is_told && attempts % 2 == 0 {
                is_told = is_ready(&mut wait);
            }
            drop(wait);
            got.take_all(&mut try_recv);
            if is_told || tx.has_sent() {
                break;
            }
            if attempts == ATTEMPTS {
                stuck += 1;
                break;
            }
        }
    }
    got.counts(stuck)
}

/// `Sender::send` with a copy, since the caller keeps the value.
struct Copies(Sender<u32>);

impl Sends for Copies {
    fn send(&mut self, number: u32) -> Wait<'_> {
        let wait = self.0.send(number).sync();
        Box::pin(async { wait.await.expect("it is open") })
    }
}

/// `Sender::send_from` a place of the caller's.
struct Places(Sender<u32>, Option<u32>);

impl Sends for Places {
    fn send(&mut self, number: u32) -> Wait<'_> {
        let Self(tx, place) = self;
        *place = Some(number);
        Box::pin(async { tx.send_from(place).await.expect("it is open") })
    }

    fn has_sent(&self) -> bool {
        self.1.is_none()
    }
}

struct Tokio(tokio::sync::mpsc::Sender<u32>);

impl Sends for Tokio {
    fn send(&mut self, number: u32) -> Wait<'_> {
        Box::pin(async move { self.0.send(number).await.expect("it is open") })
    }
}

struct AsyncChannel(async_channel::Sender<u32>);

impl Sends for AsyncChannel {
    fn send(&mut self, number: u32) -> Wait<'_> {
        Box::pin(async move { self.0.send(number).await.map(drop).expect("it is open") })
    }
}

struct Flume(flume::Sender<u32>);

impl Sends for Flume {
    fn send(&mut self, number: u32) -> Wait<'_> {
        Box::pin(async move { self.0.send_async(number).await.expect("it is open") })
    }
}

struct Kanal(kanal::AsyncSender<u32>);

impl Sends for Kanal {
    fn send(&mut self, number: u32) -> Wait<'_> {
        Box::pin(async move { self.0.send(number).await.expect("it is open") })
    }
}

/// Sends the numbers between two OS threads. `send` gives up after the limit, and says whether it has sent.
fn between_threads(
    send: impl Fn(u32, Duration) -> bool + Send,
    mut recv: impl FnMut() -> Option<u32>,
) -> Counts {
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            for number in 0..NUMBERS {
                let mut round = 0;
                while !send(number, Duration::from_micros(round % 20)) {
                    round += 1;
                }
            }
        });
        let mut got = Got::default();
        got.take_all(&mut recv);
        sender.join().expect("it sends");
        got.counts(0)
    })
}

pub(crate) fn main() -> ExitCode {
    println!("{:<44} {:>6} {:>8} {:>6}", "", "lost", "doubled", "stuck");
    let say = |name: &str, counts: &Counts| {
        println!("{name:<44} {:>6} {:>8} {:>6}", counts.lost, counts.doubled, counts.stuck);
    };
    let mut is_clean = true;
    for places in [0, 1] {
        let of = |name: &str| format!("{name}, {places} places");
        let (tx, rx) = bounded(places);
        say(&of("chanter, `send` of a copy"), &play(places, Copies(tx), || rx.try_recv().ok()));
        let (tx, rx) = bounded(places);
        let counts = play(places, Places(tx, None), || rx.try_recv().ok());
        say(&of("chanter, `send_from`"), &counts);
        is_clean &= counts == Counts::default();
        let (tx, rx) = flume::bounded(places);
        say(&of("flume"), &play(places, Flume(tx), || rx.try_recv().ok()));
        let (tx, rx) = kanal::bounded_async(places);
        say(&of("kanal"), &play(places, Kanal(tx), || rx.try_recv().ok().flatten()));
    }
    let (tx, mut rx) = tokio::sync::mpsc::channel(1);
    say("tokio, 1 place", &play(1, Tokio(tx), || rx.try_recv().ok()));
    let (tx, rx) = async_channel::bounded(1);
    say("async-channel, 1 place", &play(1, AsyncChannel(tx), || rx.try_recv().ok()));

    for places in [0, 1] {
        let (tx, rx) = crossbeam_channel::bounded(places);
        let send = move |number, limit| tx.send_timeout(number, limit).is_ok();
        say(&format!("crossbeam, a time limit, {places} places"), &between_threads(send, || rx.recv().ok()));
        let (tx, rx) = bounded(places);
        let send = move |number, limit| tx.send(number).timeout(limit).sync_blocking().is_some();
        let counts = between_threads(send, || rx.recv().sync_blocking().ok());
        say(&format!("chanter, a time limit, {places} places"), &counts);
        is_clean &= counts == Counts::default();
    }
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
