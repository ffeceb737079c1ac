//! The promises, and the verdict on the paper's hypothesis.

use super::exercise::{self, Who};
use super::job::By;
use super::member::SHIPPED;
use super::patterns::{Pattern, SIZES};
use super::process::{WAITING, What};
use super::published::TABLE_2;
use super::rows::Rows;
use super::{LARGE, figure10, pressed};
use crate::figures::{Bound, Finding};
use crate::measure::Measured;

/// All of them. A message's floor is 5 %, or 100 ns, whichever is more.
pub(super) fn findings(rows: &Rows, micro: &[Measured]) -> Vec<Finding> {
    let mut findings = Vec::new();
    table_2(rows, &mut findings);
    shipped(rows, &mut findings);
    polling(rows, &mut findings);
    waiting(rows, &mut findings);
    findings.extend(push_and_pull(rows));
    sockets(micro, &mut findings);
    findings
}

fn at_most(findings: &mut Vec<Finding>, figure: String, value: Option<f64>, floor: f64) {
    findings.push(Finding::new(figure, value, Bound::AtMost(floor)));
}

fn table_2(rows: &Rows, findings: &mut Vec<Finding>) {
    for row in &TABLE_2 {
        let raw = rows.ns(What::Process, row.bytes);
        for (what, words) in [
            (What::ThreadPolls, "thread polls"),
            (What::SchedulerPolls, "scheduler polls"),
            (What::ThreadPollsBuffers, "thread polls, in buffers"),
            (What::SchedulerPollsBuffers, "scheduler polls, in buffers"),
        ] {
            let more = rows.ns(what, row.bytes).zip(raw).map(|(ours, raw)| ours - raw);
            let least = if row.bytes <= 8192 { 100.0 } else { 0.0 };
            let floor = raw.map_or(least, |raw| (0.05 * raw).max(least));
            at_most(findings, format!("{} B over MPI, {words}: ns more", row.bytes), more, floor);
        }
    }
    for bytes in LARGE {
        for (what, words) in [(What::ThreadPolls, "thread polls"), (What::SchedulerPolls, "scheduler polls")]
        {
            let figure = format!("{} KB over MPI, {words}: per cent more", bytes / 1024);
            at_most(findings, figure, rows.overhead(what, bytes), 3.0);
        }
        let copies = rows.get(What::Copies, bytes).map(|row| row.ns);
        at_most(
            findings,
            format!("{} KB over MPI: copies of a message beside MPI's own", bytes / 1024),
            copies,
            0.0,
        );
    }
}

fn shipped(rows: &Rows, findings: &mut Vec<Finding>) {
    for size in SHIPPED {
        for (what, words, floor) in
            [(What::ShippedThreadPolls, "threads that poll", 0.7), (What::Shipped, "default", 1.0)]
        {
            let ratio = rows.ratio(what, What::ShippedProcess, size);
            at_most(findings, format!("{size} B on one node, {words} / MPI alone"), ratio, floor);
        }
    }
}

fn polling(rows: &Rows, findings: &mut Vec<Finding>) {
    let worst = exercise::worst_ratio(&rows.exercises);
    let figure = "tables 3 to 5: Chanter over the best of the paper's forms, at worst".to_owned();
    at_most(findings, figure, worst, 1.05);
    let empty = |waiting| rows.ns(What::EmptyPoll, waiting);
    let (few, many) = (WAITING[0], WAITING[WAITING.len() - 1]);
    at_most(findings, format!("empty poll with {many} receives: ns"), empty(many), 60.0);
    let growth = empty(many).zip(empty(few)).map(|(many, few)| many / few);
    at_most(findings, format!("empty poll, {many} receives over {few}"), growth, 1.5);
}

fn waiting(rows: &Rows, findings: &mut Vec<Finding>) {
    let idle = rows.ns(What::Idle, 4).map(|ns| ns / 1e7);
    at_most(findings, "idle job of 4 processes: per cent of a processor".to_owned(), idle, 1.0);
    let wake = rows.ns(What::Wake, 4).map(|ns| ns / 1e3);
    at_most(findings, "waking one of them, p50: us".to_owned(), wake, 25.0);
}

fn patterns(rows: &Rows, findings: &mut Vec<Finding>) {
    for size in SIZES {
        let figure = format!("figure 10, pull, {size} B: sender's cost all-to-one / point-to-point");
        at_most(findings, figure, figure10::robustness(rows, By::Segment, size), 1.2);
    }
    for size in SIZES {
        let pushed = [By::Pushed, By::Mpi, By::Sockets];
        let cost = |by| figure10::receive(rows, by, Pattern::AllToOne, size);
        let push = pushed.into_iter().filter_map(cost).reduce(f64::min);
        let ratio = cost(By::Segment).zip(push).map(|(pull, push)| pull / push);
        at_most(
            findings,
            format!("figure 10, all-to-one, {size} B: receiver's cost, pull / push"),
            ratio,
            2.0,
        );
    }
}

/// Push against pull, in the same memory and else.
pub(super) fn push_and_pull(rows: &Rows) -> Vec<Finding> {
    let mut findings = Vec::new();
    patterns(rows, &mut findings);
    pressed_patterns(rows, &mut findings);
    findings
}

/// Receivers that are slower than their senders.
fn pressed_patterns(rows: &Rows, findings: &mut Vec<Finding>) {
    let [_, many] = pressed::PROCESSES;
    let [short, _] = pressed::BURSTS;
    for size in SIZES {
        let of = |by| {
            let cell = pressed::Cell { pattern: Pattern::AllToOne, size, burst: short };
            pressed::send(&rows.pressed, by, many, cell)
        };
        let ratio = of(By::Segment).zip(of(By::Pushed)).map(|(pull, push)| pull / push);
        let figure =
            format!("{many} processes, all-to-one, slow receiver, {size} B: sender's cost, pull / push");
        at_most(findings, figure, ratio, 1.2);
    }
}

/// The median of a case.
fn ns(micro: &[Measured], bench: &str, system: &str, variant: &str) -> Option<f64> {
    let is = |m: &&Measured| (m.case.bench, m.case.system, m.case.variant) == (bench, system, variant);
    micro.iter().find(is)?.outcome.as_ref().ok().map(|medians| medians.ns_per_op)
}

fn sockets(micro: &[Measured], findings: &mut Vec<Finding>) {
    for kind in ["unix", "tcp"] {
        let ours = ns(micro, "round-trip", "chanter", kind);
        let raw = ns(micro, "round-trip", "os", kind);
        let ratio = ours.zip(raw).map(|(ours, raw)| ours / raw);
        at_most(findings, format!("1 KB round trip by {kind} / raw sockets"), ratio, 1.5);
    }
    for threads in ["one thread", "two threads"] {
        let by = |variant| ns(micro, "by-name", "chanter", variant);
        let (name, mailbox) = match threads {
            "one thread" => (by("one thread, by name"), by("one thread, mailbox")),
            _ => (by("two threads, by name"), by("two threads, mailbox")),
        };
        let more = name.zip(mailbox).map(|(name, mailbox)| name - mailbox);
        at_most(findings, format!("by name in one process, {threads}: ns more than a mailbox"), more, 25.0);
    }
}

/// The paper's hypothesis (section 4.2): with one test for all waiting threads, a waiting queue does better than with a
/// test for each. Its authors could not try that.
pub(super) fn verdict(rows: &Rows) -> Option<String> {
    let each = exercise::any_over(&rows.exercises, Who::QueueEach)?;
    let partial = exercise::any_over(&rows.exercises, Who::PartialSwitch)?;
    let holds = if each <= 0.95 { "holds" } else { "does not hold" };
    Some(format!(
        "The paper's open hypothesis (section 4.2) {holds} here: a waiting queue with one test for any of its receives takes {each:.2} \
         of the time of one with a test for each. That is {partial:.2} of the time of a partial switch (medians of the cells)."
    ))
}
