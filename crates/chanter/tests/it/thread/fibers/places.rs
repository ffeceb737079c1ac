//! Where fibers run, and that they stay there.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::thread::ThreadId;

use chanter::fiber;
use chanter::prelude::*;

use crate::common::{machine, millis, watchdog};

fn os_thread() -> ThreadId {
    std::thread::current().id()
}

#[test]
fn a_fiber_stays_on_its_os_thread() {
    watchdog!();
    // There are no spare workers: four OS threads.
    let machine = Machine::builder().vps(4).hand_off_after(None).build().unwrap();
    let places: HashSet<_> = machine.block_on(async {
        let mut fibers = Vec::new();
        for n in 0..400_u64 {
            let (tx, rx) = channel();
            // Its partner may be anywhere, and wakes it from there.
            spawn(async move {
                for n in 0..20 {
                    tx.send(n).await.unwrap();
                }
            });
            fibers.push(fiber::Builder::new().on(n as usize % 4).spawn(move || {
                let (place, own) = (os_thread(), Rc::new(n));
                for n in 0..20 {
                    assert_eq!(rx.recv().sync_blocking(), Ok(n));
                    assert_eq!(os_thread(), place, "a fiber moved");
                    if n % 5 == 0 {
                        fiber::yield_now();
                    }
                }
                assert_eq!(*own, n);
                place
            }));
        }
        let mut places = HashSet::new();
        for fiber in fibers {
            places.insert(fiber.await.unwrap());
        }
        places
    });
    assert_eq!(places.len(), 4);
}

#[test]
fn a_fiber_runs_where_it_is_told_to() {
    watchdog!();
    let machine = Machine::builder().vps(3).name("placed").build().unwrap();
    let where_am_i = || {
        after(millis(1)).sync_blocking();
        std::thread::current().name().map(str::to_owned)
    };
    for vp in 1..3 {
        let expected = Some(format!("placed-{vp}"));
        let outside = fiber::Builder::new().on(vp).spawn_in(&machine, where_am_i);
        assert_eq!(outside.join().sync_blocking().unwrap(), expected);
        let inside = machine.block_on(async move { fiber::Builder::new().on(vp).spawn(where_am_i).await });
        assert_eq!(inside.unwrap(), expected);
    }
    let wrong = AssertUnwindSafe(|| drop(fiber::Builder::new().on(3).spawn_in(&machine, || ())));
    assert!(catch_unwind(wrong).is_err());
}

#[test]
fn names_are_known_on_the_fiber() {
    watchdog!();
    let machine = machine(1);
    assert_eq!(fiber::name(), None);
    assert!(!fiber::is_fiber());
    machine.block_on(async {
        assert!(!fiber::is_fiber());
        let named = fiber::Builder::new().name("reader").spawn(|| {
            fiber::yield_now();
            (fiber::name(), fiber::is_fiber())
        });
        let unnamed = spawn_fiber(|| (fiber::name(), fiber::is_fiber()));
        assert_eq!(named.await.unwrap(), (Some("reader".to_owned()), true));
        assert_eq!(unnamed.await.unwrap(), (None, true));
    });
}

/// A worker of virtual processor 0 with fibers does not give it away: they
/// would end.
#[test]
fn block_on_leaves_the_fibers_of_a_worker_alone() {
    watchdog!();
    // One that is late by chance is not late again and again.
    assert!((0..10).any(|_| does_not_wait_for_a_worker_with_fibers()), "it waits for the worker to leave");
}

fn does_not_wait_for_a_worker_with_fibers() -> bool {
    let machine = machine(1);
    let ((tx, rx), begun) = (channel(), IVar::new());
    let told = begun.clone();
    let fiber = machine.spawn_fiber(move || {
        told.put(()).unwrap();
        rx.recv().sync_blocking().unwrap()
    });
    begun.get().sync_blocking();
    let started = std::time::Instant::now();
    // Polled on this OS thread alone; what it spawns runs on the worker.
    let sum = machine.block_on(async move {
        let three = spawn(async { 3 }).await.unwrap();
        tx.send(4).await.unwrap();
        three + fiber.await.unwrap()
    });
    assert_eq!(sum, 7);
    let took = started.elapsed();
    // The fiber has ended: now it leaves.
    machine.block_on_local(async { spawn_local(async {}).join().await }).unwrap();
    took < millis(1500)
}
