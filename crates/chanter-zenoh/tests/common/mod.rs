//! Jobs on this machine.
#![allow(dead_code)]

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chanter::prelude::*;
use chanter_zenoh::{Config, StartError, Zenoh};

/// A name that no other job of this machine has.
pub(crate) fn job(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A port that nobody listens at, as far as one can know.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The processes of a job, which know where the first one listens. Nobody is suspect, however slow the machine is.
pub(crate) fn configs(name: &str, count: u32, protocol: &str, first: &str) -> Vec<Config> {
    let job = job(name);
    let config = |number: u32| {
        let config = Config::new(&job, number, count).scouting(false);
        let mut config = match number {
            0 => config.listen([format!("{protocol}/{first}")]),
            _ if protocol == "unixsock-stream" => config
                .listen([format!("{protocol}/{first}{number}")])
                .connect([format!("{protocol}/{first}")]),
            _ => config.listen([format!("{protocol}/127.0.0.1:0")]).connect([format!("{protocol}/{first}")]),
        };
        (config.heartbeat, config.start) = (Duration::from_secs(60), Duration::from_secs(300));
        config
    };
    (0..count).map(config).collect()
}

/// Starts them at once, in this process.
pub(crate) async fn start_all(configs: Vec<Config>) -> Result<Vec<Zenoh>, StartError> {
    // Zenoh's log, if `RUST_LOG` asks for it.
    zenoh::try_init_log_from_env();
    let starting: Vec<_> = configs.into_iter().map(|config| spawn(Zenoh::start(config))).collect();
    let mut engines = Vec::new();
    for starting in starting {
        engines.push(starting.join().await.unwrap()?);
    }
    Ok(engines)
}
