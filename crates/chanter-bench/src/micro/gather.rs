//! `gather`: one consumer gathers a message from each of eight producers, again and again: the
//! paper's benchmark of `chooseAll` (Featherweight Threads, section 5.4 and figure 10).

use std::time::Instant;

use chanter::event::gather_on_hosts;
use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};

const PRODUCERS: u64 = 8;

type Eight = [Receiver<u64>; PRODUCERS as usize];

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let some = |case: Case| case.load_of(400_000, vps);
    vec![
        some(Case::new("gather", "chanter", "parasites", |load| {
            gathering(load, async |receivers: &Eight| {
                sum(gather(receivers.each_ref().map(|receiver| receiver.clone().into_recv())).await)
            })
        })),
        some(Case::new("gather", "chanter", "hosts", |load| {
            gathering(load, async |receivers: &Eight| {
                sum(gather_on_hosts(receivers.each_ref().map(|receiver| receiver.clone().into_recv())).await)
            })
        })),
        some(Case::new("gather", "chanter", "in turn", |load| {
            gathering(load, async |receivers: &Eight| {
                let mut sum = 0;
                for receiver in receivers {
                    sum += receiver.recv().await.unwrap_or(0);
                }
                sum
            })
        })),
    ]
}

fn sum<const N: usize>(results: [Result<u64, Closed>; N]) -> u64 {
    results.into_iter().flatten().sum()
}

/// Each operation is one message.
fn gathering(load: Load, one_of_each: impl AsyncFn(&Eight) -> u64) -> Outcome {
    let each = load.n / PRODUCERS;
    let (sum, elapsed) = on_machine(load.vps, async {
        let clock = Instant::now();
        let mut producers = Vec::new();
        let receivers: Eight = std::array::from_fn(|_| {
            let (tx, rx) = channel::<u64>();
            producers.push(spawn(async move {
                for value in 0..each {
                    if tx.send(value).await.is_err() {
                        break;
                    }
                }
            }));
            rx
        });
        let mut sum = 0;
        for _ in 0..each {
            sum += one_of_each(&receivers).await;
        }
        let elapsed = clock.elapsed();
        for producer in producers {
            value_of(producer).await?;
        }
        Ok::<_, Failure>((sum, elapsed))
    })??;
    expect("sum received", sum, PRODUCERS * sum_below(each))?;
    Ok(Sample::new(each * PRODUCERS, elapsed))
}
