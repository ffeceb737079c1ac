//! `chanter-bench policies`: what it costs to write a policy, and what it does to the threads.
//!
//! - `custom_fifo` runs the same threads under the library's `Fifo` and under one that is written as a user
//!   would write it.
//! - `endless` is what requests wait for beside computations that never yield: hand-over, and Tokio.
//! - `requests` runs the study of `programs/policies`: short requests beside long computations, under five
//!   policies; `plot` draws how long the requests took.

mod custom_fifo;
mod endless;
mod plot;
mod requests;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{Cell, Table, presets};

use super::case::Case;
use super::figures::{self, Bound, Finding};
use super::measure::Measured;
use super::report::{number, right};
use super::{Stop, json_out, known, measure_all, report, show, table_of};

pub(super) use custom_fifo::cases as custom_fifo;
pub(super) use endless::{BENCH as ENDLESS, cases as endless};

/// Arguments of `chanter-bench policies`.
#[derive(Args)]
pub(crate) struct PoliciesArgs {
    /// Benchmarks: `yield`, `endless`, `requests`; all when none is named
    names: Vec<String>,
    /// A tenth of the work, three rounds
    #[arg(long)]
    quick: bool,
    /// Virtual processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    vps: u16,
    /// Operations of each round; each benchmark has its own default
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..))]
    n: Option<u64>,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw how long the requests took
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: &PoliciesArgs) -> Result<(), Stop> {
    let vps = args.vps.into();
    let mut cases: Vec<Case> =
        custom_fifo::cases(vps).into_iter().chain(endless::cases(vps)).chain(requests::cases(vps)).collect();
    known(&args.names, cases.iter().map(|case| case.bench.to_owned()), "benchmark")?;
    cases.retain(|case| args.names.is_empty() || args.names.iter().any(|name| name == case.bench));
    for case in &mut cases {
        case.n = args.n.unwrap_or(if args.quick { case.n / 10 } else { case.n });
    }
    let json = json_out(args.json.as_deref())?;
    let measured = measure_all(cases, if args.quick { 3 } else { 7 })?;
    let findings: Vec<_> = custom_fifo::ratio(&measured)
        .map(|value| Finding::new("custom fifo / fifo".to_owned(), Some(value), Bound::AtMost(1.05)))
        .into_iter()
        .chain(figures::findings_of(vec![figures::endless(vps)], &measured))
        .collect();
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
    let mut tables = report::table(&measured);
    if measured.iter().any(|m| m.case.bench == requests::BENCH) {
        tables += &format!("\n{}", latencies(&measured));
    }
    if measured.iter().any(|m| m.case.bench == endless::BENCH) {
        tables += &format!("\n{}", hand_offs(&measured));
    }
    if !findings.is_empty() {
        tables += &format!("\n{}", table_of(&findings));
    }
    show(args.json.as_deref(), &tables)?;
    super::strictly(args.strict, &findings)
}

/// Times of requests beside computations that never yield, and the number of hand-offs.
fn hand_offs(measured: &[Measured]) -> String {
    const DETAILS: [(&str, &str); 6] = [
        ("p50, us", "p50_us"),
        ("p99, us", "p99_us"),
        ("max, us", "max_us"),
        ("first, quanta", "first_quanta"),
        ("hand-overs", "hand_offs"),
        ("handed over, ms", "handed_over_ms"),
    ];
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["beside endless computations"].into_iter().chain(DETAILS.map(|(title, _)| title)));
    for m in measured.iter().filter(|m| m.case.bench == endless::BENCH) {
        let Ok(medians) = &m.outcome else { continue };
        let detail = |name: &str| right(&medians.detail.get(name).copied().map_or("-".to_owned(), number));
        table.add_row([Cell::new(m.case.system)].into_iter().chain(DETAILS.map(|(_, name)| detail(name))));
    }
    table.to_string()
}

/// Times of the requests, in microseconds, and the progress of the computations.
fn latencies(measured: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let percents = requests::PERCENTILES.map(|(name, _)| format!("{}, us", name.trim_end_matches("_us")));
    table.set_header(["policy".to_owned()].into_iter().chain(percents).chain(["slices / s".to_owned()]));
    for m in measured.iter().filter(|m| m.case.bench == requests::BENCH) {
        let Ok(medians) = &m.outcome else { continue };
        let detail = |name: &str| right(&medians.detail.get(name).copied().map_or("-".to_owned(), number));
        let row = requests::PERCENTILES.map(|(name, _)| detail(name));
        table.add_row([Cell::new(m.case.variant)].into_iter().chain(row).chain([detail(requests::SLICES)]));
    }
    table.to_string()
}
