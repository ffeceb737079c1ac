//! Births and deaths: of hosts, and of machines.

use crate::common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::parasite::{Par, attach, prepare, reify};
use chanter::prelude::*;
use common::{Ledger, eventually, machine, millis, poll, watchdog};

/// The action of the body.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Body {
    Returns,
    Blocks,
    Panics,
    BlocksThenReturns,
    BlocksThenPanics,
    PanicsInDrop,
    BlocksForEver,
    YieldsForEver,
}

/// The time of the join.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Joined {
    Never,
    BeforeTheEnd,
    AfterTheEnd,
    JoinDropped,
}

/// The fate of the handle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Handle {
    Kept,
    DroppedAtOnce,
}

/// How the body's machine ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    WhenDone,
    Early,
}

const BODIES: [Body; 8] = [
    Body::Returns,
    Body::Blocks,
    Body::Panics,
    Body::BlocksThenReturns,
    Body::BlocksThenPanics,
    Body::PanicsInDrop,
    Body::BlocksForEver,
    Body::YieldsForEver,
];

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a destructor's panic");
        }
    }
}

#[test]
fn the_matrix() {
    watchdog!(120);
    for body in BODIES {
        for joined in [Joined::Never, Joined::BeforeTheEnd, Joined::AfterTheEnd, Joined::JoinDropped] {
            for handle in [Handle::Kept, Handle::DroppedAtOnce] {
                for end in [End::WhenDone, End::Early] {
                    for vps in [1, 2] {
                        one_case(body, joined, handle, end, vps);
                    }
                }
            }
        }
    }
}

fn one_case(body: Body, joined: Joined, handle: Handle, end: End, vps: usize) {
    let case = format!("{body:?} {joined:?} {handle:?} {end:?} on {vps}");
    let ledger = Ledger::new();
    let machine = machine(vps);
    let (go, gate) = channel::<()>();
    let (held, value) = (ledger.payload(0), ledger.payload(1));
    let thread = machine.spawn(async move {
        let _held = held;
        match body {
            Body::Returns => (),
            Body::Blocks => gate.recv().await.unwrap_or(()),
            Body::Panics => panic!("a body's panic"),
            Body::BlocksThenReturns => {
                let _ = gate.recv().await;
                yield_now().await;
            }
            Body::BlocksThenPanics => {
                let _ = gate.recv().await;
                panic!("a body's panic");
            }
            Body::PanicsInDrop => {
                let _bomb = PanicsWhenDropped;
                let _ = gate.recv().await;
                never::<()>().await;
            }
            Body::BlocksForEver => never::<()>().await,
            Body::YieldsForEver => loop {
                yield_now().await;
            },
        }
        value
    });
    let forever = matches!(body, Body::PanicsInDrop | Body::BlocksForEver | Body::YieldsForEver);
    let panics = matches!(body, Body::Panics | Body::BlocksThenPanics);
    let event = (joined != Joined::Never).then(|| thread.join());
    let thread = (handle == Handle::Kept).then_some(thread);
    let open = |go: Sender<()>| {
        // The body may not want it (any more).
        choose((go.send(()).wrap(|_| ()), after(millis(2)))).sync_blocking();
    };
    let check = |result: Result<common::Payload, JoinError>, cancelled: bool| match result {
        Ok(value) => {
            assert!(!panics && !forever, "{case}");
            assert_eq!(value.id, 1, "{case}");
        }
        Err(error) if error.is_panic() => {
            assert!(panics, "{case}: {error}");
            assert_eq!(error.message(), Some("a body's panic"), "{case}");
        }
        Err(error) => assert!(error.is_cancelled() && cancelled, "{case}: {error}"),
    };
    match (event, joined) {
        (Some(event), Joined::JoinDropped) => {
            let mut sync = Box::pin(event.sync());
            let _ = poll(&mut sync);
            drop(sync);
            open(go);
            drop(machine);
        }
        (Some(event), Joined::BeforeTheEnd) => {
            let waiter = std::thread::spawn(move || event.sync_blocking());
            if end == End::WhenDone && !forever {
                open(go);
                check(waiter.join().unwrap(), false);
                drop(machine);
            } else {
                drop(machine);
                check(waiter.join().unwrap(), true);
            }
        }
        (event, _) => {
            if end == End::WhenDone && !forever {
                open(go);
                if let Some(thread) = &thread {
                    eventually(&case, || thread.is_determined());
                }
            }
            drop(machine);
            if let Some(thread) = &thread {
                assert!(thread.is_determined(), "{case}");
            }
            if let Some(event) = event {
                check(event.sync_blocking(), true);
                if let Some(thread) = &thread {
                    let again = thread.join().try_sync().expect("determined");
                    assert!(again.unwrap_err().is_taken(), "{case}");
                }
            }
        }
    }
    drop(thread);
    ledger.check();
}

#[test]
fn a_value_is_taken_once() {
    watchdog!();
    machine(2).block_on(async {
        let thread = spawn(async { String::from("value") });
        let (first, second) = (thread.join(), thread.join());
        assert_eq!(first.await.unwrap(), "value");
        let error = second.await.unwrap_err();
        assert!(error.is_taken() && !error.is_panic() && !error.is_cancelled());
        assert_eq!(error.message(), None);
        assert!(thread.join().await.unwrap_err().is_taken());
        // Many wait: one gets it.
        let thread = Arc::new(spawn(async {
            after(millis(5)).await;
            7
        }));
        let waiters: Vec<_> = (0..20)
            .map(|n| {
                let thread = thread.clone();
                spawn(async move {
                    match n % 2 {
                        0 => thread.join().await.is_ok(),
                        _ => choose((thread.join(), never())).await.is_ok(),
                    }
                })
            })
            .collect();
        let mut got = 0;
        for waiter in waiters {
            got += usize::from(waiter.join().await.unwrap());
        }
        assert_eq!(got, 1);
        // Losing a choice does not take it.
        let thread = spawn(async { 8 });
        while !thread.is_determined() {
            yield_now().await;
        }
        assert_eq!(choose_biased((always(Ok(1)), thread.join())).await.unwrap(), 1);
        assert_eq!(thread.await.unwrap(), 8);
    });
}

#[test]
fn a_panic_is_a_value() {
    watchdog!();
    let machine = machine(1);
    let error = machine.spawn(async { panic!("number {}", 5) }).join().sync_blocking().unwrap_err();
    assert_eq!(error.message(), Some("number 5"));
    assert!(error.to_string().contains("number 5"));
    let error = machine.spawn(async { std::panic::panic_any(7u32) }).join().sync_blocking().unwrap_err();
    assert_eq!(error.message(), None);
    assert_eq!(*error.into_panic().unwrap().downcast::<u32>().unwrap(), 7);
    // The main thread's panic is the caller's, and the machine lives on.
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        machine.block_on(async {
            yield_now().await;
            panic!("main")
        })
    }));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "main");
    assert_eq!(machine.block_on(async { spawn(async { 1 }).join().await.unwrap() }), 1);
}

#[test]
fn values_of_all_sizes() {
    watchdog!();
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Aligned(u8);
    let machine = machine(1);
    macro_rules! sizes {
        ($($size:literal)*) => {$(
            let thread = machine.spawn(async { std::hint::black_box([(($size as usize) & 0xff) as u8; $size]) });
            assert!(thread.join().sync_blocking().unwrap().iter().all(|byte| *byte == (($size as usize) & 0xff) as u8));
            let thread = machine.spawn(async {
                let bytes = std::hint::black_box([1u8; $size]);
                yield_now().await;
                bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>()
            });
            assert_eq!(thread.join().sync_blocking().unwrap(), $size);
        )*};
    }
    sizes!(0 1 8 100 500 1000 1900 2000);
    let thread = machine.spawn(async { Aligned(3) });
    assert_eq!(thread.join().sync_blocking().unwrap().0, 3);
    sizes!(2030 2048 4096 100000);
}

/// Everything that blocked threads hold is dropped: hosts, parasites, local
/// threads, in every kind of wait.
#[test]
fn a_machine_that_is_dropped_leaks_nothing() {
    watchdog!();
    for vps in [1, 2, 3] {
        for round in 0..20 {
            let ledger = Ledger::new();
            let machine = machine(vps);
            let (tx, rx) = channel::<common::Payload>();
            let (full, full_rx) = bounded(1);
            full.try_send(ledger.payload(0)).unwrap();
            let pars: Arc<Mutex<Vec<Par<()>>>> = Arc::default();
            let body = |n: usize| {
                let (tx, rx, full, pars) = (tx.clone(), rx.clone(), full.clone(), pars.clone());
                let held = ledger.payload(n);
                let message = ledger.payload(n);
                async move {
                    let _held = held;
                    match n % 7 {
                        0 => drop(rx.recv().await),
                        1 => drop(full.send(message).await),
                        2 => after(Duration::from_secs(3600)).await,
                        3 => drop(choose((rx.recv(), full.send(message).wrap(|_| Err(Closed)))).await),
                        4 => reify(|par| pars.lock().unwrap().push(par)).await,
                        5 => loop {
                            yield_now().await;
                        },
                        _ => drop(
                            spawn(async move {
                                let _message = message;
                                never::<()>().await
                            })
                            .join()
                            .await,
                        ),
                    }
                    drop(tx);
                }
            };
            let kept: Vec<_> = (0..70).map(|n| machine.spawn(body(n))).collect();
            machine.block_on(async {
                for n in 0..35 {
                    // The fifth kind would keep the main thread waiting.
                    if n % 7 != 5 {
                        spawn_parasite(body(n));
                    }
                    drop(spawn_local(body(n)));
                    drop(Thread::builder().on(n % vps).spawn(body(n)));
                }
                for _ in 0..round {
                    yield_now().await;
                }
            });
            drop(machine);
            for thread in &kept {
                assert!(thread.is_determined());
            }
            let results: Vec<_> = kept.into_iter().map(|thread| thread.join().sync_blocking()).collect();
            assert!(results.iter().all(|result| result.as_ref().is_err_and(JoinError::is_cancelled)));
            drop((tx, rx, full, full_rx));
            // References are still there; what the threads held is not.
            ledger.check();
        }
    }
}

/// Threads that spawn, send and wake while they are being dropped.
#[test]
fn destructors_may_do_anything_at_the_end() {
    watchdog!();
    struct Busy {
        tx: Sender<u32>,
        dropped: Arc<AtomicUsize>,
        depth: u32,
    }
    impl Drop for Busy {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            let _ = self.tx.try_send(self.depth);
            if self.depth > 0 {
                let child =
                    Busy { tx: self.tx.clone(), dropped: self.dropped.clone(), depth: self.depth - 1 };
                if self.depth.is_multiple_of(2) {
                    drop(spawn(async move {
                        let _child = child;
                        never::<()>().await
                    }));
                } else {
                    spawn_parasite(async move {
                        let _child = child;
                        never::<()>().await
                    });
                }
            }
        }
    }
    for vps in [1, 2] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let machine = machine(vps);
        let (tx, rx) = mailbox();
        for _ in 0..20 {
            let busy = Busy { tx: tx.clone(), dropped: dropped.clone(), depth: 5 };
            let rx = rx.clone();
            drop(machine.spawn(async move {
                let _busy = busy;
                // Those that are dropped later are woken by those before.
                while rx.recv().await.is_ok() {}
                never::<()>().await
            }));
        }
        machine.block_on(yield_now());
        drop(machine);
        assert_eq!(dropped.load(Ordering::Relaxed), 20 * 6);
    }
}

/// Handles and wakers that outlive their machine.
#[test]
fn handles_may_outlive_their_machine() {
    watchdog!();
    for vps in [1, 2] {
        let ledger = Ledger::new();
        let machine = machine(vps);
        let (tx, rx) = channel::<u32>();
        let waker: Arc<Mutex<Option<std::task::Waker>>> = Arc::default();
        let place = waker.clone();
        let done = machine.spawn({
            let value = ledger.payload(1);
            async move { value }
        });
        eventually("it is done", || done.is_determined());
        let blocked = machine.spawn(async move {
            std::future::poll_fn(|cx| {
                *place.lock().unwrap() = Some(cx.waker().clone());
                std::task::Poll::Ready(())
            })
            .await;
            rx.recv().await
        });
        eventually("it has run", || waker.lock().unwrap().is_some());
        let par: Arc<Mutex<Option<Par<common::Payload>>>> = Arc::default();
        let there = par.clone();
        drop(machine.spawn(async move { drop(reify(|par| *there.lock().unwrap() = Some(par)).await) }));
        eventually("it is reified", || par.lock().unwrap().is_some());
        drop(machine);
        // Everything is harmless now.
        let waker = waker.lock().unwrap().take().unwrap();
        waker.wake_by_ref();
        let copy = waker.clone();
        waker.wake();
        drop(copy);
        assert!(tx.is_closed());
        assert!(blocked.join().sync_blocking().unwrap_err().is_cancelled());
        attach(prepare(par.lock().unwrap().take().unwrap(), ledger.payload(2)));
        assert_eq!(done.join().sync_blocking().unwrap().id, 1);
        drop((done, blocked));
        ledger.check();
    }
}

#[test]
fn many_machines() {
    watchdog!();
    // One after the other, and side by side, talking to each other.
    for n in 0..200 {
        let machine = machine(1 + n % 3);
        let thread = machine.spawn(async move { n });
        if n % 2 == 0 {
            assert_eq!(thread.join().sync_blocking().unwrap(), n);
        }
        if n % 3 == 0 {
            machine.block_on(async { yield_now().await });
        }
    }
    let machines: Vec<_> = (0..8).map(|n| machine(1 + n % 2)).collect();
    let (first, mut next) = channel::<u64>();
    for machine in machines.iter().cycle().take(40) {
        let (tx, rx) = channel();
        let rx = std::mem::replace(&mut next, rx);
        drop(machine.spawn(async move {
            while let Ok(n) = rx.recv().await {
                tx.send(n + 1).await.unwrap();
            }
        }));
    }
    for n in 0..100 {
        first.send(n).sync_blocking().unwrap();
        assert_eq!(next.recv().sync_blocking(), Ok(n + 40));
    }
    // The middle of the chain goes away: both ends are told.
    let mut machines = machines;
    drop(machines.remove(3));
    assert_eq!(next.recv().sync_blocking(), Err(Closed));
    eventually("the first sender is told", || {
        choose((first.send(0).wrap(|r| r.is_err()), after(millis(1)).wrap(|()| false))).sync_blocking()
    });
}

#[test]
fn a_machine_is_dropped_by_its_own_thread() {
    watchdog!();
    for vps in [1, 2] {
        let machine = Arc::new(machine(vps));
        let ledger = Ledger::new();
        let (inner, held) = (machine.clone(), ledger.payload(0));
        let (tx, rx) = channel::<()>();
        drop(machine.spawn(async move {
            let _held = held;
            let _ = rx.recv().await;
            drop(inner);
            never::<()>().await
        }));
        drop(machine);
        tx.send(()).sync_blocking().unwrap();
        eventually("the machine ends", || ledger.live() == 0);
        ledger.check();
    }
}

/// The processor time that this process has used, in clock ticks (10 ms).
#[cfg(target_os = "linux")]
fn ticks_used() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name may hold spaces: what follows it does not.
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// In a process of its own, since other tests use the processor.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
#[cfg(target_os = "linux")]
fn an_idle_machine_uses_no_processor() {
    watchdog!();
    const CHILD: &str = "CHANTER_TEST_IDLE";
    if std::env::var_os(CHILD).is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "thread::lifecycle::an_idle_machine_uses_no_processor", "--nocapture"])
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let machines: Vec<_> = (1..=4).map(machine).collect();
    let (tx, rx) = channel::<()>();
    for machine in &machines {
        machine.block_on(async {
            for _ in 0..100 {
                let (host, rx) = (rx.clone(), rx.clone());
                drop(spawn(async move { host.recv().await }));
                let late = after(Duration::from_secs(3600)).wrap(|()| Ok(()));
                spawn_parasite(choose((rx.into_recv(), late)).into_future());
            }
            yield_now().await;
        });
    }
    // Once they have come to rest.
    let is_idle = (0..20).any(|_| {
        let before = ticks_used();
        std::thread::sleep(millis(300));
        // The main thread of one of them waits, too.
        machines[1].block_on(async { after(millis(300)).await });
        ticks_used() - before <= 1
    });
    assert!(is_idle, "idle machines used more than 10 ms of each 600");
    let sleeps: u64 = machines.iter().map(|machine| machine.stats().sleeps).sum();
    assert!(sleeps < 1000, "it sleeps without rest: {sleeps}");
    drop(tx);
}

#[test]
fn local_threads_stay_and_end_with_block_on() {
    watchdog!();
    let machine = machine(2);
    let dropped = std::rc::Rc::new(());
    machine.block_on_local(async {
        let here = std::thread::current().id();
        let threads: Vec<_> = (0..50)
            .map(|n| {
                let local = dropped.clone();
                spawn_local(async move {
                    for _ in 0..n {
                        yield_now().await;
                        assert_eq!(std::thread::current().id(), here);
                    }
                    (n, local)
                })
            })
            .collect();
        for (n, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().await.unwrap().0, n);
        }
        let forever = dropped.clone();
        drop(spawn_local(async move {
            let _forever = forever;
            never::<()>().await
        }));
        yield_now().await;
    });
    assert_eq!(std::rc::Rc::strong_count(&dropped), 1);
}

#[test]
fn pinned_threads_stay_where_they_are() {
    watchdog!();
    let machine = machine(3);
    let threads: Vec<_> = (0..30)
        .map(|n| {
            machine.spawn_on(1 + n % 2, async move {
                let here = std::thread::current().id();
                for _ in 0..100 {
                    yield_now().await;
                    assert_eq!(std::thread::current().id(), here);
                }
                after(millis(1)).await;
                assert_eq!(std::thread::current().id(), here);
                std::thread::current().name().map(str::to_owned)
            })
        })
        .collect();
    for (n, thread) in threads.into_iter().enumerate() {
        let name = thread.join().sync_blocking().unwrap().unwrap();
        assert!(name.ends_with(&format!("-{}", 1 + n % 2)), "{name}");
    }
}

#[test]
#[should_panic(expected = "virtual processor 2")]
fn a_processor_that_is_not_there() {
    let _ = machine(2).spawn_on(2, async {});
}

#[test]
fn a_machine_needs_a_processor() {
    assert!(Machine::builder().vps(0).build().is_err());
    let machine = Machine::builder().vps(2).name("choir").build().unwrap();
    assert_eq!(machine.vps(), 2);
    let name = machine.spawn_on(1, async { std::thread::current().name().map(str::to_owned) });
    assert_eq!(name.join().sync_blocking().unwrap().as_deref(), Some("choir-1"));
}

/// A thread's destructor runs once, on its machine, before `join` returns.
#[test]
fn a_thread_is_gone_when_it_is_joined() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = machine(2);
    for n in 0..1000 {
        let held = ledger.payload(n);
        machine
            .spawn(async move {
                let _held = held;
                if n % 2 == 0 {
                    yield_now().await;
                }
            })
            .join()
            .sync_blocking()
            .unwrap();
        assert_eq!(ledger.live(), 0, "the body outlives its join");
    }
}

/// Wide fan-out: a tree of threads, each joined by its parent.
#[test]
fn a_tree_of_threads() {
    watchdog!();
    fn tree(depth: u32) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if depth == 0 {
                return 1;
            }
            let children: Vec<_> = (0..4).map(|_| spawn(tree(depth - 1))).collect();
            let mut sum = 1;
            for child in children {
                sum += child.join().await.unwrap();
            }
            sum
        })
    }
    for vps in [1, 2, 4] {
        assert_eq!(machine(vps).block_on(tree(7)), 21_845);
    }
}

/// The attribute runs a test on a machine.
#[chanter::test]
async fn the_test_attribute() {
    let (tx, rx) = channel();
    spawn(async move { tx.send(1).await });
    assert_eq!(rx.recv().await, Ok(1));
}

#[chanter::test(vps = 2)]
async fn the_test_attribute_with_processors() -> Result<(), JoinError> {
    let local = std::rc::Rc::new(5);
    let thread = Thread::builder().on(1).spawn(async { 5 });
    assert_eq!(thread.join().await?, *local);
    Ok(())
}
