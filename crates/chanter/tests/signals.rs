//! Signals as events. Each test raises another signal, because all tests are in
//! one process.
#![cfg(all(unix, not(miri)))]

mod common;

use chanter::prelude::*;
use chanter::signal;
use common::{eventually, machine, millis, poll, watchdog};

fn raise(number: i32) {
    // To the process, not to this thread.
    let status = std::process::Command::new("kill")
        .args([format!("-{number}"), std::process::id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn everybody_who_listens_hears() {
    watchdog!();
    let (first, second) = (signal::user1().unwrap(), signal::user1().unwrap());
    assert_eq!(first.recv().try_sync(), None);
    raise(first.number());
    // On a machine, on an OS thread, on Tokio.
    machine(1).block_on(async { first.recv().await });
    second.recv().sync_blocking();
    assert!(!first.try_recv() && !second.try_recv(), "once each");
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    raise(first.number());
    tokio.block_on(async { first.recv().await });
    drop(second);
    // Receivers that are gone are forgotten.
    let third = signal::user1().unwrap();
    raise(first.number());
    eventually("both hear", || third.try_recv());
    eventually("both hear", || first.try_recv());
}

/// A signal is not lost to a choice that commits to something else, or that is
/// dropped after it was told.
#[test]
fn signals_wait_to_be_heard() {
    watchdog!();
    let hup = signal::hangup().unwrap();
    assert_eq!(choose_biased((hup.recv().wrap(|()| 1), always(2))).sync_blocking(), 2);
    let mut dropped = Box::pin(choose((hup.recv(), never())).sync());
    assert!(poll(&mut dropped).is_pending());
    raise(hup.number());
    std::thread::sleep(millis(100));
    drop(dropped);
    assert_eq!(hup.recv().timeout(common::FOREVER).sync_blocking(), Some(()));
    assert_eq!(hup.recv().timeout(millis(5)).sync_blocking(), None);
    // Raised while nobody waits.
    raise(hup.number());
    std::thread::sleep(millis(20));
    assert_eq!(hup.recv().timeout(common::FOREVER).sync_blocking(), Some(()));
}

#[test]
fn some_cannot_be_heard() {
    watchdog!();
    let error = signal::listen(9).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(signal::listen(-3).is_err());
}

#[test]
fn what_is_ignored_is_known() {
    const PIPE: i32 = 13;
    // Rust's programs ignore it from the start.
    assert!(signal::is_ignored(PIPE).unwrap());
    assert!(!signal::is_ignored(15).unwrap());
    assert!(signal::is_ignored(9_999).is_err());
}
