//! The state word of a thread: who may poll its frame, and who frees it.
//!
//! ```text
//!   host: new ─► ACTIVE (queued)           parasite: new ─► ACTIVE (polled)
//!
//!      ┌──────────────── (3) end, nobody woke it ────────────────┐
//!      ▼                                                         │
//!    idle ──(1) wake──► ACTIVE, queued ──(2) begin──► ACTIVE, polled ──(5)──► COMPLETE
//!      │                     ▲                            │        complete
//!      │ (1) claim           └──(4) end, it was woken─────┘
//!      └──► ACTIVE, by the shutdown
//! ```
//!
//! | field of the frame      | who may touch it                                   |
//! |-------------------------|----------------------------------------------------|
//! | the future, `local_refs`  | the runner (the token's holder, while it polls)    |
//! | `next`, `vp`            | the holder of the token, the runner                |
//! | the result              | the completer; then whoever set TAKEN              |
//!
//! A thread is ACTIVE from the moment somebody wakes it until its poll ends:
//! the waker makes the *token* ([`Ready`](crate::policy::Ready)), and to begin
//! the poll needs no transition. A wake of an ACTIVE thread sets NOTIFIED:
//! the poll that follows, or another one, must see it.
//!
//! * INV-TOKEN: while ACTIVE (or NOTIFIED, between edge 4 and edge 2), exactly
//!   one token or runner exists; a token alone may begin a poll.
//! * INV-RUN: at most one OS thread polls a frame.
//! * INV-WAKE: a wake is followed by a poll that sees what came before the wake.
//! * INV-FREE: the frame is freed once, by the transition that finds COMPLETE
//!   and no reference left.
//!
//! The upper bits count references: one for the thread's existence until it
//! is COMPLETE, one for each handle and each waker. A runner that registers
//! its own waker does not touch the word: it counts in `local_refs`, and
//! [`State::end`] or [`State::complete`] adds the sum. So the count may wrap
//! below zero while ACTIVE is set; nobody looks at it then. It has 40 bits, and must not wrap
//! above: whoever copies a waker or a handle finds that far too many were leaked, and ends the process.
//!
//! A host that has not run is FRESH. One without a token is *delayed*: it has no
//! reference of its own, and dies with its last handle: who drops that sets ACTIVE
//! first, since a shutdown may claim it, too. Whoever demands the
//! value of a FRESH thread may steal it: becomes its runner, on its own stack.
//! The token of a *scheduled* thread stays in its queue then, as a STALE one:
//! whoever finds it there clears STALE and forgets it, unless a wake-up has been
//! faster, and has cleared STALE to make it the thread's token again (a frame
//! is in one queue at a time).
//!
//! * INV-STEAL: FRESH is cleared once, by the stealer or by who found the token.
//! * INV-STALE: STALE is cleared once: by who found the token, or by who needed
//!   one.
//!
//! Tokens are values in the hands of policies, which may keep them for ever. A thread that
//! must end is then *seized*: its token, wherever it is, becomes a STALE one, and who has seized it
//! ends it, without another poll (ENDING). So a token that is kept beyond
//! the end of its thread is a reference, and no more.
//!
//! * INV-SEIZE: of those who revoke a thread and who gives its token up, one ends it. Nobody
//!   may be about to poll it meanwhile, since `begin` is not a read-modify-write:
//!   drivers revoke what only they may run, and a machine's end what nobody runs any more.
//!
//! Edges 3 and 1 have a cheaper form for threads that stay where they are: see
//! [`super::rest`]. A thread that rests is ACTIVE, though nobody polls it.

use super::local_park;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::order;

pub(super) const ACTIVE: u64 = 1;
pub(super) const NOTIFIED: u64 = 1 << 1;
pub(super) const COMPLETE: u64 = 1 << 2;
/// A joiner waits: `complete` has to look at the wait queue.
const AWAITED: u64 = 1 << 3;
/// The result is gone.
const TAKEN: u64 = 1 << 4;
/// The owner of the handle waits, by itself: its offer is the completer's, see
/// `join.rs`.
const OWNER_WAITER: u64 = 1 << 5;
/// It has not run yet: *delayed*, or *scheduled* if it is ACTIVE.
const FRESH: u64 = 1 << 6;
/// Its token in some queue is dead, since it was stolen, and counts as a
/// reference.
pub(super) const STALE: u64 = 1 << 7;
/// It was stolen by one who demanded its value.
const STOLEN: u64 = 1 << 8;
/// Something has been asked of it that it has not done with: see `request`.
const REQUESTED: u64 = 1 << 9;
/// It is ended without another poll, by who has given its token up, or has seized it.
const ENDING: u64 = 1 << 10;
/// The lowest bit of the field that says where the thread rests.
pub(super) const UNIT: u64 = 1 << 12;
pub(super) const REFERENCE: u64 = 1 << 24;
/// The word of a stolen thread that only its stealer knows: the handle's
/// reference and its own.
const STOLEN_ALONE: u64 = ACTIVE | STOLEN | (2 * REFERENCE);

/// The state word.
#[derive(Debug)]
pub(crate) struct State(pub(super) AtomicU64);

/// What a wake found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The thread was idle: the caller holds its token now.
    Token,
    /// Somebody else will poll it.
    Already,
    /// It may rest on the virtual processor of this number: the caller, whose
    /// reference has not been given up, must [`State::revoke`].
    Elsewhere(usize),
    /// The thread is complete and the caller gave up its last reference: it
    /// must free the frame.
    Free,
}

/// What a token was good for.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The holder is the runner now.
    Run,
    /// The same, and it has to look at the thread's requests.
    Requested,
    /// Nothing: the thread was stolen.
    Stale,
    /// Nothing, and it was the last reference: the holder must free the frame.
    Free,
}

/// What a demand for the value of a thread found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Demanded {
    /// The caller is its runner now.
    Stolen,
    /// The caller holds its token now; it is still FRESH.
    Token,
    /// It has run, or is about to.
    Running,
}

/// Where a thread is on its way, as far as it can be seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs when somebody demands its value, or schedules it.
    Delayed,
    /// It waits for its first turn.
    Scheduled,
    /// It has begun to run.
    Evaluating,
    /// It has begun to run on the stack of somebody who demanded its value.
    Stolen,
    /// It has its value, or has failed.
    Determined,
}

/// What the end of a poll found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The frame belongs to whoever wakes it; the runner must not touch it.
    Idle,
    /// It was woken meanwhile: the runner holds its token again.
    Token,
}

/// What a body holds at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The thread has never run.
    Future,
    /// Nobody took it.
    Result,
    /// The result has been taken.
    Nothing,
}

/// What completion found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Not yet: requests are to be refused first.
    Requested,
    /// Nobody else refers to the frame: free it.
    Free,
    /// References remain.
    Kept,
    /// The heir waits: complete its offer, which is the last use of the frame.
    Inherited,
    /// Joiners may wait: wake them, then call [`State::release`].
    Awaited {
        /// The heir is among them.
        inherited: bool,
    },
}

impl State {
    /// A host's first state: it has a token and one handle.
    pub(crate) fn new_host() -> Self {
        Self(AtomicU64::new(ACTIVE | FRESH | (2 * REFERENCE)))
    }

    /// The first state of a host that nobody has asked for: one handle.
    pub(crate) fn new_delayed() -> Self {
        Self(AtomicU64::new(FRESH | REFERENCE))
    }

    /// A parasite's first state: its spawner polls it, or queues it.
    #[inline(always)]
    pub(crate) fn new_parasite() -> Self {
        Self(AtomicU64::new(ACTIVE | REFERENCE))
    }

    /// A frame that is never polled: one reference, its owner's, and complete.
    #[inline(always)]
    pub(crate) fn new_complete() -> Self {
        Self(AtomicU64::new(COMPLETE | REFERENCE))
    }

    /// The word of a frame on a free list: that of a new parasite (INV-FRESH).
    #[inline(always)]
    pub(crate) fn freshen(&self) {
        self.0.store(ACTIVE | REFERENCE, Ordering::Relaxed);
    }

    /// The frame is not in use any more, and on its way home.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the frame is in use (shutdown looks through the arenas).
    pub(crate) fn in_use(&self) -> bool {
        // ORDER: Relaxed: who looks through an arena has seen its frames born.
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Nobody but the runner has ever known this parasite: its frame can be
    /// recycled without a read-modify-write.
    #[inline(always)]
    pub(crate) fn is_private(&self) -> bool {
        // ORDER: Acquire pairs with `release` and `wake`: what those who gave
        // their references up did to the frame is over.
        self.0.load(order::state_private()) == ACTIVE | REFERENCE
    }

    /// Edge 1, by one who drives the home whose bits are `me`, or none (0).
    /// With `give_up` the caller's reference goes with it.
    #[inline]
    pub(crate) fn wake(&self, give_up: bool, me: u64) -> Woken {
        let gift = if give_up { REFERENCE } else { 0 };
        let mut word = self.word();
        loop {
            let idle = word & (ACTIVE | NOTIFIED | COMPLETE) == 0;
            let mut next = word.wrapping_sub(gift);
            let mut elsewhere = None;
            let revived = idle && word & STALE != 0;
            if revived {
                next = (next | ACTIVE) & !STALE;
                next = next.wrapping_sub(REFERENCE);
            } else if idle {
                next |= ACTIVE;
            } else if word & COMPLETE == 0 {
                if let Some(revoking) = local_park::revoking(word, me) {
                    next = revoking;
                    elsewhere = Some(local_park::home_of(word));
                }
                next |= NOTIFIED;
            }
            // ORDER: Release publishes what the waker did to the poll: to
            // `begin` when NOTIFIED is set, through the token's queue when it
            // is not. Acquire lets the holder of the token use the frame.
            match self.change(word, next, order::state_wake()) {
                Ok(()) if revived => return Woken::Already,
                Ok(()) if idle => return Woken::Token,
                Ok(()) => {
                    return match elsewhere {
                        Some(home) => Woken::Elsewhere(home),
                        None if give_up && is_free(next) => Woken::Free,
                        None => Woken::Already,
                    };
                }
                Err(now) => word = now,
            }
        }
    }

    /// Edge 2: the holder of a token starts a poll, if the token is good. A
    /// read-modify-write only for the first poll of a thread that others know,
    /// and if there were more wakes than the one that made the token.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Begun {
        // ORDER: Acquire: whoever revived a stale token did so with Release.
        if self.0.load(order::state_found()) & (NOTIFIED | FRESH | STALE | REQUESTED) == 0 {
            return Begun::Run;
        }
        self.begin_slowly()
    }

    #[inline(never)]
    fn begin_slowly(&self) -> Begun {
        // ORDER: as in `begin`: it may have been revived since that look.
        let mut word = self.0.load(order::state_revived());
        // Nobody else knows it.
        if word == ACTIVE | FRESH | REFERENCE {
            self.0.store(ACTIVE | REFERENCE, Ordering::Relaxed);
            return Begun::Run;
        }
        while word & (FRESH | STALE) != 0 {
            let is_stale = word & STALE != 0;
            let next = if is_stale { forget_stale(word) } else { word & !FRESH };
            // ORDER: as in `release` for the stale one (the last look has acquired, but
            // references may have come and gone since); of a fresh one the queue has published all.
            match self.change(word, next, order::state_stale()) {
                Ok(()) if is_stale && is_free(next) => return Begun::Free,
                Ok(()) if is_stale => return Begun::Stale,
                Ok(()) => word = next,
                // ORDER: as above.
                Err(_) => word = self.0.load(order::state_revived()),
            }
        }
        if word & NOTIFIED != 0 {
            self.begin_notified();
        }
        // A request that is noted behind this line causes another poll.
        if self.is_requested() { Begun::Requested } else { Begun::Run }
    }

    /// Edge 2 of a thread that is to end without another poll: its token is given up. (Never
    /// [`Begun::Requested`].) Anybody may be at [`State::revoke_thread`] meanwhile, so this is always a
    /// read-modify-write.
    pub(crate) fn begin_to_end(&self) -> Begun {
        let mut word = self.word();
        loop {
            let is_stale = word & STALE != 0;
            let next = if is_stale { forget_stale(word) } else { to_end(word) };
            // ORDER: as in `begin_slowly`.
            match self.change(word, next, order::state_stale()) {
                Ok(()) if !is_stale => return Begun::Run,
                Ok(()) if is_free(next) => return Begun::Free,
                Ok(()) => return Begun::Stale,
                Err(now) => word = now,
            }
        }
    }

    /// Gives a dead token up, if it is one: [`Begun::Stale`] or [`Begun::Free`]. `None`: the
    /// caller still has the thread's token.
    pub(crate) fn give_up_stale(&self) -> Option<Begun> {
        let mut word = self.word();
        while word & STALE != 0 {
            let next = forget_stale(word);
            // ORDER: as in `begin_slowly`.
            match self.change(word, next, order::state_stale()) {
                Ok(()) => return Some(if is_free(next) { Begun::Free } else { Begun::Stale }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Takes a thread that has a token from whoever holds that, or is about to: the token is dead
    /// (STALE) from now on. True: the caller is the runner, and ends the thread.
    ///
    /// The caller has tried to [`claim`](State::claim) it, or knows that it does not rest, and that nobody polls
    /// it or is about to: then every holder will ask whether its token is dead.
    /// `spares_stolen`: unless it was demanded, perhaps by one who polls it on a stack where
    /// nobody looks.
    pub(crate) fn revoke_thread(&self, spares_stolen: bool) -> bool {
        let spared = COMPLETE | STALE | ENDING | if spares_stolen { STOLEN } else { 0 };
        let mut word = self.word();
        while word & (ACTIVE | NOTIFIED) != 0 && word & spared == 0 {
            let next = (to_end(word) | STALE).wrapping_add(REFERENCE);
            // ORDER: as in `wake`.
            match self.change(word, next, order::state_wake()) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    fn begin_notified(&self) {
        // ACTIVE is ours to change, so a plain look is enough.
        let active = self.0.load(Ordering::Relaxed) & ACTIVE != 0;
        // ORDER: Acquire sees what the wakers did who set NOTIFIED. One who
        // sets it after this line causes another poll.
        if active {
            self.0.fetch_and(!NOTIFIED, order::state_begin());
        } else {
            // Clears NOTIFIED and sets ACTIVE.
            self.0.fetch_sub(NOTIFIED - ACTIVE, order::state_begin());
        }
    }

    /// What it does, as far as the word says.
    pub(crate) fn activity(&self) -> Activity {
        let word = self.word();
        if word & COMPLETE != 0 {
            Activity::Terminated
        } else if word & FRESH != 0 {
            Activity::Initialized
        } else if word & (ACTIVE | NOTIFIED) != 0 {
            Activity::Ready
        } else {
            Activity::Blocked
        }
    }

    /// Demands the value of a thread: steals it, if it has not run; only makes
    /// its token, if it is delayed and not to be stolen.
    pub(crate) fn demand(&self, steals: bool) -> Demanded {
        let mut word = self.word();
        while word & FRESH != 0 && (steals || word & ACTIVE == 0) {
            let mut next = word.wrapping_add(REFERENCE);
            let is_delayed = word & ACTIVE == 0;
            if is_delayed {
                next |= ACTIVE;
            }
            if steals {
                next = (next & !FRESH) | STOLEN | if is_delayed { 0 } else { STALE };
            }
            // ORDER: Acquire sees the frame as it was made: a handle may come
            // from anywhere. Release: as in `wake`.
            match self.change(word, next, order::state_wake()) {
                Ok(()) => return if steals { Demanded::Stolen } else { Demanded::Token },
                Err(now) => word = now,
            }
        }
        Demanded::Running
    }

    /// As `demand` by the holder of the token, who becomes the runner. False: it was stolen, and the
    /// token is dead. The caller has a reference beside the token, which nobody else uses meanwhile.
    /// `plainly`: nor does anybody [`revoke_thread`](State::revoke_thread) it.
    pub(crate) fn steal_with_token(&self, plainly: bool) -> bool {
        // ORDER: Acquire sees the uses end of those who have known it: what follows may be plain
        // stores, up to the end of the frame.
        let mut word = self.0.load(order::state_withdraw());
        if plainly && word == ACTIVE | FRESH | (2 * REFERENCE) {
            // The caller's two references are all, so nobody can come by another.
            self.steal_alone();
            return true;
        }
        while word & FRESH != 0 {
            // ORDER: as in `demand`.
            match self.change(word, (word & !FRESH) | STOLEN, order::state_wake()) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// It is delayed, and the caller's handle is all that refers to it: nobody
    /// else can come by another.
    #[inline(always)]
    pub(crate) fn is_delayed_alone(&self) -> bool {
        // ORDER: Acquire sees the uses end of those who have known it.
        self.0.load(order::state_last()) == FRESH | REFERENCE
    }

    /// The caller, who alone refers to a delayed thread, becomes its runner.
    #[inline(always)]
    pub(crate) fn steal_alone(&self) {
        self.0.store(STOLEN_ALONE, Ordering::Relaxed);
    }

    /// Nobody but its stealer knows the thread.
    #[inline(always)]
    pub(crate) fn is_stolen_alone(&self) -> bool {
        // ORDER: as in `is_private`.
        self.0.load(order::state_private()) == STOLEN_ALONE
    }

    /// Something is to be asked of the thread, under its pending requests' lock. False:
    /// it is complete.
    pub(crate) fn request(&self) -> bool {
        let mut word = self.word();
        while word & COMPLETE == 0 {
            // ORDER: Relaxed: the lock, and the wake that follows, publish what
            // is asked.
            match self.change(word, word | REQUESTED, Ordering::Relaxed) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Nothing is asked of the thread any more, says its pending requests' lock.
    pub(crate) fn forget_requests(&self) {
        if self.is_requested() {
            self.0.fetch_and(!REQUESTED, Ordering::Relaxed);
        }
    }

    /// Whether something is asked of it.
    #[inline(always)]
    pub(crate) fn is_requested(&self) -> bool {
        self.word() & REQUESTED != 0
    }

    /// Whether it waits to be demanded.
    pub(crate) fn is_delayed(&self) -> bool {
        self.word() & (FRESH | ACTIVE) == FRESH
    }

    /// Whether it has not run yet.
    #[inline(always)]
    pub(crate) fn is_fresh(&self) -> bool {
        self.word() & FRESH != 0
    }

    /// Where it is on its way.
    pub(crate) fn progress(&self) -> Progress {
        let word = self.word();
        if word & COMPLETE != 0 {
            Progress::Determined
        } else if word & FRESH == 0 {
            if word & STOLEN != 0 { Progress::Stolen } else { Progress::Evaluating }
        } else if word & ACTIVE != 0 {
            Progress::Scheduled
        } else {
            Progress::Delayed
        }
    }

    /// Edges 3 and 4: the poll returned `Pending`; `local_refs` references
    /// were handed out during it. `bias`: see [`State::earn_rest`].
    #[inline]
    pub(crate) fn end(&self, local_refs: i32, bias: u64) -> Ended {
        let delta = references(local_refs).wrapping_add(bias).wrapping_sub(ACTIVE);
        // ORDER: Release publishes the frame to the next runner. What a waker
        // did is seen by the `begin` that follows.
        let before = self.0.fetch_add(delta, order::state_end());
        debug_assert!(before & ACTIVE != 0, "INV-RUN: {before:#x}");
        if before & NOTIFIED == 0 {
            Ended::Idle
        } else if before & STALE == 0 {
            Ended::Token
        } else {
            self.revive()
        }
    }

    /// Edge 4 of a runner that wants to be polled again: it stays ACTIVE.
    #[inline]
    pub(crate) fn end_ready(&self) -> Ended {
        // STALE is set before a stealer begins, so a runner sees it.
        if self.word() & STALE == 0 { Ended::Token } else { self.revive() }
    }

    /// The runner holds the token of a thread that has a stale one as well.
    #[cold]
    fn revive(&self) -> Ended {
        let mut word = self.word();
        while word & STALE != 0 {
            // ORDER: Release publishes the frame to who finds the token (if `end` has not).
            match self.change(word, forget_stale(word), order::state_end()) {
                // The frame is theirs now.
                Ok(()) => return Ended::Idle,
                Err(now) => word = now,
            }
        }
        Ended::Token
    }

    /// Edge 5: the future is gone and the result is in its place.
    pub(crate) fn complete(&self, local_refs: i32) -> Completed {
        if local_refs == 0 && self.is_private() {
            // Nobody else knows the thread: nothing has to be published. (Who
            // claims threads that may rest elsewhere has no reference at first,
            // so one with a bias ends by a read-modify-write.)
            return Completed::Free;
        }
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & REQUESTED != 0 {
                return Completed::Requested;
            }
            let awaited = word & AWAITED != 0;
            let mut next = word.wrapping_add(references(local_refs));
            next = (next & !(ACTIVE | NOTIFIED)) | COMPLETE;
            if !awaited {
                next = next.wrapping_sub(REFERENCE);
            }
            // ORDER: Release publishes the result to the joiners; Acquire
            // sees the end of every use of the frame before it is freed.
            match self.0.compare_exchange_weak(word, next, order::state_complete(), Ordering::Relaxed) {
                Ok(_) if awaited => return Completed::Awaited { inherited: word & OWNER_WAITER != 0 },
                // The heir's reference keeps the frame.
                Ok(_) if word & OWNER_WAITER != 0 => return Completed::Inherited,
                Ok(_) if is_free(next) => return Completed::Free,
                Ok(_) => return Completed::Kept,
                Err(now) => word = now,
            }
        }
    }

    /// What the body of a frame that nobody uses any more holds.
    #[inline(always)]
    pub(crate) fn left(&self) -> Left {
        match self.word() {
            word if word & FRESH != 0 => Left::Future,
            word if word & TAKEN != 0 => Left::Nothing,
            _ => Left::Result,
        }
    }

    /// Another handle or waker.
    pub(crate) fn retain(&self) {
        // ORDER: Relaxed: the caller has a reference already.
        bound_references(self.0.fetch_add(REFERENCE, Ordering::Relaxed));
    }

    /// The runner is about to hand out a reference that it counts by itself.
    pub(crate) fn bound_references(&self) {
        bound_references(self.word());
    }

    /// The caller's reference to a complete thread is the only one: nobody
    /// else can come by another.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        // ORDER: Acquire sees the others' uses end.
        let word = self.0.load(order::state_last());
        word & COMPLETE != 0 && word / REFERENCE == 1
    }

    /// One reference less; true: the caller must free the frame. Its thread is
    /// complete, or delayed for ever.
    #[must_use]
    #[inline]
    pub(crate) fn release(&self) -> bool {
        if self.is_last() {
            return true;
        }
        let mut word = self.word();
        while word & (FRESH | ACTIVE) == FRESH {
            // Delayed. A shutdown may claim it meanwhile, so the last handle is not given up:
            // who has it takes the thread, as the shutdown does.
            let is_last = word / REFERENCE == 1;
            // ENDING, so that nobody revokes it either.
            let next = if is_last { word | ACTIVE | ENDING } else { word - REFERENCE };
            // ORDER: as below.
            match self.change(word, next, order::state_release()) {
                Ok(()) => return is_last,
                Err(now) => word = now,
            }
        }
        // ORDER: Release ends the caller's use of the frame before it is
        // freed; Acquire sees the others' uses end.
        let before = self.0.fetch_sub(REFERENCE, order::state_release());
        is_free(before.wrapping_sub(REFERENCE))
    }

    /// Whether the result is there.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // ORDER: Acquire pairs with `complete`.
        self.0.load(order::state_observe()) & COMPLETE != 0
    }

    /// Whether it waits for somebody to wake it.
    pub(crate) fn is_idle(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word != 0 && word & (ACTIVE | NOTIFIED | COMPLETE | FRESH) == 0
    }

    /// Whether the one who drives the thread now has been told to go on.
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }

    /// A joiner announces that it will wait; false: complete already.
    pub(crate) fn await_completion(&self) -> bool {
        // ORDER: Acquire sees the result if it is there; the joiner's queue
        // is under its own lock.
        self.0.fetch_or(AWAITED, order::state_observe()) & COMPLETE == 0
    }

    /// The heir has left its offer, and waits; false: complete already.
    pub(crate) fn await_inheritance(&self) -> bool {
        // ORDER: Release publishes the offer to `complete`; Acquire sees the
        // result if it is there.
        self.0.fetch_or(OWNER_WAITER, order::state_inherit()) & COMPLETE == 0
    }

    /// The heir does not wait any more; false: the thread completes, or has
    /// completed, and its completer uses the offer.
    pub(crate) fn forgo_inheritance(&self) -> bool {
        // ORDER: Relaxed: `complete` sees the bit, or not; what it does to the
        // offer is published there.
        self.0.fetch_and(!OWNER_WAITER, Ordering::Relaxed) & COMPLETE == 0
    }

    /// The right to take the result; false: it is gone. The caller has a
    /// reference.
    pub(crate) fn take_result(&self) -> bool {
        if self.is_last() {
            let word = self.word();
            self.0.store(word | TAKEN, Ordering::Relaxed);
            return word & TAKEN == 0;
        }
        // ORDER: Relaxed: the caller has seen the completion; the winner is
        // alone with the result.
        self.0.fetch_or(TAKEN, Ordering::Relaxed) & TAKEN == 0
    }

    /// The word, for decisions that something else confirms.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// `word` becomes `next`, or says what it is now.
    #[inline(always)]
    pub(super) fn change(&self, word: u64, next: u64, order: Ordering) -> Result<(), u64> {
        self.0.compare_exchange_weak(word, next, order, Ordering::Relaxed).map(drop)
    }

    /// Claims an idle thread's token, that of a delayed one only if `delayed`; one that rests is the business of
    /// [`State::wake_local`] and [`State::revoke`].
    pub(crate) fn claim(&self, delayed: bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while (delayed || word & FRESH == 0) && word != 0 && word & (ACTIVE | NOTIFIED | COMPLETE) == 0 {
            // ORDER: as in `wake`.
            let mut next = word | ACTIVE;
            if word & FRESH != 0 {
                // Delayed: it is to have a reference of its own.
                next = (next & !FRESH).wrapping_add(REFERENCE);
            }
            if word & STALE != 0 {
                // Who finds the token has one.
                next = (next & !STALE).wrapping_sub(REFERENCE);
            }
            match self.0.compare_exchange_weak(word, next, order::state_wake(), Ordering::Relaxed) {
                Ok(_) if word & STALE != 0 => return false,
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

fn references(count: i32) -> u64 {
    (i64::from(count) as u64).wrapping_mul(REFERENCE)
}

/// A stale token is forgotten, or becomes the thread's token again.
fn forget_stale(word: u64) -> u64 {
    (word & !STALE).wrapping_sub(REFERENCE)
}

/// A thread with a token begins to end.
fn to_end(word: u64) -> u64 {
    (word | ACTIVE | ENDING) & !(FRESH | NOTIFIED)
}

/// Ends the process if there are 2^38 references or more. A poll hands out at most 2^30 without a look, so the count,
/// which is signed, does not reach 2^39.
#[inline]
fn bound_references(word: u64) {
    if (word as i64) / (REFERENCE as i64) >= 1 << 38 {
        std::process::abort();
    }
}

fn is_free(word: u64) -> bool {
    word & (ACTIVE | COMPLETE) == COMPLETE && word / REFERENCE == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ACTIVE, REFERENCE, State};
    use crate::child::aborts;
    use crate::sync::atomic::{AtomicU64, Ordering};

    fn with_references(count: i64) -> State {
        State(AtomicU64::new((count * REFERENCE as i64) as u64 | ACTIVE))
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn leaked_references_end_the_process_before_their_count_wraps() {
        let state = with_references((1 << 38) - 1);
        state.bound_references();
        state.retain();
        assert_eq!(state.0.load(Ordering::Relaxed) / REFERENCE, 1 << 38);
        // What a runner has handed out and others have given up already.
        with_references(-(1 << 30)).retain();
        let name = "frame::state::tests::leaked_references_end_the_process_before_their_count_wraps";
        aborts(name, || with_references(1 << 38).retain());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn references_that_a_runner_leaks_end_the_process_as_well() {
        let name = "frame::state::tests::references_that_a_runner_leaks_end_the_process_as_well";
        aborts(name, || with_references(1 << 38).bound_references());
    }
}

/// What a thread does right now: its dynamic state, as far as it can be seen
/// from outside. It may be another one at any moment; only
/// [`Activity::Terminated`] is final.
///
/// ```text
///   Progress:  Delayed ──run──► Scheduled ──turn──► Evaluating ──────► Determined
///                 └──demand──────────┴──demand──►  Stolen ──────────────►┘
///
///   Activity:  Initialized ──► Ready ◄──────► Running ──────────► Terminated
///                                ▲               │ waits              ▲
///                                ├─── Blocked ◄──┤                    │ terminate
///                                │   (on an event, or `block`)        │
///                                └── Suspended ◄─┘ `suspend` ─────────┘
///                                     `resume`, or its time is up
/// ```
///
/// STING, section 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Nothing of it has run: it is delayed or scheduled.
    Initialized,
    /// It waits for its turn, or lends its stack to a thread that it has
    /// attached.
    Ready,
    /// A virtual processor runs it.
    Running,
    /// It waits on an event; or for a condition, see [`Thread::block`](crate::Thread::block).
    Blocked,
    /// It waits for its resumption, see [`Thread::suspend`](crate::Thread::suspend).
    Suspended,
    /// It has its value, or has failed.
    Terminated,
}
