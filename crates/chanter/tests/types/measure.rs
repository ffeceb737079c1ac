//! Fills the table in: asks the compiler, with one question a line, each a function that compiles
//! or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::probe::Probe;
use crate::table::{Answer, Row, Table, Variance};

/// The types that stand for `T` while a trait is asked for: one for each way of being `Send` or not, and `Sync` or
/// not.
const WITNESSES: [&str; 4] =
    ["u8", "::std::cell::Cell<u8>", "::std::sync::MutexGuard<'static, u8>", "*const u8"];
/// The same for `Unpin`.
const PINNED: [&str; 2] = ["u8", "::std::marker::PhantomPinned"];

/// The table of the same types, filled in by the compiler.
pub(crate) fn measure(table: &Table) -> Table {
    // Two programs: while a type lacks a trait, the borrow checker may not be asked.
    let mut traits = Questions::new();
    let mut variances = Questions::new();
    let mut asked = Vec::new();
    for section in &table.sections {
        traits.enter(&section.module);
        variances.enter(&section.module);
        for name in &section.traits {
            traits.must(&format!("<T: {name}>() {{}}"));
        }
        for row in &section.rows {
            asked.push((Traits::ask(row, &mut traits), Variances::ask(row, &mut variances)));
        }
        traits.leave();
        variances.leave();
    }
    let probe = Probe::new(&["chanter", "chanter-explore", "swerve"]);
    let traits = traits.answers("traits", &probe, "error[E0277]");
    let variances = variances.answers("variances", &probe, "lifetime may not live long enough");
    let mut measured = table.clone();
    let rows = measured.sections.iter_mut().flat_map(|section| &mut section.rows);
    for (row, (asked_traits, asked_variances)) in rows.zip(asked) {
        row.traits = asked_traits.answered(&traits);
        row.variances = asked_variances.answered(&variances);
    }
    measured
}

/// The lines that ask whether a type is `Send`, `Sync` and `Unpin`, for each witness.
struct Traits([Vec<usize>; 3]);

impl Traits {
    fn ask(row: &Row, questions: &mut Questions) -> Self {
        let generic = row.holes().iter().any(|hole| hole == "T");
        let mut ask = |bound: &str, witnesses: &[&'static str]| {
            let witnesses = if generic { witnesses } else { &witnesses[..1] };
            let mut lines = Vec::new();
            for witness in witnesses {
                let filled = row.filled(|hole| if hole == "T" { witness } else { "'static" });
                // The name is right, and the witness may be there.
                questions.must(&format!("<'x>(_: *const {filled}) {{}}"));
                lines.push(questions.ask(&format!("<'x>() {{ super::{bound}::<{filled}>() }}")));
            }
            lines
        };
        Self([ask("send", &WITNESSES), ask("sync", &WITNESSES), ask("unpin", &PINNED)])
    }

    fn answered(self, answers: &Answers) -> [Answer; 3] {
        self.0.map(|lines| match *lines.iter().map(|line| answers.is_yes(*line)).collect::<Vec<_>>() {
            [true] | [true, true] | [true, true, true, true] => Answer::Yes,
            [false] | [false, false] | [false, false, false, false] => Answer::No,
            [true, true, false, false] => Answer::If("T: Send"),
            [true, false, true, false] => Answer::If("T: Sync"),
            [true, false, false, false] => Answer::If("T: Send + Sync"),
            [true, false] => Answer::If("T: Unpin"),
            ref other => panic!("no condition that has a name: {other:?}"),
        })
    }
}

/// For each hole of a type, the lines that ask whether a lifetime there may shrink, and grow.
struct Variances(Vec<(String, usize, usize)>);

impl Variances {
    fn ask(row: &Row, questions: &mut Questions) -> Self {
        let holes = row.holes().into_iter().map(|hole| {
            let with = |lifetime: &str| {
                row.filled(|other| match (other == hole, other) {
                    (true, "T") => format!("&{lifetime} str"),
                    (true, _) => lifetime.to_owned(),
                    (false, "T") => "u8".to_owned(),
                    (false, _) => "'x".to_owned(),
                })
            };
            let mut ask = |from: &str, to: &str| {
                questions.ask(&format!("<'x, 'a>(it: {}) -> {} {{ it }}", with(from), with(to)))
            };
            let (shrinks, grows) = (ask("'static", "'a"), ask("'a", "'static"));
            (hole, shrinks, grows)
        });
        Self(holes.collect())
    }

    fn answered(self, answers: &Answers) -> Vec<(String, Variance)> {
        let answered = |(hole, shrinks, grows)| {
            let variance = match (answers.is_yes(shrinks), answers.is_yes(grows)) {
                (true, true) => panic!("the compiler knows no parameter that is unused"),
                (true, false) => Variance::Covariant,
                (false, true) => Variance::Contravariant,
                (false, false) => Variance::Invariant,
            };
            (hole, variance)
        };
        self.0.into_iter().map(answered).collect()
    }
}

/// A program of questions, one a line.
struct Questions {
    program: String,
    lines: usize,
    /// Lines that must compile; otherwise the table names a type that does not exist.
    must: BTreeSet<usize>,
}

impl Questions {
    fn new() -> Self {
        let mut new = Self { program: String::new(), lines: 0, must: BTreeSet::new() };
        new.line("#![allow(warnings)]");
        new.line("fn main() {}");
        for (bound, name) in [("send", "Send"), ("sync", "Sync"), ("unpin", "Unpin")] {
            new.line(&format!("fn {bound}<T: ::std::marker::{name}>() {{}}"));
        }
        new
    }

    fn line(&mut self, line: &str) -> usize {
        writeln!(self.program, "{line}").expect("a string");
        self.lines += 1;
        self.lines
    }

    /// Asks the questions that follow where the names of `module` are known.
    fn enter(&mut self, module: &str) {
        self.line(&format!("mod m{} {{ use ::{module}::*;", self.lines));
    }

    fn leave(&mut self) {
        self.line("}");
    }

    /// Asks whether `function`, the rest of a function's text behind its name, compiles. Returns the line.
    fn ask(&mut self, function: &str) -> usize {
        self.line(&format!("fn f{}{function}", self.lines))
    }

    fn must(&mut self, function: &str) {
        let line = self.ask(function);
        self.must.insert(line);
    }

    fn answers(self, name: &str, probe: &Probe, expected: &str) -> Answers {
        let errors = probe.errors(name, &self.program);
        for (line, error) in &errors {
            let asked = self.program.lines().nth(line - 1).expect("a line");
            assert!(!self.must.contains(line) && error.contains(expected), "{error}\n{asked}");
        }
        Answers(errors)
    }
}

struct Answers(BTreeMap<usize, String>);

impl Answers {
    fn is_yes(&self, line: usize) -> bool {
        !self.0.contains_key(&line)
    }
}
