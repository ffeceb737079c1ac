//! Lost choices leave memory flat. In a process of its own, one test at a
//! time, because it looks at the resident memory of the process.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::sync::Mutex;
use std::time::Duration;

use chanter::ChoiceSet;
use chanter::prelude::*;
use common::memory::{flat, resident};
use common::{machine, watchdog};

static ALONE: Mutex<()> = Mutex::new(());
/// Without optimization a million takes half a minute.
const CHOICES: usize = if cfg!(debug_assertions) { 250_000 } else { 1_000_000 };
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn lost_timers() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    let (tx, rx) = mailbox();
    // On an OS thread, where the time keeper has the timers.
    flat(CHOICES, || {
        tx.try_send(1).unwrap();
        assert_eq!(choose((rx.recv(), after(HOUR).wrap(|()| Ok(2)))).sync_blocking(), Ok(1));
    });
}

#[test]
fn lost_timers_that_were_offered() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (tx, rx) = channel();
            let (silent, quiet) = channel::<u32>();
            spawn(async move { while tx.send(1).await.is_ok() {} });
            let mut before = 0;
            for n in 0..CHOICES + CHOICES / 10 {
                let event = choose((
                    after(HOUR).wrap(|()| Ok(2)),
                    rx.recv(),
                    quiet.recv(),
                    choose((silent.send(1).wrap(|_| Ok(3)), never())),
                    with_nack(|_| after(HOUR)).wrap(|()| Ok(4)),
                ));
                assert_eq!(event.await, Ok(1));
                if n == CHOICES / 10 {
                    before = resident();
                }
            }
            let grown = resident().saturating_sub(before);
            assert!(grown < 512 * 1024, "{CHOICES} lost choices left {grown} bytes");
        });
    }
}

/// A set that loses, whose members are passed over, come and go.
#[test]
fn kept_sets() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    let (tx, rx) = mailbox();
    let (quiet, silent) = channel::<u32>();
    let mut set = ChoiceSet::new();
    set.insert(|| silent.recv().wrap(|_| 1));
    set.insert(|| after(HOUR).wrap(|()| 2));
    flat(CHOICES, || {
        let key = set.insert(|| silent.recv().wrap(|_| 3));
        tx.try_send(4).unwrap();
        assert_eq!(choose((set.next().wrap(|(_, n)| n), rx.recv().wrap(Result::unwrap))).sync_blocking(), 4);
        assert!(set.next().timeout(Duration::ZERO).sync_blocking().is_none());
        assert!(quiet.try_send(5).is_err(), "passed over");
        assert!(set.remove(key));
    });
}

#[test]
fn dropped_waits() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    let (_tx, rx) = channel::<u32>();
    let ivar = IVar::<u32>::new();
    let machine = machine(1);
    let (_silent, quiet) = channel::<()>();
    let thread = machine.spawn(async move { quiet.recv().await });
    flat(CHOICES, || {
        let event =
            choose((rx.recv().wrap(drop), ivar.get().wrap(drop), thread.join().wrap(drop), after(HOUR)));
        assert!(common::poll(&mut Box::pin(event.sync())).is_pending());
    });
}

#[test]
fn threads_come_and_go() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (tx, rx) = channel::<u32>();
            let mut before = 0;
            for n in 0..CHOICES / 4 {
                // A parasite that is born here, and ended by its receiver, perhaps on another processor.
                let inner = tx.clone();
                spawn_parasite(async move { inner.send(1).await.unwrap() });
                let receiver = rx.clone();
                let host = spawn(async move { receiver.recv().await });
                assert_eq!(host.join().await.unwrap(), Ok(1));
                if n == CHOICES / 40 {
                    before = resident();
                }
            }
            let grown = resident().saturating_sub(before);
            assert!(grown < 1024 * 1024, "threads left {grown} bytes");
        });
    }
}

/// Those that end on another virtual processor than their last, too, and more at once than are kept.
#[test]
fn channels_come_and_go() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    const AT_ONCE: usize = 2000;
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let mut before = 0;
            for n in 0..CHOICES / AT_ONCE {
                let (all, ended) = mailbox();
                for _ in 0..AT_ONCE {
                    let (tx, rx) = channel();
                    // (One that was promoted may come when nobody receives any more.)
                    spawn_parasite(async move {
                        let _ = tx.asend(1);
                    });
                    all.asend(rx).unwrap();
                }
                let elsewhere = Thread::builder().on(n % vps).spawn(async move {
                    for _ in 0..AT_ONCE / 2 {
                        assert_eq!(ended.recv().await.unwrap().recv().await, Ok(1));
                    }
                });
                elsewhere.join().await.unwrap();
                if n == CHOICES / AT_ONCE / 10 {
                    before = resident();
                }
            }
            let grown = resident().saturating_sub(before);
            assert!(grown < 1024 * 1024, "channels left {grown} bytes");
        });
    }
}

#[test]
fn machines_come_and_go() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let once = || {
        let machine = machine(2);
        let (tx, rx) = channel::<u32>();
        let kept = machine.spawn(async move { rx.recv().await });
        machine.block_on(async {
            for _ in 0..100 {
                spawn_parasite(never::<()>().into_future());
                drop(spawn(never::<()>().into_future()));
            }
            yield_now().await;
        });
        drop(machine);
        assert!(kept.join().sync_blocking().is_err());
        drop(tx);
    };
    (0..50).for_each(|_| once());
    let (memory, files) = (resident(), descriptors());
    (0..300).for_each(|_| once());
    let grown = resident().saturating_sub(memory);
    assert!(grown < 4 * 1024 * 1024, "300 machines left {grown} bytes");
    assert_eq!(descriptors(), files, "machines leave descriptors open");
}
