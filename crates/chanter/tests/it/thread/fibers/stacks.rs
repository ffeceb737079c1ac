//! Stacks: how many there are, how large they are, and when they go.

use chanter::fiber;
use chanter::prelude::*;

use crate::common::{alone, machine, watchdog};

#[test]
fn a_stack_is_taken_with_the_first_turn_and_used_again_at_once() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let (tx, rx) = channel::<()>();
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let rx = rx.clone();
                spawn_fiber(move || rx.recv().sync_blocking())
            })
            .collect();
        assert_eq!(machine.stats().stacks_allocated, 0);
        yield_now().await;
        assert_eq!(machine.stats().stacks_allocated, 10);
        for _ in 0..10 {
            tx.send(()).await.unwrap();
        }
        for fiber in waiting {
            fiber.await.unwrap().unwrap();
        }
        // A thousand more, one after the other, and then ten at a time.
        for _ in 0..1000 {
            spawn_fiber(|| ()).await.unwrap();
        }
        for _ in 0..100 {
            let fibers: Vec<_> = (0..10).map(|_| spawn_fiber(fiber::yield_now)).collect();
            for fiber in fibers {
                fiber.await.unwrap();
            }
        }
    });
    let stats = machine.stats();
    assert_eq!((stats.fibers_created, stats.stacks_allocated, stats.stacks_reused), (2010, 10, 2000));
    assert!(stats.hosts_created >= 2010);
}

#[inline(never)]
fn uses(kib: usize) -> usize {
    let page = [kib as u8; 1024];
    let seen = std::hint::black_box(&page)[1023];
    if kib <= 1 { page.len() } else { uses(kib - 1) + usize::from(seen == kib as u8) }
}

#[test]
fn a_fiber_has_the_stack_that_it_asked_for() {
    watchdog!();
    alone(async {
        for mib in [1, 4, 16] {
            let deep = fiber::Builder::new().stack_size(mib << 20).spawn(move || uses(mib * 512));
            assert_eq!(deep.await.unwrap(), 1024 + mib * 512 - 1);
        }
        // The smallest there is.
        let small = fiber::Builder::new().stack_size(0).spawn(|| uses(2));
        assert_eq!(small.await.unwrap(), 1025);
    });
}

#[test]
fn a_stack_that_nobody_can_give_is_a_panic() {
    watchdog!();
    alone(async {
        let fiber = fiber::Builder::new().stack_size(1 << 40).spawn(|| ());
        let error = fiber.await.unwrap_err();
        assert!(error.message().is_some_and(|message| message.contains("no stack of 1099511627776 bytes")));
        assert_eq!(spawn_fiber(|| 1).await.unwrap(), 1);
    });
}

/// Each parasite spawns the next one before it returns: as many as fit nest
/// on the fiber's stack, and the rest is queued.
fn nest(depth: u32, done: Sender<u32>) {
    spawn_parasite(async move {
        let ballast = std::hint::black_box([depth; 64]);
        if depth == 0 {
            done.try_send(ballast[0]).unwrap();
        } else {
            nest(depth - 1, done);
        }
    });
}

#[test]
fn parasites_nest_on_a_fibers_stack_within_its_bounds() {
    watchdog!();
    const DEPTH: u32 = 20_000;
    for kib in [16, 128, 256, 1024] {
        let machine = machine(1);
        machine.block_on(async {
            let (tx, rx) = mailbox();
            let fiber = fiber::Builder::new().stack_size(kib << 10).spawn(move || nest(DEPTH, tx));
            fiber.await.unwrap();
            assert_eq!(rx.recv().await, Ok(0));
        });
        let stats = machine.stats();
        assert!(stats.queued > 0, "{DEPTH} of them do not fit into {kib} KiB");
        if kib > 64 {
            assert!(stats.finished_in_place > stats.queued, "{stats:?}");
        }
    }
    // Afterwards the OS thread's own bounds are in force again.
    let machine = machine(1);
    machine.block_on(async {
        let small = fiber::Builder::new().stack_size(0).spawn(|| ());
        small.await.unwrap();
        let before = machine.stats().queued;
        let (tx, rx) = mailbox();
        nest(50, tx);
        assert_eq!(rx.recv().await, Ok(0));
        assert_eq!(machine.stats().queued, before);
    });
}
