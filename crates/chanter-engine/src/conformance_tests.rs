//! Tests of the kit: engines that break one promise each, and the check that finds it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::conformance::*;
use crate::engine::{
    Caps, Change, Engine, Full, Idle, Lane, Leave, NodeId, Notifier, Polled, ProcessId, Sink, Why,
};
use crate::local::Local;
use crate::wire::Body;

/// A fault of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    IsEverybody,
    Eager,
    Alters,
    Reorders,
    Doubles,
    Loses,
    IgnoresBudget,
    SaysNothing,
    NeverFull,
    AltersRefused,
    OneQueue,
    SilentAfterFull,
    Deaf,
    HidesWork,
    Restless,
    LeavesEarly,
    NeverEnds,
    RingsOnce,
    SpeaksFromTheGrave,
    Overtakes,
}

/// A [`Local`] with a fault.
struct Faulty {
    fault: Fault,
    local: Local,
    count: AtomicU32,
    kept: Mutex<Option<(ProcessId, Lane, Body)>>,
}

impl Faulty {
    fn kill(&self) {
        self.local.kill();
    }
}

impl Engine for Faulty {
    fn me(&self) -> ProcessId {
        if self.fault == Fault::IsEverybody { ProcessId(0) } else { self.local.me() }
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.local.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        let eager = if self.fault == Fault::Eager { 1000 } else { u32::MAX };
        Caps { eager, ..self.local.caps(to) }
    }

    fn has_ended(&self) -> bool {
        match self.fault {
            Fault::NeverEnds => false,
            _ => self.local.has_ended(),
        }
    }

    fn attach(&self, notifier: Notifier) {
        match self.fault {
            Fault::Deaf => {}
            Fault::RingsOnce => {
                let last = std::sync::Arc::new(AtomicU32::new(0));
                // Notifies once.
                self.local.attach(Notifier::new(move || {
                    if last.fetch_add(1, Ordering::Relaxed) == 0 {
                        notifier.notify();
                    }
                }));
            }
            _ => self.local.attach(notifier),
        }
    }

    fn try_send(&self, to: ProcessId, lane: Lane, mut body: Body) -> Result<(), Full> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let lane = if self.fault == Fault::OneQueue { Lane::User } else { lane };
        match self.fault {
            Fault::Alters if number == 5 => body.extend_from_slice(&[0]),
            Fault::Loses if number == 5 => return Ok(()),
            Fault::Doubles if number == 5 => self.local.try_send(to, lane, body.clone())?,
            Fault::Reorders => {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                match kept.take() {
                    None if number == 5 => {
                        *kept = Some((to, lane, body));
                        return Ok(());
                    }
                    None => {}
                    Some((to, lane, first)) => {
                        self.local.try_send(to, lane, body)?;
                        return self.local.try_send(to, lane, first);
                    }
                }
            }
            _ => {}
        }
        match self.local.try_send(to, lane, body) {
            Err(_) if self.fault == Fault::NeverFull => Ok(()),
            Err(Full { body }) if self.fault == Fault::AltersRefused => {
                Err(Full { body: Body::copied_from(&body[1..]) })
            }
            // A process that was not refused is not notified.
            Err(Full { body }) if self.fault == Fault::SilentAfterFull => {
                self.local.forget_refused(to);
                Err(Full { body })
            }
            other => other,
        }
    }

    fn has_work(&self) -> bool {
        self.fault != Fault::HidesWork && self.local.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        match self.fault {
            Fault::IgnoresBudget => self.local.poll(budget.saturating_add(1), sink),
            Fault::SaysNothing => {
                self.local.poll(budget, sink);
                Polled::Nothing
            }
            Fault::SpeaksFromTheGrave => self.local.poll(budget, &mut Hasty { sink }),
            Fault::Overtakes => {
                // As if several pollers got in, and one had overtaken the other.
                let mut later = Later { sink, frames: Vec::new() };
                let polled = self.local.poll(budget.min(2), &mut later);
                later.finish();
                polled
            }
            _ => self.local.poll(budget, sink),
        }
    }

    fn park(&self) -> Idle {
        match self.fault {
            Fault::Restless => Idle::Work,
            Fault::HidesWork => Idle::Notified,
            _ => self.local.park(),
        }
    }

    fn unpark(&self) {
        self.local.unpark();
    }

    fn leave(&self, how: Leave) {
        if self.fault == Fault::LeavesEarly {
            // No peer hears of it.
            return;
        }
        self.local.leave(how);
    }
}

/// A sink that reports each frame's sender gone before the frame.
struct Hasty<'a> {
    sink: &'a mut dyn Sink,
}

impl Sink for Hasty<'_> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.sink.peer(from, Change::Down(Why::Died));
        self.sink.arrived(from, lane, frame);
    }

    fn peer(&mut self, _peer: ProcessId, _change: Change) {}
}

/// A sink that hands frames over in the wrong order.
struct Later<'a> {
    sink: &'a mut dyn Sink,
    frames: Vec<(ProcessId, Lane, Body)>,
}

impl Later<'_> {
    fn finish(self) {
        for (from, lane, frame) in self.frames.into_iter().rev() {
            self.sink.arrived(from, lane, frame);
        }
    }
}

impl Sink for Later<'_> {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.frames.push((from, lane, frame));
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.sink.peer(peer, change);
    }
}

fn kit(fault: Fault, patience: Duration) -> Kit<Faulty, impl AsyncFn(u32) -> Vec<Faulty>> {
    let with_fault = move |local| Faulty { fault, local, count: AtomicU32::new(0), kept: Mutex::new(None) };
    let make = async move |count| Local::cluster(count).into_iter().map(with_fault).collect();
    Kit::new(make).killed_by(Faulty::kill).patience(patience)
}

#[chanter::test]
async fn an_engine_without_fault_passes() {
    kit(Fault::None, Duration::from_secs(120)).run().await.unwrap();
}

/// Wrong acts of an engine are found without waiting for the kit's patience.
#[chanter::test]
async fn each_fault_is_found_by_its_check() {
    let faults = [
        (Fault::IsEverybody, Check::Connected, "the same number"),
        (Fault::Eager, Check::Sizes, "1001 bytes were taken"),
        (Fault::Alters, Check::Sizes, "is not what was sent"),
        (Fault::Doubles, Check::Sizes, "in place of"),
        (Fault::Reorders, Check::Budget, "in place of"),
        (Fault::IgnoresBudget, Check::Budget, "with a budget of 1"),
        (Fault::SaysNothing, Check::Budget, "told the sink 1 things"),
        (Fault::Overtakes, Check::Concurrent, "in place of"),
        (Fault::NeverFull, Check::Full, "nobody polls"),
        (Fault::AltersRefused, Check::Full, "came back as"),
        (Fault::OneQueue, Check::Full, "although there is room"),
        (Fault::SpeaksFromTheGrave, Check::Killed, "after it had gone"),
    ];
    let mut missed = Vec::new();
    for (fault, check, what) in faults {
        match kit(fault, Duration::from_secs(120)).run_one(check).await {
            Err(found) if found.check == check && found.what.contains(what) => {}
            found => missed.push((fault, check, found)),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Omissions of an engine are found.
#[chanter::test]
async fn each_omission_is_found_by_its_check() {
    let omissions = [
        (Fault::Loses, Check::Connected),
        (Fault::Loses, Check::Sizes),
        (Fault::SilentAfterFull, Check::Full),
        (Fault::Deaf, Check::Wakes),
        (Fault::HidesWork, Check::Wakes),
        (Fault::Restless, Check::Rests),
        (Fault::LeavesEarly, Check::Drains),
        (Fault::RingsOnce, Check::Drains),
        (Fault::Loses, Check::Drains),
        (Fault::NeverEnds, Check::LeavesNow),
    ];
    let mut missed = Vec::new();
    for (fault, check) in omissions {
        // A short patience finds faults sooner. It could blame a slow engine, but these do have a fault.
        match kit(fault, Duration::from_millis(200)).run_one(check).await {
            Err(found) if found.check == check => {}
            found => missed.push((fault, check, found)),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
