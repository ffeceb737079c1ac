//! `guard` and `with_nack`: when they run, and when losers are told.

use crate::common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use chanter::prelude::*;
use common::{machine, millis, poll, watchdog};

/// A branch that keeps its nack for us, around `event`.
fn told<E: Event>(place: &Arc<Mutex<Option<Nack>>>, event: E) -> impl Event<Output = E::Output> + use<E> {
    let place = Arc::clone(place);
    with_nack(move |nack| {
        assert!(place.lock().unwrap().replace(nack).is_none(), "made twice");
        event
    })
}

fn place() -> Arc<Mutex<Option<Nack>>> {
    Arc::default()
}

fn is_enabled(place: &Arc<Mutex<Option<Nack>>>) -> bool {
    let nack = place.lock().unwrap().clone().expect("with_nack was forced");
    let enabled = nack.is_enabled();
    assert_eq!(nack.clone().try_sync().is_some(), enabled);
    enabled
}

#[test]
fn guards_run_once_for_each_synchronization() {
    watchdog!();
    let runs = AtomicUsize::new(0);
    let (_tx, rx) = channel::<()>();
    let event = || {
        guard(|| {
            runs.fetch_add(1, Ordering::Relaxed);
            rx.recv()
        })
    };
    // Making and dropping an event runs nothing.
    drop(event());
    drop(event().sync());
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    let mut sync = Box::pin(event().sync());
    for _ in 0..5 {
        assert_eq!(poll(&mut sync), Poll::Pending);
    }
    drop(sync);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(event().try_sync(), None);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    // A guard that can be cloned can be reused.
    let twice = guard(|| {
        runs.fetch_add(1, Ordering::Relaxed);
        always(1)
    });
    assert_eq!(twice.clone().sync_blocking() + twice.sync_blocking(), 2);
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

/// Also when the scheduler makes the thread wait for its next turn.
#[test]
fn guards_run_once_when_the_budget_is_spent() {
    watchdog!();
    machine(1).block_on_local(async {
        let runs = Cell::new(0);
        for n in 1..=3000 {
            guard(|| {
                runs.set(runs.get() + 1);
                always(())
            })
            .await;
            assert_eq!(runs.get(), n);
        }
    });
}

#[test]
fn guards_run_before_anything_is_polled() {
    watchdog!();
    // The last branch's guard fills the mailbox that the first looks at.
    let (tx, rx) = mailbox();
    let event = choose_biased((
        rx.recv(),
        always(Ok(2)),
        guard(|| {
            tx.try_send(1).unwrap();
            never()
        }),
    ));
    assert_eq!(event.sync_blocking(), Ok(1));
}

#[test]
fn guards_run_in_order_inside_of_everything() {
    watchdog!();
    let order = Mutex::new(Vec::new());
    let mark = |n: u32| {
        let order = &order;
        guard(move || {
            order.lock().unwrap().push(n);
            never::<u32>()
        })
    };
    let event = choose((
        mark(0),
        choose([mark(1), mark(2)]),
        mark(3).wrap(|n| n),
        choose(vec![choose((mark(4),)).boxed(), guard(|| mark(5)).boxed()]),
        with_nack(|_| mark(6)),
        always(9),
    ));
    assert_eq!(event.sync_blocking(), 9);
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_nack_is_enabled_when_another_branch_commits_at_once() {
    watchdog!();
    let (loser, winner) = (place(), place());
    let event = choose_biased((told(&winner, always(1)), told(&loser, always(2))));
    assert_eq!(event.sync_blocking(), 1);
    assert!(is_enabled(&loser));
    assert!(!is_enabled(&winner));
}

#[test]
fn a_nack_is_enabled_when_another_branch_commits_late() {
    watchdog!();
    machine(1).block_on(async {
        let (loser, winner) = (place(), place());
        let (tx, rx) = channel::<u32>();
        let (_silent, quiet) = channel::<u32>();
        let event = choose((told(&winner, rx.into_recv()), told(&loser, quiet.into_recv())));
        let host = spawn(event.into_future());
        yield_now().await;
        assert!(!is_enabled(&loser));
        // A thread waits for the nack.
        let nack = loser.lock().unwrap().clone().unwrap();
        let waiter = spawn(nack.into_future());
        yield_now().await;
        assert!(!waiter.is_determined());
        tx.send(3).await.unwrap();
        assert_eq!(host.join().await.unwrap(), Ok(3));
        waiter.join().await.unwrap();
        assert!(is_enabled(&loser));
        assert!(!is_enabled(&winner));
    });
}

#[test]
fn a_nack_is_enabled_when_the_synchronization_is_dropped() {
    watchdog!();
    let (_tx, rx) = channel::<u32>();
    // Before the first poll nobody has made it, so nobody is told.
    let never_made = place();
    drop(told(&never_made, rx.recv()).sync());
    assert!(never_made.lock().unwrap().is_none());
    // After the first poll.
    let there = place();
    let mut sync = Box::pin(told(&there, rx.recv()).sync());
    assert!(poll(&mut sync).is_pending());
    assert!(!is_enabled(&there));
    drop(sync);
    assert!(is_enabled(&there));
    // The same in a choice, nested, boxed.
    let (a, b, c) = (place(), place(), place());
    let mut sync = Box::pin(
        choose((
            told(&a, rx.recv()).boxed(),
            told(&b, choose([told(&c, rx.recv()).boxed(), never().boxed()])).boxed(),
        ))
        .sync(),
    );
    assert!(poll(&mut sync).is_pending());
    drop(sync);
    assert!(is_enabled(&a) && is_enabled(&b) && is_enabled(&c));
}

#[test]
fn a_nack_is_enabled_when_try_sync_finds_nothing() {
    watchdog!();
    let (_tx, rx) = channel::<u32>();
    let there = place();
    assert_eq!(told(&there, rx.recv()).try_sync(), None);
    assert!(is_enabled(&there));
    let (win, lose) = (place(), place());
    assert_eq!(choose_biased((told(&lose, rx.recv()), told(&win, always(Ok(1))))).try_sync(), Some(Ok(1)));
    assert!(is_enabled(&lose));
    assert!(!is_enabled(&win));
}

#[test]
fn a_nack_is_enabled_when_a_guard_panics() {
    watchdog!();
    let bad = || guard(|| -> chanter::event::Always<u32> { panic!("a guard's panic") });
    // A later guard panics, at a poll, in try_sync, in sync_blocking.
    let there = place();
    let mut sync = Box::pin(choose((told(&there, never()), bad())).sync());
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sync))).is_err());
    drop(sync);
    assert!(is_enabled(&there));
    let there = place();
    assert!(catch_unwind(AssertUnwindSafe(|| choose((told(&there, always(1)), bad())).try_sync())).is_err());
    assert!(is_enabled(&there));
    let there = place();
    assert!(
        catch_unwind(AssertUnwindSafe(|| choose((told(&there, always(1)), bad())).sync_blocking())).is_err()
    );
    assert!(is_enabled(&there));
    // Its own maker panics.
    let there = place();
    let keep = there.clone();
    let event = with_nack(move |nack| -> chanter::event::Always<u32> {
        *keep.lock().unwrap() = Some(nack);
        panic!("a maker's panic")
    });
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert!(is_enabled(&there));
}

#[test]
fn a_nack_is_never_enabled_if_its_branch_is_chosen() {
    watchdog!();
    // Not even when the wrap panics, or the nack outlives everything.
    let there = place();
    assert_eq!(told(&there, always(1)).sync_blocking(), 1);
    assert!(!is_enabled(&there));
    let there = place();
    let event = told(&there, always(1).wrap(|_| -> u32 { panic!("a wrap's panic") }));
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert!(!is_enabled(&there));
    let there = place();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let host = spawn(choose((told(&there, rx.into_recv()), never())).into_future());
        yield_now().await;
        tx.send(1).await.unwrap();
        host.join().await.unwrap().unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!is_enabled(&there));
        let nack = there.lock().unwrap().clone().unwrap();
        assert!(choose((nack.wrap(|()| false), after(millis(20)).wrap(|()| true))).await);
    });
}

#[test]
fn nested_nacks_follow_their_own_branches() {
    watchdog!();
    for winner in 0..3 {
        let (outer, inner) = (place(), place());
        let leaf = |n: usize| if n == winner { always(n).boxed() } else { never().boxed() };
        let event = choose((told(&outer, choose((told(&inner, leaf(0)), leaf(1)))), leaf(2)));
        assert_eq!(event.sync_blocking(), winner);
        assert_eq!(is_enabled(&inner), winner != 0);
        assert_eq!(is_enabled(&outer), winner == 2);
    }
}

#[test]
fn nacks_in_lists_follow_their_own_branches() {
    watchdog!();
    for winner in 0..5 {
        let places: Vec<_> = (0..5).map(|_| place()).collect();
        let list: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(n, place)| told(place, if n == winner { always(n).boxed() } else { never().boxed() }))
            .collect();
        assert_eq!(choose(list).sync_blocking(), winner);
        for (n, place) in places.iter().enumerate() {
            assert_eq!(is_enabled(place), n != winner);
        }
    }
}

#[test]
fn every_waiter_of_a_nack_is_told_for_ever() {
    watchdog!();
    machine(2).block_on(async {
        let there = place();
        let (_tx, rx) = channel::<u32>();
        let mut sync = Box::pin(told(&there, rx.recv()).sync());
        assert!(poll(&mut sync).is_pending());
        let nack = there.lock().unwrap().clone().unwrap();
        let waiters: Vec<_> = (0..100)
            .map(|n| {
                let nack = nack.clone();
                // Half of them in a choice; some leave before.
                spawn(async move {
                    match n % 3 {
                        0 => nack.await,
                        1 => choose((nack, never())).await,
                        _ => choose((nack.wrap(|()| ()), after(millis(1)))).await,
                    }
                })
            })
            .collect();
        after(millis(5)).await;
        drop(sync);
        for waiter in waiters {
            waiter.join().await.unwrap();
        }
        nack.await;
    });
}

/// The paper's example: a server that is told when its client has gone, and
/// undoes the work.
#[test]
fn an_rpc_server_cancels_on_a_nack() {
    watchdog!();
    struct Request {
        work: u64,
        reply: Sender<u64>,
        nack: Nack,
    }
    const HOUR: u64 = 3_600_000;
    for vps in [1, 2] {
        let (cancelled, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        machine(vps).block_on(async {
            let (server, requests) = mailbox::<Request>();
            let counts = (cancelled.clone(), answered.clone());
            let serving = spawn(async move {
                let mut jobs = Vec::new();
                while let Ok(request) = requests.recv().await {
                    let (cancelled, answered) = counts.clone();
                    jobs.push(spawn(async move {
                        after(millis(request.work)).await;
                        let event = choose((
                            request.reply.send(request.work * 2).wrap(|r| r.is_ok()),
                            request.nack.wrap(|()| false),
                        ));
                        // A reply may also fail: the client's receiver went
                        // with the loser.
                        if event.await {
                            answered.fetch_add(1, Ordering::Relaxed);
                        } else {
                            cancelled.fetch_add(1, Ordering::Relaxed);
                        }
                    }));
                }
                for job in jobs {
                    job.join().await.unwrap();
                }
            });
            let call = |work: u64| {
                let server = server.clone();
                with_nack(move |nack| {
                    let (reply, answer) = channel();
                    server.try_send(Request { work, reply, nack }).unwrap();
                    answer.into_recv().wrap(Result::unwrap)
                })
            };
            for _ in 0..20 {
                let quick = choose((call(1), call(HOUR).wrap(|_| 0)));
                assert_eq!(quick.await, 2);
                let timed = choose((call(HOUR).wrap(Some), after(millis(2)).wrap(|()| None)));
                assert_eq!(timed.await, None);
            }
            // The slow ones need not run to their end: the machine's end
            // does it. But the quick ones are through.
            while answered.load(Ordering::Relaxed) < 20 {
                yield_now().await;
            }
            drop(serving);
        });
        assert_eq!(answered.load(Ordering::Relaxed), 20);
        assert_eq!(cancelled.load(Ordering::Relaxed), 0);
    }
}

/// A client that goes away before the answer: the server's work stops early.
#[test]
fn a_server_stops_working_for_nobody() {
    watchdog!();
    machine(1).block_on(async {
        let (server, requests) = mailbox::<(Sender<u32>, Nack)>();
        let stopped = spawn(async move {
            let mut stopped = 0;
            while let Ok((reply, nack)) = requests.recv().await {
                let work = after(millis(3_600_000)).wrap(|()| true);
                if choose((work, nack.wrap(|()| false))).await {
                    reply.send(1).await.unwrap();
                } else {
                    stopped += 1;
                }
            }
            stopped
        });
        for _ in 0..50 {
            let server = server.clone();
            let call = with_nack(move |nack| {
                let (reply, answer) = channel();
                server.try_send((reply, nack)).unwrap();
                answer.into_recv().wrap(|r| r.ok())
            });
            assert_eq!(choose((call, after(millis(1)).wrap(|()| None))).await, None);
        }
        drop(server);
        assert_eq!(stopped.join().await.unwrap(), 50);
    });
}

#[test]
fn nacks_wake_os_threads() {
    watchdog!();
    for _ in 0..200 {
        let there = place();
        let (_tx, rx) = channel::<u32>();
        let mut sync = Box::pin(told(&there, rx.recv()).sync());
        assert!(poll(&mut sync).is_pending());
        let nack = there.lock().unwrap().clone().unwrap();
        let waiter = std::thread::spawn(move || nack.sync_blocking());
        drop(sync);
        waiter.join().unwrap();
    }
}
