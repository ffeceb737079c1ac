//! Radiosity and molecular dynamics in C and plain MPI (`programs/peers/mpi`), compiled and started by the MPI that this program was
//! built with.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use chanter_mpi::{mpicc, mpirun};
use chanter_programs::peers::mpi::{HEADER, Plain};
use tempfile::TempDir;

use crate::Stop;

/// A program that is compiled, and its input as a file.
pub(super) struct Built {
    plain: Plain,
    folder: TempDir,
}

/// Compiles it. `Err`: the reason why that is not possible here.
pub(super) fn build(plain: Plain) -> Result<Built, String> {
    let mut compiler = mpicc().ok_or("this program was built without MPI")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let built = Built { plain, folder };
    let write = |name: &str, what: &[u8]| std::fs::write(built.path(name), what).map_err(|e| e.to_string());
    write("plain.h", HEADER.as_bytes())?;
    write("program.c", built.plain.source.as_bytes())?;
    write("input", &built.plain.input)?;
    // Products and sums are rounded one after the other, as in Rust.
    compiler.args([
        "-O3",
        "-std=c11",
        "-D_DEFAULT_SOURCE",
        "-ffp-contract=off",
        "-o",
        "program",
        "program.c",
        "-lm",
    ]);
    let output = compiler.current_dir(built.folder.path()).output();
    let output = output.map_err(|error| format!("{:?} cannot be run: {error}", compiler.get_program()))?;
    if !output.status.success() {
        return Err(format!("it does not compile: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(built)
}

impl Built {
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs that number of processes, and checks their results. Returns milliseconds.
    pub(super) fn run(&self, processes: u32) -> Result<f64, Stop> {
        let broken =
            |why: String| Stop(1, format!("{}, plain MPI, {processes} processes: {why}", self.plain.name));
        let mut job = mpirun(processes).ok_or_else(|| broken("there is no MPI".to_owned()))?;
        job.arg(self.path("program")).arg(self.path("input")).arg(self.path("result"));
        let output = job.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(broken(output.status.to_string()));
        }
        if !self.plain.is_right(&std::fs::read(self.path("result"))?) {
            return Err(broken("it does not find what the serial version finds".to_owned()));
        }
        let said = String::from_utf8(output.stdout)?;
        let seconds: f64 = said.trim().parse().map_err(|_| broken(format!("it says {said:?}")))?;
        Ok(seconds * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use chanter_programs::kit::Size;

    use super::*;

    #[test]
    fn plain_mpi_finds_what_the_serial_versions_find() {
        if mpicc().is_none() {
            eprintln!("skipped: there is no MPI");
            return;
        }
        for plain in [Plain::radiosity(Size::Quick), Plain::molecular_dynamics(Size::Quick)] {
            let built = build(plain).unwrap();
            for processes in 1..=3 {
                built.run(processes).unwrap_or_else(|Stop(_, why)| panic!("{why}"));
            }
        }
    }
}
