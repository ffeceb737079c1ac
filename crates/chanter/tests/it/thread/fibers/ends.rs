//! How fibers end: with a value, in a panic, with their machine.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::fiber;
use chanter::prelude::*;

use crate::common::{Ledger, alone, eventually, machine, millis, watchdog};

#[test]
fn values_of_all_sizes_and_alignments() {
    watchdog!();
    #[repr(align(128))]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Aligned(u64);
    alone(async {
        assert_eq!(spawn_fiber(|| ()).await.unwrap(), ());
        assert_eq!(spawn_fiber(|| "text".to_owned()).await.unwrap(), "text");
        assert_eq!(spawn_fiber(|| [7_u8; 5000]).await.unwrap(), [7; 5000]);
        let aligned = Aligned(5);
        let fiber = spawn_fiber(move || {
            assert_eq!((&raw const aligned) as usize % 128, 0);
            fiber::yield_now();
            aligned
        });
        assert_eq!(fiber.await.unwrap(), Aligned(5));
        // A closure that does not fit into a frame.
        let large = [3_u8; 10_000];
        let sum = spawn_fiber(move || large.iter().map(|n| u64::from(*n)).sum::<u64>());
        assert_eq!(sum.await.unwrap(), 30_000);
    });
}

#[test]
fn a_panic_is_the_fibers_value() {
    watchdog!();
    let ledger = Ledger::new();
    alone(async {
        for blocks in [false, true] {
            let kept = ledger.payload(1);
            let fiber = spawn_fiber(move || {
                let _kept = kept;
                if blocks {
                    after(millis(1)).sync_blocking();
                }
                panic!("on purpose");
            });
            let error = fiber.join().await.unwrap_err();
            assert_eq!(error.message(), Some("on purpose"));
            assert!(fiber.join().await.unwrap_err().is_taken());
        }
        // The stack is as good as new.
        assert_eq!(spawn_fiber(|| 1).await.unwrap(), 1);
    });
    ledger.check();
}

#[test]
fn a_panic_may_be_caught_on_the_stack() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel();
        let fiber = spawn_fiber(move || {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let n: u32 = rx.recv().sync_blocking().unwrap();
                panic!("{n}");
            }));
            assert_eq!(caught.unwrap_err().downcast_ref::<String>().unwrap(), "1");
            rx.recv().sync_blocking().unwrap()
        });
        tx.send(1).await.unwrap();
        tx.send(2).await.unwrap();
        assert_eq!(fiber.await.unwrap(), 2);
    });
}

/// While a fiber unwinds it cannot be suspended; its processor goes on with
/// others, as for an async host.
#[test]
fn a_destructor_may_block_in_a_panic() {
    watchdog!();
    struct Bye(Sender<&'static str>);
    impl Drop for Bye {
        fn drop(&mut self) {
            self.0.send("bye").sync_blocking().unwrap();
        }
    }
    alone(async {
        let (tx, rx) = channel();
        let fiber = spawn_fiber(move || {
            let _bye = Bye(tx);
            panic!("on purpose");
        });
        assert_eq!(rx.recv().await, Ok("bye"));
        assert!(fiber.await.unwrap_err().is_panic());
    });
}

#[test]
fn its_completion_is_an_event() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel::<u32>();
        let fiber = spawn_fiber(move || rx.recv().sync_blocking());
        let join = fiber.join();
        let patient = choose((fiber.join().wrap(Some), after(millis(2)).wrap(|()| None)));
        assert!(patient.await.is_none());
        tx.send(3).await.unwrap();
        assert_eq!(choose((join.wrap(Some), never())).await.unwrap().unwrap(), Ok(3));
        // Nobody joins this one: it goes on alone.
        let (tx, rx) = channel();
        drop(spawn_fiber(move || tx.send(5).sync_blocking()));
        assert_eq!(rx.recv().await, Ok(5));
    });
}

/// Tells on which OS thread it was dropped.
struct Witness(std::thread::ThreadId, Arc<AtomicUsize>, Rc<Cell<u32>>);

impl Drop for Witness {
    fn drop(&mut self) {
        assert_eq!(self.0, std::thread::current().id(), "dropped on another OS thread");
        self.1.fetch_add(1, Ordering::SeqCst);
        self.2.set(self.2.get() + 1);
    }
}

#[test]
fn the_machines_end_unwinds_fibers_where_they_began() {
    watchdog!();
    const FIBERS: usize = 200;
    for vps in [1, 3] {
        let machine = machine(vps);
        let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ledger = Ledger::new();
        let (keep, rx) = channel::<u32>();
        let fibers: Vec<_> = (0..FIBERS)
            .map(|n| {
                let (rx, begun, dropped, payload) =
                    (rx.clone(), begun.clone(), dropped.clone(), ledger.payload(n));
                machine.spawn_fiber(move || {
                    let (_payload, rc) = (payload, Rc::new(Cell::new(0)));
                    let _witness = Witness(std::thread::current().id(), dropped, rc.clone());
                    begun.fetch_add(1, Ordering::SeqCst);
                    // Half of them wait in a choice.
                    if n % 2 == 0 {
                        choose((rx.recv(), never())).sync_blocking().unwrap()
                    } else {
                        rx.recv().sync_blocking().unwrap()
                    }
                })
            })
            .collect();
        eventually("all begin", || begun.load(Ordering::SeqCst) == FIBERS);
        drop(machine);
        assert_eq!(dropped.load(Ordering::SeqCst), FIBERS);
        ledger.check();
        for fiber in fibers {
            assert!(fiber.join().sync_blocking().unwrap_err().is_cancelled());
        }
        // Their offers have gone with them.
        assert!(keep.try_send(1).is_err());
    }
}

/// Others wake fibers while the machine ends: each is woken or ended, and no
/// message is lost.
#[test]
fn the_machines_end_races_with_wakes() {
    watchdog!();
    for round in 0..60 {
        let machine = machine(1 + round % 3);
        let ledger = Ledger::new();
        let (tx, rx) = bounded(1);
        let fibers: Vec<_> = (0..40)
            .map(|_| {
                let rx = rx.clone();
                machine.spawn_fiber(move || {
                    while let Ok(payload) = rx.recv().sync_blocking() {
                        drop(payload);
                        fiber::yield_now();
                    }
                })
            })
            .collect();
        drop(rx);
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let (tx, ledger) = (tx.clone(), ledger.clone());
                std::thread::spawn(move || {
                    let mut sent = 0;
                    // Until the last fiber, and with it the channel, is gone.
                    while tx.send(ledger.payload(sent)).sync_blocking().is_ok() {
                        sent += 1;
                    }
                })
            })
            .collect();
        drop(tx);
        std::thread::sleep(std::time::Duration::from_micros(50 * (round as u64 % 20)));
        drop(machine);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        for fiber in fibers {
            assert!(fiber.join().sync_blocking().unwrap_err().is_cancelled());
        }
        ledger.check();
    }
}

#[test]
fn block_on_ends_the_fibers_that_began_on_its_os_thread() {
    watchdog!();
    let machine = machine(1);
    let ledger = Ledger::new();
    let (_keep, rx) = channel::<u32>();
    let (waits, never_ran) = machine.block_on(async {
        let payload = ledger.payload(0);
        let waits = spawn_fiber(move || {
            let _payload = payload;
            rx.recv().sync_blocking()
        });
        yield_now().await;
        assert!(!waits.is_determined());
        // This one has not begun: it is an ordinary host, and stays.
        (waits, spawn_fiber(|| 6))
    });
    assert!(waits.join().sync_blocking().unwrap_err().is_cancelled());
    ledger.check();
    assert_eq!(machine.block_on(never_ran).unwrap(), 6);
}

#[test]
fn a_fiber_that_never_began_only_drops_its_closure() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
    let payload = ledger.payload(0);
    // The processor is held until the machine closes.
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let held = IVar::new();
    let told = held.clone();
    drop(machine.spawn(async move {
        told.put(()).unwrap();
        gate.recv().unwrap();
    }));
    held.get().sync_blocking();
    let fiber = machine.spawn_fiber(move || {
        let _payload = payload;
        unreachable!("the machine ends before");
    });
    let stats = machine.stats();
    let closer = std::thread::spawn(move || drop(machine));
    std::thread::sleep(millis(50));
    open.send(()).unwrap();
    closer.join().unwrap();
    assert!(fiber.join().sync_blocking().unwrap_err().is_cancelled());
    ledger.check();
    assert_eq!((stats.fibers_created, stats.stacks_allocated), (1, 0));
}

#[test]
fn whoever_catches_the_end_is_told_again() {
    watchdog!();
    let (tries, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let machine = machine(1);
    let (_keep, rx) = channel::<u32>();
    let (count, ended) = (tries.clone(), over.clone());
    let fiber = machine.block_on(async {
        let fiber = spawn_fiber(move || {
            for _ in 0..3 {
                let caught = catch_unwind(AssertUnwindSafe(|| rx.recv().sync_blocking()));
                assert!(caught.is_err());
                count.fetch_add(1, Ordering::SeqCst);
            }
            // A parasite on our stack catches it too, and says nothing.
            let parasite = rx.clone();
            spawn_parasite(async move { _ = parasite.recv().sync_blocking() });
            ended.fetch_add(1, Ordering::SeqCst);
            fiber::yield_now();
            ended.fetch_add(10, Ordering::SeqCst);
        });
        yield_now().await;
        fiber
    });
    assert_eq!((tries.load(Ordering::SeqCst), over.load(Ordering::SeqCst)), (3, 1));
    assert!(fiber.join().sync_blocking().unwrap_err().is_cancelled());
}

#[test]
fn a_fiber_may_be_ended_in_the_middle_of_a_parasite() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = machine(1);
    let (_keep, rx) = channel::<u32>();
    let (one, two) = (ledger.payload(1), ledger.payload(2));
    let reached = Arc::new(AtomicUsize::new(0));
    let count = reached.clone();
    machine.block_on(async {
        drop(spawn_fiber(move || {
            let (_one, parasite) = (one, rx.clone());
            spawn_parasite(async move {
                let _two = two;
                parasite.recv().sync_blocking().unwrap();
                unreachable!("nobody sends");
            });
            // The parasite has unwound; so does the next thread that blocks.
            count.fetch_add(1, Ordering::SeqCst);
            rx.recv().sync_blocking().unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }));
        yield_now().await;
        assert_eq!(reached.load(Ordering::SeqCst), 0);
    });
    assert_eq!(reached.load(Ordering::SeqCst), 1);
    ledger.check();
    // The stack came back, and the processor is in order.
    let before = machine.stats();
    assert_eq!(machine.block_on(async { spawn_fiber(|| 2).await }).unwrap(), 2);
    assert_eq!(machine.stats().stacks_allocated, before.stacks_allocated);
}
