//! What the destructors of an OS thread's own values may do: all that others may. Those of this
//! library may be gone by then. A process each, since a panic there ends it.

use crate::common;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};

use chanter::prelude::*;
use chanter::{
    fiber,
    sync::{MVar, Mutex},
};
use common::{apart, eventually, machine, millis};

type Last = Box<dyn FnOnce()>;

/// Runs what was left for it when its OS thread ends.
struct AtTheEnd(RefCell<Option<Last>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Some(last) = self.0.take() {
            last();
        }
    }
}

thread_local! {
    static AT_THE_END: AtTheEnd = const { AtTheEnd(RefCell::new(None)) };
}

/// Uses what this library keeps for an OS thread.
fn touch() {
    let (tx, rx) = channel();
    std::thread::scope(|s| {
        s.spawn(|| after(millis(1)).sync_blocking());
        s.spawn(|| tx.send(1).sync_blocking().unwrap());
        assert_eq!(rx.recv().sync_blocking(), Ok(1));
    });
    chanter::block_on(async { spawn_fiber(|| after(millis(1)).sync_blocking()).await.unwrap() });
}

/// Runs `last` at the end of OS threads: before and after the values of this library are
/// destroyed there.
fn at_the_end<L: FnOnce() + Send + 'static>(last: impl Fn() -> L) {
    for is_early in [false, true] {
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = Arc::clone(&ran);
        let last = last();
        let end = move || {
            AT_THE_END.with(|end| {
                end.0.replace(Some(Box::new(move || {
                    last();
                    runs.fetch_add(1, SeqCst);
                })))
            });
        };
        let ends = std::thread::spawn(move || {
            // Who is first used is destroyed last.
            if is_early {
                touch();
                end();
            } else {
                end();
                touch();
            }
        });
        ends.join().unwrap();
        assert_eq!(ran.load(SeqCst), 1, "early: {is_early}");
    }
}

#[test]
fn a_machine_of_its_own() {
    apart!();
    at_the_end(|| {
        || {
            let sum = Machine::new().unwrap().block_on_local(async {
                let (tx, rx) = channel();
                let host = spawn(async move { tx.send(1).await });
                let local = spawn_local(async { after(millis(1)).await });
                let fiber =
                    fiber::Builder::new().spawn(|| delay(async { 2 }).join().sync_blocking().unwrap());
                spawn_parasite(async { yield_now().await });
                let got = rx.recv().await.unwrap();
                host.await.unwrap().unwrap();
                local.join().await.unwrap();
                got + fiber.await.unwrap()
            });
            assert_eq!(sum, 3);
        }
    });
}

#[test]
fn a_machine_of_others() {
    apart!();
    let machine = Arc::new(machine(2));
    at_the_end(|| {
        let machine = Arc::clone(&machine);
        move || {
            assert_eq!(machine.block_on(async { spawn(async { 1 }).await.unwrap() }), 1);
            assert_eq!(machine.spawn(async { 2 }).join().sync_blocking().unwrap(), 2);
            assert_eq!(machine.scope_blocking(|s| s.spawn(async { 3 }).join().sync_blocking().unwrap()), 3);
        }
    });
    // On the OS thread that drives: its own values end when it has left.
    machine.block_on(async {
        spawn(async {
            AT_THE_END.with(|end| {
                end.0.replace(Some(Box::new(|| {
                    after(millis(1)).sync_blocking();
                })))
            });
        })
        .await
        .unwrap();
    });
}

#[test]
fn events_that_block_the_os_thread() {
    apart!();
    at_the_end(|| {
        || {
            let (tx, rx) = channel();
            let (ours, theirs) = (Mutex::new(0), MVar::new(1));
            std::thread::scope(|s| {
                s.spawn(|| tx.send(1).sync_blocking().unwrap());
                assert_eq!(rx.recv().sync_blocking(), Ok(1));
                s.spawn(|| {
                    let timeout = after(millis(2));
                    timeout.sync_blocking();
                    theirs.take().sync_blocking()
                });
                assert_eq!(theirs.put(2).sync_blocking(), ());
                *ours.lock().sync_blocking() += 1;
            });
            let timeout = after(millis(1)).wrap(|()| None);
            assert_eq!(choose((rx.recv().wrap(Result::ok), timeout)).sync_blocking(), None);
            assert_eq!(choose([never::<()>(), never()]).try_sync(), None);
            drop(tx);
            assert_eq!(rx.recv().sync_blocking(), Err(Closed));
        }
    });
}

/// Handles, wakers and frames that go there.
#[test]
fn what_is_dropped_there() {
    struct Counts(Arc<AtomicUsize>);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    apart!();
    let machine = Arc::new(machine(1));
    at_the_end(|| {
        let machine = Arc::clone(&machine);
        let (tx, rx) = channel::<u32>();
        let waits = machine.spawn(async move { rx.recv().await });
        let delayed = machine.block_on(async { delay(async { 1 }) });
        let finished = machine.spawn(async { String::from("a value that nobody takes") });
        let (held, waker) = mailbox::<Waker>();
        let blocked = machine.spawn(async move {
            let mut first = true;
            std::future::poll_fn(move |cx| {
                if std::mem::take(&mut first) {
                    held.try_send(cx.waker().clone()).unwrap();
                    return std::task::Poll::Pending;
                }
                std::task::Poll::Ready(())
            })
            .await
        });
        let theirs = waker.recv().sync_blocking().unwrap();
        move || {
            let wakes = Arc::new(AtomicUsize::new(0));
            let ours = Waker::from(Arc::new(Counts(Arc::clone(&wakes))));
            let mut joining = Box::pin(waits.join().sync());
            let mut cx = std::task::Context::from_waker(&ours);
            assert!(joining.as_mut().poll(&mut cx).is_pending());
            // Wakes a thread, which completes our offer.
            drop(tx);
            eventually("the join's waker", || wakes.load(SeqCst) == 1);
            assert!(joining.as_mut().poll(&mut cx).is_ready());
            drop((delayed, finished));
            theirs.wake_by_ref();
            drop(theirs);
            blocked.join().sync_blocking().unwrap();
            drop(machine);
        }
    });
}
