//! The laws on a network that loses, doubles, delays and reorders frames, is cut, and kills.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::{
    Change, Engine, Fault, Faults, Lane, Notifier, Pace, ProcessId, Reliable, Simulated, Sink,
};
use chanter_cluster::wire::{Body, Header, Kind};
use chanter_cluster::{ANYONE, Buffer, Process, RecvError};
use chanter_explore::Explorer;

use super::blind::Blind;
use super::calls::{Runs, three_calls};
use super::history::{Broken, History};

const FAULTS: [Fault; 5] = [Fault::Lose, Fault::Duplicate, Fault::Delay, Fault::Reorder, Fault::Cut];

/// A network of two.
fn two(faults: Faults) -> [Arc<Simulated>; 2] {
    <[_; 2]>::try_from(Simulated::cluster(2, faults)).unwrap().map(Arc::new)
}

/// Links that never give up, as time may jump as far as the explorer likes, and that are soon full.
fn pace() -> Pace {
    Pace { lost_after: Duration::from_secs(u32::MAX.into()), window: 2, ..Pace::default() }
}

fn start(engine: impl Engine) -> Process {
    Process::start(Reliable::over(engine, pace()))
}

/// D1 and D5: two threads of the first process send three messages to one of the second.
async fn three_messages([first, second]: [Process; 2]) -> Result<(), Broken> {
    let history = History::default();
    let there = second.inbox().unwrap();
    let to = there.name();
    let senders = [(0, 2), (2, 1)].map(|(tag, count)| {
        let (here, history) = (first.inbox().unwrap(), history.clone());
        spawn(async move {
            for number in 0..count {
                history.send(&here, to, tag, number).await.unwrap();
            }
            here
        })
    });
    for _ in 0..3 {
        history.recv(&there, ANYONE).await.unwrap();
    }
    for sender in senders {
        sender.join().await.unwrap();
    }
    history.check(&[])
}

/// D2: the receiver's process is killed at any point; its sender is told what became of three messages.
async fn the_receiver_dies(faults: Faults) -> Result<(), Broken> {
    let [first, killer] = two(faults);
    let (first, second) = (start(first), start(Arc::clone(&killer)));
    let history = History::default();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let to = there.name();
    let (stop, stopped) = channel::<()>();
    let receiver = spawn({
        let history = history.clone();
        async move {
            // All that has come before the end is received.
            while let Some(got) =
                choose_biased((history.recv(&there, ANYONE).wrap(Some), stopped.recv().wrap(|_| None))).await
            {
                got.unwrap();
            }
            there
        }
    });
    let killing = spawn(async move { killer.kill() });
    for number in 0..3 {
        let _ = history.send(&here, to, 0, number).await;
    }
    history.returned(&here, 1).await;
    drop(stop);
    killing.join().await.unwrap();
    receiver.join().await.unwrap();
    history.check(&[1])
}

/// D3: the sender's process is killed at any point; a prefix is received, and then the end.
async fn the_sender_dies(faults: Faults) -> Result<(), Broken> {
    let [killer, second] = two(faults);
    let (first, second) = (start(Arc::clone(&killer)), start(second));
    let history = History::default();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let (from, to) = (here.name(), there.name());
    let sender = spawn({
        let history = history.clone();
        async move {
            // A process that was killed may learn of its own end. Then it sends no more.
            for number in 0..3 {
                if history.send(&here, to, 0, number).await.is_err() {
                    break;
                }
            }
            here
        }
    });
    let killing = spawn(async move { killer.kill() });
    while history.recv(&there, from.into()).await.is_ok() {}
    killing.join().await.unwrap();
    sender.join().await.unwrap();
    assert!(matches!(history.recv(&there, from.into()).await, Err(RecvError::Lost(..))));
    history.check(&[0])
}

/// D4: a posted receive that loses a choice, and is dropped, takes no message; each is received once.
async fn losers_have_no_effect(faults: Faults) -> Result<(), Broken> {
    let [first, second] = two(faults).map(start);
    let history = History::default();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let to = there.name();
    let sender = spawn({
        let history = history.clone();
        async move {
            for number in 0..3 {
                history.send(&here, to, 0, number).await.unwrap();
            }
            here
        }
    });
    let (tx, rx) = channel::<u32>();
    let near = spawn(async move {
        for number in 0..2 {
            tx.send(number).await.unwrap();
        }
    });
    let (mut far, mut close) = (0, 0);
    while far < 3 || close < 2 {
        let posted = there.irecv::<(chanter_cluster::ThreadName, u32)>(ANYONE, 9);
        let (is_near, is_far) = (close < 2, far < 3);
        let from_here = rx.recv().wrap(|_| 0);
        let from_there = history.recv(&there, ANYONE).wrap(|got| got.map_or(2, |_| 1));
        let won = match (is_near, is_far) {
            (true, true) => choose((from_here, from_there, posted.wrap(|_| 2))).await,
            (true, false) => from_here.await,
            _ => from_there.await,
        };
        match won {
            0 => close += 1,
            1 => far += 1,
            _ => unreachable!("nobody sends with that tag, and nobody dies"),
        }
    }
    near.join().await.unwrap();
    sender.join().await.unwrap();
    history.check(&[])
}

/// Both processes leave when all is sent: nobody waits for ever, and all has come.
async fn both_leave(faults: Faults) -> Result<(), Broken> {
    let [first, second] = two(faults).map(start);
    let history = History::default();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let (from, to) = (here.name(), there.name());
    for number in 0..2 {
        history.send(&here, to, 0, number).await.unwrap();
    }
    let leaving = spawn(async move { first.leave().await });
    while history.recv(&there, from.into()).await.is_ok() {}
    second.leave().await;
    leaving.join().await.unwrap();
    let left = second.down(0);
    assert_eq!(left, Some(chanter_cluster::engine::Why::Left));
    history.check(&[])
}

type Outcome = Pin<Box<dyn Future<Output = Result<(), Broken>>>>;

/// D6: the server's process may be killed at any frame; each of three calls has its answer, or is lost.
async fn the_server_dies(faults: Faults) -> Result<(), Broken> {
    let [first, second] = two(faults).map(start);
    let runs = Runs::default();
    let serving = runs.serve(&second);
    let checked = three_calls(&first, &runs).await;
    drop(serving);
    checked.map_err(|what| Broken { law: "D6", what })
}

/// A program, and who may be killed in it.
struct Program {
    name: &'static str,
    run: fn(Faults) -> Outcome,
    victim: Option<ProcessId>,
}

const PROGRAMS: [Program; 6] = [
    Program {
        name: "three messages",
        run: |faults| Box::pin(async { three_messages(two(faults).map(start)).await }),
        victim: None,
    },
    Program {
        name: "the receiver dies",
        run: |faults| Box::pin(the_receiver_dies(faults)),
        victim: Some(ProcessId(1)),
    },
    Program {
        name: "the sender dies",
        run: |faults| Box::pin(the_sender_dies(faults)),
        victim: Some(ProcessId(0)),
    },
    Program { name: "losers", run: |faults| Box::pin(losers_have_no_effect(faults)), victim: None },
    Program { name: "both leave", run: |faults| Box::pin(both_leave(faults)), victim: None },
    Program { name: "calls", run: |faults| Box::pin(the_server_dies(faults)), victim: Some(ProcessId(1)) },
];

impl Program {
    /// The faults that may happen, and at most how many of them.
    fn faults(&self, most: u32) -> Faults {
        let kinds: Vec<Fault> = FAULTS.into_iter().chain(self.victim.map(Fault::Kill)).collect();
        Faults::of(&kinds, most)
    }

    fn explore(&self, explorer: Explorer, faults: &Faults) -> u64 {
        let report = explorer.steps(5_000).check(|| (self.run)(faults.clone()));
        if let Some(failure) = &report.failure {
            panic!("{}, {faults:?}: {failure}", self.name);
        }
        report.schedules
    }

    /// All faults, or sequences of them, that may happen to this number of frames from the first on.
    fn planned(&self, frames: u64, many: u32) -> Vec<Faults> {
        let mut plans = vec![self.faults(0)];
        let mut all = Vec::new();
        for _ in 0..many {
            let longer = |plan: &Faults| {
                let next = plan.at.last().map_or(0, |(at, _)| at + 1);
                let one = |at, kind| {
                    let mut longer = plan.clone();
                    longer.at.push((at, kind));
                    longer
                };
                let kinds = plan.kinds.clone();
                (next..frames)
                    .flat_map(|at| kinds.iter().map(|kind| one(at, *kind)).collect::<Vec<_>>())
                    .collect()
            };
            plans = plans.iter().flat_map(|plan| -> Vec<Faults> { longer(plan) }).collect();
            all.extend(plans.clone());
        }
        all
    }
}

/// Each fault, at each frame, and then with each other fault at a later frame.
fn planned(program: &Program) {
    let some = Explorer::new().exhaustive().preemptions(1).schedules(12).scaled();
    program.planned(20, 1).iter().for_each(|faults| _ = program.explore(some.clone(), faults));
    let one = Explorer::new().exhaustive().preemptions(0).schedules(1);
    program.planned(12, 2).iter().for_each(|faults| _ = program.explore(one.clone(), faults));
}

/// The explorer decides about each frame, too.
fn explored(program: &Program) {
    let explorer = Explorer::new().random(300).pct(300, 3).exhaustive().preemptions(2).schedules(600);
    assert!(program.explore(explorer.scaled(), &program.faults(4)) >= 601);
}

macro_rules! programs {
    ($($program:ident: $at:literal),*) => {
        mod each_fault { $(#[test] fn $program() { super::planned(&super::PROGRAMS[$at]) })* }
        mod explored { $(#[test] fn $program() { super::explored(&super::PROGRAMS[$at]) })* }
    };
}

programs!(three_messages: 0, the_receiver_dies: 1, the_sender_dies: 2, losers: 3, both_leave: 4, calls: 5);

/// Without a link the explorer finds each fault that a link is for, and the schedule that it finds fails again.
#[test]
fn without_a_link_the_laws_are_broken() {
    for fault in [Fault::Lose, Fault::Duplicate, Fault::Reorder, Fault::Cut] {
        let program = || async move {
            let faults = Faults { delay: Duration::ZERO, ..Faults::of(&[fault], 1) };
            let blind = two(faults).map(|engine| Process::start(Blind(engine)));
            three_messages(blind).await
        };
        let explorer = Explorer::new().steps(5_000);
        let report = explorer.check(program);
        let failure = report.failure.unwrap_or_else(|| panic!("{fault:?} is not found"));
        assert!(failure.is_reproduced, "{fault:?}: {failure}");
        let schedule = failure.schedule.to_string();
        let again = explorer.replay(&schedule).check(program).failure.expect("the schedule fails again");
        let kinds = [&again, &failure].map(|failure| std::mem::discriminant(&failure.kind));
        assert_eq!((kinds[0], again.steps), (kinds[1], failure.steps), "{fault:?}");
    }
}

/// What an engine has handed over: the bodies, in order, and whether its peer has gone.
#[derive(Default)]
struct Heard {
    bodies: Vec<Vec<u8>>,
    is_down: bool,
}

impl Sink for Heard {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        assert!(!self.is_down, "{from:?} was said to be gone");
        self.bodies.push(frame.to_vec());
    }

    fn peer(&mut self, _peer: ProcessId, change: Change) {
        assert!(matches!(change, Change::Down(_)) && !self.is_down);
        self.is_down = true;
    }
}

/// Three frames from one engine to another, driven by one thread.
async fn three_frames(faults: Faults) {
    let pace = || Pace { window: 3, ..pace() };
    let engines = two(faults).map(|engine| Reliable::over(engine, pace()));
    let (notifier, notified) = mailbox();
    for engine in &engines {
        let notifier = notifier.clone();
        engine.attach(Notifier::new(move || _ = notifier.try_send(())));
    }
    let frame = |number: u8| {
        let mut body = Body::copied_from(&[number]);
        body.set_header(&Header { length: 1, ..Header::new(Kind::Message) });
        body
    };
    (0..3).for_each(|number| engines[0].try_send(ProcessId(1), Lane::User, frame(number)).unwrap());
    let (mut answers, mut heard) = (Heard::default(), Heard::default());
    while heard.bodies.len() < 3 && !heard.is_down && !answers.is_down {
        notified.recv().await.unwrap();
        engines[0].poll(9, &mut answers);
        engines[1].poll(9, &mut heard);
    }
    assert!(answers.bodies.is_empty(), "acknowledgements are not for the sink");
    assert!(heard.bodies.iter().zip(0..).all(|(body, number)| *body == [number]));
}

/// All that the network may do with three frames, and their acknowledgements, if it does three things.
#[test]
fn a_link_survives_all_triples_of_faults() {
    let kinds: Vec<Fault> =
        FAULTS.into_iter().chain([0, 1].map(|peer| Fault::Kill(ProcessId(peer)))).collect();
    let faults = Faults::of(&kinds, 3);
    let report = Explorer::new().exhaustive().preemptions(0).check(|| three_frames(faults.clone()));
    let (schedules, is_complete) = (report.schedules, report.is_complete);
    report.unwrap();
    assert!(is_complete && schedules > 10_000, "{schedules}");
}

/// What a frame says of itself stays, whatever a link writes into its header.
#[test]
fn a_buffer_is_a_buffer_behind_a_link() {
    let machine = Machine::builder().vps(1).build().unwrap();
    machine.block_on(async {
        let faults =
            Faults { one_in: 3, delay: Duration::from_millis(1), seed: 7, ..Faults::of(&FAULTS, u32::MAX) };
        let pace = Pace { resend: Duration::from_millis(2), slowest: Duration::from_millis(10), ..pace() };
        let [first, second] = two(faults).map(|engine| Process::start(Reliable::over(engine, pace.clone())));
        let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        for round in 0..50_u64 {
            here.send_buffer(there.name(), 1, Buffer::copied_from(&[round; 9])).await.unwrap();
            assert_eq!(*there.recv_buffer::<u64>(ANYONE, 1).await.unwrap().value, [round; 9]);
        }
    });
}

/// Threads of a real machine, a network that misbehaves all the time, and perhaps the end of a process.
#[test]
fn what_holds_when_explored_holds_when_run() {
    const MESSAGES: u32 = 40;
    let machine = Machine::builder().vps(2).build().unwrap();
    for seed in 0..20 {
        let is_mortal = seed % 2 == 1;
        let mut kinds = FAULTS.to_vec();
        kinds.extend(is_mortal.then_some(Fault::Kill(ProcessId(1))));
        let delay = Duration::from_millis(1);
        let faults = Faults { one_in: 3, delay, seed, ..Faults::of(&kinds, u32::MAX) };
        let history = machine.block_on(async move {
            let [first, killer] = two(faults);
            let pace = Pace { resend: 2 * delay, slowest: 10 * delay, window: 16, ..pace() };
            let (first, second) = (
                Process::start(Reliable::over(first, pace.clone())),
                Process::start(Reliable::over(Arc::clone(&killer), pace)),
            );
            let history = History::default();
            let there = second.inbox().unwrap();
            let to = there.name();
            let senders = [0, 1, 2].map(|tag| {
                let (here, history) = (first.inbox().unwrap(), history.clone());
                spawn(async move {
                    for number in 0..MESSAGES {
                        let _ = history.send(&here, to, tag, number).await;
                    }
                    if is_mortal {
                        history.returned(&here, 1).await;
                    }
                    here
                })
            });
            let (stop, stopped) = channel::<()>();
            let receiver = spawn({
                let history = history.clone();
                async move {
                    let mut received = 0;
                    while received < 3 * MESSAGES
                        && let Some(got) = choose_biased((
                            history.recv(&there, ANYONE).wrap(Some),
                            stopped.recv().wrap(|_| None),
                        ))
                        .await
                    {
                        got.unwrap();
                        received += 1;
                    }
                    there
                }
            });
            if is_mortal {
                // If the network has not.
                after(5 * delay).await;
                killer.kill();
            }
            for sender in senders {
                sender.join().await.unwrap();
            }
            if is_mortal {
                drop(stop);
            }
            receiver.join().await.unwrap();
            history
        });
        history.check(if is_mortal { &[1] } else { &[] }).unwrap_or_else(|broken| panic!("{seed}: {broken}"));
    }
}
