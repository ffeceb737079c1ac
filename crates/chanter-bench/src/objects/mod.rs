//! `chanter-bench objects`: the evaluation of Concert (section 5), by Chanter's objects, beside the paper's figures.
//!
//! `schemas` is tables 3 and 4; `kernel` the microkernel, in several processes; `programs` radiosity and molecular
//! dynamics, `jobs` these in two processes, beside `plain` MPI; `page` the report.

#[cfg(unix)]
mod jobs;
#[cfg(unix)]
mod kernel;
mod page;
#[cfg(unix)]
mod plain;
mod programs;
mod published;
mod schemas;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
#[cfg(unix)]
pub(crate) use jobs::{JobProcessArgs, run_process as run_job_process};
#[cfg(unix)]
pub(crate) use kernel::{ProcessArgs, run_process};

use chanter_programs::microkernel::Row;

use crate::figures::Finding;
use crate::measure::Measured;
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
    /// All cells of the microkernel's table 6, also those of no figure
    #[arg(long)]
    whole: bool,
    /// Only these parts; all when none is named
    #[arg(long, value_enum)]
    part: Vec<Part>,
}

/// A part of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Tables 3 and 4
    Schemas,
    /// Figures 11 to 13
    Microkernel,
    /// Radiosity and molecular dynamics
    Programs,
    /// Both in two processes
    Jobs,
}

impl ObjectsArgs {
    fn has(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// The measurements.
#[derive(Default)]
struct Found {
    quick: bool,
    schemas: Vec<Measured>,
    programs: Vec<Measured>,
    kernel: Vec<Row>,
    #[cfg(unix)]
    jobs: Vec<jobs::JobRow>,
    findings: Vec<Finding>,
}

fn found(args: &ObjectsArgs) -> Result<Found, Stop> {
    let mut found = Found { quick: args.quick, ..Found::default() };
    if args.has(Part::Schemas) {
        found.schemas = measure_all(schemas::cases(args.quick), if args.quick { 3 } else { 15 })?;
        found.findings.extend(schemas::findings(&found.schemas));
    }
    if args.has(Part::Programs) {
        found.programs = measure_all(programs::cases(args.quick), if args.quick { 1 } else { 5 })?;
        found.findings.extend(programs::findings(&found.programs));
        if !args.quick {
            found.findings.extend(programs::accuracy());
        }
    }
    #[cfg(unix)]
    if args.has(Part::Microkernel) {
        found.kernel = kernel::rows(args)?;
        found.findings.extend(kernel::findings(&found.kernel));
    }
    #[cfg(unix)]
    if args.has(Part::Jobs) {
        found.jobs = jobs::rows(args)?;
        found.findings.extend(jobs::findings(&found.jobs));
    }
    Ok(found)
}

impl Found {
    /// With titles.
    fn tables(&self) -> Vec<(&'static str, String)> {
        let mut tables = Vec::new();
        if !self.schemas.is_empty() {
            tables.push(("Calls and fallbacks (tables 3 and 4)", schemas::tables(&self.schemas)));
        }
        #[cfg(unix)]
        if !self.kernel.is_empty() {
            tables.push(("The microkernel (figures 11 to 13, table 6)", kernel::tables(&self.kernel)));
        }
        if !self.programs.is_empty() {
            tables.push((
                "Radiosity and molecular dynamics in one process (section 5.2)",
                programs::table(&self.programs),
            ));
        }
        #[cfg(unix)]
        if !self.jobs.is_empty() {
            tables.push((
                "Radiosity and molecular dynamics in several processes (section 5.2)",
                jobs::table(&self.jobs),
            ));
        }
        tables
    }
}

pub(super) fn run(args: &ObjectsArgs) -> Result<(), Stop> {
    let json = json_out(args.json.as_deref())?;
    let found = found(args)?;
    if let Some(mut out) = json {
        report::json_lines(&mut out, &found.schemas)?;
        report::json_lines(&mut out, &found.programs)?;
        for row in &found.kernel {
            report::json_line(&mut out, row)?;
        }
        #[cfg(unix)]
        for row in &found.jobs {
            report::json_line(&mut out, row)?;
        }
        for finding in &found.findings {
            report::json_line(&mut out, finding)?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.html {
        let page = page::html(&found)?;
        std::fs::write(path, page).map_err(|error| Stop(2, format!("{}: {error}", path.display())))?;
    }
    let mut tables: Vec<String> = found.tables().into_iter().map(|(_, table)| table).collect();
    tables.push(report::table(&found.schemas));
    tables.push(table_of(&found.findings));
    show(args.json.as_deref(), &tables.join("\n\n"))?;
    strictly(args.strict, &found.findings)
}
