//! Fibers leave no memory behind. The test is alone in its process, since it looks at the process's memory.

#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use chanter::fiber;
use chanter::prelude::*;
use common::memory::{flat, resident};
use common::{machine, millis, watchdog};

const KIB: usize = 1024;

/// Uses `kib` KiB of the stack at least.
#[inline(never)]
fn uses(kib: usize) -> usize {
    let page = [kib as u8; KIB];
    let seen = std::hint::black_box(&page)[KIB - 1];
    if kib <= 1 { page.len() } else { uses(kib - 1) + usize::from(seen == kib as u8) }
}

#[test]
fn memory_of_fibers() {
    watchdog!(120);
    idle_processors_give_it_back();
    fibers_leave_nothing();
    ended_fibers_leave_nothing();
}

fn idle_processors_give_it_back() {
    const FIBERS: usize = 2000;
    const TOUCHED: usize = 64 * KIB;
    let machine = machine(1);
    machine.block_on(async {
        let before = resident();
        let (tx, rx) = channel::<()>();
        let fibers: Vec<_> = (0..FIBERS)
            .map(|_| {
                let rx = rx.clone();
                spawn_fiber(move || {
                    uses(TOUCHED / KIB);
                    rx.recv().sync_blocking()
                })
            })
            .collect();
        yield_now().await;
        assert!(resident() > before + FIBERS * TOUCHED, "the stacks are in use");
        for _ in 0..FIBERS {
            tx.send(()).await.unwrap();
        }
        for fiber in fibers {
            fiber.await.unwrap().unwrap();
        }
        // A processor that is idle for a while gives back all but a little.
        let much = || resident() > before + FIBERS * TOUCHED / 8;
        let end = std::time::Instant::now() + common::FOREVER;
        while much() {
            assert!(std::time::Instant::now() < end, "the stacks of ended fibers are still in memory");
            after(millis(60)).await;
        }
        // And they are as good as new.
        assert_eq!(spawn_fiber(|| uses(TOUCHED / KIB)).await.unwrap(), KIB + TOUCHED / KIB - 1);
    });
}

fn fibers_leave_nothing() {
    machine(1).block_on(async {
        // Stacks of several sizes, names, panics and values that nobody takes.
        std::panic::set_hook(Box::new(|_| ()));
        let mut n = 0;
        let mut kept = None;
        flat(20_000, || {
            n += 1;
            let builder = fiber::Builder::new().name(format!("fiber {n}")).stack_size((n % 5) << 15);
            let fiber = builder.spawn(move || {
                fiber::yield_now();
                assert!(n % 16 != 0);
                vec![1_u8; 100]
            });
            // The one before it is joined, or left alone.
            if let Some(before) = kept.replace(fiber)
                && n % 3 == 0
            {
                _ = Event::sync_blocking(Thread::join(&before));
            }
            if n % 16 == 1 {
                chanter::block_on(async { yield_now().await });
            }
        });
        // The default hook may want more stack than the last one has.
        if let Some(last) = kept {
            _ = last.join().await;
        }
        drop(std::panic::take_hook());
    });
}

fn ended_fibers_leave_nothing() {
    flat(300, || {
        let machine = machine(1);
        machine.block_on(async {
            let (_tx, rx) = channel::<()>();
            for _ in 0..20 {
                let rx = rx.clone();
                drop(spawn_fiber(move || {
                    let _ballast = vec![0_u8; 1000];
                    rx.recv().sync_blocking()
                }));
            }
            yield_now().await;
        });
    });
}
