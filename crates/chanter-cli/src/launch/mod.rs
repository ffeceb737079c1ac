//! `chanter launch`: starts the processes of a job, and waits until all have ended.

mod addresses;
mod input;
mod job;
mod lines;
mod output;
mod process;
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
use job::Job;

/// The options of `chanter launch`.
#[derive(Args, Debug)]
pub struct LaunchArgs {
    /// How many processes
    #[arg(short = 'n', long = "processes", value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(launcher::MOST)))]
    processes: u32,
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
    /// At the end, list the processes and how each has ended
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
    /// The processes' certificate, in PEM: they talk by TLS over TCP (they need the feature `tls` of chanter-cluster)
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The certificates of those who sign the processes' certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Name for which the certificate is, if it is not for the address of each process
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    tls_name: Option<String>,
    /// Let the processes share no memory, but talk by sockets alone
    #[arg(long)]
    no_segment: bool,
    /// Push messages into shared memory of their receivers, in place of pulling them: for comparisons
    #[arg(long, hide = true, conflicts_with_all = ["no_segment", "tcp", "tls_cert"])]
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

impl LaunchArgs {
    /// Whether the processes talk by TCP.
    fn is_tcp(&self) -> bool {
        self.tcp || self.tls_cert.is_some()
    }

    /// TLS settings for the processes.
    ///
    /// # Errors
    /// A file has no absolute path, or its path is no text. The processes may need the path.
    fn tls(&self) -> io::Result<Vec<(&'static str, String)>> {
        let files = [
            (launcher::TLS_CERT, &self.tls_cert),
            (launcher::TLS_KEY, &self.tls_key),
            (launcher::TLS_CA, &self.tls_ca),
        ];
        let mut said = Vec::new();
        for (variable, file) in files {
            let Some(file) = file else { continue };
            let cannot =
                |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
            let path = std::fs::canonicalize(file).map_err(|error| cannot(&error))?;
            let path = path.into_os_string().into_string().map_err(|_| cannot(&"the path is no text"))?;
            said.push((variable, path));
        }
        said.extend(self.tls_name.clone().map(|name| (launcher::TLS_NAME, name)));
        Ok(said)
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
    let code = try_launch(args).unwrap_or_else(|(code, message)| {
        // If standard error is closed, nobody reads the message.
        let _ = streams::write_all(io::stderr(), format!("chanter: {message}\n").as_bytes());
        code
    });
    ExitCode::from(code)
}

fn try_launch(args: LaunchArgs) -> Result<u8, (u8, String)> {
    // One virtual processor, which this OS thread drives from beginning to end: the processes are its children, and
    // die with it.
    let machine = Machine::builder()
        .vps(1)
        .hand_off_after(None)
        .name("launch")
        .build()
        .map_err(|error| (1, format!("cannot start a machine: {error}")))?;
    machine.block_on(async { Job::start(args)?.run().await })
}
