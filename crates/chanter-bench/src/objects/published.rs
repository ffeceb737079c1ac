//! What the paper has measured: Karamcheti, Plevyak, Chien, *Runtime Mechanisms for Efficient Dynamic Multithreading*, on a
//! Cray T3D (150 MHz).

use chanter_programs::schemas::{Outcome, Pair, Schema};

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
