//! `chanter-bench choice`: what a choice costs, in every system that has one.
//!
//! - `row` says what is done: the same work for all, and the same check.
//! - `chanter` does it, and so do the peers in `programs/peers/bench`: `choice_tasks` (futures on Tokio), `choice_threads`
//!   (OS threads), and Go's program in `go/choice.go`. `timer` is the choice between a message and a timer.
//! - `findings` holds the floors; `table` and `plot` show what was measured.
//!
//! A system that cannot do a row says why instead.

pub(crate) mod chanter;
mod findings;
mod plot;
pub(crate) mod row;
mod table;
mod timer;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::case::{Case, Load, Outcome};
use super::micro::choose::choose_both;
use super::micro::send::{adding_up, producer_and, sync};
use super::peers::channels::{Flume, Kanal, Mpsc};
use super::peers::{asynchronous, choice_tasks, choice_threads, crossbeam, go};
use super::{Stop, json_out, known, measure_all, report, show, table_of};

use row::ROWS;
pub(crate) use row::{BUSY_8, Row};

/// Arguments of `chanter-bench choice`.
#[derive(Args)]
pub(crate) struct ChoiceArgs {
    /// Rows (`busy-8`, `one-1024`, `mixed-2`, `choose-both`, `timer`, `recv`,...); all when none is named
    rows: Vec<String>,
    /// A tenth of the work, three rounds
    #[arg(long)]
    quick: bool,
    /// Choices of each round; each row has its own default
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    n: Option<u64>,
    /// Number of virtual processors, or of a peer's worker threads; 1 and 2 when none is named
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=2))]
    vps: Option<u16>,
    /// Only these systems (`chanter`, `tokio`, `go`, ...)
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw the time of a choice over the number of branches
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

/// Sets of branches that are made once and kept for all choices.
const KEPT: [&str; 3] = ["ChoiceSet", "FuturesUnordered", "SelectAll"];

pub(super) fn run(args: &ChoiceArgs) -> Result<(), Stop> {
    let mut cases: Vec<Case> = [1, 2].into_iter().flat_map(cases).collect();
    known(&args.rows, cases.iter().map(|case| case.bench.to_owned()), "row")?;
    known(&args.system, cases.iter().map(|case| case.system.to_owned()), "system")?;
    cases.retain(|case| {
        (args.rows.is_empty() || args.rows.iter().any(|row| row == case.bench))
            && args.vps.is_none_or(|vps| case.vps == usize::from(vps))
            && (args.system.is_empty() || args.system.iter().any(|system| system == case.system))
    });
    for case in &mut cases {
        case.n = args.n.unwrap_or(if args.quick { case.n / 10 } else { case.n });
    }
    let json = json_out(args.json.as_deref())?;
    let measured = measure_all(cases, if args.quick { 3 } else { 5 })?;
    let findings = findings::findings(&measured);
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.svg {
        plot::svg(path, &measured)?;
    }
    show(args.json.as_deref(), &format!("{}\n{}", table::table(&measured), table_of(&findings)))?;
    super::strictly(args.strict, &findings)
}

/// The number of choices that a system makes in a round, so that a round takes a fraction of a second.
#[derive(Clone, Copy)]
enum Pace {
    /// Chanter, and sets that are kept.
    Swift,
    /// Time grows with the branches.
    Fair,
    /// Every meeting wakes an OS thread.
    Slow,
}

const fn choices(branches: usize, pace: Pace) -> u64 {
    match (pace, branches) {
        (Pace::Swift, 1024) => 8 * 1024,
        (Pace::Swift, 64) => 64_000,
        (Pace::Fair | Pace::Slow, 1024) => 2 * 1024,
        (Pace::Fair, 64) => 12_800,
        (Pace::Slow, 64) => 6_400,
        (Pace::Swift | Pace::Fair, _) => 200_000,
        (Pace::Slow, _) => 20_000,
    }
}

fn cases(vps: usize) -> Vec<Case> {
    ROWS.into_iter().flat_map(|row| of_row(row, vps)).chain(exchange(vps)).chain(with_timer(vps)).collect()
}

fn of_row(row: Row, vps: usize) -> Vec<Case> {
    let case = |system, variant, pace, body: fn(Row, Load) -> Outcome| {
        let body = move |load| Ok(body(row, load)?.with("branches", row.branches as f64));
        Case::new(row.bench, system, variant, body).load_of(choices(row.branches, pace), vps)
    };
    vec![
        case("chanter", "tuple", Pace::Swift, chanter::tuple),
        case("chanter", "vec", Pace::Swift, chanter::vec),
        case("chanter", "ChoiceSet", Pace::Swift, chanter::set),
        case("go", "select", Pace::Fair, |row, load| match row.branches {
            1024 => row::cannot("a select statement of 1024 cases is nobody's program"),
            _ => go::run(row.bench, "select", load),
        }),
        case("go", "reflect.Select", Pace::Fair, |row, load| go::run(row.bench, "reflect.Select", load)),
        case("tokio", "select!", Pace::Fair, choice_tasks::select),
        case("futures", "select_all", Pace::Fair, choice_tasks::select_all_anew),
        case("futures", "FuturesUnordered", Pace::Swift, choice_tasks::futures_unordered),
        case("futures", "SelectAll", Pace::Swift, choice_tasks::merge::<Mpsc>),
        case("flume", "SelectAll", Pace::Swift, choice_tasks::merge::<Flume>),
        case("kanal", "SelectAll", Pace::Swift, choice_tasks::merge::<Kanal>),
        case("crossbeam", "Select", Pace::Slow, choice_threads::crossbeam),
        case("flume", "Selector", Pace::Slow, choice_threads::flume),
    ]
}

fn unable(
    bench: &'static str,
    system: &'static str,
    variant: &'static str,
    vps: usize,
    why: &'static str,
) -> Case {
    Case::new(bench, system, variant, move |_| row::cannot(why)).load_of(1, vps)
}

/// Both sides choose between a send and a receive.
fn exchange(vps: usize) -> Vec<Case> {
    let case = |system, variant, n, body: fn(Load) -> Outcome| {
        Case::new("choose-both", system, variant, body).load_of(n, vps)
    };
    let no = |system, variant, why| unable("choose-both", system, variant, vps, why);
    vec![
        case("chanter", "tuple", 200_000, choose_both),
        go::case("choose-both", "select").load_of(200_000, vps),
        no("tokio", "select!", "no rendezvous: a send that was chosen may stay in the buffer"),
        no("futures", "select_all", "no rendezvous: a send that was chosen may stay in the buffer"),
        no("kanal", "SelectAll", "streams only receive"),
        case("crossbeam", "Select", 20_000, crossbeam::choose_both),
        no("flume", "Selector", "a Selector's send may happen although its receive was chosen"),
    ]
}

/// A choice between a message and a timer, and a receive alone.
fn with_timer(vps: usize) -> Vec<Case> {
    let case = |bench, system, variant, n, body: fn(Load) -> Outcome| {
        Case::new(bench, system, variant, body).in_family("timer").load_of(n, vps)
    };
    let go = |bench| go::case(bench, "select").in_family("timer").load_of(200_000, vps);
    let no = |variant, why| unable("timer", "flume", variant, vps, why).in_family("timer");
    vec![
        case("timer", "chanter", "tuple", 200_000, timer::chanter),
        go("timer"),
        case("timer", "tokio", "select!", 200_000, timer::tokio),
        case("timer", "crossbeam", "Select", 20_000, timer::crossbeam),
        no("Selector", "a Selector can have a time-out, but no timer among its branches"),
        case("recv", "chanter", "tuple", 200_000, |load| {
            producer_and(load, ::chanter::prelude::channel(), sync, adding_up)
        }),
        go("recv"),
        case("recv", "tokio", "select!", 200_000, asynchronous::send::<Mpsc>),
        case("recv", "crossbeam", "Select", 20_000, crossbeam::send),
    ]
}
