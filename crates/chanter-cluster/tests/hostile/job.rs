//! A job of three processes: 0 and 1 are engines and nodes as they are, 2 is the test, which has said hello and then says what it
//! likes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chanter::Machine;
use chanter_cluster::engine::socket::{Config, Sockets};
use chanter_cluster::engine::{Lane, ProcessId, Why};
use chanter_cluster::launcher::{Address, Launched, Secret};
use chanter_cluster::wire::{Header, Kind, LENGTH, Slot};
use chanter_cluster::{ANY_TAG, Inbox, Process, RecvError, ThreadName};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The number of the hostile process.
pub(crate) const ME: u32 = 2;
/// An answer that does not come for so long never comes.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) const PIECE: u8 = 1;
pub(crate) const LAST: u8 = 2;
pub(crate) const ALIVE: u8 = 3;
pub(crate) const LEAVE: u8 = 4;

pub(crate) fn secret() -> Secret {
    Secret::new([7; 32])
}

/// Nobody is suspect, however slow the machine is.
pub(crate) fn unhurried() -> Config {
    let mut config = Config::default();
    (config.heartbeat, config.hello, config.start) = (PATIENCE, PATIENCE, PATIENCE);
    config
}

/// Who is silent is lost, after three seconds.
pub(crate) fn hurried() -> Config {
    let mut config = unhurried();
    (config.heartbeat, config.lost_after) = (Duration::from_millis(10), 300);
    config
}

/// What a launcher would say, and where the processes listen.
pub(crate) fn launched(count: u32) -> (Vec<Launched>, Vec<SocketAddr>) {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let sockets: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let addresses: Vec<_> = sockets.iter().map(|address| Address::Tcp(*address)).collect();
    let launched = (0..).zip(listeners).map(|(number, listener)| Launched {
        number,
        addresses: addresses.clone(),
        listener: listener.into(),
        secret: secret(),
        segment: None,
        tls: None,
        is_open: false,
    });
    (launched.collect(), sockets)
}

pub(crate) struct Job {
    pub(crate) machine: Machine,
    pub(crate) honest: [Process; 2],
    /// To each of them.
    pub(crate) hostile: [Raw; 2],
    /// What is counted is of one job at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Job {
    pub(crate) fn start(config: Config) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = Machine::builder().vps(2).build().unwrap();
        let (launched, addresses) = launched(3);
        let starting: Vec<_> = launched
            .into_iter()
            .take(2)
            .map(|launched| machine.spawn(Sockets::start(launched, config.clone())))
            .collect();
        let hostile = [0, 1].map(|peer| Raw::connect(addresses[peer as usize], ME, peer).unwrap());
        let honest: Vec<Process> = machine.block_on(async move {
            let mut honest = Vec::new();
            for starting in starting {
                honest.push(Process::start(starting.join().await.unwrap().unwrap()));
            }
            honest
        });
        let honest = honest.try_into().unwrap_or_else(|_| unreachable!());
        Self { machine, honest, hostile, _alone: alone }
    }

    /// The honest ones talk to each other.
    pub(crate) fn goes_on(&self) {
        let [first, second] = self.honest.clone();
        self.machine.block_on(async move {
            let (here, there) = (first.inbox().unwrap(), second.open("echo").unwrap());
            let name = first.lookup("echo@1").await.unwrap();
            for number in 0..100_u32 {
                here.send(name, 1, &number).await.unwrap();
                let got = there.recv::<u32>(here.name(), 1).await.unwrap();
                there.send(got.from, 2, &(got.value + 1)).await.unwrap();
                assert_eq!(here.recv::<u32>(name, 2).await.unwrap().value, number + 1);
            }
        });
    }

    /// Waits until that one knows that the hostile one has gone; why.
    pub(crate) fn lost(&self, honest: usize) -> Why {
        let here = self.honest[honest].clone();
        self.machine.block_on(async move {
            let inbox = here.inbox().unwrap();
            match inbox.recv::<u32>(hostile_name(), ANY_TAG).await {
                Err(RecvError::Lost(ProcessId(ME), why)) => {
                    assert_eq!(here.down(ME), Some(why));
                    why
                }
                other => panic!("{other:?}"),
            }
        })
    }

    /// Waits until so many frames were dropped by that one.
    pub(crate) fn dropped(&self, honest: usize, count: u64) {
        let begun = Instant::now();
        while self.honest[honest].dropped() < count {
            assert!(begun.elapsed() < PATIENCE, "{} of {count}", self.honest[honest].dropped());
            std::thread::yield_now();
        }
        assert_eq!(self.honest[honest].dropped(), count);
    }

    pub(crate) fn open(&self, honest: usize) -> Inbox {
        let here = self.honest[honest].clone();
        self.machine.block_on(async move { here.inbox().unwrap() })
    }
}

/// A thread of the hostile process.
pub(crate) fn hostile_name() -> ThreadName {
    let thread = Slot { index: 0, generation: 1 };
    ThreadName { pe: chanter_cluster::engine::NodeId(0), process: ProcessId(ME), thread }
}

/// A connection that says what it likes.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    /// One that has said nothing.
    pub(crate) fn stranger(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// One that has proved to be process `me`.
    pub(crate) fn connect(to: SocketAddr, me: u32, peer: u32) -> io::Result<Self> {
        let mut raw = Self::stranger(to);
        let mine = greeting(*b"chanter1", me);
        raw.0.write_all(&mine)?;
        let mut theirs = [0; 76];
        raw.0.read_exact(&mut theirs)?;
        assert_eq!(theirs[8..12], peer.to_le_bytes());
        raw.0.write_all(&proof(&secret(), b"connect", &mine, &theirs[..44]))?;
        Ok(raw)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Writes that again and again, and reads nothing, until the other end is known to have had enough.
    pub(crate) fn flood(&mut self, bytes: &[u8], is_over: impl Fn() -> bool) {
        self.0.set_nonblocking(true).unwrap();
        let mut at = 0;
        while !is_over() {
            match self.0.write(&bytes[at..]) {
                Ok(written) => at = (at + written) % bytes.len(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => break,
            }
        }
        self.0.set_nonblocking(false).unwrap();
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // Closed, or reset: what was sent is not read.
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// The next message that comes, in one piece.
    pub(crate) fn message(&mut self) -> (Header, Vec<u8>) {
        loop {
            let mut head = [0; 8];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let mut piece = vec![0; length as usize];
            self.0.read_exact(&mut piece).unwrap();
            if head[0] == LAST {
                let header = Header::decode(&piece, u32::MAX).unwrap();
                return (header, piece.split_off(LENGTH));
            }
        }
    }
}

pub(crate) fn greeting(magic: [u8; 8], number: u32) -> [u8; 44] {
    let mut greeting = [0x5a; 44];
    greeting[..8].copy_from_slice(&magic);
    greeting[8..12].copy_from_slice(&number.to_le_bytes());
    greeting
}

pub(crate) fn proof(secret: &Secret, side: &[u8], connecting: &[u8], accepting: &[u8]) -> [u8; 32] {
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret.bytes()).unwrap();
    [side, connecting, accepting].iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// A frame, whatever it says of its length.
pub(crate) fn frame_of(word: u8, lane: Lane, length: u32, piece: &[u8]) -> Vec<u8> {
    [&[word, lane as u8, 0, 0], &length.to_le_bytes()[..], piece].concat()
}

pub(crate) fn frame(word: u8, lane: Lane, piece: &[u8]) -> Vec<u8> {
    frame_of(word, lane, piece.len() as u32, piece)
}

/// A header of this process's.
pub(crate) fn header(kind: Kind) -> Header {
    Header { process: ME, from: hostile_name().thread, ..Header::new(kind) }
}

pub(crate) fn message(header: Header, body: &[u8]) -> Vec<u8> {
    let header = Header { length: body.len() as u32, ..header };
    frame(LAST, Lane::User, &[&header.encode()[..], body].concat())
}
