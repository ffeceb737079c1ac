//! Groups: threads that are asked together, their children included.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use chanter::prelude::*;
use chanter::thread::{Activity, AnyThread, Group, this};

use crate::common::{alone, machine, until};

/// Goes on for ever, and counts its turns.
async fn turns(count: Arc<AtomicUsize>) {
    loop {
        count.fetch_add(1, SeqCst);
        yield_now().await;
    }
}

#[test]
fn a_group_is_suspended_resumed_and_cancelled_with_all_children() {
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let group = Group::new();
            let count = Arc::new(AtomicUsize::new(0));
            let roots: Vec<_> = (0..8)
                .map(|_| {
                    let count = Arc::clone(&count);
                    group.spawn(async move {
                        for _ in 0..4 {
                            spawn(turns(Arc::clone(&count)));
                            spawn_parasite(never::<()>().into_future());
                            yield_now().await;
                        }
                        turns(count).await;
                    })
                })
                .collect();
            let bystander = spawn(never::<()>().into_future());
            until("all are there", || group.living() == 72).await;
            group.suspend().await;
            let members = group.members();
            assert_eq!(members.len(), 72);
            assert!(members.iter().all(|thread| thread.activity() == Activity::Suspended));
            let before = count.load(SeqCst);
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(count.load(SeqCst), before, "they stand still");
            assert_eq!(group.resume(), 72);
            until("they go on", || count.load(SeqCst) > before).await;
            group.cancel().await;
            assert!(members.iter().all(AnyThread::is_determined));
            assert_eq!(group.living(), 0);
            for root in roots {
                assert!(root.await.unwrap_err().is_cancelled());
            }
            // Nobody joins any more.
            assert!(group.spawn(never::<()>().into_future()).await.unwrap_err().is_cancelled());
            group.join().await;
            assert!(!bystander.is_determined());
        });
    }
}

#[test]
fn ten_thousand_threads_that_spawn_are_cancelled() {
    fn spawns(depth: u32, born: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            born.fetch_add(1, SeqCst);
            for _ in 0..if depth == 0 { 0 } else { 10 } {
                spawn(spawns(depth - 1, Arc::clone(&born)));
                yield_now().await;
            }
            never::<()>().await;
        })
    }
    machine(2).block_on(async {
        let (group, born) = (Group::new(), Arc::new(AtomicUsize::new(0)));
        let root = group.spawn(spawns(if cfg!(miri) { 1 } else { 4 }, Arc::clone(&born)));
        // In the middle of their births.
        let some = if cfg!(miri) { 3 } else { 5_000 };
        until("some are there", || born.load(SeqCst) > some).await;
        group.cancel().await;
        assert_eq!(group.living(), 0);
        assert!(root.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn a_join_waits_for_children_that_are_spawned_meanwhile() {
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (group, done) = (Group::new(), Arc::new(AtomicU32::new(0)));
            let counted = Arc::clone(&done);
            group.spawn(async move {
                yield_now().await;
                for _ in 0..10 {
                    let done = Arc::clone(&counted);
                    spawn_parasite(async move {
                        yield_now().await;
                        spawn(async move {
                            yield_now().await;
                            done.fetch_add(1, SeqCst);
                        });
                    });
                }
            });
            group.join().await;
            assert_eq!(done.load(SeqCst), 10);
        });
    }
}

#[test]
fn members_are_freed_and_a_group_holds_nobody() {
    alone(async {
        let held = Arc::new(());
        let group = Group::new();
        let inside = Arc::clone(&held);
        let lazy = group.enter(|| delay(async move { drop(inside) }));
        assert_eq!(group.living(), 1);
        group.suspend().await;
        // The group is no handle of a delayed thread.
        drop(lazy);
        assert_eq!((Arc::strong_count(&held), group.living()), (1, 0));
        for _ in 0..100 {
            let inside = Arc::clone(&held);
            group.spawn(async move { drop(inside) }).await.unwrap();
        }
        assert_eq!((Arc::strong_count(&held), group.living()), (1, 0));
        // Threads outlive their group.
        let thread = group.spawn(async { 5 });
        drop(group);
        assert_eq!(thread.await.unwrap(), 5);
    });
}

#[test]
fn groups_nest_and_a_member_cancels_the_others() {
    alone(async {
        let (outer, inner) = (Group::new(), Group::new());
        let (of_inner, of_outer) = (inner.clone(), outer.clone());
        let member = outer.spawn(async move {
            of_inner.spawn(never::<()>().into_future());
            spawn(never::<()>().into_future());
            yield_now().await;
            assert_eq!((of_outer.living(), of_inner.living()), (3, 1));
            of_outer.cancel().await;
            assert!(of_outer.members() == [this().unwrap()]);
            7
        });
        assert_eq!(member.await.unwrap(), 7);
        assert_eq!((outer.living(), inner.living()), (0, 0));
        assert!(outer != inner && outer == outer.clone());
    });
}
