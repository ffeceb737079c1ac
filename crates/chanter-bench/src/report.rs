//! Records: a table for people, JSON lines for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::measure::{Measured, Medians};

/// The allocator that all systems of this run were measured with.
pub(crate) const ALLOCATOR: &str = if cfg!(feature = "mimalloc") { "mimalloc" } else { "system" };

/// One JSON line: the median of a case.
#[derive(Serialize)]
struct Record<'a> {
    bench: &'a str,
    variant: &'a str,
    system: &'a str,
    n: u64,
    vps: usize,
    ns_per_op: f64,
    bytes_per_thread: Option<f64>,
    /// Whether every sample was compared with the known result before it counted.
    checked: bool,
    name: String,
    rounds: usize,
    ns_least: f64,
    ns_most: f64,
    allocator: &'static str,
    #[serde(flatten)]
    detail: &'a BTreeMap<String, f64>,
}

/// One JSON line: a case that could not be measured here.
#[derive(Serialize)]
struct Skipped<'a> {
    bench: &'a str,
    variant: &'a str,
    system: &'a str,
    vps: usize,
    name: String,
    checked: bool,
    skipped: &'a str,
}

/// Writes one JSON line per case.
pub(crate) fn json_lines(out: &mut dyn Write, measured: &[Measured]) -> io::Result<()> {
    for Measured { case, outcome } in measured {
        match outcome {
            Ok(medians) => json_line(
                out,
                &Record {
                    bench: case.bench,
                    variant: case.variant,
                    system: case.system,
                    n: medians.n,
                    vps: case.vps,
                    ns_per_op: medians.ns_per_op,
                    bytes_per_thread: medians.bytes_per_thread,
                    checked: true,
                    name: case.name(),
                    rounds: medians.rounds,
                    ns_least: medians.ns_least,
                    ns_most: medians.ns_most,
                    allocator: ALLOCATOR,
                    detail: &medians.detail,
                },
            )?,
            Err(why) => json_line(
                out,
                &Skipped {
                    bench: case.bench,
                    variant: case.variant,
                    system: case.system,
                    vps: case.vps,
                    name: case.name(),
                    checked: false,
                    skipped: why,
                },
            )?,
        }
    }
    Ok(())
}

pub(crate) fn json_line(out: &mut dyn Write, record: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}

/// The table of all cases.
pub(crate) fn table(measured: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["bench", "system", "variant", "VPs", "ns/op", "least .. most", ""]);
    for Measured { case, outcome } in measured {
        let (ns, spread, notes) = match outcome {
            Ok(medians) => (
                number(medians.ns_per_op),
                format!("{} .. {}", number(medians.ns_least), number(medians.ns_most)),
                notes(medians),
            ),
            Err(why) => ("skipped".to_owned(), String::new(), why.clone()),
        };
        table.add_row([
            Cell::new(case.bench),
            Cell::new(case.system),
            Cell::new(case.variant),
            right(&case.vps.to_string()),
            right(&ns),
            right(&spread),
            Cell::new(notes),
        ]);
    }
    table.to_string()
}

pub(crate) fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn notes(medians: &Medians) -> String {
    let bytes = medians.bytes_per_thread.map(|bytes| format!("{} bytes/thread", number(bytes)));
    let detail = medians.detail.iter().map(|(name, value)| format!("{name} {}", number(*value)));
    bytes.into_iter().chain(detail).collect::<Vec<_>>().join(", ")
}

/// Three figures are enough for a measurement.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size > 0.0 => format!("{value:.2}"),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Failure, Sample};
    use crate::measure::measure;

    #[test]
    fn a_line_holds_the_fields_of_the_contract() {
        let fine = Case::new("blocked", "tokio", "mpsc(1)", |load| {
            let sample = Sample::new(load.n, Duration::from_nanos(30 * load.n));
            Ok(sample.with_bytes(512.0).with("create_ns", 20.0))
        })
        .load_of(100, 2);
        let absent =
            Case::new("blocked", "go", "unbuffered", |_| Err(Failure::Unavailable("no `go`".to_owned())));
        let measured = measure(vec![fine, absent], 3).unwrap_or_else(|f| panic!("{f}"));
        let mut out = Vec::new();
        json_lines(&mut out, &measured).unwrap();
        let lines: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["bench"], "blocked");
        assert_eq!(lines[0]["name"], "tokio-blocked");
        assert_eq!(lines[0]["ns_per_op"], 30.0);
        assert_eq!(lines[0]["bytes_per_thread"], 512.0);
        assert_eq!(lines[0]["create_ns"], 20.0);
        assert_eq!((&lines[0]["n"], &lines[0]["vps"]), (&100.into(), &2.into()));
        assert_eq!(lines[0]["checked"], true);
        assert_eq!(lines[1]["checked"], false);
        assert_eq!(lines[1]["skipped"], "no `go`");
    }
}
