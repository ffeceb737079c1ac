//! The edges of a thread whose handle was cloned, and whose result several look at.

use super::*;

impl State {
    /// Counts another handle, of equal rights.
    pub(crate) fn share(&self) {
        let mut word = self.word();
        // ORDER: Relaxed: the caller has a handle already. Each other handle descends from one that was shared, so
        // its holder has seen the bit.
        while word & SHARED == 0 {
            match self.change(word, (word | SHARED).wrapping_add(REFERENCE), Ordering::Relaxed) {
                Ok(()) => return bound_references(word),
                Err(now) => word = now,
            }
        }
        self.retain();
    }

    /// Counts a reference for a caller that has none. False: the thread is complete, or about to end. The thread is
    /// SHARED, and its frame is not freed meanwhile.
    pub(crate) fn try_retain(&self) -> bool {
        let mut word = self.word();
        while word & (COMPLETE | ENDING) == 0 {
            debug_assert!(word & SHARED != 0, "somebody may take himself for the only owner: {word:#x}");
            // ORDER: Relaxed: the caller has learnt of the thread from its maker, and nobody frees it meanwhile.
            match self.change(word, word.wrapping_add(REFERENCE), Ordering::Relaxed) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Notes that nobody is the thread's only owner. The caller has just made the thread, which no other OS thread
    /// knows.
    pub(crate) fn disown(&self) {
        self.0.store(self.word() | SHARED, Ordering::Relaxed);
    }

    /// Steals a delayed thread for a caller that will look at its result: as [`State::demand`] and [`State::lend`]
    /// together. If the thread does not complete at once, the caller calls [`State::end_loan`].
    pub(crate) fn steal_to_lend(&self) -> bool {
        let mut word = self.word();
        while word & (FRESH | ACTIVE) == FRESH {
            let next = ((word | ACTIVE | STOLEN | LENT) & !FRESH).wrapping_add(REFERENCE);
            // ORDER: as in `demand`.
            match self.change(word, next, order::state_wake()) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The stealer has not seen the result that it was going to look at.
    #[cold]
    pub(crate) fn end_loan(&self) {
        let mut word = self.word();
        while word & COMPLETE == 0 {
            // ORDER: Relaxed: nobody has looked at a result that is not there. Later looks lend it again.
            match self.change(word, word & !LENT, Ordering::Relaxed) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Claims the right to look at the result of a complete thread, for as long as the caller has its reference.
    /// False: somebody has taken it.
    #[inline]
    pub(crate) fn lend(&self) -> bool {
        let mut word = self.word();
        while word & (TAKEN | LENT) == 0 {
            // ORDER: Relaxed: the caller has seen the completion, and with it the result, which nobody changes.
            match self.change(word, word | LENT, Ordering::Relaxed) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        word & TAKEN == 0
    }
}
