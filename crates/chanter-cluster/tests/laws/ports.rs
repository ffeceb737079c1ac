//! Ports end once, after their last message, and not while somebody has a sender; supervisors start again whom a death has ended.

use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::{Local, ProcessId};
use chanter_cluster::port::{Port, PortSender};
use chanter_cluster::supervise::{Place, Restart, Supervisor, TeamError};
use chanter_cluster::{ANYONE, CallError, Function, Process, RecvError, SendError, SpawnError};

fn mortal(count: u32) -> (Vec<Process>, Vec<Arc<Local>>) {
    let engines: Vec<Arc<Local>> = Local::cluster(count).into_iter().map(Arc::new).collect();
    (engines.iter().map(|engine| Process::start(Arc::clone(engine))).collect(), engines)
}

/// All that comes until the port ends; then it has ended for ever.
async fn drain(port: &Port<u32>) -> Vec<u32> {
    let mut came = Vec::new();
    loop {
        match port.recv().await {
            Ok(n) => came.push(n),
            Err(end) => {
                assert_eq!(end, RecvError::Closed);
                assert_eq!(port.recv().try_sync(), Some(Err(RecvError::Closed)), "it ends once");
                return came;
            }
        }
    }
}

/// The sender's process is killed at any point of two messages: a prefix comes, and the end.
pub(super) async fn a_port_ends_after_its_last_message() {
    let (here, engines) = mortal(2);
    let port = here[1].port::<u32>().unwrap();
    let outlet = here[0].connect(port.sender()).unwrap();
    let killer = Arc::clone(&engines[0]);
    let killing = spawn(async move { killer.kill() });
    let sending = spawn(async move {
        let mut sent = 0;
        for n in 0..2 {
            sent += u32::from(outlet.send(n).await.is_ok());
        }
        sent
    });
    let came = drain(&port).await;
    let sent = sending.join().await.unwrap();
    assert!(came == [0, 1][..came.len()] && came.len() as u32 <= sent, "{came:?} of {sent}");
    killing.join().await.unwrap();
}

/// As many senders here and there, which go one after the other; nobody dies: all comes, and then the end.
pub(super) async fn a_port_ends_when_all_have_gone() {
    let (here, _) = mortal(2);
    let port = here[1].port::<u32>().unwrap();
    let sender = port.sender();
    let sending: Vec<_> = [&here[0], &here[1]]
        .into_iter()
        .zip(0..)
        .map(|(here, n)| {
            let outlet = here.connect(sender.clone()).unwrap();
            spawn(async move { outlet.send(n).await.unwrap() })
        })
        .collect();
    drop(sender);
    let mut came = drain(&port).await;
    came.sort_unstable();
    assert_eq!(came, [0, 1]);
    for sending in sending {
        sending.join().await.unwrap();
    }
}

/// A sender is passed from the home to a second process, and by that one, which is killed at any point, to a third. If the third has
/// got it, what it sends comes; the port ends either way.
pub(super) async fn a_sender_outlives_who_has_passed_it_on() {
    let (here, engines) = mortal(3);
    let port = here[0].port::<u32>().unwrap();
    let [home, second, third] = [0, 1, 2].map(|at: usize| here[at].inbox().unwrap());
    home.send(second.name(), 1, &port.sender()).await.unwrap();
    let killer = Arc::clone(&engines[1]);
    let killing = spawn(async move { killer.kill() });
    let (from, to) = (second.name(), third.name());
    let passing = spawn(async move {
        let sender = second.recv::<PortSender<u32>>(ANYONE, 1).await.unwrap().value;
        let _ = second.send(to, 1, &sender).await;
    });
    let last = here[2].clone();
    let getting = spawn(async move {
        let sender = third.recv::<PortSender<u32>>(from, 1).await.ok()?.value;
        let outlet = last.connect(sender).unwrap();
        Some(outlet.send(7).await)
    });
    let came = drain(&port).await;
    match getting.join().await.unwrap() {
        Some(sent) => assert_eq!((sent, came), (Ok(()), vec![7]), "a sender that counts"),
        None => assert!(came.is_empty(), "{came:?}"),
    }
    killing.join().await.unwrap();
    // Of a dead process, it may wait for ever.
    drop(passing);
}

/// The home is killed at any point: whoever has a sender is told, or has sent.
pub(super) async fn senders_of_a_dead_port_are_told() {
    let (here, engines) = mortal(2);
    let port = here[1].port::<u32>().unwrap();
    let (me, there) = (here[0].inbox().unwrap(), here[1].inbox().unwrap());
    there.send(me.name(), 1, &port.sender()).await.unwrap();
    let killer = Arc::clone(&engines[1]);
    let killing = spawn(async move { killer.kill() });
    let sender = me.recv::<PortSender<u32>>(ANYONE, 1).await.unwrap().value;
    let outlet = here[0].connect(sender.clone()).unwrap();
    drop(sender);
    let mut is_lost = false;
    for n in 0..2 {
        match outlet.send(n).await {
            Ok(()) => assert!(!is_lost),
            Err(unsent) => {
                assert!(matches!(unsent.why, SendError::Lost(ProcessId(1), _)), "{unsent}");
                is_lost = true;
            }
        }
    }
    killing.join().await.unwrap();
    drop((outlet, port));
}

const CHILD: Function<(), ()> = Function::new("laws::child");
const LONG: Duration = Duration::from_secs(3600);

/// A process is killed at any point while a team of two children starts and runs, who may be anywhere: in the end both run in the process
/// that lives, or the team says why not, and nobody is left over.
pub(super) async fn a_team_survives_a_process() {
    let (here, engines) = mortal(2);
    let offering =
        [&here[0], &here[1]].map(|here| here.offer(CHILD, |_, ()| async { never().await }).unwrap());
    let killer = Arc::clone(&engines[1]);
    let killing = spawn(async move { killer.kill() });
    let started = Supervisor::one_for_one()
        .at_most(2, LONG)
        .child("a", Place::AnyProcess, Restart::Always, CHILD.with(&()))
        .child("b", Place::AnyProcess, Restart::Always, CHILD.with(&()))
        .start(&here[0])
        .await;
    let team = started.expect("one process lives");
    killing.join().await.unwrap();
    let runs_here = |name: &str| team.child(name).is_some_and(|thread| thread.process == ProcessId(0));
    // Or it hangs, which the explorer finds.
    while !(runs_here("a") && runs_here("b")) {
        // Time goes on when nobody can do anything else.
        after(Duration::from_secs(1)).await;
    }
    assert!(team.restarts() <= 1, "one of them at most was there");
    let threads = ["a", "b"].map(|name| here[0].thread::<()>(team.child(name).unwrap()));
    assert_eq!(team.stop().await, Ok(()));
    for thread in threads {
        assert!(!thread.down().await.is_well(), "it was ended");
    }
    drop(offering);
}

/// The same, of children that may run only where they die: all are ended, and the team says who could not be started.
pub(super) async fn a_team_that_cannot_go_on_ends() {
    let (here, engines) = mortal(2);
    let offering =
        [&here[0], &here[1]].map(|here| here.offer(CHILD, |_, ()| async { never().await }).unwrap());
    let killer = Arc::clone(&engines[1]);
    let killing = spawn(async move { killer.kill() });
    let started = Supervisor::one_for_all()
        .at_most(9, LONG)
        .child("stays", Place::Process(0), Restart::Always, CHILD.with(&()))
        .child("dies", Place::Process(1), Restart::Always, CHILD.with(&()))
        .start(&here[0])
        .await;
    let is_lost = |error: &TeamError| {
        let TeamError::Spawn { child, why: SpawnError::Call(why) } = error else { return false };
        child == "dies" && matches!(why, CallError::Lost { .. } | CallError::NoSuchProcess(_))
    };
    match started {
        Err(error) => assert!(is_lost(&error), "{error}"),
        Ok(team) => {
            let first = team.child("stays").map(|name| here[0].thread::<()>(name));
            let error = team.ended().await.unwrap_err();
            assert!(is_lost(&error), "{error}");
            if let Some(first) = first {
                assert!(!first.down().await.is_well(), "it was ended");
            }
            assert_eq!([team.child("stays"), team.child("dies")], [None, None]);
        }
    }
    killing.join().await.unwrap();
    drop(offering);
}
