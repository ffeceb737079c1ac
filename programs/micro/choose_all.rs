//! Figure 10: `chooseAll` from 1 to 16 producers; as `gather`, and by the paper's code (figure 5).

use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use chanter::prelude::*;
use chanter::{
    event::gather_on_hosts,
    parasite::{Par, attach, prepare, reify},
};

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
    row("figure 5, hosts, 1 producer", 1, by_figure_5::<1, Hosts>),
    row("figure 5, parasites, 1 producer", 1, by_figure_5::<1, Parasites>),
    row("figure 5, hosts, 2 producers", 2, by_figure_5::<2, Hosts>),
    row("figure 5, parasites, 2 producers", 2, by_figure_5::<2, Parasites>),
    row("figure 5, hosts, 4 producers", 4, by_figure_5::<4, Hosts>),
    row("figure 5, parasites, 4 producers", 4, by_figure_5::<4, Parasites>),
    row("figure 5, hosts, 8 producers", 8, by_figure_5::<8, Hosts>),
    row("figure 5, parasites, 8 producers", 8, by_figure_5::<8, Parasites>),
    row("figure 5, hosts, 12 producers", 12, by_figure_5::<12, Hosts>),
    row("figure 5, parasites, 12 producers", 12, by_figure_5::<12, Parasites>),
    row("figure 5, hosts, 16 producers", 16, by_figure_5::<16, Hosts>),
    row("figure 5, parasites, 16 producers", 16, by_figure_5::<16, Parasites>),
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
        let receivers = producers::<N>(each);
        let mut sum = 0;
        for _ in 0..each {
            let receives = receivers.each_ref().map(|receiver| receiver.clone().into_recv());
            let all = if hosts { gather_on_hosts(receives).await } else { gather(receives).await };
            sum += all.into_iter().flatten().sum::<u64>();
        }
        Ok((sum, clock))
    })
}

/// Starts the producers, each with a channel of its own.
fn producers<const N: usize>(each: u64) -> [Receiver<u64>; N] {
    std::array::from_fn(|_| {
        let (tx, rx) = channel();
        spawn(async move {
            for value in 0..each {
                if tx.send(value).await.is_err() {
                    break;
                }
            }
        });
        rx
    })
}

/// The threads that figure 5 spawns: parasites, or hosts to compare with.
trait Spawns: 'static {
    fn start(thread: impl Future<Output = ()> + Send + 'static);
}

struct Hosts;

impl Spawns for Hosts {
    fn start(thread: impl Future<Output = ()> + Send + 'static) {
        drop(spawn(thread));
    }
}

struct Parasites;

impl Spawns for Parasites {
    fn start(thread: impl Future<Output = ()> + Send + 'static) {
        spawn_parasite(thread);
    }
}

fn by_figure_5<const N: usize, S: Spawns>(work: Work) -> Result<Measured, Failure> {
    let each = work.operations / N as u64;
    on(machine(work.vps)?, each * N as u64, sum_below(each) * N as u64, async move {
        let clock = Instant::now();
        let receivers = Arc::new(producers::<N>(each));
        let result = IVar::new();
        let there = result.clone();
        // A thread of the same kind, as it is the current parasite that figure 5 reifies.
        S::start(async move {
            let mut sum = 0;
            for _ in 0..each {
                sum += sync_on_choose_all::<N, S>(&receivers).await.iter().sum::<u64>();
            }
            let _ = there.put(sum);
        });
        Ok((result.get().await, clock))
    })
}

/// Line by line: `l` is `receivers`, `c` is `left`, `a` is `values`, and `p` is `par`.
struct ChooseAll<const N: usize> {
    receivers: Arc<[Receiver<u64>; N]>,
    left: AtomicUsize,
    values: [AtomicU64; N],
    par: Mutex<Option<Par<[u64; N]>>>,
}

/// `syncOnChooseAll`.
async fn sync_on_choose_all<const N: usize, S: Spawns>(receivers: &Arc<[Receiver<u64>; N]>) -> [u64; N] {
    let receivers = Arc::clone(receivers);
    reify(move |par| {
        let all = Arc::new(ChooseAll {
            receivers,
            left: AtomicUsize::new(N),
            values: [const { AtomicU64::new(0) }; N],
            par: Mutex::new(Some(par)),
        });
        for at in 0..N {
            let all = Arc::clone(&all);
            S::start(async move {
                if let Ok(value) = all.receivers[at].recv().await {
                    all.finish(at, value);
                }
            });
        }
    })
    .await
}

impl<const N: usize> ChooseAll<N> {
    fn finish(&self, at: usize, value: u64) {
        self.values[at].store(value, Ordering::Relaxed);
        // ORDER: AcqRel: publishes the value to the last one, and lets the last one see all others.
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let values = self.values.each_ref().map(|value| value.load(Ordering::Relaxed));
        let par = self.par.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(par) = par {
            attach(prepare(par, values));
        }
    }
}
