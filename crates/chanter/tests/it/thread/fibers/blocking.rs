//! A fiber that blocks leaves its virtual processor free.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use chanter::prelude::*;
use chanter::{
    fiber, sync as lock,
    sync::{Barrier, MVar, rpc},
};

use crate::common::{alone, machine, millis, watchdog};

/// Blocks `depth` calls down, and uses stack on the way.
#[inline(never)]
fn blocks_at(depth: u64, rx: &Receiver<u64>) -> u64 {
    let ballast = std::hint::black_box([depth; 16]);
    if depth == 0 {
        return rx.recv().sync_blocking().unwrap();
    }
    let below = blocks_at(depth - 1, rx);
    assert_eq!(ballast, [depth; 16], "the stack was disturbed");
    below + 1
}

#[test]
fn a_fiber_blocks_at_any_depth_and_its_processor_goes_on() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel();
        let deep: Vec<_> = (0..20)
            .map(|n| {
                let rx = rx.clone();
                spawn_fiber(move || blocks_at(n * 10, &rx))
            })
            .collect();
        // All of them block at once on this one processor, and we go on.
        for _ in 0..20 {
            tx.send(1000).await.unwrap();
        }
        for (n, fiber) in (0..).zip(deep) {
            assert_eq!(fiber.await.unwrap(), 1000 + n * 10);
        }
    });
}

#[test]
fn every_blocking_operation_suspends_the_fiber_only() {
    watchdog!();
    // One processor: an operation that blocked it would end by the watchdog.
    let machine = machine(1);
    machine.block_on(async {
        let mutex = Arc::new(lock::Mutex::new(0));
        let semaphore = Arc::new(lock::Semaphore::new(0));
        let held = mutex.lock().await;
        let (cell, (tx, rx), (call, served)) = (IVar::new(), channel(), rpc::<u32, u32>());
        let (barrier, mvar) = (Barrier::new(2), MVar::empty());
        let (there, permits) = (mutex.clone(), semaphore.clone());
        let (get, meet, take) = (cell.clone(), barrier.clone(), mvar.clone());
        let fiber = spawn_fiber(move || {
            *there.lock().sync_blocking() += 1;
            assert_eq!(get.get().sync_blocking(), 7);
            drop(permits.acquire().sync_blocking());
            meet.wait().sync_blocking();
            assert_eq!(take.take().sync_blocking(), 3);
            after(millis(1)).sync_blocking();
            assert_eq!(call.call(4).sync_blocking().ok(), Some(8));
            let other = spawn(async {
                yield_now().await;
                5
            });
            assert_eq!(other.join().sync_blocking().unwrap(), 5);
            assert_eq!(choose((rx.recv(), never())).sync_blocking(), Ok("chosen"));
            let six = async {
                yield_now().await;
                6
            };
            assert_eq!(chanter::block_on(six), 6);
            fiber::yield_now();
            "done"
        });
        yield_now().await;
        drop(held);
        yield_now().await;
        cell.put(7).unwrap();
        yield_now().await;
        semaphore.add_permits(1);
        barrier.wait().await;
        mvar.put(3).await;
        let (four, reply) = served.accept().await.unwrap();
        reply.send(2 * four).await.unwrap();
        tx.send("chosen").await.unwrap();
        assert_eq!(fiber.await.unwrap(), "done");
        assert_eq!(*mutex.lock().await, 1);
    });
}

/// A future that blocks inside of its poll, after it has left its waker
/// elsewhere.
struct BlocksInside {
    first: Option<chanter::event::Sync<chanter::channel::IntoRecv<u32>>>,
    second: Receiver<u32>,
}

impl Future for BlocksInside {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: pinned with us.
        let first = unsafe { self.as_mut().map_unchecked_mut(|this| this.first.as_mut().unwrap()) };
        if let Poll::Ready(one) = first.poll(cx) {
            return Poll::Ready(one.unwrap());
        }
        // The wake-up for `first` comes while we are suspended in here.
        let _two = self.second.recv().sync_blocking();
        Poll::Pending
    }
}

#[test]
fn a_wait_inside_of_a_wait_takes_no_wake_up() {
    watchdog!();
    alone(async {
        let ((tx, first), (other, second)) = (channel(), channel());
        let fiber = spawn_fiber(move || {
            chanter::block_on(BlocksInside { first: Some(first.into_recv().sync()), second })
        });
        yield_now().await;
        tx.send(1).await.unwrap();
        yield_now().await;
        other.send(2).await.unwrap();
        assert_eq!(fiber.await.unwrap(), 1);
    });
}

#[test]
fn a_parasite_that_blocks_suspends_the_fiber_below_it() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let ((tx, rx), (done, over)) = (channel::<u32>(), mailbox());
        let fiber = spawn_fiber(move || {
            let told = done.clone();
            spawn_parasite(async move {
                // No await: it blocks where it is.
                let n = rx.recv().sync_blocking().unwrap();
                told.try_send(n).unwrap();
                // An await is as usual: the fiber goes on.
                after(millis(5)).await;
                told.try_send(n + 2).unwrap();
            });
            done.try_send(8).unwrap();
            after(millis(20)).sync_blocking();
        });
        yield_now().await;
        assert!(!fiber.is_determined());
        tx.send(7).await.unwrap();
        let got = [over.recv().await, over.recv().await, over.recv().await];
        assert_eq!(got, [Ok(7), Ok(8), Ok(9)]);
        fiber.await.unwrap();
    });
    assert_eq!(machine.stats().reified, 1);
}

#[test]
fn parasites_are_attached_on_a_fibers_stack() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let (tx, rx) = channel::<usize>();
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let (rx, count) = (rx.clone(), count.clone());
            spawn_parasite(async move {
                count.fetch_add(rx.recv().await.unwrap(), Ordering::Relaxed);
            });
        }
        let seen = count.clone();
        let fiber = spawn_fiber(move || {
            for n in 1..=100 {
                tx.send(n).sync_blocking().unwrap();
                // The parasite has run before we go on.
                assert_eq!(seen.load(Ordering::Relaxed), n * (n + 1) / 2);
            }
        });
        fiber.await.unwrap();
    });
    assert_eq!(machine.stats().attached, 100);
}

#[test]
fn a_fiber_with_endless_work_lets_others_run() {
    watchdog!();
    alone(async {
        let (tx, rx) = bounded(1);
        let stop = IVar::new();
        let stopped = stop.clone();
        let busy = spawn_fiber(move || {
            let mut rounds = 0_u64;
            while stopped.get().try_sync().is_none() {
                tx.send(()).sync_blocking().unwrap();
                rx.recv().sync_blocking().unwrap();
                rounds += 1;
            }
            rounds
        });
        after(millis(5)).await;
        stop.put(()).unwrap();
        assert!(busy.await.unwrap() > 0);
    });
}

#[test]
fn fibers_that_yield_take_turns() {
    watchdog!();
    alone(async {
        let (tx, rx) = mailbox();
        let fibers: Vec<_> = (0..3)
            .map(|who| {
                let tx = tx.clone();
                spawn_fiber(move || {
                    for round in 0..50 {
                        tx.try_send((round, who)).unwrap();
                        fiber::yield_now();
                    }
                })
            })
            .collect();
        drop(tx);
        // So that each begins in its turn, rather than when it is demanded.
        yield_now().await;
        for fiber in fibers {
            fiber.await.unwrap();
        }
        let mut got = Vec::new();
        while let Ok(turn) = rx.recv().await {
            got.push(turn);
        }
        assert_eq!(got.len(), 150);
        // In one of 64 turns a thread of the policy goes before the run-next list.
        let mut rounds = [0; 3];
        for (round, who) in got {
            assert_eq!(rounds[who], round, "each round once, in order");
            rounds[who] += 1;
            let slowest = rounds.iter().min().unwrap();
            assert!(rounds[who] - slowest <= 2, "{who} is ahead: {rounds:?}");
        }
    });
}

/// The waker that a fiber handed out is still counted after a yield.
#[test]
fn a_yield_with_wakers_abroad() {
    watchdog!();
    alone(async {
        let cell = IVar::new();
        let waiting = cell.clone();
        let fiber = spawn_fiber(move || {
            let mut wait = Box::pin(waiting.get().sync());
            // Leaves a waker, and goes on.
            chanter::block_on(std::future::poll_fn(|cx| {
                assert!(wait.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            }));
            for _ in 0..10 {
                fiber::yield_now();
            }
            chanter::block_on(wait)
        });
        for _ in 0..5 {
            yield_now().await;
        }
        cell.put(9).unwrap();
        assert_eq!(fiber.await.unwrap(), 9);
    });
}

/// A demand for the value of a fiber that has not begun runs it at once. It runs on a stack of its own, or on that of
/// a fiber that waits for it alone.
#[test]
fn fibers_steal_and_are_stolen() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        // By an async host.
        let (tx, rx) = channel();
        assert_eq!(spawn_fiber(|| 1).await.unwrap(), 1);
        let sender = spawn(async move { tx.send(2).await });
        assert_eq!(spawn_fiber(move || rx.recv().sync_blocking()).await.unwrap(), Ok(2));
        sender.await.unwrap().unwrap();
        // A fiber steals fibers, hosts that await, and hosts that block. All of them nest on its stack until they
        // wait.
        let outer = spawn_fiber(|| {
            let (tx, rx) = channel::<u32>();
            let (one, two) = (rx.clone(), rx);
            let fiber = spawn_fiber(move || one.recv().sync_blocking().unwrap());
            spawn(async move {
                for n in [10, 20, 30] {
                    yield_now().await;
                    tx.send(n).await.unwrap();
                }
            });
            let first = fiber.join().sync_blocking().unwrap();
            let there = two.clone();
            let host = spawn(async move { there.recv().await.unwrap() });
            let second = host.join().sync_blocking().unwrap();
            let blocks = spawn(async move { two.recv().sync_blocking().unwrap() });
            let third = blocks.join().sync_blocking().unwrap();
            let lazy = delay(async { 7 });
            (first + second + third, lazy.join().sync_blocking().unwrap())
        });
        assert_eq!(outer.await.unwrap(), (60, 7));
    });
    assert!(machine.stats().stolen >= 5, "{:?}", machine.stats());
}
