//! `ChoiceSet`: what it chooses, whom it leaves alone, and how it ends.

use crate::common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use chanter::prelude::*;
use chanter::{ChoiceSet, TrySendError, event::Key};
use common::{Ledger, Payload, Random, Wakes, alone, eventually, machine, millis, watchdog};

type Got<T> = Result<T, Closed>;

/// A set of receives, one for each channel.
fn receiving<'a, T: Send + 'a>(receivers: &'a [Receiver<T>]) -> (ChoiceSet<'a, Got<T>>, Vec<Key>) {
    let mut set = ChoiceSet::new();
    let keys = receivers.iter().map(|rx| set.insert(move || rx.recv())).collect();
    (set, keys)
}

/// One synchronization that does not wait.
fn now<T>(set: &mut ChoiceSet<'_, T>) -> Option<(Key, T)> {
    let mut next = pin!(set.next().sync());
    match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(got) => Some(got),
        Poll::Pending => None,
    }
}

/// Offers are made.
fn link<T>(set: &mut ChoiceSet<'_, T>) {
    assert!(now(set).is_none());
}

#[test]
fn it_yields_what_comes_and_from_whom() {
    watchdog!();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..5).map(|_| bounded(4)).unzip();
    let (mut set, keys) = receiving(&receivers);
    for round in 0..3 {
        for at in [3, 0, 4] {
            // Alternately before it waits, and while its offers are in queues.
            senders[at].try_send((round, at)).unwrap();
            assert_eq!(set.next().sync_blocking(), (keys[at], Ok((round, at))));
        }
    }
    assert!(now(&mut set).is_none());
    assert_eq!(set.len(), 5);
}

/// The point of the set: a rendezvous while it waits, and none while it rests.
#[test]
fn nothing_is_granted_to_a_set_that_nobody_waits_for() {
    watchdog!();
    let (tx, rx) = channel();
    let receivers = [rx];
    let (mut set, _) = receiving(&receivers);
    link(&mut set);
    assert!(matches!(tx.try_send(1), Err(TrySendError::Full(1))), "nobody waits");
    {
        let (wakes, waker) = Wakes::new();
        let mut next = pin!(set.next().sync());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        tx.try_send(2).unwrap();
        assert_eq!(wakes.count(), 1, "woken by the commit");
        match next.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready((_, got)) => assert_eq!(got, Ok(2)),
            Poll::Pending => panic!("committed"),
        }
    }
    assert!(matches!(tx.try_send(3), Err(TrySendError::Full(3))));
    assert!(matches!(tx.try_send(4), Err(TrySendError::Full(4))), "passed over twice");
    // A sender that waits is served by the next synchronization.
    let mut send = pin!(tx.send(5).sync());
    assert!(send.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(now(&mut set).map(|(_, got)| got), Some(Ok(5)));
    assert!(send.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// A set that rests takes nothing away from those that wait.
#[test]
fn others_get_what_a_resting_set_does_not_want() {
    watchdog!();
    let (tx, rx) = channel();
    let receivers = [rx.clone()];
    let (mut set, _) = receiving(&receivers);
    // First in the queue, but asleep.
    link(&mut set);
    let mut other = pin!(rx.recv().sync());
    assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tx.try_send(7).unwrap();
    assert_eq!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(7)));
    assert!(now(&mut set).is_none());
}

#[test]
fn a_message_that_was_committed_to_a_dropped_next_goes_back() {
    watchdog!();
    let (tx, rx) = bounded(4);
    let receivers = [rx.clone()];
    let (mut set, keys) = receiving(&receivers);
    {
        let mut next = pin!(set.next().sync());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tx.try_send(1).unwrap();
        tx.try_send(2).unwrap();
    }
    // It is not in the set, where nobody else could get at it.
    assert_eq!(rx.try_recv(), Ok(1), "at the head of the channel");
    assert_eq!(now(&mut set), Some((keys[0], Ok(2))));
}

/// A send that was taken has happened, and a time that has come has come, even
/// if nobody took the news.
#[test]
fn a_send_or_a_tick_that_was_committed_to_a_dropped_next_lasts() {
    watchdog!();
    let (tx, rx) = channel();
    let mut made = 0;
    let mut set = ChoiceSet::new();
    set.insert(|| {
        made += 1;
        tx.send(made)
    });
    {
        let mut next = pin!(set.next().sync());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(rx.try_recv(), Ok(1));
    }
    assert!(rx.try_recv().is_err(), "the next is made when this one has been taken");
    assert_eq!(now(&mut set).map(|(_, sent)| sent), Some(Ok(())));
    {
        let mut next = pin!(set.next().sync());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(rx.try_recv(), Ok(2));
    }
    drop(set);
    assert_eq!(made, 2);

    let answer = IVar::new();
    let mut set = ChoiceSet::new();
    let asked = answer.clone();
    set.insert_once(move || asked.get());
    {
        let mut next = pin!(set.next().sync());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        answer.put(5).unwrap();
    }
    assert_eq!(now(&mut set).map(|(_, answer)| answer), Some(5));
    assert!(set.is_empty());
}

#[test]
fn a_message_that_waits_to_be_sent_is_neither_lost_nor_doubled() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = channel::<Payload>();
    let (_quiet, silent) = channel::<()>();
    {
        let mut next = 0;
        let made = Arc::clone(&ledger);
        let mut set = ChoiceSet::new();
        set.insert(|| {
            next += 1;
            tx.send(made.payload(next)).wrap(|sent| sent.is_ok())
        });
        set.insert(|| silent.recv().wrap(|_| false));
        link(&mut set);
        for round in 1..10 {
            // Passed over while it rests, several times.
            for _ in 0..round % 3 {
                assert!(rx.try_recv().is_err());
            }
            let mut wanted = pin!(rx.recv().sync());
            assert!(wanted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(now(&mut set).map(|(_, sent)| sent), Some(true));
            match wanted.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(payload)) => assert_eq!(payload.id, round),
                _ => panic!("sent"),
            }
            link(&mut set);
        }
    }
    ledger.check();
}

#[test]
fn a_closed_channel_is_told_once_and_leaves() {
    watchdog!();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mailbox::<u32>()).unzip();
    let (mut set, keys) = receiving(&receivers);
    link(&mut set);
    senders[1].try_send(1).unwrap();
    let mut senders = senders.into_iter();
    drop(senders.next());
    drop(senders.next());
    let mut got = [now(&mut set).unwrap(), now(&mut set).unwrap(), now(&mut set).unwrap()];
    got.sort_by_key(|(key, got)| (*key, got.is_err()));
    assert_eq!(got, [(keys[0], Err(Closed)), (keys[1], Ok(1)), (keys[1], Err(Closed))]);
    assert!(!set.contains(keys[0]) && !set.contains(keys[1]) && set.contains(keys[2]));
    assert!(now(&mut set).is_none());
    drop(senders);
    assert_eq!(set.next().sync_blocking(), (keys[2], Err(Closed)));
    assert!(set.is_empty());
    assert!(now(&mut set).is_none(), "an empty set never commits");

    let (tx, rx) = channel();
    let mut set = ChoiceSet::new();
    set.insert(|| tx.send("kept"));
    link(&mut set);
    drop(rx);
    assert_eq!(set.next().sync_blocking().1, Err(SendError("kept")));
    assert!(set.is_empty());
}

/// The law: members of every kind, beside each other.
#[test]
fn members_of_all_kinds() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel();
        let (give, given) = channel::<u32>();
        let answer = IVar::new();
        let mut set: ChoiceSet<'_, &str> = ChoiceSet::new();
        set.insert(move || rx.clone().into_recv().wrap(|_: Got<u32>| "received"));
        set.insert(move || give.clone().into_send(1).wrap(|_| "sent"));
        let asked = answer.clone();
        set.insert_once(move || asked.get().wrap(|()| "written"));
        let clock = set.insert(|| after(millis(5)).wrap(|()| "tick"));
        let worker = spawn(async { 3 });
        set.insert_once(move || worker.join().wrap(|three| if three.is_ok() { "joined" } else { "lost" }));

        assert_eq!(set.next().await.1, "joined");
        assert_eq!(set.next().await, (clock, "tick"));
        let other = spawn(async move { given.recv().await });
        assert_eq!(set.next().await.1, "sent");
        assert_eq!(other.join().await.unwrap(), Ok(1));
        answer.put(()).unwrap();
        let mut rest = vec![set.next().await.1];
        let sender = spawn(async move { tx.send(2).await });
        while !rest.contains(&"received") || !rest.contains(&"written") {
            rest.push(set.next().await.1);
        }
        sender.join().await.unwrap().unwrap();
        rest.retain(|what| !["tick", "sent"].contains(what));
        rest.sort_unstable();
        // Both closed channels are told as well, once each at most.
        rest.dedup();
        assert_eq!(rest, ["received", "written"]);
    });
}

/// It runs on from one synchronization to the next.
#[test]
fn a_timer_is_a_clock() {
    watchdog!();
    alone(async {
        let (tx, rx) = mailbox();
        let mut set = ChoiceSet::new();
        set.insert(|| rx.recv().wrap(|_| false));
        set.insert(|| after(millis(30)).wrap(|()| true));
        let begun = now_();
        let mut messages = 0;
        loop {
            tx.try_send(()).unwrap();
            if set.next().await.1 {
                break;
            }
            messages += 1;
            assert!(now_() < begun + millis(10_000), "messages keep the time from passing");
        }
        assert!(now_() >= begun + millis(30) && messages > 0);
    });
}

fn now_() -> std::time::Instant {
    chanter::now()
}

#[test]
fn a_time_limit_on_each() {
    watchdog!();
    alone(async {
        let (tx, rx) = mailbox();
        let receivers = [rx];
        let (mut set, _) = receiving(&receivers);
        for round in 0..3 {
            assert_eq!(set.next().timeout(millis(2)).await, None);
            tx.try_send(round).unwrap();
            assert_eq!(set.next().timeout(millis(10_000)).await.map(|(_, got)| got), Some(Ok(round)));
        }
    });
}

/// In a choice, either side wins, and the other keeps what it has.
#[test]
fn it_composes() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel();
        let (stop, stopped) = channel();
        let receivers = [rx];
        let (mut set, _) = receiving(&receivers);
        let sender = spawn(async move {
            let mut sent = 0;
            for n in 0..200 {
                sent += u32::from(tx.send(n).await.is_ok());
                if n % 7 == 0 {
                    stop.send(n).await.unwrap();
                }
            }
            sent
        });
        let (mut got, mut stops) = (Vec::new(), Vec::new());
        while got.len() + stops.len() < 200 + 29 {
            let event =
                (set.next().wrap(|(_, got)| Ok(got.unwrap())), stopped.recv().wrap(|at| Err(at.unwrap())));
            match choose(event).await {
                Ok(n) => got.push(n),
                Err(at) => stops.push(at),
            }
        }
        assert_eq!(got, (0..200).collect::<Vec<_>>());
        assert_eq!(stops, (0..200).step_by(7).collect::<Vec<_>>());
        assert_eq!(sender.join().await.unwrap(), 200);
    });
}

/// The losers of a choice that the set wins are told, and the other way round.
#[test]
fn losers_beside_a_set_are_told() {
    watchdog!();
    let (tx, rx) = bounded(1);
    let receivers = [rx.clone()];
    let (mut set, _) = receiving(&receivers);
    tx.try_send(1).unwrap();
    let mut aborted = false;
    let got = choose((set.next().wrap(|(_, got)| got), never().on_abort(|| aborted = true))).sync_blocking();
    assert!(got == Ok(1) && aborted);
    let lost = AtomicBool::new(false);
    let loser = set.next().wrap(|_| ()).on_abort(|| lost.store(true, Ordering::SeqCst));
    choose_biased((always(()), loser)).sync_blocking();
    assert!(lost.into_inner());
    tx.try_send(2).unwrap();
    assert_eq!(rx.try_recv(), Ok(2));
}

/// A choice never matches itself: not a member another one, nor what stands
/// beside the set, in either order.
#[test]
fn a_set_never_matches_itself() {
    watchdog!();
    let (tx, rx) = channel();
    let mut set = ChoiceSet::new();
    set.insert(|| tx.send(1).wrap(|_| "member sent"));
    set.insert(|| rx.recv().wrap(|_| "member received"));
    for _ in 0..3 {
        assert!(now(&mut set).is_none());
    }
    // A partner from outside, for each.
    assert!(tx.try_send(2).is_err() && rx.try_recv().is_err());
    for _ in 0..3 {
        assert!(now(&mut set).is_none());
    }
    drop(set);

    let mut set = ChoiceSet::new();
    set.insert(|| rx.recv().wrap(|_| "member received"));
    for _ in 0..2 {
        {
            let beside = choose((set.next().wrap(|(_, what)| what), tx.send(3).wrap(|_| "beside sent")));
            let mut sync = pin!(beside.sync());
            for _ in 0..2 {
                assert!(sync.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
        }
        let beside = choose((tx.send(3).wrap(|_| "beside sent"), set.next().wrap(|(_, what)| what)));
        let mut sync = pin!(beside.sync());
        for _ in 0..2 {
            assert!(sync.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    // Two sets in one choice.
    let mut other = ChoiceSet::new();
    other.insert(|| tx.send(4).wrap(|_| "other sent"));
    for _ in 0..3 {
        let mut sync = pin!(choose((set.next(), other.next())).sync());
        assert!(sync.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    // But one set matches another one that another thread waits for.
    let mut mine = pin!(set.next().sync());
    assert!(mine.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(now(&mut other).map(|(_, what)| what), Some("other sent"));
    assert!(mine.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// Members that are always ready take turns: INV of the docs ("Fair").
#[test]
fn members_that_stay_ready_take_turns() {
    watchdog!();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..10).map(|_| mailbox()).unzip();
    let (mut set, keys) = receiving(&receivers);
    link(&mut set);
    for tx in &senders {
        for n in 0..100 {
            tx.try_send(n).unwrap();
        }
    }
    for n in 0..100 {
        let mut round: Vec<Key> = (0..10)
            .map(|_| now(&mut set).unwrap())
            .map(|(key, got)| {
                assert_eq!(got, Ok(n));
                key
            })
            .collect();
        round.sort_unstable();
        assert_eq!(round, keys, "each once in ten");
    }
}

#[test]
fn members_come_and_go() {
    watchdog!();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..40).map(|_| bounded(1)).unzip();
    let mut set = ChoiceSet::new();
    let mut random = Random::new(7);
    let mut keys: Vec<Option<Key>> = vec![None; 40];
    let mut full = [false; 40];
    let mut received = 0;
    for step in 0..20_000 {
        let at = random.below(40);
        match random.below(4) {
            0 => match keys[at].take() {
                Some(key) => assert!(set.remove(key) && !set.remove(key) && !set.contains(key)),
                None => {
                    let rx = &receivers[at];
                    keys[at] = Some(set.insert(move || rx.recv()));
                }
            },
            1 => {
                assert_eq!(senders[at].try_send((at, step)).is_err(), full[at]);
                full[at] = true;
            }
            _ => match now(&mut set) {
                Some((key, Ok((from, _)))) => {
                    assert_eq!(keys[from], Some(key));
                    assert!(std::mem::take(&mut full[from]));
                    received += 1;
                }
                Some((_, Err(Closed))) => panic!("all are open"),
                None => assert!((0..40).all(|at| keys[at].is_none() || !full[at])),
            },
        }
        assert_eq!(set.len(), keys.iter().flatten().count());
    }
    assert!(received > 1000);
}

/// Panics of a source or a `wrap` come out of the synchronization, and the set
/// goes on.
#[test]
fn it_survives_panics() {
    watchdog!();
    let (tx, rx) = mailbox();
    let mut calls = 0;
    let mut set = ChoiceSet::new();
    set.insert(|| {
        calls += 1;
        assert!(calls != 2, "planned");
        rx.recv().wrap(|got| {
            let got: i32 = got.unwrap();
            assert!(got != 13, "planned");
            got
        })
    });
    let mut panics = 0;
    let mut got = Vec::new();
    for n in [1, 2, 13, 3] {
        tx.try_send(n).unwrap();
        while !rx.is_empty() {
            match catch_unwind(AssertUnwindSafe(|| now(&mut set))) {
                Ok(next) => got.extend(next.map(|(_, n)| n)),
                Err(_) => panics += 1,
            }
        }
    }
    assert_eq!((got, panics), (vec![1, 2, 3], 2));
}

/// As `it_survives_panics`, when a partner has committed what panics, and in a
/// choice.
#[test]
fn it_survives_panics_beside_others() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = bounded::<Payload>(4);
    let fail = AtomicBool::new(false);
    let mut set = ChoiceSet::new();
    set.insert(|| {
        assert!(!fail.swap(false, Ordering::SeqCst), "planned");
        rx.recv().wrap(|got| got.unwrap().id)
    });
    let poll = |set: &mut ChoiceSet<'_, usize>| {
        let mut sync = pin!(choose((set.next().wrap(|(_, id)| id), never())).sync());
        catch_unwind(AssertUnwindSafe(|| sync.as_mut().poll(&mut Context::from_waker(Waker::noop()))))
    };
    fail.store(true, Ordering::SeqCst);
    assert!(poll(&mut set).is_err());
    assert!(poll(&mut set).unwrap().is_pending());
    tx.try_send(ledger.payload(1)).unwrap();
    assert_eq!(poll(&mut set).unwrap(), Poll::Ready(1));
    fail.store(true, Ordering::SeqCst);
    tx.try_send(ledger.payload(2)).unwrap();
    assert!(poll(&mut set).is_err());
    assert_eq!(poll(&mut set).unwrap(), Poll::Ready(2));
    drop(set);
    ledger.check();
}

/// A synchronization that was leaked while it waited: its commit goes back.
#[test]
fn a_leaked_next_does_no_harm() {
    watchdog!();
    let (tx, rx) = channel();
    let (mut set, _) = {
        let mut set = ChoiceSet::new();
        let key = set.insert(move || rx.clone().into_recv());
        (set, key)
    };
    let mut next = Box::pin(set.next().sync());
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::mem::forget(next);
    tx.try_send(1).unwrap();
    assert_eq!(now(&mut set).map(|(_, got)| got), Some(Ok(1)));
    let mut next = Box::pin(set.next().sync());
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::mem::forget(next);
    tx.try_send(2).unwrap();
    drop(set);
    assert!(tx.is_closed(), "its receiver went with the set");
}

/// Polled by one executor after another: each is woken, the old ones are not.
#[test]
fn it_moves_between_executors() {
    watchdog!();
    let (tx, rx) = mailbox();
    let receivers = [rx];
    let (mut set, _) = receiving(&receivers);
    for round in 0..3 {
        let (first, one) = Wakes::new();
        let (second, two) = Wakes::new();
        let mut next = pin!(set.next().sync());
        assert!(next.as_mut().poll(&mut Context::from_waker(&one)).is_pending());
        assert!(next.as_mut().poll(&mut Context::from_waker(&two)).is_pending());
        tx.try_send(round).unwrap();
        assert_eq!((first.count(), second.count()), (0, 1));
        assert!(next.as_mut().poll(&mut Context::from_waker(&one)).is_ready());
    }
    let (mut set, tx) = (set, tx);
    for round in 0..50 {
        let sent = tx.clone();
        // In turn: a machine, Tokio, an OS thread; the set goes with them.
        set = std::thread::scope(|scope| {
            let sender = scope.spawn(move || sent.try_send(round).unwrap());
            let work = async move {
                let got = set.next().await.1;
                assert_eq!(got, Ok(round));
                set
            };
            let set = match round % 3 {
                0 => machine(2).block_on(work),
                1 => tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work),
                _ => futures::executor::block_on(work),
            };
            sender.join().unwrap();
            set
        });
    }
}

/// Two virtual processors, tasks of Tokio and an OS thread send; the set's owner
/// drops some of its synchronizations on the way. Every message arrives once, in
/// the order of its sender, in the set or at another receiver.
#[test]
fn nothing_is_lost_between_processors() {
    watchdog!(120);
    const SENDERS: usize = 12;
    const EACH: usize = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        2_000
    } else {
        20_000
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = tokio.handle().clone();
    let ledger = Ledger::new();
    let made = Arc::clone(&ledger);
    let taken = Arc::new(AtomicUsize::new(0));
    machine(2).block_on(async move {
        let mut set = ChoiceSet::new();
        let mut others = Vec::new();
        for at in 0..SENDERS {
            // Rendezvous, bounded, mailbox.
            let (tx, rx) = match at % 3 {
                0 => channel(),
                1 => bounded(2),
                _ => mailbox(),
            };
            if at % 4 == 0 {
                // Another receiver, which competes.
                let (rx, taken) = (rx.clone(), Arc::clone(&taken));
                others.push(spawn(async move {
                    while let Ok((_, _, _payload)) = rx.recv().await {
                        taken.fetch_add(1, Ordering::SeqCst);
                        yield_now().await;
                    }
                }));
            }
            set.insert(move || rx.clone().into_recv().wrap(|got: Got<(usize, usize, Payload)>| got.ok()));
            let ledger = Arc::clone(&made);
            let work = async move {
                for n in 0..EACH {
                    if tx.send((at, n, ledger.payload(n))).await.is_err() {
                        panic!("open");
                    }
                }
            };
            match at % 4 {
                3 => drop(handle.spawn(work)),
                2 if at == 2 => drop(std::thread::spawn(move || futures::executor::block_on(work))),
                _ => drop(spawn(work)),
            }
        }
        let mut last = [None; SENDERS];
        let mut random = Random::new(3);
        while !set.is_empty() {
            let got = match random.below(4) {
                // Polled once, and dropped unless it commits at once.
                0 => now(&mut set).and_then(|(_, got)| got),
                1 => choose((set.next().wrap(|(_, got)| got), always(None))).await,
                2 => set.next().timeout(millis(1)).await.and_then(|(_, got)| got),
                _ => set.next().await.1,
            };
            if let Some((at, n, _payload)) = got {
                assert!(last[at].is_none_or(|last| last < n), "in order");
                last[at] = Some(n);
                taken.fetch_add(1, Ordering::SeqCst);
            }
        }
        for other in others {
            other.join().await.unwrap();
        }
        assert_eq!(taken.load(Ordering::SeqCst), SENDERS * EACH);
    });
    tokio.shutdown_background();
    eventually("all are dropped", || ledger.live() == 0);
    ledger.check();
}

/// Sources in one set, receives in another, on two processors, both dropped at
/// times: the same account.
#[test]
fn two_sets_meet() {
    watchdog!(120);
    const ROUNDS: usize = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        4_000
    } else {
        40_000
    };
    machine(2).block_on(async {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::<usize>()).unzip();
        let stop = IVar::new();
        let stopped = stop.clone();
        let sums = spawn(async move {
            let mut next = [0; 4];
            let mut set = ChoiceSet::new();
            for (at, (tx, next)) in senders.iter().zip(&mut next).enumerate() {
                set.insert(move || {
                    *next += 1;
                    tx.send(4 * *next + at).wrap(move |sent| sent.map(|()| at))
                });
            }
            let mut sent = [0; 4];
            let mut random = Random::new(1);
            loop {
                let event = choose((set.next().wrap(|(_, at)| at.ok()), stopped.get().wrap(|()| None)));
                if random.below(8) == 0 {
                    let mut sync = pin!(event.sync());
                    if let Poll::Ready(Some(at)) = sync.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                    {
                        sent[at] += 1;
                    }
                    yield_now().await;
                    continue;
                }
                let Some(at) = event.await else { break };
                sent[at] += 1;
            }
            sent
        });
        let (mut set, _) = receiving(&receivers);
        let mut received = [0; 4];
        let mut random = Random::new(2);
        for _ in 0..ROUNDS {
            let got = if random.below(8) == 0 { now(&mut set) } else { Some(set.next().await) };
            if let Some((_, Ok(n))) = got {
                received[n % 4] += 1;
                assert_eq!(n / 4, received[n % 4], "in order, once");
            } else {
                yield_now().await;
            }
        }
        stop.put(()).unwrap();
        let sent = sums.join().await.unwrap();
        for at in 0..4 {
            // The last may have been taken at the moment of the stop.
            assert!(received[at] == sent[at] || received[at] == sent[at] + 1, "{received:?} {sent:?}");
        }
        assert!(received.iter().sum::<usize>() > ROUNDS / 4);
    });
}
