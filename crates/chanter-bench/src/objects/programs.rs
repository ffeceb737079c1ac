//! The paper's programs (section 5.2): the times of objects divided by those of a serial version, and of rayon on as
//! many threads.

use std::sync::{Arc, OnceLock};

use chanter_programs::kit::{self, Form, Prepared, Program, Size};
use chanter_programs::radiosity::Radiosity;
use comfy_table::{Cell, Table, presets};

use crate::case::{Case, Failure, Sample};
use crate::figures::Finding;
use crate::measure::Measured;
use crate::report::{number, right};

const PROGRAMS: [&str; 2] = ["radiosity", "molecular-dynamics"];
const FORMS: [(Form, usize); 5] =
    [(Form::Serial, 1), (Form::Rayon, 1), (Form::Rayon, 2), (Form::Objects, 1), (Form::Objects, 2)];

fn system(form: Form) -> &'static str {
    match form {
        Form::Serial => "plain",
        Form::Rayon => "rayon",
        _ => "chanter",
    }
}

type Known = Arc<OnceLock<Result<Box<dyn Prepared>, String>>>;

fn sample(prepared: &dyn Prepared, form: Form, vps: usize) -> Result<Sample, Failure> {
    let run =
        prepared.run(&kit::Load::new(form, vps).bound_if_possible()).map_err(|failure| match failure {
            kit::Failure::Wrong(what) => Failure::Wrong(what),
            other => Failure::Broken(other.to_string()),
        })?;
    Ok(Sample::new(1, run.elapsed))
}

pub(super) fn cases(quick: bool) -> Vec<Case> {
    let size = if quick { Size::Quick } else { Size::Paper };
    let mut cases = Vec::new();
    for name in PROGRAMS {
        let entry = chanter_programs::find(name).expect("it is in the list");
        let known: Known = Arc::default();
        for (form, vps) in FORMS {
            let known = Arc::clone(&known);
            let case = Case::new(entry.name, system(form), form.name(), move |load| {
                let prepared = known.get_or_init(|| entry.prepare(size).map_err(|why| why.to_string()));
                let prepared = prepared.as_ref().map_err(|why| Failure::Wrong(why.clone()))?;
                sample(&**prepared, form, load.vps)
            });
            cases.push(case.load_of(1, vps).cold());
        }
    }
    cases
}

/// Distance between radiosity's light and that of two other methods: equally small parts, and particles. All forms of
/// the program have the same distance.
pub(super) fn accuracy() -> [Finding; 2] {
    let input = Radiosity::input(Size::Paper);
    let solution = Radiosity::serial(&input);
    let finding = |other: &str, off: f64| Finding {
        figure: format!("radiosity: difference to light by {other}"),
        value: Some(off),
        floor: 0.01,
        holds: Some(off <= 0.01),
        bound: "at most",
    };
    [
        finding("uniform parts", solution.off_uniform(&input.scene, 1_200.0)),
        finding("particles", solution.off_traced(&input.scene, 4_000_000)),
    ]
}

fn ns(measured: &[Measured], program: &str, form: Form, vps: usize) -> Option<f64> {
    let found = measured
        .iter()
        .find(|m| (m.case.bench, m.case.variant, m.case.vps) == (program, form.name(), vps))?;
    found.outcome.as_ref().ok().map(|medians| medians.ns_per_op)
}

pub(super) fn findings(measured: &[Measured]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for program in PROGRAMS {
        let ns = |form, vps| ns(measured, program, form, vps);
        let objects = |vps| ns(Form::Objects, vps);
        for (figure, value, floor) in [
            ("objects, 1 VP, over serial by hand", objects(1).zip(ns(Form::Serial, 1)), 1.15),
            ("objects, 2 VPs, over rayon on 2 threads", objects(2).zip(ns(Form::Rayon, 2)), 1.1),
        ] {
            let value = value.map(|(ours, theirs)| ours / theirs);
            findings.push(Finding {
                figure: format!("{program}: {figure}"),
                value,
                floor,
                holds: value.map(|value| value <= floor),
                bound: "at most",
            });
        }
    }
    findings
}

/// Speed-up over the serial version.
pub(super) fn bars(measured: &[Measured]) -> Vec<(String, f64, Option<f64>)> {
    let mut bars = Vec::new();
    for program in PROGRAMS {
        for (form, vps) in FORMS {
            let both = ns(measured, program, Form::Serial, 1).zip(ns(measured, program, form, vps));
            bars.extend(
                both.map(|(one, ns)| (format!("{program}: {}, on {vps}", form.name()), one / ns, None)),
            );
        }
    }
    bars
}

pub(super) fn table(measured: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["program", "form", "on", "ms", "speed-up over serial"]);
    for program in PROGRAMS {
        let serial = ns(measured, program, Form::Serial, 1);
        for (form, vps) in FORMS {
            let Some(ns) = ns(measured, program, form, vps) else { continue };
            table.add_row([
                Cell::new(program),
                Cell::new(form.name()),
                right(&vps.to_string()),
                right(&number(ns / 1e6)),
                right(&serial.map_or("-".to_owned(), |serial| number(serial / ns))),
            ]);
        }
    }
    format!("Concert, section 5.2: the programs in one process\n{table}\n")
}
