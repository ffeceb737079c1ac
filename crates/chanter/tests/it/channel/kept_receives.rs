//! A receive that was polled once, and is kept and not polled: each shape in which
//! users of Tokio met futurelock, with receives in the place of locks.
//!
//! An *event* offers, so one message may be committed to a future that nobody polls. It stays there until that future
//! is polled or dropped: one message for each future that is kept, and no more. Other receivers, which wait or come
//! later, get all messages that follow. They get that one too, when it comes back. A *stream* offers nothing, and
//! holds nothing up.

use crate::common;

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::time::Duration;

use chanter::TryRecvError;
use chanter::prelude::*;
use common::{machine, millis, poll, watchdog};
use futures::future::{Either, join, select};
use futures::stream::{self, FuturesUnordered, StreamExt};

type Next = Pin<Box<dyn Future<Output = u32> + Send>>;

trait Receive: 'static {
    /// A message that it was given is out of reach until it is polled or
    /// dropped.
    const HOLDS: bool;
    fn next(rx: &Receiver<u32>) -> Next;
}

struct ByEvent;

impl Receive for ByEvent {
    const HOLDS: bool = true;
    fn next(rx: &Receiver<u32>) -> Next {
        let receive = rx.clone().into_recv().sync();
        Box::pin(async { receive.await.unwrap() })
    }
}

struct ByStream;

impl Receive for ByStream {
    const HOLDS: bool = false;
    fn next(rx: &Receiver<u32>) -> Next {
        let mut rx = rx.clone();
        Box::pin(async move { rx.next().await.unwrap() })
    }
}

/// Runs a shape for both, on executors of all kinds.
macro_rules! everywhere {
    ($($shape:ident),* $(,)?) => {
        $(#[test]
        fn $shape() {
            watchdog!();
            fn run<R: Receive>() {
                futures::executor::block_on(super::$shape::<R>());
                machine(1).block_on(super::$shape::<R>());
                machine(2).block_on(async { spawn(super::$shape::<R>()).join().await.unwrap() });
                let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
                tokio.block_on(super::$shape::<R>());
            }
            run::<ByEvent>();
            run::<ByStream>();
        })*
    };
}

/// `kept` hold one message each, if they hold any, and nobody polls them while
/// this runs.
async fn others_go_on<R: Receive>(tx: &Sender<u32>, rx: &Receiver<u32>, kept: u32) {
    // One receiver waits already, and one comes later.
    let waits = rx.recv().sync();
    let sends = async { (1..=kept + 2).for_each(|number| tx.try_send(number).unwrap()) };
    let (first, ()) = join(waits, sends).await;
    let second = rx.recv().await;
    let held = if R::HOLDS { kept } else { 0 };
    assert_eq!([first, second], [Ok(held + 1), Ok(held + 2)]);
    for number in 3..=kept + 2 - held {
        assert_eq!(rx.recv().await, Ok(number));
    }
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

/// Asserts that the held messages have come back, in order.
fn came_back<R: Receive>(rx: &Receiver<u32>, kept: u32) {
    let held = if R::HOLDS { kept } else { 0 };
    assert_eq!(std::iter::from_fn(|| rx.try_recv().ok()).collect::<Vec<_>>(), (1..=held).collect::<Vec<_>>());
}

/// `select!` keeps `&mut next`; the body of the other branch receives, too.
async fn select_that_keeps_a_receive<R: Receive>() {
    let (tx, rx) = mailbox();
    let mut kept = R::next(&rx);
    assert!(matches!(select(&mut kept, pin!(after(millis(2)).sync())).await, Either::Right(_)));
    others_go_on::<R>(&tx, &rx, 1).await;
    drop(kept);
    came_back::<R>(&rx, 1);
}

/// The same, and it is polled in the end: it gets what it was given.
async fn the_kept_receive_goes_on<R: Receive>() {
    let (tx, rx) = mailbox();
    let mut kept = R::next(&rx);
    assert!(matches!(select(&mut kept, pin!(after(millis(2)).sync())).await, Either::Right(_)));
    others_go_on::<R>(&tx, &rx, 1).await;
    tx.try_send(9).unwrap();
    assert_eq!(kept.await, if R::HOLDS { 1 } else { 9 });
    assert_eq!(rx.try_recv().ok(), R::HOLDS.then_some(9));
}

/// A set of futures is not asked while one of them is ready.
async fn unordered_receives_that_are_not_asked<R: Receive>() {
    let (tx, rx) = mailbox();
    let mut set: FuturesUnordered<_> = (0..3).map(|_| R::next(&rx)).collect();
    assert!(matches!(select(set.next(), pin!(after(millis(2)).sync())).await, Either::Right(_)));
    others_go_on::<R>(&tx, &rx, 3).await;
    drop(set);
    came_back::<R>(&rx, 3);
}

/// The body of a loop over a buffered stream receives what a buffered future waits
/// for.
async fn buffered_receives_that_are_not_asked<R: Receive>() {
    let (tx, rx) = mailbox();
    let jobs = [true, false].map(|soon| {
        let next = R::next(&rx);
        async move {
            if soon {
                after(millis(2)).await;
                0
            } else {
                next.await
            }
        }
    });
    {
        let mut jobs = pin!(stream::iter(jobs).buffered(2));
        assert_eq!(jobs.next().await, Some(0));
        others_go_on::<R>(&tx, &rx, 1).await;
    }
    came_back::<R>(&rx, 1);
}

/// `join!`: one branch receives, the other keeps the task busy until another receiver has received, or could not.
async fn join_with_a_branch_that_does_not_return<R: Receive>() {
    let (tx, rx) = mailbox();
    let other = rx.clone();
    let long = async {
        let helper = std::thread::spawn(move || {
            tx.try_send(1).unwrap();
            let got = other.recv().timeout(millis(20)).sync_blocking();
            assert_eq!(got, if R::HOLDS { None } else { Some(Ok(1)) });
            tx.try_send(2).unwrap();
        });
        helper.join().unwrap();
    };
    let (got, ()) = join(R::next(&rx), long).await;
    assert_eq!(got, if R::HOLDS { 1 } else { 2 });
}

/// It is moved into a task that never polls it again: as good as leaked. The
/// message that it was given is lost with it; none else is.
async fn moved_into_a_task_that_forgets_it<R: Receive>() {
    let (tx, rx) = mailbox();
    let mut kept = R::next(&rx);
    assert!(poll(&mut kept).is_pending());
    std::thread::spawn(move || {
        futures::executor::block_on(async move {
            let _kept = kept;
            after(Duration::from_secs(5)).await;
            pending::<()>().await;
        });
    });
    others_go_on::<R>(&tx, &rx, 1).await;
}

mod shapes {
    use super::*;

    everywhere! {
        select_that_keeps_a_receive,
        the_kept_receive_goes_on,
        unordered_receives_that_are_not_asked,
        buffered_receives_that_are_not_asked,
        join_with_a_branch_that_does_not_return,
        moved_into_a_task_that_forgets_it,
    }
}
