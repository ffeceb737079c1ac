//! The paper's exercise (section 4.2, figure 9): threads that compute, send, compute, and receive, in two processes.
//! Tables 3 to 5 are its times, context switches and tests, by the amount of computation and by the poller.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::{Inbox, PollMode, Process, ThreadName};
use chanter_mpi::Mpi;
use comfy_table::{Cell as Column, Table, presets};
use serde::{Deserialize, Serialize};

use super::published::{Exercise, TABLES_3_TO_5};
use super::talk::Failure;
use crate::measure::median;
use crate::report::{number, right};

/// Threads of each process, and how often each sends and receives.
pub(super) const THREADS: u32 = 12;
const ITERATIONS: u32 = 100;
pub(super) const ALPHAS: [u32; 4] = [100, 1_000, 10_000, 100_000];
pub(super) const BETAS: [u32; 3] = [100, 1_000, 0];
const TAG: u32 = 1000;

/// The forms of polling, with their written names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    ThreadPolls,
    PartialSwitch,
    QueueEach,
    QueueAny,
    QueueRing,
}

pub(super) const ALL: [Who; 5] =
    [Who::ThreadPolls, Who::PartialSwitch, Who::QueueEach, Who::QueueAny, Who::QueueRing];
/// The exercises that the paper has measured.
const PAPERS: [Who; 3] = [Who::ThreadPolls, Who::PartialSwitch, Who::QueueEach];

impl Who {
    fn form(self) -> PollMode {
        match self {
            Self::ThreadPolls => PollMode::ThreadPolls,
            Self::PartialSwitch => PollMode::PartialSwitch,
            Self::QueueEach => PollMode::QueueEach,
            Self::QueueAny => PollMode::QueueAny,
            Self::QueueRing => PollMode::QueueRing,
        }
    }
}

/// One round of a cell of the tables; its messages were right.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) who: Who,
    pub(super) alpha: u32,
    pub(super) beta: u32,
    pub(super) ms: f64,
    /// Threads that were switched to, and tests of MPI, in the first process.
    pub(super) switches: f64,
    pub(super) tests: f64,
    pub(super) checked: bool,
}

/// A generic computation of that number of iterations.
pub(super) fn compute(iterations: u32) {
    let mut value = 1_u64;
    for _ in 0..iterations {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// The threads of this process do the exercise with the threads of the other process. Both begin together.
pub(super) async fn round(
    here: &Process,
    engine: &Arc<Mpi>,
    me: &Inbox,
    other: ThreadName,
    (who, alpha, beta): (Who, u32, u32),
) -> Result<Round, Failure> {
    let mut inboxes = Vec::new();
    let mut names = Vec::new();
    for _ in 0..THREADS {
        let inbox = here.inbox()?;
        names.push(inbox.name());
        inboxes.push(inbox);
    }
    me.send(other, TAG, &names).await?;
    let partners: Vec<ThreadName> = me.recv(other, TAG).await?.value;
    me.send(other, TAG, &()).await?;
    me.recv::<()>(other, TAG).await?;
    let (tests, switches) = (engine.counts().tests, dispatched());
    let clock = Instant::now();
    let threads: Vec<_> = inboxes
        .into_iter()
        .zip(partners)
        .map(|(inbox, partner)| spawn(thread(inbox, partner, who.form(), alpha, beta)))
        .collect();
    for thread in threads {
        thread.join().await??;
    }
    Ok(Round {
        who,
        alpha,
        beta,
        ms: clock.elapsed().as_secs_f64() * 1e3,
        switches: (dispatched() - switches) as f64,
        tests: (engine.counts().tests - tests) as f64,
        checked: true,
    })
}

fn dispatched() -> u64 {
    chanter::current_vp().map_or(0, |vp| vp.stats().dispatched)
}

async fn thread(
    inbox: Inbox,
    partner: ThreadName,
    form: PollMode,
    alpha: u32,
    beta: u32,
) -> Result<(), Failure> {
    for iteration in 0..ITERATIONS {
        compute(alpha);
        inbox.send(partner, TAG, &iteration).await?;
        compute(beta);
        let got = inbox.recv::<u32>(partner, TAG).polling(form).await?.value;
        if got != iteration {
            return Err(format!("iteration {iteration} of {partner} was {got}").into());
        }
    }
    Ok(())
}

/// Medians of a cell: milliseconds, switches, tests.
fn cell(rounds: &[Round], who: Who, alpha: u32, beta: u32) -> Option<[f64; 3]> {
    let of = |value: fn(&Round) -> f64| {
        let all: Vec<f64> = rounds
            .iter()
            .filter(|round| (round.who, round.alpha, round.beta) == (who, alpha, beta))
            .map(value)
            .collect();
        median(&all)
    };
    Some([of(|round| round.ms)?, of(|round| round.switches)?, of(|round| round.tests)?])
}

/// The three tables, beside the paper's, as far as these can be read.
pub(super) fn tables(rounds: &[Round]) -> String {
    let mut text = String::new();
    for (number_of, beta, published) in TABLES_3_TO_5 {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let header: Vec<String> = ["alpha".to_owned()]
            .into_iter()
            .chain(ALL.into_iter().map(|who| format!("{}: ms, switches, tests", who.form())))
            .chain(["paper: thread polls", "partial switch", "queue, test each"].map(str::to_owned))
            .collect();
        table.set_header(header);
        for (alpha, paper) in ALPHAS.into_iter().zip(published) {
            let mut row = vec![right(&alpha.to_string())];
            let all = |values: [Option<f64>; 3]| {
                right(&values.map(|value| value.map_or("-".to_owned(), number)).join("  "))
            };
            row.extend(ALL.map(|who| {
                let found = cell(rounds, who, alpha, beta);
                all([0, 1, 2].map(|at| found.map(|found| found[at])))
            }));
            let Exercise { thread_polls, partial_switch, waiting_queue } = paper;
            row.push(all(thread_polls));
            row.extend([partial_switch, waiting_queue].map(words));
            table.add_row(row);
        }
        text += &format!(
            "Chant, table {number_of}: beta {beta}, {THREADS} threads in each of 2 processes\n{table}\n\n"
        );
    }
    text
}

fn words(value: Option<f64>) -> Column {
    right(&value.map_or("-".to_owned(), number))
}

/// The ratios of a form to another value, in all cells.
fn ratios(rounds: &[Round], who: Who, over: impl Fn(u32, u32) -> Option<f64>) -> Option<Vec<f64>> {
    let cells = ALPHAS.into_iter().flat_map(|alpha| BETAS.map(|beta| (alpha, beta)));
    cells.map(|(alpha, beta)| Some(cell(rounds, who, alpha, beta)?[0] / over(alpha, beta)?)).collect()
}

/// The queue with the ring over the best of the paper's forms, at worst.
pub(super) fn worst_ratio(rounds: &[Round]) -> Option<f64> {
    let best = |alpha, beta| {
        let times = PAPERS.map(|who| cell(rounds, who, alpha, beta).map(|[ms, ..]| ms));
        times.into_iter().flatten().reduce(f64::min)
    };
    ratios(rounds, Who::QueueRing, best)?.into_iter().reduce(f64::max)
}

/// The paper's hypothesis (section 4.2): the cost with one test for all waiters, divided by the cost with a test for
/// each; the median of all cells.
pub(super) fn any_over_each(rounds: &[Round]) -> Option<f64> {
    median(&ratios(rounds, Who::QueueAny, |alpha, beta| {
        cell(rounds, Who::QueueEach, alpha, beta).map(|[ms, ..]| ms)
    })?)
}

/// The same, over a partial switch, which the paper has found best.
pub(super) fn any_over_partial(rounds: &[Round]) -> Option<f64> {
    median(&ratios(rounds, Who::QueueAny, |alpha, beta| {
        cell(rounds, Who::PartialSwitch, alpha, beta).map(|[ms, ..]| ms)
    })?)
}
