//! `chanter-bench peers`: whole programs, by Chanter and by every peer in `programs/peers`, each run in a process of
//! its own.
//!
//! - `contract` has the programs, their sizes, and the answers, computed serially here.
//! - `system` finds the peers, sets them up, and runs them; Chanter is run in the same way.
//! - `row` compares: a row for each program and number of processors.

mod contract;
mod row;
mod system;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chanter_programs::peers::Chanter;
use clap::Args;
use serde::Serialize;

use super::case::{Case, Failure, Load, Sample, expect};
use super::figures::{Finding, plot};
use super::measure::Measured;
use super::{Stop, json_out, known, measure_all, report, show, table_of};
use contract::{PROGRAMS, Program};
use row::Row;
use system::{Missing, Setup, System};

/// Prefix of the benchmark names that are made of program names, since other benchmarks are called as the programs
/// are.
const PREFIX: &str = "peers/";

/// Arguments of `chanter-bench peers`.
#[derive(Args)]
pub(crate) struct PeersArgs {
    /// Programs (`sieve`, `fib-join`,...); all when none is named
    programs: Vec<String>,
    /// Small sizes, three rounds
    #[arg(long)]
    quick: bool,
    /// Processors: virtual ones, or a peer's worker threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u16).range(1..=2))]
    vps: Vec<u16>,
    /// Rounds, of which the median is reported
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Only these peers (`go`, `tokio`, ...); Chanter runs in any case
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// Install and build nothing: only peers that have been set up before
    #[arg(long)]
    no_setup: bool,
    /// The folder of the peers; by default `programs/peers`, here or above
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Also write JSON lines to this file; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw how Chanter compares with the best peer
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Arguments of Chanter's own process.
#[derive(Args)]
pub(crate) struct SampleArgs {
    program: String,
    size: u64,
    processors: usize,
}

/// The known answer of a program, or of a variant of one.
pub(super) fn answer(program: &str, size: u64) -> Option<u64> {
    let name = program.split('/').next();
    PROGRAMS.iter().find(|known| name == Some(known.name)).map(|known| (known.answer)(size))
}

/// Is Chanter, for one sample, as a peer's `run` is a peer.
pub(super) fn sample(args: &SampleArgs) -> Result<(), Stop> {
    let sample = chanter_peer_kit::sample::<Chanter>(&args.program, args.size, args.processors);
    let none = || Stop(64, format!("no `{}` on {} processors", args.program, args.processors));
    println!("{}", sample.ok_or_else(none)?);
    Ok(())
}

/// One JSON line: a system that took part, or why it did not.
#[derive(Serialize)]
struct Part<'a> {
    peer: &'a str,
    version: Option<&'a str>,
    missing: Option<&'a str>,
}

pub(super) fn run(args: &PeersArgs) -> Result<(), Stop> {
    known(&args.programs, PROGRAMS.iter().map(|program| program.name.to_owned()), "program")?;
    let folder = system::folder(args.peers.as_deref()).map_err(|why| Stop(2, why))?;
    known(&args.system, system::names(&folder).into_iter(), "peer")?;
    let json = json_out(args.json.as_deref())?;
    let is_wanted = |list: &[String], name: &str| list.is_empty() || list.iter().any(|wanted| wanted == name);
    let setup = if args.no_setup { Setup::Skip } else { Setup::Run };
    let (systems, missing) = systems(&folder, setup, |name| is_wanted(&args.system, name))?;
    for Missing { name, why } in &missing {
        eprintln!("chanter: {name} skipped: {why}");
    }
    let programs = PROGRAMS.iter().filter(|program| is_wanted(&args.programs, program.name));
    let vps: Vec<usize> = args.vps.iter().map(|&vps| vps.into()).collect();
    let cases = cases(systems, programs, &vps, args.quick);
    let measured = measure_all(cases, args.rounds.map_or(if args.quick { 3 } else { 5 }, usize::from))?;
    let rows = row::rows(&measured);
    if let Some(mut out) = json {
        for System { name, version, .. } in systems {
            report::json_line(&mut out, &Part { peer: name, version: Some(version), missing: None })?;
        }
        for Missing { name, why } in &missing {
            report::json_line(&mut out, &Part { peer: name, version: None, missing: Some(why) })?;
        }
        report::json_lines(&mut out, &measured)?;
        for row in &rows {
            report::json_line(&mut out, &row.record())?;
        }
        out.flush()?;
    }
    if let Some(path) = &args.svg {
        let findings = findings_of(&rows);
        plot::svg(path, "chanter-bench peers: Chanter's time, as a part of the floor", &findings)?;
    }
    let about = systems.iter().map(|System { name, version, .. }| format!("{name}: {version}"));
    let absent = missing.iter().map(|Missing { name, why }| format!("{name}: not here ({why})"));
    let about = about.chain(absent).collect::<Vec<_>>().join("\n");
    let mut tables = row::table(&rows);
    let floors = row::floors(&rows);
    if !floors.is_empty() {
        tables.push_str(&format!("\n\n{}", table_of(&floors)));
    }
    show(args.json.as_deref(), &format!("{tables}\n\n{about}"))
}

/// Chanter, and the peers wanted; and those that are missing. Systems live as long as the process, because cases name
/// them.
fn systems(
    folder: &Path,
    setup: Setup,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(&'static [System], Vec<Missing>), Stop> {
    let mut systems = vec![system::chanter().map_err(|why| Stop(1, why))?];
    let mut missing = Vec::new();
    for name in system::names(folder).into_iter().filter(|name| is_wanted(name)) {
        match system::peer(folder, &name, setup) {
            Ok(peer) => {
                peer.strangers().for_each(|program| {
                    eprintln!("chanter: {name} lists `{program}`, which is not in the contract");
                });
                systems.push(peer);
            }
            Err(why) => missing.push(why),
        }
    }
    Ok((systems.leak(), missing))
}

/// Each program, on each number of processors, by each system that has it. The cases of a row are a family.
fn cases<'a>(
    systems: &'static [System],
    programs: impl Iterator<Item = &'a Program>,
    vps: &[usize],
    quick: bool,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for program in programs {
        let bench: &'static str = format!("{PREFIX}{}", program.name).leak();
        let right: Arc<OnceLock<String>> = Arc::default();
        for &vps in vps {
            let family: &'static str = format!("{bench}, {vps} VP").leak();
            for (system, listed) in systems.iter().flat_map(|s| s.programs.iter().map(move |p| (s, p))) {
                let (name, variant) = system::parted(listed);
                if name == program.name {
                    let (right, answer) = (Arc::clone(&right), program.answer);
                    let body = move |load: Load| {
                        let said = system.run(listed, load)?;
                        let right = right.get_or_init(|| answer(load.n).to_string());
                        expect("the answer", &said.answer, right)?;
                        let broken = |error| Failure::Broken(format!("{} seconds: {error}", said.seconds));
                        let elapsed = Duration::try_from_secs_f64(said.seconds).map_err(broken)?;
                        Ok(Sample::new(1, elapsed).with("size", load.n as f64))
                    };
                    let case = Case::new(bench, &system.name, variant, body).in_family(family).cold();
                    cases.push(case.load_of(program.size(quick), vps));
                }
            }
        }
    }
    cases
}

/// For `bench figures`: every row, over the peers that are set up. A line names each system that is not.
pub(super) fn figure_cases(quick: bool) -> Result<Vec<Case>, Stop> {
    let folder = match system::folder(None) {
        Ok(folder) => folder,
        Err(why) => {
            eprintln!("chanter: no programs beside peers: {why}");
            return Ok(Vec::new());
        }
    };
    let (systems, missing) = systems(&folder, Setup::Skip, |_| true)?;
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|missing| &missing.name[..]).collect();
        eprintln!("chanter: peers that `bench peers` has not set up do not count: {}", names.join(", "));
    }
    if systems.len() < 2 {
        return Ok(Vec::new());
    }
    let rounds = |case: Case| case.at_most_rounds(3);
    Ok(cases(systems, PROGRAMS.iter(), &[1, 2], quick).into_iter().map(rounds).collect())
}

/// Findings about each row that has a peer.
pub(super) fn findings(measured: &[Measured]) -> Vec<Finding> {
    findings_of(&row::rows(measured))
}

fn findings_of(rows: &[Row<'_>]) -> Vec<Finding> {
    rows.iter().filter_map(Row::finding).chain(row::floors(rows)).collect()
}
