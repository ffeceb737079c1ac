//! `chanter launch`: starts the processes of a job, and waits until all have ended. With `--hosts` they run on several
//! computers; there `chanter launch-node` starts them.

mod addresses;
mod hosts;
mod input;
mod job;
mod lines;
mod local;
mod node;
mod nodes;
mod open;
mod output;
mod prefix;
mod process;
mod protocol;
mod signals;
mod streams;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use chanter::prelude::Machine;
use chanter_cluster::launcher;
use clap::{Args, ValueEnum};

use crate::seconds::{seconds, some_seconds};
use crate::tls::TlsArgs;

/// The options of `chanter launch`.
#[derive(Args, Debug)]
pub struct LaunchArgs {
    /// How many processes: by default 1, or as many as the hosts have slots
    #[arg(short = 'n', long = "processes", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(launcher::MOST)))]
    processes: Option<u32>,
    /// Start the processes on the computers of this file, one a line: NAME [slots=N] [address=IP]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "tcp"])]
    hosts: Option<PathBuf>,
    /// The command that runs a command on a computer, without quotes; {host} stands for its name
    #[arg(long, value_name = "COMMAND", default_value = "ssh -T -o BatchMode=yes {host}", requires = "hosts",
        value_parser = names_a_host)]
    by: String,
    /// The command `chanter` on the computers
    #[arg(long, value_name = "PATH", default_value = "chanter", requires = "hosts")]
    remote_chanter: String,
    /// Within what time all computers must answer
    #[arg(long, value_name = "SECONDS", default_value = "30", requires = "hosts", value_parser = some_seconds)]
    connect_timeout: Duration,
    /// End the job after so long, with code 124
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds)]
    timeout: Option<Duration>,
    /// How long processes that are told to end may take, before they are killed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    grace: Duration,
    /// When a process fails, let the others go on
    #[arg(long)]
    keep_going: bool,
    /// Pass the standard input on to process 0; the others have none
    #[arg(long)]
    stdin: bool,
    /// At the end, list the processes and how each has ended: on several computers, a list for each
    #[arg(long)]
    status: bool,
    /// Lines without the number of their process
    #[arg(long)]
    no_prefix: bool,
    /// Whether the numbers have colours
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
    /// Let the processes talk by TCP on the loopback interface, not by Unix sockets
    #[arg(long)]
    tcp: bool,
    #[command(flatten)]
    tls: TlsArgs,
    /// Let processes join the job while it runs, by `chanter join --file FILE`: the addresses and the secret are written
    /// there, for this user alone
    #[arg(long, value_name = "FILE")]
    open: Option<PathBuf>,
    /// Let the processes share no memory, but talk by sockets alone
    #[arg(long)]
    no_segment: bool,
    /// Push messages into shared memory of their receivers, in place of pulling them: for comparisons
    #[arg(long, hide = true, conflicts_with_all = ["no_segment", "tcp", "tls_cert", "hosts"])]
    push: bool,
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// A failure of the command: its exit code, and why.
type Failure = (u8, String);

/// The failure of a job that an error of the OS keeps from its start.
fn cannot(error: io::Error) -> Failure {
    (1, format!("cannot start a job: {error}"))
}

/// A command line with a place for a host's name.
fn names_a_host(command: &str) -> Result<String, String> {
    if command.contains("{host}") { Ok(command.to_owned()) } else { Err("there is no {host} in it".into()) }
}

impl LaunchArgs {
    /// Whether the processes talk by TCP.
    fn is_tcp(&self) -> bool {
        self.tcp || self.tls.is_given()
    }
}

impl Color {
    fn is_wanted(self, terminal: &impl IsTerminal) -> bool {
        match self {
            Color::Auto => {
                terminal.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
            Color::Always => true,
            Color::Never => false,
        }
    }
}

/// Runs a job to its end, and returns an exit code. The code is 0 if all processes succeeded, and 124 if the time was
/// up. It is 126 or 127 if the program cannot be run, and 1 if the job cannot be started. Otherwise it is the code of
/// the first process that failed, or 128 plus the number of its signal.
pub fn launch(args: LaunchArgs) -> ExitCode {
    run(async move {
        let job = match &args.hosts {
            Some(file) => nodes::start(&args, file)?,
            None => local::start(&args)?,
        };
        job.run().await
    })
}

/// Runs the processes of a job on one of its computers, as the launcher of the job says on the standard input. The exit code is
/// that of [`launch`], for these processes; and 2 if no launcher of this version is there.
pub fn launch_node() -> ExitCode {
    run(async { node::start().await?.run().await })
}

fn run(job: impl Future<Output = Result<u8, Failure>> + Send) -> ExitCode {
    // One virtual processor, which this OS thread drives from beginning to end: the processes are its children, and
    // die with it.
    let machine = Machine::builder().vps(1).hand_off_after(None).name("launch").build();
    let code = match machine {
        Ok(machine) => machine.block_on(job),
        Err(error) => Err((1, format!("cannot start a machine: {error}"))),
    };
    let code = code.unwrap_or_else(|(code, message)| {
        // If standard error is closed, nobody reads the message.
        let _ = streams::write_all(io::stderr(), format!("chanter: {message}\n").as_bytes());
        code
    });
    ExitCode::from(code)
}
