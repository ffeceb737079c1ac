//! Locks: exclusion, bounded bypass, choice, drops, closing, panics.

use crate::common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use chanter::prelude::*;
use chanter::{
    event::{Ageing, choose_earliest, optional},
    sync::{Condvar, Mutex, OwnedMutexGuard, RwLock, Semaphore, SemaphoreClosed, TryAcquireError},
};
use common::{Wakes, machine, millis, poll, watchdog};

/// As the documentation says.
const BYPASSES: usize = 16;

fn poll_with<F: Future>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Runs a body whose steps follow each other faster than those who are called
/// are given up (1 ms). One that was interrupted for so long proves nothing.
fn in_time(body: impl Fn()) {
    for _ in 0..100_000 {
        let clock = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(&body));
        match outcome {
            Ok(()) => return,
            Err(panic) if clock.elapsed() < millis(1) => std::panic::resume_unwind(panic),
            Err(_) => (),
        }
    }
    panic!("this machine is too busy for the test");
}

/// At most one has the mutex, on threads of every kind, and no turn is lost.
#[test]
fn mutex_excludes() {
    watchdog!();
    const ROUNDS: usize = 2000;
    let lock = Arc::new(Mutex::new(0));
    let inside = Arc::new(AtomicUsize::new(0));
    let body = |yields: bool| {
        let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
        async move {
            for _ in 0..ROUNDS {
                let mut guard = lock.lock().await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                *guard += 1;
                if yields {
                    yield_now().await;
                }
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    let machine = machine(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let hosts: Vec<_> = (0..4).map(|i| machine.spawn(body(i % 2 == 0))).collect();
    let tasks: Vec<_> = (0..2).map(|_| runtime.spawn(body(false))).collect();
    let os = std::thread::spawn({
        let body = body(false);
        move || futures::executor::block_on(body)
    });
    hosts.into_iter().for_each(|host| host.join().sync_blocking().unwrap());
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    os.join().unwrap();
    assert_eq!(*lock.try_lock().unwrap(), 7 * ROUNDS);
}

/// Readers share, writers do not; counts under both.
#[test]
fn rwlock_excludes_writers() {
    watchdog!();
    const ROUNDS: usize = 1000;
    let lock = Arc::new(RwLock::new((0, 0)));
    let machine = machine(2);
    let writers = (0..2).map(|_| {
        let lock = Arc::clone(&lock);
        machine.spawn(async move {
            for _ in 0..ROUNDS {
                let mut guard = lock.write().await;
                guard.0 += 1;
                yield_now().await;
                guard.1 += 1;
            }
        })
    });
    let readers = (0..4).map(|_| {
        let lock = Arc::clone(&lock);
        machine.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.read().await;
                assert_eq!(guard.0, guard.1, "a reader beside a writer");
                if guard.0 % 8 == 0 {
                    yield_now().await;
                }
            }
        })
    });
    let all: Vec<_> = writers.chain(readers).collect();
    all.into_iter().for_each(|thread| thread.join().sync_blocking().unwrap());
    assert_eq!(lock.try_read().unwrap().0, 2 * ROUNDS);
}

#[test]
fn downgrade_keeps_writers_out() {
    watchdog!();
    let lock = RwLock::new(1);
    let guard = lock.try_write().unwrap();
    let mut writer = Box::pin(lock.write().sync());
    assert!(poll(&mut writer).is_pending());
    let guard = chanter::sync::WriteGuard::downgrade(guard);
    assert!(poll(&mut writer).is_pending());
    assert_eq!(*guard, 1);
    drop(guard);
    assert!(poll(&mut writer).is_ready());
}

/// INV-BYPASS: newcomers take the lock before one who waits and is polled, but
/// only so often.
#[test]
fn bypass_is_bounded() {
    watchdog!();
    in_time(|| {
        let lock = Mutex::new(());
        let mut held = lock.try_lock();
        let mut old = Box::pin(lock.lock().sync());
        assert!(poll(&mut old).is_pending());
        let mut bypasses = 0;
        loop {
            drop(held.take());
            held = lock.try_lock();
            if held.is_none() {
                break;
            }
            bypasses += 1;
            // It answers, in vain.
            assert!(poll(&mut old).is_pending());
            assert!(bypasses <= BYPASSES, "no bound");
        }
        assert!(bypasses > 0, "the lock is handed over: one switch for each turn");
        // Newcomers queue up, and it has its turn.
        let mut newcomer = Box::pin(lock.lock().sync());
        assert!(poll(&mut newcomer).is_pending());
        let Poll::Ready(guard) = poll(&mut old) else { panic!("barred, and not for its sake") };
        drop(guard);
        assert!(poll(&mut newcomer).is_ready());
        drop(newcomer);
        assert!(lock.try_lock().is_some(), "nobody waits: the bar is gone");
    });
}

/// The same for one who wants all permits, while others come and go one by one:
/// there is always one out.
#[test]
fn wishes_for_many_do_not_starve() {
    watchdog!();
    in_time(|| {
        let semaphore = Semaphore::new(3);
        let mut out = semaphore.try_acquire(1).ok();
        let mut many = Box::pin(semaphore.acquire_many(3).sync());
        assert!(poll(&mut many).is_pending());
        let mut bypasses = 0;
        while let Ok(next) = semaphore.try_acquire(1) {
            bypasses += 1;
            assert!(bypasses <= BYPASSES + 3, "no bound");
            out = Some(next);
            assert!(poll(&mut many).is_pending());
        }
        assert!(bypasses > 0);
        drop(out);
        assert_eq!(poll(&mut many).map(|all| all.unwrap().count()), Poll::Ready(3));
    });
}

/// Threads that lock again and again do not keep one out that locks seldom.
#[test]
fn hammering_starves_nobody() {
    watchdog!();
    let lock = Arc::new(Mutex::new(0_u64));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let machine = machine(2);
    let hammers: Vec<_> = (0..3)
        .map(|_| {
            let (lock, stop) = (Arc::clone(&lock), Arc::clone(&stop));
            machine.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    *lock.lock().await += 1;
                    yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..300 {
        drop(lock.lock().sync_blocking());
    }
    stop.store(true, Ordering::SeqCst);
    hammers.into_iter().for_each(|hammer| hammer.join().sync_blocking().unwrap());
}

/// Those in line are served in order when nobody bypasses.
#[test]
fn the_line_is_in_order() {
    watchdog!();
    let lock = Arc::new(Mutex::new(Vec::new()));
    machine(1).block_on(async {
        let held = lock.lock().await;
        let threads: Vec<_> = (0..20)
            .map(|i| {
                let lock = Arc::clone(&lock);
                spawn(async move { lock.lock().await.push(i) })
            })
            .collect();
        yield_now().await;
        drop(held);
        for thread in threads {
            thread.join().await.unwrap();
        }
    });
    assert_eq!(*lock.try_lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// A writer is not kept out by readers that come and go, nor readers by
/// writers: those in line are served in order.
#[test]
fn writers_go_before_newcomers_only() {
    watchdog!();
    in_time(|| {
        let lock = RwLock::new(());
        let reader = lock.try_read().unwrap();
        let mut writer = Box::pin(lock.write().sync());
        assert!(poll(&mut writer).is_pending());
        assert!(lock.try_read().is_none(), "readers come and go for ever");
        let mut second = Box::pin(lock.read().sync());
        assert!(poll(&mut second).is_pending());
        let mut third = Box::pin(lock.write().sync());
        assert!(poll(&mut third).is_pending());
        drop(reader);
        let Poll::Ready(writing) = poll(&mut writer) else { panic!("it is the writer's turn") };
        drop(writing);
        let Poll::Ready(reading) = poll(&mut second) else { panic!("it is the reader's turn") };
        assert!(poll(&mut third).is_pending());
        drop(reading);
        assert!(poll(&mut third).is_ready());
    });
}

/// A called waiter that is dropped, or whose choice commits to something else,
/// passes the call on, at once.
#[test]
fn calls_are_passed_on() {
    watchdog!();
    in_time(|| {
        let lock = Mutex::new(());
        let (ivar, held) = (IVar::new(), lock.try_lock());
        let mut first = Box::pin(lock.lock().sync());
        let chosen = choose((lock.lock().wrap(|_| false), ivar.get()));
        let mut second = Box::pin(chosen.sync());
        let (told, waker) = Wakes::new();
        let mut third = Box::pin(lock.lock().sync());
        assert!(poll(&mut first).is_pending());
        assert!(poll(&mut second).is_pending());
        assert!(poll_with(&mut third, &waker).is_pending());
        drop(held);
        assert_eq!(told.count(), 0);
        drop(first);
        assert_eq!(told.count(), 0, "the second is called");
        ivar.put(true).unwrap();
        assert_eq!(poll(&mut second), Poll::Ready(true));
        assert_eq!(told.count(), 1, "the third is called");
        assert!(poll_with(&mut third, &waker).is_ready());
    });
}

/// One who wants more than is free leaves: those behind may have theirs.
#[test]
fn who_leaves_makes_room_in_the_line() {
    watchdog!();
    in_time(|| {
        let semaphore = Semaphore::new(2);
        let held = semaphore.try_acquire(2).unwrap();
        let mut many = Box::pin(semaphore.acquire_many(2).sync());
        let (told, waker) = Wakes::new();
        let mut few = Box::pin(semaphore.acquire().sync());
        assert!(poll(&mut many).is_pending());
        assert!(poll_with(&mut few, &waker).is_pending());
        let mut held = held;
        drop(held.split(1));
        assert_eq!(told.count(), 0);
        drop(many);
        assert_eq!(told.count(), 1);
        assert!(poll_with(&mut few, &waker).is_ready());
    });
}

/// A waiter that moves to another task is woken there.
#[test]
fn waiters_move_between_tasks() {
    watchdog!();
    let lock = Mutex::new(());
    let held = lock.try_lock();
    let ((old, old_waker), (new, new_waker)) = (Wakes::new(), Wakes::new());
    let mut waiter = Box::pin(lock.lock().sync());
    assert!(poll_with(&mut waiter, &old_waker).is_pending());
    assert!(poll_with(&mut waiter, &new_waker).is_pending());
    drop(held);
    assert_eq!((old.count(), new.count()), (0, 1));
}

/// Law: a choice commits one lock, and the other was never taken.
#[test]
fn choices_take_one_lock() {
    watchdog!();
    let (a, b) = (Mutex::new('a'), Mutex::new('b'));
    for _ in 0..100 {
        let guard = choose([a.lock(), b.lock()]).sync_blocking();
        let other = if *guard == 'a' { &b } else { &a };
        assert!(other.try_lock().is_some());
    }
    // Both locked; one is given back.
    let (held_a, held_b) = (a.try_lock(), b.try_lock());
    let mut waiter = Box::pin(choose([a.lock(), b.lock()]).sync());
    assert!(poll(&mut waiter).is_pending());
    drop(held_b);
    let Poll::Ready(guard) = poll(&mut waiter) else { panic!("b is free") };
    assert_eq!(*guard, 'b');
    drop(held_a);
    assert!(a.try_lock().is_some(), "the lost branch has left");
}

/// Called when it is free, the event commits in its next poll.
fn is_retried<E: Event<Output = ()>>(lock: &Mutex<()>, event: E) {
    let held = lock.try_lock();
    let (told, waker) = Wakes::new();
    let mut waiter = Box::pin(event.sync());
    assert!(poll_with(&mut waiter, &waker).is_pending());
    drop(held);
    assert_eq!(told.count(), 1);
    assert!(poll_with(&mut waiter, &waker).is_ready());
    drop(waiter);
    assert!(lock.try_lock().is_some());
}

/// Locks inside of every combinator: they are tried again when they are polled
/// again.
#[test]
fn combinators_pass_retries_on() {
    watchdog!();
    let lock = Mutex::new(());
    let event = || lock.lock().wrap(drop);
    is_retried(&lock, event());
    is_retried(&lock, event().boxed());
    is_retried(&lock, choose((never(), event(), never())));
    is_retried(&lock, choose(vec![event(), event()]));
    is_retried(&lock, choose([event(), event()]));
    is_retried(&lock, guard(event));
    is_retried(&lock, with_nack(|_| event()));
    is_retried(&lock, choose((event().boxed(), never().boxed())));
    is_retried(&lock, choose_biased((choose((never(), guard(event))), never())).wrap(drop));
    is_retried(&lock, event().on_abort(|| ()));
    is_retried(&lock, event().due(Instant::now()));
    is_retried(&lock, event().timeout(millis(60_000)).wrap(drop));
    is_retried(&lock, optional(Some(event())));
    is_retried(&lock, choose_earliest((never(), event())));
    is_retried(&lock, Ageing::new().choose((never(), event())));
}

/// A choice between a lock and a channel, on a machine, under load: no message
/// and no turn is lost.
#[test]
fn choices_of_locks_and_messages() {
    watchdog!();
    const MESSAGES: usize = 3000;
    let lock = Arc::new(Mutex::new(0));
    let machine = machine(2);
    let (tx, rx) = channel();
    let sender = {
        let lock = Arc::clone(&lock);
        machine.spawn(async move {
            for i in 0..MESSAGES {
                if i % 3 == 0 {
                    let guard = lock.lock().await;
                    tx.send(i).await.unwrap();
                    drop(guard);
                } else {
                    tx.send(i).await.unwrap();
                }
            }
        })
    };
    let choosers: Vec<_> = (0..3)
        .map(|_| {
            let (lock, rx) = (Arc::clone(&lock), rx.clone());
            machine.spawn(async move {
                let mut received = 0;
                loop {
                    let message = rx.recv().wrap(|message| Some(message.is_ok()));
                    let locked = Arc::clone(&lock).lock_owned().wrap(|mut guard| {
                        *guard += 1;
                        None
                    });
                    match choose((message, locked)).await {
                        Some(true) => received += 1,
                        Some(false) => return received,
                        None => yield_now().await,
                    }
                }
            })
        })
        .collect();
    drop(rx);
    sender.join().sync_blocking().unwrap();
    let received: usize = choosers.into_iter().map(|thread| thread.join().sync_blocking().unwrap()).sum();
    assert_eq!(received, MESSAGES);
    assert!(lock.try_lock().is_some());
}

/// A closed semaphore: all who wait, and all who come, are told.
#[test]
fn closing_tells_all() {
    watchdog!();
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire(1).unwrap();
    let (told, waker) = Wakes::new();
    let mut waiters: Vec<_> =
        (1..4).map(|n| Box::pin(Arc::clone(&semaphore).acquire_owned(n).sync())).collect();
    waiters.iter_mut().for_each(|waiter| assert!(poll_with(waiter, &waker).is_pending()));
    semaphore.close();
    assert_eq!(told.count(), 3);
    for waiter in &mut waiters {
        assert!(matches!(poll_with(waiter, &waker), Poll::Ready(Err(SemaphoreClosed))));
    }
    drop(held);
    assert_eq!(semaphore.try_acquire(1).unwrap_err(), TryAcquireError::Closed);
    assert!(semaphore.acquire().sync_blocking().is_err());
}

/// Permits: split, forgotten, added; never more nor less.
#[test]
fn permits_are_counted() {
    watchdog!();
    let semaphore = Semaphore::new(5);
    let mut three = semaphore.try_acquire(3).unwrap();
    assert_eq!(semaphore.try_acquire(3).unwrap_err(), TryAcquireError::Unavailable);
    let one = three.split(1).unwrap();
    assert!(three.split(3).is_none());
    assert_eq!((three.count(), one.count(), semaphore.available()), (2, 1, 2));
    one.forget();
    drop(three);
    assert_eq!(semaphore.available(), 4);
    let mut all = Box::pin(semaphore.acquire_many(6).sync());
    assert!(poll(&mut all).is_pending());
    semaphore.add_permits(2);
    assert!(poll(&mut all).is_ready());
    drop(all);
    assert_eq!(semaphore.available(), 6);
    assert!(catch_unwind(AssertUnwindSafe(|| semaphore.add_permits(Semaphore::MAX_PERMITS))).is_err());
    assert_eq!(semaphore.available(), 6);
}

/// A holder that panics gives the lock back.
#[test]
fn panics_unlock() {
    watchdog!();
    let lock = Mutex::new(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.try_lock();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(*lock.try_lock().unwrap(), 1);
}

/// A foreign waker that panics is none of the business of who unlocks.
#[test]
fn panicking_wakers_do_not_hurt_who_unlocks() {
    watchdog!();
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let lock = Mutex::new(());
    let held = lock.try_lock();
    let mut waiter = Box::pin(lock.lock().sync());
    assert!(poll_with(&mut waiter, &Waker::from(Arc::new(Bomb))).is_pending());
    drop(held);
    assert!(poll(&mut waiter).is_ready());
}

/// An event that commits and whose `wrap` panics holds nothing.
#[test]
fn panicking_wraps_unlock() {
    watchdog!();
    let lock = Mutex::new(());
    let event = lock.lock().wrap(|_guard| panic!("on purpose"));
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert!(lock.try_lock().is_some());
}

/// Producers and consumers over a condition variable.
#[test]
fn condvars_lose_no_notification() {
    watchdog!();
    const ITEMS: usize = 2000;
    let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let machine = machine(2);
    let consumers: Vec<_> = (0..3)
        .map(|_| {
            let shared = Arc::clone(&shared);
            machine.spawn(async move {
                let mut sum = 0;
                loop {
                    let mut items = shared.0.lock().await;
                    let item = loop {
                        match items.pop() {
                            Some(item) => break item,
                            None => items = shared.1.wait(items).await,
                        }
                    };
                    drop(items);
                    match item {
                        0 => return sum,
                        item => sum += item,
                    }
                }
            })
        })
        .collect();
    let producer = Arc::clone(&shared);
    std::thread::spawn(move || {
        for item in 1..=ITEMS {
            producer.0.lock().sync_blocking().push(item);
            producer.1.notify_one();
        }
        while !producer.0.lock().sync_blocking().is_empty() {
            std::thread::yield_now();
        }
        producer.0.lock().sync_blocking().extend([0; 3]);
        producer.1.notify_all();
    });
    let sum: usize = consumers.into_iter().map(|thread| thread.join().sync_blocking().unwrap()).sum();
    assert_eq!(sum, ITEMS * (ITEMS + 1) / 2);
}

/// One event: it is unlocked while it waits, and locked when it commits; not
/// chosen, the notification goes to the next.
#[test]
fn condvar_waits_are_events() {
    watchdog!();
    let (lock, condvar) = (Arc::new(Mutex::new(0)), Condvar::new());
    let owned = || Arc::clone(&lock).try_lock_owned().unwrap();
    let wait = |guard: OwnedMutexGuard<u32>| choose((condvar.wait(guard).wrap(Some), never()));
    let mut first = Box::pin(wait(owned()).sync());
    assert!(lock.try_lock().is_none(), "not synchronized yet");
    assert!(poll(&mut first).is_pending());
    let mut second = Box::pin(wait(owned()).sync());
    let (told, waker) = Wakes::new();
    assert!(poll_with(&mut second, &waker).is_pending());
    condvar.notify_one();
    drop(first);
    assert_eq!(told.count(), 1, "passed on");
    let held = owned();
    assert!(poll_with(&mut second, &waker).is_pending(), "notified, but it is locked");
    drop(held);
    assert_eq!(told.count(), 2);
    let Poll::Ready(Some(guard)) = poll_with(&mut second, &waker) else { panic!("notified and free") };
    drop(guard);
    // Notifications for nobody are not kept.
    condvar.notify_one();
    let mut third = Box::pin(wait(owned()).sync());
    assert!(poll(&mut third).is_pending());
    assert!(poll(&mut third).is_pending());
    drop(third);
    // Never synchronized: it is unlocked all the same.
    drop(condvar.wait(owned()));
    assert!(condvar.wait(owned()).try_sync().is_none());
    assert!(lock.try_lock().is_some());
}

/// A wait that is notified, and loses while it waits for the mutex, passes the
/// notification on.
#[test]
fn condvar_waits_pass_on_what_they_were_told() {
    watchdog!();
    let (lock, condvar) = (Mutex::new(()), Condvar::new());
    let mut first = Box::pin(condvar.wait(lock.try_lock().unwrap()).sync());
    assert!(poll(&mut first).is_pending());
    let mut second = Box::pin(condvar.wait(lock.try_lock().unwrap()).sync());
    assert!(poll(&mut second).is_pending());
    let held = lock.try_lock().unwrap();
    condvar.notify_one();
    assert!(poll(&mut first).is_pending(), "in line for the mutex");
    drop(first);
    drop(held);
    assert!(poll(&mut second).is_ready());
}

/// A lock with a time-out, in a loop: the line stays empty, no turn is lost.
#[test]
fn time_outs_leave_nothing_behind() {
    watchdog!();
    let lock = Arc::new(Mutex::new(()));
    machine(2).block_on(async {
        let held = lock.lock().await;
        for _ in 0..50 {
            let late = after(millis(1)).wrap(|()| true);
            assert!(choose((lock.lock().wrap(|_| false), late)).await);
        }
        drop(held);
        assert!(lock.try_lock().is_some());
    });
}
