//! The kit of engines, for networks that misbehave and the links above them.

use std::time::Duration;

use chanter_conformance::engine::{Check, Kit};
use chanter_engine::{Fault, Faults, Pace, Reliable, Simulated};

/// Nothing happens: then it is an engine like others.
#[chanter::test(limit = 600)]
async fn a_simulated_network_without_faults_keeps_what_an_engine_promises() {
    let kit = Kit::new(async |count| Simulated::cluster(count, Faults::default()));
    kit.killed_by(Simulated::kill).run().await.unwrap();
}

/// Frames are lost, come twice, late, or in another order; above the link nobody sees it. (Of the kit this is
/// where both ends poll to the end: what was lost is sent again by nobody who does not.)
#[chanter::test(limit = 600)]
async fn links_keep_what_an_engine_promises() {
    let kinds = [Fault::Lose, Fault::Duplicate, Fault::Delay, Fault::Reorder];
    let kit = Kit::new(async |count| {
        let faults = Faults { delay: Duration::from_millis(1), ..Faults::of(&kinds, 2000) };
        let engines = Simulated::cluster(count, faults).into_iter();
        engines.map(|engine| Reliable::over(engine, Pace::default())).collect()
    });
    for check in [Check::Sizes, Check::Full] {
        kit.run_one(check).await.unwrap();
    }
}
