//! `chanter-bench objects`: the evaluation of Concert (section 5), by Chanter's objects, beside the paper's figures.
//!
//! `schemas` is tables 3 and 4; `page` the report; `actor` a peer.

mod actor;
mod page;
mod published;
mod schemas;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::{Stop, json_out, measure_all, report, show, strictly, table_of};

/// Arguments of `chanter-bench objects`.
#[derive(Args)]
pub(crate) struct ObjectsArgs {
    /// Small inputs, few rounds: seconds rather than minutes
    #[arg(long)]
    quick: bool,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a page with the tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with code 1 when a figure does not hold
    #[arg(long)]
    strict: bool,
    /// Only these parts; all when none is named
    #[arg(long, value_enum)]
    part: Vec<Part>,
}

/// A part of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Tables 3 and 4
    Schemas,
}

impl ObjectsArgs {
    fn has(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

pub(super) fn run(args: &ObjectsArgs) -> Result<(), Stop> {
    let json = json_out(args.json.as_deref())?;
    let rounds = if args.quick { 3 } else { 15 };
    let mut measured = Vec::new();
    if args.has(Part::Schemas) {
        measured.extend(measure_all(schemas::cases(args.quick), rounds)?);
    }
    let findings = schemas::findings(&measured);
    if let Some(mut out) = json {
        report::json_lines(&mut out, &measured)?;
        for finding in &findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.html {
        let page = page::html(&measured, &findings, args.quick)?;
        std::fs::write(path, page).map_err(|error| Stop(2, format!("{}: {error}", path.display())))?;
    }
    let tables = [schemas::tables(&measured), report::table(&measured), table_of(&findings)];
    show(args.json.as_deref(), &tables.join("\n\n"))?;
    strictly(args.strict, &findings)
}
