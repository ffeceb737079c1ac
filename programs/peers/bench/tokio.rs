//! Tokio: tasks.

use std::time::Instant;

use ::tokio::runtime::Runtime;

use super::asynchronous::{multi_thread, run_on, runtime};
use crate::case::{Failure, Load, Outcome, Sample, expect, sum_below};

/// Spawn and join, one after the other, on the single-threaded executor.
pub(crate) fn spawn_current_thread(load: Load) -> Outcome {
    spawn_and_join(&runtime(1)?, load)
}

/// Spawn and join, one after the other, on the work-stealing executor.
pub(crate) fn spawn_multi_thread(load: Load) -> Outcome {
    spawn_and_join(&multi_thread(load.vps)?, load)
}

fn spawn_and_join(runtime: &Runtime, load: Load) -> Outcome {
    let (sum, elapsed) = run_on(runtime, async move {
        let clock = Instant::now();
        let mut sum = 0;
        for value in 0..load.n {
            sum += ::tokio::spawn(async move { value }).await?;
        }
        Ok::<_, ::tokio::task::JoinError>((sum, clock.elapsed()))
    })?
    .map_err(|error| Failure::Broken(error.to_string()))?;
    expect("sum of results", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
