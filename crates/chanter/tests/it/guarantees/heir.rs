//! A thread's owner waiter: the thread that awaits the handle itself. That is no event, so it is not in the table.

use std::task::Poll;

use chanter::prelude::*;

use super::kit::Kit;
use crate::common::{Wakes, eventually, machine, watchdog};

/// An owner waiter is polled a number of times, served or not, with a new waker each time. Then it goes on, or is
/// dropped.
#[test]
fn an_heir_ends_in_every_way() {
    watchdog!(120);
    machine(1).block_on(async {
        for plan in 0..64 {
            let (before, served, goes_on, late) = (plan % 4, plan & 4 > 0, plan & 8 > 0, plan & 16 > 0);
            let kit = Kit::new(served);
            let (tx, rx) = mailbox();
            let thread = spawn(async move { rx.recv().await });
            let other = thread.join();
            let mut heir = Some(Box::pin(thread.into_future()));
            let mut wakes = Wakes::new();
            for _ in 0..before {
                wakes = Wakes::new();
                let mut cx = std::task::Context::from_waker(&wakes.1);
                assert!(heir.as_mut().unwrap().as_mut().poll(&mut cx).is_pending());
            }
            if served {
                tx.try_send(kit.message()).unwrap();
            }
            if late {
                // The thread ends before the owner waiter is looked at.
                for _ in 0..5 {
                    yield_now().await;
                }
            }
            let mut taken = false;
            if goes_on && served {
                while !taken {
                    yield_now().await;
                    if before == 0 || wakes.0.count() > 0 {
                        let mut cx = std::task::Context::from_waker(&wakes.1);
                        if let Poll::Ready(got) = heir.as_mut().unwrap().as_mut().poll(&mut cx) {
                            assert_eq!(got.unwrap().unwrap().id(), 0);
                            taken = true;
                        }
                    }
                }
            }
            drop(heir.take());
            if served && !taken {
                // The value stays for another.
                assert_eq!(other.await.unwrap().unwrap().id(), 0);
            } else {
                drop((other, tx));
            }
            for _ in 0..100 {
                yield_now().await;
            }
            eventually("the thread has gone", || kit.ledger.live() == 0);
            kit.ledger.check();
        }
    });
}
