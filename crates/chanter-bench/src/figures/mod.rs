//! The figures that Chanter promises, each with its aim, measured in one run.
//!
//! - `run` keeps what a run found; `page` writes it for the book, `plot` draws it.
//! - `beside` draws the chart of the README.

pub(crate) mod beside;
pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod run;

use serde::Serialize;

use super::case::Case;
use super::measure::{Measured, Medians};
use super::micro;
use super::micro::lost_choice::LOSERS;
use super::{paper, policies, swerve};

/// Choices that the whole run of `lost-choice` makes, over all its kinds of loser.
const LOST_CHOICES: u64 = 100_000_000;

/// Memory that may come and go while choices are lost: a page cache's breath, not a leak. A single
/// byte left behind by each choice would be a hundred times as much.
const FLAT: f64 = (1 << 20) as f64;

/// Processor time in a second of idleness that a machine's own clock ticks already take, in ms.
const NOTHING: f64 = 1.0;

/// Fork-join against rayon's.
const RAYON: [(&str, f64); 1] = [("rayon", 1.0)];

#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// A choice of a measurement: the best variant of a system at this number of processors.
#[derive(Clone, Copy)]
struct Pick {
    bench: &'static str,
    system: &'static str,
    /// `None`: the strongest.
    variant: Option<&'static str>,
    vps: usize,
}

impl Pick {
    fn is(&self, case: &Case) -> bool {
        (case.bench, case.system, case.vps) == (self.bench, self.system, self.vps)
            && self.variant.is_none_or(|variant| variant == case.variant)
    }

    fn best<'a>(&self, measured: &'a [Measured]) -> Option<&'a Medians> {
        measured
            .iter()
            .filter(|m| self.is(&m.case))
            .filter_map(|m| m.outcome.as_ref().ok())
            .min_by(|a, b| a.ns_per_op.total_cmp(&b.ns_per_op))
    }
}

fn chanter(bench: &'static str, variant: &'static str, vps: usize) -> Pick {
    Pick { bench, system: "chanter", variant: Some(variant), vps }
}

fn peer(bench: &'static str, system: &'static str, vps: usize) -> Pick {
    Pick { bench, system, variant: None, vps }
}

enum Quantity {
    /// Time of the one through time of the other.
    Ratio(Pick, Pick),
    BytesPerThread(Pick),
    Detail(Pick, &'static str),
    /// Detail of the one through detail of the other.
    DetailRatio(Pick, Pick, &'static str),
    /// The mean of a detail over all programs of the papers, with that variant on one processor.
    Mean(&'static str, &'static str),
    /// Nanoseconds for an operation.
    Time(Pick),
}

pub(super) struct Figure {
    name: String,
    quantity: Quantity,
    bound: Bound,
}

fn ratio(name: &str, one: Pick, other: Pick, bound: Bound) -> Figure {
    Figure { name: name.to_owned(), quantity: Quantity::Ratio(one, other), bound }
}

/// Chanter's time through each peer's, for the benches that peers take part in.
fn against(
    bench: &'static str,
    variant: &'static str,
    vps: usize,
    peers: &[(&'static str, f64)],
) -> Vec<Figure> {
    peers
        .iter()
        .map(|&(system, most)| {
            ratio(
                &format!("{bench} / {system}, {vps} VP"),
                chanter(bench, variant, vps),
                peer(bench, system, vps),
                Bound::AtMost(most),
            )
        })
        .collect()
}

fn all() -> Vec<Figure> {
    use Bound::{AtLeast, AtMost};
    let parasite = |vps| chanter("parasite", "in-place", vps);
    let mut figures = vec![
        ratio("parasite / call", parasite(1), peer("call", "plain", 1), AtMost(3.0)),
        ratio("parasite, 2 VP / 1 VP", parasite(2), parasite(1), AtMost(1.2)),
        ratio("tokio-spawn / parasite", peer("host", "tokio", 1), parasite(1), AtLeast(46.0)),
    ];
    figures.extend(against("host", "spawn-join", 1, &[("tokio", 0.4)]));
    figures.extend(against("pingpong", "host", 1, &[("go", 0.25), ("tokio", 0.3)]));
    figures.extend(against("pingpong", "host", 2, &[("go", 0.3), ("tokio", 0.3)]));
    figures.push(ratio(
        "pingpong, 2 VP / 1 VP",
        chanter("pingpong", "host", 2),
        chanter("pingpong", "host", 1),
        AtMost(1.0),
    ));
    let with_kanal = [("go", 0.3), ("tokio", 0.3), ("kanal", 1.0)];
    for vps in [1, 2] {
        figures.extend(against("choose", "tuple", vps, &[("go", 0.3), ("tokio", 0.3)]));
    }
    for vps in [1, 2] {
        figures.extend(against("send", "host", vps, &with_kanal));
    }
    for vps in [1, 2] {
        figures.extend(against("mailbox", "host", vps, &with_kanal));
    }
    figures.push(ratio(
        "asend on parasites / sync send",
        chanter("asend", "parasite", 1),
        chanter("asend", "sync", 1),
        AtMost(1.05),
    ));
    figures.push(ratio(
        "asend on parasites / sync send, parasite consumer",
        chanter("asend", "parasite, parasite consumer", 1),
        chanter("asend", "sync, parasite consumer", 1),
        AtMost(1.05),
    ));
    for vps in [1, 2] {
        figures.push(ratio(
            &format!("gather of 8 on parasites / on hosts, {vps} VP"),
            chanter("gather", "parasites", vps),
            chanter("gather", "hosts", vps),
            AtMost(0.5),
        ));
    }
    figures.push(ratio(
        "yield: custom fifo / fifo",
        chanter("yield", "custom fifo", 1),
        chanter("yield", "fifo", 1),
        AtMost(1.05),
    ));
    figures.push(Figure {
        name: "blocked: bytes per parasite".to_owned(),
        quantity: Quantity::BytesPerThread(chanter("blocked", "parasite", 1)),
        bound: AtMost(256.0),
    });
    figures.push(Figure {
        name: "idle: processor ms per second".to_owned(),
        quantity: Quantity::Detail(chanter("idle", "asleep", 2), "cpu_ms_per_s"),
        bound: AtMost(NOTHING),
    });
    for loser in LOSERS {
        figures.push(Figure {
            name: format!("lost choices, {loser}: bytes of growth"),
            quantity: Quantity::Detail(chanter("lost-choice", loser, 1), "rss_growth_bytes"),
            bound: AtMost(FLAT),
        });
    }
    for strategy in ["random", "pct", "exhaustive"] {
        figures.push(Figure {
            name: format!("explorer, {strategy}: schedules a second"),
            quantity: Quantity::Detail(chanter("explore", strategy, 1), "schedules_per_s"),
            bound: AtLeast(20_000.0),
        });
    }
    figures.extend([1, 2].map(endless));
    figures.extend(sting(1));
    figures.extend(against("par-fib", "fork_join", 2, &RAYON));
    figures.push(ratio(
        "par-fib, 1 VP / 2 VP",
        chanter("par-fib", "fork_join", 1),
        chanter("par-fib", "fork_join", 2),
        AtLeast(1.8),
    ));
    for bench in ["leaves-2", "leaves-4", "leaves-16", "word-count"] {
        figures.extend(against(bench, "fork_join", 2, &[("rayon", 1.05)]));
    }
    figures.push(Figure {
        name: "word-count, 16 scope threads / rayon, processor time, 2 VP".to_owned(),
        quantity: Quantity::DetailRatio(
            chanter("word-count", "16 scope threads", 2),
            peer("word-count", "rayon", 2),
            "cpu_ms",
        ),
        bound: AtMost(1.05),
    });
    for (name, bench, variant) in [
        ("ping-pong across two VPs: ns a message", "pingpong", "host, a VP each"),
        ("spawn across two VPs and wait: ns a thread", "host", "spawn-join, on the other VP"),
    ] {
        figures.push(Figure {
            name: name.to_owned(),
            quantity: Quantity::Time(chanter(bench, variant, 2)),
            bound: AtMost(3_333.0),
        });
    }
    // The rows of `httperf` are left out, since they take minutes: `bench swerve` has them.
    figures.extend(swerve_figures(1).into_iter().filter(|figure| !figure.is_of(swerve::RATES)));
    figures.extend(paper(2));
    figures
}

/// Requests beside computations that do not end, on every virtual processor.
pub(super) fn endless(vps: usize) -> Figure {
    ratio(
        &format!("p99 beside endless computations, tokio / chanter, {vps} VP"),
        peer(policies::ENDLESS, "tokio", vps),
        chanter(policies::ENDLESS, "hand-over", vps),
        Bound::AtLeast(100.0),
    )
}

/// The figures of threads and processors as values. Peers take part on one processor only.
pub(super) fn sting(vps: usize) -> Vec<Figure> {
    let mut figures = vec![Figure {
        name: format!("fiber switch, {vps} VP: ns"),
        quantity: Quantity::Time(chanter("fiber-switch", "yield", vps)),
        bound: Bound::AtMost(20.0),
    }];
    figures.push(Figure {
        name: format!("delayed, never demanded, {vps} VP: bytes per thread"),
        quantity: Quantity::BytesPerThread(chanter("delayed-memory", "never demanded", vps)),
        bound: Bound::AtMost(128.0),
    });
    figures.extend(against("par-fib", "fork_join", vps, &RAYON));
    if vps == 1 {
        figures.extend(against("fiber", "spawn-join", 1, &[("boost", 0.5)]));
        let call = Pick { bench: "delayed", system: "plain", variant: Some("call"), vps };
        for (name, variant) in [("delayed", "steal"), ("delayed, handle shared", "steal, handle shared")] {
            let name = format!("{name}: create and steal / call");
            figures.push(ratio(&name, chanter("delayed", variant, 1), call, Bound::AtMost(12.0)));
        }
    }
    figures
}

/// The figures of the web server. Replies a second are times, upside down.
pub(super) fn swerve_figures(vps: usize) -> Vec<Figure> {
    let form = |bench, variant| chanter(bench, variant, vps);
    let detail = |name: &str, one, other, detail, bound| Figure {
        name: format!("{name}, {vps} VP"),
        quantity: Quantity::DetailRatio(one, other, detail),
        bound,
    };
    let ours = form(swerve::PEERS, "parasites");
    let theirs = peer(swerve::PEERS, swerve::PEER, vps);
    vec![
        detail(
            "swerve, wrk: parasites / synchronous, replies a second",
            form(swerve::FORMS, "parasites"),
            form(swerve::FORMS, "synchronous"),
            "replies_per_s",
            Bound::AtLeast(1.39),
        ),
        detail(
            "swerve, wrk: synchronous / parasites, time outside of the kernel",
            form(swerve::FORMS, "synchronous"),
            form(swerve::FORMS, "parasites"),
            "own_us_per_reply",
            Bound::AtLeast(1.39),
        ),
        detail(
            "swerve, httperf: parasites / synchronous, most replies a second",
            form(swerve::RATES, "parasites"),
            form(swerve::RATES, "synchronous"),
            "replies_per_s_best",
            Bound::AtLeast(1.39),
        ),
        detail(
            "swerve / tokio + hyper, replies a second",
            ours,
            theirs,
            "replies_per_s",
            Bound::AtLeast(1.0),
        ),
        detail("swerve / tokio + hyper, p99", ours, theirs, "p99_us", Bound::AtMost(1.0)),
        detail(
            "swerve, opening each file / tokio + hyper, replies a second",
            form(swerve::PEERS, "parasites, nothing kept"),
            theirs,
            "replies_per_s",
            Bound::AtLeast(1.0),
        ),
    ]
}

/// The figures of the papers' programs and micro-studies.
pub(super) fn paper(vps: usize) -> Vec<Figure> {
    let of_table_1 = |variant, vps, most| {
        let name = format!("table 1: {variant} / sendEvt, {vps} VP");
        ratio(
            &name,
            chanter("table-1", variant, vps),
            chanter("table-1", "sendEvt", vps),
            Bound::AtMost(most),
        )
    };
    let mut figures =
        vec![of_table_1("aSendEvt, left in the channel", 1, 1.0), of_table_1("Sender::asend", 1, 1.0)];
    for (vps, reified, wrapped) in [(1, 1.1, 1.2), (2, 1.5, 1.8)].into_iter().take(vps) {
        figures.push(of_table_1("parasites, as in the paper", vps, reified));
        figures.push(of_table_1("asynchronously(send)", vps, wrapped));
    }
    for vps in 1..=vps.min(2) {
        figures.push(ratio(
            &format!("figure 9: parasites with inflation / hosts, {vps} VP"),
            chanter("figure-9", "parasites with inflation", vps),
            chanter("figure-9", "hosts", vps),
            Bound::AtMost(1.05),
        ));
        figures.push(ratio(
            &format!("figure 10: hosts / parasites, 8 producers, {vps} VP"),
            chanter("figure-10", "hosts, 8 producers", vps),
            chanter("figure-10", "parasites, 8 producers", vps),
            Bound::AtLeast(3.0),
        ));
        figures.push(ratio(
            &format!("figure 10 by figure 5: hosts / parasites, 8 producers, {vps} VP"),
            chanter("figure-10", "figure 5, hosts, 8 producers", vps),
            chanter("figure-10", "figure 5, parasites, 8 producers", vps),
            Bound::AtLeast(2.0),
        ));
    }
    figures.push(Figure {
        name: "table 2: bytes of a reified parasite, mean of the programs".to_owned(),
        quantity: Quantity::Mean(paper::PARASITES, paper::STATE),
        bound: Bound::AtMost(179.0),
    });
    figures
}

/// The cases that the figures need, and no others.
pub(crate) fn cases(quick: bool) -> Vec<Case> {
    let figures = all();
    let mut cases: Vec<Case> = [1, 2]
        .into_iter()
        .flat_map(micro::all)
        .chain(swerve::cases(1, quick))
        .chain(paper::figure_cases(quick))
        .filter(|case| figures.iter().any(|figure| figure.needs(case)))
        .collect();
    for case in &mut cases {
        case.n = match (case.bench, quick) {
            ("lost-choice", false) => LOST_CHOICES.div_ceil(LOSERS.len() as u64),
            (_, false) | ("idle", true) => case.n,
            (bench, true) if bench.starts_with("swerve") => case.n,
            // Work is shared after a while only, and the time after that counts.
            ("par-fib", true) => case.n,
            // A program has one operation; its size is small already.
            (_, true) if case.n == 1 => 1,
            (_, true) => case.n / 10,
        };
    }
    cases
}

/// One JSON line, and a row of the table.
#[derive(Serialize)]
pub(crate) struct Finding {
    pub(crate) figure: String,
    /// `None` when a peer is not on this machine.
    pub(crate) value: Option<f64>,
    pub(crate) floor: f64,
    pub(crate) holds: Option<bool>,
    /// `at most` or `at least`: which side of the floor is good.
    pub(crate) bound: &'static str,
}

impl Finding {
    pub(super) fn new(figure: String, value: Option<f64>, bound: Bound) -> Self {
        let (bound, floor, holds) = match bound {
            Bound::AtMost(floor) => ("at most", floor, value.map(|value| value <= floor)),
            Bound::AtLeast(floor) => ("at least", floor, value.map(|value| value >= floor)),
        };
        Self { figure, value, floor, holds, bound }
    }
}

impl Figure {
    /// Whether it compares details of `bench`.
    fn is_of(&self, bench: &str) -> bool {
        matches!(self.quantity, Quantity::DetailRatio(one, ..) if one.bench == bench)
    }

    pub(super) fn needs(&self, case: &Case) -> bool {
        match self.quantity {
            Quantity::Ratio(one, other) | Quantity::DetailRatio(one, other, _) => {
                one.is(case) || other.is(case)
            }
            Quantity::BytesPerThread(pick) | Quantity::Detail(pick, _) | Quantity::Time(pick) => {
                pick.is(case)
            }
            Quantity::Mean(variant, _) => (case.system, case.variant, case.vps) == ("chanter", variant, 1),
        }
    }

    fn value(&self, measured: &[Measured]) -> Option<f64> {
        match self.quantity {
            Quantity::Ratio(one, other) => {
                Some(one.best(measured)?.ns_per_op / other.best(measured)?.ns_per_op)
            }
            Quantity::BytesPerThread(pick) => pick.best(measured)?.bytes_per_thread,
            Quantity::Detail(pick, name) => pick.best(measured)?.detail.get(name).copied(),
            Quantity::DetailRatio(one, other, name) => {
                let detail = |pick: Pick| pick.best(measured)?.detail.get(name).copied();
                Some(detail(one)? / detail(other)?)
            }
            Quantity::Time(pick) => Some(pick.best(measured)?.ns_per_op),
            Quantity::Mean(_, name) => {
                let needed = measured.iter().filter(|m| self.needs(&m.case));
                let details = needed.filter_map(|m| m.outcome.as_ref().ok()?.detail.get(name).copied());
                let all: Vec<f64> = details.collect();
                (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
            }
        }
    }

    pub(super) fn find(self, measured: &[Measured]) -> Finding {
        let value = self.value(measured);
        Finding::new(self.name, value, self.bound)
    }
}

/// Findings for each figure, from the measurements.
pub(crate) fn findings(measured: &[Measured]) -> Vec<Finding> {
    findings_of(all(), measured)
}

/// Findings for some figures, from the measurements.
pub(super) fn findings_of(figures: Vec<Figure>, measured: &[Measured]) -> Vec<Finding> {
    figures.into_iter().map(|figure| figure.find(measured)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::Sample;
    use crate::measure::measure;

    #[test]
    fn every_figure_has_the_cases_that_it_needs() {
        let cases = cases(true);
        for figure in all() {
            let picks = match figure.quantity {
                Quantity::Ratio(one, other) | Quantity::DetailRatio(one, other, _) => vec![one, other],
                Quantity::BytesPerThread(pick) | Quantity::Detail(pick, _) | Quantity::Time(pick) => {
                    vec![pick]
                }
                Quantity::Mean(..) => {
                    assert!(cases.iter().any(|case| figure.needs(case)), "{}", figure.name);
                    vec![]
                }
            };
            for pick in picks {
                let known = cases.iter().any(|case| pick.is(case));
                assert!(known, "{}: no case {}/{}", figure.name, pick.system, pick.bench);
            }
        }
    }

    #[test]
    fn the_strongest_variant_of_a_peer_counts() {
        let spawn = |variant, ns: u64| {
            Case::new("host", "tokio", variant, move |load| {
                Ok(Sample::new(load.n, Duration::from_nanos(ns * load.n)))
            })
        };
        let parasite = Case::new("parasite", "chanter", "in-place", |load| {
            Ok(Sample::new(load.n, Duration::from_nanos(2 * load.n)))
        });
        let cases = vec![spawn("slow", 300), spawn("fast", 100), parasite];
        let measured = measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        let findings = findings(&measured);
        let spawn = findings.iter().find(|f| f.figure == "tokio-spawn / parasite");
        let spawn = spawn.expect("the figure is one of the list");
        assert_eq!((spawn.value, spawn.holds), (Some(50.0), Some(true)));
        let call = findings.iter().find(|f| f.figure == "parasite / call");
        assert_eq!(call.and_then(|f| f.holds), None);
    }
}
