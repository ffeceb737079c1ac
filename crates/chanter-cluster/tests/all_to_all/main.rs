//! Each message is received once and in order, however many threads of a process send to one inbox, and however long some of their
//! messages are: on every engine that is in this crate. (`chanter-mpi` does the same.)

mod traffic;

use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_cluster::engine::{Engine, Fault, Faults, Local, Pace, Reliable, Simulated};
use traffic::Traffic;

const PROCESSES: u32 = 3;

/// With two senders in each process, and with 64. `CHANTER_TRAFFIC`: so many times as many messages.
fn traffics() -> [Traffic; 2] {
    let times: u64 = std::env::var("CHANTER_TRAFFIC").map_or(1, |times| times.parse().unwrap());
    [(2, 2000), (64, 60)].map(|(senders, messages)| Traffic { senders, messages: times * messages })
}

/// Each engine is a process's.
async fn all_to_all<E: Engine>(traffic: Traffic, engines: Vec<E>) {
    let processes: Vec<_> = engines
        .into_iter()
        .map(|engine| {
            let here = Process::start(engine);
            spawn(async move {
                traffic.run(here.clone()).await;
                here.leave().await;
            })
        })
        .collect();
    for process in processes {
        process.join().await.unwrap();
    }
}

#[chanter::test(limit = 600)]
async fn within_one_process() {
    for traffic in traffics() {
        all_to_all(traffic, Local::cluster(PROCESSES)).await;
    }
}

#[chanter::test(limit = 600)]
async fn on_a_network_that_misbehaves() {
    let kinds = [Fault::Lose, Fault::Duplicate, Fault::Delay, Fault::Reorder];
    for traffic in traffics() {
        let delay = Duration::from_millis(1);
        let faults = Faults { one_in: 50, delay, seed: traffic.senders, ..Faults::of(&kinds, u32::MAX) };
        let pace = Pace { resend: 2 * delay, slowest: 10 * delay, ..Pace::default() };
        let engines = Simulated::cluster(PROCESSES, faults).into_iter();
        all_to_all(traffic, engines.map(|engine| Reliable::over(engine, pace.clone())).collect()).await;
    }
}

#[cfg(unix)]
mod connected {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;

    use chanter_cluster::engine::ProcessId;
    use chanter_cluster::engine::shm::{Shm, ShmSlot};
    use chanter_cluster::engine::socket::{Config, Sockets};
    use chanter_cluster::launcher::{Address, Launched, Secret, segment};

    use super::*;

    /// The engines of processes that listen there.
    async fn connect(listening: Vec<(OwnedFd, Address)>) -> Vec<Sockets> {
        let addresses: Vec<_> = listening.iter().map(|(_, address)| address.clone()).collect();
        let starting: Vec<_> = (0..)
            .zip(listening)
            .map(|(number, (listener, _))| {
                let (addresses, secret) = (addresses.clone(), Secret::new([7; 32]));
                let launched = Launched {
                    number,
                    addresses,
                    listener,
                    secret,
                    segment: None,
                    tls: None,
                    is_open: false,
                };
                spawn(Sockets::start(launched, Config::default()))
            })
            .collect();
        let mut engines = Vec::new();
        for starting in starting {
            engines.push(starting.join().await.unwrap().unwrap());
        }
        engines
    }

    async fn over_tcp() -> Vec<Sockets> {
        let listening = (0..PROCESSES).map(|_| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = Address::Tcp(listener.local_addr().unwrap());
            (listener.into(), address)
        });
        connect(listening.collect()).await
    }

    async fn over_unix() -> Vec<Sockets> {
        let folder = tempfile::tempdir().unwrap();
        let listening = (0..PROCESSES).map(|number| {
            let path = folder.path().join(number.to_string());
            (UnixListener::bind(&path).unwrap().into(), Address::Unix(path))
        });
        connect(listening.collect()).await
    }

    async fn on_a_node() -> Vec<Shm> {
        let segment = segment(PROCESSES).unwrap();
        let seat =
            |number| ShmSlot::take(segment.try_clone().unwrap(), ProcessId(number), PROCESSES).unwrap();
        let seats: Vec<ShmSlot> = (0..PROCESSES).map(seat).collect();
        let sockets = over_unix().await;
        seats.into_iter().zip(sockets).map(|(seat, sockets)| Shm::new(seat, sockets)).collect()
    }

    #[chanter::test(limit = 600)]
    async fn by_tcp() {
        for traffic in traffics() {
            all_to_all(traffic, over_tcp().await).await;
        }
    }

    #[chanter::test(limit = 600)]
    async fn by_unix_sockets() {
        for traffic in traffics() {
            all_to_all(traffic, over_unix().await).await;
        }
    }

    #[chanter::test(limit = 600)]
    async fn in_the_memory_of_a_node() {
        for traffic in traffics() {
            all_to_all(traffic, on_a_node().await).await;
        }
    }
}
