//! `choose` takes a ready branch, is fair, and never matches itself.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chanter::prelude::*;
use chanter::{TryRecvError, TrySendError};
use common::{machine, millis, watchdog};

fn is_send<T: Send>(_: &T) {}

#[test]
fn tuples_of_every_size() {
    watchdog!();
    // The ready one at every place of every size.
    macro_rules! tuple {
        ($($place:literal)*) => {{
            let size = [$($place),*].len();
            for at in 0..size {
                let pick = |place: usize| if place == at { always(place).boxed() } else { never().boxed() };
                assert_eq!(choose(($(pick($place),)*)).sync_blocking(), at);
                assert_eq!(choose(($(pick($place),)*)).try_sync(), Some(at));
                assert_eq!(choose_biased(($(pick($place),)*)).sync_blocking(), at);
            }
        }};
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
}

#[test]
fn tuples_mix_kinds_of_events() {
    watchdog!();
    machine(2).block_on(async {
        let (tx, rx) = channel::<u32>();
        let (busy, _keep) = channel::<u32>();
        let ivar = IVar::<u32>::new();
        let thread = spawn(async {
            after(Duration::from_secs(3600)).await;
            0u32
        });
        let sender = spawn(async move { tx.send(7).await });
        let event = choose((
            rx.recv().wrap(Result::unwrap),
            busy.send(1).wrap(|_| 100),
            ivar.get(),
            thread.join().wrap(Result::unwrap),
            after(Duration::from_secs(3600)).wrap(|()| 101),
            guard(never::<u32>),
            with_nack(|_| never::<u32>()),
        ));
        is_send(&event);
        assert_eq!(event.await, 7);
        sender.join().await.unwrap().unwrap();
    });
}

#[test]
fn arrays_and_vectors_and_boxes() {
    watchdog!();
    assert_eq!(choose([always(3)]).sync_blocking(), 3);
    assert!((0..4).contains(&choose([always(0), always(1), always(2), always(3)]).sync_blocking()));
    assert_eq!(choose(vec![always(9)]).sync_blocking(), 9);
    let list: Vec<BoxEvent<'static, u32>> = vec![
        never().boxed(),
        choose((never(), never())).boxed(),
        after(millis(5)).wrap(|()| 4).boxed(),
        choose(Vec::<BoxEvent<'static, u32>>::new()).boxed(),
    ];
    assert_eq!(choose(list).sync_blocking(), 4);
}

#[test]
fn an_event_may_borrow() {
    watchdog!();
    let text = String::from("borrowed");
    let event = choose((always(()).wrap(|()| text.as_str()), never()));
    assert_eq!(event.sync_blocking(), "borrowed");
    let boxed: BoxEvent<'_, &str> = always(()).wrap(|()| text.as_str()).boxed();
    assert_eq!(boxed.sync_blocking(), "borrowed");
}

#[test]
fn choices_nest_in_every_container() {
    watchdog!();
    // The winner's place is found whatever the widths before it.
    for at in 0..10usize {
        let leaf = |place: usize| if place == at { always(place).boxed() } else { never().boxed() };
        let nested = || {
            choose((
                choose([choose((leaf(0), leaf(1))), choose((leaf(2), leaf(3)))]),
                leaf(4),
                choose(vec![choose(vec![leaf(5)]), choose(vec![]), choose(vec![leaf(6), leaf(7), leaf(8)])])
                    .wrap(|place| place),
                guard(|| choose((leaf(9),))).boxed(),
            ))
        };
        assert_eq!(nested().sync_blocking(), at);
        assert_eq!(nested().try_sync(), Some(at));
        assert_eq!(choose_biased((nested(), always(usize::MAX))).sync_blocking(), at);
    }
}

#[test]
fn nested_choices_block_and_commit_late() {
    watchdog!();
    // The choices are nested, and the winner comes while the others are offered.
    machine(1).block_on(async {
        for at in 0..6usize {
            let channels: Vec<_> = (0..6).map(|_| channel::<usize>()).collect();
            let recv = |place: usize| channels[place].1.recv().wrap(Result::unwrap);
            let event = choose((
                choose([recv(0), recv(1)]),
                choose(vec![choose((recv(2), recv(3))).boxed(), recv(4).boxed()]),
                guard({
                    let last = recv(5);
                    move || choose((never(), last))
                }),
            ));
            let tx = channels[at].0.clone();
            let sender = spawn(async move {
                for _ in 0..3 {
                    yield_now().await;
                }
                tx.send(at).await
            });
            assert_eq!(event.await, at);
            sender.join().await.unwrap().unwrap();
            // The losers have left their queues.
            for (tx, _) in &channels {
                assert!(tx.try_send(99).is_err());
            }
        }
    });
}

fn assert_fair(counts: &[usize], rounds: usize) {
    let mean = rounds / counts.len();
    for count in counts {
        assert!((mean * 4 / 5..=mean * 6 / 5).contains(count), "unfair: {counts:?}");
    }
}

#[test]
fn choice_is_fair_among_constants() {
    watchdog!();
    const ROUNDS: usize = 10_000;
    let mut counts = [0; 8];
    for _ in 0..ROUNDS {
        counts[choose([0, 1, 2, 3, 4, 5, 6, 7].map(always)).sync_blocking()] += 1;
    }
    assert_fair(&counts, ROUNDS);
    let mut counts = [0; 8];
    for _ in 0..ROUNDS {
        counts[choose((0..8).map(always).collect::<Vec<_>>()).try_sync().unwrap()] += 1;
    }
    assert_fair(&counts, ROUNDS);
}

#[test]
fn choice_is_fair_among_nested_leaves() {
    watchdog!();
    const ROUNDS: usize = 10_000;
    let mut counts = [0; 8];
    for _ in 0..ROUNDS {
        let event = choose((
            choose((always(0), always(1), choose((always(2), always(3))))),
            always(4),
            choose(vec![always(5).boxed(), choose([always(6), always(7)]).boxed()]),
        ));
        counts[event.sync_blocking()] += 1;
    }
    assert_fair(&counts, ROUNDS);
}

#[test]
fn choice_is_fair_among_full_mailboxes() {
    watchdog!();
    const ROUNDS: usize = 10_000;
    let boxes: Vec<_> = (0..8).map(|_| mailbox::<usize>()).collect();
    for (index, (tx, _)) in boxes.iter().enumerate() {
        (0..ROUNDS).for_each(|_| tx.try_send(index).unwrap());
    }
    let mut counts = [0; 8];
    for _ in 0..ROUNDS {
        let all: Vec<_> = boxes.iter().map(|(_, rx)| rx.recv()).collect();
        counts[choose(all).sync_blocking().unwrap()] += 1;
    }
    assert_fair(&counts, ROUNDS);
    // And nothing is lost.
    let left: usize = boxes.iter().map(|(_, rx)| rx.len()).sum();
    assert_eq!(left, 7 * ROUNDS);
}

#[test]
fn choice_is_fair_among_waiting_senders() {
    watchdog!();
    const ROUNDS: usize = 10_000;
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let channels: Vec<_> = (0..8).map(|_| channel::<usize>()).collect();
            for (index, (tx, _)) in channels.iter().enumerate() {
                // There are two senders for each channel, so that one always waits.
                for _ in 0..2 {
                    let tx = tx.clone();
                    spawn(async move { while tx.send(index).await.is_ok() {} });
                }
            }
            yield_now().await;
            let mut counts = [0usize; 8];
            for _ in 0..ROUNDS {
                let event = choose::<[_; 8]>(std::array::from_fn(|index| channels[index].1.recv()));
                counts[event.await.unwrap()] += 1;
            }
            // On two processors a sender may be late, so only starvation is an error.
            assert!(counts.iter().all(|count| *count > ROUNDS / 40), "starved: {counts:?}");
        });
    }
}

#[test]
fn biased_choice_is_in_order() {
    watchdog!();
    for _ in 0..1000 {
        assert_eq!(choose_biased((never(), always(1), always(2))).sync_blocking(), 1);
        assert_eq!(choose_biased([never().boxed(), always(1).boxed(), always(2).boxed()]).sync_blocking(), 1);
        assert_eq!(choose_biased(vec![always(1), always(2)]).wrap(|n| n).sync_blocking(), 1);
        assert_eq!(guard(|| choose_biased((always(1), always(2)))).boxed().sync_blocking(), 1);
        let (tx, rx) = mailbox();
        tx.try_send(1).unwrap();
        assert_eq!(choose_biased((rx.recv(), always(Ok(2)))).sync_blocking(), Ok(1));
    }
}

#[test]
fn a_biased_choice_that_blocks_takes_what_comes() {
    watchdog!();
    machine(1).block_on(async {
        let (_silent, first) = channel::<u32>();
        let (tx, second) = channel();
        spawn(async move {
            yield_now().await;
            tx.send(2).await
        });
        assert_eq!(choose_biased((first.recv(), second.recv())).await, Ok(2));
    });
}

#[test]
fn the_empty_choice_is_never() {
    watchdog!();
    assert_eq!(choose(Vec::<chanter::event::Always<u32>>::new()).try_sync(), None);
    let empty: [chanter::event::Always<u32>; 0] = [];
    assert_eq!(choose(empty).try_sync(), None);
    let empty = || choose(Vec::<BoxEvent<'static, u32>>::new());
    assert_eq!(choose((empty(), always(1), empty())).sync_blocking(), 1);
    assert_eq!(choose((empty(), after(millis(20)).wrap(|()| 2))).sync_blocking(), 2);
    assert_eq!(choose_biased((empty(), after(millis(1)).wrap(|()| 2))).sync_blocking(), 2);
}

#[test]
fn a_choice_never_matches_itself() {
    watchdog!();
    for capacity_zero in [true, false] {
        let (tx, rx) = if capacity_zero { channel::<u32>() } else { bounded(0) };
        let both = || choose((tx.send(1).wrap(|r| r.is_ok()), rx.recv().wrap(|r| r.is_ok())));
        assert_eq!(both().try_sync(), None);
        let timed = || choose((both().wrap(Some), after(millis(10)).wrap(|()| None)));
        assert_eq!(timed().sync_blocking(), None);
        let many = choose((choose([both(), both(), both()]).wrap(Some), after(millis(10)).wrap(|()| None)));
        assert_eq!(many.sync_blocking(), None);
        machine(1).block_on(async { assert_eq!(timed().await, None) });
        // The offers are gone.
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        assert!(matches!(tx.try_send(5), Err(TrySendError::Full(5))));
    }
}

#[test]
fn a_choice_of_both_sides_meets_others() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let both = |n| {
            choose((
                tx.clone().into_send(n).wrap(|r| r.map(|()| None).unwrap()),
                rx.clone().into_recv().wrap(|r| Some(r.unwrap())),
            ))
        };
        // Its own offers are ahead in both queues, and are passed over.
        let first = both(1);
        let second = rx.recv();
        let host = spawn(first.into_future());
        yield_now().await;
        assert_eq!(second.await, Ok(1));
        assert_eq!(host.join().await.unwrap(), None);
        let host = spawn(both(2).into_future());
        yield_now().await;
        tx.send(3).await.unwrap();
        assert_eq!(host.join().await.unwrap(), Some(3));
    });
}

/// `threads` choices of both sides of one channel, `rounds` times each: every
/// round of each is a send or a receive, and they pair up.
async fn pair_up(threads: usize, rounds: usize) {
    let (tx, rx) = channel::<usize>();
    let (sent, received) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let left = Arc::new(AtomicUsize::new(threads));
    let hosts: Vec<_> = (0..threads)
        .map(|me| {
            let (tx, rx) = (tx.clone(), rx.clone());
            let (sent, received, left) = (sent.clone(), received.clone(), left.clone());
            spawn(async move {
                for _ in 0..rounds {
                    let event = choose((
                        tx.send(me).wrap(|r| r.is_ok().then_some(None)),
                        rx.recv().wrap(|r| r.ok().map(Some)),
                    ));
                    match event.await {
                        Some(None) => sent.fetch_add(1, Ordering::Relaxed),
                        Some(Some(from)) => {
                            assert_ne!(from, me, "a choice matched itself");
                            received.fetch_add(1, Ordering::Relaxed)
                        }
                        None => break,
                    };
                }
                // With one left over, nobody can pair up any more.
                if left.fetch_sub(1, Ordering::Relaxed) == 2 {
                    tx.close();
                }
            })
        })
        .collect();
    for host in hosts {
        host.join().await.unwrap();
    }
    assert_eq!(sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed));
    assert!(sent.load(Ordering::Relaxed) >= rounds / 2);
}

#[test]
fn choices_of_both_sides_match_each_other() {
    watchdog!();
    for vps in [1, 2] {
        for threads in [2, 3, 5] {
            machine(vps).block_on(pair_up(threads, 4000));
        }
    }
}

#[test]
fn choices_of_both_sides_match_on_os_threads() {
    watchdog!();
    let (tx, rx) = channel::<usize>();
    let sent = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (tx, rx, sent) = (tx.clone(), rx.clone(), sent.clone());
            scope.spawn(move || {
                for _ in 0..10_000 {
                    let event = choose((
                        tx.send(me).wrap(|r| r.map(|()| me).unwrap()),
                        rx.recv().wrap(|r| r.map(|from| from + 10).unwrap()),
                    ));
                    match event.sync_blocking() {
                        n if n == me => drop(sent.fetch_add(1, Ordering::Relaxed)),
                        n => assert_eq!(n, 11 - me),
                    }
                }
            });
        }
    });
    assert_eq!(sent.load(Ordering::Relaxed), 10_000);
}

#[test]
fn the_same_channel_twice() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        for round in 0..1000 {
            let twice = spawn(choose((rx.clone().into_recv(), rx.clone().into_recv())).into_future());
            yield_now().await;
            tx.send(round).await.unwrap();
            assert_eq!(twice.join().await.unwrap(), Ok(round));
            assert!(tx.try_send(99).is_err(), "the other offer stayed");
            let twice = spawn(choose([1, 2, 3].map(|n| tx.clone().into_send(n))).into_future());
            yield_now().await;
            assert!((1..=3).contains(&rx.recv().await.unwrap()));
            twice.join().await.unwrap().unwrap();
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "two of one choice were sent");
        }
    });
}

#[test]
fn the_same_mailbox_twice_takes_one_message() {
    watchdog!();
    let (tx, rx) = mailbox();
    for n in 0..1000 {
        tx.try_send(n).unwrap();
    }
    for n in 0..1000 {
        assert_eq!(choose((rx.recv(), rx.recv())).sync_blocking(), Ok(n));
    }
    assert!(rx.is_empty());
    choose((tx.send(1), tx.send(2))).sync_blocking().unwrap();
    assert_eq!(rx.len(), 1);
}

/// One side chooses over receives `[a, b]`, the other over sends `[b, a]`.
#[test]
fn crossing_choices_on_os_threads() {
    watchdog!();
    const ROUNDS: u32 = 30_000;
    let (a_tx, a_rx) = channel::<u32>();
    let (b_tx, b_rx) = channel::<u32>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..ROUNDS {
                choose((b_tx.send(n), a_tx.send(n))).sync_blocking().unwrap();
            }
        });
        for n in 0..ROUNDS {
            assert_eq!(choose((a_rx.recv(), b_rx.recv())).sync_blocking(), Ok(n));
        }
    });
}

/// Two choices, each with a send on one channel and a receive on the other,
/// in opposite orders.
#[test]
fn crossing_sends_and_receives() {
    watchdog!();
    const ROUNDS: u32 = 20_000;
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (a_tx, a_rx) = channel::<u32>();
            let (b_tx, b_rx) = channel::<u32>();
            let other = spawn(async move {
                for n in 0..ROUNDS {
                    let event = choose_biased((
                        b_tx.send(n).wrap(|r| r.map(|()| n).unwrap()),
                        a_rx.recv().wrap(Result::unwrap),
                    ));
                    assert_eq!(event.await, n);
                }
            });
            for n in 0..ROUNDS {
                let event = choose_biased((
                    a_tx.send(n).wrap(|r| r.map(|()| n).unwrap()),
                    b_rx.recv().wrap(Result::unwrap),
                ));
                assert_eq!(event.await, n);
            }
            other.join().await.unwrap();
        });
    }
}

/// A ring: each chooses between a send to the right and a receive from the
/// left; claims go round in a circle.
#[test]
fn rings_of_choices_do_not_deadlock() {
    watchdog!();
    for size in [2, 3, 5] {
        let stop = IVar::<()>::new();
        let commits = Arc::new(AtomicUsize::new(0));
        let balance = Arc::new(AtomicUsize::new(0));
        let channels: Vec<_> = (0..size).map(|_| channel::<u32>()).collect();
        std::thread::scope(|scope| {
            for me in 0..size {
                let right = channels[me].0.clone();
                let left = channels[(me + 1) % size].1.clone();
                let (stop, commits, balance) = (stop.clone(), commits.clone(), balance.clone());
                scope.spawn(move || {
                    loop {
                        let event = choose((
                            right.send(1).wrap(|r| Some(r.is_ok())),
                            left.recv().wrap(|r| Some(r.is_err())),
                            stop.get().wrap(|()| None),
                        ));
                        match event.sync_blocking() {
                            Some(true) => balance.fetch_add(1, Ordering::Relaxed),
                            Some(false) => balance.fetch_sub(1, Ordering::Relaxed),
                            None => break,
                        };
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // If the ring stands still, the watchdog says so.
            while commits.load(Ordering::Relaxed) < 5_000 {
                std::thread::sleep(millis(1));
            }
            stop.put(()).unwrap();
        });
        assert_eq!(balance.load(Ordering::Relaxed), 0, "a send without its receive");
    }
}

/// Two producers and two consumers choose over the same four channels; all
/// messages arrive once.
#[test]
fn many_to_many_choices_lose_nothing() {
    watchdog!();
    const EACH: usize = 5_000;
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let channels: Arc<Vec<_>> = Arc::new(vec![channel::<usize>(), bounded(1), bounded(3), mailbox()]);
            let producers: Vec<_> = (0..3)
                .map(|me| {
                    let channels = channels.clone();
                    spawn(async move {
                        for n in 0..EACH {
                            let order = [n % 4, (n + 1) % 4, (n + 3) % 4];
                            choose(order.map(|at| channels[at].0.send(me * EACH + n))).await.unwrap();
                        }
                    })
                })
                .collect();
            let consumers: Vec<_> = (0..3)
                .map(|_| {
                    let channels = channels.clone();
                    spawn(async move {
                        let mut got = Vec::new();
                        // Closed channels would be ready for ever: a list
                        // of those that are open.
                        let mut open: Vec<_> = (0..4).collect();
                        while !open.is_empty() {
                            let all: Vec<_> = open
                                .iter()
                                .map(|at| {
                                    let at = *at;
                                    channels[at].1.recv().wrap(move |r| r.map_err(|_| at))
                                })
                                .collect();
                            match choose(all).await {
                                Ok(n) => got.push(n),
                                Err(closed) => open.retain(|at| *at != closed),
                            }
                        }
                        got
                    })
                })
                .collect();
            for producer in producers {
                producer.join().await.unwrap();
            }
            channels.iter().for_each(|(tx, _)| tx.close());
            let mut all = Vec::new();
            for consumer in consumers {
                all.extend(consumer.join().await.unwrap());
            }
            all.sort_unstable();
            assert_eq!(all, (0..3 * EACH).collect::<Vec<_>>());
        });
    }
}

/// A choice's losers are where they were: the message that was not sent is
/// dropped, the one that was not received stays.
#[test]
fn losers_never_happened() {
    watchdog!();
    let (tx, rx) = mailbox::<u32>();
    let (full, _full_rx) = bounded::<Arc<()>>(0);
    tx.try_send(1).unwrap();
    let unsent = Arc::new(());
    for _ in 0..200 {
        let event = choose_biased((full.send(unsent.clone()).wrap(|_| 0), always(7), rx.recv().wrap(|_| 8)));
        assert_eq!(event.sync_blocking(), 7);
        assert_eq!(Arc::strong_count(&unsent), 1, "the unsent message stayed alive");
        assert_eq!(rx.len(), 1);
    }
}

#[test]
fn wraps_of_losers_never_run() {
    watchdog!();
    let ran = AtomicBool::new(false);
    let event = choose_biased((
        always(1),
        always(2).wrap(|n| {
            ran.store(true, Ordering::Relaxed);
            n
        }),
    ));
    assert_eq!(event.sync_blocking(), 1);
    assert!(!ran.load(Ordering::Relaxed));
}

/// Time in a choice: the earliest wins, in any order of the branches.
#[test]
fn the_earliest_timer_wins() {
    watchdog!();
    let race =
        |a: u64, b: u64| choose((after(millis(a)).wrap(move |()| a), after(millis(b)).wrap(move |()| b)));
    const LATE: u64 = 3_600_000;
    assert_eq!(race(5, LATE).sync_blocking(), 5);
    assert_eq!(race(LATE, 5).sync_blocking(), 5);
    machine(1).block_on(async {
        assert_eq!(race(5, LATE).await, 5);
        assert_eq!(race(LATE, 5).await, 5);
        assert_eq!(after(Duration::ZERO).try_sync(), Some(()));
        assert_eq!(at(std::time::Instant::now()).try_sync(), Some(()));
        assert_eq!(after(Duration::MAX).try_sync(), None);
    });
    // Times that no clock can hold are like `never`, and disturb nobody.
    let far = || {
        choose((
            after(Duration::MAX).wrap(|()| 0),
            after(Duration::from_secs(1 << 40)).wrap(|()| 1),
            after(millis(10)).wrap(|()| 2),
        ))
    };
    assert_eq!(far().sync_blocking(), 2);
    machine(2).block_on(async move { assert_eq!(far().await, 2) });
}
