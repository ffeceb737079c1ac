//! Loom models of the state word, and of the return of frames to their arena.
//!
//! They run the transitions of [`State`] on a small frame with fields that loom checks. The
//! runner's part is a [`Cell`], and freeing counts as a write. How to run them: see
//! `sync/models.rs`. The models of whole threads are in `sched/models.rs`.

use std::ptr::NonNull;
use std::task::Waker;

use loom::sync::Arc;
use loom::thread;

use super::Completion;
use super::arena::Missing;
use super::state::{Begun, Completed, Demanded, Ended, Left, State, Woken};
use crate::event::protocol::Group;
use crate::event::{Offer, Offered, Offering, WaitQueue};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::models::{check, check_wide, needs};
use crate::sync::{Cell, Linked, Stack, UnsafeCell};

/// A thread that completes when it has been told often enough.
struct Frame {
    state: State,
    link: UnsafeCell<*mut Frame>,
    /// The runner's part: the future, and the count of borrowed references.
    polls: Cell<u32>,
    local_refs: Cell<i32>,
    /// The part that any holder of a reference may read.
    shared: Cell<u32>,
    /// The number of times it has been told something.
    told: AtomicU32,
    enough: u32,
    /// Loom reports it if it is dropped twice, or never.
    life: Arc<()>,
}

// SAFETY: only stacks use `link`.
unsafe impl Linked for Frame {
    fn link(&self) -> &UnsafeCell<*mut Self> {
        &self.link
    }
}

/// A pointer to a frame: a token, a reference, or a borrowed one.
#[derive(Clone, Copy)]
struct To(NonNull<Frame>);

// SAFETY: the models check that each use of the frame is allowed.
unsafe impl Send for To {}

impl To {
    fn new(state: State, enough: u32) -> Self {
        Self(NonNull::from(Box::leak(Box::new(Frame {
            state,
            link: UnsafeCell::new(std::ptr::null_mut()),
            polls: Cell::new(0),
            local_refs: Cell::new(0),
            shared: Cell::new(0),
            told: AtomicU32::new(0),
            enough,
            life: Arc::new(()),
        }))))
    }

    fn frame(&self) -> &Frame {
        // SAFETY: the model's claim is that it is alive.
        unsafe { self.0.as_ref() }
    }

    /// INV-FREE: the caller was told to free the frame.
    fn free(self) {
        // SAFETY: made in `new`; the model's claim is that nobody else uses it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    /// Runs the thread as `run::run` does with a token. True: the runner has the token again.
    fn run(self, during: impl FnOnce(&Frame)) -> bool {
        match self.frame().state.begin() {
            Begun::Run => self.poll(during),
            Begun::Requested => unreachable!("nothing is asked"),
            Begun::Stale => false,
            Begun::Free => {
                self.free();
                false
            }
        }
    }

    /// Polls the thread and ends the poll. True: the runner has the token again.
    fn poll(self, during: impl FnOnce(&Frame)) -> bool {
        let frame = self.frame();
        // INV-RUN: loom reports two runners.
        frame.polls.set(frame.polls.get() + 1);
        during(frame);
        let complete = frame.told.load(Relaxed) == frame.enough;
        let local_refs = frame.local_refs.replace(0);
        if !complete {
            return frame.state.end(local_refs) == Ended::Token;
        }
        match frame.state.complete(local_refs) {
            Completed::Free => self.free(),
            Completed::Kept => (),
            Completed::Awaited => unreachable!("nobody joins"),
            Completed::Requested => unreachable!("nothing is asked"),
        }
        false
    }

    /// Tells the thread something and wakes it, and gives a reference up. True: the caller has its
    /// token.
    fn tell(self) -> bool {
        self.frame().told.fetch_add(1, Relaxed);
        match self.frame().state.wake(true) {
            Woken::Token => true,
            Woken::Already => false,
            Woken::Free => {
                self.free();
                false
            }
        }
    }

    /// Runs the thread until the caller has no token of it.
    fn run_on(self) {
        while self.run(|_| ()) {}
    }
}

/// INV-TOKEN, INV-RUN, INV-WAKE, INV-FREE: a parasite lends two wakers during its first poll. Two
/// others tell it something, wake it with them, and attach it: they run it themselves if they get
/// the token. One runner at a time polls it, it sees all that it was told, and it is freed once.
fn attached_by_two() {
    let to = To::new(State::new_parasite(), 2);
    let life = Arc::clone(&to.frame().life);
    let mut wakers = Vec::new();
    let again = to.poll(|frame| {
        for _ in 0..2 {
            frame.local_refs.set(frame.local_refs.get() + 1);
            wakers.push(thread::spawn(move || {
                if to.tell() {
                    to.run_on();
                }
            }));
        }
    });
    if again {
        to.run_on();
    }
    for waker in wakers {
        waker.join().unwrap();
    }
    assert_eq!(Arc::strong_count(&life), 1, "INV-WAKE, INV-FREE: it is complete and gone");
}

#[test]
fn woken_threads_are_polled_once_more() {
    check(attached_by_two);
}

#[test]
fn wakes_must_release() {
    needs("state_wake", Acquire, attached_by_two);
}

#[test]
fn wakes_must_acquire() {
    needs("state_wake", Release, attached_by_two);
}

#[test]
fn begin_acquire_is_needed() {
    needs("state_begin", Relaxed, attached_by_two);
}

#[test]
fn end_release_is_needed() {
    needs("state_end", Relaxed, attached_by_two);
}

/// The same invariants with a queue, as hosts are woken: the waker pushes the token, and the driver
/// runs the tokens that it finds.
#[test]
fn woken_threads_are_queued_once() {
    check(|| {
        let to = To::new(State::new_host(), 1);
        let life = Arc::clone(&to.frame().life);
        let inbox = Arc::new(Stack::new());
        let waker = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                if to.tell() {
                    // SAFETY: the token belongs to this waker, which gives it to the queue.
                    assert!(unsafe { inbox.push(to.0) }.is_ok());
                }
            })
        };
        // The first token belongs to the spawner, which is this OS thread; the handle goes to the
        // waker.
        if to.run(|_| ()) {
            to.run_on();
        }
        while Arc::strong_count(&life) > 1 {
            thread::yield_now();
            inbox.take_all().for_each(|frame| To(frame).run_on());
        }
        waker.join().unwrap();
        assert!(inbox.is_empty(), "INV-TOKEN: a token is left");
    });
}

/// INV-FREE: a thread completes while a handle and a waker are given up, each
/// after a last look at the frame. One of the three frees it, after all looks.
fn completed_among_references() {
    let to = To::new(State::new_host(), 0);
    let life = Arc::clone(&to.frame().life);
    to.frame().state.retain();
    let others = [false, true].map(|wakes| {
        thread::spawn(move || {
            to.frame().shared.get();
            let free =
                if wakes { to.frame().state.wake(true) == Woken::Free } else { to.frame().state.release() };
            if free {
                to.free();
            }
        })
    });
    to.run_on();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn frames_are_freed_once_after_every_use() {
    check(completed_among_references);
}

#[test]
fn release_must_release() {
    needs("state_release", Acquire, completed_among_references);
}

#[test]
fn release_must_acquire() {
    needs("state_release", Release, completed_among_references);
}

#[test]
fn last_acquire_is_needed() {
    needs("state_last", Relaxed, completed_among_references);
}

#[test]
fn complete_must_release() {
    needs("state_complete", Acquire, completed_among_references);
}

#[test]
fn complete_must_acquire() {
    needs("state_complete", Release, completed_among_references);
}

/// INV-TOKEN: a shutdown that claims a thread, and a waker, get one token between them. Its holder
/// runs the thread, and sees the frame as the last runner left it.
fn claimed_while_woken() {
    let to = To::new(State::new_host(), u32::MAX);
    // The reference of the waker; the handle's keeps the frame for the shutdown.
    to.frame().state.retain();
    let runner = thread::spawn(move || assert!(!to.run(|_| ()), "nobody woke it"));
    let mut tokens = 0;
    while !to.frame().state.claim(true) {
        thread::yield_now();
    }
    tokens += 1;
    let waker = thread::spawn(move || to.tell());
    // The claimer is the runner now.
    let again = to.poll(|_| ());
    tokens += u32::from(again) + u32::from(waker.join().unwrap());
    runner.join().unwrap();
    assert_eq!(tokens, 2, "INV-TOKEN: one for the claim, one for the wake");
    assert!(!to.frame().state.claim(true), "INV-TOKEN: it is active");
    to.free();
}

#[test]
fn claims_and_wakes_share_one_token() {
    check(claimed_while_woken);
}

#[test]
fn claims_must_acquire() {
    needs("state_wake", Release, claimed_while_woken);
}

/// INV-STEAL, INV-STALE, and all others: a queued thread is demanded by one OS thread and told
/// something by another, and a third finds its token. One runner at a time polls it, it sees what
/// it was told, and it is freed once.
fn stolen_while_queued() {
    let to = To::new(State::new_host(), 1);
    let life = Arc::clone(&to.frame().life);
    to.frame().state.retain();
    let stealer = thread::spawn(move || {
        if to.frame().state.demand(true) == Demanded::Stolen && to.poll(|_| ()) {
            to.run_on();
        }
        if to.frame().state.release() {
            to.free();
        }
    });
    let teller = thread::spawn(move || {
        if to.tell() {
            to.run_on();
        }
    });
    to.run_on();
    stealer.join().unwrap();
    teller.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-WAKE, INV-FREE: it is complete and gone");
}

#[test]
fn stolen_threads_have_one_token() {
    check_wide(stolen_while_queued);
}

#[test]
fn revived_tokens_need_to_acquire() {
    needs("state_revived", Relaxed, stolen_while_queued);
}

/// INV-STALE, INV-FREE: a queued thread is stolen and completes, while its token is found, and
/// looked at. The last one frees it, after every use.
fn found_after_the_end() {
    let to = To::new(State::new_host(), 0);
    let life = Arc::clone(&to.frame().life);
    let stealer = thread::spawn(move || {
        if to.frame().state.demand(true) == Demanded::Stolen {
            assert!(!to.poll(|_| ()), "it is complete");
        }
        to.frame().shared.get();
        if to.frame().state.release() {
            to.free();
        }
    });
    to.frame().shared.get();
    to.run_on();
    stealer.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn stale_tokens_keep_the_frame() {
    check(found_after_the_end);
}

#[test]
fn stale_tokens_must_release() {
    needs("state_stale", Acquire, found_after_the_end);
}

impl To {
    /// Gives a token up, as `run::cancel` does. True: this has ended the thread.
    fn give_up(self) -> bool {
        match self.frame().state.begin_to_end() {
            Begun::Run => {
                self.end();
                true
            }
            Begun::Requested => unreachable!("nothing is asked"),
            Begun::Stale => false,
            Begun::Free => {
                self.free();
                false
            }
        }
    }

    /// Ends the thread, as `run::end_now` does.
    fn end(self) {
        let frame = self.frame();
        // INV-RUN: loom reports two runners.
        frame.polls.set(frame.polls.get() + 1);
        match frame.state.complete(frame.local_refs.replace(0)) {
            Completed::Free => self.free(),
            Completed::Kept => (),
            Completed::Awaited => unreachable!("nobody joins"),
            Completed::Requested => unreachable!("nothing is asked"),
        }
    }
}

/// INV-SEIZE: a thread has run, and is woken. The holder of its token keeps it for a while, and
/// gives it up. Meanwhile another OS thread, which never got the token, revokes the thread. One of
/// them ends it, and sees it as its last runner left it. It is freed after all uses.
fn seized_while_given_up() {
    let to = To::new(State::new_host(), u32::MAX);
    let life = Arc::clone(&to.frame().life);
    // The waker has a reference, beside the handle's.
    to.frame().state.retain();
    assert!(!to.run(|_| ()), "nobody has woken it");
    let holder = thread::spawn(move || to.tell() && to.give_up());
    // This acts as a machine that ends: it claims an idle thread, and revokes any other.
    let claimed = to.frame().state.claim(true);
    let ended = if claimed {
        to.give_up()
    } else {
        let revoked_threads = to.frame().state.revoke_thread(false);
        if revoked_threads {
            to.end();
        }
        revoked_threads
    };
    let ended_there = holder.join().unwrap();
    assert!(ended != ended_there, "INV-SEIZE: {ended} {ended_there}");
    if to.frame().state.release() {
        to.free();
    }
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn a_thread_is_seized_or_given_up() {
    check(seized_while_given_up);
}

/// INV-SEIZE: a thread runs, and is woken by a waker that hides its token. The revoker, which
/// nobody has handed anything, sees the writes of the runner and the waker. (It knows by other
/// means that the thread is not polled any more: here by the count `told`.)
fn seized_from_who_hides_it() {
    let to = To::new(State::new_host(), u32::MAX);
    to.frame().state.retain();
    let waker = thread::spawn(move || {
        assert!(!to.run(|_| ()), "nobody has woken it");
        assert!(to.tell(), "it was idle");
    });
    while to.frame().told.load(Relaxed) == 0 || !to.frame().state.revoke_thread(false) {
        thread::yield_now();
    }
    to.end();
    waker.join().unwrap();
    assert!(!to.frame().state.release(), "INV-FREE: a dead token is left");
    assert_eq!(to.frame().state.begin_to_end(), Begun::Free, "INV-FREE: it was the last");
    to.free();
}

#[test]
fn hidden_threads_are_seized() {
    check(seized_from_who_hides_it);
}

#[test]
fn seizing_must_acquire() {
    needs("state_wake", Release, seized_from_who_hides_it);
}

/// INV-STALE, INV-FREE: a queued thread is stolen and completes. Another OS thread finds its token,
/// and may be the last to refer to it.
fn found_by_another() {
    let to = To::new(State::new_host(), 0);
    let life = Arc::clone(&to.frame().life);
    let finder = thread::spawn(move || to.run_on());
    if to.frame().state.demand(true) == Demanded::Stolen {
        assert!(!to.poll(|_| ()), "it is complete");
    }
    to.frame().shared.get();
    if to.frame().state.release() {
        to.free();
    }
    finder.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn stale_tokens_may_be_the_last() {
    check(found_by_another);
}

/// INV-STALE: a thread is stolen, blocks, and is woken, so that its first token is good again. The
/// finder of the token sees the frame as the stealer left it.
fn revived_for_another() {
    let to = To::new(State::new_host(), 1);
    let life = Arc::clone(&to.frame().life);
    to.frame().state.retain();
    let finder = thread::spawn(move || to.run_on());
    if to.frame().state.demand(true) == Demanded::Stolen && to.poll(|_| ()) {
        to.run_on();
    }
    if to.tell() {
        to.run_on();
    }
    if to.frame().state.release() {
        to.free();
    }
    finder.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-WAKE, INV-FREE: it is complete and gone");
}

#[test]
fn revived_tokens_are_found() {
    check(revived_for_another);
}

#[test]
fn revived_tokens_must_be_acquired() {
    needs("state_found", Relaxed, revived_for_another);
}

/// INV-STEAL, INV-FREE: a thread waits in a queue. Its demander takes the token out, while another
/// OS thread may find it there. `handles`: there is another handle, and its holder looks at the
/// thread and gives it up.
fn withdrawn_while_found(handles: usize) {
    let to = To::new(State::new_host(), 0);
    let life = Arc::clone(&to.frame().life);
    let queue = Arc::new(crate::sync::Lock::new(Some(to)));
    let stealer = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let found = queue.lock().take();
            if let Some(token) = found {
                token.run_on();
            }
        })
    };
    let holder = (handles > 1).then(|| {
        to.frame().state.retain();
        thread::spawn(move || {
            to.frame().shared.get();
            if to.frame().state.release() {
                to.free();
            }
        })
    });
    let token = queue.lock().take();
    let is_runner = match token {
        Some(token) => token.frame().state.steal_with_token(true),
        None => to.frame().state.demand(true) == Demanded::Stolen,
    };
    assert!(is_runner || token.is_none(), "nobody else demands it");
    if is_runner {
        assert!(!to.poll(|_| ()), "it is complete");
        to.frame().state.take_result();
    }
    if to.frame().state.release() {
        to.frame().shared.set(1);
        to.free();
    }
    stealer.join().unwrap();
    holder.into_iter().for_each(|holder| holder.join().unwrap());
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn withdrawn_threads_run_once() {
    check(|| withdrawn_while_found(1));
    check(|| withdrawn_while_found(2));
}

/// INV-STEAL: two callers demand a thread, one of them with its token. One becomes the runner; the
/// token or the demand of the other is dead.
fn withdrawn_while_demanded() {
    let to = To::new(State::new_host(), 0);
    let life = Arc::clone(&to.frame().life);
    to.frame().state.retain();
    let give_up = move || {
        if to.frame().state.release() {
            to.free();
        }
    };
    let other = thread::spawn(move || {
        if to.frame().state.demand(true) == Demanded::Stolen {
            assert!(!to.poll(|_| ()), "it is complete");
        }
        give_up();
    });
    if to.frame().state.steal_with_token(true) {
        assert!(!to.poll(|_| ()), "it is complete");
    } else {
        // The token is queued again, and found.
        to.run_on();
    }
    give_up();
    other.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

/// INV-SEIZE: a thread is demanded with its token, while the machine ends and another OS thread
/// revokes it.
fn withdrawn_while_seized() {
    let to = To::new(State::new_host(), 0);
    let life = Arc::clone(&to.frame().life);
    let seizer = thread::spawn(move || {
        if to.frame().state.revoke_thread(true) {
            to.end();
        }
    });
    if to.frame().state.steal_with_token(false) {
        assert!(!to.poll(|_| ()), "it is complete");
    } else {
        to.run_on();
    }
    if to.frame().state.release() {
        to.free();
    }
    seizer.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn threads_that_are_withdrawn_and_seized_end_once() {
    check(withdrawn_while_seized);
}

#[test]
fn threads_that_are_withdrawn_and_demanded_run_once() {
    check(withdrawn_while_demanded);
}

#[test]
fn withdrawals_must_see_the_uses_end() {
    needs("state_withdraw", Relaxed, || withdrawn_while_found(2));
}

/// INV-STEAL of a delayed thread: two callers demand its value, and one of them runs it. It is
/// freed after both are gone. If `told` is 0 nobody demands it, and it never runs.
fn demanded_by_two(demands: bool) {
    let to = To::new(State::new_delayed(), 0);
    let life = Arc::clone(&to.frame().life);
    to.frame().state.retain();
    let demand = move || {
        if demands && to.frame().state.demand(true) == Demanded::Stolen {
            assert!(!to.poll(|_| ()), "it is complete");
        }
        if to.frame().state.release() {
            to.free();
        }
    };
    let other = thread::spawn(demand);
    demand();
    other.join().unwrap();
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn delayed_threads_run_once() {
    check(|| demanded_by_two(true));
}

#[test]
fn delayed_threads_that_nobody_wants_are_freed() {
    check(|| demanded_by_two(false));
}

/// INV-STEAL, INV-FREE: a shutdown claims a delayed thread while its last handles are dropped. One
/// of them ends it. (Its memory stays meanwhile.)
fn claimed_while_nobody_wants_it(handles: usize) {
    let to = To::new(State::new_delayed(), 0);
    let drop_frame = move || {
        to.frame().polls.set(to.frame().polls.get() + 1);
        to.frame().state.clear();
    };
    let release = move || {
        to.frame().shared.get();
        match to.frame().state.release() {
            true if to.frame().state.left() == Left::Future => drop_frame(),
            true => to.frame().state.clear(),
            false => (),
        }
    };
    (1..handles).for_each(|_| to.frame().state.retain());
    let holders: Vec<_> = (0..handles).map(|_| thread::spawn(release)).collect();
    if to.frame().state.claim(true) {
        assert_eq!(to.frame().state.begin(), Begun::Run);
        to.frame().polls.set(to.frame().polls.get() + 1);
        match to.frame().state.complete(0) {
            Completed::Free => to.frame().state.clear(),
            Completed::Kept => (),
            other => unreachable!("nobody joins: {other:?}"),
        }
    }
    holders.into_iter().for_each(|holder| holder.join().unwrap());
    assert_eq!(to.frame().polls.get(), 1, "INV-STEAL: it ends once");
    assert!(!to.frame().state.in_use(), "INV-FREE: it is freed");
    to.frame().shared.set(1);
    to.free();
}

#[test]
fn delayed_threads_end_once_in_a_shutdown() {
    check(|| claimed_while_nobody_wants_it(1));
    check(|| claimed_while_nobody_wants_it(2));
}

/// INV-FREE without a read-modify-write: a parasite lends a waker. Another thread clones it, looks
/// at the frame through the clone, and returns the lent one. Once the word says that nobody else is
/// left, the frame is recycled.
fn recycled_in_place() {
    let to = To::new(State::new_parasite(), 0);
    let back = Arc::new(crate::sync::Lock::new(false));
    let frame = to.frame();
    frame.local_refs.set(1);
    let other = {
        let back = Arc::clone(&back);
        thread::spawn(move || {
            // The clone is used while the lent waker is held.
            to.frame().state.retain();
            *back.lock() = true;
            to.frame().shared.get();
            if to.frame().state.release() {
                to.free();
            }
        })
    };
    if *back.lock() {
        frame.local_refs.set(0);
    }
    if frame.state.is_private() && frame.local_refs.get() == 0 {
        to.free();
    } else {
        // The slow path frees it: see the other models.
        other.join().unwrap();
        return to.free();
    }
    other.join().unwrap();
}

#[test]
fn frames_are_recycled_after_every_use() {
    check(recycled_in_place);
}

#[test]
fn private_acquire_is_needed() {
    needs("state_private", Relaxed, recycled_in_place);
}

/// An observer that finds a thread determined sees the thread's writes.
fn determined() {
    let to = To::new(State::new_host(), 0);
    let runner = thread::spawn(move || {
        assert_eq!(to.frame().state.begin(), Begun::Run);
        to.frame().shared.set(7);
        assert_eq!(to.frame().state.complete(0), Completed::Kept);
    });
    while !to.frame().state.is_complete() {
        thread::yield_now();
    }
    assert_eq!(to.frame().shared.get(), 7);
    assert!(to.frame().state.take_result() && !to.frame().state.take_result());
    runner.join().unwrap();
    assert!(to.frame().state.release());
    to.free();
}

#[test]
fn determined_threads_have_results() {
    check(determined);
}

#[test]
fn observe_acquire_is_needed() {
    needs("state_observe", Relaxed, determined);
}

/// INV-LENT: one caller looks at a result, and another one wants to take it. Each has a reference. The result is not
/// taken while it is looked at, and the last of the two may take it in any case.
fn lent_while_taken(delayed: bool) {
    let state = if delayed { State::new_delayed() } else { State::new_host() };
    let to = To::new(state, 0);
    let life = Arc::clone(&to.frame().life);
    to.frame().state.share();
    let look = move || {
        if delayed && to.frame().state.steal_to_lend() {
            assert!(!to.poll(|_| ()), "it is complete");
        }
        while !to.frame().state.is_complete() {
            thread::yield_now();
        }
        let is_lent = to.frame().state.lend();
        if is_lent {
            to.frame().shared.get();
        }
        if to.frame().state.release() {
            to.free();
        }
        is_lent
    };
    let toucher = thread::spawn(look);
    let mut is_taken = false;
    if delayed {
        assert!(look(), "nobody takes it");
    } else {
        assert!(!to.poll(|_| ()), "it is complete");
        is_taken = to.frame().state.take_result();
        if is_taken {
            to.frame().shared.set(1);
        }
        if to.frame().state.release() {
            to.free();
        }
    }
    let is_lent = toucher.join().unwrap();
    assert!(is_lent || is_taken, "INV-LENT: nobody has it");
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE");
}

#[test]
fn lent_results_stay_where_they_are() {
    check(|| lent_while_taken(false));
    check(|| lent_while_taken(true));
}

#[test]
fn last_acquire_is_needed_to_take_a_lent_result() {
    needs("state_last", Relaxed, || lent_while_taken(false));
}

/// The state that a joiner and the thread share, as `Thread` and `HostFrame` do.
struct Joined {
    state: State,
    joiners: WaitQueue,
    result: Cell<u32>,
    /// A write of the thread before its end.
    deed: Cell<u32>,
}

// SAFETY: the state word says who may access each field, and loom checks it.
unsafe impl Sync for Joined {}
// SAFETY: no field is bound to an OS thread; loom checks the accesses.
unsafe impl Send for Joined {}

impl Joined {
    /// Runs and completes the thread, as `run::complete` does.
    fn complete(&self) {
        assert_eq!(self.state.begin(), Begun::Run);
        self.deed.set(1);
        self.result.set(7);
        match self.state.complete(0) {
            Completed::Free => unreachable!("there are handles"),
            Completed::Requested => unreachable!("nothing is asked"),
            Completed::Kept => (),
            Completed::Awaited => {
                self.joiners.complete();
                let _ = self.state.release();
            }
        }
    }

    fn take(&self) -> bool {
        assert_eq!(self.deed.get(), 1, "who sees the end sees what came before");
        let won = self.state.take_result();
        if won {
            assert_eq!(self.result.replace(0), 7);
        }
        won
    }

    fn run(joined: &Arc<Self>) -> thread::JoinHandle<()> {
        let joined = Arc::clone(joined);
        thread::spawn(move || joined.complete())
    }

    /// Joins as a single synchronization on `JoinBranch`. True: it took the result.
    fn join(&self) -> bool {
        let (group, offer) = (Group::new(), Offer::new());
        let at = Offering {
            group: &group,
            leaf: 0,
            single: true,
            waker: group.open(Waker::noop()),
            task: None,
            kept: None,
        };
        // SAFETY: the group and the offer do not move, and the offer is unlinked before it is
        // freed.
        match unsafe { self.joiners.offer(&offer, &at, || !self.state.await_completion()) } {
            Offered::Linked => {
                // If the completion were lost, this loop would not end.
                while group.outcome().is_none() {
                    thread::yield_now();
                }
            }
            offered => assert_eq!(offered, Offered::Committed),
        }
        self.joiners.retract(&offer, true);
        self.take()
    }
}

fn joined() -> Arc<Joined> {
    Arc::new(Joined {
        state: State::new_host(),
        joiners: Completion::new(),
        result: Cell::new(0),
        deed: Cell::new(0),
    })
}

/// The announcement of a joiner and the completion meet under the queue's lock: the joiner is told,
/// sees the result, and takes it. A later joiner does not get it.
fn joined_twice() {
    let joined = joined();
    let runner = Joined::run(&joined);
    assert!(joined.join());
    assert!(!joined.join(), "it has been taken");
    runner.join().unwrap();
    assert!(joined.state.release(), "INV-FREE");
}

#[test]
fn joiners_are_told_and_the_first_takes_the_result() {
    check(joined_twice);
}

#[test]
fn joins_need_to_observe() {
    needs("state_observe", Relaxed, joined_twice);
}

#[test]
fn joins_need_to_see_the_publication() {
    needs("group_observe", Relaxed, joined_twice);
}

/// The remains of an arena after its owner leaves: the return list, the count of missing frames,
/// and the slabs, which the last one frees.
struct Orphan {
    returns: Stack<Frame>,
    missing: Missing,
    slabs: Cell<u32>,
}

/// INV-HOME: two frames return while the owner leaves. Exactly one of the three is told that it is
/// the last, and frees the slabs after every use.
fn orphaned() {
    let arena = Arc::new(Orphan { returns: Stack::new(), missing: Missing::new(), slabs: Cell::new(0) });
    let frames = [(); 2].map(|()| {
        let arena = Arc::clone(&arena);
        thread::spawn(move || {
            let to = To::new(State::new_host(), 0);
            // This is a use of the slab that the frame lies in.
            arena.slabs.get();
            // SAFETY: the frame belongs to this OS thread until it is pushed.
            let closed = unsafe { arena.returns.push(to.0) }.is_err();
            let last = closed && arena.missing.come_home();
            if last {
                arena.slabs.set(1);
            }
            if closed {
                to.free();
            }
            last
        })
    });
    let at_home = arena.returns.close().map(|frame| To(frame).free()).count();
    let mut last = u32::from(arena.missing.leave(2 - at_home as isize));
    if last == 1 {
        arena.slabs.set(1);
    }
    for frame in frames {
        last += u32::from(frame.join().unwrap());
    }
    assert_eq!(last, 1, "INV-HOME");
}

#[test]
fn orphaned_arenas_are_freed_once() {
    check(orphaned);
}

#[test]
fn missing_must_release() {
    needs("frame_missing", Acquire, orphaned);
}

#[test]
fn missing_must_acquire() {
    needs("frame_missing", Release, orphaned);
}
