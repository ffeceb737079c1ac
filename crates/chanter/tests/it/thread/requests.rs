//! Requests that one thread makes to another, and speculation.

use crate::common;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    sync::CVar,
    thread::{Activity, Progress, Refused, Request, speculate},
};
use common::{machine, until_blocked};

fn on_machines(body: impl AsyncFn()) {
    for vps in [1, 2] {
        machine(vps).block_on_local(body());
    }
}

/// A thread that does not end before the gate is opened.
fn gated(gate: &CVar) -> Thread<u32> {
    let gate = gate.clone();
    spawn(async move {
        gate.wait().await;
        1
    })
}

/// Sets a flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_blocked_thread_ends_with_the_value_that_it_is_given() {
    on_machines(async || {
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&dropped));
        let thread = spawn(async move {
            let _flag = flag;
            pending::<String>().await
        });
        until_blocked(&thread).await;
        thread.terminate("given".to_owned()).await.unwrap();
        assert!(thread.is_determined() && dropped.load(Ordering::SeqCst));
        assert_eq!(thread.activity(), Activity::Terminated);
        let refused = thread.terminate("too late".to_owned()).await.unwrap_err();
        assert!(refused.is_determined());
        assert_eq!(refused.into_value(), "too late");
        assert_eq!(thread.await.unwrap(), "given");
    });
}

#[test]
fn large_bodies_and_values_end_early_too() {
    on_machines(async || {
        let large = [7u64; 700];
        let thread = spawn(async move {
            pending::<()>().await;
            large
        });
        thread.terminate([8; 700]).await.unwrap();
        assert_eq!(thread.await.unwrap(), [8; 700]);
    });
}

#[test]
fn a_delayed_thread_ends_without_having_run() {
    on_machines(async || {
        let ran = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&ran);
        let thread = delay(async move {
            note.store(true, Ordering::SeqCst);
            1
        });
        thread.terminate(2).await.unwrap();
        assert_eq!(thread.await.unwrap(), 2);
        assert!(!ran.load(Ordering::SeqCst));
    });
}

#[test]
fn cancelled_threads_say_so_to_those_who_wait() {
    on_machines(async || {
        let thread = spawn(pending::<u32>());
        let waiter = {
            let join = thread.join();
            spawn(async move { join.await.unwrap_err().is_cancelled() })
        };
        until_blocked(&waiter).await;
        thread.cancel().await.unwrap();
        assert!(waiter.await.unwrap());
    });
}

#[test]
fn terminating_enables_nacks_and_withdraws_offers() {
    on_machines(async || {
        let (tx, rx) = channel::<u32>();
        let told = CVar::new();
        let tell = told.clone();
        let thread = spawn(async move {
            let abandoned = with_nack(move |nack| {
                spawn(async move {
                    nack.await;
                    tell.set();
                });
                chanter::never::<()>()
            });
            choose((tx.send(1).wrap(|_| ()), abandoned)).await;
        });
        // One that is cancelled before it has run abandons nothing.
        until_blocked(&thread).await;
        thread.cancel().await.unwrap();
        told.wait().await;
        // The sender is gone with the thread, and so is its offer.
        assert_eq!(rx.recv().await, Err(Closed));
    });
}

#[test]
fn a_suspended_thread_keeps_what_it_gets_and_goes_on() {
    on_machines(async || {
        let (tx, rx) = mailbox::<u32>();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let thread = spawn(async move {
            while let Ok(n) = rx.recv().await {
                count.fetch_add(n as usize, Ordering::SeqCst);
            }
        });
        until_blocked(&thread).await;
        thread.suspend().await.unwrap();
        assert_eq!(thread.activity(), Activity::Suspended);
        for n in 1..=100 {
            tx.send(n).await.unwrap();
        }
        after(Duration::from_millis(5)).await;
        assert_eq!(seen.load(Ordering::SeqCst), 0, "it is suspended");
        assert!(thread.resume());
        assert!(!thread.resume(), "nothing is left to resume");
        drop(tx);
        thread.await.unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 5050);
    });
}

#[test]
fn a_suspension_has_an_end() {
    on_machines(async || {
        let gate = CVar::new();
        let thread = gated(&gate);
        let begin = Instant::now();
        thread.suspend_for(Duration::from_millis(20)).await.unwrap();
        let is_suspended = thread.activity() == Activity::Suspended;
        assert!(is_suspended || begin.elapsed() >= Duration::from_millis(20));
        gate.set();
        assert_eq!(thread.await.unwrap(), 1);
        assert!(begin.elapsed() >= Duration::from_millis(20));
    });
}

#[test]
fn suspend_then_resume_always_leaves_it_running() {
    on_machines(async || {
        for _ in 0..200 {
            let thread = spawn(async {
                yield_now().await;
                1
            });
            let request = thread.suspend();
            thread.resume();
            match request.await {
                Ok(()) => (),
                Err(refused) => assert!(refused.is_withdrawn() || refused.is_determined()),
            }
            assert_eq!(thread.await.unwrap(), 1);
        }
    });
}

#[test]
fn a_blocked_thread_waits_for_its_condition() {
    on_machines(async || {
        let (open, gate) = channel::<()>();
        let may_end = CVar::new();
        let thread = gated(&may_end);
        let request = thread.block(gate.into_recv().wrap(|_| ()));
        request.await.unwrap();
        may_end.set();
        assert_eq!(thread.activity(), Activity::Blocked);
        assert!(!thread.is_determined());
        open.send(()).await.unwrap();
        assert_eq!(thread.await.unwrap(), 1);
    });
}

#[test]
fn a_condition_that_panics_counts_as_holding() {
    on_machines(async || {
        let gate = CVar::new();
        let thread = gated(&gate);
        thread.block(async { panic!("on purpose") }).await.unwrap();
        gate.set();
        assert_eq!(thread.await.unwrap(), 1);
    });
}

/// The total order: terminate >= suspend >= block.
#[test]
fn stronger_requests_prevail() {
    machine(1).block_on(async {
        let thread = spawn(pending::<u32>());
        yield_now().await;
        // None is taken before we block: there is one virtual processor.
        let block = thread.block(pending());
        let suspend = thread.suspend();
        let end = thread.terminate(1);
        let late = thread.suspend();
        let second = thread.terminate(2);
        assert!(block.await.unwrap_err().is_overruled());
        assert!(suspend.await.unwrap_err().is_overruled());
        assert!(late.await.unwrap_err().is_overruled());
        let second = second.await.unwrap_err();
        assert!(second.is_overruled());
        assert_eq!(second.into_value(), 2);
        end.await.unwrap();
        assert_eq!(thread.await.unwrap(), 1);
        // A suspended thread is not made to block; it may be made to end.
        let thread = spawn(pending::<u32>());
        thread.suspend().await.unwrap();
        assert!(thread.block(pending()).await.unwrap_err().is_overruled());
        thread.suspend_for(Duration::from_secs(3600)).await.unwrap();
        thread.terminate(3).await.unwrap();
        assert_eq!(thread.await.unwrap(), 3);
    });
}

#[test]
fn delayed_threads_take_requests_when_they_are_demanded() {
    on_machines(async || {
        let thread = delay(async { 1 });
        let request = thread.suspend_for(Duration::from_millis(5));
        assert_eq!(thread.progress(), Progress::Delayed);
        let begin = Instant::now();
        assert_eq!(thread.await.unwrap(), 1);
        assert!(begin.elapsed() >= Duration::from_millis(5));
        request.await.unwrap();
        // One that dies delayed refuses.
        let thread = delay(async { 1 });
        let request = thread.suspend();
        drop(thread);
        assert!(request.await.unwrap_err().is_determined());
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn fibers_are_asked_likewise() {
    on_machines(async || {
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&dropped));
        let (tx, rx) = channel::<u32>();
        let fiber = spawn_fiber(move || {
            let _flag = flag;
            let first = rx.recv().sync_blocking().unwrap();
            first + rx.recv().sync_blocking().unwrap()
        });
        tx.send(1).await.unwrap();
        fiber.suspend().await.unwrap();
        assert_eq!(fiber.activity(), Activity::Suspended);
        fiber.resume();
        fiber.terminate(9).await.unwrap();
        assert!(dropped.load(Ordering::SeqCst), "its stack was unwound");
        assert_eq!(fiber.await.unwrap(), 9);
        assert!(tx.send(2).await.is_err());
    });
}

#[test]
fn the_end_of_the_machine_answers() {
    let machine = machine(1);
    let (thread, request): (_, Request<u32>) = machine.block_on(async {
        let thread = spawn(pending::<u32>());
        yield_now().await;
        let request = thread.terminate(5);
        (thread, request)
    });
    drop(machine);
    // Granted by a worker meanwhile, or refused by the end.
    match request.sync_blocking() {
        Ok(()) => assert_eq!(thread.join().sync_blocking().unwrap(), 5),
        Err(refused) => assert_eq!(refused.into_value(), 5),
    }
}

#[test]
fn the_first_success_wins_and_the_others_end() {
    on_machines(async || {
        let ended = Arc::new(AtomicUsize::new(0));
        struct Count(Arc<AtomicUsize>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let mut threads = Vec::new();
        for index in 0..8 {
            let count = Count(Arc::clone(&ended));
            threads.push(spawn(async move {
                let _count = count;
                match index {
                    5 => after(Duration::from_millis(2)).await,
                    3 => panic!("on purpose"),
                    _ => pending().await,
                }
                index * 10
            }));
        }
        assert_eq!(speculate(threads).await.unwrap(), (5, 50));
        while ended.load(Ordering::SeqCst) < 8 {
            yield_now().await;
        }
    });
}

#[test]
fn a_speculation_that_is_dropped_ends_its_threads() {
    on_machines(async || {
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&dropped));
        let speculation = speculate([delay(async move {
            let _flag = flag;
            pending::<()>().await
        })]);
        yield_now().await;
        drop(speculation);
        while !dropped.load(Ordering::SeqCst) {
            yield_now().await;
        }
        let none: [chanter::Thread<()>; 0] = [];
        assert!(speculate(none).await.unwrap_err().is_cancelled());
        let failed = speculate([spawn(async { panic!("on purpose") })]);
        let result: Result<(usize, ()), _> = failed.await;
        assert!(result.unwrap_err().is_panic());
    });
}

/// Requests of all kinds, from several threads, at threads that talk: each is
/// answered once, and every thread ends.
#[test]
fn a_storm_of_requests_is_answered() {
    let rounds = std::env::var("CHANTER_STRESS_ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    for vps in [1, 2, 4] {
        machine(vps).block_on(async {
            for round in 0..rounds {
                storm(round).await;
            }
        });
    }
}

async fn storm(seed: u64) {
    let (tx, rx) = channel::<u64>();
    let mut threads = Vec::new();
    for n in 0..4u64 {
        let (tx, rx) = (tx.clone(), rx.clone());
        threads.push(Arc::new(spawn(async move {
            let mut sum = 0;
            for k in 0..50 {
                choose((tx.send(k).wrap(|_| 0), rx.recv().wrap(|got| got.unwrap_or(0)))).await;
                sum += k;
                if k % 8 == n {
                    yield_now().await;
                }
            }
            sum
        })));
    }
    drop((tx, rx));
    let answers = Arc::new(AtomicUsize::new(0));
    let mut askers = Vec::new();
    for asker in 0..3u64 {
        let threads = threads.clone();
        let answers = Arc::clone(&answers);
        askers.push(spawn(async move {
            let mut x = (seed * 31 + asker) * 0x9E37_79B9 + 1;
            for _ in 0..40 {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let thread = &threads[(x % 4) as usize];
                let request = match (x >> 8) % 5 {
                    0 => thread.suspend(),
                    1 => thread.suspend_for(Duration::from_micros(50)),
                    2 => thread.block(yield_now()),
                    3 if (x >> 16).is_multiple_of(8) => thread.cancel(),
                    _ => {
                        thread.resume();
                        yield_now().await;
                        continue;
                    }
                };
                if (x >> 20).is_multiple_of(2) {
                    thread.resume();
                }
                let _: Result<(), Refused> = request.await;
                answers.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for asker in askers {
        asker.await.unwrap();
    }
    for thread in &threads {
        // One is left alone at last, with nobody to talk to.
        thread.resume();
        drop(thread.terminate(0).await);
        let _: Result<u64, JoinError> = thread.join().await;
    }
}

#[test]
fn delayed_threads_run_where_they_are_told_to() {
    let machine = machine(3);
    let index = || chanter::current_vp().map(|vp| vp.index());
    machine.block_on(async {
        // Nobody steals from a processor that sleeps: it is the one to run it.
        let thread = delay(async move { index() });
        assert!(thread.run_on(2));
        assert!(!thread.run_on(1), "it is delayed no more");
        while !thread.is_determined() {
            after(Duration::from_millis(1)).await;
        }
        assert!(thread.await.unwrap().is_some());
        let thread = spawn(pending::<()>());
        thread.suspend().await.unwrap();
        assert!(thread.run(), "a suspended thread is run, too");
        thread.cancel().await.unwrap();
    });
    let thread = machine.block_on(async { delay(async { 1 }) });
    assert!(thread.run_on(1), "from outside");
    assert_eq!(thread.join().sync_blocking().unwrap(), 1);
}

#[test]
fn local_threads_are_asked_likewise() {
    machine(1).block_on_local(async {
        let thread = spawn_local(async { std::rc::Rc::new(1) });
        thread.suspend().await.unwrap();
        assert_eq!(thread.activity(), Activity::Suspended);
        assert!(thread.resume());
        assert_eq!(*thread.join().await.unwrap(), 1);
        let thread = spawn_local(pending::<()>());
        thread.suspend_for(Duration::from_secs(3600)).await.unwrap();
        thread.cancel().await.unwrap();
        assert!(thread.join().await.unwrap_err().is_cancelled());
    });
}
