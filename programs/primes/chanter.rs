//! A chain of futures; and of fibers.

use std::sync::Arc;

use chanter::prelude::*;

use super::{EACH, extend};
use crate::kit::{Done, Gauge};

pub(super) async fn primes(futures: usize, delayed: bool) -> Done<Vec<u32>> {
    let gauge = Arc::new(Gauge::default());
    let _main = gauge.begin();
    let mut before = None;
    for _ in 0..futures {
        let future = more(before.take(), Arc::clone(&gauge));
        before = Some(if delayed { delay(future) } else { spawn(future) });
    }
    let primes = value(before).await;
    Done::new(primes).communications(futures as u64).at_once(gauge.most())
}

/// One of the futures.
async fn more(before: Option<Thread<Vec<u32>>>, gauge: Arc<Gauge>) -> Vec<u32> {
    let _this = gauge.begin();
    let mut primes = value(before).await;
    for _ in 0..EACH {
        extend(&mut primes);
    }
    primes
}

async fn value(thread: Option<Thread<Vec<u32>>>) -> Vec<u32> {
    match thread {
        Some(thread) => thread.await.expect("a future that finds primes has a value"),
        None => Vec::new(),
    }
}

/// The same on fibers.
pub(super) async fn primes_on_fibers(futures: usize) -> Done<Vec<u32>> {
    let gauge = Arc::new(Gauge::default());
    let most = Arc::clone(&gauge);
    let main = move || {
        let _main = gauge.begin();
        let mut before: Option<Thread<Vec<u32>>> = None;
        for _ in 0..futures {
            let (last, gauge) = (before.take(), Arc::clone(&gauge));
            before = Some(spawn_fiber(move || {
                let _this = gauge.begin();
                let mut primes = demanded(last);
                (0..EACH).for_each(|_| extend(&mut primes));
                primes
            }));
        }
        demanded(before)
    };
    let primes = spawn_fiber(main).await.expect("a fiber that finds primes has a value");
    Done::new(primes).communications(futures as u64).at_once(most.most())
}

fn demanded(fiber: Option<Thread<Vec<u32>>>) -> Vec<u32> {
    let value =
        |fiber: Thread<_>| fiber.join().sync_blocking().expect("a fiber that finds primes has a value");
    fiber.map_or_else(Vec::new, value)
}
