//! Threads of a machine's list are asked, under every schedule.

use chanter::prelude::*;
use chanter::thread::{AnyThread, Group, Progress, this};

/// A thread with two children, one of them a parasite, and a grandchild.
fn family() -> Thread<()> {
    spawn(async {
        spawn_parasite(never::<()>().into_future());
        spawn(async {
            spawn(never::<()>().into_future());
            never::<()>().await;
        });
        never::<()>().await;
    })
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 1, schedules = 20_000))]
async fn a_subtree_is_cancelled_whatever_it_does() {
    let root = family();
    yield_now().await;
    let machine = Machine::current().unwrap();
    let found = machine.thread(root.id().unwrap()).unwrap().family();
    assert!((1..=4).contains(&found.len()) && found[0] == root.any());
    let answers: Vec<_> = found.iter().map(AnyThread::cancel).collect();
    for answer in answers {
        answer.await.unwrap();
    }
    assert!(found.iter().all(|thread| thread.progress() == Progress::Determined));
    assert!(root.await.unwrap_err().is_cancelled());
    // A child that was spawned later is found among those that are left.
    let me = this().unwrap();
    while let Some(thread) = me.family().into_iter().find(|thread| *thread != me) {
        drop(thread.cancel().await);
    }
    assert_eq!(machine.threads().unwrap().living(), 1);
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 1, schedules = 20_000))]
async fn one_delayed_thread_is_touched_by_two_and_runs_once() {
    let lazy = delay(async {
        yield_now().await;
        7
    });
    let other = lazy.clone();
    let reader = spawn(async move { *other.touch().await.unwrap() });
    assert_eq!(*lazy.touch().await.unwrap(), 7);
    assert_eq!(reader.await.unwrap(), 7);
    assert_eq!(lazy.await.unwrap(), 7);
}

#[chanter::test(explore(strategy = "exhaustive", preemptions = 1, schedules = 20_000))]
async fn a_group_is_cancelled_with_those_that_its_members_are_about_to_spawn() {
    let group = Group::new();
    let root = group.spawn(async {
        spawn_parasite(never::<()>().into_future());
        spawn(async {
            yield_now().await;
            spawn(never::<()>().into_future());
            never::<()>().await;
        });
        never::<()>().await;
    });
    yield_now().await;
    let known = group.members();
    group.cancel().await;
    assert!(known.iter().all(AnyThread::is_determined));
    assert_eq!(group.living(), 0);
    assert!(root.await.unwrap_err().is_cancelled());
    assert_eq!(Machine::current().unwrap().threads().unwrap().living(), 1);
}
