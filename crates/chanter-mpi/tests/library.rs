//! Libraries that are no MPI of the standard ABI: each gives an error that says so, and none a crash. Each is tried in
//! a process of its own, since a process opens one library. This program is both the test and these processes.

use std::path::Path;
use std::process::{Command, Output};

use chanter_cluster::Process;
use chanter_mpi::{StartError, detect, mpicc, mpirun};

const TRY: &str = "CHANTER_TEST_TRY";
const LIBRARY: &str = "CHANTER_MPI_LIBRARY";

fn main() {
    if std::env::var_os(TRY).is_some() {
        return report();
    }
    if mpicc().is_some() {
        println!("skipped: built with an MPI, which opens no other one; MPICC=none builds without");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    no_library(folder.path());
    no_mpi(folder.path());
    faults(folder.path());
    beside_a_launcher(folder.path());
}

/// Prints the results of this process.
fn report() {
    match detect() {
        Err(StartError::Missing(why)) => println!("missing: {why}"),
        other => println!("{other:?}"),
    }
    println!("launcher: {}", mpirun(1).is_some());
    match chanter_mpi::run(async |here: Process| here.count()) {
        Ok(count) => println!("ran: {count}"),
        Err(error) => println!("refused: {error}"),
    }
}

/// A process that uses no variables of this one's job.
fn child() -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.env(TRY, "1");
    for variable in [LIBRARY, "LD_LIBRARY_PATH", "OMPI_COMM_WORLD_RANK", "PMI_RANK"] {
        child.env_remove(variable);
    }
    child
}

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&all).into_owned();
    assert!(output.status.success(), "{}\n{said}", output.status);
    said
}

/// The library of this name is refused with this text, and a program that needs no MPI runs.
fn refused(name: &Path, text: &str) {
    let launched = said(&child().env(LIBRARY, name).env("PMI_RANK", "0").output().unwrap());
    let missing = launched.lines().find_map(|line| line.strip_prefix("missing: "));
    let missing = missing.unwrap_or_else(|| panic!("{launched}"));
    assert!(missing.starts_with(&format!("{LIBRARY}={}: ", name.display())), "{missing}");
    assert!(missing.contains(text), "{missing}");
    let error = format!("{}. Install", missing.trim_end_matches('.'));
    assert!(launched.contains("launcher: false\nrefused: ") && launched.contains(&error), "{launched}");
    let alone = said(&child().env(LIBRARY, name).output().unwrap());
    assert!(alone.contains("\nran: 1\n"), "{alone}");
    println!("test {}: {text} ... ok", name.file_name().unwrap().display());
}

fn no_library(folder: &Path) {
    refused(&folder.join("absent.so"), "");
    let text = folder.join("text.so");
    std::fs::write(&text, "INPUT(libmpi_abi.so.1)").unwrap();
    refused(&text, "");
    // If nobody names one, all that were tried are named. (This machine may have one.)
    let unnamed = said(&child().env("PATH", folder).output().unwrap());
    if unnamed.starts_with("missing: ") {
        for version in [".1", ".0", ""] {
            let name = if cfg!(target_os = "macos") {
                format!("libmpi_abi{version}.dylib: ")
            } else {
                format!("libmpi_abi.so{version}: ")
            };
            assert!(unnamed.contains(&name), "{unnamed}");
        }
        println!("test no library ... ok");
    }
}

fn no_mpi(folder: &Path) {
    if cfg!(target_os = "linux") && !cfg!(target_env = "musl") {
        refused(Path::new("libc.so.6"), "it is no MPI");
    }
    let other = folder.join("other.so");
    if compile(&other, "int other(void) { return 0; }") {
        refused(&other, "it is no MPI");
    }
}

/// The library says that its ABI has this version, and has no other function.
fn with_version(file: &Path, major: i32, minor: i32) -> bool {
    compile(
        file,
        &format!(
            "int MPI_Abi_get_version(int *major, int *minor) {{ *major = {major}; *minor = {minor}; return 0; }}"
        ),
    )
}

fn faults(folder: &Path) {
    for (name, major, minor, text) in [
        ("own.so", -1, -1, "it is an MPI with an ABI of its own"),
        ("later.so", 2, 3, "its ABI is of version 2.3, and version 1 is wanted"),
        ("lacks.so", 1, 0, "it lacks MPI_Initialized"),
    ] {
        let file = folder.join(name);
        if with_version(&file, major, minor) {
            refused(&file, text);
        }
    }
}

/// A library in the folder of the launcher that a shell would find is looked at.
fn beside_a_launcher(folder: &Path) {
    let (bin, lib) = (folder.join("bin"), folder.join("lib"));
    for folder in [&bin, &lib] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(bin.join("mpiexec"), "").unwrap();
    let name = if cfg!(target_os = "macos") { "libmpi_abi.1.dylib" } else { "libmpi_abi.so.1" };
    if with_version(&lib.join(name), 7, 0) {
        let found = said(&child().env("PATH", &bin).output().unwrap());
        if found.starts_with("missing: ") {
            let text = format!("{}: its ABI is of version 7.0", lib.join(name).display());
            assert!(found.contains(&text), "{found}");
            println!("test beside a launcher ... ok");
        }
    }
}

/// Makes a library, if there is a C compiler.
fn compile(file: &Path, source: &str) -> bool {
    let code = file.with_extension("c");
    std::fs::write(&code, source).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(file).arg(&code).status();
    let is_compiled = compiled.is_ok_and(|status| status.success());
    if !is_compiled {
        println!("skipped {}: cc cannot make it", file.display());
    }
    is_compiled
}
