//! How the processes of a node meet: MPI tells each where the others listen, and which memory they share.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;
use std::sync::Arc;

use chanter_engine::launcher::{self, Address, Launched, Secret};
use chanter_engine::shm::{Shm, ShmSlot};
use chanter_engine::socket::{Config, Sockets};
use chanter_engine::{Engine, ProcessId};

use crate::detect::StartError;
use crate::engine::{Mpi, processors};
use crate::nodes::Nodes;

/// The variable that lets MPI carry all messages.
const ONLY: &str = "CHANTER_MPI_ONLY";

/// Bytes of a card: whether it is valid, the process and the descriptor of the shared memory, a secret, and the name of
/// a listener.
const CARD: usize = 64;

/// The data that a process gives to the others of its node.
struct Card {
    process: u32,
    /// The descriptor of the memory that the first process of a node has made for all of them.
    segment: i32,
    /// The secret of the node's processes, of which that of the first one counts.
    secret: [u8; 32],
    name: [u8; 16],
}

impl Card {
    fn write(&self) -> [u8; CARD] {
        let mut bytes = [0; CARD];
        bytes[0] = 1;
        bytes[4..8].copy_from_slice(&self.process.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.segment.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.secret);
        bytes[48..].copy_from_slice(&self.name);
        bytes
    }

    /// `None`: that process does not share memory.
    fn read(bytes: &[u8; CARD]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (bytes[0] == 1).then(|| Self {
            process: word(4),
            segment: word(8) as i32,
            secret: std::array::from_fn(|at| bytes[16 + at]),
            name: std::array::from_fn(|at| bytes[48 + at]),
        })
    }

    /// The name of an abstract socket. It is as hard to guess as the secret.
    fn socket(&self) -> String {
        let name: String = self.name.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("chanter-mpi-{name}")
    }
}

/// The processes of this node, which have met but are not connected yet.
pub(crate) struct Near {
    /// Their numbers in the job.
    ranks: Vec<u32>,
    launched: Launched,
}

/// Lets the processes of each node meet. All processes of the job call this. The OS thread is blocked. `None`: MPI carries
/// all messages of this process.
pub(crate) fn meet(mpi: &Mpi) -> Result<Option<Near>, StartError> {
    let (me, roster) = (mpi.me(), mpi.roster());
    let here = roster.iter().find(|(peer, _)| *peer == me).map(|(_, node)| *node);
    let ranks: Vec<u32> =
        roster.iter().filter(|(_, node)| Some(*node) == here).map(|(peer, _)| peer.0).collect();
    let is_first = ranks.first() == Some(&me.0);
    let is_wanted = ranks.len() > 1 && std::env::var_os(ONLY).is_none();
    // A process that fails takes part in the exchanges, and its node does without shared memory.
    let mine = if is_wanted { prepare(is_first, ranks.len() as u32).ok() } else { None };
    let cards =
        mpi.exchange(&mine.as_ref().map_or([0; CARD], |(card, ..)| card.write())).map_err(StartError::Mpi)?;
    let cards: Option<Vec<Card>> = ranks.iter().map(|rank| Card::read(&cards[*rank as usize])).collect();
    let segment = cards.as_ref().and_then(|cards| open(cards.first()?).ok());
    // The first process keeps its descriptor until all have opened it.
    let opened = mpi.exchange(&[u8::from(segment.is_some())]).map_err(StartError::Mpi)?;
    let have_all = ranks.iter().all(|rank| opened[*rank as usize] == [1]);
    let (Some(cards), Some((_, listener, _)), true) = (cards, mine, have_all) else { return Ok(None) };
    let launched = Launched {
        number: ranks.iter().position(|rank| *rank == me.0).unwrap_or(0) as u32,
        addresses: cards.iter().map(|card| Address::Unix(format!("@{}", card.socket()).into())).collect(),
        listener,
        secret: Secret::new(cards[0].secret),
        segment,
        tls: None,
        is_open: false,
    };
    Ok(Some(Near { ranks, launched }))
}

/// Opens this process's socket, and the memory for all if this process is the first.
fn prepare(is_first: bool, count: u32) -> io::Result<(Card, OwnedFd, Option<OwnedFd>)> {
    let mut random = [0; 48];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let segment = if is_first { Some(launcher::segment(count)?) } else { None };
    let card = Card {
        process: process::id(),
        segment: segment.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        secret: std::array::from_fn(|at| random[at]),
        name: std::array::from_fn(|at| random[32 + at]),
    };
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(card.socket())?)?;
    Ok((card, listener.into(), segment))
}

/// Opens the memory that the first process of the node has made.
fn open(first: &Card) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/fd/{}", first.process, first.segment);
    Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
}

impl Near {
    /// Connects the processes of this node. `mpi` carries messages to others.
    ///
    /// # Errors
    /// Another process of the node does not answer.
    pub(crate) async fn connect(self, mpi: &Arc<Mpi>) -> Result<Nodes, StartError> {
        let Self { ranks, mut launched } = self;
        let sockets = |error: String| StartError::Sockets(error);
        let segment = launched.segment.take().expect("all have opened it");
        // The slot is taken before this process connects, so the others know it.
        let slot = ShmSlot::take(segment, ProcessId(launched.number), ranks.len() as u32)
            .map_err(|error| sockets(error.to_string()))?;
        let connected = Sockets::start(launched, Config::default()).await;
        let connected = connected.map_err(|error| sockets(error.to_string()))?;
        // `mpirun` gives each process cores of its own.
        let near = Shm::new(slot, connected).on_cores(processors());
        Ok(Nodes::new(near, ranks, Arc::clone(mpi)))
    }
}
