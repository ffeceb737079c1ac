//! `checkpoints`: a tight loop with `#[chanter::checkpoints]`, and the same without.

use std::hint::black_box;
use std::time::Instant;

use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};

const FAMILY: &str = "checkpoints";

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    if vps != 1 {
        return Vec::new();
    }
    let cases = [
        Case::new("checkpoints", "plain", "async fn", |load| timed(load, || spawn(plain(load.n)))),
        Case::new("checkpoints", "chanter", "async fn", |load| timed(load, || spawn(checked(load.n)))),
        Case::new("checkpoints", "plain", "fiber", |load| {
            timed(load, move || spawn_fiber(move || plain_on_a_fiber(load.n)))
        }),
        Case::new("checkpoints", "chanter", "fiber", |load| {
            timed(load, move || spawn_fiber(move || checked_on_a_fiber(load.n)))
        }),
    ];
    cases.into_iter().map(|case| case.in_family(FAMILY).load_of(100_000_000, 1)).collect()
}

/// Both forms of a function that adds numbers up, one in each turn, so that no compiler does several at once.
macro_rules! adds_up {
    ($([$($async:ident)?] $plain:ident $checked:ident)*) => {$(
        #[inline(never)]
        $($async)? fn $plain(below: u64) -> u64 {
            let mut sum = 0_u64;
            for number in 0..below {
                sum += black_box(number);
            }
            sum
        }

        #[chanter::checkpoints]
        #[inline(never)]
        $($async)? fn $checked(below: u64) -> u64 {
            let mut sum = 0_u64;
            for number in 0..below {
                sum += black_box(number);
            }
            sum
        }
    )*};
}

adds_up! {
    [async] plain checked
    [] plain_on_a_fiber checked_on_a_fiber
}

fn timed(load: Load, start: impl FnOnce() -> Thread<u64> + Send) -> Outcome {
    let (sum, elapsed) = on_machine(load.vps, async move {
        let clock = Instant::now();
        let sum = value_of(start()).await?;
        Ok::<_, Failure>((sum, clock.elapsed()))
    })??;
    expect("sum of all numbers", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
