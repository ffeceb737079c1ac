//! Concert's figure 10 as a table and as plots.

use comfy_table::{Cell, Table, presets};

use super::job::By;
use super::patterns::{PATTERNS, Pattern, Round, SIZES};
use super::published::TABLE_5;
use super::rows::Rows;
use crate::measure::median;
use crate::report::{number, right};

pub(super) const ALL: [By; 4] = [By::Segment, By::Pushed, By::Sockets, By::Mpi];

impl By {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Segment => "pull: memory of the node",
            Self::Pushed => "push: memory of the node",
            Self::Sockets => "push: Unix sockets",
            Self::Mpi => "push: MPI",
        }
    }
}

fn of(rows: &Rows, (by, pattern, size): (By, Pattern, usize), value: fn(&Round) -> f64) -> Option<f64> {
    let rounds = rows.patterns.iter();
    let found: Vec<f64> = rounds
        .filter(|found| (found.by, found.pattern, found.size) == (by, pattern, size))
        .map(value)
        .collect();
    median(&found)
}

/// Cost of a message for its sender, in nanoseconds.
pub(super) fn send(rows: &Rows, by: By, pattern: Pattern, size: usize) -> Option<f64> {
    of(rows, (by, pattern, size), |round| round.send_ns)
}

/// And its receiver.
pub(super) fn receive(rows: &Rows, by: By, pattern: Pattern, size: usize) -> Option<f64> {
    of(rows, (by, pattern, size), |round| round.receive_ns)
}

/// The sender's cost of the extreme pattern, divided by that of the plain one.
pub(super) fn robustness(rows: &Rows, by: By, size: usize) -> Option<f64> {
    Some(send(rows, by, Pattern::AllToOne, size)? / send(rows, by, Pattern::PointToPoint, size)?)
}

/// Concert's table 5: the costs for sender and receiver of one process that sends to another one.
pub(super) fn table_5(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let sizes = SIZES.iter().map(|size| format!("{size} B"));
    table.set_header(["protocol", "cost for"].map(str::to_owned).into_iter().chain(sizes));
    for by in [By::Segment, By::Pushed] {
        for (words, of) in
            [("its sender", send as fn(&Rows, By, Pattern, usize) -> _), ("its receiver", receive)]
        {
            let values = SIZES.map(|size| of(rows, by, Pattern::PointToPoint, size));
            let values = values.map(|value| right(&value.map_or("-".to_owned(), number)));
            table.add_row([by.words(), words].map(Cell::new).into_iter().chain(values));
        }
    }
    for (words, theirs) in TABLE_5 {
        let values = theirs.map(|us| right(&number(us * 1e3)));
        table.add_row(words.map(Cell::new).into_iter().chain(values));
    }
    format!("Concert, table 5: ns that a message costs, point-to-point, beside the paper's on a T3D\n{table}")
}

pub(super) fn table(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let columns = PATTERNS.iter().map(|pattern| pattern.words().to_owned());
    let header = ["what carries it", "bytes"].map(str::to_owned).into_iter().chain(columns);
    table.set_header(header.chain(["all-to-one / point-to-point".to_owned()]));
    for by in ALL {
        for size in SIZES {
            let mut row = vec![Cell::new(by.words()), right(&size.to_string())];
            row.extend(PATTERNS.map(|pattern| {
                let both = [send(rows, by, pattern, size), receive(rows, by, pattern, size)];
                right(&both.map(|value| value.map_or("-".to_owned(), number)).join("  "))
            }));
            row.push(right(&robustness(rows, by, size).map_or("-".to_owned(), number)));
            table.add_row(row);
        }
    }
    format!(
        "Concert, figure 10: ns that a message costs its sender, and its receiver; 4 processes, receivers that do not answer.\n\
         (The paper, 1024 bytes on 64 nodes of a T3D, sender's us: push 13.5 point-to-point, 30 all-to-all, 95 hotspot x16, \
         455 all-to-one; pull about the same in all.)\n{table}"
    )
}
