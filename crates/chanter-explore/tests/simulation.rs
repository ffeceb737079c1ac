//! A program on a simulated machine: virtual time, deadlock reports, parasites, ends.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    deadlock::{ThreadState, Waiting},
    parasite::{Par, reify},
    sync::RwLock,
};
use chanter_explore::{Explorer, Failure, FailureKind, Parasites};

const HOUR: Duration = Duration::from_secs(3600);

/// The hook of simulated networks.
#[test]
fn a_number_is_chosen_each_way() {
    let seen = Mutex::new(Vec::new());
    let explorer = Explorer::new().exhaustive().preemptions(0);
    let report = explorer.check(|| {
        let choose = |alternatives| chanter::base::choose(alternatives).expect("the machine is simulated");
        let seen = &seen;
        async move {
            let pair = (choose(2), choose(3));
            assert_eq!(choose(1), 0);
            seen.lock().unwrap().push(pair);
        }
    });
    assert!(report.is_complete);
    assert_eq!(*seen.lock().unwrap(), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    assert_eq!(chanter::base::choose(2), None);
}

#[test]
fn an_hour_passes_at_once_and_in_order() {
    let begun = Instant::now();
    let explorer = Explorer::new().early_timers(false).exhaustive().random(20).pct(20, 3);
    explorer
        .check(|| async {
            let started = chanter::now();
            let order = Arc::new(Mutex::new(Vec::new()));
            let sleepers: Vec<_> = [3, 1, 2]
                .into_iter()
                .map(|hours| {
                    let order = order.clone();
                    spawn(async move {
                        after(HOUR * hours).await;
                        order.lock().unwrap().push(hours);
                    })
                })
                .collect();
            at(started + HOUR / 2).await;
            assert_eq!(chanter::now(), started + HOUR / 2);
            for sleeper in sleepers {
                sleeper.join().await.unwrap();
            }
            assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
            assert_eq!(chanter::now(), started + HOUR * 3);
        })
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn time_stands_still_while_a_thread_is_ready() {
    Explorer::new()
        .exhaustive()
        .check(|| async {
            let (tx, rx) = channel();
            spawn(async move {
                for n in 0..3 {
                    tx.send(n).await.unwrap();
                }
            });
            for n in 0..3 {
                let got =
                    choose((rx.recv().wrap(Result::ok), after(Duration::from_nanos(1)).wrap(|()| None)));
                assert_eq!(got.await, Some(n));
            }
        })
        .unwrap();
}

/// The deadlock that the exhaustive search finds in `program`.
fn deadlock<P, F>(program: P) -> Failure
where
    P: Fn() -> F,
    F: Future<Output = ()>,
{
    let failure = Explorer::new().exhaustive().check(program).unwrap_failure();
    assert!(failure.is_deadlock(), "{failure}");
    assert!(failure.is_reproduced, "{failure}");
    failure
}

#[test]
fn a_deadlock_names_what_each_thread_waits_on() {
    let failure = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        let (other_tx, other_rx) = channel::<u32>();
        let never_written = IVar::<u32>::new();
        let read = never_written.clone();
        let reader = spawn(async move { read.get().await });
        let chooser = spawn(async move { choose((other_rx.recv().wrap(drop), tx.send(1).wrap(drop))).await });
        let joiner = spawn(async move { reader.join().await.map(drop) });
        joiner.join().await.unwrap().unwrap();
        drop((rx, other_tx, chooser, never_written));
    });
    let deadlock = failure.deadlock().unwrap();
    let waits = |id| match &deadlock.thread(id).unwrap().state {
        ThreadState::Blocked(waits) => waits.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(waits(0), [Waiting::Join { thread: Some(3) }]);
    assert_eq!(waits(1), [Waiting::Read]);
    assert_eq!(waits(2), [Waiting::Receive { channel: 1 }, Waiting::Send { channel: 2 }]);
    assert_eq!(waits(3), [Waiting::Join { thread: Some(1) }]);
    assert!(deadlock.threads.iter().skip(1).all(|thread| thread.parent == Some(0)));
    let sites: Vec<_> = deadlock.threads.iter().map(|thread| thread.site.unwrap().line()).collect();
    assert!(sites[1] < sites[2] && sites[2] < sites[3], "{sites:?}");
    assert!(deadlock.threads[1].site.unwrap().file().ends_with("simulation.rs"));
    // The main thread holds the other ends: nobody waits in a circle.
    assert!(failure.to_string().contains("thread 3, spawned at"), "{failure}");
}

#[test]
fn the_cycle_is_found_through_channels() {
    let failure = deadlock(|| async {
        let (to_a, from_b) = channel::<u32>();
        let (to_b, from_a) = channel::<u32>();
        let bystander = spawn(async { never::<()>().await });
        let a = spawn(async move {
            to_b.send(1).await.unwrap();
            from_b.recv().await.unwrap();
        });
        let b = spawn(async move {
            to_a.send(2).await.unwrap();
            from_a.recv().await.unwrap();
        });
        a.join().await.unwrap();
        b.join().await.unwrap();
        drop(bystander);
    });
    let deadlock = failure.deadlock().unwrap();
    assert_eq!(deadlock.cycle, [2, 3]);
    let ThreadState::Blocked(waits) = &deadlock.thread(1).unwrap().state else { panic!("{failure}") };
    assert_eq!(waits[..], [Waiting::Never]);
    assert!(failure.to_string().contains("cycle: thread 2 -> thread 3 -> thread 2"), "{failure}");
}

#[test]
fn a_chain_is_no_cycle() {
    let failure = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        let waits = spawn(async move { rx.recv().await });
        waits.join().await.unwrap().unwrap();
        drop(tx);
    });
    // Thread 1 waits for the main thread, which holds `tx` and joins thread 1.
    assert_eq!(failure.deadlock().unwrap().cycle, [0, 1]);
    let failure = deadlock(|| async {
        let blocked = spawn(async move { never::<()>().await });
        blocked.join().await.unwrap();
    });
    assert!(failure.deadlock().unwrap().cycle.is_empty());
}

#[test]
fn every_kind_of_wait_has_a_name() {
    let failure = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        let told = Arc::new(Mutex::new(None));
        let teller = told.clone();
        let lost = with_nack(move |nack| {
            *teller.lock().unwrap() = Some(nack);
            rx.into_recv()
        });
        let kept = lost.boxed();
        let nack_of = choose([guard(|| kept).boxed()]);
        spawn_parasite(async move {
            nack_of.await.unwrap();
        });
        let nack = told.lock().unwrap().take().unwrap();
        spawn(nack.into_future());
        spawn(async move { reify(|par: Par<u32>| std::mem::forget(par)).await });
        spawn(std::future::pending::<()>());
        never::<()>().await;
        drop(tx);
    });
    let states: Vec<_> =
        failure.deadlock().unwrap().threads.iter().map(|thread| thread.state.clone()).collect();
    let blocked = |wait| ThreadState::Blocked(vec![wait]);
    assert_eq!(states[0], blocked(Waiting::Never));
    assert_eq!(states[1], blocked(Waiting::Receive { channel: 1 }));
    assert_eq!(states[2], blocked(Waiting::Nack));
    assert_eq!(states[3], blocked(Waiting::Attach));
    assert_eq!(states[4], ThreadState::Blocked(vec![]));
    assert!(failure.deadlock().unwrap().threads[1].is_parasite);
}

/// A flag whose waiter looks, and only then leaves its waker.
#[test]
fn a_lost_wake_up_is_told_from_a_deadlock() {
    #[derive(Default)]
    struct Flag {
        set: AtomicU32,
        waker: Mutex<Option<Waker>>,
    }
    let failure = deadlock(|| async {
        let flag = Arc::new(Flag::default());
        let theirs = flag.clone();
        spawn(async move {
            theirs.set.store(1, Ordering::Relaxed);
            if let Some(waker) = theirs.waker.lock().unwrap().take() {
                waker.wake();
            }
        });
        if flag.set.load(Ordering::Relaxed) == 0 {
            always(()).await;
            let mut first = true;
            std::future::poll_fn(|cx| {
                if !std::mem::take(&mut first) && flag.set.load(Ordering::Relaxed) == 1 {
                    return Poll::Ready(());
                }
                *flag.waker.lock().unwrap() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
        }
    });
    assert_eq!(failure.deadlock().unwrap().threads[0].state, ThreadState::Missed);
    assert!(failure.to_string().contains("a wake-up was lost"), "{failure}");
}

#[test]
fn a_stream_says_what_it_waits_on() {
    let failure = deadlock(|| async {
        let (tx, mut rx) = mailbox::<u32>();
        let mut rx = std::pin::Pin::new(&mut rx);
        std::future::poll_fn(|cx| futures_core::Stream::poll_next(rx.as_mut(), cx)).await;
        drop(tx);
    });
    let state = &failure.deadlock().unwrap().threads[0].state;
    assert_eq!(*state, ThreadState::Blocked(vec![Waiting::Receive { channel: 1 }]));
}

#[test]
fn blocking_calls_are_simulated() {
    let program = |messages: u32| {
        move || async move {
            let (tx, rx) = channel::<u32>();
            let sender = spawn(async move {
                for n in 0..2 {
                    tx.send(n).await.unwrap();
                }
                after(HOUR).await;
            });
            for n in 0..messages {
                assert_eq!(rx.recv().sync_blocking(), Ok(n));
            }
            assert_eq!(rx.recv().sync_blocking(), Err(Closed));
            sender.join().sync_blocking().unwrap();
        }
    };
    let report = Explorer::new().exhaustive().random(50).check(program(2));
    assert!(report.is_complete);
    report.unwrap();
    let stuck = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        let stuck = spawn(async move { rx.recv().sync_blocking() });
        let _ = stuck.join().await;
        drop(tx);
    });
    assert!(stuck.deadlock().unwrap().thread(0).is_some());
}

/// They nested on one stack, and the report of a deadlock was false: each has an OS thread.
#[test]
fn two_blocking_calls_that_talk_to_each_other_go_on() {
    let program = || async {
        let (to_a, from_b) = channel::<u32>();
        let (to_b, from_a) = channel::<u32>();
        let a = spawn_blocking(move || {
            for n in 0..3 {
                to_b.send(n).sync_blocking().unwrap();
                assert_eq!(from_b.recv().sync_blocking(), Ok(n + 10));
            }
        });
        let b = spawn_blocking(move || {
            while let Ok(n) = from_a.recv().sync_blocking() {
                to_a.send(n + 10).sync_blocking().unwrap();
            }
        });
        a.join().await.unwrap();
        b.join().await.unwrap();
    };
    Explorer::new().exhaustive().preemptions(1).schedules(2000).random(50).check(program).unwrap();
    // A read that waits for a message that never comes is found.
    let failure = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        let call = spawn_blocking(move || rx.recv().sync_blocking());
        let _ = call.join().await;
        drop(tx);
    });
    assert!(failure.deadlock().unwrap().thread(1).is_some());
}

/// The alarm of a lock only looks whether waiters are alive: it keeps nothing going.
#[test]
fn a_second_read_behind_a_waiting_writer_is_a_deadlock() {
    let program = || async {
        let lock = Arc::new(RwLock::new(0));
        let first = lock.read().await;
        let theirs = lock.clone();
        let writer = spawn(async move { *theirs.write().await += 1 });
        yield_now().await;
        let second = lock.read().await;
        drop((first, second));
        writer.join().await.unwrap();
    };
    for explorer in [Explorer::new().exhaustive(), Explorer::new().random(100), Explorer::new().pct(100, 3)] {
        let failure = explorer.schedules(200).check(program).unwrap_failure();
        assert!(failure.is_deadlock() && failure.is_reproduced, "{failure}");
        let deadlock = failure.deadlock().unwrap();
        let locks = |id| {
            let ThreadState::Blocked(waits) = &deadlock.thread(id).unwrap().state else { return false };
            matches!(waits[..], [Waiting::Lock { .. }])
        };
        assert!(locks(0) && locks(1), "{failure}");
    }
}

/// A notified waiter that does not answer is passed over by the alarm, so there is no deadlock.
#[test]
fn a_waiter_that_nobody_polls_is_no_deadlock() {
    let program = || async {
        let lock = Arc::new(RwLock::new(0));
        let first = lock.read().await;
        let mut kept = Box::pin(lock.write().sync());
        // Twice: the explorer may pause it the first time.
        let mut poll = || kept.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(poll() && poll());
        let second = lock.read().await;
        drop((first, second));
        let third = lock.read().await;
        drop((third, kept));
    };
    Explorer::new().exhaustive().random(50).schedules(500).check(program).unwrap();
    // One that turns away from a writer, after it has answered for a while.
    let program = || async {
        let lock = Arc::new(RwLock::new(0));
        let _first = lock.read().await;
        let mut writer = Box::pin(lock.write().sync());
        let (go, stop) = mailbox::<()>();
        spawn(async move {
            after(Duration::from_secs(1)).await;
            go.try_send(()).unwrap();
        });
        let mut reader = Box::pin(lock.read().sync());
        let mut stop = Box::pin(stop.recv().sync());
        std::future::poll_fn(|cx| {
            assert!(writer.as_mut().poll(cx).is_pending());
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            reader.as_mut().poll(cx).map(drop)
        })
        .await;
        drop(reader.await);
        drop(writer);
    };
    Explorer::new().early_timers(false).exhaustive().random(50).schedules(500).check(program).unwrap();
}

#[test]
fn a_panic_that_nobody_sees_is_a_failure() {
    let program = |joined: bool| {
        move || async move {
            let thread = spawn(async { panic!("unseen") });
            if joined {
                assert!(thread.join().await.unwrap_err().is_panic());
            } else {
                drop(thread);
                yield_now().await;
            }
        }
    };
    Explorer::new().exhaustive().check(program(true)).unwrap();
    let failure = Explorer::new().exhaustive().check(program(false)).unwrap_failure();
    assert!(matches!(&failure.kind, FailureKind::Panicked(message) if message.contains("unseen")));
    let parasite = || async { spawn_parasite(async { panic!("unseen") }) };
    assert!(Explorer::new().exhaustive().check(parasite).unwrap_failure().is_panic());
}

#[test]
fn an_error_is_a_failure() {
    let report = Explorer::new().exhaustive().check(|| async {
        let (tx, rx) = channel::<u32>();
        drop(tx);
        rx.recv().await.map(drop)
    });
    assert!(matches!(report.unwrap_failure().kind, FailureKind::Failed(message) if message == "Closed"));
}

/// Parasites run where they are spawned until they block, and nobody comes in
/// between; as hosts they run when the strategy says so.
#[test]
fn parasites_run_in_place_or_as_hosts() {
    let program = |seen: &'static Mutex<Vec<Vec<u32>>>| {
        move || async move {
            let log = Arc::new(Mutex::new(Vec::new()));
            let (tx, rx) = channel();
            let theirs = log.clone();
            spawn_parasite(async move {
                always(()).await;
                theirs.lock().unwrap().push(1);
                tx.send(()).await.unwrap();
                theirs.lock().unwrap().push(2);
            });
            log.lock().unwrap().push(3);
            rx.recv().await.unwrap();
            log.lock().unwrap().push(4);
            // The parasite may be left when the main thread ends.
            yield_now().await;
            let mut seen = seen.lock().unwrap();
            let log = log.lock().unwrap().clone();
            if !seen.contains(&log) {
                seen.push(log);
            }
        }
    };
    static IN_PLACE: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());
    static AS_HOSTS: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());
    let explorer = Explorer::new().exhaustive();
    explorer.check(program(&IN_PLACE)).unwrap();
    explorer.parasites(Parasites::AsHosts).check(program(&AS_HOSTS)).unwrap();
    // Attached by the receive, before it returns.
    assert_eq!(*IN_PLACE.lock().unwrap(), [[1, 3, 2, 4]]);
    let mut hosts = AS_HOSTS.lock().unwrap().clone();
    hosts.sort();
    assert_eq!(hosts, [[3, 1, 2, 4], [3, 1, 4, 2]]);
}

#[test]
fn what_is_left_is_dropped_before_the_next_schedule() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Guard;
    impl Guard {
        fn new() -> Self {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Self
        }
    }
    impl Drop for Guard {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let report = Explorer::new().exhaustive().random(10).check(|| {
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
        async {
            let (tx, rx) = channel::<Guard>();
            let buffer = mailbox::<Guard>();
            buffer.0.try_send(Guard::new()).ok().unwrap();
            for _ in 0..2 {
                let (rx, buffer) = (rx.clone(), buffer.1.clone());
                spawn(async move {
                    let guard = Guard::new();
                    let got = choose((rx.recv(), after(HOUR).wrap(|()| Err(Closed)))).await;
                    drop((guard, got, buffer));
                });
            }
            let guard = Guard::new();
            spawn_parasite(async move {
                let _guard = guard;
                never::<()>().await;
            });
            choose((tx.send(Guard::new()).wrap(drop), after(Duration::from_secs(1)))).await;
        }
    });
    report.unwrap();
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn sockets_are_refused() {
    Explorer::new()
        .exhaustive()
        .check(|| async {
            let error = chanter::io::TcpListener::bind("127.0.0.1:0").map(drop).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        })
        .unwrap();
}

#[test]
fn those_that_yield_let_all_others_run() {
    // Two threads spin and wait for a third. Without fairness among threads that yield, the search would not end.
    let report = Explorer::new().exhaustive().check(|| async {
        let ready = Arc::new(AtomicU32::new(0));
        let spinners = [0, 1].map(|_| {
            let ready = ready.clone();
            spawn(async move {
                while ready.load(Ordering::Relaxed) == 0 {
                    yield_now().await;
                }
            })
        });
        spawn(async move { ready.store(1, Ordering::Relaxed) });
        for spinner in spinners {
            spinner.join().await.unwrap();
        }
    });
    assert!(report.is_complete, "{report}");
    report.unwrap();
}

#[test]
fn a_livelock_is_told_from_starvation() {
    let failure = Explorer::new().exhaustive().steps(500).check(|| async {
        let spinner = spawn(async {
            loop {
                yield_now().await;
            }
        });
        loop {
            yield_now().await;
            if spinner.is_determined() {
                break;
            }
        }
    });
    let failure = failure.unwrap_failure();
    let FailureKind::TooLong { starved, threads } = &failure.kind else { panic!("{failure}") };
    assert!(starved.is_empty(), "{failure}");
    assert_eq!(threads.threads.len(), 2);
}

/// A handle that outlives its schedule wakes nobody, and does no harm to the
/// next one.
#[test]
fn handles_may_outlive_their_schedule() {
    type Kept = (Sender<u32>, Waker, Thread<()>);
    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let report = Explorer::new().random(20).check(|| async {
        let (tx, rx) = mailbox();
        let thread = spawn(async move { while rx.recv().await.is_ok() {} });
        let waker = std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        tx.send(1).await.unwrap();
        let kept = std::mem::replace(&mut *KEPT.lock().unwrap(), vec![(tx, waker, thread)]);
        for (tx, waker, thread) in kept {
            assert!(tx.try_send(2).is_err());
            assert!(thread.is_determined());
            waker.wake();
        }
        yield_now().await;
    });
    report.unwrap();
    for (tx, waker, thread) in KEPT.lock().unwrap().drain(..) {
        assert!(tx.try_send(3).is_err());
        waker.wake();
        assert!(thread.join().sync_blocking().unwrap_err().is_cancelled());
    }
}

/// Help from another OS thread comes from outside: it is taken when it is there.
#[test]
fn an_os_thread_may_wake_a_simulated_thread() {
    let report = Explorer::new().random(50).check(|| async {
        let (tx, rx) = mailbox();
        let waits = spawn(async move { rx.recv().await.unwrap() });
        yield_now().await;
        std::thread::scope(|scope| {
            scope.spawn(|| tx.try_send(7).unwrap());
        });
        assert_eq!(waits.join().await.unwrap(), 7);
    });
    report.unwrap();
}

/// Where only one branch is ready there is nothing to choose.
#[test]
fn choices_among_those_that_are_ready_only() {
    let schedules = |ready: usize| {
        let report = Explorer::new().exhaustive().check(|| async move {
            let channels: Vec<_> = (0..5).map(|_| mailbox::<usize>()).collect();
            for (index, (tx, _)) in channels.iter().enumerate().take(ready) {
                tx.try_send(index).unwrap();
            }
            let got = choose(channels.iter().map(|(_, rx)| rx.recv()).collect::<Vec<_>>()).await;
            assert!(got.unwrap() < ready);
        });
        assert!(report.is_complete, "{report}");
        report.schedules
    };
    assert_eq!([schedules(1), schedules(2), schedules(5)], [1, 2, 5]);
}
