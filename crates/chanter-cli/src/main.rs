//! The `chanter` command: `serve` a directory over HTTP, `launch` processes that talk. `bench` runs a program of its
//! own, `chanter-bench`, since that depends on all the systems that it measures.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[cfg(unix)]
use chanter_cli::{JoinArgs, LaunchArgs, join, launch, launch_node};
use chanter_cli::{ServeArgs, serve};
use clap::{Args, Parser, Subcommand};

/// Featherweight threads that talk to each other.
#[derive(Parser)]
#[command(name = "chanter", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Serve the files of a directory over HTTP
    Serve(ServeArgs),
    /// Start the processes of a job, merge what they write, and wait until all have ended
    #[cfg(unix)]
    Launch(LaunchArgs),
    /// Run a program as a process that joins a running cluster, or begins one
    #[cfg(unix)]
    Join(JoinArgs),
    /// Run processes of a job, as its launcher on another computer says on the standard input
    #[cfg(unix)]
    #[command(hide = true)]
    LaunchNode,
    /// Measure the runtime, beside its peers, in one run: runs `chanter-bench`
    #[command(disable_help_flag = true)]
    Bench(BenchArgs),
}

#[derive(Args)]
struct BenchArgs {
    /// Arguments of `chanter-bench`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Task::Serve(args) => serve(args),
        #[cfg(unix)]
        Task::Launch(args) => launch(args),
        #[cfg(unix)]
        Task::Join(args) => join(args),
        #[cfg(unix)]
        Task::LaunchNode => launch_node(),
        Task::Bench(args) => bench(&args.args),
    }
}

/// Passes the arguments on to `chanter-bench`, if it has been built.
fn bench(args: &[OsString]) -> ExitCode {
    let status = std::env::current_exe().and_then(|here| {
        let mut places = places_of_bench(&here).into_iter();
        let program = places.find(|place| place.is_file()).ok_or(std::io::ErrorKind::NotFound)?;
        Command::new(program).args(args).status()
    });
    match status {
        Ok(status) => u8::try_from(status.code().unwrap_or(1)).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(_) => {
            let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
            eprintln!(
                "chanter: `bench` is a command of its own, with everything that it measures: \
                 cargo run --profile figures -p chanter-bench -- {}",
                args.join(" ")
            );
            ExitCode::from(2)
        }
    }
}

/// The places where `chanter-bench` may lie: beside this command, or in the folder of cargo's profile `figures`.
fn places_of_bench(here: &Path) -> Vec<PathBuf> {
    const NAME: &str = "chanter-bench";
    let figures = here.parent().and_then(Path::parent).map(|target| target.join("figures").join(NAME));
    [here.with_file_name(NAME)].into_iter().chain(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_lies_beside_or_among_the_figures() {
        let places = places_of_bench(Path::new("/t/release/chanter"));
        assert_eq!(places, ["/t/release/chanter-bench", "/t/figures/chanter-bench"].map(PathBuf::from));
    }
}
