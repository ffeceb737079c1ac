//! The paper's exercise (section 4.2, figure 9): threads that compute, send, compute, and receive, in two processes.
//! Tables 3 to 5 and figures 10 to 13 are its times, context switches, tests and waiting threads, by the amount of
//! computation and by the poller.
//!
//! The paper's forms of polling run [literally](super::chant), on posted receives of MPI. Beside them is the way of this
//! library: receives are not posted to MPI, and one test of the engine serves all threads.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::{Inbox, Process, ThreadName};
use chanter_mpi::Mpi;
use comfy_table::{Cell as Column, Table, presets};
use serde::{Deserialize, Serialize};

use super::published::{Exercise, TABLES_3_TO_5};
use super::talk::Failure;
use crate::measure::median;
use crate::report::{number, right};

/// Threads of each process, and how often each sends and receives.
pub(super) const THREADS: u32 = 12;
pub(super) const ITERATIONS: u32 = 100;
pub(super) const ALPHAS: [u32; 4] = [100, 1_000, 10_000, 100_000];
pub(super) const BETAS: [u32; 3] = [100, 1_000, 0];
const TAG: u32 = 1000;

/// The forms of polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    /// The thread tests, and yields.
    ThreadPolls,
    /// The scheduler tests for a thread before it switches to it.
    PartialSwitch,
    /// The scheduler tests for each thread of a queue.
    QueueEach,
    /// The scheduler makes one test for all threads of a queue: the paper's hypothesis.
    QueueAny,
    /// One test of this library's engine.
    Ring,
}

/// The forms of Chant.
pub(super) const CHANTS: [Who; 4] = [Who::ThreadPolls, Who::PartialSwitch, Who::QueueEach, Who::QueueAny];
pub(super) const ALL: [Who; 5] =
    [Who::ThreadPolls, Who::PartialSwitch, Who::QueueEach, Who::QueueAny, Who::Ring];

impl Who {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::ThreadPolls => "thread polls",
            Self::PartialSwitch => "partial switch",
            Self::QueueEach => "queue, test each",
            Self::QueueAny => "queue, test any",
            Self::Ring => "Chanter",
        }
    }
}

/// All pairs of alpha and beta; if it is to be quick, without the longest computations.
pub(super) fn cells(is_quick: bool) -> impl Iterator<Item = (u32, u32)> {
    let alphas = if is_quick { &ALPHAS[..ALPHAS.len() - 1] } else { &ALPHAS };
    BETAS.into_iter().flat_map(|beta| alphas.iter().map(move |alpha| (*alpha, beta)))
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
    /// Threads that waited at a scheduling point, in the mean.
    pub(super) waiting: Option<f64>,
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
    (alpha, beta): (u32, u32),
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
        .map(|(inbox, partner)| spawn(thread(inbox, partner, alpha, beta)))
        .collect();
    for thread in threads {
        thread.join().await??;
    }
    Ok(Round {
        who: Who::Ring,
        alpha,
        beta,
        ms: clock.elapsed().as_secs_f64() * 1e3,
        switches: (dispatched() - switches) as f64,
        tests: (engine.counts().tests - tests) as f64,
        waiting: None,
        checked: true,
    })
}

fn dispatched() -> u64 {
    chanter::current_vp().map_or(0, |vp| vp.stats().dispatched)
}

async fn thread(inbox: Inbox, partner: ThreadName, alpha: u32, beta: u32) -> Result<(), Failure> {
    for iteration in 0..ITERATIONS {
        compute(alpha);
        inbox.send(partner, TAG, &iteration).await?;
        compute(beta);
        let got = inbox.recv::<u32>(partner, TAG).await?.value;
        if got != iteration {
            return Err(format!("iteration {iteration} of {partner} was {got}").into());
        }
    }
    Ok(())
}

/// The median of a cell.
pub(super) fn cell(rounds: &[Round], who: Who, (alpha, beta): (u32, u32), value: Value) -> Option<f64> {
    let of_cell = |round: &&Round| (round.who, round.alpha, round.beta) == (who, alpha, beta);
    median(&rounds.iter().filter(of_cell).filter_map(value).collect::<Vec<f64>>())
}

pub(super) fn ms(round: &Round) -> Option<f64> {
    Some(round.ms)
}

/// A value of a round, if it was measured.
pub(super) type Value = fn(&Round) -> Option<f64>;

/// The values that the tables and the figures show, with the figures' numbers.
pub(super) const VALUES: [(u32, &str, Value); 4] = [
    (10, "ms", ms),
    (11, "switches", |round| Some(round.switches)),
    (12, "tests", |round| Some(round.tests)),
    (13, "threads that wait", |round| round.waiting),
];

/// The three tables, beside the paper's, as far as these can be read.
pub(super) fn tables(rounds: &[Round]) -> String {
    let mut text = String::new();
    for (number_of, beta, published) in TABLES_3_TO_5 {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let header: Vec<String> = ["alpha".to_owned()]
            .into_iter()
            .chain(ALL.into_iter().map(|who| who.words().to_owned()))
            .chain(["paper: thread polls", "partial switch", "queue, test each"].map(str::to_owned))
            .collect();
        table.set_header(header);
        for (alpha, paper) in ALPHAS.into_iter().zip(published) {
            let mut row = vec![right(&alpha.to_string())];
            row.extend(
                ALL.map(|who| words(&VALUES.map(|(.., value)| cell(rounds, who, (alpha, beta), value)))),
            );
            let Exercise { thread_polls, partial_switch, waiting_queue } = paper;
            row.extend([thread_polls, partial_switch, waiting_queue].map(|paper| words(&paper)));
            table.add_row(row);
        }
        text += &format!(
            "Chant, table {number_of}: beta {beta}, {THREADS} threads in each of 2 processes: ms, switches, tests, and threads \
             that wait in the mean\n{table}\n\n"
        );
    }
    text
}

fn words(values: &[Option<f64>]) -> Column {
    let all: Vec<String> = values.iter().map(|value| value.map_or("-".to_owned(), number)).collect();
    right(&all.join("  "))
}

/// The ratios of the times of a form to those of another one, in all cells that were measured.
fn ratios(rounds: &[Round], who: Who, over: impl Fn((u32, u32)) -> Option<f64>) -> Option<Vec<f64>> {
    let all: Vec<f64> = cells(false).filter_map(|at| Some(cell(rounds, who, at, ms)? / over(at)?)).collect();
    (!all.is_empty()).then_some(all)
}

/// This library's way over the best of the paper's forms, at worst.
pub(super) fn worst_ratio(rounds: &[Round]) -> Option<f64> {
    let best = |at| {
        let times =
            [Who::ThreadPolls, Who::PartialSwitch, Who::QueueEach].map(|who| cell(rounds, who, at, ms));
        times.into_iter().flatten().reduce(f64::min)
    };
    ratios(rounds, Who::Ring, best)?.into_iter().reduce(f64::max)
}

/// The paper's hypothesis (section 4.2): the time with one test for all waiting threads over that of another form; the
/// median of all cells.
pub(super) fn any_over(rounds: &[Round], who: Who) -> Option<f64> {
    median(&ratios(rounds, Who::QueueAny, |at| cell(rounds, who, at, ms))?)
}
