//! `cargo xtask walk`: the files and functions that a trip passes in steady state.
//!
//! The program `chanter-walk` runs the trip with LLVM's counters of coverage. They are read here, since a stable
//! toolchain need not have LLVM's tools, and those of a system may be of another version.

mod coverage;
mod md5;
mod outline;

use crate::floors;
use crate::source;
use crate::steps;
use coverage::Function;
use outline::Named;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TRIPS: [&str; 5] = ["message", "choice", "spawn", "cluster", "object"];
/// Rounds that are counted, as in `xtask/walk/src/main.rs`.
const ROUNDS: f64 = 1_000.0;
/// A function belongs to the trip if it is called as often as this in a round. Calls of every second round count,
/// even if one or two of them fall outside.
const OFTEN: f64 = 0.45;
/// Counters, and names of files that are not compressed.
const FLAGS: [&str; 2] = ["-Cinstrument-coverage", "-Cllvm-args=-enable-name-compression=false"];
/// The folder of its builds, below the root.
const TARGET: &str = "target/walk";

const HELP: &str = "\
cargo xtask walk TRIP [--files]

Counts the files and functions that a trip passes in steady state, and prints them, upper floors first.

  message   a message from thread to thread, and one back
  choice    a choice between two channels, and the message that ends it
  spawn     a thread is spawned, and its value awaited
  cluster   a message from process to process of one machine, and one back
  object    two calls of an object that nobody else is in

  --files   prints the files alone
";

pub(crate) fn main(root: &Path, args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (trip, is_short) = match args[..] {
        [trip] => (trip, false),
        [trip, "--files"] => (trip, true),
        _ => return Err(HELP.to_owned()),
    };
    if !TRIPS.contains(&trip) {
        return Err(format!("no trip is called `{trip}`\n\n{HELP}"));
    }
    let program = build(root)?;
    let profile = travel(root, &program, trip)?;
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let counts = coverage::counts(&read(&profile)?)?;
    let mut entries: BTreeMap<(String, usize), u64> = BTreeMap::new();
    // A unit of code generation that has a copy of a function may describe it again.
    let mut described = BTreeSet::new();
    for function in coverage::functions(&read(&program)?)? {
        let name = (function.name, function.hash);
        if let Some(counts) = counts.get(&name).filter(|_| described.insert(name)) {
            *entries.entry(place(root, &function)).or_default() += function.entries(counts);
        }
    }
    let passed = passed(root, entries)?;
    let functions: usize = passed.iter().map(|file| file.functions.len()).sum();
    println!("{trip}: {} files, {functions} functions", passed.len());
    for Passed { file, functions, .. } in &passed {
        println!("{}{file}", if is_short { "" } else { "\n" });
        for (name, times) in functions.iter().filter(|_| !is_short) {
            println!("  {times:>6.2}  {name}");
        }
    }
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let sysroot = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let folder = sysroot.map_err(|error| format!("rustc did not start: {error}"))?.stdout;
    let folder = PathBuf::from(String::from_utf8_lossy(&folder).trim());
    if source::files(&folder, &[".rlib"], &[])?
        .iter()
        .all(|file| !file.to_string_lossy().contains("profiler_builtins"))
    {
        return Err(format!("{} has no libprofiler_builtins: this toolchain cannot count", folder.display()));
    }
    let target = root.join(TARGET);
    println!("xtask: building chanter-walk with counters, in {TARGET}");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--package", "chanter-walk"]).current_dir(root);
    cargo.env("CARGO_TARGET_DIR", &target).env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env("RUSTFLAGS", format!("{} --cfg walk", FLAGS.join(" ")));
    // Optimised code keeps a counter in a register while a loop runs, so a count in the middle would lack it.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    // Build scripts and macros are instrumented too; their profiles are of no use.
    cargo.env("LLVM_PROFILE_FILE", "/dev/null");
    steps::forget_xtask(&mut cargo);
    let status = cargo.status().map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(target.join("release/chanter-walk"))
    } else {
        Err("chanter-walk was not built".to_owned())
    }
}

/// Runs the trip, and returns the profile that it left.
fn travel(root: &Path, program: &Path, trip: &str) -> Result<PathBuf, String> {
    let profile = root.join(TARGET).join(format!("{trip}.profraw"));
    let mut command = Command::new(program);
    command.arg(trip).current_dir(root).env("LLVM_PROFILE_FILE", &profile).stdin(Stdio::null());
    // The profiler remarks at the end that it has written already, so this is shown only after a failure.
    let output = command.output().map_err(|error| format!("{trip} did not start: {error}"))?;
    if output.status.success() {
        return Ok(profile);
    }
    Err(format!("{trip}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The file of a function, relative to the root, and its line.
fn place(root: &Path, function: &Function) -> (String, usize) {
    let path = Path::new(&function.file);
    let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    (file, function.line)
}

/// A file that the trip passes: its functions in order, and how often a round each is entered.
struct Passed {
    file: String,
    functions: Vec<(String, f64)>,
    floor: Option<u32>,
}

/// The functions that are entered often enough, by files. Instances of a generic function are one; closures count.
fn passed(root: &Path, entries: BTreeMap<(String, usize), u64>) -> Result<Vec<Passed>, String> {
    let mut files: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
    for ((file, line), count) in entries {
        let times = count as f64 / ROUNDS;
        if file.starts_with("crates/") && times >= OFTEN {
            files.entry(file).or_default().push((line, times));
        }
    }
    let mut passed = Vec::new();
    for (file, lines) in files {
        let named = outline::functions(&source::read(&root.join(&file))?);
        let functions = by_name(&named, &lines);
        let floor = file.strip_prefix("crates/chanter/src/").and_then(|file| floors::floor(file).ok());
        passed.push(Passed { file, functions, floor });
    }
    // Crates above the core come first; in the core, upper floors do.
    passed.sort_by_key(|passed| (passed.floor.is_some(), Reverse(passed.floor), passed.file.clone()));
    Ok(passed)
}

/// The functions that begin on these lines, by name. A closure begins inside of one.
fn by_name(named: &[Named], lines: &[(usize, f64)]) -> Vec<(String, f64)> {
    let name = |line: usize| match named.iter().rfind(|named| (named.first..=named.last).contains(&line)) {
        Some(holder) if line <= holder.begin => holder.name.clone(),
        Some(holder) => format!("{}, a closure", holder.name),
        None => format!("of the macro on line {line}"),
    };
    lines.iter().map(|&(line, times)| (name(line), times)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_closures_are_named() {
        let named = |first, begin, last, name: &str| Named { first, begin, last, name: name.to_owned() };
        let functions = [named(1, 2, 9, "outer"), named(4, 4, 5, "inner"), named(11, 11, 12, "last")];
        let found = by_name(&functions, &[(1, 1.0), (4, 2.0), (7, 3.0), (20, 0.5)]);
        let rows: Vec<_> = found.iter().map(|(name, times)| (name.as_str(), *times)).collect();
        assert_eq!(
            rows,
            [("outer", 1.0), ("inner", 2.0), ("outer, a closure", 3.0), ("of the macro on line 20", 0.5)]
        );
    }

    #[test]
    fn an_unknown_trip_is_refused_by_name() {
        let error = main(Path::new("/nowhere"), &["flight".to_owned()]).unwrap_err();
        assert!(error.contains("`flight`") && error.contains("message"), "{error}");
    }
}
