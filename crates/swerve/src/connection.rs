//! The thread of one connection.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chanter::io::TcpStream;
use chanter::prelude::*;
use hyper::server::conn::http1;

use crate::files::FileProcessor;
use crate::logger::Log;
use crate::meter::{Meter, Overdue, Patience, Watch};
use crate::occupancy::Presence;
use crate::record::Record;
use crate::service::Service;
use crate::stop::Stop;
use crate::wire::{Wire, last_word, linger, read_available};

/// Largest number of bytes of a request's head; more is 431. It bounds what hyper buffers for an answer, too.
const MOST_HEAD: usize = 32 * 1024;

/// The answer to a client that began a request and did not end it.
const REQUEST_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 20\r\n\r\n408 Request Timeout\n";

/// Time for which a connection that has said nothing yet is not called idle: it has just been made in order to ask.
const NEW: Duration = Duration::from_secs(1);

/// Interval of the alarm while our own work has to be done, which has no deadline.
const NO_HURRY: Duration = Duration::from_secs(3600);

/// State that all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) files: FileProcessor,
    pub(crate) log: Option<Log>,
    pub(crate) stop: Stop,
    pub(crate) patience: Patience,
}

/// Reason of a wake-up.
enum Turn {
    /// Hyper has nothing more to do.
    Finished(hyper::Result<()>),
    /// The order to stop, or to cut.
    Ordered,
    /// A newcomer needs the place, if the connection is idle.
    Asked,
    /// The alarm rang, or has to be set to an earlier time.
    Alarm,
    /// Exchanges have ended, and the log is waited for.
    Ended,
}

/// Talks with one client until either has had enough.
pub(crate) async fn converse(stream: TcpStream, peer: SocketAddr, shared: Shared, presence: Arc<Presence>) {
    let Some(first) = first_bytes(&stream, &shared, &presence).await else { return };
    let mut next = Some((stream, first));
    while let Some((stream, first)) = next {
        next = Box::pin(exchange(stream, first, peer, &shared, &presence)).await;
    }
}

/// Waits for the first bytes. `None`: the connection is to end.
///
/// Until then a connection is this small thread and nothing else: thousands of silent ones cost little.
async fn first_bytes(stream: &TcpStream, shared: &Shared, presence: &Presence) -> Option<Bytes> {
    let came = Instant::now();
    let patience = came + shared.patience.before_first_byte();
    let mut alarm = patience.min(came + NEW);
    let mut turn = None;
    loop {
        // Before the choice, and once more after an order: who asked before it is answered.
        match read_available(stream) {
            Ok(Some(bytes)) if !bytes.is_empty() => {
                presence.set_idle(None);
                if let Some(Turn::Asked) = turn {
                    presence.stays();
                }
                return Some(bytes);
            }
            Ok(None) if turn.is_none() => {}
            _ => return None,
        }
        let happened = choose((
            stream.readable().wrap(|_| None),
            shared.stop.eased().wrap(|()| Some(Turn::Ordered)),
            presence.asked_to_leave().wrap(|()| Some(Turn::Asked)),
            at(alarm).wrap(|()| Some(Turn::Alarm)),
        ));
        turn = match happened.await {
            Some(Turn::Alarm) if alarm < patience => {
                presence.set_idle(Some(came));
                alarm = patience;
                None
            }
            turn => turn,
        };
    }
}

/// Bytes that a client without an outstanding answer has sent meanwhile. They may be a request that had come before
/// the connection was to be closed.
fn unheard(parts: http1::Parts<Wire, Service>) -> (TcpStream, Bytes) {
    let (stream, first) = parts.io.into_inner();
    let bytes = match (parts.read_buf.is_empty(), first.is_empty()) {
        (true, true) => read_available(&stream).ok().flatten().unwrap_or_default(),
        (true, false) => first,
        (false, true) => parts.read_buf,
        (false, false) => [parts.read_buf, first].concat().into(),
    };
    (stream, bytes)
}

/// Lets hyper answer one request after another. The returned bytes came when the connection was quiet and about to be
/// closed (see [`unheard`]).
async fn exchange(
    stream: TcpStream,
    first: Bytes,
    peer: SocketAddr,
    shared: &Shared,
    presence: &Arc<Presence>,
) -> Option<(TcpStream, Bytes)> {
    let Shared { files, log, stop, patience } = shared.clone();
    let meter = Arc::new(Meter::new(patience, presence.clone()));
    let service = Service { files, meter: meter.clone(), peer: peer.ip(), logged: log.is_some() };
    let mut connection = http1::Builder::new()
        .max_buf_size(MOST_HEAD)
        // A client may shut its side once it has asked.
        .half_close(true)
        // Answers say so if the connection ends with them.
        .keep_alive(patience.keeps_alive())
        // The choice below watches over the head, over silence and over stalls alike.
        .header_read_timeout(None)
        .serve_connection(Wire::new(stream, first, meter.clone()), service);
    let post = async || {
        if let Some(log) = &log {
            while let Some(record) = meter.next_finished() {
                log.post(record).await;
            }
        }
    };

    let mut eased = false;
    let mut watch = Watch::new();
    loop {
        let alarm = meter.deadline(&mut watch).map_or_else(|| Instant::now() + NO_HURRY, |(at, _)| at);
        let turn = {
            let others = choose((
                stop.next(eased).wrap(|()| Turn::Ordered),
                presence.asked_to_leave().wrap(|()| Turn::Asked),
                at(alarm).wrap(|()| Turn::Alarm),
            ));
            let mut others = pin!(others.sync());
            poll_fn(|cx| {
                if let Poll::Ready(result) = Pin::new(&mut connection).poll(cx) {
                    return Poll::Ready(Turn::Finished(result));
                }
                if let Some(log) = &log {
                    while meter.has_finished() {
                        if log.has_to_be_waited_for() {
                            return Poll::Ready(Turn::Ended);
                        }
                        meter.next_finished().into_iter().for_each(|record| log.post_and_leave(record));
                    }
                }
                // A new phase may be shorter than what was left of the last.
                if meter.deadline(&mut watch).is_some_and(|(at, _)| at < alarm) {
                    return Poll::Ready(Turn::Alarm);
                }
                others.as_mut().poll(cx)
            })
            .await
        };
        match turn {
            Turn::Finished(result) => {
                // Whatever was cut short has ended: its records are there.
                let (stream, _) = connection.into_parts().io.into_inner();
                post().await;
                match result {
                    Err(error) if !error.is_parse() => {}
                    result => {
                        if let (Err(error), Some(log)) = (result, &log) {
                            // Hyper answered by itself; the log should know.
                            let status = if error.is_parse_too_large() { 431 } else { 400 };
                            log.post(Box::new(Record::of_garbage(peer.ip(), status))).await;
                        }
                        linger(stream, &stop).await;
                    }
                }
                return None;
            }
            Turn::Ordered if eased => break,
            // Nothing is in flight that we have heard of.
            Turn::Ordered | Turn::Asked if meter.is_quiet() => {
                let (stream, bytes) = unheard(connection.into_parts());
                post().await;
                if bytes.is_empty() {
                    return None;
                }
                if let Turn::Asked = turn {
                    presence.stays();
                }
                return Some((stream, bytes));
            }
            Turn::Asked => presence.stays(),
            Turn::Ordered => {
                eased = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            Turn::Alarm => match meter.deadline(&mut watch) {
                Some((at, Overdue::Head)) if at <= Instant::now() => {
                    let (stream, _) = connection.into_parts().io.into_inner();
                    last_word(&stream, REQUEST_TIMEOUT);
                    post().await;
                    if let Some(log) = &log {
                        log.post(Box::new(Record::of_garbage(peer.ip(), 408))).await;
                    }
                    linger(stream, &stop).await;
                    return None;
                }
                Some((at, Overdue::Request)) if at <= Instant::now() => {
                    let (stream, bytes) = unheard(connection.into_parts());
                    post().await;
                    if !bytes.is_empty() {
                        return Some((stream, bytes));
                    }
                    last_word(&stream, b"");
                    linger(stream, &stop).await;
                    return None;
                }
                Some((at, Overdue::Taking)) if at <= Instant::now() => break,
                _ => {}
            },
            Turn::Ended => post().await,
        }
    }
    // Exchanges that are cut end here, and are logged as far as they got.
    drop(connection);
    post().await;
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc;
    use std::thread;

    use chanter::io::TcpListener;

    use super::*;
    use crate::config::Config;
    use crate::errors::ErrorLog;
    use crate::occupancy::{Note, Occupancy};
    use crate::platform::Links;
    use crate::tree::Tree;

    /// More than the buffers of both sockets.
    const LARGE: usize = 32_000_000;

    /// It was idle when the manager looked, and has a request when it hears of it: it stays, and says so. Without a
    /// request it goes.
    #[test]
    fn who_has_a_request_does_not_leave_when_it_is_asked_to() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::write(dir.path().join("large"), vec![0; LARGE]).unwrap();
        Machine::builder().vps(1).build().unwrap().block_on(async {
            let config = Config::new(dir.path(), ([127, 0, 0, 1], 0).into());
            let tree = Tree::new(dir.path(), false, Links::Inside).unwrap();
            let files = FileProcessor::new(tree, &config, ErrorLog::off());
            let shared = Shared { files, log: None, stop: Stop::new(), patience: Patience::of(&config) };
            let listener = TcpListener::bind(config.addr).unwrap();
            let addr = listener.local_addr().unwrap();
            let (tell, told) = mailbox();
            let (go_on, may_go_on) = mpsc::channel();
            let client = thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                write!(stream, "GET /large HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
                let mut read = [0; 12];
                stream.read_exact(&mut read).unwrap();
                tell.try_send(()).unwrap();
                may_go_on.recv().unwrap();
                let mut bytes = vec![0; 1 << 20];
                let mut left = LARGE;
                while left > 0 {
                    let n = stream.read(&mut bytes).unwrap();
                    assert!(n > 0, "it is closed, and {left} bytes are missing");
                    left -= bytes[..n].iter().filter(|byte| **byte == 0).count();
                }
                tell.try_send(()).unwrap();
                assert_eq!(stream.read(&mut bytes).unwrap(), 0);
            });
            let (mut occupancy, noted) = Occupancy::new();
            let presence = occupancy.enter();
            let (stream, peer) = listener.accept().await.unwrap();
            let connection = spawn(converse(stream, peer, shared, presence.clone()));
            told.recv().await.unwrap();
            presence.ask_to_leave();
            assert_eq!(noted.recv().await.unwrap(), Note::Look);
            go_on.send(()).unwrap();
            told.recv().await.unwrap();
            // It may have to write its last bytes yet, and then stays again.
            while !connection.is_determined() {
                presence.ask_to_leave();
                yield_now().await;
            }
            connection.join().await.unwrap();
            client.join().unwrap();
        });
    }
}
