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
//! | the result              | the completer, then the caller that set TAKEN; or any reference looks at it, once LENT is set |
//!
//! A thread is ACTIVE from the moment somebody wakes it until its poll ends. The waker makes the
//! *token* ([`Ready`](crate::policy::Ready)), and the beginning of the poll needs no transition. A
//! wake of an ACTIVE thread sets NOTIFIED: the poll that follows, or another one, must see it.
//!
//! * INV-TOKEN: while ACTIVE (or NOTIFIED, between edge 4 and edge 2), exactly
//!   one token or runner exists; a token alone may begin a poll.
//! * INV-RUN: at most one OS thread polls a frame.
//! * INV-WAKE: a wake is followed by a poll that sees what came before the wake.
//! * INV-FREE: the frame is freed once, by the transition that finds COMPLETE
//!   and no reference left.
//!
//! The upper bits count references: one for the thread's existence until it is COMPLETE, one for
//! each handle and each waker. A runner that registers its own waker does not touch the word: it
//! counts in `local_refs`, and [`State::end`] or [`State::complete`] adds the sum. So the count may
//! wrap below zero while ACTIVE is set; nobody looks at it then. It has 40 bits, and must not wrap
//! above. So a copy of a waker or a handle that finds far too many (leaked) references ends the
//! process.
//!
//! A host that has not run is FRESH. One without a token is *delayed*: it has no reference of its
//! own, and ends with its last handle. The drop of that handle sets ACTIVE first, since a shutdown
//! may claim the thread, too. A caller that demands the value of a FRESH thread may steal it: the
//! caller becomes its runner, on the caller's own stack. The token of a *scheduled* thread then
//! stays in its queue as a STALE one. Its finder clears STALE and forgets it. A wake may come
//! first: it clears STALE to make it the thread's token again, since a frame is in one queue at a
//! time.
//!
//! * INV-STEAL: FRESH is cleared once, by the stealer or by the finder of the token.
//! * INV-STALE: STALE is cleared once: by the finder of the token, or by a waker that needed one.
//!
//! Tokens are values in the hands of policies, which may keep them for ever. A thread that must end
//! is then *revoked*. Its token, wherever it is, becomes a STALE one, and the revoker ends the
//! thread without another poll (ENDING). So a token that is kept beyond the end of its thread is
//! only a reference.
//!
//! * INV-SEIZE: of those that revoke a thread, and the holder that gives its token up, exactly one
//!   ends it. Nobody may be about to poll it meanwhile, since `begin` is not a read-modify-write.
//!   So a worker revokes threads that only it may run, and the end of a machine revokes threads
//!   that nobody runs any more.
//!
//! A result is *taken* by one caller (TAKEN), or *lent* to any number (LENT).
//!
//! * INV-LENT: a thread that looks at a lent result keeps a reference meanwhile. So a lent result is taken by the last
//!   reference alone, and its owner looks at it no more.
//!

mod demand;
mod end;
mod share;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::order;

pub(super) const ACTIVE: u64 = 1;
pub(super) const NOTIFIED: u64 = 1 << 1;
pub(super) const COMPLETE: u64 = 1 << 2;
/// A joiner waits, so `complete` has to look at the wait queue.
const AWAITED: u64 = 1 << 3;
/// The result has been taken, or somebody has the right to take it.
const TAKEN: u64 = 1 << 4;
/// The thread has not run yet: it is *delayed*, or *scheduled* if it is ACTIVE.
const FRESH: u64 = 1 << 6;
/// The thread's token, in some queue, is dead, since the thread was stolen or revoked; the token
/// counts as a reference.
pub(super) const STALE: u64 = 1 << 7;
/// The thread was stolen: a caller that demanded its value has begun it.
const STOLEN: u64 = 1 << 8;
/// The thread has pending requests: see `request`.
const REQUESTED: u64 = 1 << 9;
/// The thread is ended without another poll, by the holder that gave its token up, or by its
/// revoker.
const ENDING: u64 = 1 << 10;
/// The result is lent to threads that look at it in its place. Only the last reference takes it out.
const LENT: u64 = 1 << 11;
/// The thread has, or has had, several handles, or others may make one. So nobody is its only owner.
const SHARED: u64 = 1 << 12;
pub(super) const REFERENCE: u64 = 1 << 24;
/// The word of a stolen thread that only its stealer knows: the handle's
/// reference and its own.
const STOLEN_ALONE: u64 = ACTIVE | STOLEN | (2 * REFERENCE);

/// The state word.
#[derive(Debug)]
pub(crate) struct State(pub(super) AtomicU64);

/// The outcome of [`State::wake`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The thread was idle: the caller holds its token now.
    Token,
    /// Somebody else will poll the thread, or it is complete.
    Already,
    /// The thread is complete and the caller gave up its last reference: it
    /// must free the frame.
    Free,
}

/// The outcome of [`State::begin`], and of giving up a token.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The holder is the runner now.
    Run,
    /// The holder is the runner now, and has to look at the thread's requests.
    Requested,
    /// The token is dead: the thread was stolen or revoked.
    Stale,
    /// The token is dead and was the last reference: the holder must free the frame.
    Free,
}

/// The outcome of [`State::demand`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Demanded {
    /// The caller is the thread's runner now.
    Stolen,
    /// The caller holds the thread's token now; the thread is still FRESH.
    Token,
    /// The thread has run, or is about to.
    Running,
}

/// The progress of a thread from its spawn to its value, as far as it can be seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The thread has not run; it will when somebody demands its value, or schedules it.
    Delayed,
    /// The thread waits for its first turn.
    Scheduled,
    /// The thread has begun to run.
    Evaluating,
    /// The thread has begun to run on the stack of a thread that demanded its value.
    Stolen,
    /// The thread has its value, or has failed.
    Determined,
}

/// The outcome of [`State::end`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The frame belongs to the next waker; the runner must not touch it.
    Idle,
    /// The thread was woken meanwhile: the runner holds its token again.
    Token,
}

/// The content of a body at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The future: the thread has never run.
    Future,
    /// The result: nobody took it.
    Result,
    /// The result, which others have looked at.
    Seen,
    /// Nothing: the result has been taken.
    Nothing,
}

/// The outcome of [`State::complete`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The thread is not complete yet: its pending requests must be refused first.
    Requested,
    /// Nobody else refers to the frame: the caller must free it.
    Free,
    /// References remain.
    Kept,
    /// Joiners may wait: the caller wakes them, and then calls [`State::release`].
    Awaited,
}

impl State {
    /// The first state of a host: it has a token and one handle.
    pub(crate) fn new_host() -> Self {
        Self(AtomicU64::new(ACTIVE | FRESH | (2 * REFERENCE)))
    }

    /// The first state of a delayed host: it has one handle, and no token.
    pub(crate) fn new_delayed() -> Self {
        Self(AtomicU64::new(FRESH | REFERENCE))
    }

    /// The first state of a parasite: its spawner polls it, or queues it.
    #[inline(always)]
    pub(crate) fn new_parasite() -> Self {
        Self(AtomicU64::new(ACTIVE | REFERENCE))
    }

    /// The state of a frame that is never polled: complete, with one reference, its owner's.
    #[inline(always)]
    pub(crate) fn new_complete() -> Self {
        Self(AtomicU64::new(COMPLETE | REFERENCE))
    }

    /// Sets the word of a frame on a free list, which equals that of a new parasite (INV-FRESH).
    #[inline(always)]
    pub(crate) fn freshen(&self) {
        self.0.store(ACTIVE | REFERENCE, Ordering::Relaxed);
    }

    /// Marks the frame as not in use, on its way back to its arena.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the frame is in use. A shutdown that looks through the arenas asks this.
    pub(crate) fn in_use(&self) -> bool {
        // ORDER: Relaxed: a caller that looks through an arena has seen its frames made.
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether nobody but the runner knows this parasite: its frame can then be recycled without a
    /// read-modify-write.
    #[inline(always)]
    pub(crate) fn is_private(&self) -> bool {
        // ORDER: Acquire pairs with `release` and `wake`: callers that gave their references up
        // have ended their use of the frame.
        self.0.load(order::state_private()) == ACTIVE | REFERENCE
    }

    /// Edge 1: wakes the thread. With `give_up` the caller's reference is given up as well.
    #[inline]
    pub(crate) fn wake(&self, give_up: bool) -> Woken {
        let gift = if give_up { REFERENCE } else { 0 };
        let mut word = self.word();
        loop {
            let idle = word & (ACTIVE | NOTIFIED | COMPLETE) == 0;
            let mut next = word.wrapping_sub(gift);
            let revived = idle && word & STALE != 0;
            if revived {
                next = (next | ACTIVE) & !STALE;
                next = next.wrapping_sub(REFERENCE);
            } else if idle {
                next |= ACTIVE;
            } else if word & COMPLETE == 0 {
                next |= NOTIFIED;
            }
            // ORDER: Release publishes what the waker did to the poll: to
            // `begin` when NOTIFIED is set, through the token's queue when it
            // is not. Acquire lets the holder of the token use the frame.
            match self.change(word, next, order::state_wake()) {
                Ok(()) if revived => return Woken::Already,
                Ok(()) if idle => return Woken::Token,
                Ok(()) if give_up && is_free(next) => return Woken::Free,
                Ok(()) => return Woken::Already,
                Err(now) => word = now,
            }
        }
    }

    /// Edge 2: the holder of a token starts a poll, if the token is good. It is a read-modify-write
    /// only for the first poll of a thread that others know, and after wakes beside the one that
    /// made the token.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Begun {
        // ORDER: Acquire: a waker that revived a stale token did so with Release.
        if self.0.load(order::state_found()) & (NOTIFIED | FRESH | STALE | REQUESTED) == 0 {
            return Begun::Run;
        }
        self.begin_slowly()
    }

    #[inline(never)]
    fn begin_slowly(&self) -> Begun {
        // ORDER: Acquire: the token may have been revived since the look in `begin`, with Release.
        let mut word = self.0.load(order::state_revived());
        // Nobody else knows the thread.
        if word == ACTIVE | FRESH | REFERENCE {
            self.0.store(ACTIVE | REFERENCE, Ordering::Relaxed);
            return Begun::Run;
        }
        while word & (FRESH | STALE) != 0 {
            let is_stale = word & STALE != 0;
            let next = if is_stale { forget_stale(word) } else { word & !FRESH };
            // ORDER: a stale token needs Release and Acquire, as in `release`: the last look has
            // acquired, but references may have come and gone since. A fresh thread was published
            // by its queue.
            match self.change(word, next, order::state_stale()) {
                Ok(()) if is_stale && is_free(next) => return Begun::Free,
                Ok(()) if is_stale => return Begun::Stale,
                Ok(()) => word = next,
                // ORDER: Acquire: the token may have been revived with Release since the last look.
                Err(_) => word = self.0.load(order::state_revived()),
            }
        }
        if word & NOTIFIED != 0 {
            self.begin_notified();
        }
        // A request that is made after this line causes another poll.
        if self.is_requested() { Begun::Requested } else { Begun::Run }
    }

    /// Edge 2 of a thread that is to end without another poll, because its token is given up. It
    /// never returns [`Begun::Requested`]. Another caller may be in [`State::revoke_thread`]
    /// meanwhile, so this is always a read-modify-write.
    pub(crate) fn begin_to_end(&self) -> Begun {
        let mut word = self.word();
        loop {
            let is_stale = word & STALE != 0;
            let next = if is_stale { forget_stale(word) } else { to_end(word) };
            // ORDER: Release and Acquire, as for the stale token in `begin_slowly`.
            match self.change(word, next, order::state_stale()) {
                Ok(()) if !is_stale => return Begun::Run,
                Ok(()) if is_free(next) => return Begun::Free,
                Ok(()) => return Begun::Stale,
                Err(now) => word = now,
            }
        }
    }

    /// Gives up a token if it is dead, and returns [`Begun::Stale`] or [`Begun::Free`]. `None`: it
    /// is alive, and the caller still has it.
    pub(crate) fn give_up_stale(&self) -> Option<Begun> {
        let mut word = self.word();
        while word & STALE != 0 {
            let next = forget_stale(word);
            // ORDER: Release and Acquire, as for the stale token in `begin_slowly`.
            match self.change(word, next, order::state_stale()) {
                Ok(()) => return Some(if is_free(next) { Begun::Free } else { Begun::Stale }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Revokes a thread that has a token, from its present or future holder: the token is dead
    /// (STALE) from now on. True: the caller is the runner, and ends the thread.
    ///
    /// The caller knows that nobody polls the thread or is about to: then every holder will ask
    /// whether its token is dead. `spares_stolen`: a thread that was demanded is left alone. Its
    /// stealer may be polling it on a stack that the caller does not look at.
    pub(crate) fn revoke_thread(&self, spares_stolen: bool) -> bool {
        let spared = COMPLETE | STALE | ENDING | if spares_stolen { STOLEN } else { 0 };
        let mut word = self.word();
        while word & (ACTIVE | NOTIFIED) != 0 && word & spared == 0 {
            let next = (to_end(word) | STALE).wrapping_add(REFERENCE);
            // ORDER: Release publishes to the next holder of the token, and Acquire lets the caller
            // use the frame, as in `wake`.
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
        // ORDER: Acquire sees the writes of the wakers that set NOTIFIED. A waker that sets it
        // after this line causes another poll.
        if active {
            self.0.fetch_and(!NOTIFIED, order::state_begin());
        } else {
            // Clears NOTIFIED and sets ACTIVE.
            self.0.fetch_sub(NOTIFIED - ACTIVE, order::state_begin());
        }
    }

    /// The thread's state, as seen from outside, as far as the word says.
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

    /// The thread's progress.
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

    /// The runner holds the token of a thread that has a stale one, too: only one of them may
    /// remain.
    #[cold]
    fn revive(&self) -> Ended {
        let mut word = self.word();
        while word & STALE != 0 {
            // ORDER: Release publishes the frame to the finder of the token, if `end` has not done
            // so.
            match self.change(word, forget_stale(word), order::state_end()) {
                // The frame belongs to the finder of the token now.
                Ok(()) => return Ended::Idle,
                Err(now) => word = now,
            }
        }
        Ended::Token
    }

    /// The word, for decisions that a later operation confirms.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces `word` by `next`; the error is the present word.
    #[inline(always)]
    pub(super) fn change(&self, word: u64, next: u64, order: Ordering) -> Result<(), u64> {
        self.0.compare_exchange_weak(word, next, order, Ordering::Relaxed).map(drop)
    }
}

fn references(count: i32) -> u64 {
    (i64::from(count) as u64).wrapping_mul(REFERENCE)
}

/// The word after a stale token is forgotten, or becomes the thread's token again.
fn forget_stale(word: u64) -> u64 {
    (word & !STALE).wrapping_sub(REFERENCE)
}

/// The word after a thread with a token begins to end.
fn to_end(word: u64) -> u64 {
    (word | ACTIVE | ENDING) & !(FRESH | NOTIFIED)
}

/// Ends the process if there are 2^38 references or more. A poll hands out at most 2^30 without a
/// check, so the count, which is signed, does not reach 2^39.
#[inline]
fn bound_references(word: u64) {
    if (word as i64) / (REFERENCE as i64) >= 1 << 38 {
        std::process::abort();
    }
}

fn is_free(word: u64) -> bool {
    word & (ACTIVE | COMPLETE) == COMPLETE && word / REFERENCE == 0
}

/// The dynamic state of a thread, as far as it can be seen from outside. It may change at any
/// moment; only [`Activity::Terminated`] is final.
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
    /// The thread has not run: it is delayed or scheduled.
    Initialized,
    /// The thread waits for its turn, or lends its stack to a thread that it has attached.
    Ready,
    /// A virtual processor runs the thread.
    Running,
    /// The thread waits on an event, or for a condition: see
    /// [`Thread::block`](crate::Thread::block).
    Blocked,
    /// The thread waits for its resumption: see [`Thread::suspend`](crate::Thread::suspend).
    Suspended,
    /// The thread has its value, or has failed.
    Terminated,
}
