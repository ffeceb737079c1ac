//! The edges of a thread whose value is demanded, and of requests to a thread.

use super::*;

impl State {
    /// Demands the value of a thread. With `steals`, steals it if it has not run. Otherwise makes
    /// its token if it is delayed.
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
            // ORDER: Acquire sees the frame as it was made, since a handle may come from any OS
            // thread. Release publishes to the next holder of the token, as in `wake`.
            match self.change(word, next, order::state_wake()) {
                Ok(()) => return if steals { Demanded::Stolen } else { Demanded::Token },
                Err(now) => word = now,
            }
        }
        Demanded::Running
    }

    /// Demands the value of a thread as the holder of its token, and becomes the runner. False: it
    /// was stolen, and the token is dead. The caller has a reference beside the token, which nobody
    /// else uses meanwhile. `plainly`: nobody [revokes](State::revoke_thread) the thread meanwhile
    /// either.
    pub(crate) fn steal_with_token(&self, plainly: bool) -> bool {
        // ORDER: Acquire sees the end of all uses by those that have known the thread. Plain stores
        // may follow, up to the end of the frame.
        let mut word = self.0.load(order::state_withdraw());
        if plainly && word == ACTIVE | FRESH | (2 * REFERENCE) {
            // The caller's two references are the only ones, so nobody can make another.
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

    /// Whether the thread is delayed and the caller's handle is the only reference, so that nobody
    /// else can make another.
    #[inline(always)]
    pub(crate) fn is_delayed_alone(&self) -> bool {
        // ORDER: Acquire sees the end of all uses by those that have known the thread.
        self.0.load(order::state_last()) == FRESH | REFERENCE
    }

    /// Makes the caller, which alone refers to a delayed thread, its runner.
    #[inline(always)]
    pub(crate) fn steal_alone(&self) {
        self.0.store(STOLEN_ALONE, Ordering::Relaxed);
    }

    /// Whether nobody but its stealer knows the thread.
    #[inline(always)]
    pub(crate) fn is_stolen_alone(&self) -> bool {
        // ORDER: Acquire: the uses by those that gave their references up are over, as in
        // `is_private`.
        self.0.load(order::state_private()) == STOLEN_ALONE
    }

    /// Marks that the thread has pending requests. The caller holds the lock of these. False: the
    /// thread is complete.
    pub(crate) fn request(&self) -> bool {
        let mut word = self.word();
        while word & COMPLETE == 0 {
            // ORDER: Relaxed: the lock, and the wake that follows, publish the request.
            match self.change(word, word | REQUESTED, Ordering::Relaxed) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Marks that the thread has no pending requests. The caller holds the lock of these.
    pub(crate) fn forget_requests(&self) {
        if self.is_requested() {
            self.0.fetch_and(!REQUESTED, Ordering::Relaxed);
        }
    }

    /// Whether the thread has pending requests.
    #[inline(always)]
    pub(crate) fn is_requested(&self) -> bool {
        self.word() & REQUESTED != 0
    }

    /// Whether the thread is delayed.
    pub(crate) fn is_delayed(&self) -> bool {
        self.word() & (FRESH | ACTIVE) == FRESH
    }

    /// Whether the thread has not run yet.
    #[inline(always)]
    pub(crate) fn is_fresh(&self) -> bool {
        self.word() & FRESH != 0
    }
}
