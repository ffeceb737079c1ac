//! Radiosity and molecular dynamics in jobs of two processes, over jobs of one. They run by objects in the paper's
//! four versions of the runtime (figures 14 and 15), and in C and plain MPI.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_programs::kit::{JobFailure, Program, Size, Threads};
use chanter_programs::molecular_dynamics::{self, MolecularDynamics};
use chanter_programs::peers::mpi::Plain;
use chanter_programs::radiosity::{self, Radiosity};
use clap::Args;
use comfy_table::{Cell, Table, presets};
use serde::{Deserialize, Serialize};

use super::kernel::Version;
use super::{ObjectsArgs, plain};
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
    pub(super) const ALL: [Self; 2] = [Self::Radiosity, Self::MolecularDynamics];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Radiosity => Radiosity::NAME,
            Self::MolecularDynamics => MolecularDynamics::NAME,
        }
    }

    fn plain(self, size: Size) -> Plain {
        match self {
            Self::Radiosity => Plain::radiosity(size),
            Self::MolecularDynamics => Plain::molecular_dynamics(size),
        }
    }
}

/// Arguments of the hidden command that runs as a process of the job.
#[derive(Args)]
pub(crate) struct JobProcessArgs {
    #[arg(long, value_enum)]
    program: Job,
    #[arg(long)]
    quick: bool,
    /// Whether threads begin as calls.
    #[arg(long)]
    stack: bool,
}

/// The means by which the processes of a job work and talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum By {
    /// Objects, and a version of the runtime.
    Objects(Version),
    /// The same work in C, and calls of MPI.
    PlainMpi,
}

impl By {
    const BASE: Self = Self::Objects(Version { stack: false, pull: false });
    const BEST: Self = Self::Objects(Version { stack: true, pull: true });

    pub(super) fn all() -> impl Iterator<Item = Self> {
        Version::ALL.into_iter().map(Self::Objects).chain([Self::PlainMpi])
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Objects(version) => version.name(),
            Self::PlainMpi => "plain MPI",
        }
    }
}

/// The result of one job, which agrees with that of the serial version.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct JobRow {
    pub(super) program: Job,
    pub(super) by: By,
    pub(super) processes: u32,
    pub(super) ms: f64,
    pub(super) checked: bool,
}

/// A process of the job: the first one prints how many milliseconds it took, once the result was found right.
pub(crate) fn run_process(args: &JobProcessArgs) -> Result<(), Stop> {
    let machine = Machine::builder().vps(1).build()?;
    let size = if args.quick { Size::Quick } else { Size::Paper };
    let threads = if args.stack { Threads::Stack } else { Threads::Heap };
    let program = args.program;
    let main = machine.spawn(async move {
        let here = Process::launched().await.map_err(|error| error.to_string())?;
        let done = match program {
            Job::Radiosity => light(&here, size, threads).await,
            Job::MolecularDynamics => motion(&here, size, threads).await,
        };
        here.leave().await;
        Ok(done.map_err(|error| error.to_string())?.map(|elapsed| elapsed.as_secs_f64() * 1e3))
    });
    let done: Result<Option<f64>, String> = main.join().sync_blocking()?;
    if let Some(ms) = done.map_err(|why| Stop(1, why))? {
        json_line(&mut std::io::stdout().lock(), &ms)?;
    }
    Ok(())
}

type Took = Result<Option<Duration>, JobFailure>;

async fn light(here: &Process, size: Size, threads: Threads) -> Took {
    let input = Radiosity::input(size);
    let serial = (here.number() == 0).then(|| Radiosity::serial(&input));
    radiosity::process(here, Arc::clone(&input.scene), input.accuracy, threads, serial.as_ref()).await
}

async fn motion(here: &Process, size: Size, threads: Threads) -> Took {
    let input = MolecularDynamics::input(size);
    let done = molecular_dynamics::process(here, &input.system, input.motion, threads).await?;
    let Some((outcome, elapsed)) = done else { return Ok(None) };
    if outcome != MolecularDynamics::serial(&input) {
        return Err("the atoms of the processes are not where those of the serial version are".into());
    }
    Ok(Some(elapsed))
}

pub(super) fn rows(args: &ObjectsArgs) -> Result<Vec<JobRow>, Stop> {
    let size = if args.quick { Size::Quick } else { Size::Paper };
    let mut rows = Vec::new();
    for program in Job::ALL {
        let plain = plain::build(program.plain(size));
        if let Err(why) = &plain {
            eprintln!("skipped {} in plain MPI: {why}", program.name());
        }
        for _ in 0..if args.quick { 1 } else { 3 } {
            for (by, processes) in By::all().flat_map(|by| [(by, 1), (by, 2)]) {
                let ms = match (by, &plain) {
                    (By::Objects(version), _) => job(program, version, processes, args.quick)?,
                    (By::PlainMpi, Ok(built)) => built.run(processes)?,
                    (By::PlainMpi, Err(_)) => continue,
                };
                rows.push(JobRow { program, by, processes, ms, checked: true });
            }
        }
    }
    Ok(rows)
}

fn job(which: Job, version: Version, processes: u32, quick: bool) -> Result<f64, Stop> {
    let program = std::env::current_exe()?;
    let name = clap::ValueEnum::to_possible_value(&which).map(|value| value.get_name().to_owned());
    let mut command = Command::new(&program);
    command.args(["launch", "--no-prefix", "--timeout", "300", "-n", &processes.to_string()]);
    // Push and pull use the same memory.
    command.args((!version.pull).then_some("--push"));
    command.arg(program).args(["job-process", "--program", &name.unwrap_or_default()]);
    command.args(quick.then_some("--quick")).args(version.stack.then_some("--stack"));
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Stop(1, format!("{} in {processes} processes: {}", which.name(), output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn ms(rows: &[JobRow], program: Job, by: By, processes: u32) -> Option<f64> {
    let is_it = |row: &&JobRow| (row.program, row.by, row.processes) == (program, by, processes);
    let all: Vec<f64> = rows.iter().filter(is_it).map(|row| row.ms).collect();
    median(&all)
}

/// Speed-up over the fastest job of one process by objects (figure 14). Plain MPI is compared with its own.
pub(super) fn speed_up(rows: &[JobRow], program: Job, by: By, processes: u32) -> Option<f64> {
    let one = match by {
        By::Objects(_) => {
            let ones =
                Version::ALL.into_iter().filter_map(|version| ms(rows, program, By::Objects(version), 1));
            ones.reduce(f64::min)
        }
        By::PlainMpi => ms(rows, program, by, 1),
    };
    one.zip(ms(rows, program, by, processes)).map(|(one, several)| one / several)
}

pub(super) fn findings(rows: &[JobRow]) -> Vec<Finding> {
    let finding = |program: Job, figure: &str, pair: [(By, u32); 2], floor: f64| {
        let [slow, fast] = pair.map(|(by, processes)| ms(rows, program, by, processes));
        let value = slow.zip(fast).map(|(slow, fast)| slow / fast);
        Finding {
            figure: format!("{}: {figure}", program.name()),
            value,
            floor,
            holds: value.map(|value| value >= floor),
            bound: "at least",
        }
    };
    let of = |program| {
        [
            finding(program, "2 processes, speed-up over 1", [(By::BEST, 1), (By::BEST, 2)], 1.6),
            finding(program, "1 process, Base+Stack+Pull over Base", [(By::BASE, 1), (By::BEST, 1)], 1.1),
        ]
    };
    Job::ALL.map(of).into_iter().flatten().collect()
}

pub(super) fn table(rows: &[JobRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["program", "by", "processes of 1 thread", "ms", "speed-up"]);
    for program in Job::ALL {
        for (by, processes) in By::all().flat_map(|by| [(by, 1), (by, 2)]) {
            let Some(ms) = ms(rows, program, by, processes) else { continue };
            table.add_row([
                Cell::new(program.name()),
                Cell::new(by.name()),
                right(&processes.to_string()),
                right(&number(ms)),
                right(&speed_up(rows, program, by, processes).map_or("-".to_owned(), number)),
            ]);
        }
    }
    format!("Concert, section 5.2: the programs in several processes\n{table}\n")
}
