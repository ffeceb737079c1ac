//! Asynchronous events: two results, on two threads, and the laws of ACML.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter::{
    TryRecvError,
    event::{AsyncEvent, arecv, asend, asynchronously, choose_later, choose_now, guard_later, guard_now},
};
use common::{Ledger, eventually, machine, millis, poll, watchdog};

/// A list that closures write to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn the_caller_goes_on_at_once() {
    watchdog!();
    machine(1).block_on(async {
        let log = Log::default();
        let (tx, rx) = channel();
        let (now, later) = (log.clone(), log.clone());
        asend(&tx, 1)
            .wrap_now(move |()| now.add("now"))
            .wrap_later(move |sent| later.add(format!("later {sent:?}")))
            .async_sync()
            .await;
        log.add("caller");
        assert_eq!(log.take(), ["now", "caller"]);
        assert_eq!(rx.recv().await, Ok(1));
        yield_now().await;
        assert_eq!(log.take(), ["later Ok(())"]);
        // A partner waits already: all of it happens at once.
        let later = log.clone();
        arecv(&rx).wrap_later(move |got| later.add(format!("got {got:?}"))).async_sync().await;
        asend(&tx, 2).async_sync().await;
        yield_now().await;
        assert_eq!(log.take(), ["got Ok(2)"]);
        // The channel closes meanwhile: the later part learns it.
        let later = log.clone();
        asend(&tx, 3).wrap_later(move |sent| later.add(format!("{sent:?}"))).async_sync().await;
        rx.close();
        yield_now().await;
        assert_eq!(log.take(), [format!("{:?}", Err::<(), _>(SendError(3)))]);
    });
}

#[test]
fn asynchronous_sends_keep_their_order() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        for n in 0..100 {
            asend(&tx, n).async_sync().await;
        }
        for n in 0..100 {
            assert_eq!(rx.recv().await, Ok(n));
        }
    });
}

#[test]
fn parasites_by_default_and_hosts_on_request() {
    watchdog!();
    let machine = machine(1);
    let (tx, rx) = mailbox();
    let (tx2, rx2) = mailbox();
    let start = machine.stats();
    machine.block_on(async move {
        asend(&tx, 1).async_sync().await;
        asend(&tx2, 1).wrap_later(|_| ()).wrap_now(|()| ()).async_sync().await;
        asend(&tx2, 1).promise().async_sync().await.1.recv().await.unwrap().unwrap();
    });
    let parasites = machine.stats();
    assert_eq!(parasites.parasites_created - start.parasites_created, 2);
    assert_eq!(parasites.offered - start.offered, 1, "a send without a later part is no thread");
    let (tx, rx3) = mailbox();
    machine.block_on(async move {
        asend(&tx, 1).on_hosts().async_sync().await;
        asend(&tx, 1).wrap_later(|_| ()).on_hosts().wrap_now(|()| ()).async_sync().await;
        choose_later((asend(&tx, 1), asend(&tx, 1))).on_hosts().async_sync().await;
        yield_now().await;
    });
    let hosts = machine.stats();
    assert_eq!(hosts.parasites_created, parasites.parasites_created);
    assert!(hosts.hosts_created - parasites.hosts_created >= 3);
    assert_eq!((rx.len(), rx2.len(), rx3.len()), (1, 2, 3));
}

/// Laws: wraps compose, and the wraps of the two parts commute.
#[test]
fn wraps_compose_and_commute() {
    watchdog!();
    machine(1).block_on(async {
        let results = Log::default();
        let keep = |log: &Log| {
            let log = log.clone();
            move |n: u32| log.add(n.to_string())
        };
        let base = || asynchronously(always(5u32));
        let twice = base().wrap_now(|()| 1).wrap_now(|n| n + 1).wrap_later(|n| n * 2).wrap_later(|n| n + 1);
        let once = base().wrap_later(|n| n * 2 + 1).wrap_now(|()| 2);
        assert_eq!(twice.wrap_later(keep(&results)).async_sync().await, 2);
        assert_eq!(once.wrap_later(keep(&results)).async_sync().await, 2);
        assert_eq!(results.take(), ["11", "11"]);
    });
}

/// Law: `asynchronously(e).into_event()` is always ready, and initiates.
#[test]
fn into_event_is_ready_and_takes_part_in_choices() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let got = choose((asend(&tx, 7).wrap_now(|()| "initiated").into_event(), never()));
        assert_eq!(got.await, "initiated");
        assert_eq!(rx.try_recv(), Ok(7));
        // Not chosen: nothing is initiated.
        let not = choose_biased((always("other"), asend(&tx, 8).wrap_now(|()| "initiated").into_event()));
        assert_eq!(not.await, "other");
        yield_now().await;
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        // There and back: `sTrans` of `aTrans` initiates, on another thread.
        asynchronously(asynchronously(tx.into_send(9)).into_event()).async_sync().await;
        assert_eq!(rx.try_recv(), Ok(9));
    });
}

/// Law: `choose_now([asynchronously(e)])` is `e`, and its later part.
#[test]
fn choose_now_waits_for_one_commit() {
    watchdog!();
    machine(1).block_on_local(async {
        let log = Log::default();
        let ((a, from_a), (b, from_b)) = (channel::<u32>(), channel::<u32>());
        let (la, lb) = (log.clone(), log.clone());
        let event = choose_now((
            arecv(&from_a).wrap_now(|()| "a").wrap_later(move |n| la.add(format!("a {n:?}"))),
            arecv(&from_b).wrap_now(|()| "b").wrap_later(move |n| lb.add(format!("b {n:?}"))),
        ));
        let mut waits = Box::pin(event.async_sync());
        assert!(poll(&mut waits).is_pending());
        assert!(log.take().is_empty());
        b.try_send(2).unwrap();
        assert_eq!(waits.await, "b");
        assert_eq!(log.take(), ["b Ok(2)"]);
        assert!(a.try_send(1).is_err(), "the loser never happened");
        let lists = choose_now(vec![asynchronously(always(1)), asynchronously(always(1))]);
        lists.wrap_later(|n| assert_eq!(n, 1)).async_sync().await;
        let mut none = Box::pin(choose_now([asynchronously(never::<u32>())]).async_sync());
        assert!(poll(&mut none).is_pending());
    });
}

#[test]
fn choose_later_is_made_by_another_thread() {
    watchdog!();
    machine(1).block_on(async {
        let log = Log::default();
        let ((a, from_a), (b, from_b)) = (channel::<u32>(), channel::<u32>());
        let keep = log.clone();
        let event = choose_later((
            arecv(&from_a).wrap_later(|n| n.unwrap()),
            arecv(&from_b).wrap_now(|()| panic!("now wraps are not run")).wrap_later(|n| 10 * n.unwrap()),
        ));
        event.wrap_later(move |n| keep.add(n.to_string())).async_sync().await;
        assert!(log.take().is_empty());
        b.try_send(2).unwrap();
        yield_now().await;
        assert_eq!(log.take(), ["20"]);
        assert!(a.try_send(1).is_err(), "the loser never happened");
        // The set is nested in the choice that waits, so it waits for the outer choice.
        let ((c, from_c), (_d, from_d)) = (channel::<u32>(), channel::<u32>());
        let inner = choose_later([arecv(&from_c), arecv(&from_d)]);
        let mut outer = Box::pin(choose_now([inner]).async_sync());
        assert!(poll(&mut outer).is_pending());
        c.try_send(1).unwrap();
        outer.await;
    });
}

#[test]
fn guards_run_on_their_own_side() {
    watchdog!();
    machine(2).block_on(async {
        let here = std::thread::current().id();
        let (log, keep) = (Log::default(), Log::default());
        let now = log.clone();
        let event = guard_now(move || {
            assert_eq!(std::thread::current().id(), here);
            now.add("made");
            asynchronously(always(1))
        });
        assert!(log.take().is_empty());
        event.async_sync().await;
        assert_eq!(log.take(), ["made"]);
        // Law: it is `asynchronously(guard(make))`.
        let (gate, opened) = channel::<()>();
        let later = keep.clone();
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let event = asynchronously(opened.into_recv());
        let chain = guard_later(move || {
            count.fetch_add(1, Ordering::SeqCst);
            always(5)
        });
        chain.wrap_later(move |n| later.add(n.to_string())).on_hosts().async_sync().await;
        event.async_sync().await;
        gate.send(()).await.unwrap();
        while keep.take() != ["5"] {
            yield_now().await;
        }
        assert_eq!(made.load(Ordering::SeqCst), 1);
        let both = choose_now((guard_now(|| asynchronously(always(1))), asynchronously(never())));
        both.async_sync().await;
    });
}

#[test]
fn a_promise_is_the_later_result() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let (now, later) = arecv(&rx).wrap_now(|()| "now").promise().async_sync().await;
        assert_eq!((now, later.try_recv()), ("now", Err(TryRecvError::Empty)));
        tx.send(4).await.unwrap();
        assert_eq!(later.recv().await, Ok(Ok(4)));
        assert_eq!(later.recv().await, Err(Closed));
        // Nobody wants it: it is dropped; a panic: it never comes.
        drop(arecv(&rx).promise().async_sync().await);
        tx.send(5).await.unwrap();
        let ((), broken) = asynchronously(always(()))
            .wrap_later(|()| -> u32 { panic!("reported") })
            .promise()
            .async_sync()
            .await;
        assert_eq!(broken.recv().await, Err(Closed));
    });
}

#[test]
fn a_panic_later_is_not_the_callers() {
    watchdog!();
    machine(1).block_on(async {
        asynchronously(always(())).wrap_later(|()| panic!("reported, and that is all")).async_sync().await;
        let now = asynchronously(always(())).wrap_now(|()| -> u32 { panic!("the caller's") });
        assert!(catch_unwind(AssertUnwindSafe(|| now.into_event().sync_blocking())).is_err());
    });
}

#[test]
fn outside_of_a_machine_it_is_refused_before_anything_happens() {
    watchdog!();
    let (tx, rx) = mailbox();
    tx.try_send(1).unwrap();
    let refused = |f: Box<dyn FnOnce() + '_>| {
        let payload = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        payload.downcast_ref::<String>().expect("a message").contains("on a machine")
    };
    assert!(refused(Box::new(|| arecv(&rx).into_event().sync_blocking())));
    assert!(refused(Box::new(|| choose_now([arecv(&rx)]).into_event().sync_blocking())));
    assert!(refused(Box::new(|| choose_later([arecv(&rx)]).into_event().sync_blocking())));
    assert_eq!(rx.len(), 1);
}

/// Dropped at every await, ended with the machine, or done: every message is
/// dropped once, and none is lost.
#[test]
fn nothing_is_lost_or_leaked() {
    watchdog!();
    for polls in 0..3 {
        for receives in 0..3 {
            let ledger = Ledger::new();
            let machine = machine(1);
            machine.block_on(async {
                let (tx, rx) = channel();
                let events = choose_now([asend(&tx, ledger.payload(0)), asend(&tx, ledger.payload(1))]);
                let mut waits = Box::pin(events.async_sync());
                let mut done = false;
                for turn in 0..polls {
                    done = done || poll(&mut waits).is_ready();
                    if turn < receives {
                        assert_ne!(rx.try_recv().is_ok(), done);
                    }
                    yield_now().await;
                }
                drop(waits);
                asend(&tx, ledger.payload(2)).async_sync().await;
                asend(&tx, ledger.payload(3)).on_hosts().async_sync().await;
                after(millis(1)).await;
                if receives > 0 {
                    assert_eq!(rx.recv().await.unwrap().id, 2);
                }
            });
            drop(machine);
            ledger.check();
        }
    }
}

#[test]
fn many_on_two_processors() {
    watchdog!();
    let machine = machine(2);
    let sum = Arc::new(AtomicUsize::new(0));
    let keep = Arc::clone(&sum);
    const MANY: usize = 5000;
    machine.block_on(async move {
        let (tx, rx) = channel();
        let receiver = spawn(async move {
            for _ in 0..MANY {
                let keep = Arc::clone(&keep);
                arecv(&rx)
                    .wrap_later(move |n| keep.fetch_add(n.unwrap(), Ordering::SeqCst))
                    .async_sync()
                    .await;
            }
            rx
        });
        for n in 0..MANY {
            let send = asend(&tx, n);
            if n % 2 == 0 { send.async_sync().await } else { send.on_hosts().async_sync().await }
        }
        let _rx = receiver.join().await.unwrap();
        while sum.load(Ordering::SeqCst) != MANY * (MANY - 1) / 2 {
            yield_now().await;
        }
        eventually("all have been received", || sum.load(Ordering::SeqCst) == MANY * (MANY - 1) / 2);
    });
}

#[test]
fn who_initiates_one_after_the_other_lets_others_run() {
    watchdog!();
    machine(1).block_on(async {
        let done = Arc::new(AtomicUsize::new(0));
        let other = Arc::clone(&done);
        spawn(async move { other.store(1, Ordering::SeqCst) });
        while done.load(Ordering::SeqCst) == 0 {
            asynchronously(always(())).async_sync().await;
        }
    });
}
