//! The cost of waiting, by count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::counts::{AGREED, BIASED, HEAVY, SLEEPS, YIELDS};
use super::switches::BIASED_LOCKS;
use super::{BiasedLock, Lock};
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
        let lock = BiasedLock::new(0, 0);
        wait_long(lock.lock(), || *lock.lock() += 1);
        assert_eq!(*lock.lock(), 1);
    });
}

/// Two processors fight for a mailbox, in many runs. `CHANTER_STRESS`: ten times as many.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_mailbox_between_two_processors_costs_few_yields_and_barriers() {
    succeeds("sync::tests::a_mailbox_between_two_processors_costs_few_yields_and_barriers", || {
        const MESSAGES: u64 = 20_000;
        // Each message is sent and received; and a receiver that finds nothing tries twice.
        const ACQUISITIONS: u64 = 4 * MESSAGES;
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
            let [yields, sleeps, biased, agreed, heavy] =
                [&YIELDS, &SLEEPS, &BIASED, &AGREED, &HEAVY].map(take);
            let found = format!(
                "run {run}: {yields} yields, {sleeps} sleeps; {biased} biases, {agreed} given up, {heavy} revoked dearly"
            );
            // A processor that is preempted in a critical section makes the other wait, but not for each message.
            assert!(yields <= MESSAGES / 10, "{found}");
            // A hundred acquisitions earn a bias, and more of them if the last bias was revoked without consent.
            assert!(biased <= 100 + ACQUISITIONS / 100, "{found}");
            assert!(heavy <= 50 + ACQUISITIONS / 400, "{found}");
        }
    });
}

/// INV-ONCE: the lock is biased, is becoming so, or is held beside another.
#[test]
fn an_os_thread_never_has_two_guards_of_a_biased_lock() {
    crate::sync::fence_pair::is_available();
    let locks = [(); 2].map(|()| BiasedLock::new(0, 0));
    let mut refused = 0;
    for round in 0..20_000 {
        let [outer, inner] = &locks;
        let first = outer.lock();
        assert!(outer.try_lock().is_none(), "in round {round}");
        let second = inner.lock();
        assert!(inner.try_lock().is_none() && outer.try_lock().is_none(), "in round {round}");
        // The guards are not dropped in reverse order.
        drop(first);
        assert!(inner.try_lock().is_none(), "in round {round}");
        drop(second);
        drop(inner.try_lock().expect("it is free"));
        if round % 1_000 == 999 {
            let first = outer.lock();
            if first.is_by_bias() {
                let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(outer.lock())));
                refused += usize::from(again.is_err());
            }
        }
    }
    let is_biased = BIASED_LOCKS && crate::sync::fence_pair::is_available_yet() == Some(true);
    assert!(refused > 0 || !is_biased);
}
