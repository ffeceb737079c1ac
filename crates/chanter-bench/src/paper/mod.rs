//! `chanter-bench paper`: the papers' programs and micro-studies, as the papers ran them.
//!
//! - `cases` makes cases of the programs and studies of `chanter-programs`, which check their own results.
//! - `server` makes cases of Swerve, in this process, for its row of table 2.
//! - `published` holds the papers' figures, typed in.
//! - `tables` prints the results beside the published figures; `plots` draws them; `page` puts all of it on one HTML
//!   page.

mod cases;
mod page;
mod plots;
mod published;
mod server;
mod tables;

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;

use chanter_programs::kit::Size;
use clap::Args;

use super::case::Case;
use super::measure::Measured;
use super::{Stop, figures, json_out, known, measure_all, report, show, strictly, table_of, yardstick};
use tables::Sheet;

pub(super) use cases::{PARASITES, STATE, figure_cases};

/// Arguments of `chanter-bench paper`.
#[derive(Args)]
pub(crate) struct PaperArgs {
    /// Programs (`mandelbrot`,...) and studies (`table-1`, `figure-9`,...); all when none is named
    programs: Vec<String>,
    /// Small inputs, three rounds
    #[arg(long)]
    quick: bool,
    /// Most virtual processors: each program runs on 1 up to this number; by default one for each processor
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    vps: Option<u16>,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// File of the report, with its plots
    #[arg(long, value_name = "FILE", default_value = "chanter-paper.html")]
    html: PathBuf,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
}

/// Parts of a report.
struct Found {
    measured: Vec<Measured>,
    findings: Vec<figures::Finding>,
    sheets: Vec<Sheet>,
    vps: usize,
    quick: bool,
}

pub(super) fn run(args: &PaperArgs) -> Result<(), Stop> {
    let vps = args.vps.map_or_else(available, usize::from);
    let size = if args.quick { Size::Quick } else { Size::Paper };
    let mut all: Vec<Case> =
        cases::studies(vps).into_iter().chain(cases::programs(size, vps)).chain(server::cases()).collect();
    known(&args.programs, all.iter().map(|case| case.bench.to_owned()), "program or study")?;
    all.retain(|case| args.programs.is_empty() || args.programs.iter().any(|name| name == case.bench));
    if args.quick {
        all.iter_mut().for_each(|case| case.n = case.n.div_ceil(20));
    }
    let json = json_out(args.json.as_deref())?;
    let unwritable = |error: std::io::Error| Stop(2, format!("{}: {error}", args.html.display()));
    let mut page = std::fs::File::create(&args.html).map_err(unwritable)?;
    // Without optimisation the times mean nothing.
    let quick = if cfg!(debug_assertions) { 1 } else { 3 };
    let mut measured = measure_all(all, if args.quick { quick } else { 5 })?;
    yardstick::add_speed_ups(&mut measured);
    cases::count_hosts(&mut measured, size).map_err(|failure| Stop(1, failure.to_string()))?;
    let mut findings = figures::findings_of(figures::paper(vps), &measured);
    findings.retain(|finding| finding.value.is_some());
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    let sheets = tables::sheets(&measured, vps);
    let found = Found { measured, findings, sheets, vps, quick: args.quick };
    page.write_all(page::html(&found)?.as_bytes()).map_err(unwritable)?;
    let mut text = found.sheets.iter().map(Sheet::text).collect::<Vec<_>>().join("\n\n");
    if !found.findings.is_empty() {
        text += &format!("\n\n{}", table_of(&found.findings));
    }
    show(args.json.as_deref(), &text)?;
    eprintln!("chanter: the report is in {}", args.html.display());
    strictly(args.strict, &found.findings)
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(64)
}
