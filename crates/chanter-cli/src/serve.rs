//! `chanter serve`: a directory over HTTP/1.1, by Swerve.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::seconds::{seconds, some_seconds};
use chanter::prelude::Machine;
use clap::{Args, ValueEnum};
use swerve::{AccessLog, Config, ErrorLog, Mode, Server, StartError};

/// Exit code: there is no such directory, or the port is taken.
const UNAVAILABLE: u8 = 2;
/// Exit code: the server could not start for another reason, or could not go on.
const FAILED: u8 = 1;

/// Time for writing the last lines of the error log. Perhaps nobody reads them.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The options of `chanter serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The directory to serve
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    addr: String,
    /// How the parts of the server talk
    #[arg(long, value_enum, default_value_t = ModeArg::Parasites)]
    mode: ModeArg,
    /// Virtual processors [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    vps: Option<u16>,
    /// How long a connection may stay without a request; 0 to close it after its first answer
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    keep_alive: Duration,
    /// How long the head of a request may take, more than 0
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = some_seconds)]
    head_timeout: Duration,
    /// How long a client may leave its answer unread, more than 0
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds)]
    stall_timeout: Duration,
    /// How long requests in flight may go on after SIGINT, SIGTERM or SIGHUP (a second one cuts them)
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    grace: Duration,
    /// How many connections to hold at once, 1 at least; a newcomer takes the place of the longest idle one
    #[arg(long, value_name = "N", default_value = "10240")]
    max_connections: NonZeroUsize,
    /// How much of small files to keep in memory, while they do not change; 0 for none
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=1 << 20))]
    keep: u64,
    /// How long a file in memory is served before it is looked at again; 0 to look for each request
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    keep_for: Duration,
    /// How long to wait for a disk, or for the server of a mounted file system
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    disk_timeout: Duration,
    /// Serve and list names that begin with a dot too (`/.well-known` always is)
    #[arg(long)]
    hidden: bool,
    /// Follow symbolic links that lead outside of the directory (those that stay inside always are followed)
    #[arg(long)]
    follow_links: bool,
    /// No access log
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// The sender waits until its message is received
    Synchronous,
    /// Messages are sent asynchronously, by threads that a policy schedules
    Hosts,
    /// Messages are sent asynchronously, by threads that begin as a call
    Parasites,
}

/// Serves until SIGINT, SIGTERM or SIGHUP. The exit code is 0 after a stop, 2 if the directory or the address is not
/// available, and 1 after any other failure.
pub fn serve(args: ServeArgs) -> ExitCode {
    let errors = match ErrorLog::stderr() {
        Ok(errors) => errors,
        Err(error) => {
            // If standard error is closed, nobody reads the message.
            let _ = writeln!(std::io::stderr(), "chanter: cannot start: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let code = match try_serve(&args, &errors) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            errors.tell(format_args!("chanter: {message}"));
            ExitCode::from(code)
        }
    };
    errors.flush(LAST_LINES);
    code
}

fn try_serve(args: &ServeArgs, errors: &ErrorLog) -> Result<(), (u8, String)> {
    let wanted = args.max_connections.get();
    let descriptors = swerve::raise_descriptor_limit(wanted);
    let connections = descriptors.connections(wanted);
    if connections < wanted {
        errors.tell(format_args!(
            "chanter: holding at most {connections} connections at once: {descriptors} \
             (see `ulimit -n`)"
        ));
    }
    let addrs: Vec<SocketAddr> = args
        .addr
        .to_socket_addrs()
        .map_err(|error| (UNAVAILABLE, format!("cannot listen on {}: {error}", args.addr)))?
        .collect();
    let vps = match args.vps {
        Some(vps) => usize::from(vps),
        None => available_parallelism().map_or(1, usize::from),
    };
    let machine = Machine::builder()
        .vps(vps)
        .name("serve")
        .build()
        .map_err(|error| (FAILED, format!("cannot start a machine: {error}")))?;

    machine.block_on(async {
        let server = bind(args, &addrs, connections, errors)?;
        server
            .stop()
            .on_signals()
            .map_err(|error| (FAILED, format!("cannot listen for signals: {error}")))?;
        let addr = server.local_addr();
        errors.tell(format_args!("chanter: serving {} at http://{addr}/", args.dir.display()));
        let summary = server.run().await.map_err(|error| (FAILED, format!("cannot go on: {error}")))?;
        if summary.cut > 0 {
            errors.tell(format_args!("chanter: cut {} connections that were not done", summary.cut));
        }
        if summary.lines_lost > 0 {
            errors.tell(format_args!("chanter: {} lines of the access log were lost", summary.lines_lost));
        }
        Ok(())
    })
}

/// Listens at the first address that works. A name may stand for several addresses, and a machine need not have all
/// of them.
fn bind(
    args: &ServeArgs,
    addrs: &[SocketAddr],
    connections: usize,
    errors: &ErrorLog,
) -> Result<Server, (u8, String)> {
    let mut refused = format!("cannot listen on {}: no such address", args.addr);
    for &addr in addrs {
        let mut config = Config::new(&args.dir, addr);
        config.mode = match args.mode {
            ModeArg::Synchronous => Mode::Synchronous,
            ModeArg::Hosts => Mode::Hosts,
            ModeArg::Parasites => Mode::Parasites,
        };
        config.keep_alive = args.keep_alive;
        config.head_timeout = args.head_timeout;
        config.stall_timeout = args.stall_timeout;
        config.grace = args.grace;
        config.max_connections = connections;
        config.kept_bytes = args.keep << 20;
        config.kept_for = args.keep_for;
        config.disk_timeout = args.disk_timeout;
        config.hidden = args.hidden;
        config.follow_links = args.follow_links;
        config.log = if args.quiet { AccessLog::Off } else { AccessLog::Stdout };
        config.errors = Some(errors.clone());
        match Server::bind(config) {
            Ok(server) => return Ok(server),
            Err(error @ StartError::Directory(..)) => return Err((UNAVAILABLE, error.to_string())),
            Err(error @ (StartError::Address(..) | StartError::NoConnections)) => refused = error.to_string(),
        }
    }
    Err((UNAVAILABLE, refused))
}
