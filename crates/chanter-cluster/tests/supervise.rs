//! Links and supervisors, by the public interface alone.

use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::{Local, ProcessId, Why};
use chanter_cluster::supervise::{Place, Restart, Supervisor, TeamError};
use chanter_cluster::{Down, Function, Offering, Process, SpawnError, local};

/// Waits, or ends as it is told.
const WORK: Function<u32, ()> = Function::new("test::work");
const LONG: Duration = Duration::from_secs(3600);

/// Offers it; each begin is told of: what it was given, and in which process.
fn offer(here: &Process, tell: &Sender<(u32, u32)>) -> Offering {
    let tell = tell.clone();
    let offering = here.offer(WORK, move |context, n| {
        let _ = tell.try_send((n, context.here().number()));
        async move {
            match n {
                100 => {}
                200 => panic!("as planned"),
                _ => never().await,
            }
        }
    });
    offering.unwrap()
}

async fn end(here: &Process, team: &chanter_cluster::supervise::Team, child: &str) {
    let thread = team.child(child).expect("it runs");
    here.thread::<()>(thread).cancel().await.unwrap();
}

fn on_machines<F: Future<Output = ()> + Send + 'static>(body: fn() -> F) {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async move { body().await });
    }
}

#[test]
fn a_link_ends_the_other_one() {
    on_machines(|| async {
        let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
        let (tell, _told) = mailbox();
        let _offering = [offer(&first, &tell), offer(&second, &tell)];
        for round in 0..4 {
            let here = first.at(0).spawn(WORK.with(&1)).await.unwrap();
            let there = first.at(1).spawn(WORK.with(&2)).await.unwrap();
            here.link(&there).await.unwrap();
            let (ends, follows) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
            if round < 2 {
                ends.cancel().await.unwrap();
                assert_eq!(follows.down().await, Down::Cancelled);
            } else {
                // With a value it goes alone.
                ends.terminate(()).await.unwrap();
                assert_eq!(ends.join().await, Ok(()));
                follows.suspend().await.unwrap();
                follows.cancel().await.unwrap();
            }
        }
        let here = first.at(0).spawn(WORK.with(&1)).await.unwrap();
        let gone = first.at(1).spawn(WORK.with(&200)).await.unwrap();
        assert_eq!(gone.down().await, Down::Panicked("as planned".into()));
        here.link(&gone).await.unwrap();
        assert_eq!(here.down().await, Down::Cancelled, "it was too late to live");
    });
}

#[test]
fn a_link_outlives_no_process() {
    on_machines(|| async {
        let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
        let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
        let (tell, _told) = mailbox();
        let _offering = [offer(&first, &tell), offer(&second, &tell)];
        let here = first.at(0).spawn(WORK.with(&1)).await.unwrap();
        let there = first.at(1).spawn(WORK.with(&2)).await.unwrap();
        here.link(&there).await.unwrap();
        killer.kill();
        assert_eq!(here.down().await, Down::Cancelled);
        assert_eq!(there.down().await, Down::ProcessLost(ProcessId(1), Why::Died));
    });
}

/// Who is started again when the second of three fails.
#[test]
fn strategies_start_again_whom_they_should() {
    on_machines(|| async {
        let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
        let (tell, told) = mailbox();
        let _offering = offer(&second, &tell);
        let strategies = [
            (Supervisor::one_for_one(), vec![2]),
            (Supervisor::one_for_all(), vec![1, 2, 3]),
            (Supervisor::rest_for_one(), vec![2, 3]),
        ];
        for (supervisor, again) in strategies {
            let there = Place::Process(1);
            let team = supervisor
                .at_most(2, LONG)
                .child("a", there, Restart::Always, WORK.with(&1))
                .child("b", there, Restart::OnFailure, WORK.with(&2))
                .child("c", there, Restart::Always, WORK.with(&3))
                .start(&first)
                .await
                .unwrap();
            for n in 1..=3 {
                assert_eq!(told.recv().await, Ok((n, 1)), "in order");
            }
            for round in 1..=2 {
                end(&first, &team, "b").await;
                for n in &again {
                    assert_eq!(told.recv().await, Ok((*n, 1)));
                }
                while team.child("b").is_none() || team.child("c").is_none() {
                    yield_now().await;
                }
                assert_eq!(team.restarts(), round);
            }
            // Twice is the limit.
            let c = first.thread::<()>(team.child("c").unwrap());
            end(&first, &team, "b").await;
            let error = TeamError::TooOften { child: "b".into(), down: Down::Cancelled };
            assert_eq!(team.ended().await, Err(error));
            assert!(matches!(c.down().await, Down::Cancelled | Down::NoThread), "all have ended");
            assert_eq!(told.try_recv().ok(), None);
        }
    });
}

#[test]
fn who_ends_well_is_started_again_only_if_that_was_said() {
    on_machines(|| async {
        let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
        let (tell, told) = mailbox();
        let _offering = offer(&second, &tell);
        let there = Place::Process(1);
        let team = Supervisor::one_for_one()
            .at_most(0, LONG)
            .child("ends", there, Restart::OnFailure, WORK.with(&100))
            .child("fails", there, Restart::Never, WORK.with(&200))
            .start(&first)
            .await
            .unwrap();
        assert_eq!(team.ended().await, Ok(()), "all have ended for good");
        let team = Supervisor::one_for_one()
            .at_most(4, LONG)
            .child("ends", there, Restart::Always, WORK.with(&100))
            .start(&first)
            .await
            .unwrap();
        assert_eq!(team.ended().await, Err(TeamError::TooOften { child: "ends".into(), down: Down::Ended }));
        assert_eq!(team.restarts(), 4);
        drop(team);
        let mut begun = 0;
        while told.try_recv().is_ok() {
            begun += 1;
        }
        assert_eq!(begun, 2 + 5);
    });
}

#[test]
fn a_team_that_is_stopped_or_dropped_ends() {
    on_machines(|| async {
        let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
        let (tell, _told) = mailbox();
        let _offering = offer(&second, &tell);
        let start = || {
            let child =
                Supervisor::one_for_all().child("a", Place::Process(1), Restart::Always, WORK.with(&1));
            child.start(&first)
        };
        let team = start().await.unwrap();
        let a = first.thread::<()>(team.child("a").unwrap());
        assert_eq!(team.stop().await, Ok(()));
        assert!(!a.down().await.is_well());
        assert_eq!(team.child("a"), None);
        let team = start().await.unwrap();
        let (a, ended) = (first.thread::<()>(team.child("a").unwrap()), team.ended());
        drop(team);
        assert_eq!(ended.await, Ok(()));
        assert!(!a.down().await.is_well());
        let unknown: Function<(), ()> = Function::new("test::unknown");
        let error = Supervisor::one_for_one()
            .child("a", Place::Process(1), Restart::Always, WORK.with(&1))
            .child("b", Place::Process(1), Restart::Always, unknown.with(&()))
            .start(&first)
            .await
            .unwrap_err();
        let why = SpawnError::NoFunction("test::unknown");
        assert_eq!(error, TeamError::Spawn { child: "b".into(), why });
    });
}

/// A child that may run anywhere is started again elsewhere when its process dies; one that may not ends the team.
#[test]
fn a_child_survives_its_process() {
    on_machines(|| async {
        let [first, second, third] = <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Arc::new);
        let killers = [Arc::clone(&second), Arc::clone(&third)];
        let here: Vec<Process> = [first, second, third].into_iter().map(Process::start).collect();
        let (tell, told) = mailbox();
        let _offerings: Vec<Offering> = here.iter().map(|here| offer(here, &tell)).collect();
        let team = Supervisor::one_for_one()
            .at_most(10, LONG)
            .child("first", Place::AnyProcess, Restart::Always, WORK.with(&1))
            .child("second", Place::AnyProcess, Restart::Always, WORK.with(&2))
            .child("third", Place::AnyProcess, Restart::Always, WORK.with(&3))
            .start(&here[0])
            .await
            .unwrap();
        for n in 1..=3 {
            assert_eq!(told.recv().await, Ok((n, n - 1)), "by turns");
        }
        killers[0].kill();
        let (n, process) = told.recv().await.unwrap();
        assert!(n == 2 && process != 1, "{n} in {process}");
        let bound = Supervisor::one_for_one()
            .child("bound", Place::Process(2), Restart::Always, WORK.with(&4))
            .start(&here[0])
            .await
            .unwrap();
        killers[1].kill();
        assert!(matches!(bound.ended().await, Err(TeamError::Spawn { .. })));
        while [1, 2, 3]
            .iter()
            .zip(["first", "second", "third"])
            .any(|(_, name)| team.child(name).is_none_or(|thread| thread.process != ProcessId(0)))
        {
            yield_now().await;
        }
        assert_eq!(team.stop().await, Ok(()));
    });
}
