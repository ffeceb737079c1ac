//! Local parking: a thread parks and is woken on its own processor without a read-modify-write.
//!
//! Threads that talk stay on one virtual processor. A thread that has ended a few polls in a row on
//! one virtual processor is *biased* to it, its *home*. From then on it *rests* when a poll ends
//! there: its word stays ACTIVE, and the end is noted beside the word, in [`LocalPark`]. The worker
//! of its home wakes it with plain stores, too. Any other waker first revokes the bias. For this it
//! needs the worker's consent, or a barrier on every processor.
//!
//! ```text
//!   the worker at home:  mark := thread;  light fence;  is the word biased to me?
//!                        yes: look at, and change, `resting`;  mark := none
//!   anyone else:         bias -> REVOKING, with NOTIFIED;  ask the worker; no answer: heavy fence,
//!                        and wait until the mark is not at the thread;
//!                        does it rest? no more, the token is mine;  REVOKING -> LOST
//! ```
//!
//! * INV-REST: a thread that rests is ACTIVE, and has neither a token nor a runner. Its token is
//!   made by the worker at home while the word is biased to that home. While REVOKING is set, it is
//!   made by the caller that has set it.
//! * INV-HOME-BUSY: this is INV-OWNER of `sync/owner.rs`. The thing is `resting`, and the bias in the
//!   word says whose it is. Either the worker sees that the bias is gone, or the revoker sees the
//!   worker's mark. So only one of them at a time touches `resting`.
//! * A worker that agrees does so between two turns. It does not look at any thread's rest then,
//!   and will see that the bias is gone. It may have ceased to be the worker meanwhile: see
//!   `Home::driver_agrees`.
//! * Nobody has to wait for a worker that gives its home up itself.
//! * A worker that was interrupted between its first look at the word and its mark finds the bias gone.
//!   A worker that was interrupted after its second look is waited for, by the revoker and by the
//!   next runner that biases the thread.
//! * No wake is lost: a waker elsewhere sets NOTIFIED and ends the bias. Either the end of the poll
//!   sees this, or the waker sees that the thread rests.
//!
//! On systems without a heavy fence no thread is ever biased.

use std::ptr;

#[cfg(all(test, loom))]
use super::state::Begun;
use super::state::{ACTIVE, COMPLETE, NOTIFIED, REFERENCE, STALE, State, UNIT};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::switches::LOCAL_PARKING;
use crate::sync::{Announcement, Cell, Mark, SharedByte, fence_pair, order};

/// The field of the word that holds the bias: 0, [`LOST`], [`REVOKING`], or a virtual processor's
/// number plus 1.
pub(super) const HOME: u64 = 0x7ff * UNIT;
/// The value of the field while the bias is being revoked.
const REVOKING: u64 = HOME;
/// The value of the field of a thread that had a bias once, and has none now.
const LOST: u64 = REVOKING - UNIT;

/// The numbers of polls in a row on one virtual processor that earn the first, the second and the
/// third bias.
const STREAKS: [u8; 3] = [4, 64, LONGEST];
/// The length of the longest streak. A later bias takes [`LATER`] such streaks: some thousands of
/// polls, beside which a revocation is cheap.
const LONGEST: u8 = 250;
const LATER: u8 = 16;
/// The count in `rest` of a thread that is never biased.
const NEVER: u8 = RESTING - 1;
/// The bit of `rest` that is set while the thread rests. The bits below count how often it was
/// biased.
const RESTING: u8 = 1 << 7;

/// A thread's part of local parking.
#[derive(Debug)]
pub(crate) struct LocalPark {
    /// The bit [`RESTING`], under INV-REST, and the count of biases, which belongs to the runner.
    rest: SharedByte,
    /// The number of polls in a row that ended on the current virtual processor. It belongs to the runner.
    streak: Cell<u8>,
}

/// A virtual processor's part of local parking.
#[derive(Debug)]
pub(crate) struct Home {
    /// The value of the [`HOME`] field of the threads that are biased to this processor; 0 if none
    /// can be.
    bits: u64,
    /// The thread whose rest the worker looks at, or is about to look at; nothing if there is none.
    mark: Mark,
    /// The announcement of the worker; null if there is none.
    driver: AtomicPtr<Announcement>,
}

impl LocalPark {
    pub(crate) fn new() -> Self {
        Self { rest: SharedByte::new(0), streak: Cell::new(0) }
    }

    /// Ends the streak: the thread runs on another virtual processor than before.
    pub(crate) fn break_streak(&self) {
        self.streak.set(0);
    }

    /// Lets the next bias come as soon as the last one did, since the last revocation has cost
    /// little. The caller has the right to touch the rest.
    fn earn_sooner(&self) {
        let rest = self.rest.get();
        let times = rest & !RESTING;
        if times != 0 && times != NEVER {
            self.rest.set((rest & RESTING) | (times - 1));
        }
    }

    /// Whether the thread rests: a hint.
    pub(crate) fn seems_to_rest(&self) -> bool {
        self.rest.get() & RESTING != 0
    }

    /// Takes the token of a thread, and returns whether it rested. The caller has the right to do
    /// so (INV-REST).
    #[inline(always)]
    fn wake_local(&self) -> bool {
        let rest = self.rest.get();
        if rest & RESTING != 0 {
            self.rest.set(rest & !RESTING);
        }
        rest & RESTING != 0
    }
}

impl Home {
    /// The home of threads on virtual processor `index`. If that number is too large for the field,
    /// no thread is ever biased to it.
    pub(crate) fn new(index: usize) -> Self {
        let number = index as u64 + 1;
        let bits = if number < LOST / UNIT { number * UNIT } else { 0 };
        Self { bits, mark: Mark::new(), driver: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A home where no thread ever rests.
    pub(crate) fn nowhere() -> Self {
        Self::new(LOST as usize)
    }

    /// The value of the [`HOME`] field of the threads that are biased to this processor; 0 if none
    /// can be.
    #[inline(always)]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Runs `change` if `state` is biased to this home; the bias stays for the time of the call.
    ///
    /// The caller drives this virtual processor.
    #[inline(always)]
    fn at_home(&self, state: &State, change: impl FnOnce(u64) -> bool) -> bool {
        // The first look, which is enough for threads with another home.
        if !LOCAL_PARKING || state.word() & HOME != self.bits || self.bits == 0 {
            return false;
        }
        self.mark.enter(state);
        let word = state.word();
        let changed = word & HOME == self.bits && change(word);
        // It publishes the rest, and the frame with it, to the revoker. The last touch: the frame may be another's now.
        self.mark.leave();
        changed
    }

    /// Sets the OS thread that drives this virtual processor; `None`: it has ceased to.
    pub(crate) fn set_driver(&self, driver: Option<&'static Announcement>) {
        let driver = driver.map_or(ptr::null_mut(), |driver| ptr::from_ref(driver).cast_mut());
        // ORDER: Release pairs with the second look in `driver_agrees`.
        self.driver.store(driver, order::home_drive());
    }

    /// Whether `announcement` is the worker's: a hint.
    pub(crate) fn is_of(&self, announcement: &'static Announcement) -> bool {
        ptr::eq(self.driver.load(Ordering::Relaxed), announcement)
    }

    /// Asks the worker for its consent after the caller has changed a word that was biased to this
    /// home. True: the worker does not look at the thread's rest, and will see the change. False:
    /// it does not answer.
    ///
    /// It must still be the worker after it has agreed. Others may have driven in between. If they
    /// came before it agreed, the last of them was done before it became the worker again. If they
    /// came after that, they have seen the change through it.
    fn driver_agrees(&self) -> bool {
        // ORDER: Relaxed: the second look reads the same store, or a later one by the same OS
        // thread.
        let driver = self.driver.load(Ordering::Relaxed);
        // SAFETY: announcements are never freed.
        let agrees = unsafe { driver.as_ref() }.is_some_and(Announcement::request_release);
        // ORDER: Acquire: the previous worker is done.
        agrees && ptr::eq(driver, self.driver.load(order::home_driver()))
    }
}

impl State {
    /// Edge 3 at home: the poll returned `Pending`. True: the thread rests, and the runner must not
    /// touch it any more.
    #[inline(always)]
    pub(crate) fn park_local(&self, rest: &LocalPark, home: &Home) -> bool {
        home.at_home(self, |word| {
            if word & (NOTIFIED | STALE) != 0 {
                return false;
            }
            rest.rest.set(rest.rest.get() | RESTING);
            true
        })
    }

    /// Edge 1 at home. True: the thread rested, and the caller holds its token.
    #[inline(always)]
    pub(crate) fn wake_local(&self, rest: &LocalPark, home: &Home) -> bool {
        home.at_home(self, |_| rest.wake_local())
    }

    /// Whether the thread rests, as seen by the worker of its home.
    pub(crate) fn rests(&self, rest: &LocalPark, home: &Home) -> bool {
        home.at_home(self, |_| rest.rest.get() & RESTING != 0)
    }

    /// Counts a poll that the runner ends at `home` without rest. Returns the amount that the end
    /// must add to the word: a bias if the thread has earned one, else 0. `homes`: all homes of the
    /// machine.
    #[inline(always)]
    pub(crate) fn earn_rest<'a>(
        &self,
        rest: &LocalPark,
        home: &Home,
        homes: impl Iterator<Item = &'a Home>,
    ) -> u64 {
        if !LOCAL_PARKING {
            return 0;
        }
        let streak = rest.streak.get();
        let times = rest.rest.get();
        let enough = STREAKS.get(usize::from(times)).copied().unwrap_or(LONGEST);
        if streak < enough {
            rest.streak.set(streak + 1);
            return 0;
        }
        self.bias(rest, home, homes)
    }

    #[cold]
    #[inline(never)]
    fn bias<'a>(&self, rest: &LocalPark, home: &Home, homes: impl Iterator<Item = &'a Home>) -> u64 {
        rest.streak.set(0);
        if home.bits == 0 {
            return 0;
        }
        let now = self.word() & HOME;
        if now == REVOKING || is_bias(now) {
            // Its last revoker still looks at it; or it is biased already, and was woken.
            return 0;
        }
        match fence_pair::is_available_yet() {
            known if known == Some(true) || cfg!(loom) => (),
            Some(_) => rest.rest.set(NEVER),
            None => return 0,
        }
        let count = match rest.rest.get() {
            NEVER => return 0,
            count if count < STREAKS.len() as u8 => count + 1,
            count if count + 1 < STREAKS.len() as u8 + LATER => {
                rest.rest.set(count + 1);
                return 0;
            }
            _ => STREAKS.len() as u8,
        };
        if now == LOST {
            // The workers that found the thread at home then must be done.
            let mut others = homes.filter(|other| !ptr::eq(*other, home));
            if let Some(silent) = others.find(|other| !other.driver_agrees()) {
                // ORDER: INV-HOME-BUSY, against the workers of other homes.
                Announcement::heavy_fence();
                silent.mark.await_leave(self);
                others.for_each(|other| other.mark.await_leave(self));
            }
        }
        rest.rest.set(count);
        home.bits.wrapping_sub(now)
    }

    /// Removes the bias: the holder of the token is about to run the thread on another virtual
    /// processor.
    pub(crate) fn unbias(&self) {
        let mut word = self.word();
        while is_bias(word & HOME) {
            // ORDER: Relaxed: the thread does not rest. Workers of the old home see the change in
            // time, because `bias` waits for them.
            match self.change(word, with_home(word, LOST), Ordering::Relaxed) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Revokes a bias to `home`, after the caller has set REVOKING in the word. True: the thread
    /// rested, and the caller holds its token.
    pub(crate) fn revoke(&self, rest: &LocalPark, home: &Home) -> bool {
        if home.driver_agrees() {
            rest.earn_sooner();
        } else {
            // ORDER: INV-HOME-BUSY, the revoker's side.
            Announcement::heavy_fence();
            home.mark.await_leave(self);
        }
        let rested = rest.wake_local();
        // ORDER: Release: a runner that biases the thread again sees that this revoker is done.
        self.0.fetch_sub(REVOKING - LOST, order::home_revoked());
        rested
    }

    /// Edge 1 without a reference: the first of two steps of a [claim](State::claim) of a thread
    /// with another home than `me`. Returns the number of that home. The caller then has a
    /// reference, and must call [`State::revoke`].
    pub(crate) fn begin_claim(&self, me: u64) -> Option<usize> {
        let mut word = self.word();
        while word & (ACTIVE | COMPLETE) == ACTIVE && is_bias(word & HOME) && word & HOME != me {
            let next = with_home(word, REVOKING).wrapping_add(REFERENCE);
            // ORDER: Relaxed: the `revoke` that follows sees the worker's writes, and publishes
            // ours.
            match self.change(word, next, Ordering::Relaxed) {
                Ok(()) => return Some(home_of(word)),
                Err(now) => word = now,
            }
        }
        None
    }
}

#[cfg(all(test, loom))]
impl State {
    /// A host that is biased to `home` for the first time, and its part.
    pub(super) fn new_biased_host(home: &Home) -> (Self, LocalPark) {
        let (state, rest) = (Self::new_host(), LocalPark::new());
        // ORDER: Relaxed: nobody else knows the thread.
        state.0.fetch_add(home.bits, Ordering::Relaxed);
        assert_eq!(state.begin(), Begun::Run, "it is new");
        rest.rest.set(1);
        (state, rest)
    }

    /// Like [`State::earn_rest`], after a streak of sufficient length.
    pub(super) fn earn_now<'a>(
        &self,
        rest: &LocalPark,
        home: &Home,
        homes: impl Iterator<Item = &'a Home>,
    ) -> u64 {
        self.bias(rest, home, homes)
    }
}

/// The word that a waker replaces `word` by if the thread may rest at another home than `me`.
/// `None`: it does not.
#[inline(always)]
pub(super) fn revoking(word: u64, me: u64) -> Option<u64> {
    let home = word & HOME;
    (home != me && is_bias(home)).then(|| with_home(word, REVOKING))
}

/// The number of the virtual processor that `word` is biased to.
pub(super) fn home_of(word: u64) -> usize {
    ((word & HOME) / UNIT) as usize - 1
}

#[inline(always)]
fn is_bias(home: u64) -> bool {
    home != 0 && home < LOST
}

fn with_home(word: u64, home: u64) -> u64 {
    (word & !HOME) | home
}
