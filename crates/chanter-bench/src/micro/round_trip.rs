//! `round-trip`: a message of 1 KB and its answer between two processes. Two machines of one virtual processor each
//! stand for the processes. The engines are sockets, and the memory of a node. They stand beside two OS threads on
//! raw sockets of the same kind, and beside Chanter's streams with nothing above them.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use chanter_cluster::engine::shm::{Shm, ShmSlot};
use chanter_cluster::engine::socket::{Config, Sockets, StartError};
use chanter_cluster::engine::{Change, Engine, Lane, Leave, ProcessId, Sink};
use chanter_cluster::launcher::{self, Address, Launched, Secret};
use chanter_cluster::wire::{Body, Header, Kind, LENGTH};

use futures_util::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::machine;
use crate::case::{Case, Failure, Load, Outcome, Sample};

/// Bytes of a message's body.
const BYTES: usize = 1024;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    if vps != 1 {
        return Vec::new();
    }
    let case = |system, variant, run: fn(Load) -> Outcome| {
        Case::new("round-trip", system, variant, run).load_of(20_000, vps)
    };
    vec![
        case("os", "unix", raw_unix),
        case("chanter", "unix, bare stream", bare_unix),
        case("chanter", "unix", engine_unix),
        case("os", "tcp", raw_tcp),
        case("chanter", "tcp, bare stream", bare_tcp),
        case("chanter", "tcp", engine_tcp),
        case("chanter", "node, both poll", engine_near),
    ]
}

pub(super) fn broken(error: impl ToString) -> Failure {
    Failure::Broken(error.to_string())
}

fn raw_unix(load: Load) -> Outcome {
    let (one, other) = UnixStream::pair().map_err(broken)?;
    raw(load, one, other)
}

fn raw_tcp(load: Load) -> Outcome {
    let (one, other) = tcp_pair().map_err(broken)?;
    raw(load, one, other)
}

fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let other = listener.accept()?.0;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

fn bare_unix(load: Load) -> Outcome {
    let (one, other) = UnixStream::pair().map_err(broken)?;
    bare(load, one, other, chanter::io::UnixStream::from_std)
}

fn bare_tcp(load: Load) -> Outcome {
    let (one, other) = tcp_pair().map_err(broken)?;
    bare(load, one, other, chanter::io::TcpStream::from_std)
}

fn bare<S, C>(load: Load, one: S, other: S, adopt: fn(S) -> io::Result<C>) -> Outcome
where
    S: Send + 'static,
    C: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let echo = thread::spawn(move || {
        machine(1)?.block_on_local(async {
            let mut stream = adopt(other).map_err(broken)?;
            let mut message = [0; LENGTH + BYTES];
            while stream.read_exact(&mut message).await.is_ok() {
                stream.write_all(&message).await.map_err(broken)?;
            }
            Ok(())
        })
    });
    let elapsed = machine(1)?.block_on_local(async {
        let mut stream = adopt(one).map_err(broken)?;
        let mut message = [7; LENGTH + BYTES];
        let clock = Instant::now();
        for trip in 0..load.n {
            message[..8].copy_from_slice(&trip.to_le_bytes());
            stream.write_all(&message).await.map_err(broken)?;
            message[..8].fill(0);
            stream.read_exact(&mut message).await.map_err(broken)?;
            if message[..8] != trip.to_le_bytes() {
                return Err(Failure::Wrong(format!("the answer to {trip}: {:?}", &message[..8])));
            }
        }
        Ok(clock.elapsed())
    })?;
    echo.join().map_err(|_| broken("the echo has panicked"))??;
    Ok(Sample::new(load.n, elapsed))
}

fn raw<S: Read + Write + Send + 'static>(load: Load, mut one: S, mut other: S) -> Outcome {
    let echo = thread::spawn(move || {
        let mut message = [0; LENGTH + BYTES];
        while other.read_exact(&mut message).is_ok() {
            other.write_all(&message)?;
        }
        io::Result::Ok(())
    });
    let mut message = [7; LENGTH + BYTES];
    let clock = Instant::now();
    for trip in 0..load.n {
        message[..8].copy_from_slice(&trip.to_le_bytes());
        one.write_all(&message).map_err(broken)?;
        message[..8].fill(0);
        one.read_exact(&mut message).map_err(broken)?;
        if message[..8] != trip.to_le_bytes() {
            return Err(Failure::Wrong(format!("the answer to {trip}: {:?}", &message[..8])));
        }
    }
    let elapsed = clock.elapsed();
    drop(one);
    echo.join().map_err(|_| broken("the echo has panicked"))?.map_err(broken)?;
    Ok(Sample::new(load.n, elapsed))
}

fn engine_unix(load: Load) -> Outcome {
    on_unix(|ends| engine(load, ends))
}

pub(super) fn on_unix(run: impl FnOnce([(Address, OwnedFd); 2]) -> Outcome) -> Outcome {
    let folder = tempfile::tempdir().map_err(broken)?;
    let bind = |number: u32| {
        let path = folder.path().join(number.to_string());
        let listener = UnixListener::bind(&path)?;
        io::Result::Ok((Address::Unix(path), OwnedFd::from(listener)))
    };
    run([bind(0).map_err(broken)?, bind(1).map_err(broken)?])
}

fn engine_tcp(load: Load) -> Outcome {
    let bind = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        io::Result::Ok((Address::Tcp(listener.local_addr()?), OwnedFd::from(listener)))
    };
    engine(load, [bind().map_err(broken)?, bind().map_err(broken)?])
}

/// The request numbers of the messages that have come.
#[derive(Default)]
struct Came(Option<u64>);

impl Sink for Came {
    fn arrived(&mut self, _from: ProcessId, _lane: Lane, frame: Body) {
        self.0 = Header::decode(frame.frame(), BYTES as u32).ok().map(|header| header.request);
    }

    fn peer(&mut self, _peer: ProcessId, _change: Change) {}
}

/// Polls until a condition holds; `wait` runs in between.
async fn poll_until<E: Engine>(
    engine: &E,
    wait: impl AsyncFn(&E),
    is_so: impl Fn(&E, &Came) -> bool,
) -> Came {
    let mut came = Came::default();
    loop {
        let polled = engine.poll(1, &mut came);
        if is_so(engine, &came) {
            return came;
        }
        if !polled.has_found() {
            wait(engine).await;
        }
    }
}

fn send(engine: &impl Engine, to: u32, request: u64) -> Result<(), Failure> {
    let mut body = Body::with_capacity(BYTES);
    body.extend_from_slice(&[7; BYTES]);
    body.set_header(&Header { length: BYTES as u32, request, ..Header::new(Kind::Message) });
    engine.try_send(ProcessId(to), Lane::User, body).map_err(|_| broken("the queue is full"))
}

fn engine(load: Load, ends: [(Address, OwnedFd); 2]) -> Outcome {
    // The notifier wakes it.
    round_trips(
        load,
        ends,
        async |launched| Sockets::start(launched, Config::default()).await,
        async |sockets| {
            sockets.news().await;
        },
    )
}

/// The engine of shared memory, while both processes poll: neither sleeps.
fn engine_near(load: Load) -> Outcome {
    let segment = launcher::segment(2).map_err(broken)?;
    let start = async |launched: Launched| {
        let shm_slot = ShmSlot::take(segment.try_clone()?, ProcessId(launched.number), 2)?;
        Ok::<_, StartError>(Shm::new(shm_slot, Sockets::start(launched, Config::default()).await?))
    };
    on_unix(|ends| round_trips(load, ends, start, async |_| chanter::yield_now().await))
}

fn round_trips<E: Engine>(
    load: Load,
    [zero, one]: [(Address, OwnedFd); 2],
    start: impl AsyncFn(Launched) -> Result<E, StartError> + Sync,
    wait: impl AsyncFn(&E) + Sync,
) -> Outcome {
    let addresses = vec![zero.0, one.0];
    let launched = |number, listener| Launched {
        number,
        addresses: addresses.clone(),
        listener,
        secret: Secret::new([1; 32]),
        segment: None,
        tls: None,
        is_open: false,
    };
    let (caller, echo) = (launched(0, zero.1), launched(1, one.1));
    let trips = load.n;
    let has_come = |_: &E, came: &Came| came.0.is_some();
    let has_ended = |engine: &E, _: &Came| engine.has_ended();
    let elapsed = thread::scope(|scope| {
        let echo = scope.spawn(|| {
            machine(1)?.block_on_local(async {
                let engine = start(echo).await.map_err(broken)?;
                for _ in 0..trips {
                    let came = poll_until(&engine, &wait, has_come).await;
                    send(&engine, 0, came.0.unwrap_or_default())?;
                }
                poll_until(&engine, &wait, has_ended).await;
                Ok::<_, Failure>(())
            })
        });
        let elapsed = machine(1)?.block_on_local(async {
            let engine = start(caller).await.map_err(broken)?;
            let clock = Instant::now();
            for trip in 0..trips {
                send(&engine, 1, trip)?;
                let answer = poll_until(&engine, &wait, has_come).await.0;
                if answer != Some(trip) {
                    return Err(Failure::Wrong(format!("the answer to {trip}: {answer:?}")));
                }
            }
            let elapsed: Duration = clock.elapsed();
            engine.leave(Leave::Drain);
            poll_until(&engine, &wait, has_ended).await;
            Ok(elapsed)
        })?;
        echo.join().map_err(|_| broken("the echo has panicked"))??;
        Ok(elapsed)
    })?;
    Ok(Sample::new(trips, elapsed))
}
