//! The `chanter` command: `serve` a directory over HTTP, and `bench` the runtime beside its peers.

mod bench;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Featherweight threads that talk to each other.
#[derive(Parser)]
#[command(name = "chanter", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the files of a directory over HTTP
    Serve(serve::ServeArgs),
    /// Measure the runtime, beside its peers, in one run
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::serve(args),
        Command::Bench(args) => bench::bench(args),
    }
}
