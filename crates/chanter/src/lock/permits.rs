//! Permits, the core of the semaphore, the mutex and the read-write lock.
//!
//! One word counts the free permits. Without contention, taking some is one compare-and-swap and
//! giving them back one addition. Flags in the word say when to look at the queue as well:
//!
//! | flag     | meaning                                  | written                 |
//! |----------|------------------------------------------|-------------------------|
//! | `QUEUED` | a release looks for a waiter to notify   | under the queue's lock  |
//! | `BARRED` | a newcomer asks whether it may take any  | under the queue's lock  |
//! | `CLOSED` | nothing is granted any more              | once                    |
//!
//! `QUEUED` and `BARRED` are hints: the truth is in the queue, and a flag may be set in vain. (The
//! alarm knows only the queue, and leaves the flags unchanged.)
//!
//! INV-SEEN, no lost wake-up: a waiter that joins the queue sets `QUEUED` and looks at the permits,
//! under the queue's lock. A release is a read-modify-write of the same word. If the release comes
//! later, it sees `QUEUED`, and the new waiter when it gets the queue's lock. If it comes earlier,
//! the waiter sees its permits. If `QUEUED` was set already, the release will get the queue's lock
//! later and notify.

use std::task::Waker;

use super::stall_timer::{LazyQueue, Queue};
use super::waiter_queue::Waiter;
use crate::event::{Offering, WakeList};
use crate::frame::catch_panic;
use crate::frame::report::{LockProbe, Waiting, Waits, Wanted};
use crate::sched;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{const_unless_loom, order};

const QUEUED: usize = 1;
const BARRED: usize = 2;
const CLOSED: usize = 4;
const ONE: usize = 8;

/// The largest possible number of permits.
pub(super) const MAX: usize = usize::MAX / ONE;

/// The number of releases that the first waiter sees before newcomers have to join the queue.
pub(super) const BYPASSES: u32 = 16;

/// A number of permits, and the queue of those that wait for some.
#[derive(Debug)]
pub(super) struct Permits {
    /// The free permits, in units of `ONE`, and the flags.
    state: AtomicUsize,
    queue: LazyQueue,
}

/// The end of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The caller has the permits.
    Granted,
    /// The semaphore is closed.
    Closed,
}

/// The outcome of a poll of an acquisition.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The acquisition ended, and the owner's group is committed.
    Ended(Outcome),
    /// Another leaf of the same group has committed.
    Lost,
    /// The waiter is in the queue.
    Waits,
}

impl Permits {
    const_unless_loom! {
        /// Makes `free` free permits, which must be no more than `MAX`.
        pub(super) fn new(free: usize) -> Self {
            Self { state: AtomicUsize::new(free * ONE), queue: LazyQueue::new() }
        }
    }

    /// The number of free permits.
    pub(super) fn free(&self) -> usize {
        self.state.load(Ordering::Relaxed) / ONE
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSED != 0
    }

    pub(super) fn queue(&self) -> &Queue {
        self.queue.get_or_make()
    }

    /// Adds to a report that a thread waits for permits.
    #[cold]
    pub(super) fn waits(&self, (wants, of): (Wanted, &'static str), permits: usize, waits: &mut Waits) {
        let lock = std::ptr::from_ref(self) as usize;
        waits.push_if(self.may_grant(permits), Waiting::Lock { lock, wants, of, holders: Vec::new() });
        if let Some(line) = self.queue.get().and_then(Queue::gauged) {
            waits.locks.push(LockProbe { lock, line });
        }
    }

    /// Whether `wants` permits might be granted now (a hint), or none ever because of a close.
    #[inline(always)]
    pub(super) fn may_grant(&self, wants: usize) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state / ONE >= wants || state & CLOSED != 0
    }

    /// Takes permits if they are free and no waiter has precedence.
    #[inline(always)]
    pub(super) fn try_take(&self, wants: usize) -> Option<Outcome> {
        let state = self.state.load(Ordering::Relaxed);
        if state & (BARRED | CLOSED) == 0 && state / ONE >= wants {
            // ORDER: Acquire pairs with the Release in `give`, of every release since:
            // read-modify-writes continue its release sequence.
            let taken = state - wants * ONE;
            if self.state.compare_exchange(state, taken, order::permit_take(), Ordering::Relaxed).is_ok() {
                return Some(Outcome::Granted);
            }
        }
        self.try_again(wants)
    }

    #[cold]
    fn try_again(&self, wants: usize) -> Option<Outcome> {
        if self.state.load(Ordering::Relaxed) & BARRED == 0 {
            return self.take(wants, true);
        }
        let queue = self.queue();
        let mut line = queue.lock();
        let taken = self.take(wants, !line.is_barred());
        line.free = self.free();
        self.flag(&line);
        let alarm = line.watch_for_newcomers();
        drop(line);
        queue.set_alarm(alarm);
        taken
    }

    /// Takes permits if they are free and `may` says that no waiter has precedence. `None`: none
    /// were taken.
    fn take(&self, wants: usize, may: bool) -> Option<Outcome> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & CLOSED != 0 {
                return Some(Outcome::Closed);
            }
            if !may || state / ONE < wants {
                return None;
            }
            let taken = state - wants * ONE;
            // ORDER: Acquire, as in `try_take`.
            match self.state.compare_exchange(state, taken, order::permit_take(), Ordering::Relaxed) {
                Ok(_) => return Some(Outcome::Granted),
                Err(changed) => state = changed,
            }
        }
    }

    /// Takes permits if they are free, without regard to waiters.
    pub(super) fn take_at_once(&self, wants: usize) -> bool {
        self.take(wants, true) == Some(Outcome::Granted)
    }

    /// Writes the word unchanged, so that each release is ordered before or after the caller: see
    /// `BiasedGate::try_shut`.
    pub(super) fn touch(&self) {
        // ORDER: Release publishes the caller's stores. Acquire sees the stores before each earlier
        // release.
        self.state.fetch_add(0, order::permit_touch());
    }

    /// Whether anybody may be in the queue: a hint, unless the caller's fences make it more.
    pub(super) fn has_line(&self) -> bool {
        // ORDER: Relaxed: see `BiasedGate::bias`.
        self.state.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// Polls an acquisition: takes permits, or joins the queue, or stays in it.
    ///
    /// # Safety
    /// The waiter is pinned, is used for this lock only, and leaves before it is freed.
    pub(super) unsafe fn attempt(
        &self,
        waiter: &Waiter,
        (wants, patience): (usize, u32),
        at: &Offering<'_>,
        wakes: &mut WakeList,
    ) -> Attempt {
        let queue = self.queue();
        let waker = copy(at);
        let mut line = queue.lock();
        // INV-SEEN requires this flag. If it is set already, nobody clears it now, since the queue
        // is locked.
        if self.state.load(Ordering::Relaxed) & QUEUED == 0 {
            // ORDER: Relaxed: the order of the changes to one word is enough.
            self.state.fetch_or(QUEUED, Ordering::Relaxed);
        }
        // Only the owner's own group is claimed, so nothing blocks here.
        let is_ours = at.single || at.group.claim();
        let taken = if is_ours { self.take(wants, line.may_take(waiter)) } else { None };
        line.free = self.free();
        let mut old = None;
        let attempt = match taken {
            Some(outcome) => {
                at.group.commit(at.leaf);
                if waiter.has_joined() {
                    // SAFETY: the waiter has joined this queue, as its owner knows.
                    old = unsafe { line.leave(waiter) }.1;
                }
                Attempt::Ended(outcome)
            }
            None if !is_ours => Attempt::Lost,
            None => {
                if !at.single {
                    at.group.unclaim();
                }
                // SAFETY: the waiter is pinned, is used for this lock only, and leaves before it is
                // freed, as the caller has promised. Its owner knows whether it has joined.
                unsafe {
                    if waiter.has_joined() {
                        old = line.answer(waiter, waker);
                    } else {
                        line.join(waiter, wants, patience, waker);
                    }
                }
                Attempt::Waits
            }
        };
        line.notify(0, wakes);
        self.flag(&line);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
        drop(old);
        attempt
    }

    /// Removes a waiter that does not want permits any more. If it was notified, another is
    /// notified in its place.
    #[cold]
    pub(super) fn leave(&self, waiter: &Waiter, wakes: &mut WakeList) {
        let queue = self.queue();
        let mut line = queue.lock();
        // SAFETY: the waiter has joined this queue, as its owner says.
        let (_, old) = unsafe { line.leave(waiter) };
        line.free = self.free();
        line.notify(0, wakes);
        self.flag(&line);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
        drop(old);
    }

    /// Removes the alarm, if nobody waits: see [`Queue::rest`].
    pub(super) fn rest(&self) -> bool {
        self.queue.get().is_none_or(Queue::rest)
    }

    /// Gives back permits that were taken.
    #[inline(always)]
    pub(super) fn give(&self, permits: usize) {
        // ORDER: Release publishes what was done with the permits.
        if self.state.fetch_add(permits * ONE, order::permit_give()) & QUEUED != 0 {
            self.call_next();
        }
    }

    /// Like `give`, for callers that collect wake-ups in `wakes`.
    pub(super) fn give_and(&self, permits: usize, wakes: &mut WakeList) {
        // ORDER: Release, as in `give`.
        if self.state.fetch_add(permits * ONE, order::permit_give()) & QUEUED != 0 {
            self.look(wakes);
        }
    }

    /// Adds new permits. False: there would be more than `MAX`, and none was added.
    pub(super) fn add(&self, permits: usize) -> bool {
        if permits > MAX {
            return false;
        }
        let add = |state: usize| state.checked_add(permits * ONE);
        // ORDER: Release, as in `give`.
        match self.state.fetch_update(order::permit_give(), Ordering::Relaxed, add) {
            Ok(before) if before & QUEUED != 0 => self.call_next(),
            Ok(_) => (),
            Err(_) => return false,
        }
        true
    }

    /// Closes the permits: nothing is granted any more, and all waiters are notified.
    pub(super) fn close(&self) {
        // ORDER: Relaxed: it publishes nothing. A waiter is found under the queue's lock, or has
        // seen the flag there.
        if self.state.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED == 0 {
            let mut wakes = WakeList::new();
            self.queue().lock().notify(usize::MAX, &mut wakes);
            wakes.queue();
        }
    }

    #[cold]
    #[inline(never)]
    fn call_next(&self) {
        let mut wakes = WakeList::new();
        self.look(&mut wakes);
        // This often runs in a destructor, which must not panic.
        catch_panic(|| wakes.queue());
    }

    /// Notifies waiters after permits were given back.
    fn look(&self, wakes: &mut WakeList) {
        let queue = self.queue();
        let mut line = queue.lock();
        line.free = self.free();
        line.pass();
        line.notify(0, wakes);
        self.flag(&line);
        let alarm = line.watch();
        drop(line);
        queue.set_alarm(alarm);
    }

    /// Brings the flags up to date, while `line` is locked.
    fn flag(&self, line: &super::waiter_queue::WaiterQueue) {
        let queued = if line.is_empty() { 0 } else { QUEUED };
        let barred = if line.is_barred() { BARRED } else { 0 };
        let (now, then) = (queued | barred, self.state.load(Ordering::Relaxed) & (QUEUED | BARRED));
        // ORDER: Relaxed: the flags are hints, and INV-SEEN needs only the order of the changes to
        // one word.
        if now & !then != 0 {
            self.state.fetch_or(now, Ordering::Relaxed);
        }
        if then & !now != 0 {
            self.state.fetch_and(!(then & !now), Ordering::Relaxed);
        }
    }
}

/// Clones the waker of the task that synchronizes. This is done before any lock is taken, because a
/// clone may run user code.
pub(super) fn copy(at: &Offering<'_>) -> Waker {
    let task = at.task.expect("a shape passes on `retries`");
    if sched::is_ours(task) { sched::clone_ours(task) } else { task.clone() }
}
