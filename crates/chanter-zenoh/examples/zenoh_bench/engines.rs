//! Chanter's engines: of sockets, and of Zenoh; alone, and with threads above them.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::engine::socket::{Config as SocketConfig, Sockets};
use chanter_cluster::engine::{Change, Engine, Lane, Leave, Notifier, ProcessId, Sink};
use chanter_cluster::launcher::{Address, Launched, Secret};
use chanter_cluster::wire::{Body, Header, Kind};
use chanter_cluster::{ANYONE, Process};
use chanter_zenoh::{Config, Zenoh};

use super::children::{Failure, Outcome, broken, say};
use super::raw::free_port;
use super::{BYTES, TRIPS};

const TAG: u32 = 1;

/// The one that listens.
pub(crate) fn first(way: &str, role: &str) -> Outcome {
    let machine = Machine::builder().vps(1).build().map_err(broken)?;
    match way {
        "credits" | "credits-threads" => {
            let port = free_port().map_err(broken)?;
            say(port);
            machine.block_on_local(async {
                let config = config(0).listen([format!("tcp/127.0.0.1:{port}")]);
                act(Zenoh::start(config).await.map_err(broken)?, way, role).await
            })
        }
        "sockets" | "sockets-threads" => {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(broken)?;
            let address = listener.local_addr().map_err(broken)?;
            say(address);
            machine.block_on_local(async {
                let launched = launched(0, listener, address)?;
                act(Sockets::start(launched, SocketConfig::default()).await.map_err(broken)?, way, role).await
            })
        }
        other => Err(format!("no engine is called {other}")),
    }
}

/// The one that connects.
pub(crate) fn second(way: &str, role: &str, address: &str) -> Outcome {
    let machine = Machine::builder().vps(1).build().map_err(broken)?;
    match way {
        "credits" | "credits-threads" => machine.block_on_local(async {
            let config = config(1).listen(["tcp/127.0.0.1:0"]).connect([format!("tcp/127.0.0.1:{address}")]);
            act(Zenoh::start(config).await.map_err(broken)?, way, role).await
        }),
        "sockets" | "sockets-threads" => {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(broken)?;
            let first = address.parse().map_err(broken)?;
            machine.block_on_local(async {
                let launched = launched(1, listener, first)?;
                act(Sockets::start(launched, SocketConfig::default()).await.map_err(broken)?, way, role).await
            })
        }
        other => Err(format!("no engine is called {other}")),
    }
}

fn config(number: u32) -> Config {
    Config::new("bench", number, 2).scouting(false)
}

fn launched(number: u32, listener: TcpListener, first: std::net::SocketAddr) -> Result<Launched, Failure> {
    let own = listener.local_addr().map_err(broken)?;
    let addresses = if number == 0 { vec![own, own] } else { vec![first, own] };
    Ok(Launched {
        number,
        addresses: addresses.into_iter().map(Address::Tcp).collect(),
        listener: listener.into(),
        secret: Secret::new([1; 32]),
        segment: None,
        tls: None,
        is_open: false,
    })
}

async fn act<E: Engine>(engine: E, way: &str, role: &str) -> Outcome {
    match (role, way.ends_with("-threads")) {
        ("echo", false) => echo(engine).await,
        ("call", false) => call(engine).await,
        ("echo", true) => echo_of_threads(Process::start(engine)).await,
        ("call", true) => call_of_threads(Process::start(engine)).await,
        ("wait", _) => {
            let here = Process::start(engine);
            while here.down(1).is_none() {
                after(Duration::from_millis(50)).await;
            }
            Ok(())
        }
        _ => watch(Process::start(engine)).await,
    }
}

/// The request numbers of the messages that have come.
#[derive(Default)]
struct Came(Option<u64>, bool);

impl Sink for Came {
    fn arrived(&mut self, _from: ProcessId, _lane: Lane, frame: Body) {
        self.0 = Header::decode(frame.frame(), BYTES as u32).ok().map(|header| header.request);
    }

    fn peer(&mut self, _peer: ProcessId, change: Change) {
        self.1 |= matches!(change, Change::Down(_));
    }
}

/// An engine, and the sleeper that its notifier wakes.
struct Rung<E> {
    engine: E,
    heard: Receiver<()>,
}

impl<E: Engine> Rung<E> {
    fn new(engine: E) -> Self {
        let (ring, heard) = mailbox();
        engine.attach(Notifier::new(move || {
            let _ = ring.try_send(());
        }));
        Self { engine, heard }
    }

    async fn until(&self, is_so: impl Fn(&E, &Came) -> bool) -> Came {
        let mut came = Came::default();
        loop {
            let polled = self.engine.poll(1, &mut came);
            if is_so(&self.engine, &came) {
                return came;
            }
            if !polled.has_found() {
                let _ = self.heard.recv().await;
                while self.heard.try_recv().is_ok() {}
            }
        }
    }

    fn send(&self, to: u32, request: u64) -> Outcome {
        let mut body = Body::with_capacity(BYTES);
        body.extend_from_slice(&[7; BYTES]);
        body.set_header(&Header { length: BYTES as u32, request, ..Header::new(Kind::Message) });
        self.engine.try_send(ProcessId(to), Lane::User, body).map_err(|_| "the lane is full".to_owned())
    }
}

async fn echo<E: Engine>(engine: E) -> Outcome {
    let end = Rung::new(engine);
    for _ in 0..TRIPS {
        let came = end.until(|_, came| came.0.is_some()).await;
        end.send(1, came.0.unwrap_or_default())?;
    }
    end.until(|engine, _| engine.has_ended()).await;
    Ok(())
}

async fn call<E: Engine>(engine: E) -> Outcome {
    let end = Rung::new(engine);
    let clock = Instant::now();
    for trip in 0..TRIPS {
        end.send(0, trip)?;
        let answer = end.until(|_, came| came.0.is_some()).await.0;
        if answer != Some(trip) {
            return Err(format!("the answer to {trip}: {answer:?}"));
        }
    }
    say(clock.elapsed().as_nanos());
    end.engine.leave(Leave::Drain);
    end.until(|engine, _| engine.has_ended()).await;
    Ok(())
}

async fn echo_of_threads(here: Process) -> Outcome {
    let me = here.open("echo").map_err(broken)?;
    for _ in 0..TRIPS {
        let got = me.recv::<Vec<u8>>(ANYONE, TAG).await.map_err(broken)?;
        me.send(got.from, TAG, &got.value).await.map_err(broken)?;
    }
    here.leave().await;
    Ok(())
}

async fn call_of_threads(here: Process) -> Outcome {
    let me = here.inbox().map_err(broken)?;
    let echo = here.lookup("echo@0").await.map_err(broken)?;
    let mut message = vec![7; BYTES];
    let clock = Instant::now();
    for trip in 0..TRIPS {
        message[..8].copy_from_slice(&trip.to_le_bytes());
        me.send(echo, TAG, &message).await.map_err(broken)?;
        let answer = me.recv::<Vec<u8>>(ANYONE, TAG).await.map_err(broken)?.value;
        if answer != message {
            return Err(format!("a wrong answer to {trip}"));
        }
    }
    say(clock.elapsed().as_nanos());
    here.leave().await;
    Ok(())
}

/// Says when process 0 is not there any more.
async fn watch(here: Process) -> Outcome {
    let me = here.inbox().map_err(broken)?;
    say("up");
    let _ = me.returned(0).await;
    say("down");
    here.leave().await;
    Ok(())
}
