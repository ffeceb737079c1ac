//! The programs that compile, and that start jobs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler of the MPI that this program was built with: `$MPICC` then, or `mpicc`. `None`: it was built without MPI.
pub fn mpicc() -> Option<Command> {
    option_env!("CHANTER_MPICC").map(Command::new)
}

/// The command that starts `count` processes: `$MPIRUN`, or the launcher of the MPI that this program uses. The program to
/// start, and its arguments, are to be added. `None`: there is no MPI that this program can use.
///
/// A program that was built with an MPI looks beside its compiler: for `mpicc.openmpi`, it takes `mpirun.openmpi`, and
/// `mpirun` where there is none of that name. A program that was built without MPI looks in the folder `bin` of the MPI
/// whose library it has found. `mpiexec` is as good. If nothing is there, the command is `mpirun`, as a shell finds it.
///
/// More processes than cores are allowed, and so is the administrator: tests and measurements in containers are both.
///
/// # Examples
/// ```no_run
/// let mut job = chanter_mpi::mpirun(4).expect("an MPI");
/// let status = job.arg("target/debug/examples/mpi_hello").status()?;
/// assert!(status.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn mpirun(count: u32) -> Option<Command> {
    let of_this_mpi = of_this_mpi()?;
    let named = env::var_os("MPIRUN").filter(|named| !named.is_empty());
    let mut command = Command::new(named.unwrap_or_else(|| of_this_mpi.into_os_string()));
    command.args(["-n", &count.to_string()]);
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ]);
    Some(command)
}

/// The launcher of the MPI whose compiler has built this program.
#[cfg(has_shim)]
fn of_this_mpi() -> Option<PathBuf> {
    let mpicc = Path::new(env!("CHANTER_MPICC"));
    let path = env::var_os("PATH").unwrap_or_default();
    // A name without a folder is one of those of `PATH`.
    let file = if mpicc.components().count() > 1 {
        Some(mpicc.to_owned())
    } else {
        env::split_paths(&path).map(|folder| folder.join(mpicc)).find(|file| file.is_file())
    };
    let folder = file.as_deref().and_then(Path::parent);
    let name = mpicc.file_name().unwrap_or_default().to_string_lossy();
    let suffix = name.split_once("mpicc").map_or("", |(_, suffix)| suffix);
    Some(launcher(folder, suffix))
}

/// The launcher of the MPI whose library is open.
#[cfg(not(has_shim))]
fn of_this_mpi() -> Option<PathBuf> {
    crate::shim::open().ok()?;
    let file = crate::shim::library::file();
    // The library may have links in folders that all libraries share.
    let files = [file.map(Path::to_owned), file.and_then(|file| file.canonicalize().ok())];
    let folders = files.iter().flatten().filter_map(|file| Some(file.parent()?.parent()?.join("bin")));
    let found = folders.map(|folder| launcher(Some(&folder), "")).find(|found| found.is_absolute());
    Some(found.unwrap_or_else(|| launcher(None, "")))
}

/// The launcher in a folder, whose name may end as that of the compiler does. If there is none, its usual name.
fn launcher(folder: Option<&Path>, suffix: &str) -> PathBuf {
    let names =
        [suffix, ""].into_iter().flat_map(|end| ["mpirun", "mpiexec"].map(|name| format!("{name}{end}")));
    let files = names.filter_map(|name| folder.map(|folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file()).unwrap_or_else(|| "mpirun".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_one_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let find = |suffix| launcher(Some(folder.path()), suffix);
        assert_eq!(find("_abi"), Path::new("mpirun"));
        for (made, suffix, found) in [
            ("mpiexec", "_abi", "mpiexec"),
            ("mpirun", "_abi", "mpirun"),
            ("mpiexec.openmpi", ".openmpi", "mpiexec.openmpi"),
            ("mpirun.openmpi", ".openmpi", "mpirun.openmpi"),
        ] {
            std::fs::write(at(made), "").unwrap();
            assert_eq!(find(suffix), at(found));
        }
        assert_eq!(find(""), at("mpirun"));
        assert_eq!(launcher(None, ".openmpi"), Path::new("mpirun"));
    }
}
