//! Events that borrow their handle, and have no share of their own. Still nothing is lost.

use crate::common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use chanter::prelude::*;
use chanter::{TryRecvError, TrySendError};
use common::{Ledger, machine, watchdog};

#[test]
fn they_meet_each_other_and_those_that_own() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (tx, rx) = channel();
            let producer = spawn(async move {
                for n in 0..2000 {
                    if n % 2 == 0 {
                        tx.send(n).await.unwrap();
                    } else {
                        tx.clone().into_send(n).await.unwrap();
                    }
                }
            });
            for n in 0..2000 {
                let got = if n % 3 == 0 { rx.recv().await } else { rx.clone().into_recv().await };
                assert_eq!(got, Ok(n));
            }
            producer.await.unwrap();
            assert_eq!(rx.recv().await, Err(Closed));
        });
    }
}

#[test]
fn a_choice_of_them_takes_one_message_and_no_more() {
    watchdog!();
    machine(2).block_on(async {
        const EACH: u64 = 1000;
        let receivers: [Receiver<u64>; 4] = std::array::from_fn(|_| {
            let (tx, rx) = channel();
            spawn(async move {
                for n in 0..EACH {
                    if choose((tx.send(n), never())).await.is_err() {
                        break;
                    }
                }
                never::<()>().await
            });
            rx
        });
        let (mut sum, mut timeouts) = (0, 0);
        let mut left = 4 * EACH;
        while left > 0 {
            let [a, b, c, d] = receivers.each_ref();
            let got = choose((
                choose([a.recv(), b.recv()]).wrap(Some),
                choose(vec![c.recv(), d.recv()]).wrap(Some),
                after(common::FOREVER).wrap(|()| None),
            ));
            match got.await {
                Some(message) => {
                    sum += message.unwrap();
                    left -= 1;
                }
                None => timeouts += 1,
            }
        }
        assert_eq!((sum, timeouts), (4 * (EACH * (EACH - 1) / 2), 0));
    });
}

/// A message that was committed to a dropped receive goes back; a dropped send
/// is not sent; and both leave their queues.
#[test]
fn dropped_ones_lose_nothing() {
    watchdog!();
    let mut cx = Context::from_waker(Waker::noop());
    let ledger = Ledger::new();
    let (tx, rx) = channel();
    {
        let mut receive = pin!(rx.recv().sync());
        assert!(receive.as_mut().poll(&mut cx).is_pending());
        tx.try_send(ledger.payload(1)).unwrap();
    }
    assert_eq!(rx.try_recv().unwrap().id, 1);
    {
        let mut receive = pin!(rx.recv().sync());
        assert!(receive.as_mut().poll(&mut cx).is_pending());
    }
    assert!(matches!(tx.try_send(ledger.payload(2)), Err(TrySendError::Full(_))), "nobody receives");
    {
        let mut send = pin!(tx.send(ledger.payload(3)).sync());
        assert!(send.as_mut().poll(&mut cx).is_pending());
    }
    assert!(rx.try_recv().is_err(), "nobody sends");
    {
        let mut lost = pin!(choose((tx.send(ledger.payload(4)), always(Ok(())))).sync());
        assert!(lost.as_mut().poll(&mut cx).is_ready());
    }
    drop(rx);
    let SendError(back) = tx.send(ledger.payload(5)).sync_blocking().unwrap_err();
    assert_eq!(back.id, 5);
    drop(back);
    drop(tx);
    ledger.check();
}

#[test]
fn waiting_ones_are_told_of_the_end() {
    watchdog!();
    let mut cx = Context::from_waker(Waker::noop());
    let (tx, rx) = channel::<u32>();
    let mut receive = pin!(rx.recv().sync());
    assert!(receive.as_mut().poll(&mut cx).is_pending());
    drop(tx);
    assert_eq!(receive.as_mut().poll(&mut cx), Poll::Ready(Err(Closed)));

    let (tx, rx) = channel::<u32>();
    let mut first = Box::pin(rx.recv().sync());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    let mut second = pin!(rx.recv().sync());
    assert!(second.as_mut().poll(&mut cx).is_pending());
    tx.try_send(7).unwrap();
    drop(tx);
    assert!(second.as_mut().poll(&mut cx).is_pending(), "the message may come back");
    drop(first);
    assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
}

/// Memory that was leaked while it was pinned stays: what is left in the queue
/// harms nobody.
#[test]
fn leaked_ones_harm_nobody() {
    watchdog!();
    let mut cx = Context::from_waker(Waker::noop());
    let (tx, rx) = channel::<u32>();
    let mut leaked = Box::pin(rx.recv().sync());
    assert!(leaked.as_mut().poll(&mut cx).is_pending());
    std::mem::forget(leaked);
    assert_eq!(tx.try_send(1), Ok(()), "the leaked receive has it");
    let mut leaked = Box::pin(tx.send(2).sync());
    assert!(leaked.as_mut().poll(&mut cx).is_pending());
    std::mem::forget(leaked);
    drop(rx);
    assert!(tx.is_closed());
    drop(tx);
}

/// Forgotten, it has no share, but the end of the channel gives its waker back.
#[test]
fn leaked_ones_keep_no_waker() {
    watchdog!();
    struct Nothing;
    impl std::task::Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    for senders_first in [false, true] {
        let nothing = Arc::new(Nothing);
        let (tx, rx) = channel::<u32>();
        let mut leaked = Box::pin(rx.recv().sync());
        let waker = Waker::from(Arc::clone(&nothing));
        assert!(leaked.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        std::mem::forget(leaked);
        if senders_first {
            drop(tx);
            drop(rx);
        } else {
            drop(rx);
            drop(tx);
        }
        drop(waker);
        assert_eq!(Arc::strong_count(&nothing), 1);
    }
}

/// Vectors make their branches late: what was not tried is dropped, once, and
/// whatever is tried in vain takes part all the same.
#[test]
fn vectors_drop_what_they_did_not_need() {
    watchdog!();
    for n in [1, 3, 64, 65, 200] {
        for ready in [0, n / 2, n - 1, n] {
            let ledger = Ledger::new();
            let ends: Vec<_> = (0..n).map(|_| bounded(1)).collect();
            // All are full but one, or all.
            for (at, (tx, _)) in ends.iter().enumerate() {
                if at != ready {
                    tx.try_send(ledger.payload(at)).unwrap();
                }
            }
            let sends = ends.iter().enumerate().map(|(at, (tx, _))| tx.send(ledger.payload(1000 + at)));
            let sends = sends.map(|send| send.wrap(|sent| sent.is_ok())).collect::<Vec<_>>();
            if ready < n {
                assert!(choose(sends).sync_blocking());
                assert_eq!(ends[ready].1.try_recv().unwrap().id, 1000 + ready);
            } else {
                // Offered, all of them, then taken by one receive.
                let mut cx = Context::from_waker(Waker::noop());
                let mut choice = pin!(choose(sends).sync());
                assert!(choice.as_mut().poll(&mut cx).is_pending());
                assert_eq!(ends[n / 2].1.try_recv().unwrap().id, n / 2);
                assert_eq!(choice.as_mut().poll(&mut cx), Poll::Ready(true));
                assert_eq!(ends[n / 2].1.try_recv().unwrap().id, 1000 + n / 2);
            }
            drop(ends);
            ledger.check();
        }
    }
    let (_tx, rx) = channel::<u32>();
    assert_eq!(choose(vec![rx.recv(), rx.recv()]).try_sync(), None);
    drop(choose(vec![rx.recv()]).sync());
}

/// The other messages of a choice are dropped, too, if the destructor of one panics.
#[test]
fn a_destructor_that_panics_leaks_no_message() {
    struct Bomb {
        _count: Arc<()>,
        explodes: bool,
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.explodes, "on purpose");
        }
    }
    let (tx, _rx) = channel();
    let count = Arc::new(());
    let sends: Vec<_> = (0..3).map(|n| tx.send(Bomb { _count: count.clone(), explodes: n == 0 })).collect();
    let choice = choose(sends).sync();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(choice))).is_err());
    assert_eq!(Arc::strong_count(&count), 1);
}
