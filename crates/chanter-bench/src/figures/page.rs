//! The page of the book with all figures.

use std::fmt::Write;

use super::Finding;
use crate::report::number;

/// Known reasons why a figure misses its aim: the beginning of its name, and the reason.
const REASONS: [(&str, &str); 7] = [
    (
        "mailbox / go",
        "Go's faster form is a buffer of 1024, which may block its sender. A mailbox never blocks its sender.",
    ),
    (
        "blocked: bytes per parasite",
        "A blocked parasite has its frame (whole cache lines), its channel, and a handle of that.",
    ),
    (
        "delayed: create",
        "A delayed thread takes 7 to 10 ns. The call beside it takes 0.5 ns where the processor renames its argument, \
         and 1.7 ns elsewhere, where the figure is 5.6.",
    ),
    (
        "swerve, wrk",
        "The kernel takes 10.4 of the 15.8 us of a reply, in three system calls. The paper's gain would leave 2.6 us \
         for the rest, where nginx takes 4.1.",
    ),
    (
        "table 1: parasites, as in the paper",
        "The program clones a handle of its channel for each message. Without the clone a trial took 1.42.",
    ),
    ("fib-join", "Half a millisecond is too short to be shared: a sleeping processor is awake after 41 us."),
    ("tak-join", "Half a millisecond is too short to be shared: a sleeping processor is awake after 41 us."),
];

/// Markdown of all findings, with a reason behind each figure that misses its aim.
pub(crate) fn markdown(findings: &[Finding]) -> String {
    let mut page = String::from(HEAD);
    let mut given: Vec<&str> = Vec::new();
    for finding in findings {
        let value = finding.value.map_or("-".to_owned(), number);
        let verdict = match finding.holds {
            Some(true) => "reached".to_owned(),
            None => "not measured".to_owned(),
            Some(false) => match reason(&finding.figure) {
                None => "missed".to_owned(),
                Some(at) => {
                    if !given.contains(&REASONS[at].1) {
                        given.push(REASONS[at].1);
                    }
                    let note = given.iter().position(|text| *text == REASONS[at].1).map_or(0, |at| at + 1);
                    format!("missed ({note})")
                }
            },
        };
        let aim = format!("{} {}", finding.bound, number(finding.floor));
        let _ = writeln!(page, "| {} | {value} | {aim} | {verdict} |", finding.figure.replace('|', "\\|"));
    }
    if !given.is_empty() {
        page.push_str("\n## Where an aim is missed\n\n");
        for (at, reason) in given.iter().enumerate() {
            let _ = writeln!(page, "{}. {reason}", at + 1);
        }
    }
    page
}

fn reason(figure: &str) -> Option<usize> {
    REASONS.iter().position(|(start, _)| figure.starts_with(start))
}

const HEAD: &str = "\
# All figures

<!-- Written by `chanter-bench figures --md`; do not edit. -->

A figure is a ratio within one run, or a plain size. It is the median of interleaved rounds, with the result of the work
checked. Beside a peer, the peer's strongest variant counts. VP is a virtual processor.

The aims were set before the work began. An aim that a bound forbids stays in the table, with its reason below it.
Ratios within a few per cent of their aim fall to either side from run to run: a neighbour on the same core is enough.

```console
$ cargo run --profile figures -p chanter-bench -- figures            # or --quick; --json FILE keeps the results
$ cargo run --profile figures -p chanter-bench -- figures --from FILE --md book/src/figures.md
```

| figure | value | aim | |
|---|--:|--:|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(figure: &str, value: Option<f64>, holds: Option<bool>) -> Finding {
        Finding { figure: figure.to_owned(), value, floor: 1.0, holds, bound: "at most" }
    }

    #[test]
    fn a_reason_is_given_once_and_only_where_an_aim_is_missed() {
        let page = markdown(&[
            finding("mailbox / go, 1 VP", Some(1.2), Some(false)),
            finding("mailbox / go, 2 VP", Some(1.3), Some(false)),
            finding("swerve, wrk: replies", Some(0.5), Some(true)),
            finding("host / go", None, None),
            finding("a new figure", Some(2.0), Some(false)),
        ]);
        assert_eq!(page.matches("missed (1)").count(), 2, "{page}");
        assert_eq!(page.matches("Go's faster form").count(), 1, "{page}");
        assert!(!page.contains("system calls"), "{page}");
        assert!(page.contains("| host / go | - | at most 1.00 | not measured |"), "{page}");
        assert!(page.contains("| a new figure | 2.00 | at most 1.00 | missed |"), "{page}");
    }

    #[test]
    fn a_page_without_misses_has_no_list_of_them() {
        assert!(!markdown(&[finding("a", Some(0.5), Some(true))]).contains("## Where"));
    }
}
