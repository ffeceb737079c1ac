//! A child of `fork` that goes on as it is: what has stayed in the parent is an error there, and no silence.
#![cfg(all(unix, not(miri)))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use chanter::prelude::*;
use chanter::signal;
use common::{apart, machine, millis};

/// Whether `f` is true in a child of this process. One that takes too long is ended.
fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child has this OS thread alone. It uses nothing that others might have locked, with two exceptions:
    // the allocator, which the C library keeps usable, and the code under test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the OS refuses a process");
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe { libc::alarm(60) };
        let is_true = catch_unwind(AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: nothing of the parent's is to be ended here.
        unsafe { libc::_exit(i32::from(!is_true)) };
    }
    let mut status = 0;
    // SAFETY: the place is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "it was ended by a signal: {status:#x}");
    libc::WEXITSTATUS(status) == 0
}

fn panics_with(text: &str, f: impl FnOnce()) -> bool {
    // Without a message on the way, since another OS thread of the parent's may have locked the standard error.
    std::panic::set_hook(Box::new(|_| ()));
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return false };
    let message = payload.downcast_ref::<String>().cloned();
    message
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .is_some_and(|said| said.contains(text))
}

const STAYED: &str = "stayed in the process that this one was forked from";

#[test]
fn timers_of_os_threads_panic() {
    apart!();
    after(millis(1)).sync_blocking();
    assert!(in_child(|| panics_with(STAYED, || after(millis(1)).sync_blocking())));
    assert!(in_child(|| {
        let (_tx, rx) = channel::<u32>();
        panics_with(STAYED, || assert!(rx.recv().timeout(millis(1)).sync_blocking().is_none()))
    }));
    // An alarm that is due waits for nobody, and messages need no other OS thread.
    assert!(in_child(|| {
        after(millis(0)).sync_blocking();
        let (tx, rx) = mailbox();
        tx.try_send(7).unwrap();
        rx.recv().sync_blocking() == Ok(7)
    }));
    after(millis(1)).sync_blocking();
}

#[test]
fn timers_that_are_first_used_after_the_fork_run() {
    apart!();
    assert!(in_child(|| {
        after(millis(1)).sync_blocking();
        true
    }));
}

#[test]
fn signals_are_an_error() {
    apart!();
    let listener = signal::user1().unwrap();
    assert!(in_child(|| signal::user2().is_err_and(|error| error.kind() == std::io::ErrorKind::Unsupported)));
    assert!(in_child(|| panics_with(STAYED, || listener.recv().sync_blocking())));
    assert!(signal::user2().is_ok(), "but not here");
}

#[test]
fn machines_of_the_parent_say_so_and_end_at_once() {
    apart!();
    let machine = machine(2);
    machine.block_on(async { yield_now().await });
    assert!(in_child(|| panics_with(STAYED, || machine.block_on(async {}))));
    let mut machine = Some(machine);
    assert!(in_child(|| {
        drop(machine.take());
        true
    }));
    assert_eq!(machine.unwrap().block_on(async { 3 }), 3);
}
