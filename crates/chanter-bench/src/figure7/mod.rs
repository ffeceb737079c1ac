//! STING's figure 7: four programs with five statistics each, beside the paper's.
//!
//! Each program runs under four ways of scheduling: `lifo` is the paper's form: scheduled futures, and one LIFO queue
//! for all virtual processors. `default` is the same under this library's policy. `delayed` has futures that only a
//! demand runs. `fibers` is `lifo` with threads that have stacks, as in the paper. The sizes are always the paper's;
//! where a thread of ours has less to do than the paper's, there is a second case with the paper's grain.

mod paper;
mod plot;
mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chanter_programs::kit::{
    Failure as Wrong, Form, Load as ProgramLoad, Policies, Prepared, SharedLifo, Size,
};

use super::Stop;
use super::case::{Case, Failure, Load, Outcome, Sample};
use super::figures::{Bound, Finding};
use super::measure::{Measured, Medians};
use super::yardstick::{self, PLAIN};
pub(super) use plot::svg;
pub(super) use table::table;

/// A way to schedule the programs' threads.
struct Way {
    name: &'static str,
    form: Form,
    policies: Option<fn() -> Policies>,
}

const WAYS: [Way; 4] = [
    Way { name: "lifo", form: Form::Synchronous, policies: Some(SharedLifo::policies) },
    Way { name: "default", form: Form::Synchronous, policies: None },
    Way { name: "delayed", form: Form::Stolen, policies: None },
    Way { name: "fibers", form: Form::Fibers, policies: Some(SharedLifo::policies) },
];

/// Number of runs of a program in one round.
const RUNS: u64 = 10;

/// Numbers of virtual processors, up to `most` and at least two of them.
pub(super) fn columns(most: usize) -> impl Iterator<Item = usize> + Clone {
    paper::VPS.into_iter().filter(move |vps| *vps <= most.max(2))
}

/// The programs' names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    paper::FIGURE.iter().flat_map(paper::Paper::names)
}

/// The cases of the programs that `is_wanted` names.
pub(super) fn cases(most_vps: usize, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>, Stop> {
    let mut cases = Vec::new();
    let all = paper::FIGURE.iter().flat_map(|paper| paper.names().map(|name| (name, paper.program)));
    for (name, program) in all.filter(|(name, _)| is_wanted(name)) {
        let unknown = || Stop(1, format!("no program `{program}`"));
        let (size, runs) = if name == program { (Size::Paper, RUNS) } else { (Size::Grain, 1) };
        let program = chanter_programs::find(program).ok_or_else(unknown)?;
        let prepared: Arc<dyn Prepared> = Arc::from(program.prepare(size)?);
        for form in yardstick::forms(&program) {
            let serial = Arc::clone(&prepared);
            let run = move |load| sample(&*serial, load, form, None);
            cases.push(Case::new(name, PLAIN, form.name(), run).load_of(runs, 1));
        }
        for (way, vps) in WAYS.iter().flat_map(|way| columns(most_vps).map(move |vps| (way, vps))) {
            let (prepared, form, policies) = (Arc::clone(&prepared), way.form, way.policies);
            let case =
                Case::new(name, "chanter", way.name, move |load| sample(&*prepared, load, form, policies));
            cases.push(case.load_of(runs, vps));
        }
    }
    Ok(cases)
}

/// A detail of a sample, and its value in a run.
type Statistic = (&'static str, fn(&chanter_programs::kit::Run) -> u64);

const STATISTICS: [Statistic; 7] = [
    ("threads", |run| run.stats.hosts_created),
    ("stolen", |run| run.stats.stolen),
    ("blocks_created", |run| run.stats.frames_created),
    ("blocks_returned", |run| run.stats.frames_returned),
    ("blocks_reused", |run| run.stats.frames_reused),
    ("switches", |run| run.stats.dispatched),
    ("at_once", |run| run.at_once),
];

/// The runs' time; the statistics come from the last run.
fn sample(program: &dyn Prepared, load: Load, form: Form, policies: Option<fn() -> Policies>) -> Outcome {
    let mut how = ProgramLoad::new(form, load.vps).bound_if_possible();
    how.policies = policies;
    let mut elapsed = Duration::ZERO;
    let mut last = None;
    for _ in 0..load.n {
        let run = program.run(&how).map_err(failure)?;
        elapsed += run.elapsed;
        last = Some(run);
    }
    let sample = Sample::new(load.n, elapsed);
    let Some(mut run) = last.filter(|_| !form.is_serial()) else { return Ok(sample) };
    if form == Form::Fibers {
        // Memory that a fiber takes when it begins to run.
        let stats = &mut run.stats;
        stats.frames_created = stats.stacks_allocated;
        stats.frames_returned = stats.stacks_reused - stats.stacks_recycled;
        stats.frames_reused = stats.stacks_recycled;
    }
    Ok(STATISTICS.into_iter().fold(sample, |sample, (name, of)| sample.with(name, of(&run) as f64)))
}

/// The failure of a program, for a case that ran it.
pub(super) fn failure(failure: Wrong) -> Failure {
    match failure {
        Wrong::Wrong(what) => Failure::Wrong(what),
        other => Failure::Broken(other.to_string()),
    }
}

fn find<'a>(measured: &'a [Measured], program: &str, way: &str, vps: usize) -> Option<&'a Medians> {
    let is = |m: &&Measured| (m.case.bench, m.case.variant, m.case.vps) == (program, way, vps);
    measured.iter().find(is)?.outcome.as_ref().ok()
}

/// Expectations of figure 7.
pub(super) fn findings(measured: &[Measured]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for way in ["lifo", "delayed"] {
        let Some(primes) = find(measured, "primes", way, 1) else { continue };
        let detail = |name: &str| primes.detail.get(name).copied();
        let stolen = detail("stolen");
        let name = format!("primes, {way}, 1 VP: threads stolen of 1501");
        findings.push(Finding::new(name, stolen, Bound::AtLeast(1499.0)));
        // All of them are evaluating at once, each inside of the one that demanded it.
        let each = detail("blocks_created").zip(detail("at_once")).map(|(frames, levels)| frames / levels);
        let name = format!("primes, {way}, 1 VP: frames for each nesting level");
        findings.push(Finding::new(name, each, Bound::AtMost(1.05)));
    }
    // In boyer the first thread rewrites alone, which is nearly all of the work. In primes each list waits for the last.
    let spread = |name: &&str| !matches!(*name, "boyer-grain" | "primes-grain");
    for name in paper::FIGURE.iter().filter_map(|paper| paper.grain).filter(spread) {
        let time = |vps| Some(find(measured, name, "default", vps)?.ns_per_op);
        let Some(speed_up) = time(1).zip(time(2)).map(|(one, two)| one / two) else { continue };
        let name = format!("{name}, default: 1 VP / 2 VP");
        findings.push(Finding::new(name, Some(speed_up), Bound::AtLeast(1.6)));
    }
    if let Some(primes) = find(measured, "primes", "fibers", 1) {
        // Each level is a fiber that waits for the next one, on a stack of its own.
        let detail = |name: &str| primes.detail.get(name).copied();
        let each = detail("blocks_created").zip(detail("at_once")).map(|(stacks, levels)| stacks / levels);
        let name = "primes, fibers, 1 VP: stacks for each nesting level".to_owned();
        findings.push(Finding::new(name, each, Bound::AtMost(1.05)));
    }
    if let Some(matrix) = find(measured, "matrix-elements", "fibers", 1) {
        let created = matrix.detail.get("blocks_created").copied();
        // The main thread's, and one for all others, while that waits.
        let name = "matrix-elements, fibers, 1 VP: stacks created".to_owned();
        findings.push(Finding::new(name, created, Bound::AtMost(2.0)));
    }
    findings
}

/// Draws the figure into the file.
pub(super) fn draw(path: Option<&Path>, measured: &[Measured]) -> Result<(), Stop> {
    if let Some(path) = path {
        svg(path, measured)?;
    }
    Ok(())
}
