//! Remote procedure calls: a request, a reply, and a nack, as one event.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::ops::DerefMut;

use super::error::Closed;
use super::place::{Place, Queue, operation};
use super::send::{IntoSend, Sender};
use crate::event::{Event, Nack, WakeList, with_nack};
use crate::sync::{Arc, Lock};

/// Makes a server: a handle for its clients, and one for itself.
///
/// A [`call`](Client::call) is one event. It commits when the server's reply is taken. A program that puts it into a
/// choice need not know that a server is behind it. If the choice commits to something else, the server is told.
///
/// Requests are *accepted late*: a request stays with its client until the server [`accept`](Server::accept)s it. A
/// client that gives up before that leaves nothing behind.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::rpc;
/// # use std::time::Duration;
/// # chanter::block_on(async {
/// let (client, server) = rpc::<u32, u32>();
/// spawn(async move {
///     while let Ok((n, reply)) = server.accept().await {
///         // An error: the client has given up.
///         let _ = reply.send(n * n).await;
///     }
/// });
/// assert_eq!(client.call(12).await, Ok(144));
/// assert_eq!(client.call(5).timeout(Duration::from_secs(5)).await, Some(Ok(25)));
/// # });
/// ```
///
/// The client-server protocol of Concurrent ML (Reppy, *Concurrent Programming
/// in ML*, section 4.2.5; Parallel CML, section 2.1).
pub fn rpc<Q, A>() -> (Client<Q, A>, Server<Q, A>) {
    let state = State { pending: BTreeMap::new(), next: 0, accepts: Queue::new(), clients: 1, servers: 1 };
    let core = Arc::new(Lock::new(state));
    (Client { core: Arc::clone(&core) }, Server { core })
}

type Core<Q, A> = Arc<Lock<State<Q, A>>>;

#[doc(hidden)]
pub struct State<Q, A> {
    /// The requests of clients that wait, in order.
    pending: BTreeMap<u64, Call<Q, A>>,
    next: u64,
    accepts: Queue<Note<Q, A>>,
    /// The number of clients counts handles and calls. The number of servers counts handles and accepts.
    clients: usize,
    servers: usize,
}

type Call<Q, A> = (Q, Reply<A>);

#[doc(hidden)]
pub enum Note<Q, A> {
    Empty,
    Accepted(u64, Call<Q, A>),
    Closed,
}

/// The handle that calls a server; see [`rpc`]. Clones call the same one.
pub struct Client<Q, A> {
    core: Core<Q, A>,
}

/// The reason why a call got no reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CallError<Q> {
    /// No server is left. The request is given back.
    Closed(Q),
    /// The server dropped the request, its reply handle, or itself.
    Dropped,
}

impl<Q> fmt::Debug for CallError<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "Closed(..)",
            Self::Dropped => "Dropped",
        })
    }
}

impl<Q> fmt::Display for CallError<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "the server has gone",
            Self::Dropped => "the server did not reply",
        })
    }
}

impl<Q> Error for CallError<Q> {}

/// The place of a call's request in the queue. The request is taken out when this is dropped.
struct Ticket<Q, A> {
    number: u64,
    client: Client<Q, A>,
}

impl<Q, A> Drop for Ticket<Q, A> {
    fn drop(&mut self) {
        let request = self.client.core.lock().pending.remove(&self.number);
        drop(request);
    }
}

impl<Q, A> Client<Q, A> {
    /// The event of a call: it sends `request`, and yields the reply.
    ///
    /// The request is shown to the server when a thread synchronizes on the event. The event commits when the
    /// server's reply is taken, or to an error when there will be none.
    ///
    /// If it is not chosen, or dropped, and the server has not accepted the request, the server never sees it. If the
    /// server has accepted it, [`Reply::given_up`] is ready, and the reply comes back to the server.
    pub fn call(&self, request: Q) -> impl Event<Output = Result<A, CallError<Q>>> + use<Q, A> {
        let client = self.clone();
        with_nack(move |nack| {
            let (tx, answer) = super::channel();
            let call = client.submit(request, Reply { tx, nack });
            answer.into_recv().wrap(move |reply| match (reply, call) {
                (Ok(reply), _) => Ok(reply),
                (Err(Closed), Ok(_ticket)) => Err(CallError::Dropped),
                (Err(Closed), Err(request)) => Err(CallError::Closed(request)),
            })
        })
    }

    /// Gives the request to a server that waits, or queues it.
    fn submit(self, request: Q, reply: Reply<A>) -> Result<Ticket<Q, A>, Q> {
        let mut wakes = WakeList::new();
        let number = {
            let mut state = self.core.lock();
            if state.servers == 0 {
                drop(state);
                return Err(request);
            }
            let number = state.next;
            state.next += 1;
            let mut call = Some((request, reply));
            let give = |note: &mut Note<Q, A>| *note = Note::accepted(number, &mut call);
            if state.accepts.give(&mut wakes, give).is_none() {
                state.pending.extend(call.map(|call| (number, call)));
            }
            number
        };
        wakes.queue();
        Ok(Ticket { number, client: self })
    }

    /// Whether no server is left.
    pub fn is_closed(&self) -> bool {
        self.core.lock().servers == 0
    }
}

impl<Q, A> Clone for Client<Q, A> {
    fn clone(&self) -> Self {
        self.core.lock().clients += 1;
        Self { core: Arc::clone(&self.core) }
    }
}

impl<Q, A> Drop for Client<Q, A> {
    fn drop(&mut self) {
        let mut wakes = WakeList::new();
        {
            let mut state = self.core.lock();
            state.clients -= 1;
            if state.clients == 0 {
                while state.accepts.serve(&mut wakes, |note| *note = Note::Closed).is_some() {}
            }
        }
        wakes.queue();
    }
}

impl<Q, A> fmt::Debug for Client<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("closed", &self.is_closed()).finish()
    }
}

/// The handle that serves calls; see [`rpc`]. Clones share the work.
pub struct Server<Q, A> {
    core: Core<Q, A>,
}

impl<Q, A> Server<Q, A> {
    /// The event of accepting a request, with the handle to reply to it.
    ///
    /// It commits to the oldest request whose client still waits, or to [`Closed`] when no client is left. If it is
    /// not chosen, the request stays with its client. If it is dropped after the commit, the request is the oldest
    /// again.
    pub fn accept(&self) -> Accept<Q, A> {
        Accept { place: self.clone(), note: Note::Empty }
    }

    /// The number of requests that wait.
    pub fn len(&self) -> usize {
        self.core.lock().pending.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<Q, A> Clone for Server<Q, A> {
    fn clone(&self) -> Self {
        self.core.lock().servers += 1;
        Self { core: Arc::clone(&self.core) }
    }
}

impl<Q, A> Drop for Server<Q, A> {
    fn drop(&mut self) {
        let pending = {
            let mut state = self.core.lock();
            state.servers -= 1;
            if state.servers > 0 { BTreeMap::new() } else { std::mem::take(&mut state.pending) }
        };
        // Drops the requests, which tells their clients.
        drop(pending);
    }
}

impl<Q, A> fmt::Debug for Server<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("len", &self.len()).finish()
    }
}

impl<Q, A> Note<Q, A> {
    fn accepted(number: u64, call: &mut Option<Call<Q, A>>) -> Self {
        Self::Accepted(number, call.take().expect("given once"))
    }

    fn take(&mut self) -> Result<Call<Q, A>, Closed> {
        match std::mem::replace(self, Self::Empty) {
            Self::Accepted(_, call) => Ok(call),
            _ => Err(Closed),
        }
    }
}

// SAFETY: the queue is a field of the state, which stays behind the lock. Values are only moved under it, so no user
// code runs there.
#[allow(private_interfaces, reason = "sealed: the protocol\'s types stay inside")]
unsafe impl<Q, A> Place for Server<Q, A> {
    type Note = Note<Q, A>;
    type State = State<Q, A>;

    fn lock(&self) -> impl DerefMut<Target = State<Q, A>> {
        self.core.lock()
    }

    fn queue<'a>(&self, state: &'a mut State<Q, A>, _note: &Note<Q, A>) -> &'a mut Queue<Note<Q, A>> {
        &mut state.accepts
    }

    fn is_ready(&self, state: &State<Q, A>, _note: &Note<Q, A>) -> bool {
        state.clients == 0 || !state.pending.is_empty()
    }

    fn act(&self, state: &mut State<Q, A>, note: &mut Note<Q, A>, _wakes: &mut WakeList) {
        *note = match state.pending.pop_first() {
            Some((number, call)) => Note::Accepted(number, call),
            None => Note::Closed,
        };
    }

    fn undo(&self, state: &mut State<Q, A>, note: &mut Note<Q, A>, wakes: &mut WakeList) {
        let Note::Accepted(number, call) = std::mem::replace(note, Note::Empty) else { return };
        if call.1.nack.is_enabled() {
            // The call's ticket is gone, or will be when it gets the lock.
            *note = Note::Accepted(number, call);
            return;
        }
        let mut call = Some(call);
        state.accepts.give(wakes, |note| *note = Note::accepted(number, &mut call));
        state.pending.extend(call.map(|call| (number, call)));
    }
}

operation! {
    /// The event of accepting a request; see [`Server::accept`].
    Accept[Q, A] at Server<Q, A>, yields Result<(Q, Reply<A>), Closed>: |_, note| note.take()
}

/// The right to reply, once. If it is dropped unused, the client is told.
#[must_use = "the client waits for the reply"]
pub struct Reply<A> {
    tx: Sender<A>,
    nack: Nack,
}

impl<A> Reply<A> {
    /// The event of replying. It commits when the client takes `answer`, or to an error that gives it back when the
    /// client has given up.
    ///
    /// Once it has committed, the client's call has committed too. If it is not chosen, or dropped before the commit,
    /// the client is told that there is no reply.
    pub fn send(self, answer: A) -> IntoSend<A> {
        self.tx.into_send(answer)
    }

    /// The event that the client has given up, and does not wait for the reply.
    pub fn given_up(&self) -> Nack {
        self.nack.clone()
    }
}

impl<A> fmt::Debug for Reply<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("given_up", &self.nack.is_enabled()).finish()
    }
}
