//! Operations of a process that has left: each ends at once, and its own threads go on among themselves.

use std::sync::Arc;
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use chanter::sync::CVar;
use chanter_cluster::engine::{Fault, Faults, ProcessId, Simulated, Why};
use chanter_cluster::group::{Group, GroupError, Lost};
use chanter_cluster::supervise::{Place, Restart, Supervisor, TeamError};
use chanter_cluster::{
    ANYONE, AskError, Begun, CallError, Down, EndError, Function, LookupError, OpenError, Process, RecvError,
    SendError, Service, SpawnError, local,
};

const TAG: u32 = 1;
const WAIT: Service<u32, u32> = Service::new("test::wait");
const WORK: Function<u32, u32> = Function::new("test::work");
const PEER: ProcessId = ProcessId(1);

fn with_two<F: Future<Output = ()> + Send + 'static>(body: fn(Process, Process) -> F) {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async move {
            let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
            body(first, second).await;
        });
    }
}

fn lost(begun: Begun) -> CallError {
    CallError::Lost { process: PEER, why: Why::Left, begun }
}

#[test]
fn messages_and_lookups_that_begin_after_it() {
    with_two(|first, second| async move {
        let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        let posted = here.irecv::<u32>(there.name(), TAG);
        first.leave().await;
        assert_eq!((first.down(1), first.members().get()), (Some(Why::Left), vec![0]));
        let sent = SendError::Lost(PEER, Why::Left);
        assert_eq!(here.send(there.name(), TAG, &1_u32).await, Err(sent.clone()));
        let received = RecvError::Lost(PEER, Why::Left);
        assert_eq!(posted.await, Err(received.clone()));
        for inbox in [&here, &first.open("later").unwrap(), &first.main_inbox().unwrap()] {
            assert_eq!(inbox.recv::<u32>(there.name(), TAG).await, Err(received.clone()));
            assert_eq!(inbox.send(second.main_of(1), TAG, &1_u32).await, Err(sent.clone()));
            assert_eq!(inbox.returned(1).await.why, Why::Left);
        }
        assert_eq!(first.lookup("nobody@1").await, Err(LookupError::Lost(PEER, Why::Left)));
    });
}

#[test]
fn what_waits_while_it_leaves_ends() {
    with_two(|first, second| async move {
        let (here, there) = (Arc::new(first.inbox().unwrap()), second.inbox().unwrap());
        let name = there.name();
        // The window is full, so that the next send waits.
        for _ in 0..64 {
            here.send(name, TAG, &1_u32).await.unwrap();
        }
        let sends = spawn({
            let here = Arc::clone(&here);
            async move { here.send(name, TAG, &2_u32).await }
        });
        let receives = spawn({
            let here = Arc::clone(&here);
            async move { here.recv::<u32>(name, TAG).await }
        });
        let looks = spawn({
            let first = first.clone();
            async move { first.lookup("nobody@1").await }
        });
        first.leave().await;
        assert_eq!(sends.await.unwrap(), Err(SendError::Lost(PEER, Why::Left)));
        assert_eq!(receives.await.unwrap(), Err(RecvError::Lost(PEER, Why::Left)));
        assert_eq!(looks.await.unwrap(), Err(LookupError::Lost(PEER, Why::Left)));
        // The other process learns of it, and has all that was sent.
        for _ in 0..64 {
            assert_eq!(there.recv::<u32>(here.name(), TAG).await.unwrap().value, 1);
        }
        let left = RecvError::Lost(ProcessId(0), Why::Left);
        assert_eq!(there.recv::<u32>(here.name(), TAG).await, Err(left));
        assert_eq!(second.down(0), Some(Why::Left));
    });
}

/// Often, as another worker may be delivering frames when it leaves.
#[test]
fn what_has_come_is_received() {
    for vps in [1, 2] {
        let machine = Machine::builder().vps(vps).workers(vps).build().unwrap();
        for _ in 0..200 {
            machine.block_on(async {
                let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
                let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
                for value in 0..50_u32 {
                    there.send(here.name(), TAG, &value).await.unwrap();
                }
                first.leave().await;
                for value in 0..50 {
                    assert_eq!(here.recv::<u32>(there.name(), TAG).await.unwrap().value, value);
                }
                let lost = Err(RecvError::Lost(PEER, Why::Left));
                assert_eq!(here.recv::<u32>(there.name(), TAG).await, lost);
            });
        }
    }
}

/// Threads that send as fast as they can do not hold up the process.
#[test]
fn it_leaves_beside_threads_that_send() {
    with_two(|first, second| async move {
        let mut threads = Vec::new();
        for _ in 0..40 {
            let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
            let (from, to) = (here.name(), there.name());
            threads.push(spawn(async move { while here.send(to, TAG, &[1_u8; 100][..]).await.is_ok() {} }));
            threads.push(spawn(async move { while there.recv::<Vec<u8>>(from, TAG).await.is_ok() {} }));
        }
        after(Duration::from_millis(10)).await;
        first.leave().await;
        for thread in threads {
            thread.join().await.unwrap();
        }
    });
}

/// A process that has begun to leave its cluster leaves it, though the thread that has asked is gone.
#[chanter::test]
async fn a_leave_that_is_dropped_goes_on() {
    let faults =
        Faults { one_in: 2, delay: Duration::from_millis(50), ..Faults::of(&[Fault::Delay], u32::MAX) };
    let engines = Simulated::cluster(2, faults);
    let [first, second] = <[_; 2]>::try_from(engines).unwrap().map(Process::start);
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    for _ in 0..30 {
        here.send(there.name(), TAG, &1_u32).await.unwrap();
    }
    let leaves = from_cancel_safe(first.leave());
    // Some messages are still on their way.
    assert_eq!(leaves.timeout(Duration::ZERO).await, None);
    assert_eq!(first.lookup("nobody@1").await, Err(LookupError::Lost(PEER, Why::Left)));
    assert_eq!(here.recv::<u32>(there.name(), TAG).await, Err(RecvError::Lost(PEER, Why::Left)));
}

#[test]
fn each_of_two_leaves_ends_when_all_is_done() {
    let machine = Machine::builder().vps(2).workers(2).build().unwrap();
    for _ in 0..200 {
        machine.block_on(async {
            let [first, _second] = <[Process; 2]>::try_from(local(2)).unwrap();
            let also = first.clone();
            let other = spawn(async move {
                also.leave().await;
                also.members().get()
            });
            first.leave().await;
            assert_eq!(first.members().get(), [0]);
            assert_eq!(other.await.unwrap(), [0]);
        });
    }
}

#[test]
fn requests_and_threads() {
    with_two(|first, second| async move {
        let _waiting = second.serve(WAIT, |_, n| async move { n }).unwrap();
        let _offering = second.offer(WORK, |_, _| async { never().await }).unwrap();
        let thread = first.at(1).spawn(WORK.with(&1)).await.unwrap();
        first.leave().await;
        assert_eq!(first.at(1).call(WAIT.ask(&1)).await, Err(lost(Begun::No)));
        assert_eq!(first.at(1).post(WAIT.ask(&1)), Err(lost(Begun::No)));
        let spawned = first.at(1).spawn(WORK.with(&1)).await;
        assert_eq!(spawned.map(drop).unwrap_err(), SpawnError::Call(lost(Begun::No)));
        assert_eq!(thread.down().await, Down::ProcessLost(PEER, Why::Left));
        assert_eq!(thread.cancel().await, Err(AskError::Call(lost(Begun::No))));
        assert_eq!(thread.await, Err(EndError::Call(lost(Begun::No))));
        assert_eq!(first.agree().await, Ok(()));
    });
}

#[test]
fn a_thread_that_is_watched_and_a_team() {
    with_two(|first, second| async move {
        let _offering = second.offer(WORK, |_, _| async { never().await }).unwrap();
        let thread = first.at(1).spawn(WORK.with(&1)).await.unwrap();
        let supervisor =
            || Supervisor::one_for_one().child("child", Place::Process(1), Restart::Always, WORK.with(&1));
        let team = supervisor().start(&first).await.unwrap();
        let (down, joined) = (spawn(thread.down().sync()), spawn(thread.join().sync()));
        first.leave().await;
        assert_eq!(down.await.unwrap(), Down::ProcessLost(PEER, Why::Left));
        assert!(matches!(joined.await.unwrap(), Err(EndError::Call(CallError::Lost { .. }))));
        assert!(matches!(team.ended().await, Err(TeamError::Spawn { .. })));
        let late = supervisor().start(&first).await;
        assert!(matches!(late, Err(TeamError::Spawn { .. })), "{late:?}");
    });
}

#[test]
fn groups() {
    with_two(|first, second| async move {
        let other = spawn({
            let second = second.clone();
            async move {
                let mut group = Group::of(&second, "two", 1, 2).await.unwrap();
                assert_eq!(group.barrier().await, Ok(()));
                group.barrier().await
            }
        });
        let mut group = Group::of(&first, "two", 0, 2).await.unwrap();
        assert_eq!(group.barrier().await, Ok(()));
        first.leave().await;
        assert_eq!(group.barrier().await, Err(Lost { member: 1 }));
        assert_eq!(other.await.unwrap(), Err(Lost { member: 0 }));
        let missing = Group::of(&first, "later", 0, 2).await.unwrap_err();
        assert_eq!(missing, GroupError::Missing { rank: 1, gone: vec![1] });
    });
}

#[test]
fn ports() {
    with_two(|first, second| async move {
        let (ours, theirs) = (first.port::<u32>().unwrap(), second.port::<u32>().unwrap());
        let outlet = first.connect(theirs.sender()).unwrap();
        let distant = second.connect(ours.sender()).unwrap();
        distant.send(7).await.unwrap();
        first.leave().await;
        assert_eq!(outlet.send(1).await.unwrap_err().why, SendError::Lost(PEER, Why::Left));
        let late = first.connect(theirs.sender()).unwrap();
        assert_eq!(late.send(1).await.unwrap_err().why, SendError::Lost(PEER, Why::Left));
        assert_eq!(ours.recv().await, Ok(7));
        assert_eq!(ours.recv().await, Err(RecvError::Closed), "no sender is left");
    });
}

/// Messages, calls, threads and names within the process.
#[test]
fn its_own_threads_go_on() {
    with_two(|first, second| async move {
        let gate = Arc::new(CVar::new());
        let opens = Arc::clone(&gate);
        let _waiting = first
            .serve(WAIT, move |_, n| {
                let gate = Arc::clone(&opens);
                async move {
                    gate.wait().await;
                    n + 1
                }
            })
            .unwrap();
        let _offering = first.offer(WORK, |_, n| async move { n }).unwrap();
        let early = spawn({
            let at = first.at(0);
            async move { at.call(WAIT.ask(&1)).await }
        });
        let asker = spawn({
            let first = first.clone();
            async move { (first.lookup("later").await, first.find("later").await) }
        });
        yield_now().await;
        first.leave().await;
        gate.set();
        assert_eq!(early.await.unwrap(), Ok(2));
        assert_eq!(first.at(0).call(WAIT.ask(&2)).await, Ok(3));
        assert_eq!(first.at(0).spawn(WORK.with(&5)).await.unwrap().await, Ok(5));
        let (one, other) = (first.inbox().unwrap(), first.open("later").unwrap());
        let _registered = first.register("later", &other).await.unwrap();
        assert_eq!(asker.await.unwrap(), (Ok(other.name()), Ok(other.name())));
        one.send(other.name(), TAG, &9_u32).await.unwrap();
        assert_eq!(other.recv::<u32>(ANYONE, TAG).await.unwrap().value, 9);
        assert_eq!(first.open("later").map(drop), Err(OpenError::Taken("later".to_owned())));
        // Twice is as good as once.
        first.leave().await;
        drop(second);
    });
}
