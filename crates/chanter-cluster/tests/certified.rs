//! Requests that are served by the name in the caller's certificate.
#![cfg(all(unix, feature = "tls"))]

use std::net::TcpListener;
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::ProcessId;
use chanter_cluster::engine::socket::{Config, Sockets, Tls};
use chanter_cluster::launcher::{Address, Launched, Secret};
use chanter_cluster::{CallError, Caller, Function, Process, Service, SpawnError};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority, and the text of its certificate.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let text = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), text)
    }

    /// The settings of a process whose certificate has these names, and which trusts this authority.
    fn sign(&self, names: &[&str]) -> Tls {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        Tls::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), self.1.as_bytes())
            .unwrap()
    }
}

/// A job of processes that talk by TCP, each with these settings of TLS.
async fn job(all: Vec<Option<Tls>>) -> Vec<Process> {
    let listeners: Vec<_> = all.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> =
        listeners.iter().map(|listener| Address::Tcp(listener.local_addr().unwrap())).collect();
    let hour = Duration::from_secs(3600);
    let starting: Vec<_> = (0..)
        .zip(listeners)
        .zip(all)
        .map(|((number, listener), tls)| {
            let launched = Launched {
                number,
                addresses: addresses.clone(),
                listener: listener.into(),
                secret: Secret::new([7; 32]),
                segment: None,
                tls: None,
                is_open: false,
            };
            let mut config = Config::default();
            (config.heartbeat, config.hello, config.start, config.tls) = (hour, hour, hour, tls);
            spawn(Sockets::start(launched, config))
        })
        .collect();
    let mut job = Vec::new();
    for starting in starting {
        job.push(Process::start(starting.join().await.unwrap().unwrap()));
    }
    job
}

/// `allow` by the name in the caller's certificate: for requests and for threads, from each side of a connection, and
/// for a process's requests to itself.
#[chanter::test]
async fn the_name_in_a_certificate_says_which_caller_is_served() {
    const ADD: Service<(u32, u32), u32> = Service::new("test::add");
    const WORK: Function<u32, u32> = Function::new("test::work");
    let is_clerk = |caller: &Caller| caller.is_certified_for("CLERK.example");
    let authority = Authority::new();
    let certified = |role| Some(authority.sign(&["job.example", role]).for_name("job.example").unwrap());
    let job = job(["clerk.example", "guest.example", "clerk.example"].map(certified).into()).await;
    for here in &job {
        here.serve_if(ADD, is_clerk, |_, (a, b)| async move { a + b }).unwrap().forever();
        here.offer_if(WORK, is_clerk, |_, n| async move { n + 1 }).unwrap().forever();
    }
    for asks in &job {
        for asked in 0..3 {
            let there = asks.at(asked);
            let (added, spawned) = (there.call(ADD.ask(&(1, 2))).await, there.spawn(WORK.with(&1)).await);
            if asks.number() == 1 {
                let refused = CallError::Refused { process: ProcessId(asked), name: "test::add" };
                assert_eq!(added, Err(refused), "a guest, of {asked}");
                assert_eq!(spawned.unwrap_err(), SpawnError::Refused("test::work"));
            } else {
                assert_eq!(added, Ok(3), "{} of {asked}", asks.number());
                assert_eq!(spawned.unwrap().await, Ok(2));
            }
        }
    }
    let names: Service<(), Vec<String>> = Service::new("test::names");
    let serving = job[2].serve(names, |caller, ()| async move {
        caller.certificate().map_or(Vec::new(), |shown| shown.names().map(str::to_owned).collect())
    });
    let shown = job[1].at(2).call(names.ask(&())).await.unwrap();
    assert_eq!(shown, ["job.example", "guest.example"]);
    drop(serving);
    for here in job {
        spawn(async move { here.leave().await });
    }
}

/// Without TLS no process has a certificate, so services that require one refuse all.
#[chanter::test]
async fn without_certificates_nobody_is_known() {
    const ADD: Service<(u32, u32), u32> = Service::new("test::add");
    let [first, second] = <[Process; 2]>::try_from(job(vec![None, None]).await).unwrap();
    let allow = |caller: &Caller| {
        assert_eq!(caller.certificate(), None);
        caller.is_certified_for("127.0.0.1") || caller.is_certified_for("")
    };
    let _serving = second.serve_if(ADD, allow, |_, (a, b)| async move { a + b }).unwrap();
    let refused = CallError::Refused { process: ProcessId(1), name: "test::add" };
    assert_eq!(first.at(1).call(ADD.ask(&(1, 2))).await, Err(refused));
}
