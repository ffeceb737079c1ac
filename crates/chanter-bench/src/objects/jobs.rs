//! Radiosity in a job of two processes, over a job of one.

use std::process::{Command, Stdio};
use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::Here;
use chanter_programs::kit::{Program, Size};
use chanter_programs::radiosity::{self, Radiosity};
use clap::Args;
use comfy_table::{Cell, Table, presets};
use serde::{Deserialize, Serialize};

use super::ObjectsArgs;
use crate::Stop;
use crate::figures::Finding;
use crate::measure::median;
use crate::report::{json_line, number, right};

/// Arguments of the hidden command that is a process of the job.
#[derive(Args)]
pub(crate) struct JobProcessArgs {
    #[arg(long)]
    quick: bool,
}

/// One job; its light was that of the serial solution.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct JobRow {
    processes: u32,
    ms: f64,
    checked: bool,
}

/// A process of the job: the first one prints how long it took.
pub(crate) fn run_process(args: &JobProcessArgs) -> Result<(), Stop> {
    let machine = Machine::builder().vps(1).build()?;
    let size = if args.quick { Size::Quick } else { Size::Paper };
    let main = machine.spawn(async move {
        let here = Here::launched().await.map_err(|error| error.to_string())?;
        let input = Radiosity::input(size);
        let serial = (here.number() == 0).then(|| Radiosity::serial(&input));
        let scene = Arc::clone(&input.scene);
        let done = radiosity::process(&here, scene, input.accuracy, serial.as_ref()).await;
        let processes = here.count();
        here.leave().await;
        let elapsed = done.map_err(|error| error.to_string())?;
        Ok(elapsed.map(|elapsed| JobRow { processes, ms: elapsed.as_secs_f64() * 1e3, checked: true }))
    });
    let done: Result<Option<JobRow>, String> = main.join().sync_blocking()?;
    if let Some(row) = done.map_err(|why| Stop(1, why))? {
        json_line(&mut std::io::stdout().lock(), &row)?;
    }
    Ok(())
}

pub(super) fn rows(args: &ObjectsArgs) -> Result<Vec<JobRow>, Stop> {
    let mut rows = Vec::new();
    for _ in 0..if args.quick { 1 } else { 5 } {
        for processes in [1, 2] {
            rows.push(job(processes, args.quick)?);
        }
    }
    Ok(rows)
}

fn job(processes: u32, quick: bool) -> Result<JobRow, Stop> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(["launch", "--no-prefix", "--timeout", "300", "-n", &processes.to_string()]);
    command.arg(program).arg("radiosity-process").args(quick.then_some("--quick"));
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Stop(1, format!("radiosity in {processes} processes: {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn ms(rows: &[JobRow], processes: u32) -> Option<f64> {
    let all: Vec<f64> = rows.iter().filter(|row| row.processes == processes).map(|row| row.ms).collect();
    median(&all)
}

pub(super) fn findings(rows: &[JobRow]) -> Vec<Finding> {
    let value = ms(rows, 1).zip(ms(rows, 2)).map(|(one, two)| one / two);
    vec![Finding {
        figure: "radiosity: 2 processes, speed-up over 1".to_owned(),
        value,
        floor: 1.7,
        holds: value.map(|value| value >= 1.7),
        bound: "at least",
    }]
}

pub(super) fn table(rows: &[JobRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["radiosity, processes of 1 VP", "ms", "speed-up"]);
    for processes in [1, 2] {
        let (Some(ms), Some(one)) = (ms(rows, processes), ms(rows, 1)) else { continue };
        table.add_row([Cell::new(processes), right(&number(ms)), right(&number(one / ms))]);
    }
    format!("Radiosity by remote objects\n{table}\n")
}
