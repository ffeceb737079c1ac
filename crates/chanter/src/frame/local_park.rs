//! Threads that are parked at home: idle, without a read-modify-write.
//!
//! Threads that talk stay on one virtual processor. A thread that has ended a few polls in a row on the same one is
//! *biased* to it. From then on it *rests* when a poll ends: its word stays ACTIVE, and the end is noted beside it, in
//! [`LocalPark`]. The driver of that virtual processor, its *home*, wakes it with plain stores, too. Anyone else revokes
//! the bias first, with the driver's consent, or at the cost of a barrier on every processor.
//!
//! ```text
//!   the driver at home:  mark := thread;  light fence;  is the word biased to me?
//!                        yes: look at, and change, `resting`;  mark := none
//!   anyone else:         bias -> REVOKING, with NOTIFIED;  ask the driver; no answer: heavy fence,
//!                        and wait until the mark is not at the thread;
//!                        does it rest? no more, the token is mine;  REVOKING -> LOST
//! ```
//!
//! * INV-REST: a thread that rests is ACTIVE, with neither a token nor a runner. Its token is made by the driver at home
//!   while the word is biased to that, or by whoever has set REVOKING, while that is set.
//! * INV-HOME-BUSY: this is INV-OWNER of `sync/owner.rs`, where the thing is `resting`, and the bias in the word says
//!   whose it is. Either the driver sees the bias go, or the revoker sees the driver's mark.
//! * A driver that agrees, between two turns, looks at no thread's rest, and sees the bias go the next time. It may have
//!   ceased to be the driver meanwhile: see `Home::driver_agrees`.
//! * A driver that gives its home up itself need not be waited for.
//! * A late driver, interrupted between its first look at the word and its mark, finds the bias gone. One that is
//!   interrupted behind its second look is waited for: by the revoker, and by whoever biases the thread anew.
//! * No wake is lost: a waker elsewhere leaves NOTIFIED and no bias. Either the end of the poll sees that, or the waker
//!   sees the thread rest.
//!
//! Where there is no heavy fence, no thread is ever biased.

use std::ptr;

#[cfg(all(test, loom))]
use super::state::Begun;
use super::state::{ACTIVE, COMPLETE, NOTIFIED, REFERENCE, STALE, State, UNIT};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Announcement, Cell, Mark, SharedByte, fence_pair, order};

/// The field of the word that says where the thread rests: 0, [`LOST`],
/// [`REVOKING`], or a virtual processor's number and 1.
pub(super) const HOME: u64 = 0xfff * UNIT;
/// The bias is being revoked.
const REVOKING: u64 = HOME;
/// There was a bias once.
const LOST: u64 = REVOKING - UNIT;

/// Polls in a row on one virtual processor that earn the first, the second and
/// the third bias.
const STREAKS: [u8; 3] = [4, 64, LONGEST];
/// Later ones take so many streaks of the longest kind: some thousands of polls,
/// beside which a revocation is cheap.
const LONGEST: u8 = 250;
const LATER: u8 = 16;
/// The count of a thread that is never biased.
const NEVER: u8 = RESTING - 1;
/// Set in `rest` while the thread rests; below it, how often it was biased.
const RESTING: u8 = 1 << 7;

/// A thread's part.
#[derive(Debug)]
pub(crate) struct LocalPark {
    /// See [`RESTING`]: INV-REST. The count is the runner's.
    rest: SharedByte,
    /// The runner's: polls in a row that ended here.
    streak: Cell<u8>,
}

/// A virtual processor's part.
#[derive(Debug)]
pub(crate) struct Home {
    /// What the words of threads say that are biased to it.
    bits: u64,
    /// The thread whose rest the driver looks at, or looks whether it may.
    mark: Mark,
    /// The driver's, if there is one.
    driver: AtomicPtr<Announcement>,
}

impl LocalPark {
    pub(crate) fn new() -> Self {
        Self { rest: SharedByte::new(0), streak: Cell::new(0) }
    }

    /// The thread runs somewhere else than before.
    pub(super) fn break_streak(&self) {
        self.streak.set(0);
    }

    /// The last bias has cost little: the next one comes as soon as it did. The caller has
    /// the right to touch the rest.
    fn earn_sooner(&self) {
        let rest = self.rest.get();
        let times = rest & !RESTING;
        if times != 0 && times != NEVER {
            self.rest.set((rest & RESTING) | (times - 1));
        }
    }

    /// Whether the thread rests: a hint.
    pub(super) fn seems_to_rest(&self) -> bool {
        self.rest.get() & RESTING != 0
    }

    /// Takes the token of a thread that rests; the caller has the right to.
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
    /// The home of threads on virtual processor `index`. Nothing is ever biased
    /// to one whose number is too large for the field.
    pub(crate) fn new(index: usize) -> Self {
        let number = index as u64 + 1;
        let bits = if number < LOST / UNIT { number * UNIT } else { 0 };
        Self { bits, mark: Mark::new(), driver: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Of one where nothing rests.
    pub(crate) fn nowhere() -> Self {
        Self::new(LOST as usize)
    }

    /// What the words of threads say that are biased to it.
    #[inline(always)]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Runs `change` if `state` is biased to here and the bias stays so long.
    ///
    /// The caller drives this virtual processor.
    #[inline(always)]
    fn at_home(&self, state: &State, change: impl FnOnce(u64) -> bool) -> bool {
        // A first look, for those who are at home elsewhere.
        if state.word() & HOME != self.bits || self.bits == 0 {
            return false;
        }
        self.mark.enter(state);
        let word = state.word();
        let changed = word & HOME == self.bits && change(word);
        // It publishes the rest, and the frame with it, to the revoker. The last touch: the frame may be another's now.
        self.mark.leave();
        changed
    }

    /// An OS thread begins to drive this virtual processor, or, with none, ends.
    pub(crate) fn set_driver(&self, driver: Option<&'static Announcement>) {
        let driver = driver.map_or(ptr::null_mut(), |driver| ptr::from_ref(driver).cast_mut());
        // ORDER: Release: see `driver_agrees`.
        self.driver.store(driver, order::home_drive());
    }

    /// Whether that is the driver's: a hint.
    pub(crate) fn is_of(&self, announcement: &'static Announcement) -> bool {
        ptr::eq(self.driver.load(Ordering::Relaxed), announcement)
    }

    /// The caller has changed a word that was biased to here. True: the driver does not
    /// look at the thread's rest, and will see the change. False: it does not answer.
    ///
    /// It must be the driver still when it has agreed. If others were in between, the last of
    /// them was through before it became the driver again; if they came and it agreed
    /// before them, they have seen the change through it.
    fn driver_agrees(&self) -> bool {
        // ORDER: Relaxed: the second look reads the same store, or a later one of the same OS thread's.
        let driver = self.driver.load(Ordering::Relaxed);
        // SAFETY: announcements are never freed.
        let agrees = unsafe { driver.as_ref() }.is_some_and(Announcement::request_release);
        // ORDER: Acquire: the driver before is through.
        agrees && ptr::eq(driver, self.driver.load(order::home_driver()))
    }
}

impl State {
    /// Edge 3 at home: the poll returned `Pending`. True: the thread rests, and
    /// the runner must not touch it.
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

    /// Edge 1 at home: true: the thread rested, and the caller holds its token.
    #[inline(always)]
    pub(crate) fn wake_local(&self, rest: &LocalPark, home: &Home) -> bool {
        home.at_home(self, |_| rest.wake_local())
    }

    /// Whether it rests, as the driver at home sees it.
    pub(crate) fn rests(&self, rest: &LocalPark, home: &Home) -> bool {
        home.at_home(self, |_| rest.rest.get() & RESTING != 0)
    }

    /// The runner ends a poll at `home` without rest. What the end must add to
    /// the word: a bias, if that has been earned. `homes`: all there are.
    #[inline(always)]
    pub(crate) fn earn_rest<'a>(
        &self,
        rest: &LocalPark,
        home: &Home,
        homes: impl Iterator<Item = &'a Home>,
    ) -> u64 {
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
            // Still looked at by its last revoker; or ours already, and woken.
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
            // Drivers who found it at home with them then must be through.
            let mut others = homes.filter(|other| !ptr::eq(*other, home));
            if let Some(silent) = others.find(|other| !other.driver_agrees()) {
                // ORDER: INV-HOME-BUSY.
                Announcement::heavy_fence();
                silent.mark.await_leave(self);
                others.for_each(|other| other.mark.await_leave(self));
            }
        }
        rest.rest.set(count);
        home.bits.wrapping_sub(now)
    }

    /// The holder of the token is about to run the thread somewhere else.
    pub(crate) fn unbias(&self) {
        let mut word = self.word();
        while is_bias(word & HOME) {
            // ORDER: Relaxed: the thread does not rest, and what a driver sees
            // of this it sees in time: see `bias`.
            match self.change(word, with_home(word, LOST), Ordering::Relaxed) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    /// The caller has set REVOKING in a word that was biased to `home`. True:
    /// the thread rested, and the caller holds its token.
    pub(crate) fn revoke(&self, rest: &LocalPark, home: &Home) -> bool {
        if home.driver_agrees() {
            rest.earn_sooner();
        } else {
            // ORDER: INV-HOME-BUSY, the revoker's side.
            Announcement::heavy_fence();
            home.mark.await_leave(self);
        }
        let rested = rest.wake_local();
        // ORDER: Release: who biases it again sees that we are through.
        self.0.fetch_sub(REVOKING - LOST, order::home_revoked());
        rested
    }

    /// Edge 1 without a reference: the first of two steps of [`State::claim`]
    /// for a thread that is at home somewhere else than `me`. Where that is;
    /// the caller has a reference then, and must [`State::revoke`].
    pub(super) fn begin_claim(&self, me: u64) -> Option<usize> {
        let mut word = self.word();
        while word & (ACTIVE | COMPLETE) == ACTIVE && is_bias(word & HOME) && word & HOME != me {
            let next = with_home(word, REVOKING).wrapping_add(REFERENCE);
            // ORDER: Relaxed: `revoke`, which follows, sees what the driver did, and publishes what we do.
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
    /// A host that is biased to `home`, once, and its part.
    pub(super) fn new_biased_host(home: &Home) -> (Self, LocalPark) {
        let (state, rest) = (Self::new_host(), LocalPark::new());
        // ORDER: Relaxed: nobody else knows the thread.
        state.0.fetch_add(home.bits, Ordering::Relaxed);
        assert_eq!(state.begin(), Begun::Run, "it is new");
        rest.rest.set(1);
        (state, rest)
    }

    /// As [`State::earn_rest`], after a streak that is long enough.
    pub(super) fn earn_now<'a>(
        &self,
        rest: &LocalPark,
        home: &Home,
        homes: impl Iterator<Item = &'a Home>,
    ) -> u64 {
        self.bias(rest, home, homes)
    }
}

/// What a waker makes of `word`, whose thread may rest elsewhere than at `me`;
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
