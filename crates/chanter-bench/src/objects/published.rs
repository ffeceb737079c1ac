//! The paper's measurements: Karamcheti, Plevyak, Chien, *Runtime Mechanisms for Efficient Dynamic Multithreading*,
//! on a Cray T3D (150 MHz).

use chanter_programs::schemas::{Outcome, Pair, Schema};

#[cfg(unix)]
use super::jobs::{By, Job};
#[cfg(unix)]
use super::kernel::Version;

/// Table 4, call overhead: instructions in addition to a C call, which is 25 to 40.
pub(super) fn instructions(pair: Pair) -> Option<f64> {
    use Schema::{ContinuationPassing, MayBlock, NonBlocking, Parallel};
    match (pair.caller, pair.callee, pair.outcome) {
        (Parallel, Parallel, Outcome::Ends) => Some(320.0),
        (Parallel | NonBlocking | MayBlock | ContinuationPassing, NonBlocking, Outcome::Ends) => Some(0.0),
        (Parallel | MayBlock | ContinuationPassing, MayBlock, Outcome::Ends) => Some(6.0),
        (Parallel | MayBlock | ContinuationPassing, ContinuationPassing, Outcome::Ends) => Some(8.0),
        _ => None,
    }
}

/// Table 4, fallback overhead: microseconds in addition to the call. (Base's whole invocation takes 2.1.)
pub(super) fn fallback_us(pair: Pair) -> Option<f64> {
    use Schema::{ContinuationPassing, MayBlock, Parallel};
    if pair.outcome != Outcome::Blocks {
        return None;
    }
    match (pair.caller, pair.callee) {
        (Parallel, MayBlock) => Some(0.15),
        (Parallel, ContinuationPassing) => Some(0.0),
        (MayBlock, MayBlock) => Some(2.0),
        (MayBlock, ContinuationPassing) => Some(0.3),
        (ContinuationPassing, MayBlock) => Some(3.5),
        (ContinuationPassing, ContinuationPassing) => Some(1.8),
        _ => None,
    }
}

/// Base's heap invocation, in microseconds (section 4.2.3).
pub(super) const BASE_US: f64 = 2.1;

/// Speed-ups of figures 14 and 15 that the text gives, with the number of processors. Radiosity's speed-ups are over
/// the fastest run on one processor. Those of molecular dynamics are over the run on 8, scaled.
#[cfg(unix)]
pub(super) fn speed_up(program: Job, by: By) -> Option<(f64, f64)> {
    let By::Objects(Version { stack, pull }) = by else { return None };
    match (program, stack, pull) {
        (Job::Radiosity, false, false) => Some((6.0, 32.0)),
        (Job::Radiosity, true, false) | (Job::Radiosity, false, true) => Some((12.0, 32.0)),
        (Job::Radiosity, true, true) => Some((23.0, 32.0)),
        (Job::MolecularDynamics, false, false) => Some((24.0, 64.0)),
        (Job::MolecularDynamics, true, false) => Some((36.0, 64.0)),
        // Pulling "yields little additional advantages": there is no figure.
        (Job::MolecularDynamics, _, true) => None,
    }
}
