//! The queue of a lock: the waiters under their own lock, and the alarm that puts aside waiters
//! that are not polled.
//!
//! It is allocated on the heap when somebody waits for the first time. It cannot lie in the lock:
//! the alarm rings wherever time is kept, perhaps after the lock has been moved or dropped. Waiters
//! may also have been leaked.
//!
//! The alarm is a timer of the virtual processor on which it was set, or of the time keeper. It is
//! late while that processor is.

use std::fmt;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::waiter_queue::{Waiter, WaiterQueue};
use crate::event::Alarm;
use crate::event::WakeList;
use crate::frame::catch_panic;
use crate::frame::report::{Gauge, Gauged};
use crate::sched::timers::MayHelp;
use crate::sync::atomic::{AtomicBool, AtomicPtr};
use crate::sync::{self, Guard, Lock, const_unless_loom, order};

/// The waiters of one lock.
pub(super) struct Queue {
    /// A reference for the alarm, which keeps the queue alive.
    this: Weak<Queue>,
    line: Lock<WaiterQueue>,
    /// The alarm that is set, if there is one.
    alarm: Lock<Option<Pin<Box<Alarm>>>>,
    /// Whether the ring of the alarm may help somebody. The waiter queue writes it (INV-IDLE).
    may_help: MayHelp,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue(..)")
    }
}

impl Queue {
    fn new() -> Arc<Self> {
        let may_help = MayHelp::new(AtomicBool::new(true));
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            line: Lock::new(WaiterQueue::new(MayHelp::clone(&may_help))),
            alarm: Lock::new(None),
            may_help,
        })
    }

    pub(super) fn lock(&self) -> Guard<'_, WaiterQueue> {
        self.line.lock()
    }

    /// The queue, for a report that follows its free permits.
    pub(super) fn gauged(&self) -> Option<Arc<dyn Gauged>> {
        let this = self.this.upgrade()?;
        Some(this)
    }

    /// Sets the alarm that [`WaiterQueue::watch`] asked for. The waiters are not locked.
    pub(super) fn set_alarm(&self, duration: Option<Duration>) {
        if let Some(duration) = duration
            && sync::HAS_CLOCK
            && let Some(this) = self.this.upgrade()
        {
            let waker = Waker::from(this);
            let may_help = MayHelp::clone(&self.may_help);
            // It is set under the lock, so that `tick` finds it here even if it rings at once.
            let mut place = self.alarm.lock();
            *place = Some(Alarm::set(duration, waker, may_help));
        }
    }

    /// Removes the alarm: it has rung, or the lock is gone.
    fn disarm(&self) {
        let alarm = self.alarm.lock().take();
        drop(alarm);
    }

    /// Removes the alarm, if nobody waits. The next waiters may belong to another machine, whose own timers must then
    /// carry the alarm. False: somebody waits.
    pub(super) fn rest(&self) -> bool {
        let mut line = self.lock();
        let is_unused = line.rest();
        // Both locks are held, so an alarm that is set from now on stays. One that was asked for before may come late: its
        // ring finds nothing to do.
        let alarm = if is_unused { self.alarm.lock().take() } else { None };
        drop(line);
        drop(alarm);
        is_unused
    }

    /// Handles the ring of the alarm.
    pub(super) fn tick(&self) {
        self.disarm();
        let mut wakes = WakeList::new();
        let mut line = self.lock();
        line.tick(&mut wakes);
        let next = line.watch();
        drop(line);
        self.set_alarm(next);
        // A foreign waker may panic, and must not end the time keeper or the scheduler.
        catch_panic(|| wakes.queue());
    }
}

impl Gauged for Queue {
    fn gauge(self: Arc<Self>) -> Box<dyn Gauge> {
        let last = Box::pin(Waiter::new());
        // SAFETY: the waiter is pinned and new, and leaves when the gauge is dropped.
        unsafe { self.lock().join(&last, usize::MAX, u32::MAX, Waker::noop().clone()) };
        Box::new(QueueGauge { queue: self, last })
    }
}

/// Follows the number of free permits. A release tells this number to the queue while somebody
/// waits. So the gauge is a waiter itself, for more permits than there are.
struct QueueGauge {
    queue: Arc<Queue>,
    last: Pin<Box<Waiter>>,
}

impl Gauge for QueueGauge {
    fn free(&self) -> usize {
        self.queue.lock().free
    }
}

impl Drop for QueueGauge {
    fn drop(&mut self) {
        // SAFETY: the waiter has joined this queue, in `gauge`.
        let left = unsafe { self.queue.lock().leave(&self.last) };
        drop(left);
    }
}

impl Wake for Queue {
    fn wake(self: Arc<Self>) {
        self.tick();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.tick();
    }
}

/// A lock's queue, which is made when somebody waits for the first time.
pub(super) struct LazyQueue(AtomicPtr<Queue>);

impl fmt::Debug for LazyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazyQueue(..)")
    }
}

impl LazyQueue {
    const_unless_loom! {
        pub(super) fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// The queue, if there is one. A caller may still get `None` for a queue that exists, unless it
    /// has synchronized with the maker. `get_or_make` always returns one.
    pub(super) fn get(&self) -> Option<&Queue> {
        // ORDER: Acquire pairs with `make`: the queue is initialized.
        // SAFETY: the queue lives until `self` is dropped.
        unsafe { self.0.load(order::queue_observe()).as_ref() }
    }

    pub(super) fn get_or_make(&self) -> &Queue {
        self.get().unwrap_or_else(|| self.make())
    }

    #[cold]
    fn make(&self) -> &Queue {
        let fresh = Arc::into_raw(Queue::new()).cast_mut();
        // ORDER: Release publishes the queue to `get`. If another is there already, Acquire sees
        // it, as in `get`.
        let (publish, observe) = (order::queue_publish(), order::queue_observe());
        match self.0.compare_exchange(ptr::null_mut(), fresh, publish, observe) {
            // SAFETY: the queue lives until `self` is dropped.
            Ok(_) => unsafe { &*fresh },
            Err(theirs) => {
                // SAFETY: our queue was never shared. The other one lives until `self` is dropped.
                unsafe {
                    drop(Arc::from_raw(fresh));
                    &*theirs
                }
            }
        }
    }
}

impl Drop for LazyQueue {
    fn drop(&mut self) {
        if let Some(queue) = self.get() {
            queue.disarm();
            // SAFETY: the pointer comes from `into_raw` in `make`, and is given back once.
            unsafe { drop(Arc::from_raw(queue)) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_does_not_outlast_its_waiters_if_the_lock_rests() {
        let queue = Queue::new();
        let waiters = [(); 2].map(|()| Box::pin(Waiter::new()));
        let arm = |queue: &Queue| {
            let mut line = queue.lock();
            // SAFETY: the waiters are pinned and in no queue, and leave below.
            waiters.iter().for_each(|waiter| unsafe { line.join(waiter, 1, 1, Waker::noop().clone()) });
            line.free = 1;
            line.notify(0, &mut WakeList::new());
            line.watch()
        };
        // SAFETY: the waiter has joined.
        let leave = |waiter: &Waiter| drop(unsafe { queue.lock().leave(waiter) });
        queue.set_alarm(Some(
            arm(&queue).expect("a waiter is behind one that is notified").max(Duration::from_secs(600)),
        ));
        assert!(!queue.rest(), "somebody waits");
        assert!(queue.alarm.lock().is_some());
        waiters.iter().for_each(|waiter| leave(waiter));
        assert!(queue.rest());
        assert!(queue.alarm.lock().is_none());
        assert!(arm(&queue).is_some(), "the next waiters set their own");
        waiters.iter().for_each(|waiter| leave(waiter));
    }
}
