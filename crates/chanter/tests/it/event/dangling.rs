//! Nobody writes to the memory of a wait that has been dropped.

use crate::common;

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Barrier;
use std::task::{Context, Waker};

use chanter::prelude::*;
use common::{Random, machine, poll, watchdog};

/// Drops a wait, in place, while another OS thread completes it, and looks
/// whether anybody writes to its memory afterwards.
fn nobody_writes_to_a_dropped_wait<E, C>(rounds: usize, make: impl Fn() -> (E, C))
where
    E: Event,
    C: FnOnce() + Send,
{
    let barrier = &Barrier::new(2);
    let (jobs, todo) = std::sync::mpsc::channel::<C>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Ok(complete) = todo.recv() {
                barrier.wait();
                complete();
                barrier.wait();
            }
        });
        let mut place = Box::new(MaybeUninit::<chanter::event::Sync<E>>::uninit());
        let mut random = Random::new(7);
        for _ in 0..rounds {
            let (event, complete) = make();
            let wait = place.write(event.sync());
            // SAFETY: the place is a box that does not move; the value is
            // dropped in it before it is written again.
            let pending = unsafe { Pin::new_unchecked(&mut *wait) }
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending();
            assert!(pending);
            jobs.send(complete).unwrap();
            barrier.wait();
            (0..random.below(200)).for_each(|_| std::hint::spin_loop());
            let bytes = place.as_mut_ptr().cast::<u8>();
            let size = size_of::<chanter::event::Sync<E>>();
            // SAFETY: initialized above, dropped once; afterwards the memory
            // is plain bytes of ours.
            unsafe {
                place.assume_init_drop();
                for at in 0..size {
                    bytes.add(at).write_volatile(0);
                }
            }
            barrier.wait();
            // SAFETY: the memory is ours, and holds plain bytes since the wait was dropped.
            let touched = (0..size).filter(|at| unsafe { bytes.add(*at).read_volatile() } != 0).count();
            assert_eq!(touched, 0, "a partner wrote to a wait that its owner had freed");
        }
        drop(jobs);
    });
}

#[test]
fn nobody_writes_to_a_dropped_receive() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(20_000, || {
        let (tx, rx) = channel::<u64>();
        (rx.into_recv(), move || tx.try_send(u64::MAX).unwrap_or(()))
    });
}

#[test]
fn nobody_writes_to_a_dropped_choice() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(20_000, || {
        let (tx, rx) = channel::<u64>();
        (choose((rx.clone().into_recv(), rx.clone().into_recv())), move || {
            tx.try_send(u64::MAX).unwrap_or(())
        })
    });
}

#[test]
fn nobody_writes_to_a_dropped_send() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(20_000, || {
        let (tx, rx) = channel::<u64>();
        (tx.into_send(1), move || assert!(rx.try_recv().unwrap_or(1) == 1))
    });
}

#[test]
fn nobody_writes_to_a_dropped_ivar_read() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(50_000, || {
        let ivar = IVar::<u32>::new();
        (ivar.get(), move || ivar.put(1).unwrap())
    });
}

#[test]
fn nobody_writes_to_a_dropped_nack_wait() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(50_000, || {
        let place = Arc::new(std::sync::Mutex::new(None));
        let there = place.clone();
        let mut loser = Box::pin(
            with_nack(move |nack| {
                *there.lock().unwrap() = Some(nack);
                never::<()>()
            })
            .sync(),
        );
        assert!(poll(&mut loser).is_pending());
        let nack = place.lock().unwrap().take().unwrap();
        (nack, move || drop(loser))
    });
}

#[test]
fn nobody_writes_to_a_dropped_join() {
    watchdog!();
    let machine = machine(1);
    nobody_writes_to_a_dropped_wait(10_000, || {
        let (tx, rx) = channel::<()>();
        let thread = machine.spawn(async move { rx.recv().await });
        (thread.join(), move || tx.send(()).sync_blocking().unwrap())
    });
}

#[test]
fn nobody_writes_to_a_dropped_timer() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let mut random = Random::new(3);
        for _ in 0..2000 {
            let wait = Box::pin(after(std::time::Duration::from_micros(random.next() % 200)).sync());
            let mut wait = wait;
            let _ = poll(&mut wait);
            yield_now().await;
            drop(wait);
        }
    });
    nobody_writes_to_a_dropped_wait(2_000, || (after(std::time::Duration::from_micros(100)), || ()));
}
