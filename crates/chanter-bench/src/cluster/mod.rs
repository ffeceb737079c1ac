//! `chanter-bench cluster`: threads that talk across processes, over MPI alone, in the same job; and over sockets.
//!
//! Tables 2 to 5 of Chant (section 4) beside the paper's figures, the empty poll, a token between processes, and the
//! engine of sockets over raw sockets. Without MPI it says so, and runs the last. And what processes of a node ask of each
//! other: see `services`.

mod exercise;
mod page;
mod process;
mod published;
mod services;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use chanter_mpi::{detect, mpirun};
use clap::Args;
use comfy_table::{Table, presets};
use serde::Serialize;

use process::{Line, Round, What};
pub(crate) use process::{ProcessArgs, run as run_process};
use published::TABLE_2;
pub(crate) use services::{SceneArgs, run_scene};

use crate::figures::Finding;
use crate::measure::median;
use crate::report::{number, right};
use crate::{Stop, json_out, measure_all, micro, report, show, strictly, table_of};

/// Arguments of `chanter-bench cluster`.
#[derive(Args)]
pub(crate) struct ClusterArgs {
    /// A tenth of the work, three rounds
    #[arg(long)]
    quick: bool,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a page with the tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Only what processes of a node ask of each other: calls, remote threads, groups, stops and deaths
    #[arg(long, conflicts_with = "html")]
    services: bool,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

/// A row: medians of its rounds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    what: What,
    size: usize,
    ns: f64,
    ns_least: f64,
    ns_most: f64,
    tests: f64,
    rounds: usize,
    checked: bool,
}

#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    exercises: Vec<exercise::Round>,
}

impl Rows {
    fn of(lines: &[Line]) -> Self {
        let (mut rounds, mut exercises): (Vec<Round>, Vec<exercise::Round>) = Default::default();
        for line in lines {
            match line {
                Line::Row(round) => rounds.push(*round),
                Line::Exercise(round) => exercises.push(*round),
            }
        }
        let mut by_row = BTreeMap::<(What, usize), Vec<Round>>::new();
        for round in rounds {
            by_row.entry((round.what, round.size)).or_default().push(round);
        }
        let rows = by_row.into_iter().map(|((what, size), rounds)| {
            let ns: Vec<f64> = rounds.iter().map(|round| round.ns).collect();
            let tests: Vec<f64> = rounds.iter().map(|round| round.tests).collect();
            Row {
                what,
                size,
                ns: median(&ns).unwrap_or(f64::NAN),
                ns_least: ns.iter().copied().fold(f64::INFINITY, f64::min),
                ns_most: ns.iter().copied().fold(0.0, f64::max),
                tests: median(&tests).unwrap_or(f64::NAN),
                rounds: rounds.len(),
                // A process that finds a wrong result ends the job.
                checked: true,
            }
        });
        Self { rows: rows.collect(), exercises }
    }

    fn get(&self, what: What, size: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.what == what && row.size == size)
    }

    fn ns(&self, what: What, size: usize) -> Option<f64> {
        self.get(what, size).map(|row| row.ns)
    }

    /// Per cent over MPI alone.
    fn overhead(&self, what: What, bytes: usize) -> Option<f64> {
        Some((self.ns(what, bytes)? / self.ns(What::Process, bytes)? - 1.0) * 100.0)
    }
}

pub(super) fn run(args: &ClusterArgs) -> Result<(), Stop> {
    if args.services {
        return only_services(args);
    }
    let json = json_out(args.json.as_deref())?;
    let rounds = if args.quick { 3 } else { 7 };
    let rows = over_mpi(args, rounds)?;
    let mut cases = micro::all(1);
    cases.retain(|case| ["round-trip", "requests"].contains(&case.bench));
    for case in &mut cases {
        case.n = if args.quick { case.n.div_ceil(10) } else { case.n };
    }
    let sockets = measure_all(cases, rounds)?;
    let services = services::measure(services::Size::of(args.quick))?;
    let mut findings = findings(&rows);
    findings.extend(services::findings(&services));
    if let Some(mut out) = json {
        for row in &rows.rows {
            report::json_line(&mut out, row)?;
        }
        for round in &rows.exercises {
            report::json_line(&mut out, round)?;
        }
        report::json_lines(&mut out, &sockets)?;
        for row in &services {
            report::json_line(&mut out, row)?;
        }
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.html {
        let page = page::html(&rows, &chanter_mpi::Mpi::library())?;
        std::fs::write(path, page).map_err(|error| Stop(2, format!("{}: {error}", path.display())))?;
    }
    let tables = [
        table_2(&rows),
        exercise::tables(&rows.exercises),
        others(&rows),
        report::table(&sockets),
        services::table(&services),
        table_of(&findings),
    ];
    show(args.json.as_deref(), &tables.join("\n\n"))?;
    strictly(args.strict, &findings)
}

fn only_services(args: &ClusterArgs) -> Result<(), Stop> {
    let json = json_out(args.json.as_deref())?;
    let rows = services::measure(services::Size::of(args.quick))?;
    let findings = services::findings(&rows);
    if let Some(mut out) = json {
        for row in &rows {
            report::json_line(&mut out, row)?;
        }
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    show(args.json.as_deref(), &[services::table(&rows), table_of(&findings)].join("\n\n"))?;
    strictly(args.strict, &findings)
}

/// Starts the job, and reads what its first process says.
fn over_mpi(args: &ClusterArgs, rounds: usize) -> Result<Rows, Stop> {
    let Some(mut command) = mpirun(2) else {
        let why = detect().err().map_or_else(String::new, |error| error.to_string());
        eprintln!("chanter-bench: no rows over MPI: {why}");
        return Ok(Rows::default());
    };
    let trips = if args.quick { 2_000 } else { 20_000 };
    command.arg(std::env::current_exe()?).arg("cluster-process");
    command.args(["--trips", &trips.to_string(), "--rounds", &rounds.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Stop(1, format!("the job over MPI: {}", output.status)));
    }
    let said = String::from_utf8(output.stdout)?;
    let lines: Vec<Line> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(Rows::of(&lines))
}

fn words(value: Option<f64>) -> comfy_table::Cell {
    right(&value.map_or("-".to_owned(), number))
}

fn table_2(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "bytes",
        "MPI ns",
        "thread polls ns",
        "%",
        "tests",
        "scheduler polls ns",
        "%",
        "tests",
        "paper: NX us",
        "thread polls %",
        "scheduler polls %",
    ]);
    for row in &TABLE_2 {
        let [paper_threads, paper_scheduler] = row.overheads();
        let tests = |what| words(rows.get(what, row.bytes).map(|row| row.tests));
        table.add_row([
            right(&row.bytes.to_string()),
            words(rows.ns(What::Process, row.bytes)),
            words(rows.ns(What::ThreadPolls, row.bytes)),
            words(rows.overhead(What::ThreadPolls, row.bytes)),
            tests(What::ThreadPolls),
            words(rows.ns(What::SchedulerPolls, row.bytes)),
            words(rows.overhead(What::SchedulerPolls, row.bytes)),
            tests(What::SchedulerPolls),
            words(Some(row.process)),
            words(Some(paper_threads)),
            words(Some(paper_scheduler)),
        ]);
    }
    format!(
        "Chant, table 2: a message, half a round trip, over {}\n{table}",
        chanter_mpi::Mpi::library().lines().next().unwrap_or("nothing")
    )
}

fn others(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["row", "ns", "tests"]);
    for row in &rows.rows {
        let name = match row.what {
            What::EmptyPoll => format!("empty poll, {} receives wait", row.size),
            What::TokenRing => "token ring, a step".to_owned(),
            _ => continue,
        };
        table.add_row([comfy_table::Cell::new(name), words(Some(row.ns)), words(Some(row.tests))]);
    }
    table.to_string()
}

/// What is promised. A message's floor is 5 %, or 100 ns, whichever is more.
fn findings(rows: &Rows) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut at_most = |figure: String, value: Option<f64>, floor: f64| {
        let holds = value.map(|value| value <= floor);
        findings.push(Finding { figure, value, floor, holds, bound: "at most" });
    };
    for row in &TABLE_2 {
        let raw = rows.ns(What::Process, row.bytes);
        for (what, words) in [(What::ThreadPolls, "thread polls"), (What::SchedulerPolls, "scheduler polls")]
        {
            let more = rows.ns(what, row.bytes).zip(raw).map(|(ours, raw)| ours - raw);
            let least = if row.bytes <= 8192 { 100.0 } else { 0.0 };
            let floor = raw.map_or(least, |raw| (0.05 * raw).max(least));
            at_most(format!("{} B over MPI, {words}: ns more", row.bytes), more, floor);
        }
    }
    let worst = exercise::worst_ratio(&rows.exercises);
    at_most("tables 3 to 5: queue with ring over the best of the paper's, at worst".to_owned(), worst, 1.05);
    let any = exercise::any_over_each(&rows.exercises);
    at_most("tables 3 to 5: one test for any over a test for each, median".to_owned(), any, 1.0);
    let empty = |waiting| rows.ns(What::EmptyPoll, waiting);
    let (few, many) = (process::WAITING[0], process::WAITING[process::WAITING.len() - 1]);
    at_most(format!("empty poll with {many} receives: ns"), empty(many), 60.0);
    let growth = empty(many).zip(empty(few)).map(|(many, few)| many / few);
    at_most(format!("empty poll, {many} receives over {few}"), growth, 1.5);
    findings
}
