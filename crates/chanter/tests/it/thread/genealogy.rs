//! Names, sites, parents, children, siblings, ancestors; and that the dead are
//! forgotten.

use crate::common;

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    ThreadBuilder,
    thread::{Kin, Threads, current_thread},
};
use common::{eventually, machine, watchdog};

const MANY: usize = if cfg!(miri) {
    10
} else if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};

fn keeping(vps: usize) -> Machine {
    // On one processor all others have had their turn when one comes back.
    let quantum = (vps > 1).then_some(Duration::from_millis(10));
    Machine::builder().vps(vps).genealogy(true).hand_off_after(quantum).build().unwrap()
}

async fn forever() {
    never().await
}

fn names(kin: &[Kin]) -> Vec<&str> {
    kin.iter().map(|kin| kin.name().unwrap_or("?")).collect()
}

/// Depths and names, "+" for those that have ended.
fn tree(threads: &Threads) -> String {
    let row = |(depth, kin): (usize, &Kin)| {
        let ended = if kin.is_alive() { "" } else { "+" };
        format!("{depth}{}{ended}", kin.name().unwrap_or("?"))
    };
    threads.iter().map(row).collect::<Vec<_>>().join(" ")
}

/// Waits for the tree to be so, by yielding.
async fn until(machine: &Machine, expected: &str) {
    let end = Instant::now() + common::FOREVER;
    while tree(&machine.threads().unwrap()) != expected {
        assert!(Instant::now() < end, "never {expected}: {}", tree(&machine.threads().unwrap()));
        yield_now().await;
    }
}

#[test]
fn a_family() {
    watchdog!();
    for vps in [1, 2] {
        let machine = keeping(vps);
        machine.block_on(async {
            let (tx, rx) = mailbox();
            let line = line!() + 1;
            let parent = Thread::builder().name("parent").spawn(async move {
                let eldest = Thread::builder().name("eldest").spawn(forever());
                let middle = Thread::builder().name("middle").spawn(async {
                    [
                        Thread::builder().name("one").spawn(forever()),
                        Thread::builder().name("two").spawn(forever()),
                    ]
                });
                let youngest = ThreadBuilder::new().name("youngest").delay(async { 7 });
                tx.send((eldest, middle, youngest)).await.unwrap();
                never::<()>().await;
            });
            let (eldest, middle, youngest) = rx.recv().await.unwrap();
            let [one, two] = middle.await.unwrap();
            until(&machine, "0? 1parent 2eldest 2middle+ 3one 3two 2youngest").await;

            assert_eq!(parent.parent(), current_thread());
            assert_eq!(parent.site().unwrap().line(), line);
            assert_eq!(names(&parent.children()), ["eldest", "youngest"]);
            assert_eq!(names(&youngest.siblings()), ["eldest"]);
            assert_eq!(youngest.parent().unwrap().id(), parent.id());
            // The dead parent keeps them together.
            assert_eq!(names(&one.siblings()), ["two"]);
            assert_eq!(names(&one.ancestors()), ["middle", "parent", "?"]);
            assert!(!one.parent().unwrap().is_alive());
            // Handles keep nothing in the tree.
            let mut machines_end = two;
            machines_end = {
                drop(machines_end);
                one
            };
            assert_eq!(youngest.await.unwrap(), 7);
            until(&machine, "0? 1parent 2eldest 2middle+ 3one 3two").await;
            assert_eq!(names(&eldest.siblings()), [""; 0]);
            drop((eldest, machines_end));
        });
    }
}

#[test]
fn one_branch_takes_the_place_of_the_dead() {
    watchdog!();
    let machine = keeping(1);
    machine.block_on(async {
        let (tx, rx) = channel::<()>();
        let (tx2, rx2) = mailbox();
        Thread::builder().name("grandparent").spawn(async move {
            Thread::builder().name("parent").spawn(async move {
                Thread::builder().name("short").spawn(async move { rx.recv().await });
                let long = Thread::builder().name("long").spawn(forever());
                tx2.send(long).await.unwrap();
            });
        });
        let long = rx2.recv().await.unwrap();
        until(&machine, "0? 1parent+ 2short 2long").await;
        assert_eq!(names(&long.siblings()), ["short"]);
        tx.send(()).await.unwrap();
        until(&machine, "0? 1long").await;
        // It still knows its parent, and how old the family is.
        let parent = long.parent().unwrap();
        assert_eq!((parent.name(), parent.is_alive(), parent.generation()), (Some("parent"), false, Some(2)));
        assert_eq!(names(&long.ancestors()), ["parent", "?"]);
        assert_eq!(names(&long.siblings()), [""; 0], "main's other children are none");
        let text = || machine.threads().unwrap().to_string();
        assert!(text().contains("\n  thread 4 'long', spawned at "), "{}", text());
        // (Once it has begun.)
        while !text().ends_with(": evaluating (by thread 2 'parent', which has ended)\n") {
            yield_now().await;
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn every_kind_has_a_number_and_a_site() {
    watchdog!();
    for vps in [1, 2] {
        let machine = keeping(vps);
        let outside = machine.spawn(async { current_thread().unwrap() }).join().sync_blocking().unwrap();
        assert_eq!((outside.id(), outside.generation()), (Some(0), Some(0)));
        machine.block_on_local(async {
            let me = current_thread().unwrap();
            let site = line!();
            let kin = [
                spawn(async { current_thread().unwrap() }).join().await.unwrap(),
                Thread::builder().on(0).spawn(async { current_thread().unwrap() }).join().await.unwrap(),
                spawn_local(async { current_thread().unwrap() }).join().await.unwrap(),
                spawn_fiber(|| current_thread().unwrap()).join().await.unwrap(),
                delay(async { current_thread().unwrap() }).await.unwrap(),
                delay(async { current_thread().unwrap() }).join().await.unwrap(),
                {
                    let (tx, rx) = mailbox();
                    spawn_parasite(async move { tx.try_send(current_thread().unwrap()).unwrap() });
                    rx.recv().await.unwrap()
                },
            ];
            for (index, kin) in kin.iter().enumerate() {
                assert_eq!(kin.id(), Some(me.id().unwrap() + 1 + index as u64), "{kin}");
                assert_eq!(kin.generation(), Some(1), "{kin}");
                assert!(kin.site().unwrap().line() > site, "{kin}");
                assert!(kin.site().unwrap().file().ends_with("genealogy.rs"), "{kin}");
                assert!(kin.is_alive(), "{kin}");
            }
            assert_eq!(kin.iter().filter(|kin| kin.is_parasite()).count(), 1);
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn names_work_without_it() {
    watchdog!();
    machine(1).block_on(async {
        let thread = Thread::builder().name("named").spawn(async { current_thread().unwrap() });
        assert_eq!((thread.name(), thread.id(), thread.parent()), (Some("named"), None, None));
        assert_eq!((thread.children(), thread.siblings(), thread.site()), (vec![], vec![], None));
        assert_eq!(format!("{thread:?}"), "Thread { name: \"named\", progress: Scheduled, .. }");
        let kin = thread.await.unwrap();
        assert_eq!((kin.name(), kin.id(), kin.site()), (Some("named"), None, None));
        let fiber = chanter::fiber::Builder::new()
            .name("fiber")
            .spawn(|| (chanter::fiber::name(), current_thread().unwrap().name().map(str::to_owned)));
        assert_eq!(fiber.name(), Some("fiber"));
        assert_eq!(fiber.await.unwrap(), (Some("fiber".into()), Some("fiber".into())));
        // Large bodies, delayed ones, and both.
        let large = [1u8; 5000];
        let thread = Thread::builder().name("large").spawn(async move { (yield_now().await, large).1 });
        assert_eq!(thread.name(), Some("large"));
        assert_eq!(thread.await.unwrap()[4999], 1);
        for evaluates in [false, true] {
            let thread = ThreadBuilder::new().name("lazy").delay(async move {
                if evaluates {
                    yield_now().await
                }
                (current_thread().unwrap().name() == Some("lazy"), large).0
            });
            assert!(thread.await.unwrap());
        }
        assert!(ThreadBuilder::new().name("lazy").delay(async { current_thread() }).await.unwrap().is_some());
        assert_eq!(current_thread().unwrap().name(), None);
    });
    assert_eq!(current_thread(), None);
    assert!(machine(1).threads().is_none());
}

#[test]
fn a_name_is_dropped_once() {
    watchdog!();
    let name: std::sync::Arc<str> = "counted".into();
    let count = || std::sync::Arc::strong_count(&name);
    for machine in [keeping(1), machine(1)] {
        machine.block_on(async {
            let builder = || ThreadBuilder::new().name(std::sync::Arc::clone(&name));
            builder().delay(async {}).await.unwrap();
            drop(builder().delay(async {}));
            builder().spawn(async {}).await.unwrap();
            builder().delay(async { yield_now().await }).await.unwrap();
            assert!(builder().spawn(async { panic!("seen") }).await.is_err());
            assert!(builder().delay(async { panic!("seen") }).await.is_err());
            drop(builder().spawn(forever()));
        });
        drop(machine);
        assert_eq!(count(), 1);
    }
}

/// Spawns its successor, and dies.
fn successor(left: usize, end: Sender<u32>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if left == 0 {
            end.send(current_thread().unwrap().generation().unwrap()).await.unwrap();
        } else {
            spawn(successor(left - 1, end));
        }
    })
}

#[test]
fn generations_come_and_go() {
    watchdog!(120);
    for vps in [1, 2] {
        let machine = keeping(vps);
        machine.block_on(async {
            let (tx, rx) = channel();
            spawn(successor(MANY, tx));
            assert_eq!(rx.recv().await, Ok(MANY as u32 + 1));
        });
        eventually("only the last is left", || machine.threads().unwrap().living() == 0);
    }
}

/// A random family: every thread knows its parent.
fn family(depth: usize, seed: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        let me = current_thread().unwrap();
        let mut count = 1;
        if depth > 0 {
            let children: Vec<_> =
                (0..1 + seed % 3).map(|n| spawn(family(depth - 1, seed * 7 + n))).collect();
            for child in &children {
                assert_eq!(child.parent().unwrap().id(), me.id());
                assert!(child.siblings().len() < children.len());
            }
            if seed.is_multiple_of(4) {
                yield_now().await;
            }
            for child in children {
                count += child.await.unwrap();
            }
        }
        count
    })
}

#[test]
fn it_may_be_read_while_it_changes() {
    watchdog!(120);
    let machine = keeping(3);
    let (reads, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (machine, reads, done) = (&machine, &reads, &done);
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let threads = machine.threads().unwrap();
                let ended = threads.iter().filter(|(_, kin)| !kin.is_alive()).count();
                // Handles of those that have ended keep nodes of leaves, not rows.
                assert!(ended <= threads.living().max(1) * 2, "{threads}");
                reads.fetch_add(1, Ordering::SeqCst);
            }
        });
        let rounds = if cfg!(miri) {
            10
        } else if cfg!(debug_assertions) {
            20
        } else {
            100
        };
        for seed in 0..rounds {
            let families: Vec<_> = (0..4).map(|n| machine.spawn(family(6, seed * 5 + n))).collect();
            for family in families {
                family.join().sync_blocking().unwrap();
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(reads.into_inner() > 0);
    eventually("all have ended", || machine.threads().unwrap().living() == 0);
}

#[test]
fn a_handle_may_outlive_the_machine() {
    watchdog!();
    let machine = keeping(2);
    let child = machine
        .block_on(async { Thread::builder().name("parent").spawn(async { spawn(async {}) }).await.unwrap() });
    child.join().sync_blocking().unwrap();
    drop(machine);
    assert_eq!(child.parent().unwrap().name(), Some("parent"));
    assert_eq!(child.id(), Some(2));
    let thread = std::thread::spawn(move || drop(child));
    thread.join().unwrap();
}

/// The report of a panic, without its line and column.
fn without_line(report: &str) -> String {
    let (before, behind) = report.split_once("genealogy.rs:").unwrap();
    // There may be a spawn's before; the last one is the panic's.
    match behind.rsplit_once("genealogy.rs:") {
        Some((between, behind)) => {
            format!("{before}genealogy.rs:{between}genealogy.rs:LINE: {}", behind.split_once(": ").unwrap().1)
        }
        None => format!("{before}genealogy.rs:LINE: {}", behind.split_once(": ").unwrap().1),
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn an_unseen_panic_is_reported_with_name_and_ancestry() {
    const CHILD: &str = "CHANTER_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        for machine in [keeping(1), machine(1)] {
            machine.block_on(async {
                Thread::builder()
                    .name("server")
                    .spawn(async {
                        drop(Thread::builder().name("worker").spawn(async { panic!("oh") }));
                        spawn_parasite(async { panic!("ah") });
                    })
                    .await
                    .unwrap();
                // The ancestor stays until they have run.
                after(Duration::from_millis(50)).await;
            });
        }
        return;
    }
    let name = "thread::genealogy::an_unseen_panic_is_reported_with_name_and_ancestry";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        // To write a backtrace takes so long that others run, and write, meanwhile.
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    let is_report = |line: &&str| line.starts_with("chanter: ") && line.contains(" panicked ");
    let reports: Vec<_> = text.lines().filter(is_report).map(without_line).collect();
    assert_eq!(reports.len(), 4, "{text}");
    // Beside std's message, which names the OS thread.
    assert!(text.contains("chanter: this OS thread runs thread 'worker'\n"), "{text}");
    // The reports of one machine follow the other machine's reports. A parasite may have been queued.
    let report = |half: usize, what| {
        reports[2 * half..2 * half + 2].iter().find(|r| r.ends_with(what)).unwrap().as_str()
    };
    let (worker, parasite) = (report(0, "oh"), report(0, "ah"));
    assert!(worker.starts_with("chanter: a thread that nobody joined (2 'worker', spawned at "), "{worker}");
    assert!(
        worker.ends_with(
            ", by thread 1 'server', by thread 0) panicked at crates/chanter/tests/it/thread/genealogy.rs:LINE: oh"
        ),
        "{worker}"
    );
    assert!(parasite.starts_with("chanter: a parasite (3, spawned at "), "{parasite}");
    assert!(
        parasite.ends_with(
            ", by thread 1 'server', by thread 0) panicked at crates/chanter/tests/it/thread/genealogy.rs:LINE: ah"
        ),
        "{parasite}"
    );
    // Names are known anyway.
    let body = "it::thread::genealogy::an_unseen_panic_is_reported_with_name_and_ancestry";
    let at = "panicked at crates/chanter/tests/it/thread/genealogy.rs:LINE";
    assert_eq!(report(1, "ah"), format!("chanter: a parasite (of {body}) {at}: ah"));
    assert_eq!(report(1, "oh"), format!("chanter: a thread that nobody joined ('worker') {at}: oh"));
}
