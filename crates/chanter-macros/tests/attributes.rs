//! The promises of the attributes, on real machines.

use std::cell::Cell;
use std::fmt;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// The library by another path, for `crate = ..`.
mod renamed {
    pub(crate) use chanter as library;
}

fn two() -> usize {
    2
}

#[chanter::main]
async fn unit() {}

#[chanter::main(vps = 1)]
async fn failure() -> Result<(), fmt::Error> {
    // The error type comes from the signature alone.
    Err(fmt::Error)?;
    Ok(())
}

#[chanter::main(vps = 1)]
async fn code() -> ExitCode {
    ExitCode::from(3)
}

#[chanter::main(vps = two(), name = "pair")]
async fn sum_of_two_processors() -> usize {
    let one = chanter::Thread::builder().on(1).spawn(async { 41 });
    one.join().await.unwrap() + 1
}

#[chanter::main(crate = renamed::library, vps = 1)]
async fn elsewhere() -> &'static str {
    "found"
}

#[chanter::main(local)]
async fn caller() -> thread::ThreadId {
    // Not Send, and alive across a suspension.
    let local = Rc::new(Cell::new(1));
    chanter::yield_now().await;
    local.set(local.get() + 1);
    assert_eq!(local.get(), 2);
    thread::current().id()
}

#[chanter::main(vps = 1)]
async fn panics() {
    panic!("the body's own words");
}

/// Kept: an attribute that is not ours reaches the function.
#[must_use = "kept"]
#[chanter::main(vps = 1)]
async fn attributes_are_kept() -> u8 {
    7
}

#[test]
fn a_main_returns_what_its_body_returns() {
    unit();
    assert_eq!(failure(), Err(fmt::Error));
    assert_eq!(code(), ExitCode::from(3));
    assert_eq!(attributes_are_kept(), 7);
}

#[test]
fn arguments_reach_the_machine() {
    assert_eq!(sum_of_two_processors(), 42);
    assert_eq!(elsewhere(), "found");
}

/// Nothing keeps this thread on the OS thread of the caller, whose turn does not end before.
#[chanter::main(vps = 1, hand_off_after = Some(Duration::from_millis(1)))]
async fn moves() -> bool {
    let (begun, has_begun) = chanter::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let hog = chanter::spawn(async move {
        let _ = begun.asend(thread::current().id());
        ended.recv().unwrap();
    });
    let here = thread::current().id();
    let there = has_begun.recv().await.unwrap();
    let name = chanter::thread::current_thread().and_then(|thread| thread.name().map(str::to_owned));
    assert_eq!(name.as_deref(), Some("main"));
    // The hog has the OS thread; we go on, elsewhere.
    let has_moved = here == there && thread::current().id() != there;
    end.send(()).unwrap();
    hog.await.unwrap();
    has_moved
}

#[chanter::main(
    vps = 2,
    workers = 1,
    name = "whole",
    policy = |_| Box::new(chanter::policy::Fifo::new()),
    hand_off_after = None,
    inflation = false,
    genealogy = true,
    blocking_threads = 3,
    shutdown_timeout = Duration::from_secs(60)
)]
async fn every_setting() -> bool {
    let machine = chanter::Machine::current().unwrap();
    assert_eq!((machine.name(), machine.vps()), ("whole", 2));
    machine.threads().is_some()
}

mod program {
    /// An error that is not `Send`.
    #[chanter::main(vps = 1)]
    pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
        Err("as printed".into())
    }
}

#[test]
fn a_main_whose_error_is_not_send_returns_an_exit_code() {
    let code: ExitCode = program::main();
    assert_eq!(code, ExitCode::FAILURE);
}

#[test]
fn the_body_of_a_main_may_move() {
    assert!(moves());
}

#[test]
fn every_setting_of_the_builder_is_an_argument() {
    assert!(every_setting());
}

#[test]
fn a_local_body_runs_on_the_calling_os_thread() {
    assert_eq!(caller(), thread::current().id());
}

#[test]
fn a_panic_of_the_body_is_a_panic_of_the_function() {
    let panic = thread::spawn(panics).join().unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the body's own words"));
}

#[chanter::test]
async fn a_test_has_two_processors() {
    // Both sides block their OS thread, so neither gets through unless there are two.
    let barrier = Arc::new(Barrier::new(2));
    let other = chanter::spawn({
        let barrier = barrier.clone();
        async move { barrier.wait().is_leader() }
    });
    let leader = barrier.wait().is_leader();
    assert_ne!(other.join().await.unwrap(), leader);
}

#[chanter::test(vps = 1)]
async fn a_test_may_return_a_result() -> Result<(), Box<dyn std::error::Error>> {
    let parsed: u8 = "7".parse()?;
    assert_eq!(parsed, 7);
    Ok(())
}

#[chanter::test]
#[should_panic(expected = "as expected")]
async fn a_test_keeps_should_panic() {
    chanter::yield_now().await;
    panic!("as expected");
}

#[chanter::test]
#[ignore = "kept: it would fail"]
async fn a_test_keeps_ignore() {
    unreachable!();
}
