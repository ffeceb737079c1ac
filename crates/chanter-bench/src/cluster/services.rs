//! Requests between processes, also while one of them stops or dies. The jobs are real processes on one node, started
//! by `launch`. There are calls, remote threads, and requests that block. Groups stand beside MPI's collectives, and
//! batches beside messages. A receiver stops, and processes die.

mod faults;
mod process;
mod small;
mod together;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use chanter_mpi::mpirun;
use comfy_table::{Cell, Table, presets};
use serde::{Deserialize, Serialize};

pub(crate) use process::{SceneArgs, run as run_scene};

use crate::Stop;
use crate::figures::Finding;
use crate::measure::median;
use crate::report::{number, right};

/// Task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scene {
    /// Two processes: one asks, one answers.
    Asks,
    /// Two processes of 64 threads each do something together.
    Together,
    /// Two processes do the same by MPI.
    Mpi,
    /// Two processes send each other many small values.
    Small,
    /// The third of three is stopped.
    Stopped,
    /// All but the first are killed, one after the other.
    Killed,
    /// All but the first fall silent, one after the other.
    Silent,
}

/// The way in which processes talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Memory,
    Unix,
    Tcp,
}

/// A value of a round whose result was right.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    row: String,
    value: f64,
}

/// A row: the median of its rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    row: String,
    value: f64,
    least: f64,
    most: f64,
    rounds: usize,
    checked: bool,
}

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    rounds: u32,
    /// Operations of a round.
    n: u32,
}

impl Size {
    pub(super) fn of(is_quick: bool) -> Self {
        if is_quick { Self { rounds: 3, n: 4_000 } } else { Self { rounds: 7, n: 20_000 } }
    }
}

pub(super) fn measure(size: Size) -> Result<Vec<Row>, Stop> {
    let deaths = 1 + size.rounds;
    let mut lines = job(Scene::Asks, 2, Over::Memory, size)?;
    lines.extend(job(Scene::Together, 2, Over::Memory, size)?);
    lines.extend(job(Scene::Small, 2, Over::Memory, size)?);
    lines.extend(over_mpi(size)?);
    lines.extend(job(Scene::Stopped, 3, Over::Memory, size)?);
    for over in [Over::Memory, Over::Unix, Over::Tcp] {
        lines.extend(job(Scene::Killed, deaths, over, size)?);
    }
    lines.extend(job(Scene::Silent, deaths.min(4), Over::Tcp, size)?);
    Ok(rows(lines))
}

/// Starts a job, and reads the output of its first process.
fn job(scene: Scene, processes: u32, over: Over, size: Size) -> Result<Vec<Line>, Stop> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["launch", "--no-prefix", "--keep-going", "--timeout", "100", "--grace", "1"]);
    command.args(["-n", &processes.to_string()]);
    match over {
        Over::Memory => {}
        Over::Unix => _ = command.arg("--no-segment"),
        Over::Tcp => _ = command.arg("--tcp"),
    }
    command.arg(std::env::current_exe()?);
    said(command, scene, Some(over), size)
}

fn over_mpi(size: Size) -> Result<Vec<Line>, Stop> {
    let Some(mut command) = mpirun(2) else {
        eprintln!("chanter-bench: no MPI: groups are measured beside nothing");
        return Ok(Vec::new());
    };
    command.arg(std::env::current_exe()?);
    said(command, Scene::Mpi, None, size)
}

fn said(mut command: Command, scene: Scene, over: Option<Over>, size: Size) -> Result<Vec<Line>, Stop> {
    let name = |value: Scene| {
        let value = clap::ValueEnum::to_possible_value(&value).expect("no scene is skipped");
        value.get_name().to_owned()
    };
    command.args(["cluster-scene", &name(scene)]);
    command.args(["--rounds", &size.rounds.to_string(), "--n", &size.n.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8(output.stdout)?;
    let mut lines: Vec<Line> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    // Where processes are killed, the job fails as it should. The results that it printed are reported at the end.
    let is_complete = lines.pop().is_some_and(|last| last.row == END);
    if !is_complete {
        return Err(Stop(1, format!("the job `{}`: {}", name(scene), output.status)));
    }
    if let Some(over) = over.filter(|_| scene == Scene::Killed) {
        lines.iter_mut().for_each(|line| line.row = format!("{}, {}", line.row, over.words()));
    }
    Ok(lines)
}

/// The last line of a job whose results were right.
const END: &str = "end";

impl Over {
    fn words(self) -> &'static str {
        match self {
            Self::Memory => "memory of a node",
            Self::Unix => "Unix sockets",
            Self::Tcp => "TCP",
        }
    }
}

fn rows(lines: Vec<Line>) -> Vec<Row> {
    let mut by_row = BTreeMap::<String, Vec<f64>>::new();
    let mut order = Vec::new();
    for Line { row, value } in lines {
        if !by_row.contains_key(&row) {
            order.push(row.clone());
        }
        by_row.entry(row).or_default().push(value);
    }
    let row = |row: String| {
        let values = &by_row[&row];
        Row {
            value: median(values).unwrap_or(f64::NAN),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: values.len(),
            // A process that finds a wrong result fails, and its job with it.
            checked: true,
            row,
        }
    };
    order.into_iter().map(row).collect()
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["processes on a node", "median", "least", "most", "rounds"]);
    for row in rows {
        table.add_row([
            Cell::new(&row.row),
            right(&number(row.value)),
            right(&number(row.least)),
            right(&number(row.most)),
            right(&row.rounds.to_string()),
        ]);
    }
    table.to_string()
}

/// The promises.
pub(super) fn findings(rows: &[Row]) -> Vec<Finding> {
    let get = |name: &str| rows.iter().find(|row| row.row == name).map(|row| row.value);
    let over = |one: &str, other: &str| Some(get(one)? / get(other)?);
    let mut findings = Vec::new();
    let mut at_most = |figure: String, value: Option<f64>, floor: f64| {
        let holds = value.map(|value| value <= floor);
        findings.push(Finding { figure, value, floor, holds, bound: "at most" });
    };
    at_most("a call of 64 B on a node: ns".into(), get(process::CALL), 1000.0);
    at_most("remote spawn and join over a call".into(), over(process::SPAWN, process::CALL), 2.5);
    at_most("requests not served while others block".into(), get(process::UNSERVED), 0.0);
    at_most("requests of a caller out of order".into(), get(process::DISORDER), 0.0);
    for (what, ours, mpi) in [
        ("barrier", together::BARRIER, together::MPI_BARRIER),
        ("reduce", together::REDUCE, together::MPI_REDUCE),
    ] {
        // MPI's members are the processes: here 128 threads go on besides, which takes its time where nobody talks to anybody.
        let bound = get(together::ALONE).zip(get(mpi)).map(|(alone, mpi)| alone + mpi);
        at_most(
            format!("{what} of 2 processes of 64 threads over MPI's of 2 and resuming 128 threads alone"),
            get(ours).zip(bound).map(|(ours, bound)| ours / bound),
            1.5,
        );
    }
    for (what, batched, alone) in [
        ("histogram", small::HISTOGRAM_BATCHED, small::HISTOGRAM),
        ("index-gather", small::INDEX_GATHER_BATCHED, small::INDEX_GATHER),
    ] {
        at_most(format!("{what} in batches over a message for each"), over(batched, alone), 0.1);
    }
    at_most("a receiver has stopped: % that others lose".into(), get(faults::LOSS), 5.0);
    for over in [Over::Memory, Over::Unix, Over::Tcp] {
        let row = format!("{}, {}", faults::KILLED, over.words());
        at_most(format!("a killed process is known, {}: ms", over.words()), get(&row), 10.0);
    }
    at_most("a silent process is known, by 4 heartbeats of 200 ms: ms".into(), get(faults::SILENT), 1000.0);
    findings
}
