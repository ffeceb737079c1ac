//! The queue: a line under its lock, and the alarm that watches over it.
//!
//! It has a place of its own on the heap, made when somebody waits for the
//! first time: the alarm rings wherever time is kept, perhaps after the lock
//! has been moved or dropped, and waiters may have been leaked.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::line::Line;
use crate::event::Wakes;
use crate::sync::{self, Guard, Lock};
use crate::thread::body::contain;
use crate::time::Alarm;

/// Those who wait for one lock.
pub(super) struct Queue {
    line: Lock<Line>,
    /// The alarm that is set.
    alarm: Lock<Option<Pin<Box<Alarm>>>>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue(..)")
    }
}

impl Queue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { line: Lock::new(Line::new()), alarm: Lock::new(None) })
    }

    pub(super) fn lock(&self) -> Guard<'_, Line> {
        self.line.lock()
    }

    /// Sets the alarm that [`Line::watch`] asked for. The line is not locked.
    pub(super) fn set_alarm(self: &Arc<Self>, duration: Option<Duration>) {
        if let Some(duration) = duration
            && sync::HAS_CLOCK
        {
            let waker = Waker::from(Arc::clone(self));
            // Set under the lock: if it rings at once, `tick` finds it here.
            let mut place = self.alarm.lock();
            *place = Some(Alarm::set(duration, waker));
        }
    }

    /// Takes the alarm away: it has rung, or the lock is gone.
    pub(super) fn disarm(&self) {
        let alarm = self.alarm.lock().take();
        drop(alarm);
    }

    /// The alarm has rung.
    pub(super) fn tick(self: &Arc<Self>) {
        self.disarm();
        let mut wakes = Wakes::new();
        let mut line = self.lock();
        line.tick(&mut wakes);
        let next = line.watch();
        drop(line);
        self.set_alarm(next);
        // A foreign waker may panic: the time goes on.
        contain(|| wakes.queue());
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
