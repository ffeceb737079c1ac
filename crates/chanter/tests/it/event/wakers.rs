//! Wakers that change, and wakers that use the operation that calls them.

use crate::common;

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use chanter::prelude::*;
use common::waits::{RECEIVES, Receive, receives};
use common::{Ledger, Payload, Wakes, poll, watchdog};

/// The last waker is the one that is woken, whichever executor it came from.
#[test]
fn wakers_may_change_with_every_poll() {
    watchdog!();
    for at in 0..RECEIVES {
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        let (what, mut receive) = receives(&rx).swap_remove(at);
        let all: Vec<_> = (0..5).map(|_| Wakes::new()).collect();
        for (_, waker) in &all {
            assert!(receive.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        // Old wakers are not kept.
        for (wakes, _) in &all[..4] {
            assert_eq!(Arc::strong_count(wakes), 2, "{what}: an old waker is kept");
        }
        tx.try_send(ledger.payload(1)).unwrap();
        let counts: Vec<_> = all.iter().map(|(wakes, _)| wakes.count()).collect();
        assert_eq!(counts, [0, 0, 0, 0, 1], "{what}");
        assert!(poll(&mut receive).is_ready());
        drop(receive);
        for (wakes, _) in &all {
            assert_eq!(Arc::strong_count(wakes), 2, "{what}: a waker is leaked");
        }
        ledger.check();
    }
}

/// A waker that drops another wait of the same channel, or sends to it.
#[test]
fn wakers_may_use_the_channel() {
    watchdog!();
    struct Meddle(std::sync::Mutex<Option<Receive>>, Sender<Payload>, Arc<Ledger>);
    impl std::task::Wake for Meddle {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            drop(self.1.try_send(self.2.payload(9)));
        }
    }
    let ledger = Ledger::new();
    let (tx, rx) = channel();
    let mut second: Receive = Box::pin(rx.clone().into_recv().sync());
    let mut first = Box::pin(rx.recv().sync());
    let mut third = Box::pin(choose((rx.recv(), never())).sync());
    assert!(poll(&mut second).is_pending());
    let meddle = Arc::new(Meddle(std::sync::Mutex::new(Some(second)), tx.clone(), ledger.clone()));
    let waker = Waker::from(meddle);
    // `second` is first in the queue, but dies in the waker of `first`.
    tx.try_send(ledger.payload(1)).unwrap();
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll(&mut third).is_pending());
    tx.try_send(ledger.payload(2)).unwrap();
    // The first message came back, before the meddler's own.
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(message)) if message.id == 2));
    assert!(matches!(poll(&mut third), Poll::Ready(Ok(message)) if message.id == 1));
    drop((first, third, waker));
    drop((tx, rx));
    ledger.check();
}
