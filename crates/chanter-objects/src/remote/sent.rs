//! Continuations that are sent to other processes, as arguments of calls.
//!
//! A continuation that is sent away leaves a *cell* at home. Its promise is determined there, by a message from the
//! process that has the continuation. Nobody must wait for a process that has gone, so the home knows the holder of
//! the continuation. At first this is the process it was sent to. A holder that sends the continuation on reports the
//! next one before it sends. A process that reads a continuation and was not named reports itself. Such reports come
//! from several processes, in any order, so each has a rank that grows with each sending, and the highest one counts.
//! When the holder goes, or drops the continuation, or the call that carried it was not made, the promise's touch
//! gives [`ObjectError::Unanswered`](crate::ObjectError::Unanswered). A cell is determined once, since it is taken out of
//! the table first; later messages find no cell. Its number cannot be guessed, so only processes to which the
//! continuation was sent can name it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use chanter::base::stack_local;
use chanter::{Event, Receiver, Sender, choose, mailbox, spawn};
use chanter_cluster::__table::{SERVICES, Service, gone, linkme, raw_here, read, write};
use chanter_cluster::wire::Body;
use chanter_cluster::{Caller, Process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cells::{Cell, Holder};
use super::context::{ProcessContext, current, enter};
use super::continuation::{FILL, HAVE, RemoteContinuation, ended, post, report};
use crate::promise::{Continuation, What};

/// A continuation that was sent with a call's arguments, and is ended if the call is not made.
pub(super) enum Sent {
    Cell(u64),
    Remote(u32, u64),
}

/// Arguments that are being written for a process, and the continuations among them.
struct Sending {
    to: u32,
    sent: RefCell<Vec<Sent>>,
}

/// Writes arguments that go to a process. Returns the continuations among them. If `body` panics, those are ended.
pub(super) fn sending<R>(here: &Process, to: u32, body: impl FnOnce() -> R) -> (R, Vec<Sent>) {
    struct Unwinds<'a>(&'a Process, &'a Sending);
    impl Unwinds<'_> {
        fn take(&self) -> Vec<Sent> {
            self.1.sent.take()
        }
    }
    impl Drop for Unwinds<'_> {
        fn drop(&mut self) {
            not_sent(self.0, self.take());
        }
    }
    let sending = Sending { to, sent: RefCell::default() };
    let unwinds = Unwinds(here, &sending);
    let result = stack_local::set(&sending, body);
    (result, unwinds.take())
}

/// Ends continuations whose call was not made.
pub(super) fn not_sent(here: &Process, sent: Vec<Sent>) {
    for sent in sent {
        match sent {
            Sent::Cell(cell) => drop(ProcessContext::of(here).cells.take(cell)),
            Sent::Remote(process, cell) => post(here, process, FILL, ended(cell)),
        }
    }
}

/// A continuation as data: the place of its promise, and the process that has it as far as its home knows.
#[derive(Serialize, Deserialize)]
struct Name {
    process: u32,
    /// (As bytes, so that the length is the same for all numbers.)
    cell: [u8; 8],
    told: u32,
    /// Rank of the report that `told` has it. A report of its reader has the next rank.
    rank: u32,
}

/// Only an argument of a call of an object can be written, since only there the receiver is known. The sender loses
/// it.
impl<T: DeserializeOwned + Send + 'static> Serialize for Continuation<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused =
            || serde::ser::Error::custom("a continuation is sent as an argument of a call of an object");
        let here = current().ok_or_else(refused)?;
        let to = stack_local::with(|sending: Option<&Sending>| sending.map(|sending| sending.to))
            .ok_or_else(refused)?;
        let (name, sent) = match self.what() {
            What::Process(promise) => {
                let context = ProcessContext::of(&here);
                let cell = leave_cell(&context, &here, to, promise.clone());
                (
                    Name { process: here.number(), cell: cell.to_le_bytes(), told: to, rank: 0 },
                    Sent::Cell(cell),
                )
            }
            What::There(remote) => {
                if remote.is_over.swap(true, Ordering::Relaxed) {
                    return Err(serde::ser::Error::custom("this continuation was sent away before"));
                }
                let (process, cell) = (remote.process, remote.cell);
                // Before the call that carries it: the home hears this before the end of this process.
                let rank = remote.rank.saturating_add(1);
                report(&here, process, cell, Holder { process: to, rank });
                (Name { process, cell: cell.to_le_bytes(), told: to, rank }, Sent::Remote(process, cell))
            }
        };
        stack_local::with(|sending: Option<&Sending>| {
            if let Some(sending) = sending {
                sending.sent.borrow_mut().push(sent);
            }
        });
        name.serialize(serializer)
    }
}

impl<'de, T: Serialize> Deserialize<'de> for Continuation<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Name { process, cell, told, rank } = Name::deserialize(deserializer)?;
        let cell = u64::from_le_bytes(cell);
        let here = current().ok_or_else(|| serde::de::Error::custom("this process is in no cluster"))?;
        let rank = rank.saturating_add(1);
        // The call that carries it was forwarded, as its object has moved.
        if told != here.number() {
            report(&here, process, cell, Holder { process: here.number(), rank });
        }
        let context = Arc::downgrade(&ProcessContext::of(&here));
        Ok(Self::remote(RemoteContinuation {
            context,
            process,
            cell,
            rank,
            is_over: AtomicBool::new(false),
            write: write::<T>,
        }))
    }
}

/// Makes a cell, and a thread that ends the cell with the process that has the continuation.
fn leave_cell<T>(context: &Arc<ProcessContext>, here: &Process, to: u32, promise: Sender<T>) -> u64
where
    T: DeserializeOwned + Send + 'static,
{
    let (holders, said) = mailbox();
    let fill = Box::new(move |bytes: &[u8]| {
        if let Ok(value) = read(bytes) {
            // An error only means that nobody waits any more.
            let _ = promise.try_send(value);
        }
    });
    let cell = {
        let mut state = context.cells.lock();
        let cell = state.new_number();
        state.cells.insert(cell, Cell { fill, holders });
        cell
    };
    let first = Holder { process: to, rank: 0 };
    drop(spawn(enter(here, watch(Arc::downgrade(context), cell, first, said))));
    cell
}

/// Watches the process that has a cell's continuation, and ends the cell with it. Returns when the cell ends.
async fn watch(context: Weak<ProcessContext>, cell: u64, mut holder: Holder, said: Receiver<Holder>) {
    loop {
        let gone = {
            let Some(here) = context.upgrade().and_then(|context| context.here()) else { return };
            gone(&here, holder.process)
        };
        let next = match choose((said.recv().wrap(Some), gone.wrap(|_| None))).await {
            Some(Ok(next)) => next,
            Some(Err(_)) => return,
            // All that the process has sent before its end is here: D3.
            None => match said.try_recv() {
                Ok(next) => next,
                Err(_) => {
                    if let Some(context) = context.upgrade() {
                        drop(context.cells.take(cell));
                    }
                    return;
                }
            },
        };
        if next.rank > holder.rank {
            holder = next;
        }
    }
}

/// The cell that a request names, and what it says of it.
fn named(body: &[u8]) -> Result<(u64, &[u8]), String> {
    let (cell, rest) = body.split_first_chunk::<8>().ok_or("there is no cell")?;
    Ok((u64::from_le_bytes(*cell), rest))
}

async fn filled(caller: Caller, body: Body) -> Result<Body, String> {
    let (cell, said) = named(&body)?;
    // It may have been determined before.
    if let Some(cell) = ProcessContext::of(&caller.here()).cells.take(cell)
        && let [1, value @ ..] = said
    {
        (cell.fill)(value);
    }
    Ok(Body::with_capacity(0))
}

async fn had(caller: Caller, body: Body) -> Result<Body, String> {
    let (cell, said) = named(&body)?;
    let numbers = <[u8; 8]>::try_from(said).map_err(|_| "this is no report of a holder".to_owned())?;
    let [process, rank] =
        [0, 4].map(|at| u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]]));
    // Each holder knows the cell's number, and nobody else does. Each may end the cell, so a false report is no more.
    if process >= caller.here().count() {
        return Err("there is no such process".to_owned());
    }
    let holder = Holder { process, rank };
    let holders =
        ProcessContext::of(&caller.here()).cells.lock().cells.get(&cell).map(|cell| cell.holders.clone());
    if let Some(holders) = holders {
        let _ = holders.try_send(holder);
    }
    Ok(Body::with_capacity(0))
}

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static FILLS: Service = Service::new(FILL, || {
    raw_here(FILL, |_, _| None, |caller, body| enter(&caller.here(), filled(caller.clone(), body)))
});

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static HAVES: Service = Service::new(HAVE, || {
    raw_here(HAVE, |_, _| None, |caller, body| enter(&caller.here(), had(caller.clone(), body)))
});
