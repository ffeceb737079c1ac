//! A chain of futures; and of fibers.

use std::sync::Arc;

use chanter::prelude::*;

use super::Search;
use crate::kit::{Done, Gauge};

pub(super) async fn primes(search: Search, delayed: bool) -> Done<Vec<u32>> {
    let gauge = Arc::new(Gauge::default());
    let _main = gauge.begin();
    let mut before = None;
    for index in 0..search.futures {
        let future = more(search, index, before.take(), Arc::clone(&gauge));
        before = Some(if delayed { delay(future) } else { spawn(future) });
    }
    let primes = value(before).await;
    Done::new(primes).communications(search.futures as u64).at_once(gauge.most())
}

/// One of the futures.
async fn more(search: Search, index: usize, before: Option<Thread<Vec<u32>>>, gauge: Arc<Gauge>) -> Vec<u32> {
    let _this = gauge.begin();
    let found = search.found_by(index);
    search.extended(index, found, value(before).await)
}

async fn value(thread: Option<Thread<Vec<u32>>>) -> Vec<u32> {
    match thread {
        Some(thread) => thread.await.expect("a future that finds primes has a value"),
        None => Vec::new(),
    }
}

/// The same on fibers.
pub(super) async fn primes_on_fibers(search: Search) -> Done<Vec<u32>> {
    let gauge = Arc::new(Gauge::default());
    let most = Arc::clone(&gauge);
    let main = move || {
        let _main = gauge.begin();
        let mut before: Option<Thread<Vec<u32>>> = None;
        for index in 0..search.futures {
            let (last, gauge) = (before.take(), Arc::clone(&gauge));
            before = Some(spawn_fiber(move || {
                let _this = gauge.begin();
                let found = search.found_by(index);
                search.extended(index, found, demanded(last))
            }));
        }
        demanded(before)
    };
    let primes = spawn_fiber(main).await.expect("a fiber that finds primes has a value");
    Done::new(primes).communications(search.futures as u64).at_once(most.most())
}

fn demanded(fiber: Option<Thread<Vec<u32>>>) -> Vec<u32> {
    let value =
        |fiber: Thread<_>| fiber.join().sync_blocking().expect("a fiber that finds primes has a value");
    fiber.map_or_else(Vec::new, value)
}
