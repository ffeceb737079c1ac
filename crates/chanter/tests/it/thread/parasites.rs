//! Parasites: they run where they are spawned, and go on where they are
//! unblocked.

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use chanter::parasite::{Par, attach, inflate, prepare, reify, spawn_in_place};
use chanter::prelude::*;
use common::{Ledger, alone, machine, watchdog};

type Log = Arc<Mutex<Vec<u32>>>;

fn note(log: &Log, n: u32) {
    log.lock().unwrap().push(n);
}

#[test]
fn a_parasite_runs_at_once_until_it_blocks() {
    watchdog!();
    alone(async {
        let log = Log::default();
        let (tx, rx) = channel::<()>();
        let inner = log.clone();
        note(&log, 0);
        spawn_parasite(async move {
            note(&inner, 1);
            rx.recv().await.unwrap();
            note(&inner, 3);
        });
        note(&log, 2);
        tx.send(()).await.unwrap();
        // Attached to us, before our send returned.
        note(&log, 4);
        assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn parasites_run_in_the_order_in_which_they_are_unblocked() {
    watchdog!();
    alone(async {
        let log = Log::default();
        let channels: Vec<_> = (0..5).map(|_| channel::<()>()).collect();
        for (n, (_, rx)) in channels.iter().enumerate() {
            let (rx, log) = (rx.clone(), log.clone());
            spawn_parasite(async move {
                rx.recv().await.unwrap();
                note(&log, n as u32);
            });
        }
        for n in [3, 0, 4, 1, 2] {
            channels[n].0.send(()).await.unwrap();
        }
        assert_eq!(*log.lock().unwrap(), [3, 0, 4, 1, 2]);
    });
}

/// Waiters on one channel are first in, first out, parasites and hosts alike.
#[test]
fn parasites_queue_like_everybody() {
    watchdog!();
    alone(async {
        let log = Log::default();
        let (tx, rx) = channel::<u32>();
        for n in 0..6 {
            let (rx, log) = (rx.clone(), log.clone());
            let body = async move {
                let got = rx.recv().await.unwrap();
                assert_eq!(got, n);
                note(&log, n);
            };
            if n % 2 == 0 {
                spawn_parasite(body)
            } else {
                drop(spawn(body))
            }
            yield_now().await;
        }
        for n in 0..6 {
            tx.send(n).await.unwrap();
        }
        yield_now().await;
        let mut all = log.lock().unwrap().clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn the_unblocker_is_host_to_the_parasite() {
    watchdog!();
    let machine = machine(2);
    machine.block_on(async {
        let (tx, rx) = channel::<()>();
        let seen: Arc<Mutex<Option<ThreadId>>> = Arc::default();
        let place = seen.clone();
        spawn_parasite(async move {
            rx.recv().await.unwrap();
            *place.lock().unwrap() = Some(std::thread::current().id());
        });
        // Unblocked on the other processor: it goes on there.
        let unblocker = Thread::builder().on(1).spawn(async move {
            tx.send(()).await.unwrap();
            (std::thread::current().id(), *seen.lock().unwrap())
        });
        let (here, there) = unblocker.join().await.unwrap();
        assert_ne!(here, std::thread::current().id());
        assert_eq!(there, Some(here), "it was not attached to its unblocker");
    });
}

#[test]
fn panics_are_contained() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel::<()>();
        let ledger = Ledger::new();
        spawn_parasite(async { panic!("a parasite's panic, at once") });
        let held = ledger.payload(0);
        spawn_parasite(async move {
            let _held = held;
            rx.recv().await.unwrap();
            panic!("a parasite's panic, attached")
        });
        tx.send(()).await.unwrap();
        ledger.check();
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
    });
}

#[test]
fn reify_prepare_and_attach() {
    watchdog!();
    alone(async {
        let place: Arc<Mutex<Option<Par<u32>>>> = Arc::default();
        let log = Log::default();
        let (there, inner) = (place.clone(), log.clone());
        spawn_parasite(async move {
            note(&inner, 1);
            let n = reify(|par| {
                note(&inner, 2);
                *there.lock().unwrap() = Some(par);
            })
            .await;
            note(&inner, n);
        });
        note(&log, 3);
        let ready = prepare(place.lock().unwrap().take().unwrap(), 5);
        // Preparing does not run it.
        note(&log, 4);
        attach(ready);
        note(&log, 6);
        assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
    });
}

/// `reify` of a host, of a Tokio task, of an OS thread: attached from
/// anywhere.
#[test]
fn anything_can_be_reified() {
    watchdog!();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let machine = machine(2);
    for from in 0..3 {
        let (tx, rx) = mailbox::<Par<u32>>();
        let send = move |par| tx.try_send(par).unwrap();
        let block = reify(send);
        let result = IVar::new();
        let put = result.clone();
        let body = async move { put.put(block.await).unwrap() };
        match from {
            0 => drop(machine.spawn(body)),
            1 => drop(runtime.spawn(body)),
            _ => drop(std::thread::spawn(|| futures::executor::block_on(body))),
        }
        let par = rx.recv().sync_blocking().unwrap();
        match from {
            0 => attach(prepare(par, from)),
            1 => machine.spawn(async move { attach(prepare(par, from)) }).join().sync_blocking().unwrap(),
            _ => drop(runtime.spawn(async move { attach(prepare(par, from)) })),
        }
        assert_eq!(result.get().sync_blocking(), from);
    }
}

/// A reference that is used inside of `reify` itself.
#[test]
fn a_thread_may_be_attached_before_it_has_blocked() {
    watchdog!();
    alone(async {
        assert_eq!(reify(|par| attach(prepare(par, 7))).await, 7);
        let seen = Arc::new(AtomicUsize::new(0));
        let inner = seen.clone();
        spawn_parasite(async move {
            let n = reify(|par| attach(prepare(par, 8))).await;
            inner.store(n, Ordering::Relaxed);
        });
        while seen.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        assert_eq!(seen.load(Ordering::Relaxed), 8);
    });
}

#[test]
fn values_of_prepared_threads_are_never_leaked() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = machine(1);
    machine.block_on(async {
        // Prepared, and never attached: the thread panics and ends.
        let place: Arc<Mutex<Option<Par<common::Payload>>>> = Arc::default();
        let there = place.clone();
        let held = ledger.payload(0);
        spawn_parasite(async move {
            let _held = held;
            drop(reify(|par| *there.lock().unwrap() = Some(par)).await);
        });
        let par = place.lock().unwrap().take().unwrap();
        drop(prepare(par, ledger.payload(1)));
        yield_now().await;
        yield_now().await;
        assert_eq!(ledger.live(), 0, "an abandoned parasite holds on");
        // Attached after the thread has gone.
        let there = place.clone();
        let host = spawn(async move {
            let wait = reify(|par| *there.lock().unwrap() = Some(par));
            futures::future::select(Box::pin(wait), Box::pin(yield_now())).await;
        });
        host.join().await.unwrap();
        let par = place.lock().unwrap().take().unwrap();
        attach(prepare(par, ledger.payload(2)));
    });
    drop(machine);
    ledger.check();
}

#[test]
fn an_abandoned_reference_ends_its_thread() {
    watchdog!();
    alone(async {
        let host = spawn(async { reify(drop::<Par<()>>).await });
        let error = host.join().await.unwrap_err();
        assert!(error.is_panic());
        assert!(error.message().unwrap().contains("abandoned"));
        // A parasite, later: what it holds is released.
        let place: Arc<Mutex<Option<Par<()>>>> = Arc::default();
        let there = place.clone();
        let (tx, rx) = channel::<()>();
        spawn_parasite(async move {
            let _tx = tx;
            reify(|par| *there.lock().unwrap() = Some(par)).await;
        });
        drop(place.lock().unwrap().take().unwrap());
        assert_eq!(rx.recv().await, Err(Closed));
    });
}

#[test]
fn inflate_makes_a_host() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let log = Log::default();
        let inner = log.clone();
        let (tx, rx) = channel::<()>();
        spawn_parasite(async move {
            note(&inner, 1);
            inflate().await;
            note(&inner, 3);
            rx.recv().await.unwrap();
            note(&inner, 5);
        });
        note(&log, 2);
        yield_now().await;
        // A host now: queued when it is unblocked, not attached.
        tx.send(()).await.unwrap();
        note(&log, 4);
        yield_now().await;
        assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5]);
        // A host just yields.
        inflate().await;
    });
    assert_eq!(machine.stats().inflated, 1);
}

/// Long parasites are shared with processors that search for work. A worker that has lost its processor because they
/// take so long shares them too.
#[test]
fn long_parasites_are_shared_for_as_long_as_they_come() {
    watchdog!();
    let machine = machine(2);
    machine.block_on(async {
        let here = machine.stats().promoted;
        let mut spawned = 0;
        while machine.stats().promoted - here < 500 {
            spawn_parasite(async {
                let begin = std::time::Instant::now();
                while begin.elapsed() < std::time::Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
            });
            spawned += 1;
        }
        assert!(spawned >= 500);
    });
}

#[test]
fn a_spawner_that_never_pauses_promotes_no_short_parasites() {
    watchdog!();
    let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
    const PARASITES: u64 = 10_000;
    let sum = machine.block_on(async {
        let (tx, rx) = mailbox();
        let spawner = spawn(async move {
            for number in 0..PARASITES {
                let tx = tx.clone();
                spawn_parasite(async move { tx.send(number).await.unwrap() });
            }
        });
        spawner.join().await.unwrap();
        let mut sum = 0;
        while let Ok(number) = rx.recv().await {
            sum += number;
        }
        sum
    });
    assert_eq!(sum, PARASITES * (PARASITES - 1) / 2);
    let stats = machine.stats();
    assert_eq!((stats.promoted, stats.reified), (0, 0), "each could send at once");
}

#[test]
fn what_parasites_do_does_not_keep_their_spawner_from_yielding() {
    watchdog!();
    let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
    machine.block_on(async {
        let (tx, rx) = mailbox();
        let (mine, kept) = mailbox();
        let sent = Arc::new(AtomicUsize::new(0));
        let counts = sent.clone();
        let spawner = spawn(async move {
            for number in 0..10_000 {
                let tx = tx.clone();
                spawn_parasite(async move { tx.send(number).await.unwrap() });
                mine.send(number).await.unwrap();
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Woken by the first message; it runs when the spawner's budget is spent.
        let first = spawn(async move { rx.recv().await.map(|_| rx) });
        let rx = first.join().await.unwrap().unwrap();
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < 9_000, "{sent} were sent in one turn");
        spawner.join().await.unwrap();
        drop((rx, kept));
    });
}

#[test]
fn a_long_parasite_is_found_though_its_spawner_has_no_budget_left() {
    watchdog!();
    let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
    machine.block_on(async {
        let spawner = spawn(async {
            for _ in 0..2_000 {
                spawn_parasite(async {});
            }
            let (tx, rx) = mailbox();
            for _ in 0..300 {
                let tx = tx.clone();
                spawn_parasite(async move { tx.send(()).await.unwrap() });
            }
            let (long, longs) = mailbox();
            let sent = Arc::new(AtomicUsize::new(0));
            let counts = sent.clone();
            spawn_parasite(async move {
                for number in 0..1_000 {
                    long.send(number).await.unwrap();
                    counts.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(sent.load(Ordering::Relaxed) < 1_000, "its quantum is shorter");
            drop((rx, longs));
        });
        spawner.join().await.unwrap();
    });
    assert!(machine.stats().inflated >= 1);
}

/// A parasite in place was taken for the thread that had its frame before, and read a name out of its own future.
#[test]
fn parasites_in_place_have_no_name_of_the_thread_before() {
    use chanter::policy::{Attributes, set_attributes};
    use chanter::thread::current_thread;

    alone(async {
        for round in 0..3_u64 {
            for n in 0..40 {
                let named =
                    Thread::builder().name(format!("named {n}")).attributes(Attributes::new().priority(1));
                named.spawn(async { yield_now().await }).await.unwrap();
            }
            for n in 0..60_u64 {
                let content = [n + round; 12];
                spawn_parasite(async move {
                    let this = current_thread().unwrap();
                    assert_eq!((this.name(), this.body()), (None, None));
                    assert!(!set_attributes(Attributes::new()));
                    assert_eq!(std::hint::black_box(content)[11], n + round);
                });
            }
        }
    });
}

/// The sends of one thread's parasites are received in the order of their spawns, since each begins in place. That holds
/// while other processors search for work. `CHANTER_SENDS` says how many each of two threads sends.
#[test]
fn sends_of_parasites_in_place_keep_their_order() {
    watchdog!();
    keeps_order(|tx, message| spawn_in_place(tx.clone().into_send(message)));
}

/// So it is with asynchronous sends, which are no threads.
#[test]
fn asynchronous_sends_keep_their_order() {
    watchdog!();
    keeps_order(|tx, message| tx.asend(message).unwrap());
}

/// A sender, and the number of its message.
type Numbered = (usize, usize);

fn keeps_order(send: fn(&Sender<Numbered>, Numbered)) {
    let each = std::env::var("CHANTER_SENDS").map_or(20_000, |sends| sends.parse().unwrap());
    machine(2).block_on(async {
        let (tx, rx) = channel::<Numbered>();
        let senders: [_; 2] = std::array::from_fn(|sender| {
            let tx = tx.clone();
            spawn(async move {
                for n in 0..each {
                    send(&tx, (sender, n));
                    if n % 256 == 0 {
                        yield_now().await;
                    }
                }
            })
        });
        drop(tx);
        let mut next = [0; 2];
        while let Ok((sender, n)) = rx.recv().await {
            assert_eq!(n, next[sender], "sender {sender}");
            next[sender] += 1;
        }
        assert_eq!(next, [each; 2]);
        for sender in senders {
            sender.await.unwrap();
        }
    });
}
