//! A process of the job, which does with its engine whatever it is asked to.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use chanter_engine::wire::Body;
use chanter_engine::{Change, Engine, Full, Lane, Leave, Notifier, ProcessId, Sink};
use chanter_mpi::Mpi;

use crate::words::{Ask, LANES, POLLED, Said, Told, read, write};

pub(crate) fn run(folder: &Path) {
    let engine = Arc::new(Mpi::start().unwrap());
    // The name appears when a process listens there.
    let number = engine.me().0;
    let (hidden, name) = (folder.join(format!("{number}.new")), folder.join(number.to_string()));
    let listener = UnixListener::bind(&hidden).unwrap();
    std::fs::rename(hidden, name).unwrap();
    let (finish, finished) = mpsc::channel();
    let serving = Arc::clone(&engine);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (engine, finish, stream) = (Arc::clone(&serving), finish.clone(), stream.unwrap());
            // A thread for each: calls of several threads are calls of several threads.
            thread::spawn(move || serve(&engine, stream, &finish));
        }
    });
    finished.recv().unwrap();
    engine.finish().unwrap();
}

/// Until the other end is closed.
fn serve(engine: &Mpi, mut stream: UnixStream, finish: &mpsc::Sender<()>) {
    while let Ok((ask, follows)) = read(&mut stream) {
        if matches!(ask, Ask::Attach) {
            let ringing = Mutex::new(stream.try_clone().unwrap());
            engine.attach(Notifier::new(move || {
                // A process that has gone does not hear it.
                let _ = ringing.lock().unwrap_or_else(PoisonError::into_inner).write_all(&[1]);
            }));
            write(&mut stream, &Said::Done, &[]).unwrap();
            return;
        }
        let (said, follows) = obey(engine, &ask, follows);
        if matches!(ask, Ask::Finish) {
            // The kit does not wait for it, and may be gone.
            let _ = finish.send(());
            return;
        }
        write(&mut stream, &said, &follows).unwrap();
    }
}

fn obey(engine: &Mpi, ask: &Ask, follows: Vec<Vec<u8>>) -> (Said, Vec<Vec<u8>>) {
    let mut told = Heard::default();
    let said = match ask {
        Ask::About => Said::About { roster: engine.roster(), eager: engine.caps(engine.me()).eager },
        Ask::HasEnded => Said::Is(engine.has_ended()),
        Ask::TrySend(to, lane) => {
            let body = follows.into_iter().next().and_then(Body::of_frame).unwrap();
            match engine.try_send(*to, LANES[usize::from(*lane)], body) {
                Ok(()) => Said::Sent { is_full: false },
                Err(Full { body }) => {
                    told.frames.push(body.into_frame());
                    Said::Sent { is_full: true }
                }
            }
        }
        Ask::HasWork => Said::Is(engine.has_work()),
        Ask::Poll(budget) => {
            let polled = engine.poll(*budget, &mut told);
            Said::Polled(place(&POLLED, &polled), std::mem::take(&mut told.told))
        }
        Ask::Idle => Said::park(engine.park()),
        Ask::Rise => {
            engine.unpark();
            Said::Done
        }
        Ask::Leave { now } => {
            engine.leave(if *now { Leave::Now } else { Leave::Drain });
            Said::Done
        }
        Ask::Attach | Ask::Finish => Said::Done,
    };
    (said, told.frames)
}

pub(crate) fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).unwrap() as u8
}

#[derive(Default)]
struct Heard {
    told: Vec<Told>,
    frames: Vec<Vec<u8>>,
}

impl Sink for Heard {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.told.push(Told::Arrived(from, place(&LANES, &lane)));
        self.frames.push(frame.into_frame());
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if let Change::Down(why) = change {
            self.told.push(Told::down(peer, why));
        }
    }
}
