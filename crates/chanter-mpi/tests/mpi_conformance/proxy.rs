//! An engine that passes each call on to an agent.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use chanter_engine::wire::Body;
use chanter_engine::{
    Caps, Change, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId,
    Sink, Why,
};
use chanter_mpi::mpirun;
use serde::de::DeserializeOwned;

use crate::MEET;
use crate::agent::place;
use crate::words::{Ask, LANES, POLLED, Said, Told, read, write};

/// The processes of a job. The last proxy that is dropped waits for its end.
struct Job {
    folder: tempfile::TempDir,
    child: Mutex<Child>,
}

impl Drop for Job {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let status = child.wait().unwrap();
        // A check that fails leaves things behind; it says so itself.
        if !thread::panicking() && !status.success() {
            eprintln!("the job has ended with {status}");
        }
    }
}

pub(crate) struct Proxy {
    me: ProcessId,
    roster: Vec<(ProcessId, NodeId)>,
    eager: u32,
    address: PathBuf,
    /// Connections that nobody uses now.
    idle: Mutex<Vec<UnixStream>>,
    /// Held from a poll until the sink has been told, so that the engine's messages come in order.
    polling: Mutex<()>,
    _job: Arc<Job>,
}

/// The engines of a new job.
pub(crate) fn cluster(count: u32) -> Vec<Proxy> {
    let folder = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let child = mpirun(count).unwrap().arg(this).env(MEET, folder.path()).spawn().unwrap();
    let job = Arc::new(Job { folder, child: Mutex::new(child) });
    (0..count).map(|number| Proxy::new(number, Arc::clone(&job))).collect()
}

impl Proxy {
    fn new(number: u32, job: Arc<Job>) -> Self {
        let address = job.folder.path().join(number.to_string());
        while !address.exists() {
            let ended = job.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().unwrap();
            assert!(ended.is_none(), "the job has ended before it began: {ended:?}");
            thread::sleep(Duration::from_millis(5));
        }
        let mut proxy = Self {
            me: ProcessId(number),
            roster: Vec::new(),
            eager: 0,
            address,
            idle: Mutex::default(),
            polling: Mutex::default(),
            _job: job,
        };
        if let Said::About { roster, eager } = proxy.ask(&Ask::About) {
            (proxy.roster, proxy.eager) = (roster, eager);
        }
        proxy
    }

    fn connection(&self) -> UnixStream {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| UnixStream::connect(&self.address).unwrap())
    }

    fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> T {
        self.ask_with(ask, &[]).0
    }

    fn ask_with<T: DeserializeOwned>(&self, ask: &Ask, follows: &[Vec<u8>]) -> (T, Vec<Vec<u8>>) {
        let mut stream = self.connection();
        write(&mut stream, ask, follows).unwrap();
        let said = read(&mut stream).unwrap();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        said
    }

    fn is(&self, ask: &Ask) -> bool {
        matches!(self.ask(ask), Said::Is(true))
    }
}

impl Engine for Proxy {
    fn me(&self) -> ProcessId {
        self.me
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.roster.clone()
    }

    fn caps(&self, _to: ProcessId) -> Caps {
        Caps { order: Order::PerPeer, loss: Loss::Never, death: Death::Aborts, eager: self.eager }
    }

    fn has_ended(&self) -> bool {
        self.is(&Ask::HasEnded)
    }

    fn attach(&self, notifier: Notifier) {
        let mut stream = self.connection();
        write(&mut stream, &Ask::Attach, &[]).unwrap();
        let (_, _) = read::<Said>(&mut stream).unwrap();
        thread::spawn(move || {
            let mut rings = [0; 64];
            while stream.read(&mut rings).is_ok_and(|count| count > 0) {
                notifier.notify();
            }
        });
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        let ask = Ask::TrySend(to, place(&LANES, &lane));
        let (said, follows) = self.ask_with(&ask, &[body.into_frame()]);
        match said {
            Said::Sent { is_full: true } => {
                Err(Full { body: follows.into_iter().next().and_then(Body::of_frame).unwrap() })
            }
            _ => Ok(()),
        }
    }

    fn has_work(&self) -> bool {
        self.is(&Ask::HasWork)
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Ok(_alone) = self.polling.try_lock() else { return Polled::Busy };
        let (said, follows) = self.ask_with(&Ask::Poll(budget), &[]);
        let Said::Polled(polled, told) = said else { panic!("{said:?}") };
        let mut frames = follows.into_iter();
        for told in told {
            match told {
                Told::Arrived(from, lane) => {
                    let frame = frames.next().and_then(Body::of_frame).unwrap();
                    sink.arrived(from, LANES[usize::from(lane)], frame);
                }
                Told::Left(peer) => sink.peer(peer, Change::Down(Why::Left)),
                Told::Unreachable(peer) => sink.peer(peer, Change::Down(Why::Unreachable)),
            }
        }
        POLLED[usize::from(polled)]
    }

    fn park(&self) -> Idle {
        match self.ask(&Ask::Idle) {
            Said::Idle(Some(0)) => Idle::Work,
            Said::Idle(Some(micros)) => Idle::For(Duration::from_micros(micros)),
            _ => Idle::Notified,
        }
    }

    fn unpark(&self) {
        let _: Said = self.ask(&Ask::Rise);
    }

    fn leave(&self, how: Leave) {
        let _: Said = self.ask(&Ask::Leave { now: how == Leave::Now });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It needs the others to do so.
        let mut stream = self.connection();
        let _ = write(&mut stream, &Ask::Finish, &[]);
    }
}
