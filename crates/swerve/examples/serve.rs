//! Serves a directory: `cargo run --release --example serve -- DIR [ADDR] [synchronous|hosts|parasites] [VPS] [log|quiet]`.
//!
//! The `chanter serve` command does the same with more to choose from.

use std::process::ExitCode;

use chanter::prelude::*;
use swerve::{AccessLog, Config, Mode, Server};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &'static str| args.get(i).map_or(default, String::as_str);
    let Ok(addr) = arg(1, "127.0.0.1:8080").parse() else {
        eprintln!("not an address: {}", arg(1, ""));
        return ExitCode::from(2);
    };
    let mut config = Config::new(arg(0, "."), addr);
    config.mode = match arg(2, "parasites") {
        "synchronous" => Mode::Synchronous,
        "hosts" => Mode::Hosts,
        _ => Mode::Parasites,
    };
    config.log = if arg(4, "log") == "quiet" { AccessLog::Off } else { AccessLog::Stdout };
    let vps = arg(3, "2").parse().unwrap_or(2);

    let served: Result<(), Box<dyn std::error::Error + Send + Sync>> = (|| {
        let machine = Machine::builder().vps(vps).build()?;
        machine.block_on(async {
            let server = Server::bind(config)?;
            server.stop().on_signals()?;
            eprintln!("http://{}/", server.local_addr());
            server.run().await?;
            Ok(())
        })
    })();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
