//! A genealogy keeps no memory of the dead. The test is in a process of its own.

#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::future::Future;
use std::pin::Pin;

use chanter::prelude::*;
use common::watchdog;

const MANY: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// Spawns its successor, and dies.
fn successor(left: usize, end: Sender<()>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if left == 0 {
            end.send(()).await.unwrap();
        } else {
            spawn(successor(left - 1, end));
        }
    })
}

#[test]
fn memory_is_flat_over_generations_and_over_children() {
    watchdog!(120);
    // With two processors, stealers come now and then, and frames move with the stolen threads.
    let machine = Machine::builder().vps(1).genealogy(true).build().unwrap();
    machine.block_on(async {
        let run = async |count| {
            let (tx, rx) = channel();
            spawn(successor(count, tx));
            rx.recv().await.unwrap();
            for _ in 0..count {
                spawn(async {}).await.unwrap();
                spawn_parasite(async {});
            }
        };
        run(MANY / 10).await;
        let before = common::memory::resident();
        run(MANY).await;
        let grown = common::memory::resident().saturating_sub(before);
        assert!(grown < 512 * 1024, "{MANY} dead threads left {grown} bytes");
    });
}
