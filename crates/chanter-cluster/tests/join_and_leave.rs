//! A process that has gone leaves no descriptor in the others. (Alone in its program, as it counts those of the OS process.)

#![cfg(target_os = "linux")]

use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_cluster::join::{Join, Seed};
use chanter_cluster::launcher::{Address, Secret};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[chanter::test]
async fn processes_that_have_gone_cost_no_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let address = |name: u32| Address::Unix(folder.path().join(name.to_string()));
    let join = |name| {
        let join = Join::new(Secret::new([7; 32]), address(name)).founds_after(Duration::ZERO);
        Process::join(join.seed(Seed::Address(address(0))))
    };
    let first = join(0).await.unwrap();
    let mut before = None;
    for name in 1..40 {
        let here = join(name).await.unwrap();
        here.leave().await;
        drop(here);
        let members = first.members();
        while members.update().as_slice() != [0] {
            members.changed().await.unwrap();
        }
        // The first rounds open what stays: of pollers, and of machines.
        if name == 5 {
            before = Some(descriptors());
        }
    }
    // The last ones may not be closed yet.
    while descriptors() > before.unwrap() + 4 {
        after(Duration::from_millis(1)).await;
    }
}
