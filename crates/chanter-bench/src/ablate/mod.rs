//! `chanter-bench ablate`: what each mechanism of the core earns.
//!
//! The programs are built once as they are, and once with each mechanism off (`chanter/src/sync/switches.rs`). Then all
//! these binaries run in turns. A mechanism stays if programs of two families lose 5 % without it, or one row of the papers
//! loses 10 % (`docs/decisions/what-earns-its-place.md`).
//!
//! - `build` makes the binaries.
//! - `row` has the programs, and says what a mechanism has lost.

mod build;
mod row;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use super::case::{Case, Failure, Load, Outcome, expect, read_sample};
use super::process::{cores, output_within};
use super::{Stop, json_out, known, measure_all, report, show, versus};
use build::Binary;
use row::{ROWS, Row};

/// Arguments of `chanter-bench ablate`.
#[derive(Args)]
pub(crate) struct AblateArgs {
    /// Only these mechanisms (`spin`, ...); all when none is named
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds, of which the median is reported
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The source of the switches: the list of the mechanisms.
const SWITCHES: &str = include_str!("../../../chanter/src/sync/switches.rs");

/// The variant of a case in which nothing is off.
const WHOLE: &str = "whole";

/// No program takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The mechanisms that can be turned off, in the order of the source.
fn mechanisms() -> impl Iterator<Item = &'static str> {
    SWITCHES
        .lines()
        .filter(|line| line.contains("const "))
        .filter_map(|line| line.split_once("chanter_off = \"")?.1.split('"').next())
}

pub(super) fn run(args: &AblateArgs) -> Result<(), Stop> {
    known(&args.only, mechanisms().map(str::to_owned), "mechanism")?;
    let is_wanted = |name: &&str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let offs: Vec<&'static str> = mechanisms().filter(is_wanted).collect();
    let mut json = json_out(args.json.as_deref())?;
    let binaries = build::all(&offs)?;
    // On one core, two virtual processors only take turns.
    let rows: Vec<&'static Row> = ROWS.iter().filter(|row| row.vps <= cores()).collect();
    let cases = rows.iter().flat_map(|row| binaries.iter().map(move |binary| case(row, binary.clone())));
    let measured = measure_all(cases.collect(), args.rounds.into())?;
    let verdicts: Vec<_> = offs.iter().map(|off| row::verdict(off, &rows, &measured)).collect();
    if let Some(out) = &mut json {
        report::json_lines(out, &measured)?;
        verdicts.iter().try_for_each(|verdict| report::json_line(out, verdict))?;
        out.flush()?;
    }
    show(args.json.as_deref(), &row::table(&verdicts))
}

fn case(row: &'static Row, binary: Binary) -> Case {
    let variant = binary.off.unwrap_or(WHOLE);
    let body = move |load| sample(row, &binary, load);
    Case::new(row.name, "chanter", variant, body).in_family(row.title).cold().load_of(row.size, row.vps)
}

/// Runs the program once, in a process of its own.
fn sample(row: &Row, binary: &Binary, load: Load) -> Outcome {
    let mut command = Command::new(&binary.path);
    command.args([row.list, row.name, &load.vps.to_string(), &load.n.to_string()]);
    let output = output_within(&mut command, PATIENCE).map_err(|error| Failure::Broken(error.to_string()))?;
    let sample = read_sample(&output.ok_or_else(|| Failure::Broken(format!("it hangs: {command:?}")))?)?;
    if let Some(answer) = versus::answer(row.name, load.n).filter(|_| row.list == "peers") {
        expect("the answer", sample.detail.get("answer").copied(), Some(answer as f64))?;
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch that is not declared would never be off.
    #[test]
    fn each_switch_is_declared_for_the_compiler() {
        let manifest = include_str!("../../../../Cargo.toml");
        let lists = manifest.split("cfg(chanter_off, values(").skip(1);
        let names = lists.flat_map(|list| list.split(')').next().expect("it is closed").split(','));
        let declared: Vec<_> = names.map(|value| value.trim().trim_matches('"')).collect();
        assert_eq!(declared, mechanisms().collect::<Vec<_>>());
        assert!(declared.len() > 10);
    }
}
