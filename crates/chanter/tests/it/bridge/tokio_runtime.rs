//! Futures that need Tokio: as events, and polled in place with the runtime entered.

#![cfg(all(feature = "tokio", not(miri)))]

use crate::common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    TryRecvError,
    bridge::tokio::{RUNTIME, entered, handle, on_runtime, on_tokio, shared_handle},
};
use common::{machine, until_blocked, watchdog};
use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// Says, when it is dropped, whether a runtime was at hand.
struct Leaves(Sender<bool>);

impl Drop for Leaves {
    fn drop(&mut self) {
        let _ = self.0.try_send(Handle::try_current().is_ok());
    }
}

/// A future that reports its begin and then never ends, with receivers for its begin and for how it was dropped.
fn endless() -> (impl Future<Output = ()> + Send, Receiver<()>, Receiver<bool>) {
    let ((began, begins), (left, leaves)) = (mailbox(), mailbox());
    let leaves_us = Leaves(left);
    let future = async move {
        let _leaves_us = leaves_us;
        began.try_send(()).unwrap();
        std::future::pending().await
    };
    (future, begins, leaves)
}

#[test]
fn the_output_is_the_value_wherever_one_waits() {
    async fn answer() -> u32 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::spawn(async { 42 }).await.unwrap()
    }
    machine(1).block_on(async {
        assert_eq!(on_tokio(answer()).await.unwrap(), 42);
        assert_eq!(spawn(on_tokio(answer())).await.unwrap().unwrap(), 42);
        assert_eq!(spawn_fiber(|| on_tokio(answer()).sync_blocking()).await.unwrap().unwrap(), 42);
        let (tx, rx) = channel();
        spawn_parasite(async move { tx.send(on_tokio(answer()).await.unwrap()).await });
        assert_eq!(rx.recv().await, Ok(42));
    });
    assert_eq!(on_tokio(answer()).sync_blocking().unwrap(), 42);
    let runtime = runtime(1);
    assert_eq!(runtime.block_on(on_runtime(runtime.handle(), answer()).sync()).unwrap(), 42);
}

#[test]
fn the_shared_runtime_has_one_thread() {
    let here = || async { std::thread::current().name().unwrap().to_owned() };
    let both = (on_tokio(here()).sync_blocking().unwrap(), on_tokio(here()).sync_blocking().unwrap());
    assert_eq!(both, ("chanter-tokio".to_owned(), "chanter-tokio".to_owned()));
    assert_eq!(shared_handle().metrics().num_workers(), 1);
}

#[test]
fn a_panic_is_a_value_that_knows_its_place() {
    machine(1).block_on(async {
        let error = on_tokio(async { panic!("no such host") }).await.unwrap_err();
        assert!(error.is_panic());
        let text = error.to_string();
        assert!(text.contains("no such host") && text.contains("tokio_runtime.rs"), "{text}");
    });
}

#[test]
fn a_runtime_that_shuts_down_cancels() {
    let runtime = runtime(1);
    let handle = runtime.handle().clone();
    let (future, begins, leaves) = endless();
    let end = on_runtime(&handle, future);
    let error = std::thread::scope(|s| {
        let waits = s.spawn(|| end.sync_blocking().unwrap_err());
        begins.recv().sync_blocking().unwrap();
        drop(runtime);
        waits.join().unwrap()
    });
    assert!(error.is_cancelled());
    leaves.recv().sync_blocking().unwrap();
    let late = on_runtime(&handle, async { 1 }).sync_blocking();
    assert!(late.unwrap_err().is_cancelled());
}

#[test]
fn an_event_that_nobody_synchronizes_on_begins_nothing() {
    let (future, begins, leaves) = endless();
    drop(on_tokio(future));
    assert_eq!(leaves.try_recv(), Ok(false)); // Here, where no runtime is.
    assert_eq!(begins.recv().sync_blocking(), Err(Closed));
}

#[test]
fn a_loser_is_aborted() {
    let (future, begins, leaves) = endless();
    let winner = begins.recv().wrap(|began| assert_eq!(began, Ok(())));
    choose((on_tokio(future).wrap(Result::unwrap), winner)).sync_blocking();
    assert_eq!(leaves.recv().sync_blocking(), Ok(true));
}

#[test]
fn a_loser_is_aborted_though_the_synchronization_is_kept() {
    let (future, begins, leaves) = endless();
    let winner = begins.recv().wrap(|began| assert_eq!(began, Ok(())));
    let mut kept = pin!(choose((on_tokio(future).wrap(Result::unwrap), winner)).sync());
    futures::executor::block_on(kept.as_mut());
    assert_eq!(leaves.recv().sync_blocking(), Ok(true));
}

#[test]
fn a_synchronization_that_is_dropped_aborts() {
    let (future, begins, leaves) = endless();
    let mut waits = Box::pin(on_tokio(future).sync());
    assert!(waits.as_mut().now_or_never().is_none());
    begins.recv().sync_blocking().unwrap();
    drop(waits);
    assert_eq!(leaves.recv().sync_blocking(), Ok(true));
}

#[test]
fn to_try_aborts_what_is_not_ready() {
    let (future, _begins, leaves) = endless();
    assert!(on_tokio(future).try_sync().is_none());
    leaves.recv().sync_blocking().unwrap();
}

#[test]
fn a_winner_runs_to_its_end() {
    let (tx, rx) = channel();
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    let work = on_tokio(async move {
        let got = rx.recv().await; // Chanter's events work in Tokio's tasks.
        tokio::task::yield_now().await;
        ends.store(true, Ordering::SeqCst);
        got
    });
    std::thread::scope(|s| {
        s.spawn(|| tx.send("heard").sync_blocking().unwrap());
        let first = choose((work.wrap(Result::unwrap), never())).sync_blocking();
        assert_eq!(first, Ok("heard"));
    });
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn timers_and_tasks_in_place() {
    let slept = machine(1).block_on(async {
        let sleeps = entered(shared_handle(), async {
            let begin = std::time::Instant::now();
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::spawn(async {}).await.unwrap();
            begin.elapsed()
        });
        let others = spawn(async { 1 });
        let slept = sleeps.await;
        assert_eq!(others.await.unwrap(), 1);
        slept
    });
    assert!(slept >= Duration::from_millis(5));
}

#[test]
fn each_poll_enters_and_leaves_wherever_it_is() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    let polls = AtomicUsize::new(0);
    let mut moves = Box::pin(entered(handle, async {
        for _ in 0..3 {
            assert_eq!(Handle::current().id(), handle.id());
            polls.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
        poll_fn(|_| {
            polls.fetch_add(1, Ordering::SeqCst);
            Poll::<()>::Pending
        })
        .await;
    }));
    // From one OS thread to the next, in the middle of its life.
    for round in 1..=4 {
        std::thread::scope(|s| {
            s.spawn(|| {
                assert!(moves.as_mut().now_or_never().is_none());
                assert!(Handle::try_current().is_err());
            });
        });
        assert_eq!(polls.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_parasite_enters_its_own_runtime_on_the_stack_of_another() {
    let (theirs, ours) = (runtime(1), runtime(1));
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let (log, lines) = mailbox();
        let id = || Handle::try_current().map(|handle| handle.id()).ok();
        let notes = log.clone();
        spawn_parasite(entered(theirs.handle(), async move {
            notes.try_send(id()).unwrap();
            rx.recv().await.unwrap();
            notes.try_send(id()).unwrap();
        }));
        assert_eq!(id(), None);
        entered(ours.handle(), async move {
            log.try_send(id()).unwrap();
            tx.send(()).await.unwrap(); // Here it is polled.
            log.try_send(id()).unwrap();
        })
        .await;
        assert_eq!(id(), None);
        let (theirs, ours) = (Some(theirs.handle().id()), Some(ours.handle().id()));
        let ids: Vec<_> = std::iter::from_fn(|| lines.try_recv().ok()).collect();
        assert_eq!(ids, [theirs, ours, theirs, ours]);
    });
}

#[test]
fn a_future_is_dropped_within_the_runtime() {
    let (future, begins, leaves) = endless();
    drop(entered(shared_handle(), future));
    assert_eq!((leaves.try_recv(), begins.try_recv()), (Ok(true), Err(TryRecvError::Closed)));
    machine(1).block_on(async {
        let (future, _begins, leaves) = endless();
        let thread = spawn(entered(shared_handle(), future));
        until_blocked(&thread).await;
        thread.cancel().await.unwrap();
        assert_eq!(leaves.try_recv(), Ok(true));
        assert!(Handle::try_current().is_err());
    });
}

#[test]
fn a_panic_leaves_the_runtime() {
    machine(1).block_on(async {
        let thread = spawn(entered(shared_handle(), async { panic!("on purpose") }));
        assert!(thread.await.unwrap_err().is_panic());
        assert!(Handle::try_current().is_err());
    });
}

/// It hung, and with it all that used the shared runtime.
#[test]
fn a_task_that_blocks_on_a_task_of_its_runtime_is_told() {
    watchdog!();
    let error = on_tokio(async { on_tokio(async { 1 }).sync_blocking() }).sync_blocking().unwrap_err();
    assert!(error.to_string().contains("await instead of blocking"), "{error}");
    let error = on_tokio(async { on_tokio(async { 1 }).timeout(Duration::from_secs(3600)).sync_blocking() });
    assert!(error.sync_blocking().unwrap_err().is_panic());
    // The runtime's OS thread drives a machine, whose main thread waits.
    let nested = on_tokio(async { chanter::block_on(async { on_tokio(async { 1 }).await }) });
    assert!(nested.sync_blocking().unwrap_err().is_panic());
    // Calls that do not keep the OS thread work as before.
    assert_eq!(on_tokio(async { on_tokio(async { 1 }).await.unwrap() }).sync_blocking().unwrap(), 1);
    let elsewhere = async { tokio::task::spawn_blocking(|| on_tokio(async { 2 }).sync_blocking()).await };
    assert_eq!(on_tokio(elsewhere).sync_blocking().unwrap().unwrap().unwrap(), 2);
    let runtime = runtime(1);
    let handle = runtime.handle().clone();
    let other = async move { on_runtime(&handle, async { 3 }).sync_blocking() };
    assert_eq!(on_tokio(other).sync_blocking().unwrap().unwrap(), 3);
}

/// Two fibers that were suspended inside of `entered` left it in another order than they had entered it; then the OS
/// thread stayed in the runtime.
#[test]
fn a_fiber_that_blocks_inside_is_told_and_has_left() {
    watchdog!();
    let (a, b) = (runtime(1), runtime(1));
    machine(1).block_on(async {
        let ((go_a, wait_a), (go_b, wait_b)) = (mailbox::<()>(), mailbox::<()>());
        let block = |handle: Handle, wait: Receiver<()>| {
            spawn_fiber(move || {
                chanter::block_on(entered(&handle, async move { wait.recv().sync_blocking() }))
            })
        };
        let (first, second) = (block(a.handle().clone(), wait_a), block(b.handle().clone(), wait_b));
        yield_now().await;
        // The one that was suspended first goes on first. (Closed, if it has ended.)
        let _ = go_a.try_send(());
        let told = first.join().await.unwrap_err().to_string();
        let _ = go_b.try_send(());
        assert!(second.join().await.unwrap_err().is_panic());
        assert!(told.contains("inside of a poll of `entered`"), "{told}");
        assert!(Handle::try_current().is_err(), "it is still in a runtime");
        // To be suspended between polls is all right.
        let (go, wait) = mailbox();
        let fiber = spawn_fiber({
            let handle = a.handle().clone();
            move || chanter::block_on(entered(&handle, async move { wait.recv().await }))
        });
        yield_now().await;
        go.try_send(5).unwrap();
        assert_eq!(fiber.join().await.unwrap(), Ok(5));
        assert!(Handle::try_current().is_err());
    });
}

/// In the extent of a binding, also in threads that are spawned there, tasks run on the bound runtime.
#[test]
fn a_bound_runtime_is_used_by_all_threads_of_its_extent() {
    watchdog!();
    let named = |name: &str| Builder::new_multi_thread().worker_threads(1).thread_name(name).build().unwrap();
    let (outer, inner) = (named("outer"), named("inner"));
    let name =
        || async { on_tokio(async { std::thread::current().name().unwrap().to_owned() }).await.unwrap() };
    let names = chanter::Machine::builder().vps(2).build().unwrap().block_on(RUNTIME.bind(
        outer.handle().clone(),
        async {
            let host = spawn(name());
            let nested =
                RUNTIME.bind(inner.handle().clone(), async move { spawn(name()).await.unwrap() }).await;
            let entered_by = entered(&handle(), async {
                tokio::spawn(async { std::thread::current().name().unwrap().to_owned() }).await
            });
            [host.await.unwrap(), nested, name().await, entered_by.await.unwrap()]
        },
    ));
    assert_eq!(names, ["outer", "inner", "outer", "outer"]);
    assert_eq!(chanter::block_on(name()), "chanter-tokio");
}
