//! A fiber that has not begun runs on the stack of the fiber that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chanter::fiber;
use chanter::prelude::*;

use crate::common::{alone, machine, watchdog};

fn tree(depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let [left, right] = [0, 1].map(|_| fiber::Builder::new().delay(move || tree(depth - 1)));
    left.join().sync_blocking().unwrap() + right.join().sync_blocking().unwrap()
}

#[test]
fn it_takes_no_stack_of_its_own() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let fibers = spawn_fiber(|| {
            let fibers: Vec<_> = (0..200).map(|number| spawn_fiber(move || number)).collect();
            fibers.into_iter().map(|fiber| fiber.join().sync_blocking().unwrap()).sum::<u64>()
        });
        assert_eq!(fibers.await.unwrap(), 19_900);
    });
    let stats = machine.stats();
    assert_eq!((stats.fibers_created, stats.stacks_allocated + stats.stacks_reused), (201, 1));
    assert_eq!(machine.block_on(async { spawn_fiber(|| tree(12)).await.unwrap() }), 4096);
    let after = machine.stats();
    let stacks = after.stacks_allocated + after.stacks_reused - 1;
    assert_eq!((after.fibers_created - stats.fibers_created, stacks), (8191, 1));
}

#[test]
fn it_may_block_there_and_so_does_who_waits() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let ((ask, asked), (tx, rx)) = (channel::<u32>(), channel::<u32>());
        let outer = spawn_fiber(move || {
            let inner = spawn_fiber(move || {
                let twice = |number| {
                    ask.send(number).sync_blocking().unwrap();
                    fiber::yield_now();
                    rx.recv().sync_blocking().unwrap()
                };
                twice(1) + twice(10)
            });
            inner.join().sync_blocking().unwrap() + 100
        });
        for _ in 0..2 {
            let number = asked.recv().await.unwrap();
            tx.send(number * 2).await.unwrap();
        }
        assert_eq!(outer.await.unwrap(), 122);
    });
    assert_eq!(machine.stats().stacks_allocated, 1);
}

#[test]
fn who_waits_for_something_else_too_is_not_held_up() {
    watchdog!();
    alone(async {
        let outer = spawn_fiber(|| {
            let (tx, rx) = channel::<u32>();
            let inner = spawn_fiber(move || rx.recv().sync_blocking().unwrap());
            let late = inner.join().timeout(Duration::from_millis(5)).sync_blocking();
            assert!(late.is_none(), "it blocks on a stack of its own");
            tx.send(3).sync_blocking().unwrap();
            inner.join().sync_blocking().unwrap()
        });
        assert_eq!(outer.await.unwrap(), 3);
        // Nor is what an async block on a fiber does besides.
        let outer = spawn_fiber(|| {
            chanter::block_on(async {
                let (tx, rx) = channel::<u32>();
                let inner = spawn_fiber(move || rx.recv().sync_blocking().unwrap());
                futures::join!(inner.join().sync(), async { tx.send(4).await.unwrap() }).0.unwrap()
            })
        });
        assert_eq!(outer.await.unwrap(), 4);
    });
}

#[test]
fn what_it_demands_itself_is_another_matter() {
    watchdog!();
    alone(async {
        // An async thread that is demanded alone, on a fiber's stack, and there makes a choice among fibers.
        let outer = spawn_fiber(|| {
            let host = spawn(async {
                let (tx, rx) = channel::<u32>();
                let inner = spawn_fiber(move || rx.recv().sync_blocking().unwrap());
                let none =
                    choose((inner.join().wrap(|_| false), after(Duration::from_millis(5)).wrap(|_| true)));
                assert!(none.await);
                tx.send(1).await.unwrap();
                inner.await.unwrap()
            });
            host.join().sync_blocking().unwrap()
        });
        assert_eq!(outer.await.unwrap(), 1);
    });
}

#[test]
fn its_panic_is_its_own() {
    watchdog!();
    alone(async {
        let outer = spawn_fiber(|| {
            let inner = spawn_fiber(|| -> u32 { panic!("as planned") });
            let error = inner.join().sync_blocking().unwrap_err();
            assert!(error.is_panic());
            spawn_fiber(|| 5).join().sync_blocking().unwrap()
        });
        assert_eq!(outer.await.unwrap(), 5);
    });
}

#[test]
fn one_with_a_name_or_a_size_has_its_own() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let outer = fiber::Builder::new().name("outer").spawn(|| {
            let named = fiber::Builder::new().name("inner").spawn(fiber::name);
            assert_eq!(named.join().sync_blocking().unwrap().as_deref(), Some("inner"));
            let sized = fiber::Builder::new().stack_size(1 << 20).spawn(|| ());
            sized.join().sync_blocking().unwrap();
            // One without a name has none, though it is on the stack of one that has.
            let unnamed = spawn_fiber(fiber::name);
            assert_eq!(unnamed.join().sync_blocking().unwrap(), None);
            assert_eq!(fiber::name().as_deref(), Some("outer"));
        });
        outer.await.unwrap();
    });
    let stats = machine.stats();
    assert_eq!(stats.stacks_allocated + stats.stacks_reused, 3);
}

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn it_ends_with_the_fiber_whose_stack_it_has() {
    watchdog!();
    let dropped = Arc::new(AtomicUsize::new(0));
    let machine = machine(1);
    let (tx, rx) = std::sync::mpsc::channel();
    let counts = [(); 3].map(|()| Counts(dropped.clone()));
    machine.block_on(async {
        let (begun, has_begun) = mailbox();
        let outer = spawn_fiber(move || {
            let [one, two, three] = counts;
            let _one = one;
            let inner = spawn_fiber(move || {
                let _two = two;
                begun.try_send(()).unwrap();
                never::<()>().sync_blocking();
                drop(three);
            });
            inner.join().sync_blocking().unwrap();
            unreachable!("the machine ends");
        });
        has_begun.recv().await.unwrap();
        tx.send(outer.join()).unwrap();
    });
    let outer = rx.recv().unwrap();
    let joins = std::thread::spawn(move || outer.sync_blocking());
    drop(machine);
    let error = joins.join().unwrap().unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(dropped.load(Ordering::SeqCst), 3, "what lay on the stack");
}
