//! Loom models of the locks: notifications against drops, commits and claims; releases against
//! joining the queue; the alarm against answers.
//!
//! Choices are biased here, since a model must not depend on random numbers. Alarms do not ring by
//! themselves: a model rings them. How to run them: see `sync/models.rs`.

use std::pin::pin;
use std::sync::Arc;

use loom::thread;

use super::{Condvar, Mutex, RwLock, Semaphore};
use crate::IVar;
use crate::event::{Event, choose_biased};
use crate::sync::Cell;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{block_on, check, check_wide, needs, poll_once};

/// A mutex around a value that loom checks.
type Counter = Arc<Mutex<Cell<u32>>>;

fn counter() -> Counter {
    Arc::new(Mutex::new(Cell::new(0)))
}

fn lock(counter: &Counter) -> impl Event<Output = super::OwnedMutexGuard<Cell<u32>>> + Send + use<> {
    Arc::clone(counter).lock_owned()
}

fn add_one(value: &Cell<u32>) {
    value.set(value.get() + 1);
}

/// Asserts that nobody holds the lock, and that it was locked `times` times.
fn assert_count(counter: &Counter, count: u32) {
    assert_eq!(counter.try_lock().expect("nobody has it").get(), count);
}

/// INV-SEEN, and mutual exclusion: two threads lock, and neither is forgotten. Each sees the writes
/// of the other under the lock.
fn two_lockers() {
    let counter = counter();
    let other = {
        let lock = lock(&counter);
        thread::spawn(move || add_one(&block_on(lock)))
    };
    add_one(&block_on(lock(&counter)));
    other.join().unwrap();
    assert_count(&counter, 2);
}

#[test]
fn mutex_excludes_and_forgets_nobody() {
    check(two_lockers);
}

/// Mutual exclusion without the queue: the taker of the permit sees the writes of the last holder.
fn tried_lock() {
    let counter = counter();
    let other = {
        let counter = Arc::clone(&counter);
        thread::spawn(move || counter.try_lock().map(|value| add_one(&value)).is_some())
    };
    let mine = counter.try_lock().map(|value| add_one(&value)).is_some();
    let theirs = other.join().unwrap();
    assert_count(&counter, u32::from(mine) + u32::from(theirs));
}

#[test]
fn tried_locks_exclude() {
    check(tried_lock);
}

#[test]
fn permit_take_acquire_is_needed() {
    needs("permit_take", Relaxed, tried_lock);
}

#[test]
fn permit_give_release_is_needed() {
    needs("permit_give", Relaxed, tried_lock);
}

#[test]
fn queue_publish_release_is_needed() {
    needs("queue_publish", Relaxed, two_lockers);
}

#[test]
fn queue_observe_acquire_is_needed() {
    needs("queue_observe", Relaxed, two_lockers);
}

/// INV-SEEN with three threads: two wait, and each release notifies one of them.
#[test]
fn two_waiters_are_both_called() {
    check_wide(|| {
        let counter = counter();
        let others = [(); 2].map(|()| {
            let lock = lock(&counter);
            thread::spawn(move || add_one(&block_on(lock)))
        });
        add_one(&block_on(lock(&counter)));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_count(&counter, 3);
    });
}

/// INV-CALL: the first waiter is dropped while the lock is released. Notified or not, it does not
/// keep the lock from the second waiter, which is polled only when it is woken.
#[test]
fn calls_race_with_drops() {
    check_wide(|| {
        let counter = counter();
        let held = Arc::clone(&counter).try_lock_owned().unwrap();
        let mut first = Box::pin(lock(&counter).sync());
        let mut second = Box::pin(lock(&counter).sync());
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(poll_once(second.as_mut()).is_pending());
        let dropper = thread::spawn(move || drop(first));
        let holder = thread::spawn(move || {
            add_one(&held);
            drop(held);
        });
        add_one(&block_on(second));
        dropper.join().unwrap();
        holder.join().unwrap();
        assert_count(&counter, 2);
    });
}

/// INV-CALL: a choice that waits for the lock is notified while a partner commits its other branch.
/// Whether it takes the lock or not, the second waiter gets it.
#[test]
fn calls_race_with_partners() {
    check_wide(|| {
        let counter = counter();
        let ivar = IVar::new();
        let held = counter.try_lock().unwrap();
        let choice = choose_biased((
            ivar.get(),
            lock(&counter).wrap(|value| {
                add_one(&value);
                1
            }),
        ));
        let mut choice = Box::pin(choice.sync());
        let mut second = Box::pin(lock(&counter).sync());
        assert!(poll_once(choice.as_mut()).is_pending());
        assert!(poll_once(second.as_mut()).is_pending());
        let writer = thread::spawn(move || ivar.put(0).unwrap());
        let chooser = thread::spawn(move || block_on(choice));
        drop(held);
        add_one(&block_on(second));
        writer.join().unwrap();
        let locked = chooser.join().unwrap();
        assert_count(&counter, 1 + locked);
    });
}

/// A choice of two locks that are both released takes one, and the other is free.
#[test]
fn two_calls_commit_once() {
    check(|| {
        let (a, b) = (counter(), counter());
        let (held_a, held_b) = (a.try_lock().unwrap(), Arc::clone(&b).try_lock_owned().unwrap());
        let choice = choose_biased((lock(&a), lock(&b)));
        let mut choice = pin!(choice.sync());
        assert!(poll_once(choice.as_mut()).is_pending());
        let other = thread::spawn(move || drop(held_b));
        drop(held_a);
        let guard = block_on(choice);
        other.join().unwrap();
        let free = usize::from(a.try_lock().is_some()) + usize::from(b.try_lock().is_some());
        assert_eq!(free, 1);
        drop(guard);
        assert!(a.try_lock().is_some() && b.try_lock().is_some());
    });
}

/// INV-WATCH: the alarm rings while the notified waiter answers, and while the next one is polled.
/// Each takes the permit once.
#[test]
fn alarms_race_with_answers() {
    check(|| {
        let counter = counter();
        let held = counter.try_lock().unwrap();
        let mut first = Box::pin(lock(&counter).sync());
        let mut second = Box::pin(lock(&counter).sync());
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(poll_once(second.as_mut()).is_pending());
        // The first is notified, and the alarm is set.
        drop(held);
        let alarm = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.permits.queue().tick())
        };
        add_one(&block_on(first));
        add_one(&block_on(second));
        alarm.join().unwrap();
        assert_count(&counter, 2);
    });
}

/// INV-WATCH: the notified waiter is never polled. When the alarm rings, the second is notified,
/// though it is not polled in between.
#[test]
fn alarms_get_past_the_dead() {
    check(|| {
        let counter = counter();
        let held = counter.try_lock().unwrap();
        let mut dead = Box::pin(lock(&counter).sync());
        assert!(poll_once(dead.as_mut()).is_pending());
        let second = thread::spawn({
            let lock = lock(&counter);
            move || add_one(&block_on(lock))
        });
        add_one(&held);
        drop(held);
        // It rings twice, since the alarm may have been set before the second joined.
        for _ in 0..3 {
            counter.permits.queue().tick();
            thread::yield_now();
        }
        second.join().unwrap();
        assert_count(&counter, 2);
        add_one(&block_on(dead));
        assert_count(&counter, 3);
    });
}

/// A writer and a reader are never inside together.
#[test]
fn writers_exclude_readers() {
    check(|| {
        let lock = Arc::new(RwLock::new(Cell::new(0)));
        let writer = {
            let write = Arc::clone(&lock).write_owned();
            thread::spawn(move || add_one(&block_on(write)))
        };
        let seen = block_on(Arc::clone(&lock).write_owned()).get();
        writer.join().unwrap();
        assert!(seen <= 1);
        assert_eq!(lock.try_write().expect("nobody has it").get(), 1);
    });
}

/// A waiter wants two permits, which two threads give back one by one.
#[test]
fn wishes_for_many_are_called() {
    check(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let mut ours = semaphore.try_acquire(2).unwrap();
        let many = Arc::clone(&semaphore).acquire_owned(2);
        let waits = thread::spawn(move || block_on(many).unwrap().count());
        drop(ours.split(1));
        drop(ours);
        assert_eq!(waits.join().unwrap(), 2);
        assert_eq!(semaphore.available(), 2);
    });
}

/// A semaphore is closed while somebody joins the queue: the waiter is told.
#[test]
fn closing_races_with_joining() {
    check(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let acquire = Arc::clone(&semaphore).acquire_owned(1);
        let waits = thread::spawn(move || block_on(acquire).is_err());
        semaphore.close();
        assert!(waits.join().unwrap());
    });
}

/// A condition is made true under the mutex, and then notified. The other thread hears it, whether
/// it joins the queue before or after.
#[test]
fn notifications_are_heard() {
    check(|| {
        let shared = Arc::new((Mutex::new(Cell::new(0)), Condvar::new()));
        let notifier = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                add_one(&block_on(shared.0.lock()));
                shared.1.notify_one();
            })
        };
        let mut value = block_on(shared.0.lock());
        while value.get() == 0 {
            value = block_on(shared.1.wait(value));
        }
        drop(value);
        notifier.join().unwrap();
    });
}

/// One of two waiters for a condition is dropped while it is notified: the other one gets the
/// notification.
#[test]
fn notifications_are_passed_on() {
    check(|| {
        let shared = Arc::new((counter(), Condvar::new()));
        let condvar = &shared.1;
        let guard = || Arc::clone(&shared.0).try_lock_owned().unwrap();
        let mut first = Box::pin(condvar.wait(guard()).sync());
        assert!(poll_once(first.as_mut()).is_pending());
        let mut second = Box::pin(condvar.wait(guard()).sync());
        assert!(poll_once(second.as_mut()).is_pending());
        let notifier = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.1.notify_one())
        };
        drop(first);
        drop(block_on(second));
        notifier.join().unwrap();
    });
}
