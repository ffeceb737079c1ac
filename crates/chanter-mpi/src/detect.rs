//! Whether, and by whom, this process was started.

use std::fmt;

use chanter_engine::Disagreement;

use crate::shim::{self, MpiError};

/// The way in which this process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// `mpirun` has started it.
    Launched,
    /// No `mpirun` that is known has started it.
    Alone,
}

/// The reason why there is no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// This program was built without MPI, and there is no library of the standard ABI that it can use. The text names
    /// the libraries that were tried, and the fault of each.
    Missing(String),
    /// `mpirun` of one MPI has started the process, which uses the library of another one: each process would believe
    /// that it is alone.
    Mismatch {
        /// The MPI whose `mpirun` has started it.
        launcher: &'static str,
        /// The library's description of itself.
        library: String,
    },
    /// No `mpirun` has started this process.
    NotLaunched,
    /// MPI was initialized before in this process.
    Twice,
    /// MPI has failed.
    Mpi(MpiError),
    /// The launcher's settings for this process are wrong, or the others were not found.
    #[cfg(unix)]
    Sockets(String),
    /// Another process is of another version of the program.
    Program(Disagreement),
    /// The OS refuses a resource that the machine needs.
    Machine(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => {
                f.write_str("this program was built without MPI")?;
                if let Some(compiler) = option_env!("CHANTER_MPI_MISSING") {
                    write!(f, " ({compiler})")?;
                }
                write!(
                    f,
                    ", and finds no library of MPI's standard ABI: {why}. Install an MPI that has one, and name its \
                     libmpi_abi by CHANTER_MPI_LIBRARY; or name the compiler of an MPI by MPICC, and build again"
                )
            }
            Self::Mismatch { launcher, library } => {
                let library = library.lines().next().unwrap_or_default();
                write!(f, "started by the mpirun of {launcher}, but the library is of another MPI: {library}")
            }
            Self::NotLaunched => f.write_str("not started by mpirun"),
            Self::Twice => f.write_str("MPI was initialized before in this process"),
            Self::Mpi(error) => error.fmt(f),
            #[cfg(unix)]
            Self::Sockets(error) => f.write_str(error),
            Self::Program(disagreement) => disagreement.fmt(f),
            Self::Machine(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for StartError {}

impl From<MpiError> for StartError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

pub(crate) const OPEN_MPI: &str = "Open MPI";

/// Variables that launchers set, and whose they are. (MPICH's kin set the same as MPICH.)
const LAUNCHERS: [(&str, &str); 2] = [("OMPI_COMM_WORLD_RANK", OPEN_MPI), ("PMI_RANK", "MPICH")];

/// Whether `mpirun` has started this process. MPI need not be initialized, and is not.
///
/// # Errors
/// [`Missing`](StartError::Missing): there is no MPI that the program can use. [`Mismatch`](StartError::Mismatch): its
/// MPI is another one.
pub fn detect() -> Result<Detected, StartError> {
    shim::open().map_err(|why| StartError::Missing(why.to_owned()))?;
    detect_by(is_set, &shim::library())
}

/// Whether any `mpirun` has started this process.
pub(crate) fn is_launched() -> bool {
    LAUNCHERS.into_iter().any(|(variable, _)| is_set(variable))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

fn detect_by(is_set: impl Fn(&str) -> bool, library: &str) -> Result<Detected, StartError> {
    let Some((_, launcher)) = LAUNCHERS.into_iter().find(|(variable, _)| is_set(variable)) else {
        return Ok(Detected::Alone);
    };
    if (launcher == OPEN_MPI) == library.contains(OPEN_MPI) {
        return Ok(Detected::Launched);
    }
    Err(StartError::Mismatch { launcher, library: library.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_has_to_be_of_the_same_mpi() {
        let by = |variable: &'static str, library| detect_by(move |name| name == variable, library);
        assert_eq!(by("OMPI_COMM_WORLD_RANK", "Open MPI v4.1.4"), Ok(Detected::Launched));
        assert_eq!(by("PMI_RANK", "MPICH Version: 4.0.2"), Ok(Detected::Launched));
        assert_eq!(by("HOME", "MPICH Version: 4.0.2"), Ok(Detected::Alone));
        for (variable, library) in
            [("PMI_RANK", "Open MPI v4.1.4"), ("OMPI_COMM_WORLD_RANK", "MPICH Version")]
        {
            let error = by(variable, library).unwrap_err();
            assert!(matches!(error, StartError::Mismatch { .. }), "{error}");
        }
    }
}
