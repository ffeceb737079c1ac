//! `chanter bench sting`: threads and processors as values, after STING.
//!
//! A collector: each subject has its cases in `micro`, listed in [`cases`], and its floors in
//! `figures::sting`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::case::Case;
use super::micro::fiber;
use super::{Stop, figures, json_out, known, measure_all, report, show, strictly, table_of};

/// Arguments of `chanter bench sting`.
#[derive(Args)]
pub(crate) struct StingArgs {
    /// Which rows (`fiber`, `fiber-switch`, ...); all when none is named
    rows: Vec<String>,
    /// A tenth of the work, three rounds
    #[arg(long)]
    quick: bool,
    /// Virtual processors; peers that know one OS thread only run beside 1
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    vps: u16,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

fn cases(vps: usize) -> Vec<Case> {
    [fiber::cases(vps)].into_iter().flatten().collect()
}

pub(super) fn run(args: &StingArgs) -> Result<(), Stop> {
    let mut cases = cases(args.vps.into());
    known(&args.rows, cases.iter().map(|case| case.bench.to_owned()), "row")?;
    cases.retain(|case| args.rows.is_empty() || args.rows.iter().any(|row| row == case.bench));
    for case in &mut cases {
        case.n = if args.quick { case.n / 10 } else { case.n };
    }
    let json = json_out(args.json.as_deref())?;
    let measured = measure_all(cases, if args.quick { 3 } else { 7 })?;
    let findings = figures::findings_of(figures::sting(args.vps.into()), &measured);
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    show(args.json.as_deref(), &format!("{}\n{}", report::table(&measured), table_of(&findings)))?;
    strictly(args.strict, &findings)
}
