//! Loom models of requests: the table of pending requests and the state word, on a small frame. How
//! to run them: see `sync/models.rs`.

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use crate::frame::state::{Begun, Completed, Ended, State, Woken};
use crate::sched::pending_requests::{Ask, Pending, PendingRequestTable, Rank, Step, Why, refuse};
use crate::sync::Cell;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::sync::models::{check, check_wide, needs};

/// A thread that completes when it has been told something.
struct Target {
    state: State,
    pending_requests: PendingRequestTable,
    /// The number of polls, under the runner's control.
    polls: Cell<u32>,
    told: AtomicU32,
    /// True if a request has ended it.
    terminated: AtomicU32,
    life: Arc<()>,
}

#[derive(Clone, Copy)]
struct To(NonNull<Target>);

// SAFETY: the models check that each use of the frame is allowed.
unsafe impl Send for To {}

/// The outcome of requests.
#[derive(Clone)]
struct Answers {
    granted: Arc<AtomicU32>,
    refused: Arc<AtomicU32>,
    lost: Arc<AtomicU32>,
}

struct Counted {
    answers: Answers,
    /// Written by the requester, and last by the answerer.
    contents: Cell<u32>,
    answered: bool,
}

// SAFETY: one OS thread at a time has the request; the models check this.
unsafe impl Send for Counted {}

impl Ask for Counted {
    fn value(&mut self) -> Option<NonNull<()>> {
        None
    }

    fn grant(mut self: Box<Self>) {
        self.contents.set(1);
        self.answered = true;
        self.answers.granted.fetch_add(1, Relaxed);
    }

    fn refuse(mut self: Box<Self>, _: Why) {
        self.contents.set(2);
        self.answered = true;
        self.answers.refused.fetch_add(1, Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.answered && !std::thread::panicking() {
            self.answers.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Answers {
    fn new() -> Self {
        let zero = || Arc::new(AtomicU32::new(0));
        Self { granted: zero(), refused: zero(), lost: zero() }
    }

    /// INV-ANSWER.
    fn are(&self, count: u32) {
        let (granted, refused) = (self.granted.load(Relaxed), self.refused.load(Relaxed));
        assert_eq!(self.lost.load(Relaxed), 0, "INV-ANSWER: one was dropped");
        assert_eq!(granted + refused, count, "INV-ANSWER: {granted} granted, {refused} refused");
    }
}

impl To {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(Box::new(Target {
            state: State::new_host(),
            pending_requests: PendingRequestTable::new(),
            polls: Cell::new(0),
            told: AtomicU32::new(0),
            terminated: AtomicU32::new(0),
            life: Arc::new(()),
        }))))
    }

    fn target(&self) -> &Target {
        // SAFETY: the model's claim is that it is alive.
        unsafe { self.0.as_ref() }
    }

    fn free(self) {
        // SAFETY: made in `new`; the model's claim is that nobody else uses it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    fn release(self) {
        if self.target().state.release() {
            self.free();
        }
    }

    /// Completes the thread, as `run::complete` does.
    fn complete(self) {
        loop {
            match self.target().state.complete(0) {
                Completed::Requested => {
                    let (refused, _) = self.target().pending_requests.close(&self.target().state);
                    refuse(refused);
                }
                Completed::Free => return self.free(),
                Completed::Kept => return,
                Completed::Awaited => unreachable!("nobody joins"),
            }
        }
    }

    /// Runs the thread, as `run::run` and `apply` do, until the caller has no token of it.
    fn run_on(self) {
        loop {
            let target = self.target();
            let goes_on = match target.state.begin() {
                Begun::Run => true,
                Begun::Requested => loop {
                    match target.pending_requests.step(&target.state) {
                        Step::Run => break true,
                        Step::Grant(request) => request.ask.grant(),
                        Step::Terminate(request) => {
                            target.terminated.store(1, Relaxed);
                            target.polls.set(u32::MAX);
                            self.complete();
                            return request.ask.grant();
                        }
                        Step::Stay => break false,
                        Step::Poll(_) => unreachable!("nothing is waited for"),
                    }
                },
                Begun::Stale | Begun::Free => unreachable!("nobody steals"),
            };
            if goes_on {
                // INV-RUN: loom reports two runners.
                target.polls.set(target.polls.get() + 1);
                if target.told.load(Relaxed) == 1 {
                    return self.complete();
                }
            }
            if target.state.end(0) == Ended::Idle {
                return;
            }
        }
    }

    fn wake(self) {
        match self.target().state.wake(false) {
            Woken::Token => self.run_on(),
            Woken::Already => (),
            Woken::Free => unreachable!("a reference is there"),
        }
    }

    fn tell(self) {
        self.target().told.fetch_add(1, Relaxed);
        self.wake();
    }

    fn ask(self, rank: Rank, answers: &Answers) {
        let ask = Counted { answers: answers.clone(), contents: Cell::new(0), answered: false };
        ask.contents.set(3);
        let request = Pending { rank, hold: None, ask: Box::new(ask) };
        let (is_news, refused) = self.target().pending_requests.ask(&self.target().state, request);
        if is_news {
            self.wake();
        }
        refuse(refused);
    }

    fn resume(self) -> bool {
        let (any, refused, _) = self.target().pending_requests.resume(&self.target().state);
        if any {
            self.wake();
        }
        refuse(refused);
        any
    }
}

/// A thread is asked to end while it runs, and while another OS thread lets it end by itself. It
/// ends once, and the request is answered.
fn terminated_while_it_ends() {
    let (to, answers) = (To::new(), Answers::new());
    let life = Arc::clone(&to.target().life);
    to.target().state.retain();
    let others = [true, false].map(|asks| {
        let answers = answers.clone();
        thread::spawn(move || {
            if asks {
                to.ask(Rank::Terminate, &answers)
            } else {
                to.tell()
            }
            to.release();
        })
    });
    to.run_on();
    for other in others {
        other.join().unwrap();
    }
    answers.are(1);
    assert_eq!(Arc::strong_count(&life), 1, "INV-TAKEN, INV-FREE: it is complete and gone");
}

#[test]
fn terminations_are_answered() {
    check(terminated_while_it_ends);
}

#[test]
fn begin_must_see_who_asked() {
    needs("lock_acquire", Relaxed, terminated_while_it_ends);
}

#[test]
fn whoever_asked_must_publish_it() {
    needs("lock_release", Relaxed, terminated_while_it_ends);
}

#[test]
fn completion_sees_the_uses_of_requesters() {
    needs("state_release", Acquire, terminated_while_it_ends);
}

/// A thread is suspended and resumed, while another OS thread tells it what it waits for. It goes
/// on.
fn suspended_and_resumed() {
    let (to, answers) = (To::new(), Answers::new());
    let life = Arc::clone(&to.target().life);
    to.target().state.retain();
    let others = [true, false].map(|asks| {
        let answers = answers.clone();
        thread::spawn(move || {
            if asks {
                to.ask(Rank::Suspend, &answers);
                to.resume();
            } else {
                to.tell();
            }
            to.release();
        })
    });
    to.run_on();
    for other in others {
        other.join().unwrap();
    }
    answers.are(1);
    assert_eq!(Arc::strong_count(&life), 1, "INV-WAKE: it was told, and resumed, and is gone");
}

#[test]
fn resumed_threads_go_on() {
    check(suspended_and_resumed);
}

/// Two requests race. Both are answered, and the stronger one is granted.
fn suspended_and_terminated() {
    let (to, suspensions, ends) = (To::new(), Answers::new(), Answers::new());
    let life = Arc::clone(&to.target().life);
    to.target().state.retain();
    let others = [Rank::Suspend, Rank::Terminate].map(|rank| {
        let answers = if rank == Rank::Suspend { suspensions.clone() } else { ends.clone() };
        thread::spawn(move || {
            to.ask(rank, &answers);
            to.release();
        })
    });
    to.run_on();
    for other in others {
        other.join().unwrap();
    }
    suspensions.are(1);
    ends.are(1);
    assert_eq!(ends.granted.load(Relaxed), 1, "INV-ORDER: nothing is stronger");
    assert_eq!(Arc::strong_count(&life), 1, "INV-FREE: it is complete and gone");
}

#[test]
fn terminations_overrule_suspensions() {
    check_wide(suspended_and_terminated);
}

/// A suspended thread does not go on before its resumption, even if it is woken.
#[test]
fn suspended_threads_stay() {
    check(|| {
        let (to, answers) = (To::new(), Answers::new());
        let life = Arc::clone(&to.target().life);
        to.ask(Rank::Suspend, &answers);
        to.target().state.retain();
        let teller = thread::spawn(move || {
            to.tell();
            to.release();
        });
        to.run_on();
        teller.join().unwrap();
        answers.are(1);
        assert_eq!(to.target().polls.get(), 0, "it was suspended before it began");
        assert!(to.resume());
        to.release();
        assert_eq!(Arc::strong_count(&life), 1);
    });
}
