//! `on_abort`: when the action runs, and that nothing can stop it or be
//! stopped by it.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chanter::event::{Ageing, choose_earliest, optional, wrap_abort};
use chanter::prelude::*;
use common::{Ledger, machine, millis, poll, watchdog};

/// How often an action has run.
fn counter() -> (Arc<AtomicUsize>, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&count);
    (count, move || read.load(Ordering::SeqCst))
}

fn bump(count: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let count = Arc::clone(count);
    move || {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_chosen_event_does_not_abort() {
    watchdog!();
    let (count, runs) = counter();
    assert_eq!(always(1).on_abort(bump(&count)).sync_blocking(), 1);
    assert_eq!(always(2).on_abort(bump(&count)).try_sync(), Some(2));
    assert_eq!(wrap_abort(choose((always(3), never())), bump(&count)).sync_blocking(), 3);
    let (tx, rx) = channel();
    let mut late = Box::pin(choose((rx.recv().on_abort(bump(&count)), never())).sync());
    assert!(poll(&mut late).is_pending());
    tx.try_send(4).unwrap();
    assert!(poll(&mut late).is_ready());
    drop(late);
    assert_eq!(runs(), 0);
}

#[test]
fn each_way_to_lose_aborts_once() {
    watchdog!();
    let (count, runs) = counter();
    // Another branch, at once and after a wait.
    assert_eq!(choose_biased((never().on_abort(bump(&count)), always(1))).sync_blocking(), 1);
    assert_eq!(runs(), 1);
    let late = after(millis(5)).wrap(|()| 2);
    assert_eq!(choose((never().on_abort(bump(&count)), late)).sync_blocking(), 2);
    assert_eq!(runs(), 2);
    // Nothing is ready.
    assert_eq!(never::<()>().on_abort(bump(&count)).try_sync(), None);
    assert_eq!(runs(), 3);
    // Dropped while it waits.
    let mut waits = Box::pin(never::<()>().on_abort(bump(&count)).sync());
    assert!(poll(&mut waits).is_pending());
    assert_eq!(runs(), 3);
    drop(waits);
    assert_eq!(runs(), 4);
    // Dropped when a partner had committed it already: not chosen after all.
    let (tx, rx) = channel();
    let mut waits = Box::pin(rx.recv().on_abort(bump(&count)).sync());
    assert!(poll(&mut waits).is_pending());
    tx.try_send(5).unwrap();
    drop(waits);
    assert_eq!(runs(), 5);
    assert_eq!(rx.try_recv(), Ok(5), "and the message went back");
}

#[test]
fn an_event_that_nobody_synchronizes_on_does_not_abort() {
    watchdog!();
    let (count, runs) = counter();
    drop(always(()).on_abort(bump(&count)));
    // Never polled: it has not begun.
    drop(never::<()>().on_abort(bump(&count)).sync());
    assert_eq!(runs(), 0);
}

/// Law: it aborts exactly where a nack is enabled.
#[test]
fn it_aborts_where_a_nack_is_enabled() {
    watchdog!();
    type Case = (&'static str, fn(BoxEvent<'static, u32>));
    let cases: [Case; 6] = [
        ("chosen", |e| assert!(choose((e, never())).try_sync().is_none_or(|n| n == 1))),
        ("another", |e| assert_eq!(choose_biased((always(7), e)).try_sync(), Some(7))),
        ("alone", |e| assert!(e.try_sync().is_none_or(|n| n == 1))),
        ("unpolled", |e| drop(e.sync())),
        ("dropped", |e| {
            let mut waits = Box::pin(choose((e.wrap(|_| ()), never())).sync());
            let _ = poll(&mut waits);
        }),
        ("panic", |e| {
            let bad = guard(|| -> chanter::event::Never<u32> { panic!("a guard") });
            assert!(catch_unwind(AssertUnwindSafe(|| choose((e, bad)).try_sync())).is_err());
        }),
    ];
    for ready in [false, true] {
        for (name, case) in cases {
            let base = || if ready { always(1).boxed() } else { never().boxed() };
            let (count, runs) = counter();
            case(base().on_abort(bump(&count)).boxed());
            let told = Arc::new(Mutex::new(None));
            let keep = Arc::clone(&told);
            let event = base();
            case(
                with_nack(move |nack| {
                    *keep.lock().unwrap() = Some(nack);
                    event
                })
                .boxed(),
            );
            let enabled = told.lock().unwrap().take().is_some_and(|nack| nack.is_enabled());
            assert_eq!(runs(), usize::from(enabled), "{name}, ready: {ready}");
        }
    }
}

/// An event whose own guard panics is not chosen.
#[test]
fn it_aborts_if_its_guard_panics() {
    watchdog!();
    let (count, runs) = counter();
    let bad = || guard(|| -> chanter::event::Never<u32> { panic!("a guard") }).on_abort(bump(&count));
    assert!(catch_unwind(AssertUnwindSafe(|| bad().try_sync())).is_err());
    assert_eq!(runs(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| choose((always(1), bad())).sync_blocking())).is_err());
    assert_eq!(runs(), 2);
}

/// The order: partners are woken, losers abort, then the winner's wrap runs.
#[test]
fn losers_abort_before_the_winners_wrap() {
    watchdog!();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let (wrapped, inner, outer, other) = (note("wrap"), note("inner"), note("outer"), note("other"));
    choose_biased((
        never().on_abort(inner).on_abort(outer),
        always(()).wrap(move |()| wrapped()),
        choose((never(), never().on_abort(other))),
    ))
    .sync_blocking();
    assert_eq!(*order.lock().unwrap(), ["inner", "outer", "other", "wrap"]);
}

#[test]
fn a_panic_of_an_action_goes_nowhere() {
    watchdog!();
    let (count, runs) = counter();
    let bad = || never::<u32>().on_abort(|| panic!("reported, and that is all"));
    let choice = choose_biased((bad(), never().on_abort(bump(&count)), always(1)));
    assert_eq!(choice.sync_blocking(), 1);
    assert_eq!(runs(), 1, "the next one runs all the same");
    let mut waits = Box::pin(bad().sync());
    assert!(poll(&mut waits).is_pending());
    drop(waits);
}

#[test]
fn a_panic_of_a_wrap_does_not_keep_the_losers() {
    watchdog!();
    let (count, runs) = counter();
    let choice =
        choose_biased((always(()).wrap(|()| -> u32 { panic!("a wrap") }), never().on_abort(bump(&count))));
    assert!(catch_unwind(AssertUnwindSafe(|| choice.sync_blocking())).is_err());
    assert_eq!(runs(), 1);
}

/// No lock is held: the action may use the very channels of the choice.
#[test]
fn an_action_may_use_what_was_chosen_among() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let (back, heard) = channel::<u32>();
        let (other, from_other) = (tx.clone(), rx.clone());
        let waiting = spawn(async move { heard.recv().await });
        yield_now().await;
        let got = choose_biased((
            rx.recv().wrap(Result::unwrap).on_abort(move || {
                assert!(from_other.try_recv().is_err());
                assert!(other.try_send(1).is_err(), "our own offer is gone");
                back.send(9).sync_blocking().unwrap();
            }),
            after(millis(2)).wrap(|()| 5),
        ));
        assert_eq!(got.await, 5);
        assert_eq!(waiting.join().await.unwrap(), Ok(9));
        drop(tx);
    });
}

/// Whatever the number of branches and wherever they are.
#[test]
fn every_container_carries_it() {
    watchdog!();
    let (count, runs) = counter();
    let loser = || never::<u32>().on_abort(bump(&count));
    choose([loser().boxed(), always(1).boxed(), choose(vec![loser(), loser()]).boxed()]).sync_blocking();
    assert_eq!(runs(), 3);
    choose((
        optional(Some(loser())).wrap(|n| n),
        guard(loser),
        with_nack(|_| loser()),
        loser().due(soon()),
        always(0),
    ))
    .sync_blocking();
    assert_eq!(runs(), 7);
    choose_earliest((loser(), always(0))).sync_blocking();
    Ageing::new().choose((loser(), always(0))).sync_blocking();
    assert_eq!(runs(), 9);
}

fn soon() -> std::time::Instant {
    std::time::Instant::now() + millis(1)
}

/// Messages and actions are dropped once, at each point where a
/// synchronization can end.
#[test]
fn nothing_leaks_wherever_it_ends() {
    watchdog!();
    for polls in 0..3 {
        for feed in [false, true] {
            let ledger = Ledger::new();
            let (tx, rx) = channel();
            let action = ledger.payload(0);
            let mut sync = Box::pin(choose((rx.recv().on_abort(move || drop(action)), never())).sync());
            for _ in 0..polls {
                if poll(&mut sync).is_ready() {
                    break;
                }
                if feed {
                    let _ = tx.try_send(ledger.payload(1));
                }
            }
            drop(sync);
            drop((tx, rx));
            ledger.check();
        }
    }
}
