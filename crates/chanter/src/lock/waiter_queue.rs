//! The wait queue of a lock, and the rules by which waiters are notified.
//!
//! Nothing is ever handed to a waiter. A caller that gives a permit back *notifies* the first
//! waiter (stage `Called`). It takes the waker out, and wakes it when no lock is held. The notified
//! waiter *answers* when it is polled. It tries to take its permits, and either commits or goes on
//! waiting, at its old place.
//!
//! ```text
//!           join                    call                   tick
//!   Out ───────────► Waiting ─────────────► Called ─────────────► Away
//!    ▲                │ ▲  ▲                 │  │                  │ │
//!    │                │ │  └───(answer)──────┘  │                  │ │
//!    │                │ └──────────────(requeue, at the front)──────┘ │
//!    └────(leave)─────┴─────────────────────────┴────────────────────┘
//! ```
//!
//! * INV-POLL: only a poll takes permits. A waiter that is notified and never polled holds nothing.
//! * INV-CALL: while the free permits would suffice for some waiter, a waiter is notified and has
//!   not answered. Otherwise all before that one would have to be bypassed, and then an alarm is
//!   set.
//! * INV-WATCH: an alarm is set while somebody waits behind a waiter that is notified, or that
//!   stands in the way of free permits. When it rings, the waiters that were notified before it was
//!   set are put *away*: the queue goes on without them. They come back, to the front, when they
//!   are polled.
//! * INV-IDLE: an alarm may help somebody while a notified waiter has not answered, or if anything
//!   has changed since the first waiter last proved alive. Otherwise its ring finds the first
//!   waiter alive once more. The exception is a first waiter whose thread has run meanwhile and
//!   does not poll it any more. So a machine with only such an alarm counts as stuck once the alarm
//!   has rung and nothing has changed.
//! * INV-BYPASS: the first waiter sees at most `patience` returns of permits before newcomers are
//!   barred. Until it leaves the queue, only it and the notified waiters take any.
//!
//! All of this is under the lock of the queue (`stall_timer.rs`), so only the holder of that lock
//! touches a waiter. A waiter's owner takes the lock to unlink it before it is freed (INV-LIVE).

use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};
use std::task::Waker;
use std::time::Duration;

use crate::event::WakeList;
use crate::sched::timers::MayHelp;
use crate::sync::atomic::Ordering;
use crate::sync::{self, Cell, UnsafeCell};

/// The time that a notified waiter has to answer before others are notified as well.
pub(super) const ANSWER: Duration = Duration::from_millis(1);
/// The limit of `slowness`. A waiter that answered late, or answered a probe, gets twice the time
/// at the next alarm, up to `ANSWER << SLOWEST`.
const SLOWEST: u32 = 6;

/// A waiter. Its owner pins it.
#[derive(Debug)]
pub(super) struct Waiter {
    prev: Cell<*const Waiter>,
    next: Cell<*const Waiter>,
    stage: Cell<Stage>,
    /// The order of arrival: a smaller ticket is earlier.
    ticket: Cell<i64>,
    wants: Cell<usize>,
    /// The number of times that permits were given back while it was first.
    passes: Cell<u32>,
    /// The number of such times from which on newcomers are barred.
    patience: Cell<u32>,
    /// The number of the latest alarm when it was notified.
    called_in: Cell<u32>,
    /// The number of times that it has proved to be alive, at most `SLOWEST`.
    slowness: Cell<u32>,
    /// True if it was notified only as a probe, to see whether it is alive.
    probed: Cell<bool>,
    waker: UnsafeCell<Option<Waker>>,
    /// True if the queue may know it. Only the owner uses this field.
    joined: std::cell::Cell<bool>,
    _pinned: PhantomPinned,
}

/// The stage of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not in the queue.
    Out,
    /// In the queue.
    Waiting,
    /// In the queue, notified, and not polled since.
    Called,
    /// Notified for so long that the queue goes on without it. It is not linked.
    Away,
}

impl Waiter {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            stage: Cell::new(Stage::Out),
            ticket: Cell::new(0),
            wants: Cell::new(0),
            passes: Cell::new(0),
            patience: Cell::new(0),
            called_in: Cell::new(0),
            slowness: Cell::new(0),
            probed: Cell::new(false),
            waker: UnsafeCell::new(None),
            joined: std::cell::Cell::new(false),
            _pinned: PhantomPinned,
        }
    }

    /// Whether it has joined a queue and has not left it. Only its owner asks.
    #[inline(always)]
    pub(super) fn has_joined(&self) -> bool {
        self.joined.get()
    }

    fn set_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        // SAFETY: the queue's lock is held, or the waiter is not linked.
        self.waker.with_mut(|place| unsafe { std::mem::replace(&mut *place, waker) })
    }
}

/// The waiters of a lock, in the order of their arrival. The queue's lock protects it.
#[derive(Debug)]
pub(super) struct WaiterQueue {
    /// The first waiter; its `prev` is the last one.
    head: Option<NonNull<Waiter>>,
    /// The first waiter that is not notified.
    next: Option<NonNull<Waiter>>,
    /// The upper bound of the number of permits that can be free now.
    pub(super) free: usize,
    /// The number of permits that the notified waiters want together.
    notified: u128,
    /// True if newcomers may not take permits.
    barred: bool,
    /// The next ticket at the end; `first` is the latest one at the front.
    last: i64,
    first: i64,
    /// True if an alarm is set. `alarm` is its number, and `alarm_slowness` the slowness of the
    /// waiter that it was set for.
    armed: bool,
    alarm: u32,
    alarm_slowness: u32,
    /// The number of further waiters that are notified when an alarm finds waiters missing. It
    /// doubles each time, so the time to find those that are never polled grows with the logarithm
    /// of their number.
    batch: usize,
    /// True if the first waiter has answered a probe, and nothing has changed since.
    proved: bool,
    /// Whether the alarm may help somebody (INV-IDLE).
    may_help: MayHelp,
}

/// Doubles the time that the waiter, which has proved to be alive, gets from the next alarm.
fn slow_down(waiter: &Waiter) {
    waiter.slowness.set((waiter.slowness.get() + 1).min(SLOWEST));
}

// SAFETY: the pointers are to pinned waiters, and their owners unlink them under the same lock
// (INV-LIVE).
unsafe impl Send for WaiterQueue {}

impl WaiterQueue {
    pub(super) fn new(may_help: MayHelp) -> Self {
        Self {
            head: None,
            next: None,
            free: 0,
            notified: 0,
            barred: false,
            last: 0,
            first: 0,
            armed: false,
            alarm: 0,
            alarm_slowness: 0,
            batch: 0,
            proved: false,
            may_help,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Whether newcomers have to join the queue.
    pub(super) fn is_barred(&self) -> bool {
        self.barred
    }

    /// Whether `waiter`, which is being polled, may take free permits.
    pub(super) fn may_take(&self, waiter: &Waiter) -> bool {
        !self.barred
            || waiter.stage.get() == Stage::Called
            || self.head.is_some_and(|head| ptr::eq(head.as_ptr(), waiter))
    }

    /// The stage of a waiter.
    pub(super) fn stage(&self, waiter: &Waiter) -> Stage {
        waiter.stage.get()
    }

    /// Adds a newcomer at the end.
    ///
    /// # Safety
    /// The waiter is pinned and in no queue, and its owner lets it `leave` before it is freed.
    pub(super) unsafe fn join(&mut self, waiter: &Waiter, wants: usize, patience: u32, waker: Waker) {
        waiter.wants.set(wants);
        waiter.patience.set(patience);
        waiter.ticket.set(self.last);
        waiter.joined.set(true);
        self.last += 1;
        self.proved = false;
        // SAFETY: the waiter is pinned and in no queue, and leaves before it is freed, as the
        // caller has promised.
        unsafe { self.link(waiter, waker, false) };
    }

    /// Notes that a waiter has been polled and could not take its permits. Returns a waker that the
    /// caller must drop when no lock is held.
    ///
    /// # Safety
    /// The waiter has joined this queue.
    pub(super) unsafe fn answer(&mut self, waiter: &Waiter, waker: Waker) -> Option<Waker> {
        match waiter.stage.get() {
            Stage::Out => unreachable!("who answers has joined"),
            Stage::Waiting => waiter.set_waker(Some(waker)),
            Stage::Called => {
                self.recall(waiter);
                self.batch = 0;
                if waiter.probed.replace(false) {
                    slow_down(waiter);
                    self.proved = true;
                }
                waiter.stage.set(Stage::Waiting);
                // SAFETY: `next` is in the queue, so it lives (INV-LIVE).
                if self.next.is_none_or(|next| waiter.ticket.get() < unsafe { next.as_ref() }.ticket.get()) {
                    self.next = Some(NonNull::from(waiter));
                }
                waiter.set_waker(Some(waker))
            }
            Stage::Away => {
                slow_down(waiter);
                waiter.probed.set(false);
                self.first -= 1;
                self.proved = false;
                waiter.ticket.set(self.first);
                // SAFETY: the waiter has joined, so it is pinned, and its owner lets it leave. It
                // is not linked while it is away.
                unsafe { self.link(waiter, waker, true) };
                None
            }
        }
    }

    /// Removes a waiter that has its permits, or does not want them any more. Returns whether it
    /// was notified, and a waker that the caller must drop when no lock is held.
    ///
    /// # Safety
    /// The waiter has joined this queue.
    pub(super) unsafe fn leave(&mut self, waiter: &Waiter) -> (bool, Option<Waker>) {
        waiter.joined.set(false);
        self.proved = false;
        let stage = waiter.stage.replace(Stage::Out);
        if stage == Stage::Called {
            self.recall(waiter);
            self.batch = 0;
        }
        if matches!(stage, Stage::Called | Stage::Waiting) {
            // SAFETY: the waiter is linked in this queue, as its stage says.
            unsafe { self.unlink(waiter) };
        }
        (stage == Stage::Called, waiter.set_waker(None))
    }

    /// Notifies the waiters for which the free permits suffice, in order, and `more` others.
    pub(super) fn notify(&mut self, mut more: usize, wakes: &mut WakeList) {
        while let Some(next) = self.next {
            // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
            let waiter = unsafe { next.as_ref() };
            if self.notified + waiter.wants.get() as u128 > self.free as u128 {
                if more == 0 {
                    return;
                }
                more -= 1;
            }
            self.call_one(waiter, wakes);
        }
    }

    /// Counts for the first waiter that permits were given back.
    pub(super) fn pass(&mut self) {
        if let Some(head) = self.head {
            // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
            let head = unsafe { head.as_ref() };
            self.proved = false;
            head.passes.set(head.passes.get().saturating_add(1));
            self.see_who_is_first();
        }
    }

    /// The time after which an alarm has to ring, if one has to be set now. This is so if somebody
    /// waits, and another waiter is notified or in the way (INV-WATCH).
    #[must_use = "the queue sets it"]
    pub(super) fn watch(&mut self) -> Option<Duration> {
        self.judge();
        let in_the_way = self.next != self.head || self.notified > 0 || self.free > 0;
        if self.next.is_some() && self.has_several() && in_the_way { self.arm() } else { None }
    }

    /// Like `watch`, for a newcomer that is barred and does not join.
    #[must_use = "the queue sets it"]
    pub(super) fn watch_for_newcomers(&mut self) -> Option<Duration> {
        if self.barred { self.arm() } else { None }
    }

    /// Notes whether an alarm may help somebody (INV-IDLE).
    fn judge(&self) {
        // In a model alarms ring by hand, so nobody asks.
        if !sync::HAS_CLOCK {
            return;
        }
        // ORDER: Relaxed: see `Timers::may_help`.
        self.may_help.store(self.notified > 0 || !self.proved, Ordering::Relaxed);
    }

    fn arm(&mut self) -> Option<Duration> {
        if self.armed {
            return None;
        }
        self.armed = true;
        self.alarm = self.alarm.wrapping_add(1);
        // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
        self.alarm_slowness = self.head.map_or(0, |head| unsafe { head.as_ref() }.slowness.get());
        Some(ANSWER * (1 << self.alarm_slowness))
    }

    /// Forgets the alarm, if nobody waits. False: somebody does.
    pub(super) fn rest(&mut self) -> bool {
        if self.is_empty() {
            self.armed = false;
        }
        self.is_empty()
    }

    /// Handles the ring of the alarm.
    pub(super) fn tick(&mut self, wakes: &mut WakeList) {
        self.armed = false;
        let mut missing = 0;
        let mut at = self.head;
        while let Some(waiter) = at {
            // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
            let waiter = unsafe { waiter.as_ref() };
            if waiter.stage.get() != Stage::Called {
                break;
            }
            at = self.after(waiter);
            let in_time = waiter.called_in.get() == self.alarm;
            if !in_time && waiter.slowness.get() <= self.alarm_slowness {
                self.recall(waiter);
                waiter.stage.set(Stage::Away);
                // SAFETY: the waiter is linked in this queue, as its stage says.
                unsafe { self.unlink(waiter) };
                missing += 1;
            }
        }
        if missing > 0 {
            self.proved = false;
            self.batch = self.batch.saturating_mul(2).max(missing);
            self.notify(self.batch, wakes);
        } else if let Some(head) = self.head.filter(|_| self.next == self.head && self.free > 0) {
            // The first waiter is in the way of others: a probe asks whether it is alive.
            // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
            let head = unsafe { head.as_ref() };
            head.probed.set(true);
            self.call_one(head, wakes);
        }
    }

    fn has_several(&self) -> bool {
        // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
        self.head.is_some_and(|head| !ptr::eq(unsafe { head.as_ref() }.next.get(), head.as_ptr()))
    }

    fn call_one(&mut self, waiter: &Waiter, wakes: &mut WakeList) {
        waiter.stage.set(Stage::Called);
        waiter.called_in.set(self.alarm);
        self.notified += waiter.wants.get() as u128;
        wakes.push(waiter.set_waker(None));
        if self.next.is_some_and(|next| ptr::eq(next.as_ptr(), waiter)) {
            self.next = self.waiting_after(waiter);
        }
    }

    fn recall(&mut self, waiter: &Waiter) {
        self.notified -= waiter.wants.get() as u128;
    }

    fn see_who_is_first(&mut self) {
        // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
        let first = self.head.map(|head| unsafe { head.as_ref() });
        self.barred = first.is_some_and(|first| first.passes.get() >= first.patience.get());
    }

    fn after(&self, waiter: &Waiter) -> Option<NonNull<Waiter>> {
        NonNull::new(waiter.next.get().cast_mut()).filter(|next| Some(*next) != self.head)
    }

    fn waiting_after(&self, waiter: &Waiter) -> Option<NonNull<Waiter>> {
        let mut at = self.after(waiter);
        // SAFETY: the waiter is in the queue, so it lives (INV-LIVE).
        while let Some(next) = at.map(|next| unsafe { next.as_ref() }) {
            if next.stage.get() == Stage::Waiting {
                break;
            }
            at = self.after(next);
        }
        at
    }

    /// # Safety
    /// The waiter is pinned, not linked, and leaves before it is freed.
    unsafe fn link(&mut self, waiter: &Waiter, waker: Waker, in_front: bool) {
        let this = NonNull::from(waiter);
        waiter.stage.set(Stage::Waiting);
        let none = waiter.set_waker(Some(waker));
        debug_assert!(none.is_none(), "who is not linked has no waker");
        match self.head {
            None => {
                waiter.prev.set(this.as_ptr());
                waiter.next.set(this.as_ptr());
            }
            // SAFETY: waiters in the queue live (INV-LIVE).
            Some(head) => unsafe {
                let tail = head.as_ref().prev.get();
                waiter.prev.set(tail);
                waiter.next.set(head.as_ptr());
                (*tail).next.set(this.as_ptr());
                head.as_ref().prev.set(this.as_ptr());
            },
        }
        if in_front || self.head.is_none() {
            self.head = Some(this);
            self.see_who_is_first();
        }
        if in_front || self.next.is_none() {
            self.next = Some(this);
        }
    }

    /// # Safety
    /// The waiter is linked in this queue.
    unsafe fn unlink(&mut self, waiter: &Waiter) {
        let this = NonNull::from(waiter);
        if self.next == Some(this) {
            self.next = self.waiting_after(waiter);
        }
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        let was_first = self.head == Some(this);
        if ptr::eq(next, waiter) {
            self.head = None;
        } else {
            // SAFETY: waiters in the queue live (INV-LIVE).
            unsafe {
                (*prev).next.set(next);
                (*next).prev.set(prev);
            }
            if was_first {
                self.head = NonNull::new(next.cast_mut());
            }
        }
        if was_first {
            self.see_who_is_first();
        }
    }
}
