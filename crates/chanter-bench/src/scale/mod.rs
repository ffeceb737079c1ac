//! `chanter-bench scale`: what more virtual processors bring, and what they cost.
//!
//! Each row of `programs/scale` is timed on one virtual processor and on two, from a cold start, in a process of its own, in
//! turns. Then a few rows are *counted* on up to sixteen virtual processors, on any number of cores (`counts`).
//! Counted are instructions, and read-modify-writes of words that several OS threads write, for each operation.

mod counts;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use chanter_programs::scale::{ROWS, Row, find};
use clap::Args;
use serde::Serialize;

use super::case::{Case, Failure, Load, Outcome, Sample, read_sample};
use super::figures::{Bound, Finding, plot};
use super::measure::Measured;
use super::process::cores;
use super::{Stop, json_out, known, measure_all, report, show, table_of};

/// Aims for the time on one virtual processor over that on two, by the beginnings of rows' names.
const FLOORS: [(&str, f64); 13] = [
    ("pairs-1/", 1.0),
    ("pairs-8/", 1.8),
    ("pairs-64/", 1.9),
    ("wait", 0.95),
    ("many", 1.5),
    ("choice-8", 1.8),
    ("sieve-2000/", 1.6),
    ("par-fib/", 1.8),
    ("par-tak/joined", 1.7),
    ("par-tak/", 1.8),
    ("mergesort", 1.9),
    ("fork-fib-27", 1.7),
    ("fork-tak-18", 1.7),
];

/// Arguments of `chanter-bench scale`.
#[derive(Args)]
pub(crate) struct ScaleArgs {
    /// Rows (`pairs-8/hosts`, `many`,...); all when none is named
    rows: Vec<String>,
    /// Little work, three rounds, counts on 1 and 4 virtual processors
    #[arg(long)]
    quick: bool,
    /// Rounds, of which the median is reported
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Time only
    #[arg(long)]
    no_counts: bool,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw the ratios beside their floors
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Arguments of the process that is timed.
#[derive(Args)]
pub(crate) struct ScaleSampleArgs {
    row: String,
    vps: usize,
    n: u64,
}

/// Is one sample.
pub(super) fn sample(args: &ScaleSampleArgs) -> Result<(), Stop> {
    let row = find(&args.row).ok_or_else(|| Stop(2, format!("unknown row `{}`", args.row)))?;
    let timed = row.run(args.vps, args.n).map_err(|wrong| Stop(1, format!("{}: {wrong}", row.name)))?;
    report::json_line(&mut std::io::stdout(), &Sample::new(timed.operations, timed.elapsed))?;
    Ok(())
}

fn command(row: &Row, vps: usize, n: u64) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::Broken(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["scale-sample", row.name, &vps.to_string(), &n.to_string()]);
    Ok(command)
}

fn in_a_process(row: &Row, load: Load) -> Outcome {
    let output = command(row, load.vps, load.n)?.output();
    read_sample(&output.map_err(|error| Failure::Broken(error.to_string()))?)
}

/// A row and a ratio, as a JSON line.
#[derive(Serialize)]
struct Record<'a> {
    row: &'a str,
    operation: &'a str,
    ns_per_operation: [f64; 2],
    ratio: f64,
    cores: usize,
    checked: bool,
}

pub(super) fn run(args: &ScaleArgs) -> Result<(), Stop> {
    known(&args.rows, ROWS.iter().map(|row| row.name.to_owned()), "row")?;
    let mut json = json_out(args.json.as_deref())?;
    let is_wanted = |row: &&Row| args.rows.is_empty() || args.rows.iter().any(|name| name == row.name);
    let rows: Vec<&'static Row> = ROWS.iter().filter(is_wanted).collect();
    let rounds = args.rounds.map_or(if args.quick { 3 } else { 9 }, usize::from);
    let measured = measure_all(rows.iter().flat_map(|row| cases(row, args.quick)).collect(), rounds)?;
    let mut findings = Vec::new();
    for row in &rows {
        let Some(record) = record(row, &measured) else { continue };
        if let Some(out) = &mut json {
            report::json_line(out, &record)?;
        }
        let floor = FLOORS.iter().find(|(name, _)| row.name.starts_with(name));
        if let Some((_, floor)) = floor.filter(|_| cores() > 1) {
            let figure = format!("{}: 1 VP / 2 VPs", row.name);
            findings.push(Finding::new(figure, Some(record.ratio), Bound::AtLeast(*floor)));
        }
    }
    let mut tables = format!("{}\n\n{}", report::table(&measured), table_of(&findings));
    if !args.no_counts {
        let (counted, more) = counts::run(&rows, args.quick, &mut json)?;
        tables.push_str(&format!("\n\n{counted}"));
        findings.extend(more);
    }
    if let Some(out) = &mut json {
        for finding in &findings {
            report::json_line(out, finding)?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.svg {
        plot::svg(path, "chanter-bench scale: one virtual processor over two", &findings)?;
    }
    show(args.json.as_deref(), &tables)
}

fn cases(row: &'static Row, quick: bool) -> impl Iterator<Item = Case> {
    let n = if quick { row.few } else { row.size };
    [1, 2].into_iter().map(move |vps| {
        let case = Case::new(row.name, "chanter", row.operation, move |load| in_a_process(row, load));
        case.in_family(row.name).cold().load_of(n, vps)
    })
}

fn record<'a>(row: &'a Row, measured: &[Measured]) -> Option<Record<'a>> {
    let of = |vps| {
        let one = measured.iter().find(|one| one.case.bench == row.name && one.case.vps == vps)?;
        one.outcome.as_ref().ok().map(|medians| medians.ns_per_op)
    };
    let (one, two) = (of(1)?, of(2)?);
    Some(Record {
        row: row.name,
        operation: row.operation,
        ns_per_operation: [one, two],
        ratio: one / two,
        cores: cores(),
        checked: true,
    })
}
