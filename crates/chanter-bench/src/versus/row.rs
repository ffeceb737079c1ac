//! Rows: a program on a number of processors, by all systems that have it.

use comfy_table::{Cell, Table, presets};
use serde::Serialize;

use super::PREFIX;
use super::contract::{PROGRAMS, reason};
use super::system::OURS;
use crate::figures::{Bound, Finding};
use crate::measure::{Measured, Medians};
use crate::report::{number, right};

/// Floor of Chanter's time divided by that of the best peer.
const FLOOR: f64 = 1.1;

/// A run, in ns, of which it means something how much faster two processors are.
const SHORTEST: f64 = 5e6;

/// The best variant of a system.
struct Entry<'a> {
    system: &'a str,
    variant: &'a str,
    ns: f64,
}

impl Entry<'_> {
    fn name(&self) -> String {
        if self.variant.is_empty() {
            self.system.to_owned()
        } else {
            format!("{}/{}", self.system, self.variant)
        }
    }
}

/// A program on a number of processors, and the systems that have run it.
pub(super) struct Row<'a> {
    program: &'a str,
    vps: usize,
    /// One of each system that has a time.
    entries: Vec<Entry<'a>>,
}

/// One JSON line: how a row ended.
#[derive(Serialize)]
pub(super) struct Record<'a> {
    program: &'a str,
    vps: usize,
    first: Option<String>,
    /// Chanter's time divided by that of the best peer.
    ratio: Option<f64>,
    best_peer: Option<String>,
    reason: Option<&'static str>,
}

/// The rows that were measured, in the order of the contract.
pub(super) fn rows(measured: &[Measured]) -> Vec<Row<'_>> {
    let programs = PROGRAMS.iter().flat_map(|program| [1, 2].map(|vps| (program.name, vps)));
    programs
        .filter_map(|(program, vps)| {
            let here = |m: &&Measured| {
                m.case.vps == vps && m.case.bench.strip_prefix(PREFIX).is_some_and(|name| name == program)
            };
            let mut entries: Vec<Entry<'_>> = Vec::new();
            for Measured { case, outcome } in measured.iter().filter(here) {
                let Ok(Medians { ns_per_op, .. }) = outcome else { continue };
                let entry = Entry { system: case.system, variant: case.variant, ns: *ns_per_op };
                match entries.iter_mut().find(|known| known.system == case.system) {
                    Some(known) if known.ns > entry.ns => *known = entry,
                    Some(_) => {}
                    None => entries.push(entry),
                }
            }
            (!entries.is_empty()).then_some(Row { program, vps, entries })
        })
        .collect()
}

impl Row<'_> {
    fn of(&self, system: &str) -> Option<&Entry<'_>> {
        self.entries.iter().find(|entry| entry.system == system)
    }

    fn best(&self, among: impl Fn(&Entry<'_>) -> bool) -> Option<&Entry<'_>> {
        self.entries.iter().filter(|entry| among(entry)).min_by(|a, b| a.ns.total_cmp(&b.ns))
    }

    fn best_peer(&self) -> Option<&Entry<'_>> {
        self.best(|entry| entry.system != OURS)
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.of(OURS)?.ns / self.best_peer()?.ns)
    }

    fn reason(&self) -> Option<&'static str> {
        reason(self.program, self.vps).filter(|_| self.ratio().is_some_and(|ratio| ratio > 1.0))
    }

    /// For the records.
    pub(super) fn record(&self) -> Record<'_> {
        Record {
            program: self.program,
            vps: self.vps,
            first: self.best(|_| true).map(Entry::name),
            ratio: self.ratio(),
            best_peer: self.best_peer().map(Entry::name),
            reason: self.reason(),
        }
    }

    /// Its figure, if there are two to compare.
    pub(super) fn finding(&self) -> Option<Finding> {
        let name = format!("{}: chanter / best peer, {} VP", self.program, self.vps);
        Some(Finding::new(name, Some(self.ratio()?), Bound::AtMost(FLOOR)))
    }
}

/// Findings about single peers, and about two processors beside one.
pub(super) fn floors(rows: &[Row<'_>]) -> Vec<Finding> {
    let time = |program: &str, vps, system: &str| {
        let row = rows.iter().find(|row| row.program == program && row.vps == vps)?;
        row.of(system).map(|entry| entry.ns)
    };
    let beside = |program: &str, vps, system: &str, most| {
        let value =
            time(program, vps, OURS).zip(time(program, vps, system)).map(|(ours, theirs)| ours / theirs);
        Finding::new(format!("{program} / {system}, {vps} VP"), value, Bound::AtMost(most))
    };
    let speed_up = |program: &str, least| {
        // Shorter runs end before they have been shared.
        let one = time(program, 1, OURS).filter(|ns| *ns >= SHORTEST);
        let value = one.zip(time(program, 2, OURS)).map(|(one, two)| one / two);
        Finding::new(format!("{program}: speed-up of 2 VP over 1 VP"), value, Bound::AtLeast(least))
    };
    let floors = vec![
        beside("sieve", 1, "cml", 0.5),
        beside("sieve", 1, "go", 0.25),
        beside("sieve", 2, "tokio", 0.6),
        beside("fib-channel", 1, "tokio", 0.2),
        beside("fib-channel", 2, "tokio", 0.2),
        beside("fib-join", 1, "rayon", 1.0),
        beside("fib-join", 2, "rayon", 1.0),
        speed_up("fib-join", 1.8),
        speed_up("tak-join", 1.8),
        speed_up("mergesort", 1.8),
        speed_up("sieve", 1.6),
    ];
    floors.into_iter().filter(|floor| floor.value.is_some()).collect()
}

/// The table of all rows, in milliseconds, and why some are lost.
pub(super) fn table(rows: &[Row<'_>]) -> String {
    let mut systems: Vec<&str> = Vec::new();
    for entry in rows.iter().flat_map(|row| &row.entries) {
        if !systems.contains(&entry.system) {
            systems.push(entry.system);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let head = ["program", "P"].into_iter().chain(systems.iter().copied());
    table.set_header(head.chain(["first", "chanter / best peer", ""]));
    for row in rows {
        let mut cells = vec![Cell::new(row.program), right(&row.vps.to_string())];
        cells.extend(systems.iter().map(|system| match row.of(system) {
            None => right(""),
            Some(entry) => right(format!("{} {}", entry.variant, number(entry.ns / 1e6)).trim_start()),
        }));
        let ratio = row.ratio();
        cells.push(Cell::new(row.best(|_| true).map(Entry::name).unwrap_or_default()));
        cells.push(right(&ratio.map(number).unwrap_or_default()));
        cells.push(Cell::new(match ratio {
            Some(ratio) if ratio > 1.0 => format!("trails by {} %", number((ratio - 1.0) * 100.0)),
            Some(ratio) => format!("leads {} times", number(1.0 / ratio)),
            None => String::new(),
        }));
        table.add_row(cells);
    }
    let reasons = rows.iter().filter_map(|row| {
        let reason = row.reason()?;
        Some(format!("\n{}, {} VP: {reason}.", row.program, row.vps))
    });
    let reasons: String = reasons.collect();
    format!("Milliseconds, medians of interleaved rounds; of several variants the best.\n\n{table}{reasons}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::measure::measure;

    fn case(system: &'static str, variant: &'static str, vps: usize, ms: u64) -> Case {
        let body = move |_| Ok(Sample::new(1, Duration::from_millis(ms)));
        Case::new("peers/sieve", system, variant, body).load_of(400, vps)
    }

    #[test]
    fn the_best_variant_counts_and_lost_rows_are_printed() {
        let cases = vec![
            case("chanter", "", 1, 20),
            case("tokio", "tokio", 1, 90),
            case("tokio", "kanal", 1, 40),
            case("chanter", "", 2, 30),
            case("go", "", 2, 10),
        ];
        let measured = measure(cases, 1).unwrap_or_else(|failure| panic!("{failure}"));
        let rows = rows(&measured);
        assert_eq!(rows.iter().map(Row::ratio).collect::<Vec<_>>(), [Some(0.5), Some(3.0)]);
        assert_eq!(rows[0].record().best_peer.as_deref(), Some("tokio/kanal"));
        let holds = rows.iter().map(|row| row.finding().and_then(|finding| finding.holds));
        assert_eq!(holds.collect::<Vec<_>>(), [Some(true), Some(false)]);
        let floors: Vec<_> = floors(&rows).into_iter().map(|floor| (floor.figure, floor.holds)).collect();
        let speed_up = "sieve: speed-up of 2 VP over 1 VP".to_owned();
        assert_eq!(floors, [(speed_up, Some(false))], "there is no other pair");
        let table = table(&rows);
        let line =
            |vps: &str| table.lines().find(|line| line.contains(&format!("| {vps} |"))).expect("a row");
        for text in ["kanal 40.0", "chanter ", "leads 2.00 times"] {
            assert!(line("1").contains(text), "{table}");
        }
        for text in ["10.0", "go", "3.00", "trails by 200 %"] {
            assert!(line("2").contains(text), "{table}");
        }
    }
}
