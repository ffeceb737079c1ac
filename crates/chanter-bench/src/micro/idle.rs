//! `idle`: the processor time that a machine with nothing to do takes.

use std::time::{Duration, Instant};

use chanter::prelude::*;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::on_machine;
use crate::case::{Case, Failure, Load, Outcome, Sample};

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let idle = Case::new("idle", "chanter", "asleep", idle);
    vec![idle.isolated().at_most_rounds(3).load_of(1, vps)]
}

/// Processor time that the process has used.
pub(super) fn processor_time() -> Result<Duration, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|error| Failure::Broken(error.to_string()))?;
    Ok(in_std(usage.user_time()) + in_std(usage.system_time()))
}

fn in_std(time: TimeVal) -> Duration {
    let micros = time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    Duration::from_micros(micros)
}

/// An operation is a second of sleep; the first tenth of a second, in which VPs may still look for
/// work, does not count.
fn idle(load: Load) -> Outcome {
    let (elapsed, used) = on_machine(load.vps, async move {
        after(Duration::from_millis(100)).await;
        let before = processor_time()?;
        let clock = Instant::now();
        after(Duration::from_secs(load.n)).await;
        Ok::<_, Failure>((clock.elapsed(), processor_time()? - before))
    })??;
    if elapsed < Duration::from_secs(load.n) {
        return Err(Failure::Wrong(format!("a second of sleep took {elapsed:?}")));
    }
    let cpu_ms = used.as_secs_f64() * 1e3 / load.n as f64;
    Ok(Sample::new(load.n, elapsed).with("cpu_ms_per_s", cpu_ms))
}
