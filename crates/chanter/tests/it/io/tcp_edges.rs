//! TCP streams and edges: a read that takes less than it has room for ends the socket's readiness, so the
//! edges that come later, and the end, must never be missed.

// Under Miri nothing is watched.
#![cfg(not(miri))]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    event::from_cancel_safe,
    io::{TcpListener, TcpStream},
};
use futures::{AsyncReadExt, AsyncWriteExt};

const LONG: Duration = Duration::from_secs(240);

/// Runs `serve` with one connection, whose other side is given to `client` on an OS thread.
fn with_client<T: Send + 'static>(
    vps: usize,
    client: impl FnOnce(std::net::TcpStream) + Send + 'static,
    serve: impl AsyncFnOnce(TcpStream) -> T,
) -> T {
    let machine = Machine::builder().vps(vps).build().expect("a machine");
    machine.block_on_local(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let addr = listener.local_addr().expect("an address");
        let client = std::thread::spawn(move || {
            let stream = std::net::TcpStream::connect(addr).expect("it listens");
            stream.set_nodelay(true).expect("it can be set");
            client(stream);
        });
        let (stream, _) = listener.accept().await.expect("a connection");
        let served = serve(stream).await;
        client.join().expect("the client is content");
        served
    })
}

/// The bytes that come until the end; panics when the end is not noticed.
async fn read_all(stream: &mut TcpStream, room: usize) -> std::io::Result<usize> {
    let whole = async {
        let (mut total, mut bytes) = (0, vec![0; room]);
        loop {
            match stream.read(&mut bytes).await? {
                0 => return Ok(total),
                read => total += read,
            }
        }
    };
    from_cancel_safe(whole).timeout(LONG).await.expect("the end was missed")
}

/// The bytes and the end are there before the first look, so there is one edge for both. Catches a short
/// read that ends the readiness for good.
#[test]
fn an_end_that_came_with_the_last_bytes_is_seen() {
    for room in [16, 4096] {
        let client = |mut stream: std::net::TcpStream| {
            stream.write_all(&[7; 100]).expect("it can be written");
            stream.shutdown(Shutdown::Write).expect("it can be shut");
            let _ = stream.read(&mut [0]);
        };
        let read = with_client(1, client, async |mut stream| {
            // The driver looks at the poller meanwhile: the edge is known before anybody reads.
            after(Duration::from_millis(50)).await;
            read_all(&mut stream, room).await
        });
        assert_eq!(read.expect("no error"), 100);
    }
}

/// A read stops at urgent data, and no edge tells of the bytes behind it. Catches a short read that ends the
/// readiness for good.
#[test]
fn bytes_behind_urgent_data_are_read() {
    // Before anybody reads; while somebody waits; both.
    for rounds in [[50, 0], [0, 50], [50, 50]] {
        let [before, between] = rounds.map(Duration::from_millis);
        let client = move |mut stream: std::net::TcpStream| {
            for _ in 0..2 {
                std::thread::sleep(between);
                stream.write_all(b"before").expect("it can be written");
                let sent = socket2::SockRef::from(&stream).send_out_of_band(b"!").expect("it can be sent");
                assert_eq!(sent, 1);
                stream.write_all(b"behind").expect("it can be written");
            }
            // No end comes meanwhile: it would be an edge.
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).expect("an answer");
        };
        with_client(1, client, async |mut stream| {
            after(before).await;
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"behindbefore!behind") && !bytes.ends_with(b"behindbeforebehind") {
                let mut some = [0; 4096];
                let read = from_cancel_safe(stream.read(&mut some)).timeout(LONG).await;
                let read = read.unwrap_or_else(|| panic!("no more after {bytes:?}")).expect("no error");
                assert!(read > 0, "an end after {bytes:?}");
                bytes.extend_from_slice(&some[..read]);
            }
            assert!(bytes.starts_with(b"before"));
            stream.write_all(b"done").await.expect("it can be written");
        });
    }
}

/// The same with the events of readiness and `try_read`.
#[test]
fn readiness_outlasts_urgent_data() {
    let client = |mut stream: std::net::TcpStream| {
        stream.write_all(b"before").expect("it can be written");
        socket2::SockRef::from(&stream).send_out_of_band(b"!").expect("it can be sent");
        stream.write_all(b"behind").expect("it can be written");
        stream.read_exact(&mut [0; 4]).expect("an answer");
    };
    with_client(1, client, async |mut stream| {
        after(Duration::from_millis(50)).await;
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"behind") {
            stream.readable().timeout(LONG).await.expect("the rest was missed").expect("it is ready");
            let mut some = [0; 4096];
            match stream.try_read(&mut some) {
                Ok(read) => bytes.extend_from_slice(&some[..read]),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
        stream.write_all(b"done").await.expect("it can be written");
    });
}

/// Unix sockets have urgent data too (Linux 5.15), and stop at descriptors that are passed along.
#[test]
fn bytes_behind_urgent_data_of_a_unix_socket_are_read() {
    let machine = Machine::builder().vps(1).build().expect("a machine");
    machine.block_on(async {
        let (mut stream, there) = chanter::io::UnixStream::pair().expect("a pair");
        (&mut there.as_std()).write_all(b"before").expect("it can be written");
        if socket2::SockRef::from(there.as_std()).send_out_of_band(b"!").is_err() {
            return;
        }
        (&mut there.as_std()).write_all(b"behind").expect("it can be written");
        after(Duration::from_millis(50)).await;
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"behind") {
            let mut some = [0; 4096];
            let read = from_cancel_safe(stream.read(&mut some)).timeout(LONG).await;
            let read = read.unwrap_or_else(|| panic!("no more after {bytes:?}")).expect("no error");
            bytes.extend_from_slice(&some[..read]);
        }
        drop(there);
    });
}

/// The end comes while somebody waits, after a short read.
#[test]
fn an_end_that_comes_later_is_seen() {
    let client = |mut stream: std::net::TcpStream| {
        stream.write_all(&[7; 100]).expect("it can be written");
        std::thread::sleep(Duration::from_millis(50));
        stream.shutdown(Shutdown::Write).expect("it can be shut");
        let _ = stream.read(&mut [0]);
    };
    let read = with_client(1, client, async |mut stream| read_all(&mut stream, 4096).await);
    assert_eq!(read.expect("no error"), 100);
}

/// Nobody who has connected is lost with the listener, however many there are, and the port is given up.
#[test]
fn a_listener_that_is_closed_hands_out_who_waits() {
    const MANY: usize = 50;
    for taken in [0, 1, 7] {
        let machine = Machine::builder().vps(1).build().expect("a machine");
        machine.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let clients: Vec<_> =
                (0..MANY).map(|_| std::net::TcpStream::connect(address).expect("a queue")).collect();
            for _ in 0..taken {
                listener.accept().await.expect("a connection");
            }
            let waiting = listener.close();
            let mut rest = 0;
            while let Ok(connection) = waiting.recv().await {
                connection.expect("a connection");
                rest += 1;
            }
            assert_eq!(rest, MANY - taken);
            let refused = std::net::TcpStream::connect(address).expect_err("the port is given up");
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            drop(clients);
        });
    }
}

/// The same with the events of readiness and `try_read`.
#[test]
fn readiness_as_an_event_sees_the_end() {
    let client = |mut stream: std::net::TcpStream| {
        stream.write_all(&[7; 100]).expect("it can be written");
        stream.shutdown(Shutdown::Write).expect("it can be shut");
        let _ = stream.read(&mut [0]);
    };
    let total = with_client(1, client, async |stream| {
        after(Duration::from_millis(50)).await;
        let (mut total, mut bytes) = (0, [0; 4096]);
        loop {
            match stream.try_read(&mut bytes) {
                Ok(0) => return total,
                Ok(read) => total += read,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            stream.readable().timeout(LONG).await.expect("the end was missed").expect("it is ready");
        }
    });
    assert_eq!(total, 100);
}

/// Messages of many sizes, each answered: bytes that come between a read and its judgement are an edge
/// that must not be lost.
#[test]
fn no_edge_is_lost_between_short_reads() {
    const ROUNDS: usize = 3_000;
    for vps in [1, 2] {
        let client = |mut stream: std::net::TcpStream| {
            let bytes = [1; 700];
            for round in 0..ROUNDS {
                let size = 1 + round * 7 % 700;
                let (first, second) = bytes[..size].split_at(round % size);
                stream.write_all(first).expect("it can be written");
                stream.write_all(second).expect("it can be written");
                let mut answer = [0; 8];
                stream.read_exact(&mut answer).expect("an answer");
                assert_eq!(u64::from_le_bytes(answer), size as u64);
            }
        };
        let rounds = with_client(vps, client, async |mut stream| {
            let mut bytes = [0; 4096];
            for round in 0..ROUNDS {
                let size = 1 + round * 7 % 700;
                let mut got = 0;
                while got < size {
                    let read = from_cancel_safe(stream.read(&mut bytes)).timeout(LONG).await;
                    got +=
                        read.unwrap_or_else(|| panic!("round {round}: an edge was lost")).expect("no error");
                }
                stream.write_all(&(got as u64).to_le_bytes()).await.expect("it can be written");
            }
            ROUNDS
        });
        assert_eq!(rounds, ROUNDS);
    }
}

/// A socket follows threads that wait for it elsewhere, there and back, and no edge is lost on the way.
/// Catches a socket that nobody watches for a moment, and one that is watched under a stranger's key.
#[test]
fn a_socket_that_moves_loses_no_edge() {
    const ROUNDS: u64 = 400;
    let client = |mut stream: std::net::TcpStream| {
        for round in 0..4 * ROUNDS {
            stream.write_all(&round.to_le_bytes()).expect("it can be written");
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(u64::from_le_bytes(answer), round);
        }
    };
    with_client(2, client, async |mut stream| {
        for leg in 0..4 {
            let there = Thread::builder().on(leg % 2).spawn(async move {
                for round in leg as u64 * ROUNDS..(leg as u64 + 1) * ROUNDS {
                    let mut bytes = [0; 8];
                    let read = from_cancel_safe(stream.read_exact(&mut bytes)).timeout(LONG).await;
                    read.unwrap_or_else(|| panic!("round {round}: an edge was lost")).expect("no error");
                    assert_eq!(u64::from_le_bytes(bytes), round);
                    stream.write_all(&bytes).await.expect("it can be written");
                }
                stream
            });
            stream = there.await.expect("no panic");
        }
    });
}
