//! Threads that compute in loops with checkpoints, and are asked to stop.

#![deny(warnings)]
#![cfg(all(target_os = "linux", not(miri)))]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use chanter::deadlock::Watchdog;
use chanter::prelude::*;
use chanter::thread::Activity;

/// Each kind of loop, without an end.
#[chanter::checkpoints]
async fn computes(turns: Arc<AtomicU64>, kind: u32) -> u64 {
    let mut sum = 0_u64;
    let mut turn = |n: u64| {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(n));
        turns.fetch_add(1, Ordering::Relaxed);
    };
    match kind {
        0 => loop {
            turn(1);
        },
        1 => {
            while black_box(true) {
                turn(2);
            }
        }
        2 => {
            for n in 0_u64.. {
                turn(n);
            }
        }
        3 => {
            let mut more = Some(1);
            while let Some(n) = more {
                turn(n);
                more = black_box(more);
            }
        }
        _ => 'outer: loop {
            for n in 0..3 {
                turn(n);
                if black_box(n) == 1 {
                    continue 'outer;
                }
            }
        },
    }
    sum
}

#[chanter::checkpoints]
fn computes_plainly(turns: &AtomicU64) -> u64 {
    let mut sum = 0_u64;
    for n in 0_u64.. {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(n));
        turns.fetch_add(1, Ordering::Relaxed);
    }
    sum
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn on_one_processor<F: Future<Output = ()> + Send>(name: &'static str, future: F) {
    let _dog = Watchdog::new(name, Duration::from_secs(300));
    // One processor: who asks has to get the processor first.
    Machine::builder().vps(1).build().unwrap().block_on(future);
}

#[test]
fn each_kind_of_loop_is_terminated() {
    on_one_processor("each_kind_of_loop_is_terminated", async {
        for kind in 0..5 {
            let turns = Arc::new(AtomicU64::new(0));
            let thread = spawn(computes(Arc::clone(&turns), kind));
            while turns.load(Ordering::Relaxed) == 0 {
                yield_now().await;
            }
            thread.terminate(7).await.unwrap();
            assert_eq!(thread.await.unwrap(), 7);
        }
    });
}

#[test]
fn a_loop_on_a_fiber_is_terminated_and_unwinds() {
    on_one_processor("a_loop_on_a_fiber_is_terminated_and_unwinds", async {
        let (turns, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (theirs, value) = (Arc::clone(&turns), Dropped(Arc::clone(&dropped)));
        let thread = spawn_fiber(move || {
            let _value = value;
            computes_plainly(&theirs)
        });
        while turns.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        thread.terminate(7).await.unwrap();
        assert_eq!(thread.await.unwrap(), 7);
        assert!(dropped.load(Ordering::SeqCst));
    });
}

#[test]
fn a_loop_is_suspended_and_goes_on() {
    on_one_processor("a_loop_is_suspended_and_goes_on", async {
        let turns = Arc::new(AtomicU64::new(0));
        let thread = spawn(computes(Arc::clone(&turns), 2));
        thread.suspend().await.unwrap();
        assert_eq!(thread.activity(), Activity::Suspended);
        let before = turns.load(Ordering::Relaxed);
        after(Duration::from_millis(30)).await;
        assert_eq!(turns.load(Ordering::Relaxed), before, "it stands still");
        assert!(thread.resume());
        while turns.load(Ordering::Relaxed) == before {
            yield_now().await;
        }
        thread.cancel().await.unwrap();
        assert!(thread.await.unwrap_err().is_cancelled());
    });
}

/// Where nobody measures turns a request is reason enough.
#[test]
fn a_loop_is_terminated_where_nothing_is_handed_over() {
    let _dog = Watchdog::new("a_loop_is_terminated_where_nothing_is_handed_over", Duration::from_secs(300));
    let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
    for is_fiber in [false, true] {
        let turns = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&turns);
        let thread = match is_fiber {
            true => machine.spawn_fiber(move || computes_plainly(&theirs)),
            false => machine.spawn(computes(theirs, 2)),
        };
        // It has the only processor, for ever.
        while turns.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        thread.terminate(7).sync_blocking().unwrap();
        assert_eq!(thread.join().sync_blocking().unwrap(), 7);
    }
}

/// A plain function that a future calls cannot yield. It does no harm there, nor on a thread of the OS.
#[test]
fn a_plain_loop_within_a_poll_runs_to_its_end() {
    #[chanter::checkpoints]
    fn sum(to: u64) -> u64 {
        let mut sum = 0_u64;
        for n in 0..to {
            sum = black_box(sum.wrapping_add(n));
        }
        sum
    }
    on_one_processor("a_plain_loop_within_a_poll_runs_to_its_end", async {
        let millions = 5_000_000;
        let threads: Vec<_> = (0..3).map(|_| spawn(async move { sum(millions) })).collect();
        for thread in threads {
            assert_eq!(thread.await.unwrap(), millions * (millions - 1) / 2);
        }
    });
    assert_eq!(sum(10), 45);
}

macro_rules! stop_at {
    ($n:expr, $most:expr) => {
        if $n == $most {
            break;
        }
    };
}

/// The same function with checkpoints, and without.
macro_rules! twice {
    ($with:ident, $without:ident, $numbers:ident => $($body:tt)*) => {
        #[chanter::checkpoints]
        async fn $with($numbers: &[u32]) -> Result<Vec<u32>, u32> {
            $($body)*
        }

        async fn $without($numbers: &[u32]) -> Result<Vec<u32>, u32> {
            $($body)*
        }
    };
}

// Each way to leave a loop and to begin its next turn, and what a loop yields.
twice! { leaves, leaves_without, numbers =>
    let mut found = Vec::new();
    let mut n = 0;
    found.push(loop {
        n += 1;
        if n == 5 {
            break n;
        }
    });
    let labelled = 'outer: loop {
        for m in 0.. {
            if m % 2 == 0 {
                continue;
            }
            n += m;
            if n > 50 {
                break 'outer n;
            }
            if m > 3 {
                continue 'outer;
            }
        }
    };
    found.push(labelled);
    for (at, number) in numbers.iter().enumerate() {
        // A macro hides this one.
        stop_at!(at, 3);
        found.push(*number);
    }
    let mut rest = numbers.iter().rev();
    while let Some(number) = rest.next() {
        stop_at!(*number, 1);
        found.push(*number);
        if rest.len() == 0 {
            return Err(0);
        }
    }
    #[allow(clippy::never_loop, reason = "it has one turn")]
    'one: while found.len() > 1 {
        loop {
            break 'one;
        }
    }
    let sum = async {
        let mut sum = 0;
        for number in &found {
            sum += u32::try_from(u64::from(*number)).map_err(|_| 1_u32)?;
        }
        Ok::<_, u32>(sum)
    };
    found.push(sum.await?);
    Ok(found)
}

/// A loop without an end has any type.
#[chanter::checkpoints]
async fn yields_nothing(rx: Receiver<u32>) -> Result<u64, Closed> {
    let mut sum = 0;
    loop {
        sum += u64::from(rx.recv().await?);
        if sum > 5 {
            return Ok(sum);
        }
    }
}

#[test]
fn loops_mean_what_they_meant() {
    chanter::block_on(async {
        for numbers in [&[][..], &[3], &[9, 1, 7, 8], &[1, 1, 1, 1, 1], &[2, 3]] {
            let found = leaves(numbers).await;
            assert_eq!(found, leaves_without(numbers).await);
            assert_eq!(found.is_err(), !numbers.contains(&1) && !numbers.is_empty(), "{found:?}");
        }
        let (tx, rx) = channel();
        let sum = spawn(yields_nothing(rx));
        for n in 1..4 {
            tx.send(n).await.unwrap();
        }
        assert_eq!(sum.await.unwrap(), Ok(6));
    });
}

struct Counter {
    to: u64,
}

impl Counter {
    #[chanter::checkpoints]
    fn count(&mut self) -> u64 {
        let mut n = 0;
        while n < self.to {
            n += 1;
        }
        n
    }

    #[chanter::checkpoints(crate = ::chanter)]
    async fn count_all<'a, T: Iterator<Item = &'a mut Counter>>(all: T) -> u64 {
        let mut sum = 0;
        for one in all {
            sum += one.count();
        }
        sum
    }
}

/// Methods, generics, lifetimes and `?` stay what they were.
#[test]
fn methods_have_checkpoints_as_well() {
    let mut all = [Counter { to: 3 }, Counter { to: 4 }];
    assert_eq!(chanter::block_on(async move { Counter::count_all(all.iter_mut()).await }), 7);
}
