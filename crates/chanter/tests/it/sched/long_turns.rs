//! Long turns: threads that they wake run elsewhere, if another processor has nothing to do.

// Under Miri no processor is handed off: it has no `membarrier`.
#![cfg(not(miri))]

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;

/// A quantum after which no processor is handed off in these tests.
const NEVER: Duration = Duration::from_secs(3600);
/// Machines that share a core with other tests are late.
const LATE: Duration = Duration::from_secs(240);

fn has_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Wakes a thread again and again, or has an OS thread outside of the machine wake it. Computes each time until the
/// thread has run.
async fn computes_until_it_has_run(times: u64, from_outside: bool) -> u64 {
    let runs = Arc::new(AtomicU64::new(0));
    let (to, from) = channel();
    let (acknowledges, acknowledged) = channel();
    let counts = {
        let runs = Arc::clone(&runs);
        spawn(async move {
            while let Ok(number) = from.recv().await {
                runs.store(number, Ordering::Release);
                if number == 0 {
                    acknowledges.send(()).await.unwrap();
                }
            }
        })
    };
    let deadline = Instant::now() + LATE;
    let mut lent = 0;
    for number in 1..=times {
        // So it runs here, mostly.
        to.send(0).await.unwrap();
        acknowledged.recv().await.unwrap();
        let outside = from_outside.then(|| {
            let to = to.clone();
            std::thread::spawn(move || to.send(number).sync_blocking().unwrap())
        });
        if !from_outside {
            to.send(number).await.unwrap();
        }
        while runs.load(Ordering::Acquire) != number {
            assert!(Instant::now() < deadline, "nobody runs what was woken");
            spin_loop();
        }
        if let Some(outside) = outside {
            outside.join().unwrap();
        }
        lent += 1;
    }
    drop(to);
    counts.join().await.unwrap();
    lent
}

fn runs_meanwhile(from_outside: bool) {
    if !has_cores() {
        return;
    }
    for vps in [2, 3] {
        let machine = Machine::builder().vps(vps).hand_off_after(Some(NEVER)).build().unwrap();
        let computes = async move { spawn(computes_until_it_has_run(100, from_outside)).join().await };
        assert_eq!(machine.block_on(computes).unwrap(), 100);
        assert_eq!(machine.stats().hand_offs, 0);
    }
}

#[test]
fn what_a_computation_wakes_does_not_wait_for_its_end() {
    runs_meanwhile(false);
}

#[test]
fn what_was_sent_to_a_computation_does_not_wait_for_its_end() {
    runs_meanwhile(true);
}
