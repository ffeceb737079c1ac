//! The programs, and what they lose without a mechanism.

use comfy_table::{Cell, Table, presets};
use serde::Serialize;

use super::WHOLE;
use crate::measure::{Measured, Medians};
use crate::report::{number, right};

/// A program of a size that takes some tenths of a second.
pub(super) struct Row {
    family: &'static str,
    /// The list of `programs/ablate` that has it.
    pub(super) list: &'static str,
    pub(super) name: &'static str,
    /// Its name, with the number of its virtual processors.
    pub(super) title: &'static str,
    pub(super) size: u64,
    pub(super) vps: usize,
}

macro_rules! rows {
    ($($family:literal $list:literal $name:literal $size:literal $vps:literal)*) => {
        &[$(Row {
            family: $family,
            list: $list,
            name: $name,
            title: concat!($name, ", ", $vps, " VP"),
            size: $size,
            vps: $vps,
        }),*]
    };
}

pub(super) const ROWS: &[Row] = rows! {
    "spawn" "peers" "spawn/hosts" 2_000_000 1
    "spawn" "peers" "spawn/delayed" 4_000_000 1
    "spawn" "peers" "spawn/parasites" 4_000_000 1
    "spawn" "scale" "wait" 1_500_000 1
    "talk" "peers" "ping-pong" 2_000_000 1
    "talk" "scale" "pairs-64/hosts" 1_500_000 1
    "talk" "scale" "pairs-64/parasites" 1_500_000 1
    "send" "peers" "send" 5_000_000 1
    "asynchronous send" "table-1" "Sender::asend" 3_000_000 1
    "asynchronous send" "table-1" "asynchronously(send)" 2_000_000 1
    "choice" "peers" "choose/choose" 800_000 1
    "choice" "peers" "choose/ChoiceSet" 1_500_000 1
    "gather" "figure-10" "parasites, 8 producers" 2_000_000 1
    "gather" "figure-10" "figure 5, parasites, 8 producers" 1_000_000 1
    "pipeline" "peers" "sieve" 2_000 1
    "pipeline" "scale" "sieve-2000/asend" 2_000 1
    "tree" "scale" "par-fib/parasites-asend" 30 1
    "tree" "scale" "par-fib/hosts-send" 27 1
    "tree" "scale" "par-tak/joined-hosts" 24 1
    "fork" "peers" "fib-join" 35 1
    "fork" "peers" "mergesort" 2_000_000 1
    "computation" "figure-9" "parasites with inflation" 400 1
    "object" "schemas" "Parallel -> NB" 20_000_000 1
    "object" "schemas" "Parallel -> MB" 10_000_000 1
    "spawn" "scale" "many" 1_000_000 2
    "spawn" "figure-16-spawn" "on the other processor" 40_000 2
    "talk" "scale" "pairs-8/hosts" 800_000 2
    "talk" "figure-16-ping-pong" "a processor each" 80_000 2
    "send" "peers" "send" 3_000_000 2
    "choice" "scale" "choice-8" 200_000 2
    "tree" "scale" "par-fib/parasites-asend" 30 2
    "fork" "peers" "mergesort" 2_000_000 2
    "computation" "figure-9" "parasites with inflation" 600 2
};

/// Mechanisms that do nothing, or whose use does not show, on one core.
const OF_TWO_CORES: [&str; 5] = ["consent", "heartbeat", "samples", "spin", "named_next"];

/// The factors by which programs of two families, or one row of the papers, must grow.
const TWO_FAMILIES: f64 = 1.05;
const ONE_OF_THE_PAPERS: f64 = 1.1;

impl Row {
    fn is_of_the_papers(&self) -> bool {
        let is_study = matches!(self.list, "schemas" | "table-1") || self.list.starts_with("figure");
        is_study || ["par-", "sieve", "mergesort"].iter().any(|part| self.name.starts_with(part))
    }
}

/// A program with a mechanism and without it: milliseconds of a run, the median, the least and the most.
#[derive(Serialize)]
struct Pair {
    program: &'static str,
    family: &'static str,
    of_the_papers: bool,
    with: [f64; 3],
    without: [f64; 3],
    /// The median without it over the median with it.
    ratio: f64,
    /// The ratio that is nearer to 1, of the medians and of the least times: other work on the machine makes runs
    /// longer, and none shorter.
    sure: f64,
}

/// The findings about a mechanism.
#[derive(Serialize)]
pub(super) struct Verdict {
    mechanism: &'static str,
    /// `None`: it was not judged, as this machine has one core.
    stays: Option<bool>,
    pairs: Vec<Pair>,
}

fn range(medians: &Medians) -> [f64; 3] {
    [medians.ns_per_op, medians.ns_least, medians.ns_most].map(|ns| ns * medians.n as f64 / 1e6)
}

fn pair(off: &'static str, row: &Row, measured: &[Measured]) -> Option<Pair> {
    let of = |variant: &str| {
        let one = measured.iter().find(|m| m.case.family == row.title && m.case.variant == variant)?;
        one.outcome.as_ref().ok().map(range)
    };
    let (with, without) = (of(WHOLE)?, of(off)?);
    let [ratio, least] = [without[0] / with[0], without[1] / with[1]];
    let is_doubtful = (ratio > 1.0) != (least > 1.0);
    let nearer = if ratio > 1.0 { ratio.min(least) } else { ratio.max(least) };
    let sure = if is_doubtful { 1.0 } else { nearer };
    let (program, family, of_the_papers) = (row.title, row.family, row.is_of_the_papers());
    Some(Pair { program, family, of_the_papers, with, without, ratio, sure })
}

/// Judges a mechanism by the rows that were measured.
pub(super) fn verdict(off: &'static str, rows: &[&Row], measured: &[Measured]) -> Verdict {
    let pairs: Vec<Pair> = rows.iter().filter_map(|row| pair(off, row, measured)).collect();
    let has_two = rows.iter().any(|row| row.vps > 1) && off != "named_next";
    let is_judged = has_two || !OF_TWO_CORES.contains(&off);
    Verdict { mechanism: off, stays: is_judged.then(|| stays(&pairs)), pairs }
}

fn stays(pairs: &[Pair]) -> bool {
    let lost: Vec<&Pair> = pairs.iter().filter(|pair| pair.sure >= TWO_FAMILIES).collect();
    lost.iter().any(|pair| pair.family != lost[0].family)
        || lost.iter().any(|pair| pair.of_the_papers && pair.sure >= ONE_OF_THE_PAPERS)
}

/// The programs that moved by 5 %, and the verdicts.
pub(super) fn table(verdicts: &[Verdict]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["mechanism", "program", "with", "without", "ratio", "verdict"]);
    for Verdict { mechanism, stays, pairs } in verdicts {
        let says = match stays {
            Some(true) => "stays",
            Some(false) => "fails",
            None => "not judged",
        };
        let is_moved = |pair: &&Pair| pair.sure >= TWO_FAMILIES || pair.sure <= 1.0 / TWO_FAMILIES;
        let moved: Vec<&Pair> = pairs.iter().filter(is_moved).collect();
        if moved.is_empty() {
            let none = format!("none of {} by 5 %", pairs.len());
            table.add_row([mechanism, none.as_str(), "", "", "", says]);
        }
        for (place, pair) in moved.into_iter().enumerate() {
            let first = |text: &str| Cell::new(if place == 0 { text } else { "" });
            let spread = |[median, least, most]: [f64; 3]| {
                right(&format!("{} [{}, {}]", number(median), number(least), number(most)))
            };
            let (with, without) = (spread(pair.with), spread(pair.without));
            let ratio = right(&number(pair.ratio));
            table.add_row([first(mechanism), Cell::new(pair.program), with, without, ratio, first(says)]);
        }
    }
    format!("Milliseconds of a run: median [least, most]. Programs are listed that moved by 5 %.\n\n{table}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::measure::measure;

    fn row(title: &str) -> &'static Row {
        ROWS.iter().find(|row| row.title == title).expect("it is in the list")
    }

    fn judged(times: &[(&str, u64)]) -> Verdict {
        let rows: Vec<&Row> = times.iter().map(|(title, _)| row(title)).collect();
        let case = |row: &&'static Row, variant, ms| {
            let body = move |_| Ok(Sample::new(1, Duration::from_millis(ms)));
            Case::new(row.name, "chanter", variant, body).in_family(row.title)
        };
        let rows_and_times = rows.iter().zip(times);
        let cases =
            rows_and_times.flat_map(|(row, (_, off))| [case(row, WHOLE, 1_000), case(row, "x", *off)]);
        let measured = measure(cases.collect(), 1).unwrap_or_else(|failure| panic!("{failure}"));
        verdict("x", &rows, &measured)
    }

    #[test]
    fn two_families_or_one_row_of_the_papers_let_a_mechanism_stay() {
        let spawns = [("spawn/hosts, 1 VP", 1_200), ("wait, 1 VP", 1_200)];
        assert_eq!(judged(&spawns).stays, Some(false), "one family");
        assert_eq!(judged(&[spawns[0], ("ping-pong, 1 VP", 1_060)]).stays, Some(true));
        assert_eq!(judged(&[spawns[0], ("ping-pong, 1 VP", 1_040)]).stays, Some(false), "less than 5 %");
        assert_eq!(judged(&[("sieve, 1 VP", 1_110)]).stays, Some(true), "a row of the papers");
        assert_eq!(judged(&[("sieve, 1 VP", 1_090)]).stays, Some(false));
        let table = table(&[judged(&[spawns[0], ("ping-pong, 1 VP", 1_010)])]);
        assert!(table.contains("spawn/hosts") && !table.contains("ping-pong"), "{table}");
        assert!(table.contains("1200 [1200, 1200]") && table.contains("fails"), "{table}");
    }

    #[test]
    fn each_row_has_a_title_of_its_own() {
        let titles: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.title).collect();
        assert_eq!(titles.len(), ROWS.len());
    }
}
