//! Loom models of the baton. How to run them: see `sync/models.rs`.

use loom::sync::Arc;
use loom::thread;
use loom::thread::JoinHandle;

use super::baton::{Baton, Carrier};
use crate::sync::blocking::{Condvar, Mutex};
use crate::sync::models::check;
use crate::sync::{Cell, Lock};

#[derive(Clone, Copy, PartialEq)]
enum State {
    Ready,
    Runs,
    /// It has had its shift.
    Done,
}

/// A physical processor: members that have one shift each, and a place that the holder alone touches.
struct Physical {
    baton: Baton,
    /// The state of each member, and the carrier to which it is bound; 0: none.
    members: Lock<[(State, Carrier); 2]>,
    /// Touched by the member's shift: loom checks that one carrier at a time does that.
    touched: [Cell<u32>; 2],
    /// Touched by the holder: loom checks that one carrier at a time does that.
    policy: Cell<u32>,
    is_notified: Mutex<bool>,
    notification: Condvar,
    carriers: Mutex<Vec<JoinHandle<()>>>,
}

// SAFETY: INV-BATON and INV-CARRIED, which the models check.
unsafe impl Sync for Physical {}
// SAFETY: INV-BATON and INV-CARRIED, which the models check.
unsafe impl Send for Physical {}

impl Physical {
    /// The second member is bound to the carrier `bound`.
    fn new(bound: Carrier) -> Arc<Self> {
        Arc::new(Self {
            baton: Baton::new(),
            members: Lock::new([(State::Ready, 0), (State::Ready, bound)]),
            touched: [Cell::new(0), Cell::new(0)],
            policy: Cell::new(0),
            is_notified: Mutex::new(false),
            notification: Condvar::new(),
            carriers: Mutex::new(Vec::new()),
        })
    }

    fn start(physical: &Arc<Self>, carrier: Carrier) -> bool {
        let theirs = Arc::clone(physical);
        physical.carriers.lock().unwrap().push(thread::spawn(move || theirs.carry(carrier)));
        true
    }

    /// As the real one.
    fn carry(&self, me: Carrier) {
        while self.baton.rest(me, None, || self.notify()) {
            loop {
                self.policy.set(self.policy.get() + 1);
                if let Some((member, _)) = self.baton.assigned() {
                    if self.run(me, member as usize - 1) { continue } else { break }
                }
                let members = *self.members.lock();
                if members.iter().all(|(state, _)| *state == State::Done) {
                    return self.baton.finish();
                }
                let may_run = |at: &usize| {
                    let (state, bound) = members[*at];
                    state == State::Ready && (bound == 0 || bound == me || self.baton.is_resting(bound))
                };
                let Some(at) = (0..2).find(may_run) else {
                    self.poll();
                    continue;
                };
                let bound = members[at].1;
                if bound != 0 && bound != me {
                    if self.baton.pass(bound, at as u64 + 1, std::time::Duration::ZERO) {
                        break;
                    } else {
                        continue;
                    }
                }
                if !self.run(me, at) {
                    break;
                }
            }
        }
    }

    fn run(&self, me: Carrier, at: usize) -> bool {
        let before = std::mem::replace(&mut self.members.lock()[at].0, State::Runs);
        assert!(before == State::Ready, "INV-CARRIED");
        self.baton.begin(me, at as u64 + 1);
        self.touched[at].set(self.touched[at].get() + 1);
        self.members.lock()[at].0 = State::Done;
        self.baton.end(me)
    }

    fn notify(&self) {
        *self.is_notified.lock().unwrap() = true;
        self.notification.notify_one();
    }

    fn poll(&self) {
        let mut is_notified = self.is_notified.lock().unwrap();
        while !*is_notified {
            is_notified = self.notification.wait(is_notified).unwrap();
        }
        *is_notified = false;
    }

    /// Waits for all carriers; each member has had one shift.
    fn join(&self) {
        loop {
            let Some(carrier) = self.carriers.lock().unwrap().pop() else { break };
            carrier.join().unwrap();
        }
        assert_eq!([self.touched[0].get(), self.touched[1].get()], [1, 1]);
    }
}

/// One carrier runs both members; the second member is bound to `bound`. The baton is taken from it while it runs the first
/// one, in some executions, which this counts.
fn taken(bound: Carrier) {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&count);
    check(move || {
        let physical = Physical::new(bound);
        Physical::start(&physical, 1);
        let is_taken = physical.baton.take(1, |carrier| Physical::start(&physical, carrier));
        counted.fetch_add(usize::from(is_taken), std::sync::atomic::Ordering::Relaxed);
        physical.join();
    });
    assert!(count.load(std::sync::atomic::Ordering::Relaxed) > 0, "it was never taken");
}

/// A new carrier goes on with the other member: INV-BATON, INV-CARRIED.
#[test]
fn the_baton_is_taken_from_a_stuck_carrier() {
    taken(0);
}

/// The second member is bound to the carrier that is stuck. The new carrier waits until that one rests, and gives the baton
/// back.
#[test]
fn a_bound_member_waits_for_its_carrier() {
    taken(1);
}
