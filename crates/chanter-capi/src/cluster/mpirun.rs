//! Whether `mpirun` has started this process, which `chanter_init` cannot make a part of its job.

use std::ffi::OsString;

/// The variables of the numbers and of the counts of processes, by Open MPI and by MPICH and its kin. (The engine of MPI knows
/// the same, and this library is to do without it.)
const NUMBERS: [&str; 2] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];
const COUNTS: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// The variables of `chanter launch`, and of a process that joins a cluster: these count first.
const OURS: [&str; 2] = ["CHANTER_NUMBER", "CHANTER_SEEDS"];
/// The variable by which a user wants this process alone.
const ALONE: &str = "CHANTER_ALONE";

/// Whether this process is one of several of `mpirun`, and of no other job.
pub(super) fn is_one_of_several() -> bool {
    is_one_by(|name| std::env::var_os(name))
}

fn is_one_by(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name: &&str| variable(name).is_some();
    let is_lone = |name: &&str| variable(name).is_some_and(|count| count == "1");
    NUMBERS.iter().any(is_set) && !COUNTS.iter().any(is_lone) && !OURS.iter().any(is_set) && !is_set(&ALONE)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn several_of_mpirun_are_no_lone_processes() {
        let by = |set: &[(&str, &str)]| {
            is_one_by(|name| set.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()))
        };
        assert!(by(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]));
        assert!(by(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "12")]));
        assert!(by(&[("PMI_RANK", "0")]), "nobody says how many there are");
        assert!(!by(&[]) && !by(&[("PMI_SIZE", "2")]));
        assert!(!by(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]));
        for ours in ["CHANTER_NUMBER", "CHANTER_SEEDS", "CHANTER_ALONE"] {
            assert!(!by(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), (ours, "1")]));
        }
    }
}
