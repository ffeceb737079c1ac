//! The meeting of processes, and the errors if they do not find each other.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Process};
use chanter_engine::{Engine, ProcessId};
use chanter_zenoh::{Config, StartError, Zenoh};

/// Whether this machine's multicasts come back to it, as Zenoh's scouting needs.
fn multicasts() -> bool {
    let group = Ipv4Addr::new(224, 0, 0, 225);
    let probe = || {
        let receiver = UdpSocket::bind("0.0.0.0:0")?;
        receiver.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
        receiver.set_read_timeout(Some(Duration::from_secs(2)))?;
        let sender = UdpSocket::bind("0.0.0.0:0")?;
        sender.send_to(b"anybody?", (group, receiver.local_addr()?.port()))?;
        receiver.recv(&mut [0; 16])
    };
    probe().is_ok()
}

async fn talks(engines: Vec<Zenoh>) {
    let heres: Vec<Process> = engines.into_iter().map(Process::start).collect();
    let to = heres[0].open("to").unwrap();
    for here in &heres[1..] {
        let from = here.inbox().unwrap();
        let name = here.lookup("to@0").await.unwrap();
        from.send(name, 1, &here.number()).await.unwrap();
        assert_eq!(to.recv::<u32>(ANYONE, 1).await.unwrap().value, here.number());
    }
    for here in heres {
        here.leave().await;
    }
}

/// Each knows the first one's endpoint only: that one tells them of each other.
#[chanter::test]
async fn processes_meet_at_an_endpoint() {
    let first = format!("127.0.0.1:{}", common::free_port());
    talks(common::start_all(common::configs("meet", 4, "tcp", &first)).await.unwrap()).await;
}

/// Nobody knows anybody.
#[chanter::test]
async fn processes_meet_by_multicast() {
    if !multicasts() {
        println!("skipped: this network does not multicast");
        return;
    }
    let job = common::job("scout");
    let start = Duration::from_secs(120);
    let configs = (0..3).map(|number| {
        let mut config = Config::new(&job, number, 3);
        config.start = start;
        config
    });
    talks(common::start_all(configs.collect()).await.unwrap()).await;
}

#[chanter::test]
async fn a_process_alone_is_a_job() {
    let zenoh = Zenoh::start(Config::new(common::job("alone"), 0, 1).scouting(false)).await.unwrap();
    assert_eq!((zenoh.me(), zenoh.roster().len(), zenoh.has_ended()), (ProcessId(0), 1, true));
}

#[chanter::test]
async fn who_is_missing_is_named() {
    let first = format!("127.0.0.1:{}", common::free_port());
    let mut configs = common::configs("few", 4, "tcp", &first);
    configs.truncate(2);
    configs.iter_mut().for_each(|config| config.start = Duration::from_secs(3));
    let starting: Vec<_> = configs.into_iter().map(|config| spawn(Zenoh::start(config))).collect();
    for starting in starting {
        match starting.join().await.unwrap() {
            Err(StartError::Missing(missing)) => {
                assert!(missing.contains(&ProcessId(2)) && missing.contains(&ProcessId(3)), "{missing:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[chanter::test]
async fn a_number_that_two_have_is_named() {
    let first = format!("127.0.0.1:{}", common::free_port());
    let mut configs = common::configs("twice", 2, "tcp", &first);
    configs.push(configs[1].clone());
    configs.iter_mut().for_each(|config| config.start = Duration::from_secs(5));
    // Nobody is ready before all three are there, or before two are there with the same number.
    let starting: Vec<_> = configs.into_iter().map(|config| spawn(Zenoh::start(config))).collect();
    let mut started = Vec::new();
    for starting in starting {
        started.push(starting.join().await.unwrap());
    }
    let twice = started.iter().filter(|one| matches!(one, Err(StartError::Twice(ProcessId(1))))).count();
    assert!(twice >= 1, "{started:?}");
}

/// Jobs of other names do not see each other, although their sessions are connected.
#[chanter::test]
async fn jobs_are_apart() {
    let first = format!("127.0.0.1:{}", common::free_port());
    let one = common::configs("one", 2, "tcp", &first);
    let mut other = common::configs("other", 2, "tcp", &first);
    for config in &mut other {
        *config = config.clone().listen(["tcp/127.0.0.1:0"]).connect([format!("tcp/{first}")]);
    }
    let other = spawn(common::start_all(other));
    let one = common::start_all(one).await.unwrap();
    let other = other.join().await.unwrap().unwrap();
    for engines in [one, other] {
        talks(engines).await;
    }
}
