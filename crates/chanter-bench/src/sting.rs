//! `chanter-bench sting`: threads and processors as values, after STING.
//!
//! A collector: each subject has its cases in `micro`, listed in [`cases`], and its floors in
//! `figures::sting`; the paper's programs are in `figure7`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::case::Case;
use super::micro::{delayed, fiber, fork};
use super::{
    Stop, figure7, figures, json_out, known, measure_all, report, show, strictly, table_of, yardstick,
};

/// Arguments of `chanter-bench sting`.
#[derive(Args)]
pub(crate) struct StingArgs {
    /// Rows (`fiber`, `delayed`,...) or programs of figure 7 (`primes`,...); all when none is named
    rows: Vec<String>,
    /// A tenth of the work, three rounds; the programs have the paper's sizes all the same
    #[arg(long)]
    quick: bool,
    /// Virtual processors; peers that know one OS thread only run beside 1, and figure 7 has columns for 1, 2, 4,
    /// ... up to this number, at least two
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    vps: u16,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw figure 7
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

fn cases(vps: usize) -> Vec<Case> {
    [fiber::cases(vps), delayed::cases(vps), fork::cases(vps)].into_iter().flatten().collect()
}

pub(super) fn run(args: &StingArgs) -> Result<(), Stop> {
    let vps = args.vps.into();
    let mut cases = cases(vps);
    let programs = figure7::names().map(str::to_owned);
    known(&args.rows, cases.iter().map(|case| case.bench.to_owned()).chain(programs), "row")?;
    let is_wanted = |name: &str| args.rows.is_empty() || args.rows.iter().any(|row| row == name);
    cases.retain(|case| is_wanted(case.bench));
    cases.extend(figure7::cases(vps, is_wanted)?);
    for case in &mut cases {
        case.n = if args.quick { case.n.div_ceil(10) } else { case.n };
    }
    let json = json_out(args.json.as_deref())?;
    let mut measured = measure_all(cases, if args.quick { 3 } else { 7 })?;
    yardstick::add_speed_ups(&mut measured);
    let mut findings = figures::findings_of(figures::sting(vps), &measured);
    findings.extend(figure7::findings(&measured));
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    figure7::draw(args.svg.as_deref(), &measured)?;
    let (rows, figure) = (report::table(&measured), figure7::table(&measured, vps));
    show(args.json.as_deref(), &format!("{rows}\n{figure}\n{}", table_of(&findings)))?;
    strictly(args.strict, &findings)
}
