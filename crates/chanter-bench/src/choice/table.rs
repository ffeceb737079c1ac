//! The table: a row for each piece of work, a column for each system.

use comfy_table::{Cell, Table, presets};

use super::KEPT;
use crate::measure::Measured;
use crate::report::{number, right};

const HEAD: &str = "\
ns per choice. One thread makes all choices of a row.
  busy-n       over n receives, all fed (up to 64 by a thread each; 1024 by 64 threads, 16 channels each, in turn)
  one-n        over n receives, of which one is ever fed
  mixed-n      over n/2 receives and n/2 sends, a partner thread at each
  choose-both  two threads that each choose to send or to receive
  timer, recv  a receive in a choice with a timer of 1 s, and a receive alone
Chanter, Go: rendezvous. Tokio and what runs over it: mpsc(1), on Tokio. crossbeam and flume's Selector: rendezvous
between OS threads, which use all processors. *: the set of branches is made once and kept for all choices.
";

/// Columns are systems, in order of appearance.
pub(super) fn table(measured: &[Measured]) -> String {
    let mut columns: Vec<(&str, &str)> = Vec::new();
    let mut rows: Vec<(&str, usize)> = Vec::new();
    let mut reasons: Vec<&str> = Vec::new();
    for Measured { case, outcome } in measured {
        add(&mut columns, (case.system, case.variant));
        add(&mut rows, (case.bench, case.vps));
        if let Err(why) = outcome {
            add(&mut reasons, why);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let title = |(system, variant): &(&str, &str)| {
        Cell::new(format!("{system} {variant}{}", if KEPT.contains(variant) { "*" } else { "" }))
    };
    table.set_header([Cell::new("row"), Cell::new("VPs")].into_iter().chain(columns.iter().map(title)));
    for (bench, vps) in rows {
        let cells = columns.iter().map(|&column| {
            let is = |m: &&Measured| {
                (m.case.bench, m.case.vps, (m.case.system, m.case.variant)) == (bench, vps, column)
            };
            right(&match measured.iter().find(is).map(|m| &m.outcome) {
                Some(Ok(medians)) => number(medians.ns_per_op),
                Some(Err(why)) => format!("cannot ({})", 1 + position(&reasons, why)),
                None => String::new(),
            })
        });
        table.add_row([Cell::new(bench), right(&vps.to_string())].into_iter().chain(cells));
    }
    let notes = reasons.iter().enumerate().map(|(at, why)| format!("({}) {why}\n", at + 1));
    format!("{HEAD}\n{table}\n{}", notes.collect::<String>())
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn position(reasons: &[&str], why: &str) -> usize {
    reasons.iter().position(|reason| *reason == why).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::{Case, Failure, Sample};
    use crate::measure::measure;

    #[test]
    fn who_cannot_is_told_with_the_reason_and_who_was_not_asked_is_blank() {
        let fine = |bench, variant| {
            Case::new(bench, "chanter", variant, |load| {
                Ok(Sample::new(load.n, Duration::from_nanos(70 * load.n)))
            })
        };
        let no = Case::new("busy-2", "tokio", "select!", |_| Err(Failure::Cannot("too many".to_owned())));
        let measured = measure(vec![fine("busy-2", "vec"), no, fine("timer", "tuple")], 1);
        let text = table(&measured.unwrap_or_else(|f| panic!("{f}")));
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap();
            line.split('|').map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("row"), ["row", "VPs", "chanter vec", "tokio select!", "chanter tuple"]);
        assert_eq!(row("busy-2"), ["busy-2", "1", "70.0", "cannot (1)"]);
        assert_eq!(row("timer"), ["timer", "1", "70.0"]);
        assert!(text.contains("(1) too many"), "{text}");
    }
}
