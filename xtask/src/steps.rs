//! Runs the scripts of `ci/`, one after the other, up to the first that fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// One script of `ci/`, with its arguments.
pub(crate) struct Step {
    name: String,
    args: Vec<String>,
}

impl Step {
    pub(crate) fn new(name: &str, args: Vec<String>) -> Self {
        Step { name: name.to_owned(), args }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn script(&self) -> PathBuf {
        root().join("ci").join(&self.name)
    }

    fn run(&self) -> Result<(), String> {
        let mut command = Command::new(self.script());
        command.args(&self.args).current_dir(root());
        forget_xtask(&mut command);
        let status = command.status().map_err(|error| format!("ci/{} did not start: {error}", self.name))?;
        if status.success() { Ok(()) } else { Err(format!("ci/{} failed ({status})", self.name)) }
    }
}

/// Runs the steps of `plan` in order. Several steps get a heading each and a summary at the end.
pub(crate) fn run(plan: &[Step]) -> Result<(), String> {
    let begin = Instant::now();
    let mut times = Vec::new();
    let mut outcome = Ok(());
    for step in plan {
        if plan.len() > 1 {
            println!("\n== {} {}", step.name, "=".repeat(70 - step.name.len()));
        }
        let begin = Instant::now();
        outcome = step.run();
        times.push(begin.elapsed());
        if outcome.is_err() {
            break;
        }
    }
    if plan.len() > 1 {
        println!("\n== summary {}", "=".repeat(63));
        for (i, step) in plan.iter().enumerate() {
            let passed = outcome.is_ok() || i + 1 < times.len();
            println!("{}", line(&step.name, times.get(i).copied(), passed));
        }
        println!("{}", line("all", Some(begin.elapsed()), outcome.is_ok()));
    }
    outcome
}

fn line(name: &str, time: Option<Duration>, passed: bool) -> String {
    match time {
        None => format!("{name:<10} not run"),
        Some(time) => {
            let verdict = if passed { "ok" } else { "FAILED" };
            format!("{name:<10} {verdict:<7} {:>7.1} s", time.as_secs_f64())
        }
    }
}

/// `cargo run` describes the package xtask in the environment. A step's own cargo must not see
/// it, or it would find that the environment of its build scripts had changed, and rebuild.
pub(crate) fn forget_xtask(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        let describes_xtask = key.to_str().is_some_and(|key| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
                .iter()
                .any(|prefix| key.starts_with(prefix))
        });
        if describes_xtask {
            command.env_remove(key);
        }
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root of the workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_passed_failed_and_not_run_apart() {
        let time = Some(Duration::from_millis(1500));
        assert_eq!(line("fmt", time, true), "fmt        ok          1.5 s");
        assert_eq!(line("fmt", time, false), "fmt        FAILED      1.5 s");
        assert_eq!(line("fmt", None, true), "fmt        not run");
    }

    #[test]
    fn a_script_that_is_missing_is_named() {
        let error = run(&[Step::new("no-such-step", Vec::new())]).unwrap_err();
        assert!(error.contains("ci/no-such-step"), "{error}");
    }
}
