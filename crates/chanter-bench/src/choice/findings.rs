//! Promises about choice, and whether they hold.

use super::KEPT;
use super::row::{ROWS, Row, Shape};
use crate::figures::{Bound, Finding};
use crate::measure::Measured;
use crate::report::number;

/// Chanter's branches: a tuple as long as there are tuples.
fn own_variant(row: Row) -> &'static str {
    if row.branches <= 12 { "tuple" } else { "vec" }
}

/// The shortest time of the cases that `is` picks, with the name of whose it is.
fn best(measured: &[Measured], is: impl Fn(&Measured) -> bool) -> Option<(f64, String)> {
    measured
        .iter()
        .filter(|m| is(m))
        .filter_map(|m| Some((m.outcome.as_ref().ok()?.ns_per_op, m)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(ns, m)| (ns, format!("{} {}", m.case.system, m.case.variant)))
}

/// One measured row, on that number of processors.
struct At<'a> {
    measured: &'a [Measured],
    bench: &'static str,
    vps: usize,
}

impl At<'_> {
    fn is(&self, m: &Measured) -> bool {
        (m.case.bench, m.case.vps) == (self.bench, self.vps)
    }

    fn was_run(&self) -> bool {
        self.measured.iter().any(|m| self.is(m))
    }

    fn chanter(&self, variant: &str) -> Option<f64> {
        let own = |m: &Measured| self.is(m) && m.case.system == "chanter" && m.case.variant == variant;
        best(self.measured, own).map(|(ns, _)| ns)
    }

    /// Chanter's time divided by that of the best peer among those that `is` picks.
    fn against(&self, variant: &str, whom: &str, most: f64, is: impl Fn(&Measured) -> bool) -> Finding {
        let peer = best(self.measured, |m| self.is(m) && m.case.system != "chanter" && is(m));
        let name = peer.as_ref().map(|(_, name)| format!(": {name}")).unwrap_or_default();
        let value = self.chanter(variant).zip(peer).map(|(own, (peer, _))| own / peer);
        Finding::new(format!("{}, {} VP / {whom}{name}", self.bench, self.vps), value, Bound::AtMost(most))
    }
}

fn is_kept(m: &Measured) -> bool {
    KEPT.contains(&m.case.variant)
}

/// The floors, for the rows that were run.
pub(super) fn findings(measured: &[Measured]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for vps in [1, 2] {
        let at = |bench| At { measured, bench, vps };
        for row in ROWS.into_iter().filter(|row| at(row.bench).was_run()) {
            let (own, at) = (own_variant(row), at(row.bench));
            findings.push(at.against(own, "best choice", 1.0, |m| !is_kept(m)));
            findings.push(at.against("ChoiceSet", "best kept set", 1.0, is_kept));
            if row.branches == 8 {
                for system in ["go", "tokio"] {
                    findings.push(at.against(own, system, 0.3, |m| m.case.system == system));
                }
            }
        }
        for bench in ["choose-both", "timer"] {
            if at(bench).was_run() {
                findings.push(at(bench).against("tuple", "best choice", 1.0, |_| true));
            }
        }
        findings.extend(per_branch(measured, vps, "choose", own_variant));
        findings.extend(per_branch(measured, vps, "ChoiceSet", |_| "ChoiceSet"));
        if at("timer").was_run() && at("recv").was_run() {
            let value = at("timer").chanter("tuple").zip(at("recv").chanter("tuple"));
            let value = value.map(|(timer, recv)| timer / recv);
            findings.push(Finding::new(
                format!("losing a timer / plain recv, {vps} VP"),
                value,
                Bound::AtMost(2.0),
            ));
        }
    }
    findings
}

/// A branch costs no more in a larger choice than in the next smaller one.
fn per_branch(
    measured: &[Measured],
    vps: usize,
    whose: &str,
    variant: impl Fn(Row) -> &'static str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for shape in [Shape::Busy, Shape::One, Shape::Mixed] {
        let rows: Vec<Row> = ROWS.into_iter().filter(|row| row.shape == shape).collect();
        for pair in rows.windows(2) {
            let cost = |row: Row| {
                let at = At { measured, bench: row.bench, vps };
                at.was_run().then(|| at.chanter(variant(row)).map(|ns| ns / row.branches as f64))
            };
            let (Some(less), Some(more)) = (cost(pair[0]), cost(pair[1])) else { continue };
            let in_words = |cost: Option<f64>| cost.map_or("-".to_owned(), number);
            findings.push(Finding::new(
                format!(
                    "{whose}: ns per branch, {} / {}, {vps} VP: {} / {}",
                    pair[1].bench,
                    pair[0].bench,
                    in_words(more),
                    in_words(less)
                ),
                more.zip(less).map(|(more, less)| more / less),
                Bound::AtMost(1.0),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::measure::measure;

    fn case(bench: &'static str, system: &'static str, variant: &'static str, ns: u64) -> Case {
        Case::new(bench, system, variant, move |load| {
            Ok(Sample::new(load.n, Duration::from_nanos(ns * load.n)))
        })
    }

    #[test]
    fn each_finding_compares_what_it_names() {
        let cases = vec![
            case("busy-2", "chanter", "tuple", 40),
            case("busy-8", "chanter", "tuple", 80),
            case("busy-8", "chanter", "vec", 10),
            case("busy-8", "chanter", "ChoiceSet", 60),
            case("busy-8", "go", "select", 200),
            case("busy-8", "go", "reflect.Select", 800),
            case("busy-8", "futures", "SelectAll", 40),
            case("busy-64", "chanter", "vec", 1280),
            case("timer", "chanter", "tuple", 60),
            case("recv", "chanter", "tuple", 40),
        ];
        let measured = measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        let findings = findings(&measured);
        let value = |name: &str| {
            let mut named = findings.iter().filter(|f| f.figure.starts_with(name));
            let finding = named.next().unwrap_or_else(|| panic!("no finding {name}"));
            (finding.value, finding.holds)
        };
        assert_eq!(value("busy-8, 1 VP / best choice: go select"), (Some(0.4), Some(true)));
        assert_eq!(value("busy-8, 1 VP / best kept set: futures SelectAll"), (Some(1.5), Some(false)));
        assert_eq!(value("busy-8, 1 VP / go: go select"), (Some(0.4), Some(false)));
        assert_eq!(value("busy-8, 1 VP / tokio"), (None, None));
        assert_eq!(value("choose: ns per branch, busy-8 / busy-2, 1 VP"), (Some(0.5), Some(true)));
        assert_eq!(value("choose: ns per branch, busy-64 / busy-8, 1 VP"), (Some(2.0), Some(false)));
        assert_eq!(value("losing a timer / plain recv, 1 VP"), (Some(1.5), Some(true)));
        assert!(!findings.iter().any(|f| f.figure.contains("2 VP") || f.figure.contains("one-")));
    }
}
