//! The microkernel (Karamcheti, Plevyak and Chien, section 5.1). Jobs of several processes measure its efficiency by
//! grain, share of local accesses, pattern, and version of the runtime. Each way of carrying messages has a job of its
//! own. How threads run is chosen for each run.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_programs::microkernel::{self, Pattern, Row, Spec, Threads};
use clap::Args;
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};

use crate::figures::Finding;
use crate::measure::median;
use crate::report::{self, number, right};
use crate::{Stop, objects::ObjectsArgs};

/// The acceptable efficiency of figure 13, in per cent.
pub(super) const ACCEPTABLE: f64 = 70.0;

/// The paper's four versions of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) stack: bool,
    pub(super) pull: bool,
}

impl Version {
    pub(super) const ALL: [Self; 4] = [
        Self { stack: false, pull: false },
        Self { stack: true, pull: false },
        Self { stack: false, pull: true },
        Self { stack: true, pull: true },
    ];

    pub(super) const fn name(self) -> &'static str {
        match (self.stack, self.pull) {
            (false, false) => "Base",
            (true, false) => "Base+Stack",
            (false, true) => "Base+Pull",
            (true, true) => "Base+Stack+Pull",
        }
    }

    fn of(row: &Row) -> Self {
        Self { stack: row.spec.threads == Threads::Stack, pull: row.pull }
    }
}

/// A selection of the cells of table 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Cells {
    /// The corners, with little work.
    Quick,
    /// Figures 11 and 13: all grains and shares.
    Regions,
    /// Figure 12: all patterns and deviations, where four of five accesses are remote.
    Patterns,
    /// The whole table.
    Whole,
}

impl Cells {
    fn specs(self) -> Vec<Spec> {
        let (grains, locals): (&[u32], &[u32]) = match self {
            Self::Quick => (&[10, 150], &[0, 100]),
            Self::Patterns => (&Spec::GRAINS, &[20]),
            Self::Regions | Self::Whole => (&Spec::GRAINS, &Spec::LOCAL),
        };
        let (patterns, deviations): (&[Pattern], &[u32]) = match self {
            Self::Quick | Self::Regions => (&[Pattern::AllToAll], &[0]),
            Self::Patterns | Self::Whole => (&Pattern::ALL, &Spec::DEVIATIONS),
        };
        let mut specs = Vec::new();
        for grain in grains.iter().copied() {
            for local in locals.iter().copied() {
                for pattern in patterns.iter().copied() {
                    for deviation in deviations.iter().copied() {
                        for threads in [Threads::Heap, Threads::Stack] {
                            let spec = Spec { threads, local, pattern, grain, deviation, count: 0 };
                            specs.push(spec.of_work(if self == Self::Quick { 2_000 } else { 10_000 }));
                        }
                    }
                }
            }
        }
        specs
    }
}

/// Arguments of the hidden command that runs as a process of the job.
#[derive(Args)]
pub(crate) struct ProcessArgs {
    #[arg(long, value_enum)]
    cells: Cells,
    #[arg(long)]
    rounds: usize,
    /// Whether the job pulls messages.
    #[arg(long)]
    pull: bool,
}

/// Runs a process of the job. The first process prints the results, a line of JSON for each run.
pub(crate) fn run_process(args: &ProcessArgs) -> Result<(), Stop> {
    let machine = Machine::builder().vps(1).build()?;
    let (specs, rounds, pull) = (args.cells.specs(), args.rounds, args.pull);
    let main = machine.spawn(async move {
        let here = Process::launched().await.map_err(|error| error.to_string())?;
        let said = |row: Row| Ok(report::json_line(&mut io::stdout().lock(), &row)?);
        let done = microkernel::process(&here, &specs, rounds, pull, said).await;
        here.leave().await;
        done.map_err(|error| error.to_string())
    });
    let done: Result<(), String> = main.join().sync_blocking()?;
    done.map_err(|why| Stop(1, why))
}

/// Starts the jobs, and collects their results.
pub(super) fn rows(args: &ObjectsArgs) -> Result<Vec<Row>, Stop> {
    let rounds = if args.quick { 1 } else { 3 };
    // With two processes, all patterns are the same.
    let jobs: &[(Cells, u32)] = match (args.quick, args.whole) {
        (true, _) => &[(Cells::Quick, 2)],
        (_, false) => &[(Cells::Regions, 2), (Cells::Patterns, 4)],
        (_, true) => &[(Cells::Regions, 2), (Cells::Whole, 4)],
    };
    let mut rows = Vec::new();
    for (cells, processes) in jobs {
        // In turns, over the same memory.
        for _ in 0..if *cells == Cells::Regions { rounds } else { 1 } {
            for pull in [false, true] {
                rows.extend(job(*cells, *processes, 1, pull)?);
            }
        }
    }
    Ok(rows)
}

fn job(cells: Cells, processes: u32, rounds: usize, pull: bool) -> Result<Vec<Row>, Stop> {
    let program = std::env::current_exe()?;
    let name = clap::ValueEnum::to_possible_value(&cells).map(|value| value.get_name().to_owned());
    let mut command = Command::new(&program);
    command.args(["launch", "--no-prefix", "--timeout", "500", "-n", &processes.to_string()]);
    if !pull {
        command.arg("--push");
    }
    command.arg(program).arg("kernel-process").args(["--rounds", &rounds.to_string(), "--cells"]);
    command.arg(name.unwrap_or_default());
    if pull {
        command.arg("--pull");
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Stop(1, format!("the microkernel's job: {}", output.status)));
    }
    let said = String::from_utf8(output.stdout)?;
    Ok(said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Medians of efficiency.
pub(super) struct Efficiencies(BTreeMap<(u32, Version, String, u32, u32, u32), f64>);

impl Efficiencies {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut all: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for row in rows {
            let Spec { pattern, grain, local, deviation, .. } = row.spec;
            let key = (row.processes, Version::of(row), pattern.to_string(), deviation, grain, local);
            all.entry(key).or_default().push(row.efficiency);
        }
        Self(all.into_iter().filter_map(|(key, values)| Some((key, median(&values)?))).collect())
    }

    /// The efficiency for figures 11 and 13: two processes, all to all, no deviation.
    pub(super) fn region(&self, version: Version, grain: u32, local: u32) -> Option<f64> {
        self.0.get(&(2, version, Pattern::AllToAll.to_string(), 0, grain, local)).copied()
    }

    /// The efficiency for figure 12: four of five accesses are remote.
    pub(super) fn pattern(
        &self,
        version: Version,
        pattern: Pattern,
        deviation: u32,
        grain: u32,
    ) -> Option<f64> {
        self.0.get(&(4, version, pattern.to_string(), deviation, grain, 20)).copied()
    }

    fn is_acceptable(&self, version: Version, grain: u32, local: u32) -> Option<bool> {
        self.region(version, grain, local).map(|efficiency| efficiency >= ACCEPTABLE)
    }
}

pub(super) fn findings(rows: &[Row]) -> Vec<Finding> {
    let found = Efficiencies::of(rows);
    let both = Version { stack: true, pull: true };
    let mut findings = Vec::new();
    for (grain, local, floor) in [(10, 100, 95.0), (150, 0, 70.0)] {
        let value = found.region(both, grain, local);
        findings.push(Finding {
            figure: format!("microkernel, {}: % of efficiency at {grain} us, {local} % local", both.name()),
            value,
            floor,
            holds: value.map(|value| value >= floor),
            bound: "at least",
        });
    }
    let mut outside = None;
    for version in Version::ALL {
        for grain in Spec::GRAINS {
            for local in Spec::LOCAL {
                let theirs = found.is_acceptable(version, grain, local);
                let ours = found.is_acceptable(both, grain, local);
                if let (Some(theirs), Some(ours)) = (theirs, ours) {
                    *outside.get_or_insert(0.0) += f64::from(u8::from(theirs && !ours));
                }
            }
        }
    }
    findings.push(Finding {
        figure: "microkernel: cells of other versions' regions that that of both lacks".to_owned(),
        value: outside,
        floor: 0.0,
        holds: outside.map(|outside| outside == 0.0),
        bound: "at most",
    });
    findings
}

/// Writes the tables of efficiencies: by grain and local share, and by pattern.
pub(super) fn tables(rows: &[Row]) -> String {
    let found = Efficiencies::of(rows);
    let cell = |value: Option<f64>| right(&value.map_or("-".to_owned(), number));
    let mut text = String::new();
    for version in Version::ALL {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let head = Spec::LOCAL.map(|local| format!("{local} % local"));
        table.set_header(std::iter::once("grain, us".to_owned()).chain(head));
        for grain in Spec::GRAINS {
            let values = Spec::LOCAL.map(|local| found.region(version, grain, local));
            if values.iter().any(Option::is_some) {
                table.add_row(std::iter::once(right(&grain.to_string())).chain(values.map(cell)));
            }
        }
        text += &format!("Microkernel, 2 processes, {}: efficiency in %\n{table}\n\n", version.name());
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let head = Spec::GRAINS.map(|grain| format!("{grain} us"));
    table.set_header(["version", "pattern", "deviation"].map(str::to_owned).into_iter().chain(head));
    for version in Version::ALL.into_iter().filter(|version| version.stack) {
        for pattern in Pattern::ALL {
            for deviation in Spec::DEVIATIONS {
                let values = Spec::GRAINS.map(|grain| found.pattern(version, pattern, deviation, grain));
                if values.iter().any(Option::is_some) {
                    let words = [
                        version.name().to_owned(),
                        pattern.to_string(),
                        format!("{:.1}", f64::from(deviation) / 10.0),
                    ];
                    table.add_row(words.map(comfy_table::Cell::new).into_iter().chain(values.map(cell)));
                }
            }
        }
    }
    if table.row_count() > 0 {
        text += &format!(
            "Microkernel, 4 processes, 80 % remote (figure 12): efficiency in %, of as many processors as there are\n{table}\n\n"
        );
    }
    text
}
