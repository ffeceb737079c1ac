//! Jobs whose processes run this program. The launcher or `mpirun` starts them, and they print their results as lines
//! of JSON.

use std::process::{Command, Stdio};

use chanter_mpi::mpirun;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::process::Line;
use crate::Stop;

/// Engine that carries the messages of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
pub(crate) enum By {
    /// Memory that the processes of one computer share: the receiver pulls.
    Segment,
    /// The same memory: the sender pushes into a buffer of the receiver's.
    Pushed,
    /// Unix sockets: the sender pushes.
    Sockets,
    /// MPI, which pushes, too.
    Mpi,
}

impl By {
    /// Its name on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Pushed => "pushed",
            Self::Sockets => "sockets",
            Self::Mpi => "mpi",
        }
    }
}

/// Runs `count` processes of the hidden command that `args` begins with, and reads their lines. `None`: there is no
/// MPI.
pub(super) fn lines(by: By, count: u32, args: &[&str]) -> Result<Option<Vec<Line>>, Stop> {
    let this = std::env::current_exe()?;
    let mut command = match by {
        By::Mpi => match mpirun(count) {
            Some(command) => command,
            None => return Ok(None),
        },
        By::Segment | By::Pushed | By::Sockets => {
            let mut command = Command::new(&this);
            command.args(["launch", "-n", &count.to_string(), "--no-prefix", "--timeout", "600"]);
            match by {
                By::Pushed => _ = command.arg("--push"),
                By::Sockets => _ = command.arg("--no-segment"),
                By::Segment | By::Mpi => {}
            }
            command
        }
    };
    let output = command.arg(&this).args(args).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Stop(1, format!("a job of {count} processes by {by:?}, {args:?}: {}", output.status)));
    }
    let said = String::from_utf8(output.stdout)?;
    let lines = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(Some(lines))
}
