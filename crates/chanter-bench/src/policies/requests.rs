//! The study of requests beside computations (`programs/policies`), a case for each policy.

use chanter_programs::policies::{POLICIES, study};

use crate::case::{Case, Sample};
use crate::figure7::failure;

pub(super) const BENCH: &str = "requests";
/// The detail that holds the slices a second that were computed.
pub(super) const SLICES: &str = "slices_per_s";
pub(super) const PERCENTILES: [(&str, f64); 5] =
    [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p99.9_us", 0.999), ("max_us", 1.0)];

pub(super) fn cases(vps: usize) -> Vec<Case> {
    let case = |(name, policy)| {
        Case::new(BENCH, "chanter", name, move |load| {
            let observed = study(load.n, load.vps, policy).map_err(failure)?;
            let sample = Sample::new(load.n, observed.latencies.iter().sum());
            let sample = PERCENTILES.into_iter().fold(sample, |sample, (name, part)| {
                sample.with(name, observed.percentile(part).as_secs_f64() * 1e6)
            });
            Ok(sample.with(SLICES, observed.slices_per_second))
        })
    };
    POLICIES.into_iter().map(|policy| case(policy).load_of(2_000, vps)).collect()
}
