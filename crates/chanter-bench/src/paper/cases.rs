//! The programs and studies as cases.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chanter::Stats;
use chanter_programs::kit::{self, Entry, Form, Load, Prepared, Run, Size};
use chanter_programs::micro::{self, Row, Work};

use super::server;
use crate::case::{Case, Failure, Outcome, Sample};
use crate::measure::Measured;
use crate::yardstick::{self, PLAIN};

/// The forms in which the paper ran its programs, and the one that leaves messages in channels.
pub(super) const FORMS: [Form; 4] =
    [Form::Synchronous, Form::AsynchronousHosts, Form::PaperParasites, Form::AsynchronousParasites];
/// OS threads that are written by hand. They show how much a second core can give. Only some programs have them.
pub(super) const BY_HAND: Form = Form::ByHand;
/// The system of that form.
const STD: &str = "std";
/// The paper's form with parasites, as a variant.
pub(crate) const PARASITES: &str = Form::PaperParasites.name();
/// The one that leaves messages in channels.
pub(super) const LEFT: &str = Form::AsynchronousParasites.name();
/// The detail that holds the average size of a reified parasite's state.
pub(crate) const STATE: &str = "reified_bytes";
/// The detail that holds the average size of a host's.
pub(super) const HOST_STATE: &str = "host_bytes";

/// The programs that have parasites, which are the programs of Featherweight Threads.
pub(super) fn entries() -> impl Iterator<Item = Entry> {
    let all = chanter_programs::all().into_iter();
    all.filter(|entry| entry.forms.contains(&Form::AsynchronousParasites))
}

/// Each program serially, in both ways where it has two, and in the paper's forms on 1 to `vps` virtual processors.
pub(super) fn programs(size: Size, vps: usize) -> Vec<Case> {
    entries().flat_map(|entry| program(entry, size, vps)).collect()
}

/// For `bench figures`: the studies on 1 and 2 processors, and the parasites of each program.
pub(crate) fn figure_cases(quick: bool) -> Vec<Case> {
    let size = if quick { Size::Quick } else { Size::Paper };
    studies(2).into_iter().chain(programs(size, 1)).chain(server::cases()).collect()
}

fn program(entry: Entry, size: Size, vps: usize) -> Vec<Case> {
    // Prepared when first run: its serial answer may take seconds.
    let prepared = Arc::new(OnceLock::new());
    let case = |system, form: Form, vps: usize| {
        let prepared = Arc::clone(&prepared);
        Case::new(entry.name, system, form.name(), move |load| {
            let prepared = prepared.get_or_init(|| entry.prepare(size).map_err(|error| error.to_string()));
            let prepared = prepared.as_ref().map_err(|why| Failure::Wrong(why.clone()))?;
            run(&**prepared, &Load::new(form, load.vps).bound_if_possible())
        })
        .load_of(1, vps)
    };
    let mut cases: Vec<_> = yardstick::forms(&entry).map(|form| case(PLAIN, form, 1)).collect();
    for form in FORMS.into_iter().filter(|form| entry.forms.contains(form)) {
        cases.extend((1..=vps).map(|vps| case("chanter", form, vps)));
    }
    if entry.forms.contains(&BY_HAND) {
        cases.extend((1..=vps).map(|vps| case(STD, BY_HAND, vps)));
    }
    cases
}

fn failed(failure: kit::Failure) -> Failure {
    match failure {
        kit::Failure::Wrong(what) => Failure::Wrong(what),
        other => Failure::Broken(other.to_string()),
    }
}

fn run(prepared: &dyn Prepared, load: &Load) -> Outcome {
    let run = prepared.run(load).map_err(failed)?;
    if !load.form.has_threads() {
        return Ok(Sample::new(1, run.elapsed));
    }
    Ok(measured_in(1, run.elapsed, &run.stats, run.communications))
}

/// A sample with the numbers of table 2.
pub(super) fn measured_in(operations: u64, elapsed: Duration, stats: &Stats, messages: u64) -> Sample {
    let numbers = [
        ("hosts", stats.hosts_created),
        ("parasites", stats.parasites_created),
        ("communications", messages),
        ("reified", stats.reified),
        ("left", stats.left),
        ("attached", stats.attached),
        ("inflated", stats.inflated + stats.promoted),
        ("migrated", stats.migrated),
    ];
    let sample = Sample::new(operations, elapsed);
    let sample = numbers.into_iter().fold(sample, |sample, (name, value)| sample.with(name, value as f64));
    match average(stats.reified_bytes, stats.reified) {
        Some(bytes) => sample.with(STATE, bytes),
        None => sample,
    }
}

fn average(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

/// Runs each measured form of each program once more, for the bytes of its hosts. To record them takes time, so the
/// timed runs do not.
pub(super) fn count_hosts(measured: &mut [Measured], size: Size) -> Result<(), Failure> {
    let is_measured = |measured: &[Measured], program: &str| {
        measured.iter().any(|m| m.case.bench == program && m.case.variant == PARASITES && m.outcome.is_ok())
    };
    for entry in entries() {
        if !is_measured(measured, entry.name) {
            continue;
        }
        let prepared = entry.prepare(size).map_err(failed)?;
        for form in FORMS.into_iter().filter(|form| entry.forms.contains(form)) {
            let Run { stats, .. } = prepared.run(&Load::new(form, 1).counted()).map_err(failed)?;
            add_host_state(measured, entry.name, form, &stats);
        }
    }
    if is_measured(measured, server::NAME) {
        for form in FORMS {
            add_host_state(measured, server::NAME, form, &server::counted(form)?);
        }
    }
    Ok(())
}

fn add_host_state(measured: &mut [Measured], program: &str, form: Form, stats: &Stats) {
    let Some(bytes) = average(stats.host_bytes, stats.hosts_created) else { return };
    let is_it = |case: &Case| case.bench == program && case.system != PLAIN && case.variant == form.name();
    for m in measured.iter_mut().filter(|m| is_it(&m.case)) {
        if let Ok(medians) = &mut m.outcome {
            medians.detail.insert(HOST_STATE.to_owned(), bytes);
        }
    }
}

/// Each row of each study on 1 to `vps` virtual processors; those that compare one with two, on these.
pub(super) fn studies(vps: usize) -> Vec<Case> {
    let rows = micro::rows().into_iter();
    rows.flat_map(|row| {
        let most = if row.study.starts_with("figure-16") { vps.min(2) } else { vps };
        (row.least_vps..=most).map(move |vps| study(row, vps))
    })
    .collect()
}

fn study(row: Row, vps: usize) -> Case {
    Case::new(row.study, "chanter", row.configuration, move |load| {
        let work = Work { operations: load.n.max(row.at), vps: load.vps };
        let done = row.run(work).map_err(failed)?;
        let sample = Sample::new(done.operations, done.elapsed);
        Ok(if row.at > 0 { sample.with("producers", row.at as f64) } else { sample })
    })
    .load_of(row.operations, vps)
}
