//! Stacks that overflow, each in a process of its own.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use chanter::fiber;
use chanter::prelude::*;

use crate::common::apart::said;
use crate::common::{self, alone, machine};

/// Runs the test `name` of this file in a process of its own.
fn apart(name: &str) -> Output {
    common::apart::run_apart(&format!("thread::fibers::overflow::{name}"))
}

fn is_apart(name: &str) -> bool {
    common::apart::is_apart(&format!("thread::fibers::overflow::{name}"))
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "on purpose")]
fn endless(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 100]);
    endless(depth + 1) + frame[7]
}

#[test]
fn an_overflow_names_the_fiber() {
    const NAME: &str = "an_overflow_names_the_fiber";
    if is_apart(NAME) {
        machine(2).block_on(async {
            // Others are suspended meanwhile, and one more has ended.
            let (_tx, rx) = channel::<u32>();
            drop(fiber::Builder::new().name("innocent").spawn(move || rx.recv().sync_blocking()));
            spawn_fiber(|| ()).await.unwrap();
            let deep = fiber::Builder::new().name("too deep").spawn(|| {
                after(std::time::Duration::from_millis(1)).sync_blocking();
                endless(0)
            });
            deep.await.unwrap();
        });
        return;
    }
    let output = apart(NAME);
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(6), "not an abort: {said}");
    assert!(said.contains("chanter: fiber 'too deep' has overflowed its stack of 256 KiB"), "{said}");
    assert!(said.contains("overflow.rs:"), "not where it was spawned: {said}");
    assert!(!said.contains("innocent"), "{said}");
}

#[test]
fn an_overflow_of_a_fiber_without_name() {
    const NAME: &str = "an_overflow_of_a_fiber_without_name";
    if is_apart(NAME) {
        // On a foreign OS thread, which has no place for handlers of its own.
        alone(async { fiber::Builder::new().stack_size(1 << 20).spawn(|| endless(0)).await.unwrap() });
        return;
    }
    let output = apart(NAME);
    assert_eq!(output.status.signal(), Some(6));
    assert!(
        said(&output).contains("fiber '<unnamed>' has overflowed its stack of 1024 KiB"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_overflow_of_an_os_thread_is_rusts() {
    const NAME: &str = "an_overflow_of_an_os_thread_is_rusts";
    if is_apart(NAME) {
        alone(async {
            spawn_fiber(|| ()).await.unwrap();
            endless(0);
        });
        return;
    }
    let output = apart(NAME);
    assert_eq!(output.status.signal(), Some(6));
    let said = said(&output);
    assert!(said.contains("has overflowed its stack") && !said.contains("chanter: fiber"), "{said}");
}

#[test]
fn other_faults_end_the_process_as_ever() {
    const NAME: &str = "other_faults_end_the_process_as_ever";
    if is_apart(NAME) {
        alone(async {
            let fault = spawn_fiber(|| {
                let nowhere = std::hint::black_box(8 as *mut u8);
                // SAFETY: none: that is the point.
                unsafe { nowhere.write_volatile(1) };
            });
            fault.await.unwrap();
        });
        return;
    }
    let output = apart(NAME);
    assert_eq!(output.status.signal(), Some(11), "{}", said(&output));
    assert!(!said(&output).contains("overflowed"));
}

/// A handler that the program installed before keeps what is not ours.
#[test]
fn the_handler_from_before_is_called() {
    const NAME: &str = "the_handler_from_before_is_called";
    extern "C" fn mine(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: in a handler.
        unsafe { libc::_exit(if (*info).si_addr() as usize == 8 { 42 } else { 43 }) };
    }
    if is_apart(NAME) {
        // SAFETY: `new` and `mine` have the form that `sigaction` requires for SA_SIGINFO.
        unsafe {
            let mut new = std::mem::zeroed::<libc::sigaction>();
            new.sa_sigaction = mine as extern "C" fn(_, _, _) as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const new, std::ptr::null_mut());
        }
        alone(async {
            let fault = spawn_fiber(|| {
                let nowhere = std::hint::black_box(8 as *mut u8);
                // SAFETY: none: that is the point.
                unsafe { nowhere.write_volatile(1) };
            });
            fault.await.unwrap();
        });
        return;
    }
    assert_eq!(apart(NAME).status.code(), Some(42));
}

/// On OS threads that Rust did not start there is no place for handlers: the
/// fiber's begin makes one.
#[test]
fn an_overflow_on_a_foreign_os_thread() {
    const NAME: &str = "an_overflow_on_a_foreign_os_thread";
    extern "C" fn foreign(_: *mut libc::c_void) -> *mut libc::c_void {
        alone(async { fiber::Builder::new().name("abroad").spawn(|| endless(0)).await.unwrap() });
        std::ptr::null_mut()
    }
    if is_apart(NAME) {
        // SAFETY: a thread that is joined.
        unsafe {
            let mut thread = std::mem::zeroed();
            let null = std::ptr::null_mut();
            assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), foreign, null), 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
        return;
    }
    let output = apart(NAME);
    assert_eq!(output.status.signal(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("fiber 'abroad' has overflowed its stack"), "{}", said(&output));
}
