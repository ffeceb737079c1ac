//! Figure 10: `chooseAll`, here `gather`, from 1 to 16 producers.

use std::time::Instant;

use chanter::prelude::*;

use super::{Measured, Row, Work, machine, on, sum_below};
use crate::kit::Failure;

const STUDY: &str = "figure-10";
/// Messages of each producer, as in the paper.
const EACH: u64 = 100_000;

const fn row(configuration: &'static str, at: u64, work: fn(Work) -> Result<Measured, Failure>) -> Row {
    Row { study: STUDY, configuration, at, operations: EACH * at, least_vps: 1, work }
}

pub(super) const ROWS: &[Row] = &[
    row("hosts, 1 producer", 1, hosts::<1>),
    row("parasites, 1 producer", 1, parasites::<1>),
    row("hosts, 2 producers", 2, hosts::<2>),
    row("parasites, 2 producers", 2, parasites::<2>),
    row("hosts, 4 producers", 4, hosts::<4>),
    row("parasites, 4 producers", 4, parasites::<4>),
    row("hosts, 8 producers", 8, hosts::<8>),
    row("parasites, 8 producers", 8, parasites::<8>),
    row("hosts, 12 producers", 12, hosts::<12>),
    row("parasites, 12 producers", 12, parasites::<12>),
    row("hosts, 16 producers", 16, hosts::<16>),
    row("parasites, 16 producers", 16, parasites::<16>),
];

fn hosts<const N: usize>(work: Work) -> Result<Measured, Failure> {
    consume::<N>(work, true)
}

fn parasites<const N: usize>(work: Work) -> Result<Measured, Failure> {
    consume::<N>(work, false)
}

fn consume<const N: usize>(work: Work, hosts: bool) -> Result<Measured, Failure> {
    let each = work.operations / N as u64;
    on(machine(work.vps)?, each * N as u64, sum_below(each) * N as u64, async move {
        let clock = Instant::now();
        let receivers: [Receiver<u64>; N] = std::array::from_fn(|_| {
            let (tx, rx) = channel();
            spawn(async move {
                for value in 0..each {
                    if tx.send(value).await.is_err() {
                        break;
                    }
                }
            });
            rx
        });
        let mut sum = 0;
        for _ in 0..each {
            let receives = receivers.each_ref().map(Receiver::recv);
            let all = if hosts { gather_on_hosts(receives).await } else { gather(receives).await };
            sum += all.into_iter().flatten().sum::<u64>();
        }
        Ok((sum, clock))
    })
}
