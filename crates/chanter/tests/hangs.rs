//! Hangs are reported: dumps, watchdogs, and the limit of `#[chanter::test]`. Tests that hang on
//! purpose do it in processes of their own.

mod common;

use std::process::{Command, Output};
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    deadlock::{Watchdog, dump},
    sync::CVar,
};
use common::{machine, until_blocked, watchdog};

/// Threads of every kind that wait, each on something else.
async fn wait() -> (Vec<Thread<()>>, Sender<u32>, IVar<()>) {
    let (tx, rx) = channel::<u32>();
    let (ivar, other) = (IVar::new(), rx.clone());
    let read = ivar.get();
    let joined = Thread::builder().name("reader").spawn(async move { read.await });
    let join = joined.join();
    let late = after(Duration::from_secs(3600));
    let threads = vec![
        spawn(choose((rx.into_recv().wrap(|_| ()), late)).into_future()),
        spawn(async move { join.await.unwrap() }),
        spawn_fiber(move || other.recv().wrap(|_| ()).sync_blocking()),
        spawn(std::future::pending()),
        joined,
    ];
    for thread in &threads {
        until_blocked(thread).await;
    }
    (threads, tx, ivar)
}

fn says_what_they_wait_on(dump: &str, name: &str) {
    let begins = format!("machine \"{name}\"");
    let lines: Vec<_> = dump
        .lines()
        .skip_while(|line| !line.starts_with(&begins))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .collect();
    let has = |what: &str| assert!(lines.iter().any(|line| line.ends_with(what)), "{what:?} in {dump}");
    has("waits to receive from channel #1, or to see a time come");
    has("waits to receive from channel #1");
    has("waits on a future that is no event");
    let reader = lines.iter().find(|line| line.contains("'reader'")).expect(dump);
    let of_await = |what: &str| format!("{what}, at {}:", file!());
    assert!(reader.contains("waits to read an IVar that nobody has written"), "{dump}");
    if cfg!(debug_assertions) {
        assert!(reader.contains(&of_await("nobody has written")), "{dump}");
    }
    let number = reader.trim_start().split(' ').nth(1).unwrap();
    let joins = of_await(&format!("waits to join thread {number}"));
    assert!(lines.iter().any(|line| line.contains(&joins)), "{joins:?} in {dump}");
}

#[test]
fn a_dump_says_what_threads_wait_on() {
    watchdog!();
    for (vps, is_observed) in [(1, false), (2, false), (1, true), (2, true)] {
        let name = format!("dumped-{vps}-{is_observed}");
        let builder = Machine::builder().vps(vps).name(&name).hand_off_after(None);
        let machine = builder.report_deadlocks(is_observed).build().unwrap();
        let (threads, tx, ivar) = machine.block_on(async {
            let waiting = wait().await;
            says_what_they_wait_on(&dump(), &name);
            waiting
        });
        // Nobody is on the machine now; and it has changed nothing.
        assert!(dump().contains("'reader'"));
        ivar.put(()).unwrap();
        drop(tx);
        for thread in &threads[..2] {
            thread.join().sync_blocking().unwrap();
        }
    }
    assert!(!dump().contains("machine \"dumped-"), "they have ended");
}

/// A virtual processor that does not come back is said to; the others are heard.
#[test]
fn a_dump_does_not_wait_for_ever() {
    watchdog!();
    let machine = Machine::builder().vps(2).name("stuck").hand_off_after(None).build().unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let begun = IVar::new();
    let told = begun.clone();
    let stuck = machine.spawn_on(1, async move {
        told.put(()).unwrap();
        gate.recv().unwrap();
    });
    begun.get().sync_blocking();
    let blocked = machine.spawn_on(0, chanter::never::<()>().sync());
    let text = dump();
    assert!(text.contains("virtual processor 1 does not answer"), "{text}");
    assert!(text.contains("waits to see what never happens"), "{text}");
    open.send(()).unwrap();
    stuck.join().sync_blocking().unwrap();
    drop(blocked);
}

/// Dumps while machines come and go, and threads talk and end.
#[test]
fn dumps_disturb_nobody() {
    watchdog!();
    let stop = CVar::new();
    let dumping = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.is_set() {
                assert!(!dump().is_empty());
            }
        }
    });
    for round in 0..100 {
        let machine = machine(1 + round % 3);
        let sum = machine.block_on(async {
            let (tx, rx) = channel::<u64>();
            let sender = spawn(async move {
                for n in 0..50 {
                    tx.send(n).await.unwrap();
                }
            });
            let mut sum = 0;
            while let Ok(n) = rx.recv().await {
                sum += n;
            }
            sender.await.unwrap();
            drop(spawn(chanter::never::<()>().sync()));
            sum
        });
        assert_eq!(sum, 49 * 50 / 2);
    }
    stop.set();
    dumping.join().unwrap();
}

#[test]
fn a_watchdog_that_is_dropped_is_silent() {
    let dog = Watchdog::new("nothing", Duration::from_millis(200));
    drop(dog);
    let _long = Watchdog::new("nothing", Duration::MAX);
    std::thread::sleep(Duration::from_millis(400));
}

/// Runs the test `name`, which hangs, in a process of its own.
fn hang(name: &str, mut command: Command) -> Output {
    command.args(["--exact", name, "--ignored"]).env("RUST_BACKTRACE", "0").output().unwrap()
}

fn me() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn text_of(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[chanter::test(limit = 1, deadlocks = false)]
#[ignore = "hangs on purpose"]
async fn an_attribute_that_hangs() {
    let (_tx, rx) = channel::<u32>();
    rx.recv().await.unwrap();
}

#[test]
fn a_test_by_attribute_has_a_limit() {
    watchdog!();
    let text = text_of(&hang("an_attribute_that_hangs", me()));
    assert!(text.contains("watchdog: hangs::an_attribute_that_hangs still runs after 1 s"), "{text}");
    assert!(text.contains("waits to receive from channel #1"), "{text}");
}

#[chanter::test(deadlocks = false)]
#[ignore = "hangs on purpose"]
async fn an_attribute_without_a_limit() {
    IVar::<()>::new().get().await;
}

#[test]
fn the_default_limit_is_the_environments() {
    watchdog!();
    let mut command = me();
    command.env("CHANTER_TEST_LIMIT", "2");
    let text = text_of(&hang("an_attribute_without_a_limit", command));
    assert!(text.contains("still runs after 2 s"), "{text}");
    assert!(text.contains("waits to read an IVar"), "{text}");
}

#[test]
#[ignore = "hangs on purpose"]
fn a_plain_test_that_hangs() {
    machine(2).block_on(async {
        let (tx, rx) = channel::<u32>();
        let thread = spawn(async move { rx.recv().await });
        thread.join().await.unwrap().unwrap();
        drop(tx);
    });
}

/// As `ci/test` runs every test executable: no line in a test is needed.
#[test]
#[cfg(target_os = "linux")]
fn a_test_executable_that_says_nothing_is_named_and_ended() {
    watchdog!();
    let watched = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/watched");
    let mut command = Command::new(watched);
    command.arg(std::env::current_exe().unwrap()).env("CHANTER_DUMP", "1").env("TEST_SILENCE", "3");
    let text = text_of(&hang("a_plain_test_that_hangs", command));
    assert!(text.contains("hangs: it has said nothing for 3 seconds"), "{text}");
    // The OS knows the first letters of its name. (A minute later the harness says all of it.)
    assert!(text.contains("\"a_plain_test_th\""), "{text}");
    assert!(text.contains("waits to receive from channel #1"), "{text}");
    assert!(text.contains("waits to join thread"), "{text}");
    // One that ends is as if it had run alone.
    let mut command = Command::new(watched);
    command.arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "a_watchdog_that_is_dropped_is_silent"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}
