//! The edges at the end of a poll and of a thread, and the counting of references.

use super::*;

impl State {
    /// Edges 3 and 4: the poll returned `Pending`. `local_refs` is the number of references that
    /// were handed out during it.
    #[inline]
    pub(crate) fn end(&self, local_refs: i32) -> Ended {
        let delta = references(local_refs).wrapping_sub(ACTIVE);
        // ORDER: Release publishes the frame to the next runner. The `begin` that follows sees the
        // writes of wakers.
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

    /// Edge 5: the future is gone and the result is in its place.
    pub(crate) fn complete(&self, local_refs: i32) -> Completed {
        if local_refs == 0 && self.is_private() {
            // Nobody else knows the thread, so nothing has to be published.
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
            // ORDER: Release publishes the result to the joiners. Acquire sees the end of every use
            // of the frame before it is freed.
            match self.0.compare_exchange_weak(word, next, order::state_complete(), Ordering::Relaxed) {
                Ok(_) if awaited => return Completed::Awaited,
                Ok(_) if is_free(next) => return Completed::Free,
                Ok(_) => return Completed::Kept,
                Err(now) => word = now,
            }
        }
    }

    /// The content of the body of a frame that nobody uses any more.
    #[inline(always)]
    pub(crate) fn left(&self) -> Left {
        match self.word() {
            word if word & FRESH != 0 => Left::Future,
            word if word & TAKEN != 0 => Left::Nothing,
            word if word & LENT != 0 => Left::Seen,
            _ => Left::Result,
        }
    }

    /// Counts another handle or waker.
    pub(crate) fn retain(&self) {
        // ORDER: Relaxed: the caller has a reference already.
        bound_references(self.0.fetch_add(REFERENCE, Ordering::Relaxed));
    }

    /// Checks the number of references: the runner is about to hand one out that it counts in
    /// `local_refs`.
    pub(crate) fn bound_references(&self) {
        bound_references(self.word());
    }

    /// Whether the thread is complete and the caller's reference is the only one, so that nobody
    /// else can make another.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        // ORDER: Acquire sees the end of the others' uses.
        let word = self.0.load(order::state_last());
        word & COMPLETE != 0 && word / REFERENCE == 1
    }

    /// Gives up one reference. True: the caller must free the frame, whose thread is complete, or
    /// delayed and never to run.
    #[must_use]
    #[inline]
    pub(crate) fn release(&self) -> bool {
        if self.is_last() {
            return true;
        }
        let mut word = self.word();
        while word & (FRESH | ACTIVE) == FRESH {
            // Delayed. A shutdown may claim it meanwhile, so the last handle is not simply given
            // up: its holder takes the thread, as the shutdown does.
            let is_last = word / REFERENCE == 1;
            // ENDING is set, so that nobody revokes it either.
            let next = if is_last { word | ACTIVE | ENDING } else { word - REFERENCE };
            // ORDER: Release ends the caller's use of the frame; Acquire sees the end of the
            // others' uses.
            match self.change(word, next, order::state_release()) {
                Ok(()) => return is_last,
                Err(now) => word = now,
            }
        }
        // ORDER: Release ends the caller's use of the frame before it is freed. Acquire sees the
        // end of the others' uses.
        let before = self.0.fetch_sub(REFERENCE, order::state_release());
        is_free(before.wrapping_sub(REFERENCE))
    }

    /// Whether the thread is complete.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // ORDER: Acquire pairs with `complete`.
        self.0.load(order::state_observe()) & COMPLETE != 0
    }

    /// Whether the thread waits for somebody to wake it.
    pub(crate) fn is_idle(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word != 0 && word & (ACTIVE | NOTIFIED | COMPLETE | FRESH) == 0
    }

    /// Whether the thread has been woken since its runner took it.
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }

    /// A joiner announces that it will wait. False: the thread is complete already.
    pub(crate) fn await_completion(&self) -> bool {
        // ORDER: Acquire sees the result if it is there. The queue of joiners is under its own
        // lock.
        self.0.fetch_or(AWAITED, order::state_observe()) & COMPLETE == 0
    }

    /// Claims the right to take the result of a complete thread. False: somebody else has it, or may look at it. The
    /// caller has a reference. A thread that looks at the result has another one.
    pub(crate) fn take_result(&self) -> bool {
        if self.is_last() {
            let word = self.word();
            self.0.store(word | TAKEN, Ordering::Relaxed);
            return word & TAKEN == 0;
        }
        let mut word = self.word();
        while word & (TAKEN | LENT) == 0 {
            // ORDER: Relaxed: the caller has seen the completion, and the winner has exclusive use of
            // the result.
            match self.change(word, word | TAKEN, Ordering::Relaxed) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Claims the token of an idle thread, or with `delayed` also that of a delayed one.
    pub(crate) fn claim(&self, delayed: bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while (delayed || word & FRESH == 0) && word != 0 && word & (ACTIVE | NOTIFIED | COMPLETE) == 0 {
            // ORDER: Release publishes to the next holder of the token, and Acquire lets the caller
            // use the frame, as in `wake`.
            let mut next = word | ACTIVE;
            if word & FRESH != 0 {
                // A delayed thread gets a reference of its own.
                next = (next & !FRESH).wrapping_add(REFERENCE);
            }
            if word & STALE != 0 {
                // The finder of the token has one.
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
