//! The cost of waiting, by count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Lock;
use super::counts::{SLEEPS, YIELDS};
use crate::child::succeeds;
use crate::prelude::*;

fn take(counter: &AtomicU64) -> u64 {
    counter.swap(0, Ordering::Relaxed)
}

/// Runs `waits`, which waits for a lock, and drops `held`, which holds it, after the first sleep.
fn wait_long(held: impl Sized, waits: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(waits);
        while SLEEPS.load(Ordering::Relaxed) == 0 {
            let yields = YIELDS.load(Ordering::Relaxed);
            assert!(yields <= 16, "{yields} yields, and the holder may need the processor");
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(held);
    });
    take(&SLEEPS);
    assert!(take(&YIELDS) <= 16);
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn who_waits_long_leaves_the_processor() {
    succeeds("sync::tests::who_waits_long_leaves_the_processor", || {
        let lock = Lock::new(0);
        wait_long(lock.lock(), || *lock.lock() += 1);
        assert_eq!(*lock.lock(), 1);
    });
}

/// Two processors fight for a mailbox, in many runs. `CHANTER_STRESS`: ten times as many.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_mailbox_between_two_processors_costs_few_yields() {
    succeeds("sync::tests::a_mailbox_between_two_processors_costs_few_yields", || {
        const MESSAGES: u64 = 20_000;
        let runs = if std::env::var_os("CHANTER_STRESS").is_some() { 1000 } else { 100 };
        for run in 0..runs {
            let machine = Machine::builder().vps(2).build().expect("a machine");
            machine.block_on(async {
                let (tx, rx) = mailbox();
                let sender = spawn(async move {
                    for number in 0..MESSAGES {
                        tx.send(number).await.expect("it is received");
                    }
                });
                for number in 0..MESSAGES {
                    assert_eq!(rx.recv().await, Ok(number));
                }
                sender.join().await.expect("it has sent all");
            });
            drop(machine);
            let (yields, sleeps) = (take(&YIELDS), take(&SLEEPS));
            // A processor that is preempted in a critical section makes the other wait, but not for each message.
            assert!(yields <= MESSAGES / 10, "run {run}: {yields} yields, {sleeps} sleeps");
        }
    });
}
