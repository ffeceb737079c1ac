//! Loom models of local parking, the protocol of `local_park.rs`. `models.rs` explains the parts
//! that they share with the models of the state word.

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use super::local_park::{Home, LocalPark};
use super::state::{Begun, Completed, Ended, State, Woken};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::sync::models::{check, needs};
use crate::sync::{Announcement, Cell};

/// A thread that completes when it has been told often enough.
struct Frame {
    state: State,
    rest: LocalPark,
    /// The number of polls, under the runner's control.
    polls: Cell<u32>,
    local_refs: Cell<i32>,
    told: AtomicU32,
    enough: u32,
    /// Loom reports it if it is dropped twice, or never.
    life: Arc<()>,
    homes: Arc<[Home; 2]>,
}

/// The life of a frame: it is over when the frame is freed.
struct Life(Arc<()>);

impl Life {
    fn is_over(&self) {
        assert_eq!(Arc::strong_count(&self.0), 1, "INV-WAKE, INV-FREE: it is complete and gone");
    }
}

/// A pointer to a frame: a token, or a reference.
#[derive(Clone, Copy)]
struct To(NonNull<Frame>);

// SAFETY: the models check that each use of the frame is allowed.
unsafe impl Send for To {}

impl To {
    /// A thread that is biased to the first of two homes.
    fn new(enough: u32) -> Self {
        let homes = Arc::new([Home::new(0), Home::new(1)]);
        let (state, rest) = State::new_biased_host(&homes[0]);
        Self(NonNull::from(Box::leak(Box::new(Frame {
            state,
            rest,
            polls: Cell::new(0),
            local_refs: Cell::new(0),
            told: AtomicU32::new(0),
            enough,
            life: Arc::new(()),
            homes,
        }))))
    }

    /// A thread as of [`To::new`], with a reference for each of two tellers, and its life.
    fn told_twice() -> (Self, Life) {
        let to = Self::new(2);
        // The thread needs one reference beside the handle's.
        to.frame().state.retain();
        (to, Life(Arc::clone(&to.frame().life)))
    }

    fn frame(&self) -> &Frame {
        // SAFETY: the model's claim is that it is alive.
        unsafe { self.0.as_ref() }
    }

    fn free(self) {
        // SAFETY: made in `new`; the model's claim is that nobody else uses it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    /// Runs the thread as `run::run` does with a token, until the token is given up, on the virtual
    /// processor of home `here`. `earns`: the streak is long enough for a bias.
    fn run(self, here: usize, earns: bool) {
        loop {
            let frame = self.frame();
            let homes = Arc::clone(&frame.homes);
            assert_eq!(frame.state.begin(), Begun::Run, "nobody steals");
            // INV-RUN: loom reports two runners.
            frame.polls.set(frame.polls.get() + 1);
            if frame.told.load(Relaxed) == frame.enough {
                match frame.state.complete(frame.local_refs.replace(0)) {
                    Completed::Free => self.free(),
                    Completed::Kept => (),
                    Completed::Awaited => unreachable!("nobody joins"),
                    Completed::Requested => unreachable!("nothing is asked"),
                }
                return;
            }
            if frame.state.park_local(&frame.rest, &homes[here]) {
                return;
            }
            let bias = if earns { frame.state.earn_now(&frame.rest, &homes[here], homes.iter()) } else { 0 };
            if frame.state.end(frame.local_refs.replace(0), bias) == Ended::Idle {
                return;
            }
        }
    }

    /// Moves the thread here, as `run::run` does with a thread that ran elsewhere.
    fn run_moved(self, here: usize, earns: bool) {
        self.frame().state.unbias();
        self.run(here, earns);
    }

    /// Tells the thread something as the driver of home `here`, and wakes it with a reference,
    /// which is given up. Runs it there if the caller gets its token.
    fn tell(self, here: usize) {
        let frame = self.frame();
        let homes = Arc::clone(&frame.homes);
        frame.told.fetch_add(1, Relaxed);
        if frame.state.wake_local(&frame.rest, &homes[here]) {
            frame.local_refs.set(frame.local_refs.get() - 1);
            return self.run(here, false);
        }
        match frame.state.wake(true, homes[here].bits()) {
            Woken::Token => self.run_moved_if(here),
            Woken::Already => (),
            Woken::Elsewhere(home) => {
                if frame.state.revoke(&frame.rest, &homes[home]) {
                    frame.local_refs.set(frame.local_refs.get() - 1);
                    self.run_moved(here, false);
                } else if frame.state.release() {
                    self.free();
                }
            }
            Woken::Free => self.free(),
        }
    }

    /// The thread may have run last here or elsewhere.
    fn run_moved_if(self, here: usize) {
        if here == 0 { self.run(here, false) } else { self.run_moved(here, false) }
    }
}

/// INV-REST, INV-HOME-BUSY, and the state word's invariants. A thread ends a poll at home while the
/// driver of another virtual processor tells it something. It is told more at home afterwards. One
/// runner at a time polls it, it sees all that it was told, and it is freed once.
fn told_at_home_and_elsewhere() {
    let (to, life) = To::told_twice();
    let other = thread::spawn(move || to.tell(1));
    to.run(0, false);
    to.tell(0);
    other.join().unwrap();
    life.is_over();
}

#[test]
fn threads_at_home_are_polled_once_more() {
    check(told_at_home_and_elsewhere);
}

#[test]
fn drivers_at_home_need_their_fence() {
    needs("owner_light", Relaxed, told_at_home_and_elsewhere);
}

#[test]
fn revokers_need_their_fence() {
    needs("owner_heavy", Relaxed, told_at_home_and_elsewhere);
}

#[test]
fn home_leave_is_needed() {
    needs("owner_leave", Relaxed, told_at_home_and_elsewhere);
}

#[test]
fn home_wait_is_needed() {
    needs("owner_observe", Relaxed, told_at_home_and_elsewhere);
}

/// INV-HOME-BUSY: the driver at home looks at another thread's rest next. The revoker reads this
/// store, and not the one by which the driver left the first thread.
fn told_while_the_driver_is_at_another() {
    let (to, life) = To::told_twice();
    let next = To::new(u32::MAX);
    let homes = Arc::clone(&to.frame().homes);
    let other = thread::spawn(move || to.tell(1));
    to.run(0, false);
    let woken_local = next.frame().state.wake_local(&next.frame().rest, &homes[0]);
    assert!(!woken_local, "it does not rest");
    to.tell(0);
    other.join().unwrap();
    life.is_over();
    next.free();
}

#[test]
fn drivers_go_from_rest_to_rest() {
    check(told_while_the_driver_is_at_another);
}

#[test]
fn home_enter_is_needed() {
    needs("owner_enter", Relaxed, told_while_the_driver_is_at_another);
}

/// INV-REST with a second bias: the token is taken to another virtual processor, and the thread
/// earns a bias there. Meanwhile the driver of the first home still wakes it. The thread rests at
/// its new home, and is told something there, too.
fn biased_anew() {
    let (to, life) = To::told_twice();
    let old = thread::spawn(move || to.tell(0));
    to.run_moved(1, true);
    to.tell(1);
    old.join().unwrap();
    life.is_over();
}

#[test]
fn threads_may_change_their_home() {
    check(biased_anew);
}

/// INV-REST with a bias that is lost and earned again at the same home, but not before its revoker
/// is done.
fn biased_again() {
    let (to, life) = To::told_twice();
    let other = thread::spawn(move || to.tell(1));
    to.run(0, true);
    to.tell(0);
    other.join().unwrap();
    life.is_over();
}

#[test]
fn threads_may_earn_their_home_again() {
    check(biased_again);
}

#[test]
fn home_revoked_is_needed() {
    needs("home_revoked", Relaxed, biased_again);
}

/// Makes the calling OS thread the driver of `home`.
fn drive(home: &Home) -> &'static Announcement {
    let mine = Announcement::mine().expect("a model has few OS threads");
    mine.set_responsive(true);
    home.set_driver(Some(mine));
    mine
}

/// INV-REST by consent: the driver at home agrees between two turns, or too late.
fn told_by_consent() {
    let (to, life) = To::told_twice();
    let homes = Arc::clone(&to.frame().homes);
    let mine = drive(&homes[0]);
    let other = thread::spawn(move || to.tell(1));
    to.run(0, false);
    mine.acknowledge();
    to.tell(0);
    mine.acknowledge();
    other.join().unwrap();
    life.is_over();
}

#[test]
fn drivers_agree_between_turns() {
    check(told_by_consent);
}

#[test]
fn consent_must_release() {
    needs("consent_given", Relaxed, told_by_consent);
}

#[test]
fn consent_must_be_acquired() {
    needs("consent_asked", Relaxed, told_by_consent);
}

/// INV-REST while the driver at home sleeps, and when it is back.
fn told_in_absence() {
    let (to, life) = To::told_twice();
    let homes = Arc::clone(&to.frame().homes);
    let mine = drive(&homes[0]);
    let other = thread::spawn(move || to.tell(1));
    to.run(0, false);
    mine.while_parked(|| ());
    to.tell(0);
    mine.acknowledge();
    other.join().unwrap();
    life.is_over();
}

#[test]
fn drivers_may_be_parked() {
    check(told_in_absence);
}

#[test]
fn absence_must_release() {
    needs("consent_parked", Relaxed, told_in_absence);
}

#[test]
fn absence_must_be_acquired() {
    needs("consent_found", Relaxed, told_in_absence);
}

#[test]
fn who_finds_nobody_needs_its_fence() {
    needs("consent_find", Relaxed, told_in_absence);
}

/// INV-REST by consent of a former driver, while its successor drives.
fn told_by_a_predecessors_consent() {
    let (to, life) = To::told_twice();
    let homes = Arc::clone(&to.frame().homes);
    let mine = drive(&homes[0]);
    let other = thread::spawn(move || to.tell(1));
    to.run(0, false);
    homes[0].set_driver(None);
    let successor = {
        let homes = Arc::clone(&homes);
        thread::spawn(move || {
            let mine = drive(&homes[0]);
            to.tell(0);
            mine.acknowledge();
        })
    };
    mine.acknowledge();
    successor.join().unwrap();
    other.join().unwrap();
    life.is_over();
}

#[test]
fn successors_are_asked_too() {
    check(told_by_a_predecessors_consent);
}

/// INV-REST by consent of a former driver that becomes the driver again.
fn told_between_two_terms() {
    let (to, life) = To::told_twice();
    let homes = Arc::clone(&to.frame().homes);
    let mine = drive(&homes[0]);
    let other = thread::spawn(move || to.tell(1));
    to.run(0, false);
    homes[0].set_driver(None);
    let between = {
        let homes = Arc::clone(&homes);
        thread::spawn(move || {
            drive(&homes[0]);
            to.tell(0);
            homes[0].set_driver(None);
        })
    };
    mine.acknowledge();
    between.join().unwrap();
    drive(&homes[0]);
    other.join().unwrap();
    life.is_over();
}

#[test]
fn drivers_may_come_back() {
    check(told_between_two_terms);
}

#[test]
fn drivers_must_release() {
    needs("home_drive", Relaxed, told_between_two_terms);
}

#[test]
fn drivers_must_be_acquired() {
    needs("home_driver", Relaxed, told_between_two_terms);
}

/// INV-REST among two wakers from elsewhere: one revokes, the other need not. Meanwhile a third
/// caller claims the thread, as a shutdown or a snapshot does.
#[test]
fn one_of_several_revokes() {
    check(|| {
        let (to, life) = To::told_twice();
        let others = [(); 2].map(|()| thread::spawn(move || to.tell(1)));
        to.run(0, false);
        for other in others {
            other.join().unwrap();
        }
        life.is_over();
    });
}

/// INV-TOKEN: a claim of a thread that rests elsewhere, and a wake by its home's driver, yield one
/// token between them.
#[test]
fn claims_and_drivers_share_one_token() {
    check(|| {
        let to = To::new(u32::MAX);
        let homes = Arc::clone(&to.frame().homes);
        to.run(0, false);
        let claimer = {
            let homes = Arc::clone(&homes);
            thread::spawn(move || {
                let frame = to.frame();
                let Some(home) = frame.state.begin_claim(0) else { return false };
                let claimed = frame.state.revoke(&frame.rest, &homes[home]);
                assert!(!frame.state.release(), "it is not complete");
                if claimed {
                    frame.polls.set(0);
                }
                claimed
            })
        };
        let frame = to.frame();
        let woken_local = frame.state.wake_local(&frame.rest, &homes[0]);
        if woken_local {
            frame.polls.set(0);
        }
        assert!(woken_local != claimer.join().unwrap(), "INV-TOKEN");
        // ORDER: as the next owner of the token would see the word.
        frame.told.load(Acquire);
        to.free();
    });
}
