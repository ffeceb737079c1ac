//! Tests of the socket engine: the conformance kit with engines in one OS process, and peers that break the rules.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tempfile::TempDir;

use super::frame::{HEAD, PIECE, Word, head};
use super::hello::STRANGERS;
use super::start::nodes;
use super::stream::Stream;
use super::*;
use crate::conformance::Kit;
use crate::engine::{Change, Why};
use crate::launcher::{Address, Secret};
use crate::wire::{Header, Kind, LENGTH};

#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Unix,
    /// A Unix socket without a path.
    #[cfg(target_os = "linux")]
    Abstract,
    Tcp,
}

/// Settings under which no peer becomes suspect, however slow the machine is.
pub(crate) fn unhurried() -> Config {
    let heartbeat = Duration::from_secs(3600);
    Config { heartbeat, hello: heartbeat, start: heartbeat, ..Config::default() }
}

#[cfg(target_os = "linux")]
const KINDS: [On; 3] = [On::Unix, On::Abstract, On::Tcp];
#[cfg(not(target_os = "linux"))]
const KINDS: [On; 2] = [On::Unix, On::Tcp];

/// The data that a launcher would give to each process. The folder must live until they are connected.
pub(crate) fn launched(count: u32, on: On) -> (Vec<Launched>, TempDir) {
    let folder = TempDir::new().unwrap();
    let (mut addresses, mut listeners) = (Vec::new(), Vec::new());
    for number in 0..count {
        match on {
            On::Unix => {
                let path = folder.path().join(number.to_string());
                listeners.push(UnixListener::bind(&path).unwrap().into());
                addresses.push(Address::Unix(path));
            }
            #[cfg(target_os = "linux")]
            On::Abstract => {
                use std::os::linux::net::SocketAddrExt;
                let name = format!("{}-{number}", folder.path().display());
                let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
                listeners.push(UnixListener::bind_addr(&address).unwrap().into());
                addresses.push(Address::Unix(format!("@{name}").into()));
            }
            On::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                addresses.push(Address::Tcp(listener.local_addr().unwrap()));
                listeners.push(listener.into());
            }
        }
    }
    let secret = Secret::new([42; 32]);
    let launched = (0..).zip(listeners).map(|(number, listener)| Launched {
        number,
        addresses: addresses.clone(),
        listener,
        secret: secret.clone(),
        segment: None,
        tls: None,
        is_open: false,
    });
    (launched.collect(), folder)
}

async fn job(count: u32, on: On, config: &Config) -> Vec<Process> {
    let (launched, _folder) = launched(count, on);
    let starting: Vec<_> =
        launched.into_iter().map(|launched| spawn(Sockets::start(launched, config.clone()))).collect();
    let mut processes = Vec::new();
    for starting in starting {
        processes.push(Process::new(starting.join().await.unwrap().unwrap()));
    }
    processes
}

/// An engine, and a record of its calls.
struct Process {
    engine: Sockets,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    arrived: Vec<(ProcessId, Lane, Vec<u8>)>,
    changes: Vec<(ProcessId, Change)>,
    /// Number of frames that had arrived before each change.
    before: Vec<usize>,
}

impl Sink for Seen {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.arrived.push((from, lane, frame.frame().to_vec()));
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.changes.push((peer, change));
        self.before.push(self.arrived.len());
    }
}

impl Process {
    fn new(engine: Sockets) -> Self {
        Self { engine, seen: Seen::default() }
    }

    /// Polls until the condition holds, and sleeps in between.
    async fn until(&mut self, what: impl Fn(&Seen) -> bool) {
        while !what(&self.seen) {
            if self.engine.poll(16, &mut self.seen) == Polled::Nothing {
                self.engine.news().await;
            }
        }
    }

    /// Polls until no connection is left.
    async fn until_ended(&mut self) {
        loop {
            while self.engine.poll(16, &mut self.seen) != Polled::Nothing {}
            if choose_biased((self.engine.news().wrap(|()| false), self.engine.ended().wrap(|()| true))).await
            {
                while self.engine.poll(16, &mut self.seen) != Polled::Nothing {}
                return;
            }
        }
    }

    fn send(&self, to: u32, lane: Lane, body: Body) {
        assert_eq!(self.engine.try_send(ProcessId(to), lane, body), Ok(()));
    }
}

/// A body of the given length, whose bytes depend on `seed`.
fn message(length: usize, seed: u64) -> Body {
    let mut body = Body::with_capacity(length);
    let bytes: Vec<u8> = (0..length as u64).map(|at| (at.wrapping_mul(seed + 7) >> 3) as u8).collect();
    body.extend_from_slice(&bytes);
    body.set_header(&Header { length: length as u32, request: seed, ..Header::new(Kind::Message) });
    body
}

fn two(processes: Vec<Process>) -> (Process, Process) {
    let [one, other] = <[Process; 2]>::try_from(processes).ok().unwrap();
    (one, other)
}

async fn engines(count: u32, on: On, config: Config) -> Vec<Sockets> {
    job(count, on, &config).await.into_iter().map(|process| process.engine).collect()
}

#[chanter::test]
async fn unix_sockets_keep_what_an_engine_promises() {
    let kit = Kit::new(async |count| engines(count, On::Unix, unhurried()).await);
    kit.killed_by(Sockets::kill).run().await.unwrap();
}

#[chanter::test]
async fn tcp_keeps_what_an_engine_promises() {
    let kit = Kit::new(async |count| engines(count, On::Tcp, unhurried()).await);
    kit.killed_by(Sockets::kill).run().await.unwrap();
}

#[chanter::test]
async fn narrow_queues_keep_what_an_engine_promises() {
    let config = Config { queue: 1 << 16, inbox: 0, ..unhurried() };
    let kit = Kit::new(async move |count| engines(count, On::Unix, config.clone()).await);
    kit.killed_by(Sockets::kill).run().await.unwrap();
}

#[chanter::test]
async fn a_long_body_does_not_keep_other_lanes_waiting() {
    for on in KINDS {
        let config = Config { inbox: 0, ..unhurried() };
        let (one, mut other) = two(job(2, on, &config).await);
        // The reader stops after this frame until there is a poll.
        one.send(1, Lane::User, message(1, 1));
        while !other.engine.has_work() {
            yield_now().await;
        }
        one.send(1, Lane::Bulk, message(LONGEST_BODY, 2));
        one.send(1, Lane::User, message(2, 3));
        one.send(1, Lane::Control, message(3, 4));
        other.until(|seen| seen.arrived.len() == 4).await;
        let lanes: Vec<Lane> = other.seen.arrived.iter().map(|(_, lane, _)| *lane).collect();
        assert_eq!(lanes, [Lane::User, Lane::Control, Lane::User, Lane::Bulk], "{on:?}");
    }
}

/// Process 1 of a job of two, played by the test: it has said hello, and sends arbitrary bytes.
async fn rogue(config: Config) -> (Process, Stream) {
    rogue_on(On::Unix, config).await
}

async fn rogue_on(on: On, config: Config) -> (Process, Stream) {
    let (launched, _folder) = launched(2, on);
    let mut launched = launched.into_iter();
    let (honest, me) = (launched.next().unwrap(), launched.next().unwrap());
    let starting = spawn(Sockets::start(honest, config));
    let stream = Stream::connect(&me.addresses[0]).await.unwrap();
    hello::connect(&stream, &me.secret, ProcessId(1), Some(ProcessId(0))).await.unwrap();
    (Process::new(starting.join().await.unwrap().unwrap()), stream)
}

fn frame(word: Word, lane: Lane, piece: &[u8]) -> Vec<u8> {
    [&head(word, lane, piece.len())[..], piece].concat()
}

#[chanter::test]
async fn a_peer_that_dies_within_a_frame_is_down_after_its_last_whole_message() {
    let torn = frame(Word::Last, Lane::User, &[1; 1000]);
    let unfinished = frame(Word::Piece, Lane::User, &[1; 1000]);
    for cut in [0, 1, HEAD - 1, HEAD, HEAD + 1, torn.len() - 1] {
        let (mut honest, stream) = rogue(unhurried()).await;
        let whole = message(100, 1);
        stream.write_all(&frame(Word::Last, Lane::User, whole.frame())).await.unwrap();
        stream.write_all(&unfinished).await.unwrap();
        stream.write_all(&torn[..cut]).await.unwrap();
        drop(stream);
        honest.until_ended().await;
        assert_eq!(honest.seen.arrived, [(ProcessId(1), Lane::User, whole.frame().to_vec())]);
        assert_eq!(honest.seen.changes, [(ProcessId(1), Change::Down(Why::Died))]);
        assert_eq!(honest.seen.before, [1]);
    }
}

#[chanter::test]
async fn who_breaks_the_rules_is_cut_off() {
    let leave = frame(Word::Leave, Lane::Control, &[]);
    let broken = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64],
        frame(Word::Last, Lane::User, &[0; LENGTH - 1]),
        frame(Word::Goodbye, Lane::Control, &[]),
        frame(Word::Piece, Lane::Bulk, &[0; PIECE]).repeat(LONGEST_BODY / PIECE + 2),
    ];
    for bytes in broken {
        let (mut honest, stream) = rogue(unhurried()).await;
        // The peer may be cut off before it has sent everything.
        let _ = stream.write_all(&bytes).await;
        honest.until_ended().await;
        assert_eq!(honest.seen.changes, [(ProcessId(1), Change::Down(Why::Unreachable))]);
        assert!(honest.seen.arrived.is_empty());
    }
    let (mut honest, stream) = rogue(unhurried()).await;
    stream.write_all(&[leave.clone(), leave].concat()).await.unwrap();
    honest.until_ended().await;
    assert_eq!(honest.seen.changes, [(ProcessId(1), Change::Down(Why::Left))]);
}

#[chanter::test]
async fn a_silent_peer_is_suspect_and_well_when_it_speaks() {
    let heartbeat = Duration::from_millis(1);
    let (mut honest, stream) = rogue(Config { heartbeat, lost_after: u32::MAX, ..unhurried() }).await;
    for round in 1..=3 {
        honest.until(|seen| seen.changes.len() == 2 * round - 1).await;
        stream.write_all(&frame(Word::Alive, Lane::Control, &[])).await.unwrap();
        honest.until(|seen| seen.changes.len() == 2 * round).await;
    }
    let expected = [Change::Suspect, Change::Well];
    for ((peer, change), expected) in honest.seen.changes.iter().zip(expected.iter().cycle()) {
        assert_eq!((*peer, change), (ProcessId(1), expected));
    }
    // Meanwhile the other end was told that this one lives.
    let mut said = [0; HEAD];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(said, head(Word::Alive, Lane::Control, 0));
}

#[chanter::test]
async fn a_peer_that_is_silent_for_too_long_is_unreachable() {
    let heartbeat = Duration::from_millis(1);
    let (mut honest, _stream) = rogue_on(On::Tcp, Config { heartbeat, lost_after: 20, ..unhurried() }).await;
    honest.until_ended().await;
    let changes = [(ProcessId(1), Change::Suspect), (ProcessId(1), Change::Down(Why::Unreachable))];
    assert_eq!(honest.seen.changes, changes);
}

/// A process of this machine may be stopped for any time. It becomes suspect, and then goes on where it was.
#[chanter::test]
async fn a_silent_process_of_this_machine_is_waited_for() {
    let heartbeat = Duration::from_millis(1);
    let config = Config { heartbeat, suspect_after: 2, lost_after: 4, ..unhurried() };
    let (mut honest, stream) = rogue(config).await;
    honest.until(|seen| seen.changes.len() == 1).await;
    honest.send(1, Lane::User, message(100, 1));
    // The other end finds this process's beats as words.
    let mut said = [0; HEAD];
    let mut beats = 0;
    while beats < 20 {
        stream.read_exact(&mut said).await.unwrap();
        let length = u32::from_le_bytes([said[4], said[5], said[6], said[7]]);
        stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
        beats += u32::from(said[0] == Word::Alive as u8);
    }
    stream.write_all(&frame(Word::Last, Lane::User, &[0; 1000])).await.unwrap();
    honest.until(|seen| seen.arrived.len() == 1).await;
    honest.until(|seen| seen.changes.len() >= 2).await;
    assert_eq!(honest.seen.changes[..2], [(ProcessId(1), Change::Suspect), (ProcessId(1), Change::Well)]);
    drop(stream);
    honest.until_ended().await;
    // (On a loaded computer it may have been suspected once more before.)
    let last = honest.seen.changes.last();
    assert_eq!(last, Some(&(ProcessId(1), Change::Down(Why::Died))), "its end is told at once");
}

#[chanter::test]
async fn strangers_do_not_keep_the_processes_apart() {
    let (launched, folder) = launched(2, On::Unix);
    let config = Config { hello: Duration::from_secs(3600), ..unhurried() };
    let mut launched = launched.into_iter();
    let starting = spawn(Sockets::start(launched.next().unwrap(), config.clone()));
    let address = Address::Unix(folder.path().join("0"));
    // More strangers than may be silent at a time, and as many that send nonsense.
    let mut strangers = Vec::new();
    for number in 0..5 * STRANGERS {
        let stream = Stream::connect(&address).await.unwrap();
        if number % 2 == 0 {
            let _ = stream.write_all(&[0; 1000]).await;
        }
        strangers.push(stream);
    }
    let mut other = Process::new(Sockets::start(launched.next().unwrap(), config).await.unwrap());
    let one = Process::new(starting.join().await.unwrap().unwrap());
    one.send(1, Lane::User, message(1, 1));
    other.until(|seen| seen.arrived.len() == 1).await;
}

/// No folder protects an abstract name from other users, so they are refused before any byte is read. (Only root can
/// test this.)
#[test]
#[cfg(target_os = "linux")]
fn another_user_does_not_get_a_place() {
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::os::unix::process::CommandExt;

    const NAME: &str = "CHANTER_TEST_NAME";
    const NOBODY: u32 = 65534;
    if let Ok(name) = std::env::var(NAME) {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: this user cannot be another one");
        return;
    }
    let machine = Machine::builder().vps(1).build().unwrap();
    let (launched, _folder) = launched(2, On::Abstract);
    let [zero, one] = <[Launched; 2]>::try_from(launched).unwrap();
    let name = zero.addresses[0].to_string().strip_prefix("unix:@").unwrap().to_owned();
    let starting = machine.spawn(Sockets::start(zero, unhurried()));
    let mut other = std::process::Command::new("/proc/self/exe");
    other.args(["--exact", "socket::tests::another_user_does_not_get_a_place"]);
    let status = other.env(NAME, name).uid(NOBODY).gid(NOBODY).current_dir("/").status().unwrap();
    assert!(status.success());
    let engines = machine.block_on(async move {
        let other = Sockets::start(one, unhurried()).await.unwrap();
        (starting.join().await.unwrap().unwrap(), other)
    });
    drop(engines);
}

#[chanter::test]
async fn who_says_nothing_is_shown_the_door() {
    let (launched, folder) = launched(2, On::Unix);
    let config = Config { hello: Duration::from_millis(1), ..unhurried() };
    let starting = spawn(Sockets::start(launched.into_iter().next().unwrap(), config));
    for _ in 0..3 * STRANGERS {
        let stream = Stream::connect(&Address::Unix(folder.path().join("0"))).await.unwrap();
        assert!(stream.read_exact(&mut [0]).await.is_err());
    }
    assert!(!starting.is_determined());
}

#[chanter::test]
async fn who_does_not_come_is_named() {
    let (launched, _folder) = launched(3, On::Unix);
    let mut launched = launched.into_iter();
    let config = Config { start: Duration::from_millis(50), ..unhurried() };
    let error = Sockets::start(launched.next().unwrap(), config).await.unwrap_err();
    assert!(
        matches!(&error, StartError::Missing(peers) if peers[..] == [ProcessId(1), ProcessId(2)]),
        "{error}"
    );
    assert!(error.to_string().starts_with("these processes have not connected in time: 1, 2; "), "{error}");
}

#[chanter::test]
async fn who_has_another_secret_does_not_get_in_and_who_has_the_right_one_does() {
    let (launched, _folder) = launched(2, On::Unix);
    let mut launched = launched.into_iter();
    let starting = spawn(Sockets::start(launched.next().unwrap(), unhurried()));
    let right = launched.next().unwrap();
    let liar = Launched {
        number: 1,
        addresses: right.addresses.clone(),
        listener: right.listener.try_clone().unwrap(),
        secret: Secret::new([1; 32]),
        segment: None,
        tls: None,
        is_open: false,
    };
    let error = Sockets::start(liar, unhurried()).await.unwrap_err();
    assert!(matches!(error, StartError::Stranger(ProcessId(0), _)), "{error}");
    let mut other = Process::new(Sockets::start(right, unhurried()).await.unwrap());
    let one = Process::new(starting.join().await.unwrap().unwrap());
    one.send(1, Lane::User, message(1, 1));
    other.until(|seen| seen.arrived.len() == 1).await;
}

#[test]
fn a_node_is_a_host() {
    let nodes = |addresses: &[&str]| -> Vec<u32> {
        let addresses: Vec<Address> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        nodes(&addresses).into_iter().map(|NodeId(node)| node).collect()
    };
    assert_eq!(nodes(&["unix:/a", "unix:@b", "tcp:127.0.0.1:1", "tcp:[::1]:2"]), [0; 4]);
    let many =
        ["tcp:10.0.0.1:1", "tcp:10.0.0.2:1", "tcp:10.0.0.1:2", "tcp:[fd00::2]:1", "tcp:[::ffff:10.0.0.2]:9"];
    assert_eq!(nodes(&many), [0, 1, 0, 3, 1]);
}
