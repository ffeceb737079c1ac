//! job
use chanter::prelude::*;
use chanter_cluster::Here;
use chanter_programs::kit::{Program, Size};
use chanter_programs::molecular_dynamics::{self, MolecularDynamics};
fn main() {
    let machine = Machine::builder().vps(1).build().unwrap();
    let main = machine.spawn(async move {
        let here = Here::launched().await.unwrap();
        let input = MolecularDynamics::input(Size::Paper);
        let done = molecular_dynamics::process(&here, &input.system, input.motion).await.map_err(|e| e.to_string());
        let n = here.count();
        here.leave().await;
        if let Some((outcome, elapsed)) = done.unwrap() {
            let clock = std::time::Instant::now();
            let serial = MolecularDynamics::serial(&input);
            println!("{n} processes: {elapsed:?}, right: {}; serial {:?}", outcome == serial, clock.elapsed());
        }
    });
    main.join().sync_blocking().unwrap();
}
