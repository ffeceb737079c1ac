//! `tuples`: a tuple put and taken, beside a message sent and received.

use std::time::Instant;

use chanter::prelude::*;
use chanter_tuples::{Any, TupleSpace};

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};

const FAMILY: &str = "tuples";
/// Number of first fields, in turn.
const KEYS: u64 = 16;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let cases = [
        Case::new("tuples", "chanter", "put, take", put_then_take),
        Case::new("tuples", "chanter", "send, recv", send_then_recv),
        Case::new("tuples-between", "chanter", "put, take", put_to_a_taker),
        Case::new("tuples-between", "chanter", "send, recv", send_to_a_receiver),
    ];
    cases.into_iter().map(|case| case.in_family(FAMILY).load_of(1_000_000, vps)).collect()
}

/// One thread puts each tuple, and takes it.
fn put_then_take(load: Load) -> Outcome {
    in_a_thread(load, async move {
        let space = TupleSpace::new();
        let mut sum = 0;
        for value in 0..load.n {
            space.put((value % KEYS, value)).await;
            sum += space.take((value % KEYS, Any)).await.1;
        }
        sum
    })
}

/// One thread sends each message into a mailbox, and receives it.
fn send_then_recv(load: Load) -> Outcome {
    in_a_thread(load, async move {
        let (tx, rx) = mailbox();
        let mut sum = 0;
        for value in 0..load.n {
            if tx.send(value).await.is_ok() {
                sum += rx.recv().await.unwrap_or(0);
            }
        }
        sum
    })
}

/// One thread puts tuples, and another takes each by its number.
fn put_to_a_taker(load: Load) -> Outcome {
    in_a_thread(load, async move {
        let space = TupleSpace::new();
        let tuples = space.clone();
        spawn(async move {
            for value in 0..load.n {
                tuples.put((value % KEYS, value)).await;
                // A space has no bound, and this is to measure no queue.
                if value % KEYS == KEYS - 1 {
                    yield_now().await;
                }
            }
        });
        let mut sum = 0;
        for value in 0..load.n {
            sum += space.take((value % KEYS, value)).await.1;
        }
        sum
    })
}

/// One thread sends messages into a mailbox, and another receives them.
fn send_to_a_receiver(load: Load) -> Outcome {
    in_a_thread(load, async move {
        let (tx, rx) = mailbox();
        spawn(async move {
            for value in 0..load.n {
                if tx.send(value).await.is_err() {
                    break;
                }
                if value % KEYS == KEYS - 1 {
                    yield_now().await;
                }
            }
        });
        super::send::adding_up(rx).await
    })
}

fn in_a_thread(load: Load, work: impl Future<Output = u64> + Send + 'static) -> Outcome {
    let (sum, elapsed) = on_machine(load.vps, async move {
        let clock = Instant::now();
        let sum = value_of(spawn(work)).await?;
        Ok::<_, Failure>((sum, clock.elapsed()))
    })??;
    expect("sum of all values", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
