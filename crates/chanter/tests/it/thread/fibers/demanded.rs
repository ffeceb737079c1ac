//! Fibers that have not begun when another fiber waits for them: each gets a stack of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chanter::fiber;
use chanter::prelude::*;

use crate::common::{alone, machine, until, watchdog};

fn tree(depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let [left, right] = [0, 1].map(|_| fiber::Builder::new().delay(move || tree(depth - 1)));
    left.join().sync_blocking().unwrap() + right.join().sync_blocking().unwrap()
}

#[test]
fn each_has_a_stack_of_its_own_which_the_next_one_gets() {
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
    assert_eq!((stats.fibers_created, stats.stacks_allocated + stats.stacks_reused), (201, 201));
    assert_eq!(stats.stacks_allocated, 2, "who waits, and one after the other");
    assert_eq!(machine.block_on(async { spawn_fiber(|| tree(12)).await.unwrap() }), 4096);
    let after = machine.stats();
    assert_eq!(after.fibers_created - stats.fibers_created, 8191);
    assert_eq!(after.stacks_allocated, 13, "one for each level of the tree");
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
    assert_eq!(machine.stats().stacks_allocated, 2);
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
fn its_name_is_its_own() {
    watchdog!();
    alone(async {
        let outer = fiber::Builder::new().name("outer").spawn(|| {
            let named = fiber::Builder::new().name("inner").spawn(fiber::name);
            assert_eq!(named.join().sync_blocking().unwrap().as_deref(), Some("inner"));
            assert_eq!(spawn_fiber(fiber::name).join().sync_blocking().unwrap(), None);
            assert_eq!(fiber::name().as_deref(), Some("outer"));
        });
        outer.await.unwrap();
    });
}

/// What is asked of it while it blocks, and another fiber waits for it.
#[test]
fn it_is_cancelled_terminated_and_suspended_while_a_fiber_waits_for_it() {
    watchdog!();
    alone(async {
        // A fiber that blocks until it is told, one that has begun to wait for it, and whether its end was seen.
        let pair = || {
            let (tell, told) = channel::<u32>();
            let (begin, begun) = mailbox();
            let dropped = Arc::new(AtomicUsize::new(0));
            let count = Counts(dropped.clone());
            let inner = Arc::new(fiber::Builder::new().delay(move || {
                let _count = count;
                begin.try_send(()).unwrap();
                told.recv().sync_blocking().unwrap()
            }));
            let joined = inner.clone();
            let outer = spawn_fiber(move || joined.join().sync_blocking());
            (tell, begun, dropped, inner, outer)
        };

        let (_tell, begun, dropped, inner, outer) = pair();
        begun.recv().await.unwrap();
        inner.cancel().await.unwrap();
        assert!(outer.await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);

        let (_tell, begun, dropped, inner, outer) = pair();
        begun.recv().await.unwrap();
        inner.terminate(7).await.unwrap();
        assert_eq!(outer.await.unwrap().unwrap(), 7);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);

        let (tell, begun, _dropped, inner, outer) = pair();
        begun.recv().await.unwrap();
        inner.suspend().await.unwrap();
        assert_eq!(inner.activity(), chanter::thread::Activity::Suspended);
        tell.send(8).await.unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!outer.is_determined(), "it is suspended");
        inner.resume();
        assert_eq!(outer.await.unwrap().unwrap(), 8);
    });
}

/// Calls `f` when so many bytes of the stack are in use below `from`.
#[inline(never)]
fn at_depth<R>(from: usize, bytes: usize, f: &dyn Fn() -> R) -> R {
    let frame = std::hint::black_box([0_u8; 256]);
    let result = if from - (&raw const frame).addr() < bytes { at_depth(from, bytes, f) } else { f() };
    std::hint::black_box(&frame);
    result
}

fn here() -> usize {
    let local = 0_u8;
    (&raw const local).addr()
}

/// It needs more room than is left to the one that waits for it, but fits a stack of its own.
#[test]
fn it_has_the_room_of_a_whole_stack_wherever_it_is_demanded() {
    crate::common::apart!();
    const FITS: usize = 200 << 10;
    let demand = || {
        let needs_much = fiber::Builder::new().delay(|| at_depth(here(), FITS, &|| 7));
        needs_much.join().sync_blocking().unwrap()
    };
    alone(async {
        for used in [0, 40 << 10, 100 << 10, 120 << 10, FITS] {
            assert_eq!(spawn_fiber(move || at_depth(here(), used, &demand)).await.unwrap(), 7);
        }
        let small = fiber::Builder::new().stack_size(32 << 10).spawn(demand);
        assert_eq!(small.await.unwrap(), 7);
    });
}

/// An async thread that blocks on the stack of the fiber that waits for it ends with that fiber. This does not go on
/// behind the wait as if it had got a value.
#[test]
fn a_fiber_that_is_ended_does_not_go_on_when_what_it_waits_for_has_ended_with_it() {
    watchdog!();
    alone(async {
        let goes_on = Arc::new(AtomicBool::new(false));
        let dropped = Arc::new(AtomicUsize::new(0));
        let (begin, begun) = mailbox();
        let (went_on, count) = (goes_on.clone(), Counts(dropped.clone()));
        let outer = spawn_fiber(move || {
            let inner = spawn(async move {
                let _count = count;
                begin.try_send(()).unwrap();
                never::<()>().sync_blocking();
            });
            let result = inner.join().sync_blocking();
            went_on.store(true, Ordering::SeqCst);
            result.is_err()
        });
        begun.recv().await.unwrap();
        until("it blocks", || outer.activity() == chanter::thread::Activity::Blocked).await;
        outer.cancel().await.unwrap();
        assert!(outer.await.unwrap_err().is_cancelled());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        assert!(!goes_on.load(Ordering::SeqCst));
    });
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
