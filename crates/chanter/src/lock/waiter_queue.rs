//! The line of those who wait for a lock, and the rules of *calling* them.
//!
//! Nothing is ever handed to one who waits. Whoever gives a permit back *calls*
//! the first in line: takes its waker out and, when no lock is held, wakes it.
//! The called one answers when it is polled: it tries to take what it wants, and
//! either commits or goes on waiting, at its old place.
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
//! * INV-POLL: only a poll takes permits. One that is called and never polled
//!   holds nothing.
//! * INV-CALL: while permits are free, and somebody waits whom they would do,
//!   one in line is called and has not answered; or all before him would have
//!   to be bypassed, and then the watch is on.
//! * INV-WATCH: while somebody waits behind one who is called, or who stands in
//!   the way of free permits, an alarm is set. When it rings, those who have
//!   been called since before it was set are put *away*: the line goes on
//!   without them. They come back, to the front, when they are polled.
//! * INV-IDLE: an alarm may help somebody while one is called and has not answered, or if anything has changed since the
//!   first in line was last found alive. If not, its ring finds the first alive once more, unless the thread to which the first
//!   belongs has run meanwhile and does not poll it any more. So such an alarm keeps no machine from being stuck, once it has
//!   rung and still says the same.
//! * INV-BYPASS: the first in line sees at most `patience` permits come back
//!   before newcomers are barred: until it leaves the line, only those who are
//!   called take any.
//!
//! All of this is under the lock of the queue (`stall_timer.rs`), so a waiter is
//! touched by the holder of that lock only, and its owner takes the lock to
//! unlink it before it dies (INV-LIVE).

use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};
use std::task::Waker;
use std::time::Duration;

use crate::event::WakeList;
use crate::sched::timers::MayHelp;
use crate::sync::atomic::Ordering;
use crate::sync::{self, Cell, UnsafeCell};

/// How long the called may take to answer before others are called as well.
pub(super) const ANSWER: Duration = Duration::from_millis(1);
/// One that answered late, or when it was called only to see whether it lives,
/// gets twice as long next time, up to `ANSWER << SLOWEST`.
const SLOWEST: u32 = 6;

/// One who waits. The owner pins it.
#[derive(Debug)]
pub(super) struct Waiter {
    prev: Cell<*const Waiter>,
    next: Cell<*const Waiter>,
    stage: Cell<Stage>,
    /// The order of coming: smaller is earlier.
    ticket: Cell<i64>,
    wants: Cell<usize>,
    /// How many permits have come back while it was first.
    passes: Cell<u32>,
    /// How many it stands before newcomers are barred.
    patience: Cell<u32>,
    /// Which alarm was the last one when it was called.
    called_in: Cell<u32>,
    /// How often it has proved to be alive.
    slowness: Cell<u32>,
    /// Called only to see whether it is alive.
    probed: Cell<bool>,
    waker: UnsafeCell<Option<Waker>>,
    /// The owner's alone: whether the line may know it.
    joined: std::cell::Cell<bool>,
    _pinned: PhantomPinned,
}

/// Where a waiter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not in line.
    Out,
    /// In line.
    Waiting,
    /// In line, and woken; not polled since.
    Called,
    /// Called for so long that the line goes on without it. Not linked.
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

    /// Whether it has joined a line and has not left it; asked by its owner.
    #[inline(always)]
    pub(super) fn has_joined(&self) -> bool {
        self.joined.get()
    }

    fn set_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        // SAFETY: the line's lock is held, or the waiter is not linked.
        self.waker.with_mut(|place| unsafe { std::mem::replace(&mut *place, waker) })
    }
}

/// Those who wait, in the order of their coming; lives under a lock.
#[derive(Debug)]
pub(super) struct WaiterQueue {
    /// The first; its `prev` is the last.
    head: Option<NonNull<Waiter>>,
    /// The first who is not called.
    next: Option<NonNull<Waiter>>,
    /// As many permits as can be free now, at most.
    pub(super) free: usize,
    /// How many the called want, all together.
    notified: u128,
    /// Newcomers may not take any.
    barred: bool,
    /// The next ticket at the end, and at the front.
    last: i64,
    first: i64,
    /// An alarm is set; the how-manieth it is; for how slow a waiter.
    armed: bool,
    alarm: u32,
    alarm_slowness: u32,
    /// How many are called in vain when the next alarm rings: the dead are
    /// found in a time that grows with the logarithm of their number.
    batch: usize,
    /// The first has been called to see whether it is alive, and has answered; nothing has changed since.
    proved: bool,
    /// What follows from it for the alarm: INV-IDLE.
    may_help: MayHelp,
}

/// It is alive: the next alarm that it fears gives it twice as long.
fn slow_down(waiter: &Waiter) {
    waiter.slowness.set((waiter.slowness.get() + 1).min(SLOWEST));
}

// SAFETY: the pointers are to pinned waiters whose owners unlink them under
// the same lock (INV-LIVE).
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

    /// Whether newcomers have to join the line.
    pub(super) fn is_barred(&self) -> bool {
        self.barred
    }

    /// Whether `waiter`, who is being polled, may take free permits.
    pub(super) fn may_take(&self, waiter: &Waiter) -> bool {
        !self.barred
            || waiter.stage.get() == Stage::Called
            || self.head.is_some_and(|head| ptr::eq(head.as_ptr(), waiter))
    }

    /// Where a waiter is.
    pub(super) fn stage(&self, waiter: &Waiter) -> Stage {
        waiter.stage.get()
    }

    /// A newcomer joins at the end.
    ///
    /// # Safety
    /// The waiter is pinned and out, and its owner lets it `leave` before it
    /// dies.
    pub(super) unsafe fn join(&mut self, waiter: &Waiter, wants: usize, patience: u32, waker: Waker) {
        waiter.wants.set(wants);
        waiter.patience.set(patience);
        waiter.ticket.set(self.last);
        waiter.joined.set(true);
        self.last += 1;
        self.proved = false;
        // SAFETY: the caller's contract.
        unsafe { self.link(waiter, waker, false) };
    }

    /// A waiter has been polled and could not take what it wants. Returns a
    /// waker to be dropped when no lock is held.
    ///
    /// # Safety
    /// The waiter has joined this line.
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
                // SAFETY: `next` is in the line.
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
                // SAFETY: pinned, not linked, and its owner has it leave.
                unsafe { self.link(waiter, waker, true) };
                None
            }
        }
    }

    /// A waiter leaves: it has what it wants, or wants it no more. Returns
    /// whether it was called, and a waker to be dropped when no lock is held.
    ///
    /// # Safety
    /// The waiter has joined this line.
    pub(super) unsafe fn leave(&mut self, waiter: &Waiter) -> (bool, Option<Waker>) {
        waiter.joined.set(false);
        self.proved = false;
        let stage = waiter.stage.replace(Stage::Out);
        if stage == Stage::Called {
            self.recall(waiter);
            self.batch = 0;
        }
        if matches!(stage, Stage::Called | Stage::Waiting) {
            // SAFETY: linked.
            unsafe { self.unlink(waiter) };
        }
        (stage == Stage::Called, waiter.set_waker(None))
    }

    /// Calls those who can have what they want, in order, and `more` beyond.
    pub(super) fn notify(&mut self, mut more: usize, wakes: &mut WakeList) {
        while let Some(next) = self.next {
            // SAFETY: in the line.
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

    /// Permits have come back while somebody was first in line.
    pub(super) fn pass(&mut self) {
        if let Some(head) = self.head {
            // SAFETY: in the line.
            let head = unsafe { head.as_ref() };
            self.proved = false;
            head.passes.set(head.passes.get().saturating_add(1));
            self.see_who_is_first();
        }
    }

    /// The time after which the alarm has to ring, if one has to be set now:
    /// somebody waits, and another is called or is in the way (INV-WATCH).
    #[must_use = "the queue sets it"]
    pub(super) fn watch(&mut self) -> Option<Duration> {
        self.judge();
        let in_the_way = self.next != self.head || self.notified > 0 || self.free > 0;
        if self.next.is_some() && self.has_several() && in_the_way { self.arm() } else { None }
    }

    /// As `watch`, for a newcomer that is barred and does not join.
    #[must_use = "the queue sets it"]
    pub(super) fn watch_for_newcomers(&mut self) -> Option<Duration> {
        if self.barred { self.arm() } else { None }
    }

    /// INV-IDLE.
    fn judge(&self) {
        // (In a model alarms ring by hand: nobody asks.)
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
        // SAFETY: in the line.
        self.alarm_slowness = self.head.map_or(0, |head| unsafe { head.as_ref() }.slowness.get());
        Some(ANSWER * (1 << self.alarm_slowness))
    }

    /// The alarm rings.
    pub(super) fn tick(&mut self, wakes: &mut WakeList) {
        self.armed = false;
        let mut missing = 0;
        let mut at = self.head;
        while let Some(waiter) = at {
            // SAFETY: in the line.
            let waiter = unsafe { waiter.as_ref() };
            if waiter.stage.get() != Stage::Called {
                break;
            }
            at = self.after(waiter);
            let in_time = waiter.called_in.get() == self.alarm;
            if !in_time && waiter.slowness.get() <= self.alarm_slowness {
                self.recall(waiter);
                waiter.stage.set(Stage::Away);
                // SAFETY: linked.
                unsafe { self.unlink(waiter) };
                missing += 1;
            }
        }
        if missing > 0 {
            self.proved = false;
            self.batch = self.batch.saturating_mul(2).max(missing);
            self.notify(self.batch, wakes);
        } else if let Some(head) = self.head.filter(|_| self.next == self.head && self.free > 0) {
            // It is in the way of others: is it alive?
            // SAFETY: in the line.
            let head = unsafe { head.as_ref() };
            head.probed.set(true);
            self.call_one(head, wakes);
        }
    }

    fn has_several(&self) -> bool {
        // SAFETY: in the line.
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
        // SAFETY: in the line.
        let first = self.head.map(|head| unsafe { head.as_ref() });
        self.barred = first.is_some_and(|first| first.passes.get() >= first.patience.get());
    }

    fn after(&self, waiter: &Waiter) -> Option<NonNull<Waiter>> {
        NonNull::new(waiter.next.get().cast_mut()).filter(|next| Some(*next) != self.head)
    }

    fn waiting_after(&self, waiter: &Waiter) -> Option<NonNull<Waiter>> {
        let mut at = self.after(waiter);
        // SAFETY: in the line.
        while let Some(next) = at.map(|next| unsafe { next.as_ref() }) {
            if next.stage.get() == Stage::Waiting {
                break;
            }
            at = self.after(next);
        }
        at
    }

    /// # Safety
    /// The waiter is pinned, not linked, and leaves before it dies.
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
            // SAFETY: INV-LIVE.
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
    /// The waiter is linked in this line.
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
            // SAFETY: INV-LIVE.
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
