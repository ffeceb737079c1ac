//! `chanter-bench cluster`: threads that talk across processes, beside MPI alone in the same job, and beside sockets.
//!
//! Tables 2 to 5 of Chant (section 4) stand beside the paper's figures. Then come the empty poll, a token between
//! processes, messages as shipped on a node, figure 10 of Concert, and jobs that wait. The engine of sockets is
//! compared with raw sockets. `services` measures requests between processes of a node. Without MPI the command says
//! so, and runs the rows that do not need it.

mod chant;
mod exercise;
mod figure10;
mod findings;
mod job;
mod member;
mod page;
mod patterns;
mod pressed;
mod process;
mod published;
mod rows;
mod services;
mod talk;

use std::io::Write;
use std::path::PathBuf;

use chanter_mpi::detect;
use clap::Args;
use comfy_table::{Table, presets};
use serde::Serialize;

use job::By;
pub(crate) use member::{MemberArgs, run as run_member};
use process::{Line, What};
pub(crate) use process::{ProcessArgs, run as run_process};
use published::TABLE_2;
use rows::Rows;
pub(crate) use services::{SceneArgs, run_scene};

use crate::figures::Finding;
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
    /// Only push against pull: figure 10 and table 5 of Concert, and the same with slow receivers
    #[arg(long, conflicts_with = "services")]
    push_and_pull: bool,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

/// Lengths, in bytes, of messages whose bodies go by themselves and are not copied.
const LARGE: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

pub(super) fn run(args: &ClusterArgs) -> Result<(), Stop> {
    let json = json_out(args.json.as_deref())?;
    let (mut rows, mut sockets, mut services) = (Rows::default(), Vec::new(), Vec::new());
    let (findings, tables);
    if args.services {
        services = services::measure(services::Size::of(args.quick))?;
        findings = services::findings(&services);
        tables = vec![services::table(&services)];
    } else if args.push_and_pull {
        let mut lines = patterns(args.quick)?;
        lines.extend(pressed(args.quick)?);
        rows = Rows::of(&lines);
        findings = findings::push_and_pull(&rows);
        tables = concerts_tables(&rows).into();
    } else {
        rows = measure(args.quick)?;
        sockets = measure_all(micro_cases(args.quick), if args.quick { 3 } else { 7 })?;
        services = services::measure(services::Size::of(args.quick))?;
        let all = findings::findings(&rows, &sockets).into_iter().chain(services::findings(&services));
        findings = all.collect();
        let chants = [
            table_2(&rows),
            exercise::tables(&rows.exercises),
            findings::verdict(&rows).unwrap_or_default(),
            others(&rows),
        ];
        let others = [report::table(&sockets), services::table(&services)];
        tables = [&chants[..], &concerts_tables(&rows), &others].concat();
    }
    if let Some(mut out) = json {
        json_rows(&mut *out, &rows)?;
        report::json_lines(&mut *out, &sockets)?;
        all_lines(&mut *out, &services)?;
        all_lines(&mut *out, &findings)?;
        out.flush()?;
    }
    if let Some(path) = &args.html {
        let page = page::html(&rows, &chanter_mpi::Mpi::library())?;
        std::fs::write(path, page).map_err(|error| Stop(2, format!("{}: {error}", path.display())))?;
    }
    show(args.json.as_deref(), &[tables, vec![table_of(&findings)]].concat().join("\n\n"))?;
    strictly(args.strict, &findings)
}

fn json_rows(out: &mut dyn Write, rows: &Rows) -> std::io::Result<()> {
    all_lines(out, &rows.rows)?;
    all_lines(out, &rows.exercises)?;
    all_lines(out, &rows.patterns)?;
    all_lines(out, &rows.pressed)
}

fn all_lines(out: &mut dyn Write, records: &[impl Serialize]) -> std::io::Result<()> {
    records.iter().try_for_each(|record| report::json_line(out, record))
}

/// Figure 10 and table 5 of Concert, and the same with slow receivers.
fn concerts_tables(rows: &Rows) -> [String; 3] {
    [figure10::table(rows), figure10::table_5(rows), pressed::table(&rows.pressed)]
}

/// The cases of single operations that belong here.
fn micro_cases(quick: bool) -> Vec<crate::case::Case> {
    let mut cases = micro::all(1);
    cases.retain(|case| ["round-trip", "requests", "by-name"].contains(&case.bench));
    for case in &mut cases {
        case.n = if quick { case.n.div_ceil(10) } else { case.n };
    }
    cases
}

/// Runs the jobs, and reads the output of their processes.
fn measure(quick: bool) -> Result<Rows, Stop> {
    let mut lines = over_mpi(quick)?;
    lines.extend(shipped(quick)?);
    lines.extend(waiting(quick)?);
    lines.extend(patterns(quick)?);
    lines.extend(pressed(quick)?);
    Ok(Rows::of(&lines))
}

/// Runs the job over MPI: tables 2 to 5, and the other rows of that job.
fn over_mpi(quick: bool) -> Result<Vec<Line>, Stop> {
    let (trips, rounds) = if quick { ("500", "1") } else { ("20000", "7") };
    let with = |what: [&'static str; 2]| {
        let args = ["cluster-process", "--rounds", rounds].into_iter().chain(what);
        args.chain(quick.then_some("--quick")).collect::<Vec<_>>()
    };
    let Some(mut lines) = job::lines(By::Mpi, 2, &with(["--trips", trips]))? else {
        let why = detect().err().map_or_else(String::new, |error| error.to_string());
        eprintln!("chanter-bench: no rows over MPI: {why}");
        return Ok(Vec::new());
    };
    lines.extend(job::lines(By::Mpi, 2, &with(["--chant", "--trips=0"]))?.unwrap_or_default());
    Ok(lines)
}

/// Messages as they go on a node, and MPI alone, by turns.
fn shipped(quick: bool) -> Result<Vec<Line>, Stop> {
    let (jobs, trips) = if quick { (2, "5000") } else { (7, "20000") };
    let mut lines = Vec::new();
    for _ in 0..jobs {
        let raw = ["cluster-process", "--raw", "--trips", trips, "--rounds", "2"];
        lines.extend(job::lines(By::Mpi, 2, &raw)?.unwrap_or_default());
        let talk = ["cluster-member", "talk", "segment", "--trips", trips, "--rounds", "2"];
        lines.extend(job::lines(By::Segment, 2, &talk)?.unwrap_or_default());
    }
    Ok(lines)
}

fn waiting(quick: bool) -> Result<Vec<Line>, Stop> {
    let trips = if quick { "100" } else { "500" };
    let args = ["cluster-member", "idle", "segment", "--trips", trips, "--rounds", "1"];
    Ok(job::lines(By::Segment, 4, &args)?.unwrap_or_default())
}

/// Figure 10 of Concert.
fn patterns(quick: bool) -> Result<Vec<Line>, Stop> {
    let rounds = if quick { "5" } else { "25" };
    let mut lines = Vec::new();
    for by in figure10::ALL {
        let args = ["cluster-member", "patterns", by.word(), "--trips", "0", "--rounds", rounds];
        lines.extend(job::lines(by, patterns::PROCESSES, &args)?.unwrap_or_default());
    }
    Ok(lines)
}

/// Figure 10 with slow receivers: push and pull in the same memory, in turns.
fn pressed(quick: bool) -> Result<Vec<Line>, Stop> {
    let (turns, rounds) = if quick { (1, "1") } else { (3, "3") };
    let mut lines = Vec::new();
    for _ in 0..turns {
        for processes in pressed::PROCESSES {
            for burst in pressed::BURSTS {
                for by in pressed::ALL {
                    let burst = burst.to_string();
                    let args =
                        ["cluster-member", "pressed", by.word(), "--trips", &burst, "--rounds", rounds];
                    lines.extend(job::lines(by, processes, &args)?.unwrap_or_default());
                }
            }
        }
    }
    Ok(lines)
}

/// The part that `chanter-bench figures` shows, too.
pub(crate) fn figures(quick: bool) -> Result<Vec<Finding>, Stop> {
    let rows = measure(quick)?;
    let sockets = measure_all(micro_cases(quick), if quick { 3 } else { 7 })?;
    Ok(findings::findings(&rows, &sockets))
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
            What::ShippedProcess => format!("on one node, MPI alone, {} B", row.size),
            What::ShippedThreadPolls => format!("on one node, threads that poll, {} B", row.size),
            What::Shipped => format!("on one node, default, {} B", row.size),
            What::ShippedThreadPollsBuffers => {
                format!("on one node, threads that poll, {} B in buffers", row.size)
            }
            What::ShippedBuffers => format!("on one node, default, {} B in buffers", row.size),
            What::ThreadPollsBuffers => format!("over MPI, thread polls, {} B in buffers", row.size),
            What::SchedulerPollsBuffers => format!("over MPI, scheduler polls, {} B in buffers", row.size),
            What::Idle => format!("a job of {} processes that wait, ns of a processor in a second", row.size),
            What::Wake => "a send to who sleeps, until it has it, p50".to_owned(),
            What::RawWake => "the same by a socket that an OS thread reads".to_owned(),
            What::Process if LARGE.contains(&row.size) => format!("MPI alone, {} KB", row.size / 1024),
            What::ThreadPolls if LARGE.contains(&row.size) => format!("thread polls, {} KB", row.size / 1024),
            What::SchedulerPolls if LARGE.contains(&row.size) => {
                format!("scheduler polls, {} KB", row.size / 1024)
            }
            _ => continue,
        };
        table.add_row([comfy_table::Cell::new(name), words(Some(row.ns)), words(Some(row.tests))]);
    }
    table.to_string()
}
