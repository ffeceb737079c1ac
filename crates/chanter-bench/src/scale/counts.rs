//! Cost of an operation on 1 to 16 virtual processors, counted rather than timed, so that cores do not matter.
//!
//! Callgrind counts instructions of this program. The library's own atomics count read-modify-writes, in a build of
//! `programs/examples/scale.rs` with `--cfg op_count`. For either, a run is compared with one of twice the size, so
//! that the cost of the start cancels out. Both tell *how many*: where a machine has fewer cores than virtual
//! processors, their drivers take turns.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use chanter_programs::scale::Row;
use comfy_table::{Table, presets};
use serde::Serialize;

use super::super::figures::{Bound, Finding};
use super::super::process::find;
use super::super::report::{json_line, number, right};
use super::{Stop, command};

/// The rows that are counted.
const COUNTED: [&str; 4] = ["pairs-64/hosts", "many", "choice-8", "timers"];
/// Largest cost of an operation, over its cost on one virtual processor.
const FLAT: f64 = 1.1;

/// Counts of one row on a number of virtual processors, for each operation.
#[derive(Serialize)]
struct Count {
    row: &'static str,
    vps: usize,
    instructions: Option<f64>,
    read_modify_writes: Option<f64>,
    shared_read_modify_writes: Option<f64>,
    fences: Option<f64>,
    /// Places in the source that wrote a word which another OS thread had written last, and how often in the run.
    words: BTreeMap<String, u64>,
}

/// Output of the program with `--cfg op_count`.
#[derive(Default)]
struct Tally {
    operations: f64,
    counts: [f64; 3],
    words: BTreeMap<String, u64>,
}

/// Counts; the table and the findings.
pub(super) fn run(
    rows: &[&'static Row],
    quick: bool,
    json: &mut Option<Box<dyn Write>>,
) -> Result<(String, Vec<Finding>), Stop> {
    let rows: Vec<_> = rows.iter().filter(|row| COUNTED.contains(&row.name)).collect();
    if rows.is_empty() {
        return Ok((String::new(), Vec::new()));
    }
    let valgrind = find("valgrind");
    let tallied = tallied();
    let vps: &[usize] = if quick { &[1, 4] } else { &[1, 2, 4, 8, 16] };
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for row in rows {
        let counts: Vec<Count> = vps
            .iter()
            .map(|&vps| count(row, vps, valgrind.as_deref(), tallied.as_deref().ok()))
            .collect::<Result<_, _>>()?;
        findings.extend(flatness(row.name, &counts));
        all.extend(counts);
    }
    if let Some(out) = json {
        all.iter().try_for_each(|count| json_line(out, count))?;
    }
    let mut text = table(&all);
    if valgrind.is_none() {
        text.push_str("\ninstructions: not counted, there is no valgrind");
    }
    if let Err(why) = tallied {
        text.push_str(&format!("\nread-modify-writes: not counted: {why}"));
    }
    Ok((text, findings))
}

fn count(
    row: &'static Row,
    vps: usize,
    valgrind: Option<&Path>,
    tallied: Option<&Path>,
) -> Result<Count, Stop> {
    let mut count = Count {
        row: row.name,
        vps,
        instructions: None,
        read_modify_writes: None,
        shared_read_modify_writes: None,
        fences: None,
        words: BTreeMap::new(),
    };
    if let Some(valgrind) = valgrind {
        let [few, many] = [1, 2].map(|times| instructions(valgrind, row, vps, times * row.few));
        count.instructions = Some((many? - few?).max(0.0) / row.few as f64);
    }
    if let Some(program) = tallied {
        let [few, many] = [1, 2].map(|times| tally(program, row, vps, times * row.few));
        let (few, many) = (few?, many?);
        let operations = many.operations - few.operations;
        let [all, shared, fences] =
            [0, 1, 2].map(|which| (many.counts[which] - few.counts[which]).max(0.0) / operations);
        (count.read_modify_writes, count.shared_read_modify_writes) = (Some(all), Some(shared));
        count.fences = Some(fences);
        count.words = many.words;
    }
    Ok(count)
}

/// All instructions of a run.
fn instructions(valgrind: &Path, row: &Row, vps: usize, n: u64) -> Result<f64, Stop> {
    let program = command(row, vps, n).map_err(|failure| Stop(1, failure.to_string()))?;
    let mut under = Command::new(valgrind);
    under.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"]);
    let output = under.arg(program.get_program()).args(program.get_args()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match collected {
        Some(collected) if output.status.success() => Ok(collected),
        _ => Err(Stop(1, format!("{} under callgrind: {}", row.name, said.trim()))),
    }
}

/// The program that counts, built from the sources that we were built from.
fn tallied() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = target.join("tally");
    let cargo = find("cargo").ok_or("there is no cargo")?;
    let mut build = Command::new(cargo);
    build.current_dir(&root).env("RUSTFLAGS", "--cfg op_count").env("CARGO_PROFILE_FIGURES_LTO", "off");
    build.args([
        "build",
        "--quiet",
        "--profile",
        "figures",
        "--package",
        "chanter-programs",
        "--example",
        "scale",
    ]);
    let output = build.arg("--target-dir").arg(&target).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(target.join("figures/examples/scale"))
}

fn tally(program: &Path, row: &Row, vps: usize, n: u64) -> Result<Tally, Stop> {
    let output = Command::new(program).args([row.name, &vps.to_string(), &n.to_string()]).output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Stop(1, format!("{}: {why}", row.name)));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    parse(&said).ok_or_else(|| Stop(1, format!("{}: unreadable counts: {said}", row.name)))
}

fn parse(said: &str) -> Option<Tally> {
    let mut tally = None;
    let mut words = BTreeMap::new();
    for line in said.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["operations", operations, _, all, _, shared, _, fences] => {
                let counts = [all.parse().ok()?, shared.parse().ok()?, fences.parse().ok()?];
                tally = Some(Tally { operations: operations.parse().ok()?, counts, words: BTreeMap::new() });
            }
            ["word", place, count] => drop(words.insert(place.to_owned(), count.parse().ok()?)),
            _ => {}
        }
    }
    Some(Tally { words, ..tally? })
}

/// The greatest cost of an operation on any number of virtual processors, divided by its cost on one.
fn flatness(row: &str, counts: &[Count]) -> Vec<Finding> {
    let over_one = |of: fn(&Count) -> Option<f64>| {
        let one = of(counts.first()?)?;
        let most = counts.iter().filter_map(of).fold(0.0, f64::max);
        (one > 0.0).then_some(most / one)
    };
    let largest = counts.iter().map(|count| count.vps).max().unwrap_or(1);
    let finding = |what: &str, value| {
        let figure = format!("{row}: {what} an operation, the most on 1 to {largest} VPs / 1 VP");
        Finding::new(figure, value, Bound::AtMost(FLAT))
    };
    vec![
        finding("instructions", over_one(|count| count.instructions)),
        finding("read-modify-writes", over_one(|count| count.read_modify_writes)),
    ]
}

fn table(counts: &[Count]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "row",
        "VPs",
        "instructions",
        "read-modify-writes",
        "of shared words",
        "fences",
        "words that are shared",
    ]);
    for count in counts {
        let cell = |value: Option<f64>| right(&value.map_or("-".to_owned(), number));
        let mut words: Vec<_> = count.words.iter().collect();
        words.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let words: Vec<_> = words.iter().take(6).map(|(place, count)| format!("{place} ({count})")).collect();
        table.add_row([
            count.row.into(),
            right(&count.vps.to_string()),
            cell(count.instructions),
            cell(count.read_modify_writes),
            cell(count.shared_read_modify_writes),
            cell(count.fences),
            words.join(", ").into(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_counting_program_prints_is_read() {
        let said = "0.1 s, 2 ns a trip\noperations 10 read-modify-writes 30 shared 20 fences 1\nword sched/mod.rs:7 3\n";
        let tally = parse(said).unwrap();
        assert_eq!((tally.operations, tally.counts), (10.0, [30.0, 20.0, 1.0]));
        assert_eq!(tally.words["sched/mod.rs:7"], 3);
        assert!(parse("0.1 s").is_none());
    }
}
