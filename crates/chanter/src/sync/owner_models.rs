//! Loom models of revocable ownership: see `owner.rs`.
//!
//! These are of the protocol alone. The models of parked threads and of the ownership of processors
//! stand beside these.
//! How to run them: see `models.rs`.

use loom::sync::Arc;
use loom::thread;

use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use super::atomic::{AtomicBool, AtomicUsize};
use super::models::{check, needs};
use super::{Announcement, Cell, Mark, fence_pair};

/// No owner: the thing is being revoked.
const NOBODY: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;

/// A thing that is owned. Loom sees two users at a time, and a user that does not see what another one did.
struct Thing {
    owner: AtomicUsize,
    value: Cell<u32>,
}

/// Two things of one owner, a second owner, and a mark of each.
struct Owned {
    things: [Thing; 2],
    first: Mark,
    second: Mark,
}

// SAFETY: INV-OWNER says who uses a value: that is what the models are about.
unsafe impl Sync for Owned {}
// SAFETY: one thread at a time uses the value, as the models check, whichever it is.
unsafe impl Send for Owned {}

impl Owned {
    fn new() -> Arc<Self> {
        let thing = || Thing { owner: AtomicUsize::new(FIRST), value: Cell::new(0) };
        Arc::new(Self { things: [thing(), thing()], first: Mark::new(), second: Mark::new() })
    }

    /// An owner's use of a thing: how many there were, 0 or 1.
    fn use_as(&self, owner: usize, thing: usize) -> u32 {
        let mark = if owner == FIRST { &self.first } else { &self.second };
        let thing = &self.things[thing];
        mark.enter(thing);
        let is_mine = thing.owner.load(Acquire) == owner;
        if is_mine {
            thing.value.set(thing.value.get() + 1);
        }
        mark.leave();
        u32::from(is_mine)
    }

    /// Takes the first thing from the first owner, and waits for it; then it is `next`'s.
    fn revoke(&self, next: usize) -> u32 {
        let thing = &self.things[0];
        thing.owner.store(NOBODY, Relaxed);
        fence_pair::heavy();
        await_leave(&self.first, thing);
        thing.value.set(thing.value.get() + 1);
        thing.owner.store(next, Release);
        1
    }

    /// The same of a revoker that does not wait: how often it got the thing, 0 or 1.
    fn try_revoke(&self, next: usize) -> u32 {
        let thing = &self.things[0];
        thing.owner.store(NOBODY, Relaxed);
        fence_pair::heavy();
        if self.first.is_still_at(thing) {
            thing.owner.store(FIRST, Relaxed);
            return 0;
        }
        thing.value.set(thing.value.get() + 1);
        thing.owner.store(next, Release);
        1
    }
}

/// A revoker that waits until the owner does not use the thing.
fn await_leave<T>(mark: &Mark, thing: *const T) {
    while mark.is_still_at(thing) {
        thread::yield_now();
    }
}

/// An owner uses a thing twice while another OS thread takes it away.
fn revoked() {
    let owned = Owned::new();
    let other = Arc::clone(&owned);
    let owner = thread::spawn(move || other.use_as(FIRST, 0) + other.use_as(FIRST, 0));
    let uses = owned.revoke(NOBODY) + owner.join().unwrap();
    assert_eq!(owned.things[0].value.get(), uses);
}

/// The owner goes on to another thing, and the revoker may read that from its mark.
fn revoked_behind_the_owner() {
    let owned = Owned::new();
    let other = Arc::clone(&owned);
    let owner = thread::spawn(move || other.use_as(FIRST, 0) + other.use_as(FIRST, 1));
    owned.revoke(NOBODY);
    assert!(owner.join().unwrap() >= 1, "nobody takes the second thing");
}

/// A revoker that does not wait gives the thing back, at once or after a use: the owner is late, or too early.
fn given_back() {
    let owned = Owned::new();
    let other = Arc::clone(&owned);
    let owner = thread::spawn(move || other.use_as(FIRST, 0) + other.use_as(FIRST, 0));
    let uses = owned.try_revoke(FIRST) + owner.join().unwrap();
    assert_eq!(owned.things[0].value.get(), uses);
    assert_eq!(owned.use_as(FIRST, 0), 1, "it is where it was");
}

/// A late owner does not wipe out the mark of the next one, from which a third OS thread takes the thing.
fn revoked_from_the_next() {
    let owned = Owned::new();
    let [late, next] = [(); 2].map(|()| Arc::clone(&owned));
    let late = thread::spawn(move || late.use_as(FIRST, 0));
    let next = thread::spawn(move || {
        let uses = next.revoke(SECOND);
        uses + next.use_as(SECOND, 0)
    });
    let thing = &owned.things[0];
    let mut uses = 0;
    if thing.owner.compare_exchange(SECOND, NOBODY, Relaxed, Relaxed).is_ok() {
        fence_pair::heavy();
        await_leave(&owned.second, thing);
        thing.value.set(thing.value.get() + 1);
        uses += 1;
    }
    uses += late.join().unwrap() + next.join().unwrap();
    assert_eq!(thing.value.get(), uses);
}

#[test]
fn owners_and_revokers_exclude_each_other() {
    check(revoked);
}

#[test]
fn owners_go_on_to_another_thing() {
    check(revoked_behind_the_owner);
}

#[test]
fn things_are_given_back() {
    check(given_back);
}

#[test]
fn late_owners_touch_their_own_mark() {
    check(revoked_from_the_next);
}

#[test]
fn owners_need_the_light_fence() {
    needs("owner_light", Relaxed, revoked);
}

#[test]
fn revokers_need_the_heavy_fence() {
    needs("owner_heavy", Relaxed, revoked);
}

#[test]
fn leaving_must_release() {
    needs("owner_leave", Relaxed, revoked);
}

#[test]
fn revokers_must_acquire() {
    needs("owner_observe", Relaxed, revoked);
}

#[test]
fn entering_must_release() {
    needs("owner_enter", Relaxed, revoked_behind_the_owner);
}

#[test]
fn giving_back_needs_both_fences() {
    needs("owner_light", Relaxed, given_back);
    needs("owner_heavy", Relaxed, given_back);
}

/// Ownership by consent, without the light fence, which is none to the processor: only `acknowledge`, or
/// `while_parked`, comes between a use and the next look.
struct Bias {
    is_there: AtomicBool,
    value: Cell<u32>,
}

// SAFETY: who has the bias, or has ended it, uses the value: that is what the models are about.
unsafe impl Sync for Bias {}
// SAFETY: one thread at a time uses the value, as the models check, whichever it is.
unsafe impl Send for Bias {}

impl Bias {
    fn use_once(&self) {
        self.value.set(self.value.get() + 1);
    }
}

/// The owner uses the value, does `between`, and uses it again if the bias is there.
fn ended_by_consent(between: impl FnOnce(&Announcement)) {
    let bias = Arc::new(Bias { is_there: AtomicBool::new(true), value: Cell::new(0) });
    let mine = Announcement::mine().expect("a model has few OS threads");
    mine.set_responsive(true);
    let asker = {
        let bias = Arc::clone(&bias);
        thread::spawn(move || {
            bias.is_there.swap(false, Relaxed);
            let has_agreed = mine.request_release();
            if has_agreed {
                bias.use_once();
            }
            has_agreed
        })
    };
    let mut uses = 1;
    bias.use_once();
    between(mine);
    if bias.is_there.load(Relaxed) {
        bias.use_once();
        uses += 1;
    }
    // Not to be asked any more.
    uses += u32::from(asker.join().unwrap());
    assert_eq!(bias.value.get(), uses);
}

fn ended_between_turns() {
    ended_by_consent(Announcement::acknowledge);
}

fn ended_in_absence() {
    ended_by_consent(|mine| mine.while_parked(|| ()));
}

#[test]
fn who_agrees_has_no_bias() {
    check(ended_between_turns);
}

#[test]
fn who_agrees_must_acquire() {
    needs("consent_give", Relaxed, ended_between_turns);
}

#[test]
fn who_comes_back_has_no_bias() {
    check(ended_in_absence);
}

#[test]
fn who_comes_back_needs_a_fence() {
    needs("consent_return", AcqRel, ended_in_absence);
}

#[test]
fn who_finds_nobody_needs_a_whole_fence() {
    needs("consent_find", AcqRel, ended_in_absence);
}
