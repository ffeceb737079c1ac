//! `chanter join`: runs a program as a process that joins a running cluster, or begins one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use chanter_cluster::join::{ADVERTISE, LISTEN, SECRET_FILE, SEEDS, Seed};
use chanter_cluster::launcher::{Address, SECRET};
use clap::Args;

use crate::tls::TlsArgs;

/// The options of `chanter join`.
#[derive(Args, Debug)]
pub struct JoinArgs {
    /// A file with the seeds and the secret, such as `chanter launch --open FILE` writes: NAME=VALUE, one a line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Where processes of the cluster are found: tcp:IP:PORT, unix:PATH, dns:NAME:PORT, or file:PATH with an address a
    /// line. It may be given several times
    #[arg(long = "seed", value_name = "SEED")]
    seeds: Vec<Seed>,
    /// The file with the cluster's secret: 32 bytes in hexadecimal
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Where the process listens: tcp:IP:PORT (port 0: any) or unix:PATH. By default a port of all interfaces, or of the
    /// loopback if all seeds are on this computer
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// Where others reach the process, if that is another address
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<Address>,
    #[command(flatten)]
    tls: TlsArgs,
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

type Variables = Vec<(&'static str, OsString)>;

/// Becomes the program. Returns only if that cannot be run, with the code of [`launch`](crate::launch()).
pub fn join(args: JoinArgs) -> ExitCode {
    let variables = match args.variables() {
        Ok(variables) => variables,
        Err(why) => {
            eprintln!("chanter: {why}");
            return ExitCode::from(2);
        }
    };
    let mut command = Command::new(&args.program[0]);
    // An inherited secret is another one.
    for (name, other) in [(SECRET, SECRET_FILE), (SECRET_FILE, SECRET)] {
        if variables.iter().any(|(said, _)| *said == name) {
            command.env_remove(other);
        }
    }
    let error = command.args(&args.program[1..]).envs(variables).exec();
    eprintln!("chanter: cannot run {}: {error}", Path::new(&args.program[0]).display());
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

impl JoinArgs {
    /// The variables of the program's environment.
    fn variables(&self) -> Result<Variables, String> {
        let mut seeds: Vec<String> = self.seeds.iter().map(Seed::to_string).collect();
        let mut said: Variables = Vec::new();
        if let Some(file) = &self.file {
            let wrong = |why: String| format!("{}: {why}", file.display());
            let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
            {
                match line.split_once('=') {
                    Some((SEEDS, value)) => seeds.extend(value.split(',').map(str::to_owned)),
                    Some((SECRET, value)) => said.push((SECRET, value.into())),
                    _ => return Err(wrong(format!("{line:?} is neither {SEEDS}=.. nor {SECRET}=.."))),
                }
            }
        }
        if let Some(file) = &self.secret_file {
            said.retain(|(name, _)| *name != SECRET);
            said.push((SECRET_FILE, std::path::absolute(file).map_err(|error| error.to_string())?.into()));
        }
        let is_secret = |(name, _): &(&str, OsString)| [SECRET, SECRET_FILE].contains(name);
        let has_secret = said.iter().any(is_secret)
            || [SECRET, SECRET_FILE].iter().any(|name| std::env::var_os(name).is_some());
        if !has_secret {
            return Err("no secret: give --secret-file, --file, or CHANTER_SECRET in the environment".into());
        }
        if seeds.is_empty() {
            return Err("no seeds: give --seed or --file".into());
        }
        let is_here = |seed: &String| seed.starts_with("unix:") || seed.starts_with("tcp:127.");
        let any = if seeds.iter().all(is_here) { "tcp:127.0.0.1:0" } else { "tcp:0.0.0.0:0" };
        let listen = self.listen.as_ref().map_or_else(|| any.to_owned(), Address::to_string);
        said.extend([(SEEDS, seeds.join(",").into()), (LISTEN, listen.into())]);
        said.extend(self.advertise.as_ref().map(|address| (ADVERTISE, address.to_string().into())));
        let tls = self.tls.here().map_err(|error| error.to_string())?;
        said.extend(tls.into_iter().map(|(name, value)| (name, value.into())));
        Ok(said)
    }
}
