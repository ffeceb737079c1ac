//! `gather` and its kin: all results in order, and what becomes of them when
//! the gathering does not.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chanter::event::{gather_k, gather_on_hosts};
use chanter::prelude::*;
use common::{Ledger, Random, eventually, machine, millis, poll, until, watchdog};

#[test]
fn all_results_in_order() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            assert_eq!(gather([always(1), always(2), always(3)]).await, [1, 2, 3]);
            assert_eq!(gather_on_hosts(vec![always(1), always(2)]).await, [1, 2]);
            assert_eq!(gather((always(1), always("two"), always(3.0))).await, (1, "two", 3.0));
            assert_eq!(gather(Vec::<BoxEvent<'static, u32>>::new()).await, [0u32; 0]);
            let none: [BoxEvent<'static, u32>; 0] = [];
            assert_eq!(gather(none).await, [0u32; 0]);
            // They commit in the opposite order.
            let times = [30, 20, 10].map(|n| after(millis(n)).wrap(move |()| n));
            assert_eq!(gather(times.clone()).await, [30, 20, 10]);
            assert_eq!(gather_on_hosts(times).await, [30, 20, 10]);
        });
    }
}

#[test]
fn tuples_of_every_size() {
    watchdog!();
    machine(1).block_on(async {
        macro_rules! tuple {
            ($($n:literal)*) => { assert_eq!(gather(($(always($n),)*)).await, ($($n,)*)) };
        }
        tuple!(0);
        tuple!(0 1);
        tuple!(0 1 2);
        tuple!(0 1 2 3);
        tuple!(0 1 2 3 4);
        tuple!(0 1 2 3 4 5);
        tuple!(0 1 2 3 4 5 6);
        tuple!(0 1 2 3 4 5 6 7);
        tuple!(0 1 2 3 4 5 6 7 8);
        tuple!(0 1 2 3 4 5 6 7 8 9);
        tuple!(0 1 2 3 4 5 6 7 8 9 10);
        tuple!(0 1 2 3 4 5 6 7 8 9 10 11);
    });
}

/// Law: a gather yields the same values as one event after another may yield. Here the partners insist on an order
/// that only a gather can follow.
#[test]
fn the_order_of_the_partners_does_not_matter() {
    watchdog!();
    for hosts in [false, true] {
        machine(2).block_on(async move {
            let ((a, from_a), (b, from_b)) = (channel(), channel());
            let partner = spawn(async move {
                b.send(2).await.unwrap();
                a.send(1).await.unwrap();
            });
            let events = (from_a.into_recv(), from_b.into_recv());
            let got = if hosts { gather_on_hosts(events).await } else { gather(events).await };
            assert_eq!(got, (Ok(1), Ok(2)));
            partner.join().await.unwrap();
        });
    }
}

#[test]
fn it_composes() {
    watchdog!();
    machine(2).block_on(async {
        let (_tx, rx) = channel::<u32>();
        let pair = || gather((always(1), always(2))).wrap(|(a, b)| a + b);
        assert_eq!(choose((pair(), rx.recv().wrap(Result::unwrap))).await, 3);
        assert_eq!(guard(pair).await, 3);
        assert_eq!(gather((pair(), gather([pair(), pair()]))).await, (3, [3, 3]));
        assert_eq!(gather((always(1), never::<()>())).wrap(|_| 0).boxed().by(Instant::now()).await, None);
        assert_eq!(pair().clone().sync_blocking(), 3);
        // On a thread of its own, and on a foreign executor inside of one.
        assert_eq!(spawn(async move { pair().await }).join().await.unwrap(), 3);
        assert_eq!(futures::executor::block_on(pair().sync()), 3);
    });
    // The machine has one processor. If another one searched for work, a member might become a host, and take longer.
    machine(1).block_on(async {
        assert_eq!(gather((always(1), always(2))).try_sync(), Some((1, 2)));
    });
}

#[test]
fn parasites_by_default_and_hosts_on_request() {
    watchdog!();
    let machine = machine(1);
    let before = machine.stats();
    machine.block_on(async {
        for _ in 0..10 {
            gather([always(1), always(2), always(3), always(4)]).await;
        }
    });
    let between = machine.stats();
    assert_eq!(between.parasites_created - before.parasites_created, 40);
    assert_eq!(between.reified, before.reified, "none had to wait");
    machine.block_on(async { gather_on_hosts([always(1), always(2), always(3), always(4)]).await });
    assert!(machine.stats().hosts_created - between.hosts_created >= 4);
}

#[test]
fn not_chosen_retracts_what_has_not_committed() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        for hosts in [false, true] {
            let (tx, rx) = channel::<u32>();
            let told = Arc::new(Mutex::new(None));
            let keep = Arc::clone(&told);
            let listens = {
                let rx = rx.clone();
                with_nack(move |nack| {
                    *keep.lock().unwrap() = Some(nack);
                    rx.into_recv()
                })
            };
            let events = (listens, never::<()>());
            let both = if hosts { gather_on_hosts(events) } else { gather(events) };
            let mut waits = Box::pin(both.sync());
            assert!(poll(&mut waits).is_pending());
            yield_now().await;
            let nack = told.lock().unwrap().take().expect("begun");
            assert!(!nack.is_enabled());
            drop(waits);
            assert!(nack.is_enabled());
            assert!(tx.try_send(1).is_err(), "nobody listens any more");
        }
    });
    // The threads are gone, not only silent: their frames hold no channel.
    let ledger = Ledger::new();
    machine.block_on(async {
        let (tx, rx) = channel();
        let payload = ledger.payload(0);
        let event = rx.into_recv().wrap(move |message: Result<(), Closed>| {
            drop(payload);
            message
        });
        assert!(choose((gather([event]).wrap(|_| ()), always(()))).try_sync().is_some());
        drop(tx);
    });
    ledger.check();
}

#[test]
fn what_has_committed_can_be_reclaimed() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (tx, rx) = mailbox();
            tx.try_send(7).unwrap();
            let back = Arc::new(Mutex::new(None));
            let keep = Arc::clone(&back);
            let event = gather((never::<()>(), rx.clone().into_recv(), always("x")))
                .reclaim(move |partial| *keep.lock().unwrap() = Some(partial));
            let mut waits = Box::pin(event.sync());
            assert!(poll(&mut waits).is_pending());
            assert!(back.lock().unwrap().is_none());
            // On two processors a member may be at work elsewhere.
            until("the message is taken", || rx.is_empty()).await;
            drop(waits);
            until("it comes back", || back.lock().unwrap().is_some()).await;
            let mut partial = back.lock().unwrap().take().unwrap();
            if vps > 1 {
                partial.2 = Some("x");
            }
            assert_eq!(partial, (None, Some(Ok(7)), Some("x")));
            // Chosen: nothing to reclaim. Nothing committed: neither.
            let no = |_| panic!("nothing is to be reclaimed");
            assert_eq!(gather([always(1)]).reclaim(no).await, [1]);
            let no = |_| panic!("nothing is to be reclaimed");
            assert!(gather([never::<u32>()]).reclaim(no).try_sync().is_none());
        });
    }
}

#[test]
fn a_panic_is_the_gatherers() {
    watchdog!();
    machine(1).block_on(async {
        for hosts in [false, true] {
            let (tx, rx) = channel::<u32>();
            let back = Arc::new(AtomicUsize::new(0));
            let keep = Arc::clone(&back);
            let bad = after(millis(2)).wrap(|()| -> u32 { panic!("a wrap of a gathered event") });
            let events = (rx.into_recv(), bad, always(3));
            let event = if hosts { gather_on_hosts(events) } else { gather(events) };
            let event = event.reclaim(move |partial: (Option<_>, Option<u32>, Option<u32>)| {
                keep.fetch_add(partial.2.unwrap_or(0) as usize, Ordering::SeqCst);
            });
            let payload = catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"a wrap of a gathered event"));
            assert_eq!(back.load(Ordering::SeqCst), 3, "what had committed came back");
            assert!(tx.try_send(1).is_err(), "what had not was retracted");
        }
        let guarded = gather((guard(|| -> chanter::event::Never<()> { panic!("a guard") }), always(1)));
        assert!(catch_unwind(AssertUnwindSafe(|| guarded.sync_blocking())).is_err());
    });
}

#[test]
fn outside_of_a_machine_it_is_refused_before_anything_happens() {
    watchdog!();
    let (tx, rx) = mailbox();
    tx.try_send(1).unwrap();
    let payload =
        catch_unwind(AssertUnwindSafe(|| gather([rx.clone().into_recv()]).sync_blocking())).unwrap_err();
    let message = payload.downcast_ref::<String>().expect("a message");
    assert!(message.contains("on a machine"), "{message}");
    assert_eq!(rx.try_recv(), Ok(1));
}

/// Dropped at each step, on the gatherer's side and the members': nothing is
/// lost, doubled or leaked. `reclaim` sends back what has been taken.
#[test]
fn dropped_at_every_step() {
    watchdog!();
    for hosts in [false, true] {
        for commits in 0..=3usize {
            for settle in 0..4 {
                let ledger = Ledger::new();
                machine(1).block_on(async {
                    let (tx, rx) = channel();
                    let (home, back) = mailbox();
                    let events = [rx.clone().into_recv(), rx.clone().into_recv(), rx.clone().into_recv()];
                    let gather = if hosts { gather_on_hosts(events) } else { gather(events) };
                    let gather = gather.reclaim(move |partial| {
                        partial.into_iter().flatten().for_each(|m| home.try_send(m.unwrap()).unwrap());
                    });
                    let mut waits = Some(Box::pin(gather.sync()));
                    let mut done = waits.as_mut().map(poll).unwrap();
                    yield_now().await;
                    for id in 0..commits {
                        tx.try_send(ledger.payload(id)).unwrap();
                    }
                    // Members run, or not; the gatherer looks, or not.
                    for _ in 0..settle {
                        yield_now().await;
                        if done.is_pending() {
                            done = waits.as_mut().map(poll).unwrap();
                        }
                    }
                    drop(waits.take());
                    let finished = usize::from(done.is_ready()) * 3;
                    drop(done);
                    yield_now().await;
                    let mut found = finished;
                    while back.try_recv().is_ok() {
                        found += 1;
                    }
                    while rx.try_recv().is_ok() {
                        found += 1;
                    }
                    assert_eq!(found, commits, "hosts {hosts}, settle {settle}");
                });
                ledger.check();
            }
        }
    }
}

/// Gatherings that are dropped at random moments while two processors feed
/// them: each message is gathered, reclaimed or still there.
#[test]
fn no_message_is_lost_on_two_processors() {
    watchdog!(120);
    let machine = machine(2);
    let rounds: u64 = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        300
    } else {
        2000
    };
    let total = machine.block_on(async move {
        let (home, back) = mailbox::<u64>();
        let channels: Vec<_> = (0..4).map(|_| channel::<u64>()).collect();
        let feeders: Vec<_> = (channels.iter().map(|(tx, _)| tx.clone()))
            .map(|tx| {
                spawn(async move {
                    let mut sent = 0;
                    for n in 0..rounds {
                        if tx.send(n).await.is_err() {
                            break;
                        }
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        let receivers: Vec<_> = channels.into_iter().map(|(_, rx)| rx).collect();
        let mut random = Random::new(42);
        let mut got = 0u64;
        let mut closed = false;
        while !closed {
            let home = home.clone();
            let events = receivers.iter().cloned().map(Receiver::into_recv).collect::<Vec<_>>();
            let gather = if random.below(2) == 0 { gather(events) } else { gather_on_hosts(events) };
            let gather = gather.reclaim(move |partial| {
                partial.into_iter().flatten().flatten().for_each(|n| home.try_send(n).unwrap());
            });
            let mut waits = Box::pin(gather.sync());
            for _ in 0..random.below(5) {
                match poll(&mut waits) {
                    std::task::Poll::Ready(results) => {
                        got += results.iter().flatten().count() as u64;
                        closed = results.iter().all(Result::is_err);
                        break;
                    }
                    std::task::Poll::Pending => yield_now().await,
                }
            }
            // Polled to the end it may not be dropped twice; here it just goes.
            drop(waits);
        }
        let mut sent = 0;
        for feeder in feeders {
            sent += feeder.join().await.unwrap();
        }
        (got, sent, home, back)
    });
    let (got, sent, home, back) = total;
    let found = AtomicUsize::new(got as usize);
    eventually("every message is accounted for", || {
        while back.try_recv().is_ok() {
            found.fetch_add(1, Ordering::SeqCst);
        }
        found.load(Ordering::SeqCst) as u64 == sent
    });
    assert_eq!(sent, 4 * rounds);
    drop(home);
}

#[test]
fn a_machine_that_ends_ends_its_gatherings() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = machine(2);
    let payload = ledger.payload(0);
    let thread = machine.spawn(async move {
        let event = never::<()>().wrap(move |()| drop(payload));
        gather((event, never::<()>())).await
    });
    std::thread::sleep(millis(20));
    drop(machine);
    assert!(thread.join().sync_blocking().unwrap_err().is_cancelled());
    ledger.check();
}

#[test]
fn the_first_k_and_nothing_of_the_rest() {
    watchdog!();
    machine(2).block_on(async {
        for k in 0..=5usize {
            let queues: Vec<_> = (0..4).map(|_| mailbox()).collect();
            queues.iter().enumerate().for_each(|(n, (tx, _))| tx.try_send(n).unwrap());
            let first = gather_k(k, queues.iter().map(|(_, rx)| rx.recv().wrap(Result::unwrap))).all().await;
            assert_eq!(first.len(), k.min(4));
            assert!(first.iter().all(|(place, n)| place == n));
            for (n, (_, rx)) in queues.iter().enumerate() {
                assert_ne!(first.iter().any(|(place, _)| *place == n), rx.len() == 1, "exactly one of both");
            }
        }
    });
}

#[test]
fn k_of_n_or_nothing() {
    watchdog!();
    let queues: Vec<_> = (0..4).map(|_| mailbox()).collect();
    let events = || queues.iter().map(|(_, rx)| rx.recv().wrap(Result::unwrap));
    queues[2].0.try_send(2).unwrap();
    queues[0].0.try_send(0).unwrap();
    let soon = || Instant::now() + millis(10);
    machine(1).block_on(async {
        let mut fewer = gather_k(3, events()).or_nothing(soon()).await.unwrap_err().results;
        fewer.sort_unstable();
        assert_eq!(fewer, [(0, 0), (2, 2)]);
        for (place, n) in fewer {
            queues[place].0.try_send(n).unwrap();
        }
        assert_eq!(gather_k(2, events()).or_nothing(soon()).await.unwrap().len(), 2);
        // More than there are is never enough; nothing always is.
        let all = gather_k(2, [always(1)]).or_nothing(soon()).await;
        assert_eq!(all.unwrap_err().results, [(0, 1)]);
        assert!(gather_k(0, events()).or_nothing(Instant::now()).await.unwrap().is_empty());
        // A member that is ready at the deadline counts.
        let late = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(gather_k(2, [always(1), always(2)]).or_nothing(late).await.unwrap().len(), 2);
    });
}

/// Dropping the wait keeps what has come, and the next wait goes on.
#[test]
fn a_dropped_wait_for_k_goes_on() {
    watchdog!();
    let queues: Vec<_> = (0..3).map(|_| mailbox()).collect();
    let mut first = gather_k(3, queues.iter().map(|(_, rx)| rx.recv()));
    for (n, (tx, _)) in queues.iter().enumerate() {
        let done = {
            let mut wait = Box::pin(first.wait());
            assert!(poll(&mut wait).is_pending());
            tx.try_send(n).unwrap();
            // Polled again, or dropped with the message committed to it.
            if n == 1 { poll(&mut wait).is_ready() } else { false }
        };
        assert!(!done);
    }
    let mut wait = Box::pin(first.wait());
    assert!(poll(&mut wait).is_ready());
    drop(wait);
    let (results, left) = first.into_parts();
    assert_eq!((results.len(), left.len()), (3, 0));
    assert!(results.iter().all(|(place, n)| *n == Ok(*place)));
}

#[test]
fn gathering_k_waits_for_late_ones() {
    watchdog!();
    machine(2).block_on(async {
        let events = [50, 10, 30, 20].map(|n| after(millis(n)).wrap(move |()| n));
        assert_eq!(gather_k(2, events).all().await, [(1, 10), (3, 20)]);
    });
}

/// As an event: it wins with the `k`-th, or gives back what has come.
#[test]
fn the_first_k_compete() {
    watchdog!();
    let queues: Vec<_> = (0..4).map(|_| mailbox()).collect();
    let events = || queues.iter().map(|(_, rx)| rx.recv().wrap(Result::unwrap));
    let (stop, stopped) = mailbox::<()>();
    for wins in [true, false] {
        let undone = Mutex::new(Vec::new());
        let few = gather_k(2, events()).event_or_else(|few| undone.lock().unwrap().extend(few));
        let mut waits = Box::pin(choose((few.wrap(Some), stopped.recv().wrap(|_| None))).sync());
        assert!(poll(&mut waits).is_pending());
        queues[3].0.try_send(3).unwrap();
        assert!(poll(&mut waits).is_pending());
        if wins {
            queues[1].0.try_send(1).unwrap()
        } else {
            stop.try_send(()).unwrap()
        }
        let expected = wins.then(|| vec![(3, 3), (1, 1)]);
        assert_eq!(poll(&mut waits), std::task::Poll::Ready(expected));
        drop(waits);
        assert_eq!(*undone.lock().unwrap(), if wins { vec![] } else { vec![(3, 3)] });
    }
    // Dropped without having been chosen; and with nothing to give back.
    let undone = AtomicUsize::new(0);
    let count = |few: Vec<(usize, i32)>| {
        undone.fetch_add(few.len(), Ordering::SeqCst);
    };
    queues[0].0.try_send(0).unwrap();
    let mut waits = Box::pin(gather_k(2, events()).event_or_else(count).sync());
    assert!(poll(&mut waits).is_pending());
    drop(waits);
    assert_eq!(undone.load(Ordering::SeqCst), 1);
    assert_eq!(gather_k(1, events()).event_or_else(|_| panic!("nothing has come")).try_sync(), None);
    assert_eq!(gather_k(1, [always(1)]).event().sync_blocking(), [(0, 1)]);
}
