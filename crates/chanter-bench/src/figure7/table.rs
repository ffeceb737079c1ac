//! Figure 7 as the paper prints it, ours beside it.

use comfy_table::{Cell, Table, presets};

use super::paper::{FIGURE, Paper, VPS};
use super::{WAYS, columns, find};
use crate::measure::{Measured, Medians};
use crate::report::{number, right};
use crate::yardstick::Yardstick;

/// A line of a program: its name, the paper's numbers, and our detail of that name.
type Line = (&'static str, fn(&Paper, usize) -> String, &'static str);

const LINES: [Line; 6] = [
    ("threads", |paper, _| paper.threads.to_string(), "threads"),
    ("threads stolen", |paper, column| paper.stolen[column].to_string(), "stolen"),
    ("TCBs created", |paper, column| paper.created[column].to_string(), "blocks_created"),
    ("TCBs allocated", |paper, column| paper.allocated[column].to_string(), "blocks_returned"),
    ("TCBs reused", |paper, column| paper.reused[column].to_string(), "blocks_reused"),
    ("context switches", |_, _| "-".to_owned(), "switches"),
];

const SPEED_UPS: [(&str, &str); 2] =
    [("speed-up, best serial", "speed_up_best"), ("speed-up, same serial", "speed_up_same")];

const MAPPING: &str = "\
best serial: the best algorithm without threads; same serial: the threads' algorithm without them, which is the same
program, with the same figure, except in primes and boyer.
-grain: about as many processor cycles for each thread as in the paper, which had 33 MHz: more work for the same threads,
and in boyer as many threads as in the paper, which have more each.
lifo: futures are scheduled, one LIFO queue for all, as in the paper; default: the same under work stealing;
delayed: only a demand runs them. A TCB is a dynamic context that a thread takes when it first runs. Here a thread has
a frame from its birth, also one that will be stolen, so the three lines count frames, and add up to all threads:
created of new memory (16 at a time), come home from other virtual processors' dead threads, used again at once.
A stolen thread runs on its thief's stack. Context switches: how often a virtual processor took a thread from its queue,
also one that was stolen meanwhile; the paper does not count them. fibers: as lifo, with threads that have stacks. Their
lines count stacks, one of which is the main thread's: created by the OS, allocated from the virtual processor's pool,
reused at once after the fiber that left them. A fiber that is stolen has a stack, too (docs/limits.md says why), so the
three lines add up to all fibers.";

/// The table, and how its words map; empty if none of its programs was measured.
pub(crate) fn table(measured: &[Measured], most_vps: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let vps: Vec<usize> = columns(most_vps).collect();
    let mut header = ["figure 7", "best serial", "same serial"].map(str::to_owned).to_vec();
    for vps in &vps {
        header.extend(WAYS.iter().map(|way| format!("{} {vps}", way.name)));
        header.push(format!("paper {vps}"));
    }
    table.set_header(header);
    let was_measured = |program: &str| measured.iter().any(|m| m.case.bench == program);
    let all = FIGURE.iter().flat_map(|paper| paper.names().map(move |name| (name, paper)));
    for (name, paper) in all.filter(|(name, _)| was_measured(name)) {
        let in_ms = |ns: f64| format!("{} ms", number(ns / 1e6));
        let milliseconds = |medians: &Medians| in_ms(medians.ns_per_op);
        let times = row(name, measured, &vps, milliseconds, |column| format!("{} s", paper.seconds[column]));
        let serially = Yardstick::of(measured, name);
        let serially = [serially.map(|y| y.best), serially.map(|y| y.same)]
            .map(|ns| right(&ns.map_or("-".to_owned(), in_ms)));
        table.add_row(std::iter::once(Cell::new(name)).chain(serially).chain(times));
        for (line, of) in SPEED_UPS {
            let ours =
                |medians: &Medians| medians.detail.get(of).map_or("-".to_owned(), |&value| number(value));
            let cells = row(name, measured, &vps, ours, |_| "-".to_owned());
            table.add_row(
                [Cell::new(format!("  {line}")), Cell::new(""), Cell::new("")].into_iter().chain(cells),
            );
        }
        for (line, of_paper, detail) in LINES {
            let ours = |medians: &Medians| medians.detail.get(detail).map_or("-".to_owned(), f64::to_string);
            let cells = row(name, measured, &vps, ours, |column| of_paper(paper, column));
            table.add_row(
                [Cell::new(format!("  {line}")), Cell::new(""), Cell::new("")].into_iter().chain(cells),
            );
        }
    }
    if table.is_empty() { String::new() } else { format!("{table}\n{MAPPING}\n") }
}

fn row(
    program: &str,
    measured: &[Measured],
    vps: &[usize],
    ours: impl Fn(&Medians) -> String,
    theirs: impl Fn(usize) -> String,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for vps in vps {
        for way in &WAYS {
            let medians = find(measured, program, way.name, *vps);
            cells.push(right(&medians.map_or("-".to_owned(), &ours)));
        }
        let column = VPS.iter().position(|known| known == vps);
        cells.push(right(&column.map_or("-".to_owned(), &theirs)));
    }
    cells
}
