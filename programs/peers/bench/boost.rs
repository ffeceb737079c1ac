//! Boost.Fiber: fibers in C++, in a process of their own.
//!
//! The program is part of this binary as text and is built when its first case runs. Where there is
//! no C++ compiler, or no Boost.Fiber, the cases are reported as skipped.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tempfile::TempDir;

use crate::case::{Case, Failure, Outcome, read_sample};

const SOURCE: &str = include_str!("boost/fiber.cpp");

/// Holds the built program until [`clean_up`].
static FOLDER: Mutex<Option<TempDir>> = Mutex::new(None);

/// A case that the program does under the same bench name, on one OS thread.
pub(crate) fn case(bench: &'static str, variant: &'static str) -> Case {
    Case::new(bench, "boost", variant, move |load| run(bench, variant, load.n))
}

fn run(bench: &str, variant: &str, n: u64) -> Outcome {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = PROGRAM.get_or_init(build).as_ref().map_err(|why| Failure::Unavailable(why.clone()))?;
    let output = Command::new(program)
        .args([bench, variant, &n.to_string()])
        .output()
        .map_err(|error| Failure::Broken(error.to_string()))?;
    read_sample(&output)
}

fn build() -> Result<PathBuf, String> {
    let in_words = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(in_words)?;
    std::fs::write(folder.path().join("fiber.cpp"), SOURCE).map_err(in_words)?;
    let built = Command::new("c++")
        .args([
            "-std=c++17",
            "-O3",
            "-DNDEBUG",
            "-o",
            "peer",
            "fiber.cpp",
            "-lboost_fiber",
            "-lboost_context",
        ])
        .current_dir(folder.path())
        .output()
        .map_err(|error| format!("`c++` cannot be run: {error}"))?;
    if !built.status.success() {
        let complaint = String::from_utf8_lossy(&built.stderr);
        let first = complaint.lines().find(|line| line.contains("error")).unwrap_or("no Boost.Fiber");
        return Err(format!("needs Boost.Fiber (Debian's `libboost-fiber-dev`): {first}"));
    }
    let program = folder.path().join("peer");
    *FOLDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
    Ok(program)
}

/// Removes the built program. Call it after the last measurement.
pub(crate) fn clean_up() {
    FOLDER.lock().unwrap_or_else(PoisonError::into_inner).take();
}
