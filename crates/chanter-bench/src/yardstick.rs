//! The base of a program's speed-ups: its serial forms.

use chanter_programs::kit::{Entry, Form};

use super::measure::Measured;

/// The system that a program without threads runs on.
pub(super) const PLAIN: &str = "plain";

/// The serial forms of a program that are programs of their own.
pub(super) fn forms(entry: &Entry) -> impl Iterator<Item = Form> + use<> {
    let forms = entry.forms;
    forms.iter().copied().filter(|form| form.is_serial())
}

/// Serial time of one program, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Yardstick {
    /// Time of the best algorithm.
    pub(super) best: f64,
    /// Time of the algorithm that the threads divide. It is `best` if that is the same program.
    pub(super) same: f64,
}

impl Yardstick {
    /// `None`: the program was not measured serially.
    pub(super) fn of(measured: &[Measured], program: &str) -> Option<Self> {
        let time = |form: Form| {
            let is = |m: &&Measured| {
                (m.case.bench, m.case.system, m.case.variant) == (program, PLAIN, form.name())
            };
            Some(measured.iter().find(is)?.outcome.as_ref().ok()?.ns_per_op)
        };
        let best = time(Form::Serial)?;
        Some(Self { best, same: time(Form::SerialSame).unwrap_or(best) })
    }
}

/// Gives each record of a program's threads both speed-ups, and the times that they are against.
pub(super) fn add_speed_ups(measured: &mut [Measured]) {
    let yardsticks: Vec<_> = measured.iter().map(|m| Yardstick::of(measured, m.case.bench)).collect();
    for (m, yardstick) in measured.iter_mut().zip(yardsticks) {
        let (Some(Yardstick { best, same }), Ok(medians)) = (yardstick, &mut m.outcome) else { continue };
        if m.case.system == PLAIN {
            continue;
        }
        let ns = medians.ns_per_op;
        let details = [
            ("serial_best_ns", best),
            ("serial_same_ns", same),
            ("speed_up_best", best / ns),
            ("speed_up_same", same / ns),
        ];
        medians.detail.extend(details.map(|(name, value)| (name.to_owned(), value)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Sample};
    use crate::measure::measure;

    fn case(bench: &'static str, system: &'static str, variant: &'static str, ns: u64) -> Case {
        Case::new(bench, system, variant, move |_| Ok(Sample::new(1, Duration::from_nanos(ns)))).load_of(1, 1)
    }

    #[test]
    fn speed_ups_are_against_the_best_and_against_the_same_serial_program() {
        let cases = vec![
            case("mergesort", PLAIN, "serial", 100),
            case("mergesort", PLAIN, "serial-same", 400),
            case("mergesort", "chanter", "forked", 200),
            case("tsp", PLAIN, "serial", 100),
            case("tsp", "chanter", "forked", 50),
            case("fork", "chanter", "deep", 50),
        ];
        let mut measured = measure(cases, 1).unwrap_or_else(|f| panic!("{f}"));
        add_speed_ups(&mut measured);
        let details = |at: usize| {
            let medians: &crate::measure::Medians = measured[at].outcome.as_ref().unwrap();
            ["speed_up_best", "speed_up_same", "serial_same_ns"].map(|name| medians.detail.get(name).copied())
        };
        assert_eq!(details(2), [Some(0.5), Some(2.0), Some(400.0)]);
        assert_eq!(details(4), [Some(2.0), Some(2.0), Some(100.0)]);
        assert_eq!((details(0), details(5)), ([None; 3], [None; 3]));
    }
}
