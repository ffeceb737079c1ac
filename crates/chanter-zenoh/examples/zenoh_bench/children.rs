//! Processes of a measurement.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Command, ExitCode, Stdio};

pub(crate) type Failure = String;
pub(crate) type Outcome = Result<(), Failure>;

/// One of them; ended when it is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
    name: String,
}

impl Child {
    pub(crate) fn start(args: &[&str]) -> Result<Self, Failure> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(this);
        command.arg("child").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let lines = BufReader::new(process.stdout.take().ok_or("it has no output")?);
        Ok(Self { process, lines, name: args.join(" ") })
    }

    /// Its next line.
    pub(crate) fn says(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) | Err(_) => Err(format!("{}: it has ended too early", self.name)),
            Ok(_) => Ok(line.trim().to_owned()),
        }
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) -> Outcome {
        let input = self.process.stdin.as_mut().ok_or("it has no input")?;
        writeln!(input, "{line}").map_err(|error| format!("{}: {error}", self.name))
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn ends(&mut self) -> Outcome {
        match self.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{}: {status}", self.name)),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Task of a child.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match super::role(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zenoh_bench child {}: {error}", args.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Says a line, at once.
pub(crate) fn say(line: impl std::fmt::Display) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

pub(crate) fn broken(error: impl ToString) -> Failure {
    error.to_string()
}
