//! The programs that compile, and that start jobs.

use std::process::Command;

/// The compiler of the MPI that this program was built with: `$MPICC` then, or `mpicc`. `None`: it was built without MPI.
pub fn mpicc() -> Option<Command> {
    option_env!("CHANTER_MPICC").map(Command::new)
}

/// The command that starts `count` processes with the MPI that this program was built with: `$MPIRUN`, or the `mpirun` that
/// has its compiler's name. The program to start, and its arguments, are to be added. `None`: it was built without MPI.
///
/// More processes than cores are allowed, and so is the administrator: tests and measurements in containers are both.
pub fn mpirun(count: u32) -> Option<Command> {
    let mpicc = option_env!("CHANTER_MPICC")?;
    let (folder, name) = mpicc.rsplit_once('/').map_or(("", mpicc), |(folder, name)| (folder, name));
    let beside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let named = std::env::var("MPIRUN").ok().filter(|named| !named.is_empty());
    let mut command =
        Command::new(named.unwrap_or_else(|| format!("{beside}{}", name.replacen("mpicc", "mpirun", 1))));
    command.args(["-n", &count.to_string()]);
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ]);
    Some(command)
}
