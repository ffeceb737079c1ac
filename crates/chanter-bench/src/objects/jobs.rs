//! Radiosity and molecular dynamics in jobs of two processes, over jobs of one.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::Here;
use chanter_programs::kit::{JobFailure, Program, Size};
use chanter_programs::molecular_dynamics::{self, MolecularDynamics};
use chanter_programs::radiosity::{self, Radiosity};
use clap::Args;
use comfy_table::{Cell, Table, presets};
use serde::{Deserialize, Serialize};

use super::ObjectsArgs;
use crate::Stop;
use crate::figures::Finding;
use crate::measure::median;
use crate::report::{json_line, number, right};

/// A program that runs in several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(super) enum Job {
    Radiosity,
    MolecularDynamics,
}

impl Job {
    const ALL: [Self; 2] = [Self::Radiosity, Self::MolecularDynamics];

    const fn name(self) -> &'static str {
        match self {
            Self::Radiosity => Radiosity::NAME,
            Self::MolecularDynamics => MolecularDynamics::NAME,
        }
    }
}

/// Arguments of the hidden command that is a process of the job.
#[derive(Args)]
pub(crate) struct JobProcessArgs {
    #[arg(long, value_enum)]
    program: Job,
    #[arg(long)]
    quick: bool,
}

/// One job; what it found is what the serial version finds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct JobRow {
    program: Job,
    processes: u32,
    ms: f64,
    checked: bool,
}

/// A process of the job: the first one prints how long it took.
pub(crate) fn run_process(args: &JobProcessArgs) -> Result<(), Stop> {
    let machine = Machine::builder().vps(1).build()?;
    let size = if args.quick { Size::Quick } else { Size::Paper };
    let program = args.program;
    let main = machine.spawn(async move {
        let here = Here::launched().await.map_err(|error| error.to_string())?;
        let done = match program {
            Job::Radiosity => light(&here, size).await,
            Job::MolecularDynamics => motion(&here, size).await,
        };
        let processes = here.count();
        here.leave().await;
        let row =
            |elapsed: Duration| JobRow { program, processes, ms: elapsed.as_secs_f64() * 1e3, checked: true };
        Ok(done.map_err(|error| error.to_string())?.map(row))
    });
    let done: Result<Option<JobRow>, String> = main.join().sync_blocking()?;
    if let Some(row) = done.map_err(|why| Stop(1, why))? {
        json_line(&mut std::io::stdout().lock(), &row)?;
    }
    Ok(())
}

type Took = Result<Option<Duration>, JobFailure>;

async fn light(here: &Here, size: Size) -> Took {
    let input = Radiosity::input(size);
    let serial = (here.number() == 0).then(|| Radiosity::serial(&input));
    radiosity::process(here, Arc::clone(&input.scene), input.accuracy, serial.as_ref()).await
}

async fn motion(here: &Here, size: Size) -> Took {
    let input = MolecularDynamics::input(size);
    let done = molecular_dynamics::process(here, &input.system, input.motion).await?;
    let Some((outcome, elapsed)) = done else { return Ok(None) };
    if outcome != MolecularDynamics::serial(&input) {
        return Err("the atoms of the processes are not where those of the serial version are".into());
    }
    Ok(Some(elapsed))
}

pub(super) fn rows(args: &ObjectsArgs) -> Result<Vec<JobRow>, Stop> {
    let mut rows = Vec::new();
    for program in Job::ALL {
        for _ in 0..if args.quick { 1 } else { 3 } {
            for processes in [1, 2] {
                rows.push(job(program, processes, args.quick)?);
            }
        }
    }
    Ok(rows)
}

fn job(which: Job, processes: u32, quick: bool) -> Result<JobRow, Stop> {
    let program = std::env::current_exe()?;
    let name = clap::ValueEnum::to_possible_value(&which).map(|value| value.get_name().to_owned());
    let mut command = Command::new(&program);
    command.args(["launch", "--no-prefix", "--timeout", "300", "-n", &processes.to_string()]);
    command.arg(program).args(["job-process", "--program", &name.unwrap_or_default()]);
    command.args(quick.then_some("--quick"));
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Stop(1, format!("{} in {processes} processes: {}", which.name(), output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn ms(rows: &[JobRow], program: Job, processes: u32) -> Option<f64> {
    let is_it = |row: &&JobRow| (row.program, row.processes) == (program, processes);
    let all: Vec<f64> = rows.iter().filter(is_it).map(|row| row.ms).collect();
    median(&all)
}

pub(super) fn findings(rows: &[JobRow]) -> Vec<Finding> {
    let of = |program: Job| {
        let value = ms(rows, program, 1).zip(ms(rows, program, 2)).map(|(one, two)| one / two);
        Finding {
            figure: format!("{}: 2 processes, speed-up over 1", program.name()),
            value,
            floor: 1.7,
            holds: value.map(|value| value >= 1.7),
            bound: "at least",
        }
    };
    Job::ALL.map(of).into()
}

pub(super) fn table(rows: &[JobRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["program", "processes of 1 VP", "ms", "speed-up"]);
    for program in Job::ALL {
        for processes in [1, 2] {
            let one = ms(rows, program, 1);
            let (Some(ms), Some(one)) = (ms(rows, program, processes), one) else { continue };
            table.add_row([
                Cell::new(program.name()),
                right(&processes.to_string()),
                right(&number(ms)),
                right(&number(one / ms)),
            ]);
        }
    }
    format!("Concert, section 5.2: the programs in several processes, by remote objects\n{table}\n")
}
