//! Chains of threads, each of which holds the last handle of the next one. They go in linear time, and on a stack of
//! any size. Each test has a process of its own, since an overflow ends it.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use chanter::prelude::*;
use common::{apart, machine};

const LENGTH: usize = 1_000_000;

/// Counts those of its kind that were dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Makes a chain: `link` makes a thread that holds what it is given.
fn chain<H>(length: usize, mut link: impl FnMut(Option<H>, Counted) -> H) -> (H, Arc<AtomicUsize>) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut last = None;
    for _ in 0..length {
        last = Some(link(last, Counted(Arc::clone(&dropped))));
    }
    (last.unwrap(), dropped)
}

fn delayed(length: usize) -> (Thread<()>, Arc<AtomicUsize>) {
    chain(length, |next: Option<Thread<()>>, counted| {
        delay(async move {
            drop((next, counted));
        })
    })
}

#[test]
fn delayed_threads_that_nobody_wants() {
    apart!(300);
    machine(1).block_on(async {
        let (chain, dropped) = delayed(LENGTH);
        drop(chain);
        assert_eq!(dropped.load(SeqCst), LENGTH);
    });
}

#[test]
fn delayed_threads_on_a_small_stack() {
    apart!(300);
    machine(1).block_on(async {
        let (chain, dropped) = delayed(LENGTH);
        spawn_fiber(move || drop(chain)).await.unwrap();
        assert_eq!(dropped.load(SeqCst), LENGTH);
    });
}

#[test]
fn delayed_threads_left_to_another_machine() {
    apart!(300);
    let machine = machine(1);
    let (chain, dropped) = machine.block_on(async { delayed(LENGTH) });
    std::thread::spawn(move || drop(chain)).join().unwrap();
    assert_eq!(dropped.load(SeqCst), LENGTH);
}

#[test]
fn delayed_threads_that_end_with_their_machine() {
    apart!(300);
    let machine = machine(1);
    let dropped = machine.block_on(async {
        let (chain, dropped) = delayed(LENGTH);
        spawn(async move {
            let _chain = chain;
            never::<()>().await;
        });
        yield_now().await;
        dropped
    });
    drop(machine);
    assert_eq!(dropped.load(SeqCst), LENGTH);
}

#[test]
fn delayed_threads_that_are_cancelled() {
    apart!(300);
    machine(1).block_on(async {
        let (chain, dropped) = delayed(LENGTH);
        chain.cancel().await.unwrap();
        drop(chain);
        assert_eq!(dropped.load(SeqCst), LENGTH);
    });
}

/// The value of each is the next one.
struct Next {
    _handle: Option<Thread<Next>>,
    _counted: Counted,
}

fn finished() -> (Thread<Next>, Arc<AtomicUsize>) {
    chain(LENGTH, |next, counted| {
        let thread = delay(async move { Next { _handle: next, _counted: counted } });
        assert!(thread.run());
        thread
    })
}

#[test]
fn values_that_nobody_took() {
    apart!(300);
    machine(1).block_on(async {
        let (chain, dropped) = finished();
        while !chain.is_determined() {
            yield_now().await;
        }
        drop(chain);
        assert_eq!(dropped.load(SeqCst), LENGTH);
    });
}

#[test]
fn values_that_outlive_their_machine() {
    apart!(300);
    let machine = machine(1);
    let (chain, dropped) = machine.block_on(async {
        let (chain, dropped) = finished();
        while !chain.is_determined() {
            yield_now().await;
        }
        (chain, dropped)
    });
    drop(machine);
    drop(chain);
    assert_eq!(dropped.load(SeqCst), LENGTH);
}

#[test]
fn payloads_of_panics_that_nobody_saw() {
    apart!(300);
    std::panic::set_hook(Box::new(|_| ()));
    // Each is told of on the standard error.
    const FEW: usize = 100_000;
    machine(1).block_on(async {
        let mut last: Option<Thread<()>> = None;
        for _ in 0..FEW {
            let next = last.take();
            let thread = delay(async move { std::panic::panic_any(next) });
            thread.run();
            last = Some(thread);
        }
        let last = last.unwrap();
        while !last.is_determined() {
            yield_now().await;
        }
        drop(last);
    });
}

#[test]
fn threads_and_channels_in_turn() {
    apart!(300);
    machine(1).block_on(async {
        let (chain, dropped) = chain(LENGTH, |next: Option<Thread<()>>, counted| {
            let (tx, rx) = mailbox();
            let place = IVar::new();
            tx.try_send((next, counted)).ok().unwrap();
            place.put(Arc::new(rx)).ok().unwrap();
            delay(async move {
                drop(place);
            })
        });
        drop(chain);
        assert_eq!(dropped.load(SeqCst), LENGTH);
    });
}

#[test]
fn parasites_that_end() {
    apart!(300);
    machine(1).block_on(async {
        let (chain, dropped) = delayed(LENGTH);
        let (tx, rx) = channel::<()>();
        spawn_parasite(async move {
            let _chain = chain;
            rx.recv().await.unwrap();
        });
        assert_eq!(dropped.load(SeqCst), 0);
        tx.send(()).await.unwrap();
        yield_now().await;
        assert_eq!(dropped.load(SeqCst), LENGTH);
    });
}

/// Nobody waits for what has been put off: deep in a chain a destructor blocks until a thread is gone
/// whose last handle it has just dropped.
#[test]
fn a_destructor_deep_in_a_chain_may_block() {
    struct Blocks;
    impl Drop for Blocks {
        fn drop(&mut self) {
            let (tx, rx) = channel::<()>();
            drop(delay(async move {
                drop(tx);
            }));
            assert_eq!(rx.recv().sync_blocking(), Err(Closed));
        }
    }
    apart!(300);
    let ended = Arc::new(AtomicUsize::new(0));
    let blocking = |count: usize| {
        let mut last: Option<Thread<()>> = None;
        for _ in 0..count {
            let next = last.take();
            let (blocks, counted) = (Blocks, Counted(Arc::clone(&ended)));
            last = Some(delay(async move {
                drop((blocks, counted, next));
            }));
        }
        last
    };
    machine(1).block_on(async {
        drop(blocking(100));
        assert_eq!(ended.load(SeqCst), 100);
        let chain = blocking(100);
        spawn_fiber(move || drop(chain)).await.unwrap();
        assert_eq!(ended.load(SeqCst), 200);
    });
}

/// The same with a machine that has threads which were put off.
#[test]
fn a_machine_may_end_deep_in_a_chain() {
    struct Ends(Option<Machine>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let machine = self.0.take().unwrap();
            let (chain, dropped) = machine.block_on(async { delayed(10) });
            drop(chain);
            drop(machine);
            assert_eq!(dropped.load(SeqCst), 10);
        }
    }
    apart!(300);
    let outer = machine(1);
    let mut last: Option<Thread<()>> = None;
    for _ in 0..40 {
        let next = last.take();
        let ends = Ends(Some(machine(1)));
        last = Some(outer.block_on(async {
            delay(async move {
                drop((ends, next));
            })
        }));
    }
    // Not on a virtual processor: else another OS thread would end the machines.
    drop(last);
}
