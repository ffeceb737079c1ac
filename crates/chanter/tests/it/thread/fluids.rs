//! Fluid bindings: each thread sees its own, wherever it runs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use chanter::prelude::*;
use chanter::thread::Fluid;

use crate::common::{alone, machine};

static NUMBER: Fluid<u32> = Fluid::new();
static OTHER: Fluid<&'static str> = Fluid::new();

/// Looks before and after each of many awaits, which suspend, attach and steal.
async fn looks(number: u32, rounds: u32) {
    let check = |at: u32| assert_eq!(NUMBER.get(), Some(number), "await {at}");
    for round in 0..rounds {
        check(round);
        yield_now().await;
        check(round);
        // A host, which is stolen if nobody has taken it.
        assert_eq!(spawn(async { NUMBER.get() }).await.unwrap(), Some(number));
        check(round);
        // A delayed thread, which is stolen.
        assert_eq!(delay(async { NUMBER.get() }).await.unwrap(), Some(number));
        let lazy = delay(async { NUMBER.get() });
        assert_eq!(*lazy.clone().touch().await.unwrap(), Some(number));
        check(round);
        // A parasite, in place, and attached by its unblocker, which is this thread.
        let (tx, rx) = channel();
        let (tx_back, rx_back) = channel();
        spawn_parasite(async move {
            assert_eq!(NUMBER.get(), Some(number));
            let got: u32 = rx.recv().await.unwrap();
            tx_back.send((got, NUMBER.get())).await.unwrap();
        });
        check(round);
        // Another binding for the extent of the send, within which the parasite runs.
        NUMBER.bind(number + 100, async { tx.send(round).await.unwrap() }).await;
        assert_eq!(rx_back.recv().await.unwrap(), (round, Some(number)));
        check(round);
    }
}

#[test]
fn four_threads_see_their_own_values_at_every_await() {
    for vps in [1, 2] {
        let machine = machine(vps);
        machine.block_on(async {
            let rounds = if cfg!(miri) { 2 } else { 200 };
            let threads: Vec<_> =
                (1..=4).map(|n| spawn(NUMBER.bind(n, async move { looks(n, rounds).await }))).collect();
            for thread in threads {
                thread.await.unwrap();
                assert_eq!(NUMBER.get(), None);
            }
        });
        assert!(machine.stats().stolen > 0 && machine.stats().attached > 0);
    }
}

#[test]
fn an_attached_parasite_without_bindings_sees_none() {
    alone(async {
        let (tx, rx) = channel::<u32>();
        let (tx_seen, rx_seen) = mailbox();
        spawn_parasite(async move {
            rx.recv().await.unwrap();
            tx_seen.send(NUMBER.get()).await.unwrap();
        });
        NUMBER.bind(1, async { tx.send(0).await.unwrap() }).await;
        assert_eq!(rx_seen.recv().await.unwrap(), None);
        // So does a stolen one.
        let stolen = spawn(async { NUMBER.get() });
        let lazy = delay(async { NUMBER.get() });
        assert_eq!(
            NUMBER.bind(1, async { (stolen.await.unwrap(), lazy.await.unwrap()) }).await,
            (None, None)
        );
    });
}

#[test]
fn bindings_nest_and_end_with_their_extent() {
    alone(async {
        let seen = || (NUMBER.get(), OTHER.get());
        let both = NUMBER.bind(1, async move {
            assert_eq!(seen(), (Some(1), None));
            OTHER
                .bind("inner", async move {
                    assert_eq!(seen(), (Some(1), Some("inner")));
                    assert_eq!(NUMBER.bind(2, async move { seen() }).await, (Some(2), Some("inner")));
                    spawn(async move { seen() }).await.unwrap()
                })
                .await
        });
        assert_eq!(seen(), (None, None));
        assert_eq!(both.await, (Some(1), Some("inner")));
        assert_eq!(seen(), (None, None));
        assert_eq!(NUMBER.bind_blocking(3, seen), (Some(3), None));
        let unwinds =
            std::panic::AssertUnwindSafe(|| NUMBER.bind_blocking(3, || panic!("out of the extent")));
        assert!(std::panic::catch_unwind(unwinds).is_err());
        assert_eq!(seen(), (None, None));
    });
    // Code outside of machines has bindings as well, which threads and blocking calls inherit.
    assert_eq!(NUMBER.bind_blocking(5, || NUMBER.get()), Some(5));
    let machine = machine(1);
    let look = || machine.spawn(async { NUMBER.get() }).join().sync_blocking().unwrap();
    assert_eq!((look(), NUMBER.bind_blocking(5, look), look()), (None, Some(5), None));
    let call = || machine.spawn_blocking(|| NUMBER.get()).join().sync_blocking().unwrap();
    assert_eq!((call(), NUMBER.bind_blocking(6, call), call()), (None, Some(6), None));
}

#[test]
fn a_main_thread_inherits() {
    for local in [false, true] {
        // On a machine without any bindings yet.
        let machine = machine(1);
        let look = || if local { machine.block_on_local(get()) } else { machine.block_on(get()) };
        assert_eq!((NUMBER.bind_blocking(5, look), look()), (Some(5), None));
    }
}

async fn get() -> Option<u32> {
    NUMBER.get()
}

/// Each thread binds the variables anew, and spawns the next one within.
#[test]
fn values_that_nobody_sees_are_dropped() {
    static VALUE: Fluid<Counted> = Fluid::new();
    const THREADS: u32 = if cfg!(miri) { 20 } else { 1000 };
    fn next(left: u32, dropped: Arc<AtomicU32>, over: Sender<u32>) {
        let counted = Counted(Arc::clone(&dropped));
        let spawns = move || {
            VALUE.bind_blocking(counted, || {
                spawn(async move {
                    yield_now().await;
                    if left > 0 {
                        next(left - 1, dropped, over);
                    } else {
                        assert_eq!(NUMBER.get(), Some(left));
                        over.send(dropped.load(SeqCst)).await.unwrap();
                    }
                })
            })
        };
        drop(NUMBER.bind_blocking(left, spawns));
    }
    alone(async {
        let (over, last) = channel();
        OTHER.bind_blocking("all", || next(THREADS, Arc::default(), over));
        assert!(last.recv().await.unwrap() >= THREADS - 2, "the values of threads that are over are kept");
    });
}

#[test]
fn fibers_inherit_and_keep_their_own_over_switches() {
    machine(2).block_on(async {
        let fibers: Vec<_> = (0..4)
            .map(|n| {
                NUMBER.bind_blocking(n, || {
                    spawn_fiber(move || {
                        for round in 0..50 {
                            assert_eq!(NUMBER.get(), Some(n));
                            chanter::fiber::yield_now();
                            NUMBER.bind_blocking(n + 10, || {
                                chanter::fiber::yield_now();
                                assert_eq!(NUMBER.get(), Some(n + 10), "round {round}");
                                assert_eq!(
                                    spawn(async { NUMBER.get() }).join().sync_blocking().unwrap(),
                                    Some(n + 10)
                                );
                            });
                        }
                    })
                })
            })
            .collect();
        for fiber in fibers {
            fiber.await.unwrap();
        }
        assert_eq!(NUMBER.get(), None);
    });
}

/// The fiber is suspended for it, as if itself had blocked.
#[test]
fn a_parasite_that_blocks_on_a_fiber_keeps_its_own() {
    alone(async {
        let (tx, rx) = mailbox();
        let fiber = spawn_fiber(move || {
            let parasite = async move {
                let (own, inner) = (
                    guard(|| always(NUMBER.get())).sync_blocking(),
                    NUMBER.bind_blocking(2, || chanter::block_on(spawn(async { NUMBER.get() }))),
                );
                tx.send((own, inner.unwrap())).await.unwrap();
            };
            NUMBER.bind_blocking(1, || spawn_parasite(parasite));
            assert_eq!(NUMBER.get(), None);
        });
        fiber.await.unwrap();
        assert_eq!(rx.recv().await.unwrap(), (Some(1), Some(2)));
    });
}

/// A value that counts itself.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_value_is_dropped_once_when_no_thread_has_it() {
    static VALUE: Fluid<Counted> = Fluid::new();
    let dropped = Arc::new(AtomicU32::new(0));
    for observed in [false, true] {
        dropped.store(0, SeqCst);
        let machine = Machine::builder().vps(1).hand_off_after(None).genealogy(observed).build().unwrap();
        machine.block_on(async {
            let (tx, rx) = channel::<()>();
            let counted = Arc::clone(&dropped);
            let threads = VALUE
                .bind(Counted(counted), async {
                    spawn_parasite(async {});
                    spawn_parasite(async move { assert!(rx.recv().await.is_ok()) });
                    let panics = spawn(async { panic!("within the extent") });
                    let (never_ran, cancelled) = (delay(async {}), spawn(never::<()>().into_future()));
                    (
                        spawn(async { VALUE.with(|value| assert!(value.is_some())) }),
                        panics,
                        never_ran,
                        cancelled,
                    )
                })
                .await;
            assert_eq!(dropped.load(SeqCst), 0);
            let (host, panics, never_ran, cancelled) = threads;
            host.await.unwrap();
            assert!(panics.await.unwrap_err().is_panic());
            drop(never_ran);
            cancelled.cancel().await.unwrap();
            drop(cancelled);
            yield_now().await;
            assert_eq!(dropped.load(SeqCst), 0, "the parasite has it");
            tx.send(()).await.unwrap();
            yield_now().await;
            assert_eq!(dropped.load(SeqCst), 1);
        });
    }
}

/// Destructors run within the extent in which their thread was spawned.
#[test]
fn destructors_see_the_bindings_of_their_thread() {
    static SEEN: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());
    struct Looks;
    impl Drop for Looks {
        fn drop(&mut self) {
            SEEN.lock().unwrap().push(NUMBER.get());
        }
    }
    alone(async {
        let delayed = NUMBER.bind_blocking(1, || {
            let looks = Looks;
            delay(async move { drop(looks) })
        });
        drop(delayed);
        let cancelled = NUMBER.bind_blocking(2, || {
            let looks = Looks;
            spawn(async move {
                let _looks = looks;
                never::<()>().await;
            })
        });
        yield_now().await;
        cancelled.cancel().await.unwrap();
        let looks = Looks;
        let dropped = NUMBER.bind(3, async move {
            let _looks = looks;
            never::<()>().await;
        });
        assert!(chanter::event::from_future(dropped).timeout(Duration::from_millis(1)).await.is_none());
        assert_eq!(*SEEN.lock().unwrap(), [Some(1), Some(2), Some(3)]);
    });
}
