//! Long turns: what they wake runs elsewhere, if somebody has nothing to do.

// Under Miri no seat is passed: it has no `membarrier`.
#![cfg(not(miri))]

mod common;

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;

/// So that no seat is handed over.
const NEVER: Duration = Duration::from_secs(3600);
/// Machines that share a core with other tests are late.
const LATE: Duration = Duration::from_secs(240);

fn has_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Wakes a thread again and again, and computes each time until that has run.
async fn computes_until_it_has_run(times: u64) -> u64 {
    let runs = Arc::new(AtomicU64::new(0));
    let (to, from) = channel();
    let counts = {
        let runs = Arc::clone(&runs);
        spawn(async move {
            while let Ok(number) = from.recv().await {
                runs.store(number, Ordering::Release);
            }
        })
    };
    let deadline = Instant::now() + LATE;
    let mut lent = 0;
    for number in 1..=times {
        to.send(number).await.unwrap();
        while runs.load(Ordering::Acquire) != number {
            assert!(Instant::now() < deadline, "nobody runs what was woken");
            spin_loop();
        }
        lent += 1;
    }
    drop(to);
    counts.join().await.unwrap();
    lent
}

#[test]
fn what_a_computation_wakes_does_not_wait_for_its_end() {
    if !has_cores() {
        return;
    }
    for vps in [2, 3] {
        let machine = Machine::builder().vps(vps).hand_over_after(Some(NEVER)).build().unwrap();
        let times = machine.block_on(async { spawn(computes_until_it_has_run(100)).join().await.unwrap() });
        assert_eq!(times, 100);
        assert_eq!(machine.stats().hand_overs, 0);
    }
}
