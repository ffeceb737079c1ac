//! Ageing with its bound, deadlines, and options.

use crate::common;

use std::time::{Duration, Instant};

use chanter::event::{Ageing, choose_earliest, optional};
use chanter::prelude::*;
use common::{Random, machine, millis, poll, watchdog};

fn at(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(1000 + seconds)
}

/// Rounds with random readiness: the bound holds for every branch, at every
/// patience.
#[test]
fn the_bound_of_ageing_holds() {
    watchdog!();
    for patience in [0, 1, 2, 5] {
        for branches in [1usize, 2, 3, 8] {
            let mut random = Random::new(7 + u64::from(patience) * 100 + branches as u64);
            let mut ageing = Ageing::with_patience(patience);
            // For how many choices in a row each has been ready and passed over.
            let mut waits = vec![0usize; branches];
            let mut longest = 0;
            for _ in 0..3000 {
                let ready: Vec<bool> = (0..branches).map(|_| random.below(3) > 0).collect();
                let events: Vec<_> = (0..branches)
                    .map(|n| if ready[n] { always(n).boxed() } else { never().boxed() })
                    .collect();
                let Some(taken) = ageing.choose(events).try_sync() else { continue };
                assert!(ready[taken]);
                for n in 0..branches {
                    waits[n] = if ready[n] && n != taken { waits[n] + 1 } else { 0 };
                    longest = longest.max(waits[n]);
                }
            }
            let bound = patience as usize + branches;
            assert!(longest < bound, "passed over {longest} times with {branches} branches, bound {bound}");
        }
    }
}

/// In order until patience ends, then the oldest first.
#[test]
fn patience_is_as_long_as_it_says() {
    watchdog!();
    let mut ageing = Ageing::with_patience(2);
    let all = || [always(0), always(1), always(2)];
    let taken: Vec<_> = (0..9).map(|_| ageing.choose(all()).sync_blocking()).collect();
    assert_eq!(taken, [0, 0, 1, 2, 0, 1, 2, 0, 1]);
}

#[test]
fn without_patience_the_longest_untaken_goes_first() {
    watchdog!();
    let mut ageing = Ageing::new();
    let taken: Vec<_> =
        (0..9).map(|_| ageing.choose((always(0), always(1), always(2))).sync_blocking()).collect();
    assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

/// A branch that commits after a wait counts as taken too.
#[test]
fn ageing_counts_what_partners_commit() {
    watchdog!();
    let ((a, from_a), (b, from_b)) = (channel(), mailbox());
    let mut ageing = Ageing::with_patience(1);
    let mut waits = Box::pin(ageing.choose((from_a.recv(), from_b.recv())).sync());
    assert!(poll(&mut waits).is_pending());
    a.try_send(1).unwrap();
    assert!(poll(&mut waits).is_ready());
    drop(waits);
    // `b` has been passed over once: it is first now, though `a` is listed so.
    b.try_send(2).unwrap();
    let both = (always(Ok(1)), from_b.recv());
    assert_eq!(ageing.choose(both).sync_blocking(), Ok(2));
}

#[test]
fn a_dropped_choice_ages_nothing() {
    watchdog!();
    let mut ageing = Ageing::with_patience(1);
    for _ in 0..5 {
        let mut waits = Box::pin(ageing.choose((never::<u32>(), never())).sync());
        assert!(poll(&mut waits).is_pending());
    }
    assert_eq!(ageing.choose((never::<u32>(), never())).try_sync(), None);
    assert_eq!(ageing.choose((always(0), always(1))).sync_blocking(), 0);
}

/// The results are the right ones, whatever the order they were tried in; and
/// the value may change its shape.
#[test]
fn ageing_keeps_leaves_apart() {
    watchdog!();
    machine(2).block_on(async {
        let channels: Vec<_> = (0..6).map(|_| channel::<usize>()).collect();
        let senders: Vec<_> = channels.iter().map(|(tx, _)| tx.clone()).collect();
        let feeder = spawn(async move {
            for round in 0..600 {
                senders[round % 6].send(round % 6).await.unwrap();
            }
        });
        let mut ageing = Ageing::new();
        let mut got = [0; 6];
        for round in 0..600 {
            let recv = |n: usize| {
                channels[n].1.recv().wrap(move |message| {
                    assert_eq!(message.unwrap(), n);
                    n
                })
            };
            let n = if round % 2 == 0 {
                ageing
                    .choose((choose((recv(0), recv(1))), choose([recv(2), recv(3), recv(4)]), recv(5)))
                    .await
            } else {
                ageing.choose((0..6).map(recv).collect::<Vec<_>>()).await
            };
            got[n] += 1;
        }
        feeder.join().await.unwrap();
        assert_eq!(got, [100; 6]);
    });
}

#[test]
fn a_chooser_moves_with_its_loop() {
    fn is_send<T: Send>(_: &T) {}
    let mut ageing = Ageing::new();
    is_send(&ageing.choose((always(1), after(millis(1)).wrap(|()| 2))));
    is_send(&ageing.choose((always(1), always(2))).sync());
}

#[test]
fn the_earliest_due_wins() {
    watchdog!();
    for _ in 0..50 {
        let pick = choose_earliest((
            always(0),
            always(1).due(at(9)),
            always(2).due(at(3)),
            never().due(at(1)),
            always(4).due(at(5)),
        ));
        assert_eq!(pick.sync_blocking(), 2);
        let list = vec![always(0).due(at(2)).boxed(), always(1).boxed(), always(2).due(at(1)).boxed()];
        assert_eq!(choose_earliest(list).sync_blocking(), 2);
    }
}

#[test]
fn a_deadline_holds_for_all_of_a_nested_choice() {
    watchdog!();
    for _ in 0..50 {
        let nested = choose_earliest((
            always(0).due(at(5)),
            choose((never(), always(1), always(2).due(at(9)))).wrap(|n| n).due(at(4)),
            choose((always(3), always(4).due(at(8)))),
        ));
        // Both branches of the nested one are due at 4: none is preferred.
        assert!([1, 2].contains(&nested.sync_blocking()));
        let inner = choose((always(1).due(at(9)), always(2).due(at(1)))).due(at(4));
        assert_eq!(choose_earliest((inner, always(0).due(at(2)))).sync_blocking(), 2, "earlier is kept");
        let ordered = choose_earliest((always(1).due(at(9)), always(2).due(at(1))));
        assert_eq!(choose_earliest((always(0).due(at(5)), ordered)).sync_blocking(), 2);
    }
}

/// Law: with equal deadlines, or none, it is `choose`: fair.
#[test]
fn equals_are_chosen_fairly() {
    watchdog!();
    let due = at(1);
    let mut seen = [[0; 4]; 2];
    for _ in 0..4000 {
        let all = |n: usize| always(n).due(due);
        seen[0][choose_earliest([all(0), all(1), all(2), all(3)]).sync_blocking()] += 1;
        seen[1][choose_earliest([always(0), always(1), always(2), always(3)]).sync_blocking()] += 1;
    }
    for count in seen.into_iter().flatten() {
        assert!((700..1300).contains(&count), "{seen:?}");
    }
}

/// A deadline orders what is ready: it neither ends nor hastens anything.
#[test]
fn who_comes_first_wins_over_who_is_due_first() {
    watchdog!();
    let ((a, from_a), (_b, from_b)) = (channel(), channel::<u32>());
    let mut waits = Box::pin(choose_earliest((from_b.recv().due(at(1)), from_a.recv().due(at(2)))).sync());
    assert!(poll(&mut waits).is_pending());
    a.try_send(1).unwrap();
    assert!(matches!(poll(&mut waits), std::task::Poll::Ready(Ok(1))));
    assert_eq!(always(3).due(Instant::now()).sync_blocking(), 3);
}

#[test]
fn a_choice_may_have_a_deadline() {
    watchdog!();
    let (tx, rx) = channel::<u32>();
    let begun = Instant::now();
    assert_eq!(choose((rx.recv(), never())).by(begun + millis(20)).sync_blocking(), None);
    assert!(begun.elapsed() >= millis(20));
    // Nothing is left behind, and what is ready at the deadline wins over it.
    assert!(tx.try_send(1).is_err());
    for _ in 0..50 {
        assert_eq!(always(1).by(begun).sync_blocking(), Some(1));
    }
    assert_eq!(never::<u32>().by(begun).try_sync(), Some(None));
}

#[test]
fn an_option_is_its_event_or_nothing() {
    watchdog!();
    assert_eq!(optional(Some(always(1))).sync_blocking(), 1);
    assert_eq!(optional(None::<chanter::event::Always<u32>>).try_sync(), None);
    let none = || optional(None::<chanter::event::Always<u32>>);
    assert_eq!(choose((none(), always(2), none())).sync_blocking(), 2);
    assert_eq!(
        choose_biased([optional(Some(always(1))), none(), optional(Some(always(3)))]).sync_blocking(),
        1
    );
    let mut waits = Box::pin(none().sync());
    assert!(poll(&mut waits).is_pending());
}

/// How often each of `many` events is chosen in `rounds` choices.
fn chosen(rounds: usize, many: usize, mut choose: impl FnMut() -> usize) -> Vec<usize> {
    let mut taken = vec![0; many];
    for _ in 0..rounds {
        taken[choose()] += 1;
    }
    taken
}

#[test]
fn a_fair_choice_with_an_order_in_it_is_fair() {
    watchdog!();
    let silent = mailbox::<usize>();
    let ordered = || choose_earliest([silent.1.recv().wrap(Result::unwrap)]);
    let beside = chosen(600, 3, || choose((always(0), always(1), always(2), ordered())).sync_blocking());
    assert!(beside.iter().all(|times| *times > 100), "{beside:?}");
    let boxed = chosen(600, 2, || {
        choose(vec![always(0).boxed(), always(1).boxed(), ordered().boxed()]).sync_blocking()
    });
    assert!(boxed.iter().all(|times| *times > 150), "{boxed:?}");
    // The order within is kept, wherever the search begins.
    let mut ageing = Ageing::with_patience(1000);
    let within =
        chosen(900, 3, || choose((always(0), ageing.choose([always(1), always(2)]))).sync_blocking());
    assert!(within[0] > 200 && within[1] > 200 && within[2] == 0, "{within:?}");
}

#[test]
fn a_time_limit_that_gave_way_is_young() {
    watchdog!();
    let mut ageing = Ageing::new();
    let limited = chosen(300, 3, || {
        let event =
            (always(0).timeout(Duration::ZERO), always(1).timeout(Duration::ZERO), always(2).wrap(Some));
        ageing.choose(event).sync_blocking().unwrap()
    });
    assert!(limited.iter().all(|times| *times >= 50), "{limited:?}");
    let mut ageing = Ageing::new();
    let nested = chosen(300, 2, || {
        ageing.choose([choose((always(0), always(1))).timeout(Duration::ZERO)]).sync_blocking().unwrap()
    });
    assert!(nested.iter().all(|times| *times >= 90), "{nested:?}");
    let mut ageing = Ageing::new();
    let mixed = chosen(300, 3, || {
        let event = (always(0).wrap(Some), always(1).wrap(Some), always(2).timeout(Duration::ZERO));
        ageing.choose(event).sync_blocking().unwrap()
    });
    assert!(mixed.iter().all(|times| *times >= 70), "{mixed:?}");
}

#[test]
fn a_time_limit_that_is_not_over_prefers_nothing() {
    watchdog!();
    const HOUR: Duration = Duration::from_secs(3600);
    let mut ageing = Ageing::new();
    // The leaves from the 64th on have no hints.
    let events = || (0..40).map(|n| always(n).timeout(HOUR)).collect::<Vec<_>>();
    let taken = chosen(400, 40, || ageing.choose(events()).sync_blocking().unwrap());
    assert!(taken.iter().all(|times| (9..=11).contains(times)), "{taken:?}");
}

#[test]
fn a_function_whose_inner_function_panics_is_dropped() {
    watchdog!();
    let (keep, kept) = mailbox::<u32>();
    let machine = machine(1);
    let thread = machine.spawn(async move {
        let panics = |_: u32| -> u32 { panic!("on purpose") };
        let inner = choose([always(1).wrap(panics), always(2).wrap(panics)]);
        inner.wrap(move |n| keep.try_send(n).is_ok()).await
    });
    assert!(thread.join().sync_blocking().is_err());
    assert_eq!(kept.recv().sync_blocking(), Err(Closed));
    let (keep, kept) = mailbox::<u32>();
    let (tx, rx) = mailbox::<u32>();
    tx.try_send(1).unwrap();
    let thread = machine.spawn(async move {
        let inner = rx.recv().wrap(|_| -> u32 { panic!("on purpose") });
        inner.wrap(move |n| keep.try_send(n).is_ok()).await
    });
    assert!(thread.join().sync_blocking().is_err());
    assert_eq!(kept.recv().sync_blocking(), Err(Closed));
}
