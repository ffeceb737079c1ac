//! A socket that a reactor watches, and the events of its readiness.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::reactor::Watched;
use crate::deadlock::{Waiting, Waits};
use crate::event::{Branch, Event, Offer, Offered, Offering, WaitQueue, Wakes, into_future};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::vp::{SharedRef, Vp, budget, entered};

const READY: usize = 1;
const EDGE: usize = 2;

/// Readiness in one direction: a bit, and a count of the edges seen.
pub(crate) struct Direction {
    word: AtomicUsize,
    waiters: WaitQueue,
    /// The one who polls (`AsyncRead`, `AsyncWrite`).
    poller: Lock<Option<Waker>>,
}

impl Default for Direction {
    fn default() -> Self {
        // A new socket is tried before anybody waits for it.
        Self { word: AtomicUsize::new(READY), waiters: WaitQueue::new(), poller: Lock::new(None) }
    }
}

impl Direction {
    /// The reactor saw an edge.
    pub(super) fn set_ready(&self, wakes: &mut Wakes) {
        let word = self.word.load(Ordering::Relaxed);
        // ORDER: AcqRel: pairs with `is_ready`; waiters ask again under their
        // locks, which are taken below.
        let _ = self
            .word
            .compare_exchange(word, (word | READY).wrapping_add(EDGE), Ordering::AcqRel, Ordering::Relaxed)
            .or_else(|_| {
                self.word.fetch_add(EDGE, Ordering::AcqRel);
                self.word.fetch_or(READY, Ordering::AcqRel);
                Ok::<_, usize>(0)
            });
        self.waiters.complete_all(wakes);
        wakes.push(self.poller.lock().take());
    }

    fn look(&self) -> usize {
        // ORDER: Acquire pairs with `set_ready`.
        self.word.load(Ordering::Acquire)
    }

    fn is_ready(&self) -> bool {
        self.look() & READY != 0
    }

    /// An operation that began when the word was `seen` would have blocked:
    /// not ready, unless an edge has come since.
    fn clear(&self, seen: usize) {
        // ORDER: AcqRel: on failure the edge's readiness stays.
        let _ = self.word.compare_exchange(seen, seen & !READY, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Runs a non-blocking operation until it does not block; waits for
    /// readiness in between.
    fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        loop {
            let seen = self.look();
            if seen & READY == 0 {
                let mut waker = Some(cx.waker().clone());
                {
                    let mut poller = self.poller.lock();
                    // Under the lock: an edge that follows finds the waker.
                    if !self.is_ready() {
                        std::mem::swap(&mut *poller, &mut waker);
                        drop(poller);
                        return Poll::Pending;
                    }
                }
                continue;
            }
            match operation() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.clear(seen),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                result => return Poll::Ready(result),
            }
        }
    }
}

/// A socket with its registration.
pub(crate) struct Source<S: AsFd> {
    socket: S,
    pub(super) watched: Arc<Watched>,
    machine: SharedRef,
    vp: usize,
    key: usize,
}

impl<S: AsFd + AsRawFd> Source<S> {
    /// Registers a non-blocking socket with the present virtual processor.
    pub(crate) fn new(socket: S) -> io::Result<Self> {
        let (machine, vp) = match Vp::current() {
            Some(vp) => (vp.machine_ref(), vp.index),
            None => {
                let machine = entered().ok_or_else(|| {
                    io::Error::other("sockets are made on a thread of a machine, or inside of `block_on`")
                })?;
                let vp = machine.any_vp().index;
                (machine, vp)
            }
        };
        let watched = Arc::new(Watched::default());
        // SAFETY: removed in `drop`, before the socket is closed.
        let key = unsafe { machine.vps[vp].reactor.add(socket.as_raw_fd(), &watched)? };
        if Vp::current().is_none() {
            machine.vps[vp].notify();
        }
        Ok(Self { socket, watched, machine, vp, key })
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    pub(crate) fn poll_read_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.watched.read.poll_io(cx, operation)
    }

    pub(crate) fn poll_write_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.watched.write.poll_io(cx, operation)
    }

    pub(crate) fn readable(&self) -> Readiness {
        Readiness { watched: Arc::clone(&self.watched), write: false }
    }

    pub(crate) fn writable(&self) -> Readiness {
        Readiness { watched: Arc::clone(&self.watched), write: true }
    }

    /// Runs an operation at once; if it would block, the socket is not ready.
    pub(crate) fn try_io<R>(
        &self,
        write: bool,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let direction = if write { &self.watched.write } else { &self.watched.read };
        let seen = direction.look();
        let result = operation();
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            direction.clear(seen);
        }
        result
    }
}

impl<S: AsFd> Drop for Source<S> {
    fn drop(&mut self) {
        self.machine.vps[self.vp].reactor.remove(&self.socket, self.key);
    }
}

/// The event that a socket is ready to be read or written: the next operation
/// will probably not block. Not chosen: nothing happens.
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Readiness {
    watched: Arc<Watched>,
    write: bool,
}

impl Readiness {
    fn direction(&self) -> &Direction {
        if self.write { &self.watched.write } else { &self.watched.read }
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("write", &self.write).finish_non_exhaustive()
    }
}

into_future!([] Readiness, io::Result<()>);

// SAFETY: the branch holds the event and an offer, which is `Send` by the
// protocol.
unsafe impl Event for Readiness {
    type Branch = ReadinessBranch;

    fn into_branch(self) -> ReadinessBranch {
        ReadinessBranch { readiness: self, offer: Offer::new() }
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct ReadinessBranch {
    readiness: Readiness,
    offer: Offer,
}

// SAFETY: `settle` and `drop` retract the offer.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl Branch for ReadinessBranch {
    type Output = io::Result<()>;
    const SINGLE: bool = true;

    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut Wakes) -> bool {
        self.readiness.direction().is_ready()
    }

    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, _wakes: &mut Wakes) -> Offered {
        let direction = self.readiness.direction();
        // SAFETY: pinned, and retracted in `drop` at the latest.
        unsafe { direction.waiters.offer(&self.offer, at, || direction.is_ready()) }
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, _wakes: &mut Wakes) {
        self.readiness.direction().waiters.retract(&self.offer, winner.is_some());
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) -> io::Result<()> {
        Ok(())
    }

    fn waits(&self, waits: &mut Waits) {
        waits.push(Waiting::Io);
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.readiness.direction().waiters.locked(f);
    }
}

impl Drop for ReadinessBranch {
    fn drop(&mut self) {
        self.readiness.direction().waiters.retract(&self.offer, false);
    }
}
