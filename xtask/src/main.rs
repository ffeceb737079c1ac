//! The tasks of this workspace: `cargo xtask help`.
//!
//! A step is a script in `ci/` that also runs alone; a task is one step or several. This program
//! gets the machine ready, calls the steps in order, and says how they went.
//! The rulers measure the tree itself: the modules `floors`, `shape`, `prose` and `walk`.

mod capi;
mod floors;
mod prose;
mod shape;
mod source;
mod steps;
mod system;
mod walk;

use std::path::Path;
use std::process::ExitCode;
use steps::Step;

const HELP: &str = "\
The tasks of this workspace. Each runs scripts of ci/, which also run alone.

  cargo xtask test [ARGS]     all tests; ARGS go to `cargo test`
  cargo xtask ci [STEP..]     all that continuous integration checks, or only these steps of it:
                              fmt floors shape clippy docs test capi lua examples smoke loom mpi
  cargo xtask capi [..]       the C header beside its library; names, symbols, or install FOLDER: man pages,
                              and files for pkg-config and CMake
  cargo xtask floors [..]     which imports of the core run upwards: --list, --circles, --record
  cargo xtask shape [..]      sizes, public names and prose, beside the record: --list, --prose, --record
  cargo xtask prose [PATH..]  sentences to look at, counted by area; --list and --most N print them
  cargo xtask walk TRIP       the files and functions that a trip passes: message choice spawn cluster object
  cargo xtask loom [MODEL..]  the loom models, or those with MODEL in their names
                              (LOOM_MAX_PREEMPTIONS=3 searches further)
  cargo xtask miri [FILE..]   the tests under Miri, where there is one, or only these test files
  cargo xtask zenoh [ARGS]    the engine of Zenoh, a workspace of its own with 280 crates; ARGS go to its
                              `cargo test`
  cargo xtask zenoh-demo      three processes that meet by Zenoh and talk by TLS
  cargo xtask stress          longer: more preemptions, Miri, and the tests again and again
  cargo xtask bench [ARGS]    the figures and their floors; ARGS go to `chanter-bench`

Missing system packages and toolchain components are installed where that is possible.
";

/// The steps of continuous integration. Quick and telling steps come first. The last one builds the engine of MPI anew for
/// each MPI, which others would have to link again.
const CI: [&str; 12] =
    ["fmt", "floors", "shape", "clippy", "docs", "test", "capi", "lua", "examples", "smoke", "loom", "mpi"];

/// A task that measures the tree; it gets the root of the workspace and its arguments.
type Ruler = fn(&Path, &[String]) -> Result<(), String>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next();
    let rest: Vec<String> = args.collect();
    let ruler: Option<Ruler> = match task.as_deref() {
        Some("capi") => Some(capi::main),
        Some("floors") => Some(floors::main),
        Some("shape") => Some(shape::main),
        Some("walk") => Some(walk::main),
        Some("prose") => Some(prose::main),
        _ => None,
    };
    if let Some(ruler) = ruler {
        return exit(ruler(steps::root(), &rest));
    }
    let plan = match task.as_deref() {
        Some("ci") => ci(rest),
        Some(task @ ("test" | "loom" | "miri" | "zenoh" | "zenoh-demo" | "stress" | "bench")) => {
            Ok(vec![Step::new(task, rest)])
        }
        None | Some("help" | "-h" | "--help") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(other) => Err(format!("no task is called `{other}`\n\n{HELP}")),
    };
    let outcome = plan.and_then(|plan| {
        let needs = |names: &[&str]| plan.iter().any(|step| names.contains(&step.name()));
        system::make_ready(needs(&["fmt", "zenoh"]), needs(&["clippy", "zenoh"]))?;
        steps::run(&plan)
    });
    exit(outcome)
}

fn exit(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The steps named, in the order of [`CI`]; all of them when none is named.
fn ci(named: Vec<String>) -> Result<Vec<Step>, String> {
    if let Some(wrong) = named.iter().find(|name| !CI.contains(&name.as_str())) {
        return Err(format!("no step is called `{wrong}`; the steps are: {}", CI.join(" ")));
    }
    Ok(CI
        .into_iter()
        .filter(|step| named.is_empty() || named.iter().any(|name| name == step))
        .map(|step| Step::new(step, Vec::new()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(named: &[&str]) -> Result<Vec<String>, String> {
        let steps = ci(named.iter().map(|name| name.to_string()).collect())?;
        Ok(steps.iter().map(|step| step.name().to_owned()).collect())
    }

    #[test]
    fn ci_without_names_runs_every_step_in_order() {
        assert_eq!(names(&[]).unwrap(), CI);
    }

    #[test]
    fn named_steps_run_in_the_order_of_ci() {
        assert_eq!(names(&["test", "fmt"]).unwrap(), ["fmt", "test"]);
    }

    #[test]
    fn an_unknown_step_is_refused_by_name() {
        assert!(names(&["fmt", "tset"]).unwrap_err().contains("`tset`"));
    }

    #[test]
    fn every_step_is_an_executable_script() {
        for step in CI.into_iter().chain(["miri", "zenoh", "zenoh-demo", "stress", "bench"]) {
            let script = Step::new(step, Vec::new()).script();
            assert!(script.is_file(), "{} is missing", script.display());
        }
    }
}
