//! Tables 3 and 4: calls and fallbacks of every pair of schemas, over a plain call, Base's invocation, a `Mutex`, an actor.

use chanter_programs::kit;
use chanter_programs::schemas::{Outcome, Pair, Schema, Study};
use comfy_table::{Cell, Table, presets};

use super::published;
use crate::case::{Case, Failure, Sample, expect};
use crate::figures::Finding;
use crate::measure::Measured;
use crate::peers::actor;
use crate::report::{number, right};

const ACTOR: &str = "an actor's message";
const SCHEMAS: [Schema; 4] =
    [Schema::Parallel, Schema::NonBlocking, Schema::MayBlock, Schema::ContinuationPassing];

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn failed(failure: kit::Failure) -> Failure {
    match failure {
        kit::Failure::Wrong(what) => Failure::Wrong(what),
        other => Failure::Broken(other.to_string()),
    }
}

/// Every pair and study, in one family: their rounds are interleaved.
pub(super) fn cases(quick: bool) -> Vec<Case> {
    let n = if quick { 5_000 } else { 200_000 };
    let mut cases = Vec::new();
    for pair in Pair::all() {
        let case = Case::new("schemas", "chanter", leaked(pair.to_string()), move |load| {
            Ok(Sample::new(load.n, pair.run(load.n).map_err(failed)?))
        });
        cases.push(case.load_of(n, 1));
    }
    for study in Study::ALL {
        let case = Case::new("schemas", "chanter", leaked(study.to_string()), move |load| {
            Ok(Sample::new(load.n, study.run(load.n).map_err(failed)?))
        });
        cases.push(case.load_of(n, 1));
    }
    let ask = Case::new("schemas", "ractor", ACTOR, |load| {
        let (elapsed, sum) = actor::asked(load.n)?;
        expect("the sum", sum, load.n * (load.n + 1) / 2)?;
        Ok(Sample::new(load.n, elapsed))
    });
    cases.push(ask.load_of(n, 1));
    cases
}

/// Nanoseconds of the measured cases.
pub(super) struct Costs<'a>(pub(super) &'a [Measured]);

impl Costs<'_> {
    fn of(&self, variant: &str) -> Option<f64> {
        let found = self.0.iter().find(|m| m.case.bench == "schemas" && m.case.variant == variant)?;
        found.outcome.as_ref().ok().map(|medians| medians.ns_per_op)
    }

    pub(super) fn pair(&self, pair: Pair) -> Option<f64> {
        self.of(&pair.to_string())
    }

    fn study(&self, study: Study) -> Option<f64> {
        self.of(&study.to_string())
    }

    fn plain(&self) -> Option<f64> {
        self.pair(Pair::new(Schema::Plain, Schema::Plain, Outcome::Ends))
    }

    /// A pair's rival: Base that does the same, or as many plain calls.
    fn yardstick(&self, pair: Pair) -> Option<f64> {
        let kept = pair.callee == Schema::ContinuationPassing;
        match pair.outcome {
            Outcome::Blocks if kept => self.study(Study::BaseKept),
            Outcome::Blocks => self.pair(Pair::new(Schema::Parallel, Schema::Parallel, Outcome::Blocks)),
            Outcome::Ends if kept && pair.caller == pair.callee => self.study(Study::TwoPlain),
            Outcome::Ends => self.plain(),
        }
    }

    pub(super) fn ratio(&self, pair: Pair) -> Option<f64> {
        Some(self.pair(pair)? / self.yardstick(pair)?)
    }
}

/// Promises about calls.
pub(super) fn findings(measured: &[Measured]) -> Vec<Finding> {
    let costs = Costs(measured);
    let mut findings = Vec::new();
    let mut at_most = |figure: String, value: Option<f64>, floor: f64| {
        findings.push(Finding {
            figure,
            value,
            floor,
            holds: value.map(|value| value <= floor),
            bound: "at most",
        });
    };
    for pair in Pair::all() {
        let floor = match (pair.caller, pair.callee, pair.outcome) {
            (Schema::Plain, ..) | (_, Schema::Parallel, _) => continue,
            (.., Outcome::Blocks) => 1.2,
            (_, Schema::NonBlocking, _) => 1.5,
            _ => 3.0,
        };
        let over = match (pair.outcome, pair.caller) {
            (Outcome::Blocks, _) => "Base's invocation",
            (_, Schema::ContinuationPassing) if pair.callee == pair.caller => "two plain calls",
            _ => "a plain call",
        };
        at_most(format!("{pair}: over {over}"), costs.ratio(pair), floor);
    }
    for callee in [Schema::NonBlocking, Schema::MayBlock, Schema::ContinuationPassing] {
        let call = costs.pair(Pair::new(Schema::MayBlock, callee, Outcome::Ends));
        let over = |other: Option<f64>| call.zip(other).map(|(call, other)| call / other);
        at_most(format!("MB -> {callee}: over a Mutex and a call"), over(costs.study(Study::Mutex)), 0.3);
        at_most(format!("MB -> {callee}: over an actor's message (ractor)"), over(costs.of(ACTOR)), 0.02);
    }
    for schema in [Schema::NonBlocking, Schema::MayBlock, Schema::ContinuationPassing] {
        let conc = costs.study(Study::ConcOfEight(schema));
        let calls = costs.study(Study::Eight(schema));
        let ratio = conc.zip(calls).map(|(conc, calls)| conc / calls);
        at_most(format!("conc! of 8 calls over 8 calls, {schema}"), ratio, 1.2);
    }
    findings
}

/// Table 4, here and in the paper.
pub(super) fn tables(measured: &[Measured]) -> String {
    let costs = Costs(measured);
    let mut text = String::new();
    for (outcome, title) in [
        (
            Outcome::Ends,
            "Concert, table 4: calls. Nanoseconds (over a plain call) [the paper: instructions more than a C call's 25 to 40]",
        ),
        (
            Outcome::Blocks,
            "Concert, table 4: fallbacks. Nanoseconds (over Base that does the same) [the paper: us more than the call; Base is 2.1]",
        ),
    ] {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(std::iter::once("caller \\ callee").chain(SCHEMAS.map(Schema::name)));
        for caller in SCHEMAS {
            let mut row = vec![Cell::new(caller)];
            row.extend(SCHEMAS.map(|callee| right(&entry(&costs, Pair::new(caller, callee, outcome)))));
            table.add_row(row);
        }
        text += &format!("{title}\n{table}\n\n");
    }
    text
}

fn entry(costs: &Costs<'_>, pair: Pair) -> String {
    let Some(ns) = costs.pair(pair) else {
        let never = pair.outcome == Outcome::Blocks && pair.callee == Schema::NonBlocking;
        return if never { "never" } else { "-" }.to_owned();
    };
    let ratio = costs.ratio(pair).map_or("-".to_owned(), number);
    let paper = match pair.outcome {
        Outcome::Ends => published::instructions(pair),
        Outcome::Blocks => published::fallback_us(pair),
    };
    let paper = paper.map_or(String::new(), |value| format!(" [{}]", number(value)));
    format!("{} ({ratio}){paper}", number(ns))
}

/// A plot's bars: here, and the paper's, both as parts of Base's invocation.
pub(super) fn bars(measured: &[Measured]) -> Vec<(String, f64, Option<f64>)> {
    let costs = Costs(measured);
    let base = costs.pair(Pair::new(Schema::Parallel, Schema::Parallel, Outcome::Ends));
    let mut bars = Vec::new();
    for pair in Pair::all() {
        let (Some(ns), Some(base)) = (costs.pair(pair), base) else { continue };
        // A C call is about 32 instructions; Base's invocation 320 more, which are 2.1 us.
        let paper = match pair.outcome {
            Outcome::Ends => published::instructions(pair).map(|more| (32.0 + more) / 352.0),
            Outcome::Blocks => published::fallback_us(pair).map(|us| us / published::BASE_US),
        };
        bars.push((pair.to_string(), ns / base, paper));
    }
    bars
}
