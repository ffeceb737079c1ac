//! Results of the jobs: medians of their rounds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::process::{Line, Round, What};
use super::{exercise, patterns, pressed};
use crate::measure::median;

/// A row: medians of its rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: What,
    pub(super) size: usize,
    pub(super) ns: f64,
    ns_least: f64,
    ns_most: f64,
    pub(super) tests: f64,
    rounds: usize,
    checked: bool,
}

#[derive(Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) exercises: Vec<exercise::Round>,
    pub(super) patterns: Vec<patterns::Round>,
    pub(super) pressed: Vec<pressed::Round>,
}

impl Rows {
    pub(super) fn of(lines: &[Line]) -> Self {
        let mut rows = Self::default();
        let mut by_row = BTreeMap::<(What, usize), Vec<Round>>::new();
        for line in lines {
            match line {
                Line::Row(round) => by_row.entry((round.what, round.size)).or_default().push(*round),
                Line::Exercise(round) => rows.exercises.push(*round),
                Line::Pattern(round) => rows.patterns.push(*round),
                Line::Pressed(round) => rows.pressed.push(*round),
            }
        }
        rows.rows.extend(by_row.into_iter().map(|((what, size), rounds)| {
            let ns: Vec<f64> = rounds.iter().map(|round| round.ns).collect();
            let tests: Vec<f64> = rounds.iter().map(|round| round.tests).collect();
            Row {
                what,
                size,
                ns: median(&ns).unwrap_or(f64::NAN),
                ns_least: ns.iter().copied().fold(f64::INFINITY, f64::min),
                ns_most: ns.iter().copied().fold(0.0, f64::max),
                tests: median(&tests).unwrap_or(f64::NAN),
                rounds: rounds.len(),
                // A process that finds a wrong result ends the job.
                checked: true,
            }
        }));
        rows
    }

    pub(super) fn get(&self, what: What, size: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.what == what && row.size == size)
    }

    pub(super) fn ns(&self, what: What, size: usize) -> Option<f64> {
        self.get(what, size).map(|row| row.ns)
    }

    /// The one through the other.
    pub(super) fn ratio(&self, one: What, other: What, size: usize) -> Option<f64> {
        Some(self.ns(one, size)? / self.ns(other, size)?)
    }

    /// Per cent over MPI alone.
    pub(super) fn overhead(&self, what: What, bytes: usize) -> Option<f64> {
        Some((self.ratio(what, What::Process, bytes)? - 1.0) * 100.0)
    }
}
