//! Futurelock: a lock that is granted to a future which its owner keeps, but
//! does not poll. Each shape in which users of Tokio met it (tokio issue 7892,
//! omicron issue 9259), on every executor. Tokio's own mutex is the control: it
//! must get stuck, or the shape would prove nothing.

use crate::common;

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::sync::{Condvar, Mutex, RwLock, Semaphore};
use common::{machine, millis, poll, watchdog};
use futures::future::{Either, join, poll_fn, select};
use futures::stream::{self, FuturesUnordered, StreamExt};

/// A mutex, and one that is known to get stuck.
trait Lock: Send + Sync + 'static {
    type Guard: Send + 'static;
    fn new() -> Arc<Self>;
    fn lock_boxed(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Self::Guard> + Send>>;
}

impl Lock for Mutex<u32> {
    type Guard = chanter::sync::OwnedMutexGuard<u32>;
    fn new() -> Arc<Self> {
        Arc::default()
    }
    fn lock_boxed(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Self::Guard> + Send>> {
        Box::pin(self.lock_owned().sync())
    }
}

impl Lock for tokio::sync::Mutex<u32> {
    type Guard = tokio::sync::OwnedMutexGuard<u32>;
    fn new() -> Arc<Self> {
        Arc::default()
    }
    fn lock_boxed(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Self::Guard> + Send>> {
        Box::pin(self.lock_owned())
    }
}

/// Runs a shape on every executor that there is.
fn everywhere<F: Future<Output = ()> + Send + 'static>(shape: impl Fn() -> F) {
    futures::executor::block_on(shape());
    machine(1).block_on(shape());
    let two = machine(2);
    two.block_on_local(async { spawn(shape()).join().await.unwrap() });
    let tokio = |builder: &mut tokio::runtime::Builder| builder.build().unwrap();
    tokio(&mut tokio::runtime::Builder::new_current_thread()).block_on(shape());
    let many = tokio(tokio::runtime::Builder::new_multi_thread().worker_threads(2));
    many.block_on(async { tokio::spawn(shape()).await.unwrap() });
}

/// The control: the shape must not end while Tokio's mutex is in it.
fn stuck<F: Future<Output = ()> + Send + 'static>(shape: impl Fn() -> F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(millis(300), shape()).await.is_ok() });
    assert!(!ended, "the shape is no futurelock");
    runtime.shutdown_background();
}

/// Gives the lock back after a while, from another OS thread.
fn release_later<G: Send + 'static>(guard: G) {
    std::thread::spawn(move || {
        std::thread::sleep(millis(10));
        drop(guard);
    });
}

/// `select!` keeps `&mut lock_future`; the other branch's body locks, too.
async fn select_then_lock<L: Lock>() {
    let lock = L::new();
    let held = Arc::clone(&lock).lock_boxed().await;
    let mut first = Arc::clone(&lock).lock_boxed();
    match select(&mut first, pin!(after(millis(2)).sync())).await {
        Either::Left(_) => panic!("it is locked"),
        Either::Right(_) => {
            // The lock is given back while we wait here, with `first` in front.
            release_later(held);
            drop(lock.lock_boxed().await);
        }
    }
    drop(first);
}

#[test]
fn select_that_keeps_a_waiter() {
    watchdog!();
    everywhere(select_then_lock::<Mutex<u32>>);
    stuck(select_then_lock::<tokio::sync::Mutex<u32>>);
}

/// The same, and the kept future is polled in the end: it gets the lock.
#[test]
fn the_kept_waiter_gets_its_turn() {
    watchdog!();
    everywhere(|| async {
        let lock = Arc::new(Mutex::new(0));
        let held = Arc::clone(&lock).lock_owned().await;
        let mut first = pin!(lock.lock().sync());
        assert!(matches!(select(first.as_mut(), pin!(after(millis(2)).sync())).await, Either::Right(_)));
        release_later(held);
        *lock.lock().await += 1;
        assert_eq!(*first.await, 1);
    });
}

/// A set of futures stops being polled while one of them waits.
async fn unordered_then_lock<L: Lock>() {
    let lock = L::new();
    let held = Arc::clone(&lock).lock_boxed().await;
    let mut set = FuturesUnordered::new();
    for _ in 0..3 {
        set.push(Arc::clone(&lock).lock_boxed());
    }
    match select(set.next(), pin!(after(millis(2)).sync())).await {
        Either::Left(_) => panic!("it is locked"),
        Either::Right(_) => {
            release_later(held);
            drop(lock.lock_boxed().await);
        }
    }
    drop(set);
}

#[test]
fn unordered_futures_that_are_not_asked() {
    watchdog!();
    everywhere(unordered_then_lock::<Mutex<u32>>);
    stuck(unordered_then_lock::<tokio::sync::Mutex<u32>>);
}

/// The body of a loop over a buffered stream locks what the buffered futures
/// wait for.
async fn buffered_then_lock<L: Lock>() {
    let lock = L::new();
    let held = Arc::clone(&lock).lock_boxed().await;
    let lock_ref = &lock;
    // The first is ready soon, the second waits for the lock.
    let jobs = [true, false].map(|soon| {
        let lock = Arc::clone(lock_ref);
        async move {
            if soon {
                after(millis(2)).await;
            } else {
                drop(lock.lock_boxed().await);
            }
        }
    });
    let mut jobs = pin!(stream::iter(jobs).buffered(2));
    assert_eq!(jobs.next().await, Some(()));
    release_later(held);
    // Not polled meanwhile: the second job.
    drop(Arc::clone(&lock).lock_boxed().await);
    assert_eq!(jobs.next().await, Some(()));
}

#[test]
fn buffered_streams_that_are_not_asked() {
    watchdog!();
    everywhere(buffered_then_lock::<Mutex<u32>>);
    stuck(buffered_then_lock::<tokio::sync::Mutex<u32>>);
}

/// `join!`: one branch waits for the lock, the other keeps the task busy until another task has had it.
async fn join_with_a_long_branch<L: Lock>() {
    let lock = L::new();
    let held = Arc::clone(&lock).lock_boxed().await;
    let other = Arc::clone(&lock);
    let done = Arc::new(AtomicBool::new(false));
    let waiting = async {
        drop(Arc::clone(&lock).lock_boxed().await);
    };
    let long = async {
        let told = Arc::clone(&done);
        let helper = std::thread::spawn(move || {
            let mut next = other.lock_boxed();
            // It is behind our branch, which is called and cannot answer.
            assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(held);
            drop(futures::executor::block_on(next));
            told.store(true, Ordering::SeqCst);
        });
        let end = Instant::now() + if is_stuck::<L>() { millis(1000) } else { common::FOREVER };
        while !done.load(Ordering::SeqCst) && Instant::now() < end {
            std::thread::sleep(millis(1));
        }
        drop(helper);
        done.load(Ordering::SeqCst)
    };
    let ((), in_time) = join(waiting, long).await;
    assert_eq!(in_time, !is_stuck::<L>());
}

fn is_stuck<L: Lock>() -> bool {
    std::any::type_name::<L>().contains("tokio")
}

#[test]
fn join_with_a_branch_that_does_not_return() {
    watchdog!();
    everywhere(join_with_a_long_branch::<Mutex<u32>>);
    // Here the long branch gives up, so the control ends.
    futures::executor::block_on(join_with_a_long_branch::<tokio::sync::Mutex<u32>>());
}

/// The waiter is moved into a task that never polls it again.
async fn moved_then_lock<L: Lock>() {
    let lock = L::new();
    let held = Arc::clone(&lock).lock_boxed().await;
    let mut first = Arc::clone(&lock).lock_boxed();
    assert!(poll(&mut first).is_pending());
    // Never polled, never dropped: as good as leaked.
    std::thread::spawn(move || {
        futures::executor::block_on(async move {
            let _kept = first;
            after(Duration::from_secs(5)).await;
            pending::<()>().await;
        });
    });
    release_later(held);
    drop(lock.lock_boxed().await);
}

#[test]
fn waiter_in_a_task_that_forgets_it() {
    watchdog!();
    everywhere(moved_then_lock::<Mutex<u32>>);
    stuck(moved_then_lock::<tokio::sync::Mutex<u32>>);
}

/// A waiter that is leaked: nobody unlinks it, and its lock moves and dies.
#[test]
fn leaked_waiters_hold_nobody_up() {
    watchdog!();
    let mut mutex = Mutex::new(0);
    for round in 0..50 {
        // The borrows of the mutex end here; the pinned future stays for ever.
        let held = mutex.lock().sync_blocking();
        let mut leaked = Box::pin(mutex.lock().sync());
        assert!(leaked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::mem::forget(leaked);
        drop(held);
        let moved = Box::new(mutex);
        *moved.lock().sync_blocking() += 1;
        mutex = *moved;
        assert_eq!(*mutex.get_mut(), round + 1);
    }
    drop(mutex);
    // Alarms that are still set find their queue.
    std::thread::sleep(millis(20));
}

/// Nobody else waits, but newcomers are barred for the sake of a dead waiter:
/// not for ever.
#[test]
fn the_bar_is_lifted_for_those_who_only_try() {
    watchdog!();
    let lock = Mutex::new(());
    let held = lock.try_lock();
    let mut dead = Box::pin(lock.lock().sync());
    assert!(poll(&mut dead).is_pending());
    drop(held);
    while let Some(guard) = lock.try_lock() {
        drop(guard);
    }
    common::eventually("the bar is lifted", || lock.try_lock().is_some());

    let lock = RwLock::new(());
    let inside = lock.try_read();
    let mut dead = Box::pin(lock.write().sync());
    assert!(poll(&mut dead).is_pending());
    assert!(lock.try_read().is_none());
    common::eventually("the bar is lifted", || lock.try_read().is_some());
    drop(inside);
}

/// Many dead waiters before a live one: it gets the lock in a time that grows
/// with the logarithm of their number, not with their number.
#[test]
fn thousands_of_dead_waiters() {
    watchdog!();
    // One by one they would take five seconds, again and again.
    let is_soon = (0..10).any(|_| behind_thousands() < Duration::from_secs(2));
    assert!(is_soon, "one at a time");
}

/// How long a waiter behind 5000 dead ones waits.
fn behind_thousands() -> Duration {
    let lock = Arc::new(Mutex::new(0));
    let held = Arc::clone(&lock).try_lock_owned().unwrap();
    let mut dead: Vec<_> = (0..5000).map(|_| Box::pin(Arc::clone(&lock).lock_owned().sync())).collect();
    dead.iter_mut().for_each(|waiter| assert!(poll(waiter).is_pending()));
    let behind = std::thread::spawn({
        let lock = Arc::clone(&lock);
        move || {
            let mut live = pin!(lock.lock().sync());
            assert!(live.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(held);
            let clock = Instant::now();
            // Only polled when it is woken.
            drop(futures::executor::block_on(live));
            clock.elapsed()
        }
    });
    let took = behind.join().unwrap();
    // The dead come to life, and all have their turn.
    for waiter in dead {
        *futures::executor::block_on(waiter) += 1;
    }
    assert_eq!(*lock.try_lock().unwrap(), 5000);
    took
}

/// An abandoned writer stands before readers, while a reader is inside: nobody
/// calls it, and it would be in the way for ever.
#[test]
fn abandoned_writers_let_readers_pass() {
    watchdog!();
    everywhere(|| async {
        let lock = Arc::new(RwLock::new(7));
        let inside = lock.read().await;
        let mut writer = Box::pin(Arc::clone(&lock).write_owned().sync());
        assert!(poll(&mut writer).is_pending());
        assert!(lock.try_read().is_none(), "newcomers wait behind a writer");
        assert_eq!(*lock.read().await, 7);
        drop(inside);
        // It was alive after all.
        *writer.await = 8;
        assert_eq!(*lock.read().await, 8);
    });
}

/// The same with permits: one wants more than there are.
#[test]
fn abandoned_wishes_for_many_let_few_pass() {
    watchdog!();
    everywhere(|| async {
        let semaphore = Semaphore::new(3);
        let held = semaphore.acquire().await.unwrap();
        let mut many = Box::pin(semaphore.acquire_many(3).sync());
        assert!(poll(&mut many).is_pending());
        let mut behind = Box::pin(semaphore.acquire_many(2).sync());
        // Bypassing is allowed for a while: forbid it.
        for _ in 0..20 {
            semaphore.acquire_many(0).await.ok();
            semaphore.try_acquire(1).ok();
        }
        let two = poll_fn(|cx| behind.as_mut().poll(cx)).await.unwrap();
        assert_eq!(two.count(), 2);
        drop((held, two));
        assert_eq!(many.await.unwrap().count(), 3);
    });
}

/// A notification is not lost to a waiter that nobody polls.
#[test]
fn abandoned_waits_pass_the_notification_on() {
    watchdog!();
    everywhere(|| async {
        let pair = Arc::new((Mutex::new(0), Condvar::new()));
        let first = pair.0.lock().await;
        let mut first = Box::pin(pair.1.wait(first).sync());
        assert!(poll(&mut first).is_pending());
        let second = pair.0.lock().await;
        let mut second = Box::pin(pair.1.wait(second).sync());
        assert!(poll(&mut second).is_pending());
        let notifier = Arc::clone(&pair);
        std::thread::spawn(move || {
            *notifier.0.lock().sync_blocking() = 1;
            notifier.1.notify_one();
        });
        assert_eq!(*second.await, 1);
        drop(first);
    });
}

/// Channels: a kept send does not hold up another one, nor a kept receive
/// another sender; what a kept receive got comes back when it is dropped.
#[test]
fn kept_channel_operations() {
    watchdog!();
    everywhere(|| async {
        let (tx, rx) = channel();
        let mut kept = Box::pin(tx.clone().into_send(1).sync());
        assert!(poll(&mut kept).is_pending());
        let receiver = rx.clone();
        let both = std::thread::spawn(move || {
            [receiver.recv().sync_blocking().unwrap(), receiver.recv().sync_blocking().unwrap()]
        });
        tx.send(2).await.unwrap();
        let mut got = both.join().unwrap();
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        assert_eq!(poll(&mut kept), Poll::Ready(Ok(())));

        let mut kept = Box::pin(rx.recv().sync());
        assert!(poll(&mut kept).is_pending());
        tx.send(3).await.unwrap();
        let sender = std::thread::spawn(move || tx.send(4).sync_blocking());
        assert_eq!(rx.recv().await, Ok(4));
        drop(kept);
        assert_eq!(rx.recv().await, Ok(3));
        sender.join().unwrap().unwrap();
    });
}
