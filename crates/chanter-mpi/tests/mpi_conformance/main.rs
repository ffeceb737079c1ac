//! The conformance kit of `chanter-cluster`, for the engine of MPI. The kit wants all processes of a cluster in one
//! program. Here they are processes that `mpirun` has started, each with a real engine. The kit has proxies that pass
//! each call on.
//! This program is both. (Nobody is killed: that ends the whole job.)

mod agent;
mod proxy;
mod words;

use std::time::Duration;

use chanter::Machine;
use chanter_conformance::engine::{Check, Kit};
use chanter_mpi::{detect, mpirun};

/// Where a process of the job finds the kit.
const MEET: &str = "CHANTER_TEST_MEET";

const CHECKS: [Check; 9] = [
    Check::Connected,
    Check::Sizes,
    Check::Budget,
    Check::Concurrent,
    Check::Full,
    Check::Wakes,
    Check::Rests,
    Check::Drains,
    Check::LeavesNow,
];

fn main() {
    if let Ok(folder) = std::env::var(MEET) {
        return agent::run(folder.as_ref());
    }
    if mpirun(1).is_none() {
        println!("skipped: {}", detect().unwrap_err());
        return;
    }
    let machine = Machine::builder().vps(2).build().unwrap();
    machine.block_on(async {
        let kit = Kit::new(async |count| proxy::cluster(count)).patience(Duration::from_secs(120));
        for check in CHECKS {
            kit.run_one(check).await.unwrap();
            println!("test {check:?} ... ok");
        }
    });
}
