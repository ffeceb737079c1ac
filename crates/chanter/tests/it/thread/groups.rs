//! Groups: threads that are asked together, their children included.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use chanter::prelude::*;
use chanter::thread::{Activity, AnyThread, Fluid, Group, this};

use crate::common::{alone, apart, eventually, machine, poll, until};

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

/// The other worker is busy when the first binding is made, and makes parasites the short way.
#[test]
fn parasites_are_members_on_whatever_processor_they_are_spawned() {
    static NUMBER: Fluid<u32> = Fluid::new();
    machine(2).block_on(async {
        let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (over, counted) = (Arc::clone(&is_over), Arc::clone(&rounds));
        let busy = Thread::builder().on(1).spawn(async move {
            while !over.load(SeqCst) {
                spawn_parasite(async {});
                counted.fetch_add(1, SeqCst);
                yield_now().await;
            }
        });
        until("the other worker is at work", || rounds.load(SeqCst) > 10_000).await;
        let group = Group::new();
        let spawns = async {
            let seen = IVar::new();
            let there = seen.clone();
            spawn_parasite(async move {
                there.put(NUMBER.get()).unwrap();
                never::<()>().await;
            });
            seen.get().await
        };
        let spawner = NUMBER.bind_blocking(7, || group.enter(|| Thread::builder().on(1).spawn(spawns)));
        until("it has spawned", || spawner.is_determined()).await;
        assert_eq!(spawner.await.unwrap(), Some(7));
        assert_eq!(group.living(), 1, "the parasite is there, and its spawner is over");
        is_over.store(true, SeqCst);
        busy.await.unwrap();
        group.cancel().await;
    });
}

#[test]
fn a_member_that_spawns_into_its_own_group_is_there_once() {
    alone(async {
        let group = Group::new();
        let own = group.clone();
        let member = group.spawn(async move {
            let child = own.spawn(async { 1 });
            let grandchild = own.enter(|| Group::new().enter(|| own.spawn(never::<()>().into_future())));
            assert_eq!(own.living(), 3);
            grandchild.cancel().await.unwrap();
            child.await.unwrap()
        });
        assert_eq!(member.await.unwrap(), 1);
        assert_eq!((group.living(), group.members().len()), (0, 0));
        group.join().await;
    });
}

#[test]
fn several_join_and_some_give_up() {
    alone(async {
        let group = Group::new();
        group.spawn(never::<()>().into_future());
        let join = || {
            let group = group.clone();
            spawn(async move { group.join().await })
        };
        let (one, given_up, other) = (join(), join(), join());
        yield_now().await;
        given_up.cancel().await.unwrap();
        group.cancel().await;
        one.await.unwrap();
        other.await.unwrap();
    });
}

/// The last member ends in the middle of the scheduler, which cannot unwind.
#[test]
fn a_foreign_waker_that_panics_harms_nobody() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of another executor");
        }
    }
    apart!();
    let machine = machine(1);
    let group = Group::new();
    let (tx, rx) = channel::<()>();
    group.enter(|| drop(machine.spawn(rx.into_recv())));
    let mut join = pin!(group.join());
    let waker = Waker::from(Arc::new(Panics));
    assert_eq!(join.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    tx.send(()).sync_blocking().unwrap();
    eventually("the member ends", || group.living() == 0);
    assert_eq!(join.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
}

/// The delayed member ends with its last handle, in no turn of its own, and its destructor takes its time.
#[test]
fn a_cancellation_waits_for_members_that_nobody_can_ask_any_more() {
    struct Slow(Receiver<()>, Sender<()>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.1.send(()).sync_blocking().unwrap();
            self.0.recv().sync_blocking().unwrap();
        }
    }
    let (machine, group) = (machine(2), Group::new());
    let ((tx, rx), (tx_begun, begun)) = (channel(), channel());
    let slow = Slow(rx, tx_begun);
    let lazy = machine.block_on(async { group.enter(|| delay(async move { drop(slow) })) });
    let dropper = std::thread::spawn(move || drop(lazy));
    begun.recv().sync_blocking().unwrap();
    let mut cancel = Box::pin(group.cancel());
    assert!(poll(&mut cancel).is_pending());
    tx.send(()).sync_blocking().unwrap();
    dropper.join().unwrap();
    assert!(poll(&mut cancel).is_ready());
}

#[test]
fn ten_thousand_are_suspended() {
    machine(2).block_on(async {
        let group = Group::new();
        let many = if cfg!(miri) { 10 } else { 10_000 };
        for _ in 0..many {
            group.spawn(never::<()>().into_future());
        }
        group.suspend().await;
        assert_eq!(group.resume(), many);
        group.cancel().await;
    });
}
