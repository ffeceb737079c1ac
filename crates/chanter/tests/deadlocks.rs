//! Deadlock reports of machines that are not simulated: a deadlock is reported when it is certain, and never when a
//! thread could still help.
//!
//! A report depends on the OS threads of the whole process, so each case runs in a process of its own.

#![cfg(all(target_os = "linux", not(miri)))]

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    event::{choose_earliest, optional},
    sync::{Mutex, RwLock},
    thread::Activity,
};

const CASE: &str = "CHANTER_TEST_CASE";

/// Runs the test `name` of this file alone, as one that knows that it is.
fn alone(name: &str, more: &[&str]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", name]).args(more).env(CASE, name).env("RUST_BACKTRACE", "0");
    command.output().unwrap()
}

/// Whether the caller is to do what its name says, or to have it done by a
/// process of its own.
fn is_alone(name: &str) -> bool {
    std::env::var(CASE).is_ok_and(|case| case == name)
}

/// The output of a case that must report a deadlock.
fn report_of(name: &str, more: &[&str]) -> String {
    let output = alone(name, more);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("deadlock: nothing on the machine can run any more"), "{said}");
    said
}

fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).report_deadlocks(true).in_test().build().unwrap()
}

#[test]
fn crossing_channels_are_reported() {
    const NAME: &str = "crossing_channels_are_reported";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        assert!(said.contains("thread 0 (main): waits to join thread 1"), "{said}");
        let line = said.lines().find(|line| line.contains("  thread 2")).unwrap();
        assert!(line.contains("deadlocks.rs"), "{line}");
        assert!(line.contains("by thread 0: waits to send on channel #"), "{line}");
        assert!(said.contains("thread 3 (parasite)"), "{said}");
        return;
    }
    for vps in [2, 1] {
        let machine = machine(vps);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            machine.block_on(async {
                let (to_a, from_b) = channel::<u32>();
                let (to_b, from_a) = channel::<u32>();
                let a = spawn(async move {
                    to_b.send(1).await.unwrap();
                    from_b.recv().await.unwrap();
                });
                let b = spawn(async move {
                    to_a.send(2).await.unwrap();
                    from_a.recv().await.unwrap();
                });
                spawn_parasite(async { never::<()>().await });
                a.join().await.unwrap();
                b.join().await.unwrap();
            })
        }));
        let payload = result.unwrap_err();
        if vps == 1 {
            std::panic::resume_unwind(payload);
        }
        // The machine goes on: what was dropped with the main thread is gone.
        assert_eq!(machine.block_on(async { spawn(async { 7 }).join().await.unwrap() }), 7);
    }
}

#[test]
fn reports_see_through_combinators() {
    const NAME: &str = "reports_see_through_combinators";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        assert_eq!(said.matches("to read an IVar").count(), 4, "{said}");
        assert!(!said.contains("an event"), "{said}");
        return;
    }
    machine(1).block_on(async {
        let ivar = IVar::<u32>::new();
        let get = || ivar.get();
        spawn(get().on_abort(|| ()).sync());
        spawn(choose_earliest([get().due(Instant::now())]).sync());
        spawn(optional(Some(get())).sync());
        get().await
    });
}

#[test]
fn fibers_say_what_they_wait_on() {
    const NAME: &str = "fibers_say_what_they_wait_on";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        let line = said.lines().find(|line| line.contains("  thread 1")).unwrap();
        assert!(line.contains("deadlocks.rs"), "{line}");
        assert!(said.contains("thread 1 waits to receive") || line.contains("waits to receive"), "{said}");
        assert!(said.contains("cycle: thread 2 -> thread 3 -> thread 2"), "{said}");
        return;
    }
    machine(1).block_on(async {
        let (_tx, rx) = channel::<u32>();
        let waits = spawn_fiber(move || rx.recv().sync_blocking());
        let (tx, rx) = channel::<Thread<()>>();
        let first = spawn_fiber(move || rx.recv().sync_blocking().unwrap().join().sync_blocking().unwrap());
        let joins_first = first.join();
        let second = spawn_fiber(move || joins_first.sync_blocking().unwrap());
        tx.send(second).await.unwrap();
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn fibers_on_the_stack_of_another_say_what_they_wait_on() {
    const NAME: &str = "fibers_on_the_stack_of_another_say_what_they_wait_on";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        let line =
            |start: &str| said.lines().find(|line| line.contains(start)).unwrap_or_else(|| panic!("{said}"));
        assert!(line("  thread 1").contains("waits to join thread 2"), "{said}");
        assert!(line("  thread 2").contains("waits to join thread 3"), "{said}");
        assert!(line("  thread 3").contains("waits to join thread 1"), "{said}");
        assert!(said.contains("cycle: thread 1 -> thread 2 -> thread 3 -> thread 1"), "{said}");
        return;
    }
    machine(1).block_on(async {
        let (tx, rx) = channel::<chanter::thread::Join<()>>();
        let outer = spawn_fiber(move || {
            let middle = chanter::fiber::Builder::new().delay(move || {
                let inner = chanter::fiber::Builder::new()
                    .delay(move || rx.recv().sync_blocking().unwrap().sync_blocking().unwrap());
                inner.join().sync_blocking().unwrap();
            });
            middle.join().sync_blocking().unwrap();
        });
        tx.send(outer.join()).await.unwrap();
        outer.await.unwrap();
    });
}

#[test]
fn threads_that_join_each_other_are_a_cycle() {
    const NAME: &str = "threads_that_join_each_other_are_a_cycle";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        assert!(said.contains("cycle: thread 1 -> thread 2 -> thread 1"), "{said}");
        return;
    }
    machine(1).block_on(async {
        let (tx, rx) = channel::<Thread<()>>();
        let first = spawn(async move { rx.recv().await.unwrap().join().await.unwrap() });
        let joins_first = first.join();
        let second = spawn(async move { joins_first.await.unwrap() });
        tx.send(second).await.unwrap();
        never::<()>().await;
    });
}

/// The handles that threads declare to hold are known without an explorer, too.
#[test]
fn the_cycle_goes_through_what_threads_say_that_they_hold() {
    const NAME: &str = "the_cycle_goes_through_what_threads_say_that_they_hold";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        assert!(said.contains("cycle: thread 1 -> thread 2 -> thread 1"), "{said}");
        let line = said.lines().find(|line| line.contains("  thread 2")).unwrap();
        assert!(line.contains(": waits to send on channel #"), "{line}");
        let place = line.split(", at ").last().unwrap();
        assert!(place.starts_with(file!()), "{line}");
        return;
    }
    machine(1).block_on(async {
        let (to_a, from_b) = channel::<u32>();
        let (to_b, from_a) = channel::<u32>();
        // Main's do not matter.
        let kept = (to_a.clone(), from_a.clone());
        let handles = [(to_b, from_b), (to_a, from_a)];
        let threads = handles.map(|handles| {
            spawn(chanter::deadlock::holding(handles, async |(tx, rx)| {
                tx.send(1).await.unwrap();
                rx.recv().await.unwrap();
            }))
        });
        for thread in threads {
            thread.join().await.unwrap();
        }
        drop(kept);
    });
}

/// Nobody writes down who holds a lock, but which it is, and where it is awaited.
#[test]
fn locks_are_named() {
    const NAME: &str = "locks_are_named";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        let line = said.lines().find(|line| line.contains("  thread 1")).unwrap();
        assert!(
            line.contains(&format!("waits to lock Mutex<alloc::string::String> #1, at {}:", file!())),
            "{line}"
        );
        let line = said.lines().find(|line| line.contains("  thread 2")).unwrap();
        assert!(line.contains("waits to lock Mutex<alloc::string::String> #1, at "), "{line}");
        let line = said.lines().find(|line| line.contains("  thread 3")).unwrap();
        assert!(line.contains("waits to write RwLock<i32> #2, at "), "{line}");
        return;
    }
    machine(1).block_on(async {
        let lock = Arc::new(Mutex::new(String::new()));
        let other = Arc::new(RwLock::new(0));
        let guards = (lock.clone().lock_owned().await, other.clone().read_owned().await);
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                spawn(async move { lock.lock().await.push('a') })
            })
            .collect();
        threads.push(spawn(async move { *other.write().await += 1 }));
        for thread in threads {
            thread.join().await.unwrap();
        }
        drop(guards);
    });
}

/// By default in `#[chanter::test]`.
#[test]
fn the_attribute_reports() {
    const NAME: &str = "an_attribute";
    let said = report_of(NAME, &["--ignored"]);
    assert!(said.contains("thread 0 (main): waits to read an IVar"), "{said}");
    let output = alone("another_attribute", &["--ignored"]);
    assert!(output.status.success(), "{output:?}");
}

#[chanter::test]
#[ignore = "never ends by itself: a part of `the_attribute_reports`"]
async fn an_attribute() {
    IVar::<u32>::new().get().await;
}

/// The main thread of the process is the test's own here, and no stranger.
#[test]
fn the_first_os_thread_may_be_ours() {
    let said = report_of("an_attribute", &["--ignored", "--test-threads=1"]);
    assert!(said.contains("thread 0 (main): waits to read an IVar"), "{said}");
}

#[chanter::test(deadlocks = false)]
#[ignore = "never ends by itself: a part of `the_attribute_reports`"]
async fn another_attribute() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(500));
        // Nothing has been said so far.
        std::process::exit(0);
    });
    IVar::<u32>::new().get().await;
}

/// Longer than it takes to be sure.
const LONG: Duration = Duration::from_millis(400);

/// Runs `case` in a process of its own; it must end, without a report.
fn is_not_reported(name: &str, case: impl FnOnce()) {
    if is_alone(name) {
        return case();
    }
    let output = alone(name, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("deadlock"), "{said}");
}

#[test]
fn an_os_thread_may_help() {
    is_not_reported("an_os_thread_may_help", || {
        let (tx, rx) = channel::<u32>();
        let helper = std::thread::spawn(move || {
            std::thread::sleep(LONG);
            tx.send(7).sync_blocking().unwrap();
        });
        assert_eq!(machine(2).block_on(async { rx.recv().await }), Ok(7));
        helper.join().unwrap();
    });
}

#[test]
fn a_timer_may_help() {
    is_not_reported("a_timer_may_help", || {
        machine(2).block_on(async {
            let (tx, rx) = channel::<u32>();
            spawn(async move {
                after(LONG).await;
                tx.send(7).await.unwrap();
            });
            assert_eq!(rx.recv().await, Ok(7));
        });
    });
}

#[test]
fn a_socket_may_help() {
    is_not_reported("a_socket_may_help", || {
        machine(1).block_on(async {
            let listener = chanter::io::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            // A child: the process itself has no other OS thread.
            let script = format!("sleep 0.4; exec 3<>/dev/tcp/127.0.0.1/{}", address.port());
            let mut child = Command::new("bash").args(["-c", &script]).spawn().unwrap();
            listener.accept().await.unwrap();
            child.wait().unwrap();
        });
    });
}

#[test]
fn another_machine_may_help() {
    is_not_reported("another_machine_may_help", || {
        let (tx, rx) = channel::<u32>();
        // Its OS threads are no quiet machine's: nobody said that it reports.
        let other = Machine::builder().vps(1).build().unwrap();
        other.spawn(async move {
            after(LONG).await;
            tx.send(7).await.unwrap();
        });
        assert_eq!(machine(1).block_on(async { rx.recv().await }), Ok(7));
    });
}

#[test]
fn two_machines_may_help_each_other() {
    is_not_reported("two_machines_may_help_each_other", || {
        let (tx, rx) = channel::<u32>();
        let begun = Instant::now();
        let other = std::thread::spawn(move || {
            machine(1).block_on(async move {
                after(LONG).await;
                tx.send(7).await.unwrap();
            });
        });
        assert_eq!(machine(1).block_on(async { rx.recv().await }), Ok(7));
        assert!(begun.elapsed() >= LONG);
        other.join().unwrap();
    });
}

/// And if both are quiet, neither can.
#[test]
fn two_machines_may_be_stuck_together() {
    const NAME: &str = "two_machines_may_be_stuck_together";
    if !is_alone(NAME) {
        report_of(NAME, &[]);
        return;
    }
    let (tx, rx) = channel::<u32>();
    let (other_tx, other_rx) = channel::<u32>();
    // One reports, and so frees the other.
    let other = std::thread::spawn(move || {
        machine(2).block_on(async move {
            if other_rx.recv().await.is_ok() {
                tx.send(7).await.unwrap();
            }
        });
    });
    machine(2).block_on(async move {
        if rx.recv().await.is_ok() {
            other_tx.send(7).await.unwrap();
        }
    });
    other.join().unwrap();
}

/// A thread that goes on when it is polled for the report has a lost wake-up,
/// not a deadlock.
#[test]
fn a_thread_that_goes_on_is_not_reported() {
    is_not_reported("a_thread_that_goes_on_is_not_reported", || {
        machine(1).block_on(async {
            let mut polls = 0;
            std::future::poll_fn(|_| {
                polls += 1;
                if polls == 2 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            let (tx, rx) = mailbox();
            tx.send(7).await.unwrap();
            assert_eq!(rx.recv().await, Ok(7));
        });
    });
}

/// A gathering without threads waits on what its members wait on.
#[test]
fn reports_see_what_is_gathered() {
    const NAME: &str = "reports_see_what_is_gathered";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        assert!(said.contains("receive from channel #1"), "{said}");
        assert!(said.contains("send on channel #2"), "{said}");
        assert!(!said.contains("channel #3"), "{said}");
        return;
    }
    machine(1).block_on(async {
        let ((_tx, rx), (to, _from), (done, has)) = (channel::<u32>(), channel::<u32>(), mailbox::<u32>());
        done.try_send(1).unwrap();
        let _ = gather((has.into_recv(), rx.into_recv(), to.into_send(1))).await;
    });
}

/// The alarm of the lock rang for ever, to see whether the writer is alive.
#[test]
fn a_second_read_behind_a_waiting_writer_is_reported() {
    const NAME: &str = "a_second_read_behind_a_waiting_writer_is_reported";
    if !is_alone(NAME) {
        let said = report_of(NAME, &[]);
        assert!(said.contains("read RwLock") && said.contains("write RwLock"), "{said}");
        return;
    }
    machine(2).block_on(async {
        let lock = Arc::new(RwLock::new(0));
        let first = lock.read().await;
        let theirs = lock.clone();
        let writer = spawn(async move { *theirs.write().await += 1 });
        while writer.activity() != Activity::Blocked {
            yield_now().await;
        }
        let second = lock.read().await;
        drop((first, second));
        writer.join().await.unwrap();
    });
}
