//! Go: goroutines and channels, in a process of their own.
//!
//! The program is part of this binary as text and is built when the first Go case runs. Where there
//! is no `go` command, the cases are reported as skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tempfile::TempDir;

use crate::case::{Case, Failure, Load, Outcome, read_sample};

const SOURCES: [(&str, &str); 2] =
    [("main.go", include_str!("go/main.go")), ("choice.go", include_str!("go/choice.go"))];

/// Holds the built program until [`clean_up`].
static FOLDER: Mutex<Option<TempDir>> = Mutex::new(None);

/// A case that the Go program does under the same bench name.
pub(crate) fn case(bench: &'static str, variant: &'static str) -> Case {
    Case::new(bench, "go", variant, move |load| run(bench, variant, load))
}

/// Runs the program once.
pub(crate) fn run(bench: &str, variant: &str, load: Load) -> Outcome {
    let output = Command::new(program()?)
        .args([bench, variant, &load.n.to_string()])
        .env("GOMAXPROCS", load.vps.to_string())
        .output()
        .map_err(|error| Failure::Broken(error.to_string()))?;
    read_sample(&output)
}

fn program() -> Result<&'static Path, Failure> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAM.get_or_init(build) {
        Ok(path) => Ok(path),
        Err(why) => Err(Failure::Unavailable(why.clone())),
    }
}

fn build() -> Result<PathBuf, String> {
    let in_words = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(in_words)?;
    let program = folder.path().join("peer");
    for (name, source) in SOURCES {
        std::fs::write(folder.path().join(name), source).map_err(in_words)?;
    }
    let built = Command::new("go")
        .args(["build", "-o", "peer"])
        .args(SOURCES.map(|(name, _)| name))
        .current_dir(folder.path())
        .output()
        .map_err(|error| format!("`go` cannot be run: {error}"))?;
    if !built.status.success() {
        let complaint = String::from_utf8_lossy(&built.stderr);
        return Err(format!("`go build` failed: {}", complaint.trim()));
    }
    *FOLDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
    Ok(program)
}

/// Removes the built program. Call it after the last measurement.
pub(crate) fn clean_up() {
    FOLDER.lock().unwrap_or_else(PoisonError::into_inner).take();
}
