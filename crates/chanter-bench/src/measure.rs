//! The one harness of every benchmark: rounds and medians.
//!
//! Cases of a *family* are compared with each other, so their rounds are interleaved: whatever
//! disturbs the machine disturbs all of them.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressStyle};

use super::case::{Case, Failure, Load, Sample};

/// A case and the median of its rounds.
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) outcome: Result<Medians, String>,
}

/// Medians over the rounds of one case.
#[derive(Clone)]
pub(crate) struct Medians {
    pub(crate) n: u64,
    pub(crate) rounds: usize,
    pub(crate) ns_per_op: f64,
    pub(crate) ns_least: f64,
    pub(crate) ns_most: f64,
    pub(crate) bytes_per_thread: Option<f64>,
    pub(crate) detail: BTreeMap<String, f64>,
}

impl Medians {
    fn of(samples: &[Sample]) -> Option<Self> {
        let first = samples.first()?;
        let ns: Vec<f64> = samples.iter().map(Sample::ns_per_op).collect();
        let bytes: Vec<f64> = samples.iter().filter_map(|s| s.bytes_per_thread).collect();
        let detail = first.detail.keys().map(|name| {
            let values: Vec<f64> =
                samples.iter().filter_map(|sample| sample.detail.get(name).copied()).collect();
            (name.clone(), median(&values).unwrap_or(f64::NAN))
        });
        Some(Self {
            n: first.ops,
            rounds: samples.len(),
            ns_per_op: median(&ns)?,
            ns_least: ns.iter().copied().fold(f64::INFINITY, f64::min),
            ns_most: ns.iter().copied().fold(0.0, f64::max),
            bytes_per_thread: median(&bytes),
            detail: detail.collect(),
        })
    }
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Runs all cases, family by family, the rounds of each family interleaved.
pub(crate) fn measure(cases: Vec<Case>, rounds: usize) -> Result<Vec<Measured>, Failure> {
    let total: usize = cases.iter().map(|case| rounds.min(case.most_rounds)).sum();
    let bar = progress(total as u64);
    let mut measured = Vec::with_capacity(cases.len());
    for family in families(cases) {
        measured.extend(measure_family(family, rounds, &bar)?);
    }
    bar.finish_and_clear();
    Ok(measured)
}

fn families(cases: Vec<Case>) -> Vec<Vec<Case>> {
    let mut families: Vec<Vec<Case>> = Vec::new();
    for case in cases {
        match families.iter_mut().find(|f| f[0].family == case.family) {
            Some(family) => family.push(case),
            None => families.push(vec![case]),
        }
    }
    families
}

fn measure_family(family: Vec<Case>, rounds: usize, bar: &ProgressBar) -> Result<Vec<Measured>, Failure> {
    let mut samples: Vec<Result<Vec<Sample>, String>> = family.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds {
        for (case, so_far) in family.iter().zip(&mut samples) {
            if round >= case.most_rounds {
                continue;
            }
            let Ok(list) = so_far else {
                bar.inc(1);
                continue;
            };
            bar.set_message(format!("{} ({} VPs)", case.key(), case.vps));
            if round == 0 && !case.isolated && !case.is_cold {
                // A first, uncounted run pays for page faults and for building the Go peer.
                let _ = case.run(Load { n: (case.n / 10).max(16), vps: case.vps });
            }
            match case.run(case.load()) {
                Ok(sample) => list.push(sample),
                Err(Failure::Unavailable(why)) => {
                    bar.suspend(|| eprintln!("chanter: {} skipped: {why}", case.key()));
                    *so_far = Err(why);
                }
                Err(Failure::Cannot(why)) => *so_far = Err(why),
                Err(failure) => return Err(named(case, failure)),
            }
            bar.inc(1);
        }
    }
    let measured = family.into_iter().zip(samples).map(|(case, samples)| {
        let outcome = samples.and_then(|s| Medians::of(&s).ok_or_else(|| "no round".to_owned()));
        Measured { case, outcome }
    });
    Ok(measured.collect())
}

fn named(case: &Case, failure: Failure) -> Failure {
    let key = case.key();
    match failure {
        Failure::Wrong(what) => Failure::Wrong(format!("{key}: {what}")),
        Failure::Unavailable(what) => Failure::Unavailable(format!("{key}: {what}")),
        Failure::Cannot(what) => Failure::Cannot(format!("{key}: {what}")),
        Failure::Broken(what) => Failure::Broken(format!("{key}: {what}")),
    }
}

fn progress(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::expect;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn rounds_of_a_family_are_interleaved() {
        use std::sync::{Arc, Mutex};
        let order = Arc::new(Mutex::new(Vec::new()));
        let case = |variant: &'static str| {
            let order = order.clone();
            Case::new("order", "plain", variant, move |load| {
                if load.n == 1000 {
                    order.lock().unwrap().push(variant);
                }
                Ok(Sample::new(load.n, Duration::from_nanos(5 * load.n)))
            })
        };
        let mut cases = vec![case("a"), case("b"), case("c").at_most_rounds(1)];
        cases.iter_mut().for_each(|case| case.n = 1000);
        let measured = measure(cases, 2).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(*order.lock().unwrap(), ["a", "b", "c", "a", "b"]);
        let medians = measured[0].outcome.as_ref().unwrap();
        assert_eq!((medians.ns_per_op, medians.rounds), (5.0, 2));
    }

    #[test]
    fn a_wrong_result_stops_everything_and_a_missing_peer_does_not() {
        let absent = Case::new("x", "go", "none", |_| Err(Failure::Unavailable("no go here".into())));
        let fine = Case::new("x", "plain", "fine", |load| Ok(Sample::new(load.n, Duration::from_nanos(1))));
        let measured = measure(vec![absent, fine], 1).unwrap_or_else(|f| panic!("{f}"));
        assert!(measured[0].outcome.is_err() && measured[1].outcome.is_ok());

        let wrong = Case::new("x", "plain", "wrong", |load| {
            expect("sum", 1, 2)?;
            Ok(Sample::new(load.n, Duration::from_nanos(1)))
        });
        let panics = Case::new("x", "plain", "panics", |_| panic!("on purpose"));
        assert!(matches!(measure(vec![panics], 1), Err(Failure::Broken(_))));

        let failure = measure(vec![wrong], 1).err().map(|f| f.to_string());
        assert_eq!(failure.as_deref(), Some("wrong result: plain/x/wrong: sum is 1, not 2"));
    }
}
