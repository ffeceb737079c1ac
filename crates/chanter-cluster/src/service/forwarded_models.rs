//! Loom models of INV-FORWARDED (see `raw.rs`): calls that are forwarded, while holders die. The models fail if any
//! rule is left out. Run them with `ci/loom forwarded`.

use std::panic::{UnwindSafe, catch_unwind};

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::forwarded::{Heard, Pending, Place, Rules};
use crate::engine::ProcessId;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// Asserts that the model fails without a rule.
fn needs(rule: &str, model: impl Fn() + Sync + Send + UnwindSafe + 'static) {
    assert!(catch_unwind(|| check(model)).is_err(), "the model does not need the rule: {rule}");
}

const ALL: Rules = Rules { counts: true, looks: true };
const REQUEST: u64 = 1;
const B: ProcessId = ProcessId(1);
const C: ProcessId = ProcessId(2);
const D: ProcessId = ProcessId(3);

/// The way in which a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered(ProcessId),
    Lost(ProcessId),
}

/// The caller's process, as in `caller.rs`: the calls behind one lock, and the state of each process behind another.
struct Caller {
    calls: Mutex<Pending<()>>,
    down: [Mutex<bool>; 4],
    ends: Mutex<Vec<End>>,
    /// Whether rule 3 holds: a call that has ended is not pending any more.
    ends_once: bool,
}

impl Caller {
    /// A caller that has asked B.
    fn new(rules: Rules, ends_once: bool) -> Arc<Self> {
        let mut calls = Pending::default();
        calls.rules = rules;
        calls.insert(REQUEST, B, true, ());
        Arc::new(Self {
            calls: Mutex::new(calls),
            down: std::array::from_fn(|_| Mutex::new(false)),
            ends: Mutex::new(Vec::new()),
            ends_once,
        })
    }

    fn end(&self, calls: &mut Pending<()>) -> bool {
        let found = calls.get_mut(REQUEST).is_some();
        if self.ends_once { calls.end(REQUEST).is_some() } else { found }
    }

    /// `Node::answered`.
    fn answered(&self, by: ProcessId, forwarded: u32) {
        let ended = {
            let mut calls = self.calls.lock().unwrap();
            calls.may_answer(REQUEST, by, forwarded) && self.end(&mut calls)
        };
        if ended {
            self.ends.lock().unwrap().push(End::Answered(by));
        }
    }

    /// `Node::moved`.
    fn moved(&self, to: ProcessId, forwarded: u32) {
        let heard = self.calls.lock().unwrap().hear(REQUEST, to, forwarded);
        if heard == Heard::Look && *self.down[to.0 as usize].lock().unwrap() {
            self.lose_calls(to);
        }
    }

    /// `Node::lose_calls`.
    fn lose_calls(&self, peer: ProcessId) {
        let ended = {
            let mut calls = self.calls.lock().unwrap();
            calls.of(peer).contains(&REQUEST) && self.end(&mut calls)
        };
        if ended {
            self.ends.lock().unwrap().push(End::Lost(peer));
        }
    }

    /// A process goes: this is noted first, and then its calls are ended.
    fn goes(&self, peer: ProcessId) {
        *self.down[peer.0 as usize].lock().unwrap() = true;
        self.lose_calls(peer);
    }

    /// Asserts that the call has ended once, and returns its end.
    fn assert_ended(&self) -> End {
        let ends = self.ends.lock().unwrap();
        assert_eq!(ends.len(), 1, "INV-FORWARDED: the call has ended so: {ends:?}");
        ends[0]
    }
}

/// B forwards the call to C, which goes, while the caller hears of both.
fn holder_goes(rules: Rules) {
    let caller = Caller::new(rules, true);
    let hears = {
        let caller = Arc::clone(&caller);
        thread::spawn(move || caller.moved(C, 1))
    };
    caller.goes(C);
    hears.join().unwrap();
    assert_eq!(caller.assert_ended(), End::Lost(C));
}

#[test]
fn models_handed_ends_when_its_holder_goes() {
    check(|| holder_goes(ALL));
}

#[test]
fn models_handed_needs_a_look_whether_the_later_one_has_gone() {
    needs("looks", || holder_goes(Rules { looks: false, ..ALL }));
}

/// B forwards the call to C, and C to D, which goes. The caller hears of each from a different process, in any order.
fn later_holder_goes(rules: Rules) {
    let caller = Caller::new(rules, true);
    let hears = [(C, 1), (D, 2)].map(|(to, forwarded)| {
        let caller = Arc::clone(&caller);
        thread::spawn(move || caller.moved(to, forwarded))
    });
    caller.goes(D);
    for hears in hears {
        hears.join().unwrap();
    }
    assert_eq!(caller.assert_ended(), End::Lost(D));
}

#[test]
fn models_handed_keeps_the_last_holder() {
    check(|| later_holder_goes(ALL));
}

#[test]
fn models_handed_needs_the_count_of_hops() {
    needs("counts", || later_holder_goes(Rules { counts: false, ..ALL }));
}

/// B forwards the call to C, which has no room and gives it back. B goes after it has told of C. With `tells`, C
/// tells that B has the call again (4).
fn middle_goes(rules: Rules, tells: bool) {
    let caller = Caller::new(rules, true);
    let heard = [Some((C, 1)), tells.then_some((B, 2))];
    let hears = heard.map(|heard| {
        let caller = Arc::clone(&caller);
        thread::spawn(move || heard.into_iter().for_each(|(to, forwarded)| caller.moved(to, forwarded)))
    });
    caller.goes(B);
    for hears in hears {
        hears.join().unwrap();
    }
    assert_eq!(caller.assert_ended(), End::Lost(B));
}

#[test]
fn models_handed_ends_when_who_has_it_again_goes() {
    check(|| middle_goes(ALL, true));
}

#[test]
fn models_handed_needs_that_who_gives_it_back_tells() {
    needs("tells", || middle_goes(ALL, false));
}

#[test]
fn models_handed_needs_that_coming_back_is_a_hop() {
    needs("counts", || middle_goes(Rules { counts: false, ..ALL }, true));
}

/// C answers, and goes. Its answer may arrive before the caller hears that C has the call. (B's message comes by
/// another connection.)
fn answers_and_goes(ends_once: bool) {
    let caller = Caller::new(ALL, ends_once);
    let hears = {
        let caller = Arc::clone(&caller);
        thread::spawn(move || caller.moved(C, 1))
    };
    let goes = {
        let caller = Arc::clone(&caller);
        thread::spawn(move || caller.goes(C))
    };
    caller.answered(C, 1);
    hears.join().unwrap();
    goes.join().unwrap();
    caller.assert_ended();
}

#[test]
fn models_handed_ends_once() {
    check(|| answers_and_goes(true));
}

#[test]
fn models_handed_needs_that_what_has_ended_is_not_pending() {
    needs("ends once", || answers_and_goes(false));
}

/// The runner of a request answers while its handler forwards it. One of them does it (1), and the other sees that it
/// is done.
fn answered_or_handed_on(gives: bool) {
    let duty = Arc::new(Place::new(REQUEST));
    let get = move |duty: &Place<u64>| if gives { duty.take() } else { *duty.lock() };
    let hands_on = {
        let duty = Arc::clone(&duty);
        thread::spawn(move || get(&duty).is_some())
    };
    let answers = get(&duty).is_some();
    assert_eq!(
        usize::from(answers) + usize::from(hands_on.join().unwrap()),
        1,
        "INV-FORWARDED: one has the request"
    );
}

#[test]
fn models_handed_has_one_holder() {
    check(|| answered_or_handed_on(true));
}

#[test]
fn models_handed_needs_that_the_duty_is_given_away() {
    needs("gives", || answered_or_handed_on(false));
}

/// A duty that could not be forwarded is answered by its holder, and is not lost.
#[test]
fn models_handed_is_not_lost_if_it_cannot_be_handed_on() {
    check(|| {
        let duty = Arc::new(Place::new(REQUEST));
        let hands_on = {
            let duty = Arc::clone(&duty);
            thread::spawn(move || {
                if let Some(owed) = duty.take() {
                    duty.put_back(owed);
                }
            })
        };
        let answered = duty.take().is_some();
        hands_on.join().unwrap();
        assert!(answered || duty.take().is_some(), "INV-FORWARDED: nobody has the request");
    });
}
