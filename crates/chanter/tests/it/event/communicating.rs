//! Guards and actions that communicate, inside of choices.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chanter::event::{Ageing, choose_earliest, guard_async, optional, with_nack_async};
use chanter::prelude::*;
use common::{machine, poll, watchdog};

type Request = (u32, Sender<u32>, Nack);

/// Figure 4 of Parallel CML.
fn rpc(server: &Sender<Request>, request: u32) -> impl Event<Output = u32> + Send + Clone + 'static {
    let server = server.clone();
    with_nack(move |nack| {
        guard_async(move || async move {
            let (reply, replies) = channel();
            server.send((request, reply, nack)).await.expect("the server runs");
            replies.into_recv().wrap(|reply| reply.expect("the server answers"))
        })
    })
}

/// A server that answers after `work`. It counts the clients that were answered, and those that gave up.
fn server(
    work: impl Fn() -> BoxEvent<'static, ()> + Send + 'static,
) -> (Sender<Request>, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (ask, asked) = channel::<Request>();
    let (answered, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&answered), Arc::clone(&gone));
    drop(spawn(async move {
        while let Ok((request, reply, nack)) = asked.recv().await {
            let (answered, gone) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
            let work = work();
            drop(spawn(async move {
                work.await;
                let sent = choose((reply.send(request * 2).wrap(|sent| sent.is_ok()), nack.wrap(|()| false)));
                if sent.await { &answered } else { &gone }.fetch_add(1, Ordering::SeqCst);
            }));
        }
    }));
    (ask, answered, gone)
}

fn bump(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

async fn until(count: &AtomicUsize, value: usize) {
    while count.load(Ordering::SeqCst) < value {
        yield_now().await;
    }
}

#[test]
fn figure_4_inside_of_a_choice() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (fast, answered, _) = server(|| always(()).boxed());
            let (slow, _, gone) = server(|| never().boxed());
            let (ready, _, told) = server(|| always(()).boxed());
            for request in 0..100 {
                let reply = choose((
                    rpc(&fast, request).wrap(|reply| ("fast", reply)),
                    rpc(&slow, request).wrap(|reply| ("slow", reply)),
                ));
                assert_eq!(reply.await, ("fast", request * 2));
            }
            until(&answered, 100).await;
            assert_eq!(gone.load(Ordering::SeqCst), 0);
            // A client that chooses another branch is told of.
            for _ in 0..100 {
                choose((rpc(&ready, 1).wrap(|_| false), always(true))).await;
            }
            until(&told, 1).await;
        });
    }
}

#[test]
fn an_event_with_a_guard_is_synchronized_many_times() {
    watchdog!();
    machine(1).block_on(async {
        let (ask, answered, _) = server(|| always(()).boxed());
        let call = rpc(&ask, 21);
        let erased = call.clone().boxed_clone();
        for _ in 0..10 {
            assert_eq!(call.clone().await, 42);
            assert_eq!(choose([erased.clone(), erased.clone()]).await, 42);
        }
        until(&answered, 20).await;
    });
}

/// Concurrent ML's swap channel, literally: each side offers to be the client and the server of an exchange.
struct Swapper<T> {
    tx: Sender<(T, Sender<T>)>,
    rx: Receiver<(T, Sender<T>)>,
}

impl<T: Clone + Send + 'static> Swapper<T> {
    fn swap(&self, mine: T) -> impl Event<Output = T> {
        guard(move || {
            let (back, from_back) = channel();
            let given = mine.clone();
            choose((
                self.rx.recv().then(async move |got| {
                    let (theirs, back) = got.expect("we have a sender");
                    back.send(given).await.expect("the other side waits");
                    theirs
                }),
                self.tx.send((mine, back)).then(async move |sent| {
                    sent.expect("we have a receiver");
                    from_back.recv().await.expect("the other side answers")
                }),
            ))
        })
    }
}

#[test]
fn the_swap_channel_of_concurrent_ml() {
    watchdog!();
    const EACH: u64 = 500;
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (tx, rx) = channel();
            let swapper = Arc::new(Swapper { tx, rx });
            let swapping = |first: u64| {
                let swapper = Arc::clone(&swapper);
                spawn(async move {
                    let mut sum = 0;
                    for n in 0..EACH {
                        sum += choose((swapper.swap(first + n), never())).await;
                    }
                    sum
                })
            };
            let both = [swapping(0), swapping(1_000_000)];
            let mut sum = 0;
            for side in both {
                sum += side.await.unwrap();
            }
            let all = |first: u64| (first..first + EACH).sum::<u64>();
            assert_eq!(sum, all(0) + all(1_000_000));
        });
    }
}

#[test]
fn guards_run_in_order_before_anything_commits() {
    watchdog!();
    machine(1).block_on(async {
        let (go, gone) = channel::<()>();
        let order = std::sync::Mutex::new(vec![]);
        let log = |what| order.lock().unwrap().push(what);
        let mut choice = Box::pin(
            choose((
                guard(|| {
                    log("plain");
                    always(1)
                }),
                guard_async(async || {
                    log("begins");
                    gone.recv().await.unwrap();
                    log("ends");
                    always(2)
                }),
                guard_async(async || {
                    log("last");
                    always(3)
                }),
            ))
            .sync(),
        );
        // The first branch is ready, and does not commit while a guard runs.
        assert!(poll(&mut choice).is_pending());
        assert!(poll(&mut choice).is_pending());
        go.try_send(()).unwrap();
        let chosen = choice.await;
        assert!((1..=3).contains(&chosen));
        assert_eq!(*order.lock().unwrap(), ["plain", "begins", "ends", "last"]);
    });
}

#[test]
fn a_dropped_guard_enables_its_nack() {
    watchdog!();
    machine(1).block_on(async {
        let (told, tells) = mailbox();
        let waits = with_nack_async(async move |nack| {
            told.send(nack).await.unwrap();
            never::<()>().await;
            always(())
        });
        let mut sync = Box::pin(choose((waits.on_abort(|| ()), never())).sync());
        assert!(poll(&mut sync).is_pending());
        let nack = tells.recv().await.unwrap();
        assert_eq!(nack.clone().try_sync(), None);
        drop(sync);
        nack.await;
    });
}

#[test]
fn an_abort_action_runs_when_a_guard_is_dropped() {
    watchdog!();
    let aborts = AtomicUsize::new(0);
    let event = guard_async(async || {
        never::<()>().await;
        always(())
    })
    .on_abort(|| bump(&aborts));
    let mut sync = Box::pin(event.sync());
    assert!(poll(&mut sync).is_pending());
    drop(sync);
    assert_eq!(aborts.load(Ordering::SeqCst), 1);
}

#[test]
fn an_action_is_dropped_with_its_synchronization() {
    watchdog!();
    struct Count<'a>(&'a AtomicUsize);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = AtomicUsize::new(0);
    let mut sync = Box::pin(
        choose((
            always(1).then(async |_| {
                let _count = Count(&drops);
                never::<()>().await
            }),
            never(),
        ))
        .sync(),
    );
    for _ in 0..3 {
        assert!(poll(&mut sync).is_pending());
    }
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(sync);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn the_choice_is_made_before_its_action_runs() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let (go, gone) = channel::<()>();
        let aborted = AtomicUsize::new(0);
        let taken = rx.recv().then(async |n: Result<u32, _>| {
            gone.recv().await.unwrap();
            n.unwrap()
        });
        let loser = never().on_abort(|| bump(&aborted));
        let mut choice = Box::pin(choose((taken, loser)).timeout(Duration::from_millis(1)).sync());
        tx.try_send(7).unwrap_err();
        assert!(poll(&mut choice).is_pending());
        tx.try_send(8).unwrap();
        assert!(poll(&mut choice).is_pending());
        // The loser has been told, and the time limit has no say any more.
        assert_eq!(aborted.load(Ordering::SeqCst), 1);
        after(Duration::from_millis(5)).await;
        assert!(poll(&mut choice).is_pending());
        go.try_send(()).unwrap();
        assert_eq!(choice.await, Some(8));
    });
}

#[test]
fn they_nest_in_every_combinator() {
    watchdog!();
    let later = |n: u32| {
        guard_async(async move || {
            yield_now().await;
            always(n)
        })
        .then(async |n| {
            yield_now().await;
            n + 1
        })
    };
    let mut ageing = Ageing::new();
    let now = std::time::Instant::now();
    let run = async {
        assert_eq!(later(1).await, 2);
        assert_eq!(later(1).wrap(|n| n * 10).await, 20);
        assert_eq!(later(1).then(async |n| n * 10).await, 20);
        assert_eq!(later(1).boxed().await, 2);
        assert_eq!(later(1).boxed().boxed_local().await, 2);
        assert_eq!(guard(|| later(1)).await, 2);
        assert_eq!(guard_async(async || later(1)).await, 2);
        assert_eq!(with_nack(|_| later(1)).await, 2);
        assert_eq!(later(1).on_abort(|| unreachable!()).await, 2);
        assert_eq!(optional(Some(later(1))).await, 2);
        assert_eq!(later(1).timeout(Duration::from_secs(100)).await, Some(2));
        assert_eq!(later(1).by(now + Duration::from_secs(100)).await, Some(2));
        assert_eq!(ageing.choose([later(1), later(1)]).await, 2);
        assert_eq!(choose_earliest([later(1).due(now), later(2).due(now + Duration::from_secs(1))]).await, 2);
        assert_eq!(choose(vec![later(1), later(1)]).await, 2);
        assert_eq!(choose([later(1).boxed(), never().boxed()]).await, 2);
        assert_eq!(choose_biased((choose((never(), later(1))), choose([later(5)]))).await, 2);
    };
    machine(1).block_on_local(run);
}

#[test]
fn a_poll_phase_waits_for_them() {
    watchdog!();
    let event = |n: u32| {
        guard_async(async move || {
            after(Duration::from_millis(1)).await;
            always(n)
        })
        .then(async |n| {
            after(Duration::from_millis(1)).await;
            n
        })
    };
    assert_eq!(event(1).try_sync(), Some(1));
    assert_eq!(event(1).sync_blocking(), 1);
    machine(1).block_on(async { assert_eq!(choose((event(2), never())).try_sync(), Some(2)) });
}

#[test]
fn panics_in_them_end_the_synchronization() {
    watchdog!();
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let aborts = AtomicUsize::new(0);
    let abort = || bump(&aborts);
    async fn panics<T>() -> T {
        panic!("on purpose")
    }
    let guard_panics = guard_async(panics::<chanter::event::Always<i32>>);
    let choice = choose((always(2).on_abort(abort), guard_panics));
    assert!(catch_unwind(AssertUnwindSafe(|| choice.sync_blocking())).is_err());
    // The choice had not begun: nobody had lost.
    let action_panics = always(1).then(|_| panics::<i32>());
    let choice = choose((action_panics, never().on_abort(abort)));
    assert!(catch_unwind(AssertUnwindSafe(|| choice.sync_blocking())).is_err());
    assert!(aborts.load(Ordering::SeqCst) >= 1);
}

#[test]
fn an_await_elsewhere_runs_them() {
    watchdog!();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let got = runtime.block_on(async {
        let event = always(1).then(async |n| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            n + 1
        });
        choose((event, never())).await
    });
    assert_eq!(got, 2);
}
