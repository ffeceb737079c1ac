//! The queue: a line under its lock, and the alarm that watches over it.
//!
//! It has a place of its own on the heap, made when somebody waits for the
//! first time: the alarm rings wherever time is kept, perhaps after the lock
//! has been moved or dropped, and waiters may have been leaked.
//!
//! The alarm is a timer of the virtual processor on which it was set, or of the
//! time keeper: it is late while that processor is.

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

/// Those who wait for one lock.
pub(super) struct Queue {
    /// For the alarm, which keeps it alive.
    this: Weak<Queue>,
    line: Lock<WaiterQueue>,
    /// The alarm that is set.
    alarm: Lock<Option<Pin<Box<Alarm>>>>,
    /// Whether its ring may help somebody: the line says so (INV-IDLE).
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

    /// For a report.
    pub(super) fn gauged(&self) -> Option<Arc<dyn Gauged>> {
        let this = self.this.upgrade()?;
        Some(this)
    }

    /// Sets the alarm that [`WaiterQueue::watch`] asked for. The line is not locked.
    pub(super) fn set_alarm(&self, duration: Option<Duration>) {
        if let Some(duration) = duration
            && sync::HAS_CLOCK
            && let Some(this) = self.this.upgrade()
        {
            let waker = Waker::from(this);
            let may_help = MayHelp::clone(&self.may_help);
            // Set under the lock: if it rings at once, `tick` finds it here.
            let mut place = self.alarm.lock();
            *place = Some(Alarm::set(duration, waker, may_help));
        }
    }

    /// Takes the alarm away: it has rung, or the lock is gone.
    fn disarm(&self) {
        let alarm = self.alarm.lock().take();
        drop(alarm);
    }

    /// The alarm has rung.
    pub(super) fn tick(&self) {
        self.disarm();
        let mut wakes = WakeList::new();
        let mut line = self.lock();
        line.tick(&mut wakes);
        let next = line.watch();
        drop(line);
        self.set_alarm(next);
        // A foreign waker may panic: the time goes on.
        catch_panic(|| wakes.queue());
    }
}

impl Gauged for Queue {
    fn gauge(self: Arc<Self>) -> Box<dyn Gauge> {
        let last = Box::pin(Waiter::new());
        // SAFETY: pinned, and leaves when the gauge is dropped.
        unsafe { self.lock().join(&last, usize::MAX, u32::MAX, Waker::noop().clone()) };
        Box::new(QueueGauge { queue: self, last })
    }
}

/// Follows how many permits are free: while somebody waits, whoever gives some back
/// tells the line. So one more waits, for more permits than there are.
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
        // SAFETY: it has joined this line.
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

/// A lock's queue, once somebody has waited.
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

    /// The queue, if there is one. Who knows that there is one, but not from
    /// its maker, may still get none: `get_or_make` never does.
    pub(super) fn get(&self) -> Option<&Queue> {
        // ORDER: Acquire pairs with `make`: the queue is whole.
        // SAFETY: it lives until our end.
        unsafe { self.0.load(order::queue_observe()).as_ref() }
    }

    pub(super) fn get_or_make(&self) -> &Queue {
        self.get().unwrap_or_else(|| self.make())
    }

    #[cold]
    fn make(&self) -> &Queue {
        let fresh = Arc::into_raw(Queue::new()).cast_mut();
        // ORDER: Release publishes the queue to `get`; Acquire, if another is
        // there already, as in `get`.
        let (publish, observe) = (order::queue_publish(), order::queue_observe());
        match self.0.compare_exchange(ptr::null_mut(), fresh, publish, observe) {
            // SAFETY: it lives until our end.
            Ok(_) => unsafe { &*fresh },
            Err(theirs) => {
                // SAFETY: ours was never shared; theirs lives until our end.
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
            // SAFETY: from `into_raw`, once.
            unsafe { drop(Arc::from_raw(queue)) };
        }
    }
}
