//! The end of machines whose threads do not come back.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{ThreadBuilder, block_in_place};
use common::apart::{is_apart, run_apart, said};
use common::watchdog;

/// A message that comes when the thread has begun, which then never comes back.
fn stuck() -> (mpsc::Receiver<()>, impl FnOnce() + Send) {
    let (begin, begun) = mpsc::channel();
    let never = move || {
        begin.send(()).unwrap();
        loop {
            thread::park();
        }
    };
    (begun, never)
}

#[test]
fn who_is_left_behind_is_named() {
    const NAME: &str = "machine::shutdown::who_is_left_behind_is_named";
    watchdog!();
    if is_apart(NAME) {
        let machine = Machine::builder().vps(2).name("unlucky").genealogy(true).build().unwrap();
        let ((host_begun, host), (call_begun, call)) = (stuck(), stuck());
        ThreadBuilder::new().name("reader").spawn_in(&machine, async move { host() });
        machine.spawn_blocking(call);
        host_begun.recv().unwrap();
        call_begun.recv().unwrap();
        assert!(!machine.shutdown_timeout(Duration::from_millis(20)));
        return;
    }
    let output = run_apart(NAME);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("the machine \"unlucky\" ended, and after 20ms did not wait any longer for:"),
        "{said}"
    );
    assert!(said.contains("'reader', spawned at"), "{said}");
    assert!(said.contains("a blocking call, spawned at"), "{said}");
    assert!(said.matches("shutdown.rs:").count() == 2, "{said}");
}

#[test]
fn a_program_ends_though_a_thread_does_not() {
    const NAME: &str = "machine::shutdown::a_program_ends_though_a_thread_does_not";
    watchdog!();
    if is_apart(NAME) {
        #[chanter::main(vps = 2, shutdown_timeout = Duration::from_millis(20))]
        async fn program() {
            let (begun, host) = stuck();
            spawn(async move { host() });
            block_in_place(|| begun.recv().unwrap());
        }
        return program();
    }
    let output = run_apart(NAME);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("in a turn of a thread"), "{said}");
}

#[test]
fn what_ends_in_time_is_waited_for() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let slow = machine.spawn(async move {
        begin.send(()).unwrap();
        ended.recv().unwrap();
        "whole"
    });
    begun.recv().unwrap();
    let closer = thread::spawn(move || machine.shutdown_timeout(Duration::from_secs(600)));
    end.send(()).unwrap();
    assert!(closer.join().unwrap());
    assert_eq!(slow.join().sync_blocking().unwrap(), "whole");
}

#[test]
fn a_machine_may_end_inside_of_its_own_thread() {
    watchdog!();
    let machine = Machine::builder().vps(1).build().unwrap();
    let (give, given) = mpsc::channel::<Machine>();
    let thread =
        machine.spawn(async move { given.recv().unwrap().shutdown_timeout(Duration::from_secs(600)) });
    give.send(machine).unwrap();
    // It has its value, or the end of the machine came first.
    let ended = thread.join().sync_blocking();
    assert!(ended.is_ok_and(|ended| ended));
}

/// Sets its flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn pair() -> (Self, Arc<AtomicBool>) {
        let flag = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&flag)), flag)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

const LIMIT: Duration = Duration::from_secs(60);

/// The regular worker is back, and leaves. Nobody served the timers of its processor any more.
#[test]
fn a_spare_worker_that_blocks_in_a_turn_is_not_left_alone() {
    watchdog!();
    let machine = Machine::builder().vps(1).hand_off_after(Some(Duration::from_millis(1))).build().unwrap();
    let ((begin, begun), (stop, stopped)) = (mpsc::channel(), mpsc::channel());
    let computes = machine.spawn(async move {
        begin.send(()).unwrap();
        stopped.recv().unwrap();
    });
    begun.recv().unwrap();
    let (begin, begun) = mpsc::channel();
    let blocks = machine.spawn(async move {
        begin.send(()).unwrap();
        after(Duration::from_millis(500)).sync_blocking();
        5
    });
    begun.recv().unwrap();
    stop.send(()).unwrap();
    computes.join().sync_blocking().unwrap();
    assert!(machine.shutdown_timeout(LIMIT), "the turn has not ended");
    assert_eq!(blocks.join().sync_blocking().unwrap(), 5);
}

/// It blocks for a thread of a processor whose worker has left, and for a call that does not begin any more.
#[test]
fn a_turn_that_waits_for_threads_that_never_run_is_told() {
    watchdog!();
    let machine = Machine::builder().vps(2).hand_off_after(None).build().unwrap();
    let (flag, has_left) = Flag::pair();
    // It is dropped when the worker of processor 1 ends.
    drop(machine.spawn_on(1, async move {
        drop(chanter::spawn_local(async move {
            let _flag = flag;
            never::<()>().await;
        }));
    }));
    let (begin, begun) = mpsc::channel();
    let waits = machine.spawn_on(0, async move {
        begin.send(()).unwrap();
        while !has_left.load(SeqCst) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(10));
        let there = ThreadBuilder::new().on(1).spawn(async { 1 });
        assert!(there.join().sync_blocking().unwrap_err().is_cancelled());
        chanter::spawn_blocking(|| ()).join().sync_blocking().unwrap_err().is_cancelled()
    });
    begun.recv().unwrap();
    assert!(machine.shutdown_timeout(LIMIT), "the turn has not ended");
    assert!(waits.join().sync_blocking().unwrap());
}
