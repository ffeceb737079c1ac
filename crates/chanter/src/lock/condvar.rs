//! `Condvar`, a condition variable.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::acquire::{AcquireBranch, Request};
use super::mutex::{Mutex, MutexGuard, OwnedMutexGuard};
use super::permits::copy;
use super::stall_timer::{LazyQueue, Queue};
use super::waiter_queue::{Stage, Waiter};
use crate::event::{Base, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};
use crate::sync::const_unless_loom;

/// A condition variable for a [`Mutex`].
///
/// ```
/// # use std::sync::Arc;
/// # use chanter::prelude::*;
/// # use chanter::sync::{Condvar, Mutex};
/// # chanter::block_on(async {
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let other = Arc::clone(&pair);
/// spawn(async move {
///     *other.0.lock().await = true;
///     other.1.notify_one();
/// });
/// let mut ready = pair.0.lock().await;
/// while !*ready {
///     ready = pair.1.wait(ready).await;
/// }
/// # });
/// ```
///
/// A wait may end without a notification, so test the condition in a loop. Channels and
/// [`IVar`](crate::IVar)s are often simpler: they carry the news itself.
///
/// A notification, like a lock, is not granted to a future that nobody polls: see [the
/// module](crate::sync). A wait that was notified, and is dropped before it has the mutex, passes the
/// notification on.
pub struct Condvar {
    queue: LazyQueue,
}

impl Condvar {
    const_unless_loom! {
        /// Makes a condition variable without waiters.
        pub fn new() -> Self {
            Self { queue: LazyQueue::new() }
        }
    }

    /// The event of being notified and holding the mutex again: *one* event.
    ///
    /// A synchronization on it first joins the wait queue and then unlocks the mutex. It commits
    /// when it has been notified, is polled, and finds the mutex free. If it is not chosen, or
    /// dropped, the mutex stays unlocked, and a notification that it got goes to another waiter.
    /// With a time-out:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use chanter::prelude::*;
    /// # use chanter::sync::{Condvar, Mutex};
    /// # chanter::block_on(async {
    /// # let (mutex, changed) = (Mutex::new(()), Condvar::new());
    /// let guard = mutex.lock().await;
    /// let in_time = choose((
    ///     changed.wait(guard).wrap(Some),
    ///     after(Duration::from_millis(1)).wrap(|()| None),
    /// ));
    /// let guard = match in_time.await {
    ///     Some(guard) => guard,
    ///     None => mutex.lock().await,
    /// };
    /// # drop(guard);
    /// # });
    /// ```
    pub fn wait<G: Guard>(&self, guard: G) -> Wait<'_, G> {
        Wait { condvar: self, guard }
    }

    /// Notifies one waiter, if there is one. Never blocks.
    pub fn notify_one(&self) {
        let mut wakes = WakeList::new();
        self.notify(1, &mut wakes);
        wakes.queue();
    }

    /// Notifies all waiters. Never blocks.
    pub fn notify_all(&self) {
        let mut wakes = WakeList::new();
        self.notify(usize::MAX, &mut wakes);
        wakes.queue();
    }

    fn queue(&self) -> &Queue {
        self.queue.get_or_make()
    }

    /// Notifies up to `waiters` waiters. There is no queue if nobody has ever waited.
    fn notify(&self, waiters: usize, wakes: &mut WakeList) {
        let Some(queue) = self.queue.get() else { return };
        let mut line = queue.lock();
        line.notify(waiters, wakes);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar(..)")
    }
}

/// A guard of a [`Mutex`], which [`Condvar::wait`] gives back and acquires again. Only this crate
/// implements this trait.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub trait Guard: Sized {
    #[doc(hidden)]
    type Again: Request<Output = Self>;
    /// Forgets the guard, without a release of the mutex.
    #[doc(hidden)]
    fn into_request(self) -> Self::Again;
}

impl<'a, T: ?Sized> Guard for MutexGuard<'a, T> {
    type Again = &'a Mutex<T>;

    fn into_request(self) -> &'a Mutex<T> {
        MutexGuard::into_request(self)
    }
}

impl<T: ?Sized> Guard for OwnedMutexGuard<T> {
    type Again = Arc<Mutex<T>>;

    fn into_request(self) -> Arc<Mutex<T>> {
        OwnedMutexGuard::into_request(self)
    }
}

/// The event of being notified: see [`Condvar::wait`].
#[derive(Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Wait<'a, G> {
    condvar: &'a Condvar,
    guard: G,
}

into_future!(['a, G: Guard] Wait<'a, G>, G);

// SAFETY: the branch holds the guard or the mutex behind it, and a waiter. The waiter is `Send`,
// since it is touched only under the wait queue's lock.
unsafe impl<'a, G: Guard> Event for Wait<'a, G> {
    type Branch = WaitBranch<'a, G>;

    fn into_branch(self) -> WaitBranch<'a, G> {
        WaitBranch {
            condvar: self.condvar,
            waiter: Waiter::new(),
            notified: false,
            lock: AcquireBranch::held(self.guard.into_request()),
        }
    }
}

#[doc(hidden)]
pub struct WaitBranch<'a, G: Guard> {
    condvar: &'a Condvar,
    waiter: Waiter,
    /// True if it was notified and has not committed yet.
    notified: bool,
    /// Holds the mutex until the waiter is in the queue, and then locks it again.
    lock: AcquireBranch<G::Again>,
}

impl<G: Guard> fmt::Debug for WaitBranch<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitBranch(..)")
    }
}

impl<G: Guard> WaitBranch<'_, G> {
    fn lock(self: Pin<&mut Self>) -> Pin<&mut AcquireBranch<G::Again>> {
        // SAFETY: `lock` is pinned together with the branch.
        unsafe { self.map_unchecked_mut(|this| &mut this.lock) }
    }

    /// Whether the waiter, which is in the queue or was, has been notified.
    fn is_notified(self: Pin<&mut Self>, at: &Offering<'_>) -> bool {
        // SAFETY: the waiter is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiter.has_joined() {
            let waker = copy(at);
            let mut line = this.condvar.queue().lock();
            // SAFETY: the waiter has joined this queue.
            let old = unsafe {
                if line.stage(&this.waiter) == Stage::Waiting {
                    line.answer(&this.waiter, waker)
                } else {
                    this.notified = true;
                    line.leave(&this.waiter).1
                }
            };
            drop(line);
            drop(old);
        }
        this.notified
    }

    /// Ends the wait. A notification goes to another waiter, unless the queue has already gone on
    /// without this one.
    fn give_up(&mut self, wakes: &mut WakeList) {
        let mut passes_on = std::mem::replace(&mut self.notified, false);
        if self.waiter.has_joined() {
            // SAFETY: the waiter has joined this queue.
            let (notified, old) = unsafe { self.condvar.queue().lock().leave(&self.waiter) };
            passes_on = notified;
            drop(old);
        }
        if passes_on {
            self.condvar.notify(1, wakes);
        }
    }
}

// SAFETY: no offer is ever linked. The waiter is in a wait queue, which it leaves in `settle` or
// `drop`. The mutex's branch does the same.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<G: Guard> Leaf for WaitBranch<'_, G> {
    fn attempt(self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        // A waiter that has not joined cannot have been notified.
        false
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let waker = copy(at);
        let queue = self.condvar.queue();
        let mut line = queue.lock();
        // SAFETY: the waiter is pinned with the branch and not in a queue; it leaves in `settle` or
        // `drop`.
        unsafe { line.join(&self.waiter, 1, u32::MAX, waker) };
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
        // The waiter is in the queue: it hears any notification by a thread that locks the mutex
        // from now on.
        self.lock().give_back(wakes);
        Offered::Idle
    }

    fn retry(mut self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        if !self.as_mut().is_notified(at) {
            return Offered::Idle;
        }
        self.lock().retry(at, wakes)
    }

    fn settle(mut self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        self.as_mut().lock().settle(won, wakes);
        // SAFETY: the waiter is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if won {
            this.notified = false;
        } else {
            this.give_up(wakes);
        }
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        if self.notified {
            self.lock().report(waits);
        } else {
            waits.push_if(false, Waiting::Other("a condition"));
        }
    }
}

impl<G: Guard> Base for WaitBranch<'_, G> {
    type Output = G;
    const SHAPE: Shape = Shape { retries: true, ..Shape::LEAF };

    fn finish(self: Pin<&mut Self>) -> G {
        self.lock().finish()
    }
}

impl<G: Guard> Drop for WaitBranch<'_, G> {
    fn drop(&mut self) {
        if self.notified || self.waiter.has_joined() {
            let mut wakes = WakeList::new();
            self.give_up(&mut wakes);
            wakes.queue();
        }
    }
}
