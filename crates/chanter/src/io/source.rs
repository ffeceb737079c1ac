//! A socket that a reactor watches, and the events of its readiness.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::event::{Event, Once, OnceBranch, WaitQueue, WakeList, into_future};
use crate::frame::report::Waiting;
use crate::sched::pool::PoolRef;
use crate::sched::reactor::Watch;
use crate::sched::{Worker, budget, entered};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const READY: usize = 1;
/// A short read may leave something behind of which no edge will tell (the end, an error, bytes behind urgent
/// data). Only an operation that would block shows that nothing is left. Never taken back.
const OUTLASTS_SHORT_READ: usize = 2;
const EDGE: usize = 4;

/// Readiness in one direction: two bits, and a count of the edges seen.
pub(crate) struct Direction {
    word: AtomicUsize,
    waiters: WaitQueue,
    /// The one who polls (`AsyncRead`, `AsyncWrite`).
    poller: Lock<Option<Waker>>,
}

/// A source, as its reactor watches it.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) read: Direction,
    pub(super) write: Direction,
}

impl Watch for Watched {
    fn happened(&self, readable: bool, writable: bool, outlasts_short_read: bool, wakes: &mut WakeList) {
        if readable {
            self.read.set_ready(outlasts_short_read, wakes);
        }
        if writable {
            self.write.set_ready(false, wakes);
        }
    }
}

impl Default for Direction {
    fn default() -> Self {
        // A new socket is tried before anybody waits for it.
        Self { word: AtomicUsize::new(READY), waiters: WaitQueue::new(), poller: Lock::new(None) }
    }
}

impl Direction {
    /// The reactor saw an edge; `outlasts_short_read` as in `Happening`.
    pub(super) fn set_ready(&self, outlasts_short_read: bool, wakes: &mut WakeList) {
        let bits = if outlasts_short_read { READY | OUTLASTS_SHORT_READ } else { READY };
        let word = self.word.load(Ordering::Relaxed);
        // ORDER: AcqRel: pairs with `is_ready`; waiters ask again under their
        // locks, which are taken below.
        let _ = self
            .word
            .compare_exchange(word, (word | bits).wrapping_add(EDGE), Ordering::AcqRel, Ordering::Relaxed)
            .or_else(|_| {
                self.word.fetch_add(EDGE, Ordering::AcqRel);
                self.word.fetch_or(bits, Ordering::AcqRel);
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

    /// A read that began when the word was `seen` took less than it had room for. So it took all that the edges until
    /// then told of, unless one of them said that something outlasts a short read. Bytes that came later are an edge
    /// of their own, after which `clear` fails or readiness is set again.
    fn drained(&self, seen: usize) {
        if seen & OUTLASTS_SHORT_READ == 0 {
            self.clear(seen);
        }
    }

    /// Runs a non-blocking operation until it does not block; waits for
    /// readiness in between. `is_short` says of a result that the next
    /// operation would block.
    fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        is_short: impl Fn(&R) -> bool,
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
                result => {
                    if result.as_ref().is_ok_and(&is_short) {
                        self.drained(seen);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }
}

/// Waits in a row by threads of another virtual processor, after which a socket moves there. A wake-up across costs a
/// system call, and the move two.
const MOVE_AFTER: u32 = 16;

/// A socket with its registration.
pub(crate) struct Source<S: AsFd> {
    socket: S,
    pub(super) watched: Arc<Watched>,
    machine: PoolRef,
    home: Lock<Home>,
    /// The virtual processor of `home`, to be looked at without its lock, and
    /// the waits elsewhere since: hints.
    vp: AtomicUsize,
    away: AtomicU32,
}

/// The poller by which a socket is watched.
struct Home {
    vp: usize,
    key: usize,
}

impl<S: AsFd> Source<S> {
    /// Registers a non-blocking socket with the current virtual processor.
    pub(crate) fn new(socket: S) -> io::Result<Self> {
        let (machine, vp) = match Worker::current() {
            Some(vp) => (vp.processor().machine_ref(), vp.processor().index),
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
        let key = unsafe {
            machine.processors[vp]
                .leader()
                .reactor
                .add(socket.as_fd(), Arc::clone(&watched) as Arc<dyn Watch>)?
        };
        if Worker::current().is_none() {
            machine.processors[vp].notify();
        }
        Ok(Self {
            socket,
            watched,
            machine,
            home: Lock::new(Home { vp, key }),
            vp: AtomicUsize::new(vp),
            away: AtomicU32::new(0),
        })
    }

    /// Notes that a thread waits for the socket by polling. A thread that stays on another virtual processor takes
    /// the socket along.
    #[inline]
    fn waited_for(&self) {
        let Some(vp) = Worker::current() else { return };
        if vp.processor().index == self.vp.load(Ordering::Relaxed) {
            self.away.store(0, Ordering::Relaxed);
            return;
        }
        let away = self.away.load(Ordering::Relaxed).saturating_add(1);
        self.away.store(away, Ordering::Relaxed);
        if away >= MOVE_AFTER && ptr::eq(vp.machine(), &*self.machine) {
            self.move_to(vp);
        }
    }

    #[cold]
    fn move_to(&self, vp: &Worker) {
        self.away.store(0, Ordering::Relaxed);
        let mut home = self.home.lock();
        if std::ptr::eq(self.machine.processors[home.vp].leader(), vp.processor().leader()) {
            // It is here, or with another processor of this worker, which has one poller.
            return;
        }
        // Watched by both for a moment, so that no edge is lost: one that is
        // seen twice does no harm.
        let reactor = &self.machine.processors[vp.processor().index].leader().reactor;
        // SAFETY: removed in `drop`, or by the next move.
        let added = unsafe { reactor.add(self.socket.as_fd(), Arc::clone(&self.watched) as Arc<dyn Watch>) };
        if let Ok(key) = added {
            let old = std::mem::replace(&mut *home, Home { vp: vp.processor().index, key });
            self.vp.store(vp.processor().index, Ordering::Relaxed);
            self.machine.processors[old.vp].leader().reactor.remove(&self.socket, old.key);
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    pub(crate) fn poll_read_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let read = self.watched.read.poll_io(cx, |_| false, operation);
        if read.is_pending() {
            self.waited_for();
        }
        read
    }

    /// Reads into `room` bytes. `drains`: a read that takes less than it has
    /// room for takes all there is.
    pub(crate) fn poll_read_bytes(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        drains: bool,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let is_short = |&read: &usize| drains && 0 < read && read < room;
        let read = self.watched.read.poll_io(cx, is_short, operation);
        if read.is_pending() {
            self.waited_for();
        }
        read
    }

    pub(crate) fn poll_write_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.watched.write.poll_io(cx, |_| false, operation)
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

    /// Reads into `room` bytes at once, as `try_io`; `drains` as in
    /// `poll_read_bytes`.
    pub(crate) fn try_read_bytes(
        &self,
        room: usize,
        drains: bool,
        operation: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let seen = self.watched.read.look();
        let result = self.try_io(false, operation);
        if drains && result.as_ref().is_ok_and(|&read| 0 < read && read < room) {
            self.watched.read.drained(seen);
        }
        result
    }
}

impl<S: AsFd> Drop for Source<S> {
    fn drop(&mut self) {
        let Home { vp, key } = *self.home.lock();
        self.machine.processors[vp].leader().reactor.remove(&self.socket, key);
    }
}

/// The event that a socket is ready to be read or written: the next operation will probably not block. If it is not
/// chosen, nothing happens.
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

// SAFETY: the branch holds the event and an offer, which is `Send` by the protocol.
unsafe impl Event for Readiness {
    type Branch = OnceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        OnceBranch::new(self)
    }
}

// SAFETY: the direction is ready before its waiters are completed. A synchronization that finds it ready no more waits.
unsafe impl Once for Readiness {
    type Output = io::Result<()>;
    const WAITING: Waiting = Waiting::Io;

    fn waiters(&self) -> &WaitQueue {
        &self.direction().waiters
    }
    fn has_happened(&self) -> bool {
        self.direction().is_ready()
    }
    fn output(&self) -> io::Result<()> {
        Ok(())
    }
}
