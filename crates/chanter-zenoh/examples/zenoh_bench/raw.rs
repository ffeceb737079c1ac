//! Blocking sockets, and Zenoh by itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::wire::LENGTH;
use zenoh::Wait;
use zenoh::qos::CongestionControl;

use super::children::{Outcome, broken, say};
use super::{BYTES, TRIPS};

pub(crate) const FRAME: usize = LENGTH + BYTES;
const PING: &str = "bench/ping";
const PONG: &str = "bench/pong";

pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The number that a message begins with, if it is as long as it should be.
pub(crate) fn number(message: &[u8]) -> Option<u64> {
    (message.len() == FRAME).then_some(u64::from_le_bytes(*message.first_chunk()?))
}

pub(crate) fn message(number: u64) -> Vec<u8> {
    let mut message = vec![7; FRAME];
    message[..8].copy_from_slice(&number.to_le_bytes());
    message
}

pub(crate) fn tcp_echo() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(broken)?;
    say(listener.local_addr().map_err(broken)?);
    let (mut stream, _) = listener.accept().map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let mut message = [0; FRAME];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message).map_err(broken)?;
    }
    Ok(())
}

pub(crate) fn tcp_call(address: &str) -> Outcome {
    let mut stream = TcpStream::connect(address).map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let mut answer = [0; FRAME];
    let clock = Instant::now();
    for trip in 0..TRIPS {
        stream.write_all(&message(trip)).map_err(broken)?;
        stream.read_exact(&mut answer).map_err(broken)?;
        if number(&answer) != Some(trip) {
            return Err(format!("a wrong answer to {trip}"));
        }
    }
    say(clock.elapsed().as_nanos());
    Ok(())
}

pub(crate) fn session(listen: &str, connect: &str) -> zenoh::Result<zenoh::Session> {
    let mut config = zenoh::Config::default();
    config.insert_json5("scouting/multicast/enabled", "false")?;
    config.insert_json5("listen/endpoints", &format!("[{listen}]"))?;
    config.insert_json5("connect/endpoints", &format!("[{connect}]"))?;
    zenoh::open(config).wait()
}

/// As Zenoh's own example `z_pong`: its callback puts the answer.
pub(crate) fn zenoh_echo(express: bool) -> Outcome {
    let port = free_port().map_err(broken)?;
    let session = session(&format!("\"tcp/127.0.0.1:{port}\""), "").map_err(broken)?;
    let answers =
        session.declare_publisher(PONG).congestion_control(CongestionControl::Block).express(express);
    let answers = answers.wait().map_err(broken)?;
    let (end, ended) = sync_channel(1);
    let echo = session.declare_subscriber(PING).callback(move |sample| {
        let _ = answers.put(sample.payload().clone()).wait();
        if sample.payload().len() != FRAME {
            let _ = end.try_send(());
        }
    });
    let _echo = echo.wait().map_err(broken)?;
    say(port);
    ended.recv().map_err(broken)?;
    Ok(())
}

/// A thread takes the message from Zenoh's channel and puts the answer, as threads above an engine do.
pub(crate) fn zenoh_echo_of_thread() -> Outcome {
    let port = free_port().map_err(broken)?;
    let session = session(&format!("\"tcp/127.0.0.1:{port}\""), "").map_err(broken)?;
    let answers = session.declare_publisher(PONG).congestion_control(CongestionControl::Block);
    let answers = answers.wait().map_err(broken)?;
    let calls = session.declare_subscriber(PING).wait().map_err(broken)?;
    say(port);
    loop {
        let call = calls.recv().map_err(broken)?;
        answers.put(call.payload().clone()).wait().map_err(broken)?;
        if call.payload().len() != FRAME {
            // Until the answer has gone.
            std::thread::sleep(std::time::Duration::from_millis(100));
            return Ok(());
        }
    }
}

/// As Zenoh's own example `z_ping`.
pub(crate) fn zenoh_call(port: &str, express: bool) -> Outcome {
    let session = session("", &format!("\"tcp/127.0.0.1:{port}\"")).map_err(broken)?;
    let answers = session.declare_subscriber(PONG).wait().map_err(broken)?;
    let calls = session.declare_publisher(PING).congestion_control(CongestionControl::Block).express(express);
    let calls = calls.wait().map_err(broken)?;
    // Subscribers hear of each other in their time.
    for _ in 0..3000 {
        calls.put(message(u64::MAX)).wait().map_err(broken)?;
        let answer = answers.recv_timeout(std::time::Duration::from_millis(10)).map_err(broken)?;
        if answer.is_some() {
            break;
        }
    }
    while answers.recv_timeout(std::time::Duration::from_millis(200)).map_err(broken)?.is_some() {}
    let clock = Instant::now();
    for trip in 0..TRIPS {
        calls.put(message(trip)).wait().map_err(broken)?;
        let answer = answers.recv().map_err(broken)?;
        if number(&answer.payload().to_bytes()) != Some(trip) {
            return Err(format!("a wrong answer to {trip}"));
        }
    }
    say(clock.elapsed().as_nanos());
    calls.put(vec![0]).wait().map_err(broken)?;
    answers.recv().map_err(broken)?;
    Ok(())
}

/// The same with a Chanter thread on each side: a message is handed over to a virtual processor that sleeps, and
/// nothing else of ours runs.
pub(crate) fn zenoh_in_machine(port: Option<&str>) -> Outcome {
    let machine = Machine::builder().vps(1).build().map_err(broken)?;
    let (own, listen, connect) = match port {
        None => {
            let port = free_port().map_err(broken)?;
            (port, format!("\"tcp/127.0.0.1:{port}\""), String::new())
        }
        Some(port) => (0, String::new(), format!("\"tcp/127.0.0.1:{port}\"")),
    };
    let session = session(&listen, &connect).map_err(broken)?;
    let (hears, says) = if port.is_none() { (PING, PONG) } else { (PONG, PING) };
    let publisher = session.declare_publisher(says).congestion_control(CongestionControl::Block);
    let publisher = publisher.wait().map_err(broken)?;
    let (put, came) = mailbox();
    let subscriber = session.declare_subscriber(hears).callback(move |sample| {
        let _ = put.try_send(sample.payload().to_bytes().into_owned());
    });
    let _subscriber = subscriber.wait().map_err(broken)?;
    let put = |message: Vec<u8>| publisher.put(message).wait().map_err(broken);
    machine.block_on_local(async {
        let next = || async { came.recv().await.map_err(broken) };
        if port.is_none() {
            say(own);
            loop {
                let message = next().await?;
                let is_last = message.len() != FRAME;
                put(message)?;
                if is_last {
                    after(Duration::from_millis(100)).await;
                    return Ok(());
                }
            }
        }
        // Subscribers hear of each other in their time.
        loop {
            put(message(u64::MAX))?;
            if choose((came.recv().wrap(|_| true), after(Duration::from_millis(10)).wrap(|()| false))).await {
                break;
            }
        }
        while choose((came.recv().wrap(|_| true), after(Duration::from_millis(200)).wrap(|()| false))).await {
        }
        let clock = Instant::now();
        for trip in 0..TRIPS {
            put(message(trip))?;
            if number(&next().await?) != Some(trip) {
                return Err(format!("a wrong answer to {trip}"));
            }
        }
        say(clock.elapsed().as_nanos());
        put(vec![0])?;
        next().await.map(drop)
    })
}
