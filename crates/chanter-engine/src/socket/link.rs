//! The connection to one peer, with a reading thread, and a writing thread for bytes that the socket did not take at
//! once.
//!
//! ```text
//!   Open --leave--> Leaving --queues empty--> Left --Goodbye--> Closed
//!     |                 (Leave is said)
//!     '--Leave came--> Parting --end--> Closed
//!   any --end, error, silence (but on a Unix socket), given up--> Closed
//! ```
//!
//! INV-LINK-LAST: the report of a peer's end comes after its last message. One thread pushes both.
//! INV-LINK-LEAVE: a process that has said `Leave` sends nothing more, but reads until `Goodbye` has come. By then
//! the other end has taken everything that was sent.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter::yield_if_requested;

use super::config::Config;
use super::frame::{Frame, Frames, LONGEST};
use super::inbox::{Happening, Inbox, lock};
use super::outbox::{Flushed, Outbox, Phase};
use super::stream::Stream;
use crate::certificate::Certificate;
use crate::engine::{Change, Full, Lane, Leave, ProcessId, Why};
use crate::wire::Body;

pub(super) struct Link {
    peer: ProcessId,
    /// Whether the other end joins this process's cluster. It says nothing before it is in.
    joins: bool,
    /// Whether the OS always reports the other end's end.
    is_local: bool,
    certificate: Option<Certificate>,
    #[cfg(all(test, feature = "tls"))]
    is_tls: bool,
    outbox: Mutex<Outbox>,
    /// Filled with true when the other end has said something, and with false when it never will.
    confirmed: IVar<bool>,
    /// Wakes the writer.
    blocked: Sender<()>,
    unblocked: Receiver<()>,
    /// Number of bytes that have come from this peer and wait for a poll.
    held: AtomicUsize,
    /// Wakes the reader.
    taken: Sender<()>,
    room: Receiver<()>,
    /// Whether something has come since the last beat.
    heard: AtomicBool,
    /// Whether the reader waits for the peer, and not for a poll.
    listens: AtomicBool,
    /// Number of beats without a word from the peer.
    silent: AtomicU32,
    /// Number of bytes written until the last beat.
    written: Mutex<u64>,
    /// The peer's last statement about messages sent by other ways; 0: none.
    beside: AtomicU64,
    /// Number of beats in which the peer took nothing while this process waits to leave.
    stuck: AtomicU32,
}

/// The reason why a reader ends.
enum End {
    /// The other end has closed, or the connection broke.
    Eof,
    /// The peer has taken all that was sent before the leave.
    Goodbye,
    /// The peer has sent bytes that are no frame, or a frame out of turn.
    Nonsense,
}

impl Link {
    pub(super) fn new(peer: ProcessId, stream: Arc<Stream>, joins: bool) -> Self {
        let (blocked, unblocked) = bounded(1);
        let (taken, room) = bounded(1);
        Self {
            peer,
            joins,
            is_local: stream.tells_of_its_end(),
            certificate: match &*stream {
                Stream::Tls(session) => session.certificate(),
                Stream::Unix(_) | Stream::Tcp(_) => None,
            },
            #[cfg(all(test, feature = "tls"))]
            is_tls: matches!(*stream, Stream::Tls(_)),
            outbox: Mutex::new(Outbox::new(stream)),
            confirmed: IVar::new(),
            blocked,
            unblocked,
            held: AtomicUsize::new(0),
            taken,
            room,
            heard: AtomicBool::new(false),
            listens: AtomicBool::new(false),
            silent: AtomicU32::new(0),
            written: Mutex::new(0),
            beside: AtomicU64::new(0),
            stuck: AtomicU32::new(0),
        }
    }

    /// Sends a frame, or refuses it, as [`Engine::try_send`](crate::engine::Engine::try_send) says.
    pub(super) fn try_send(
        &self,
        inbox: &Inbox,
        config: &Config,
        lane: Lane,
        body: Body,
    ) -> Result<(), Full> {
        if body.frame().len() > LONGEST {
            return Err(Full { body });
        }
        let mut outbox = lock(&self.outbox);
        if outbox.phase != Phase::Open {
            return Ok(());
        }
        outbox.push(lane, body, config.queue).map_err(|body| Full { body })?;
        self.flush(outbox, inbox);
        Ok(())
    }

    /// Tells the other end that it was taken in, or that this process is.
    pub(super) fn confirm(&self, inbox: &Inbox) {
        let mut outbox = lock(&self.outbox);
        outbox.say_alive();
        self.flush(outbox, inbox);
    }

    /// The event that the other end has said something: true; or that it never will: false.
    pub(super) fn is_confirmed(&self) -> impl Event<Output = bool> + Send + use<> {
        self.confirmed.get()
    }

    /// Calls the notifier of the other end.
    pub(super) fn notify_peer(&self, inbox: &Inbox) {
        let mut outbox = lock(&self.outbox);
        outbox.say_knock();
        self.flush(outbox, inbox);
    }

    /// Writes what the socket takes, and leaves the rest to the writer.
    fn flush(&self, mut outbox: std::sync::MutexGuard<'_, Outbox>, inbox: &Inbox) {
        if outbox.blocked {
            return;
        }
        let flushed = outbox.flush();
        outbox.blocked = matches!(flushed, Ok(Flushed::Blocked));
        if flushed.is_err() {
            outbox.shutdown();
        }
        let (blocked, has_room) = (outbox.blocked, outbox.take_room());
        drop(outbox);
        if blocked {
            // The channel has room: the writer has taken the last token before it cleared `blocked`.
            let _ = self.blocked.try_send(());
        }
        if has_room {
            inbox.notify();
        }
    }

    /// The writer's thread.
    pub(super) async fn write(&self, stream: Arc<Stream>, inbox: &Inbox) {
        while self.unblocked.recv().await.is_ok() {
            loop {
                // An error comes again at the write.
                let _ = stream.writable().await;
                match self.go_on(inbox) {
                    Phase::Closed(_) => return,
                    _ if !lock(&self.outbox).blocked => break,
                    _ => yield_if_requested().await,
                }
            }
        }
    }

    /// Writes what the socket takes, after it has become writable.
    fn go_on(&self, inbox: &Inbox) -> Phase {
        let mut outbox = lock(&self.outbox);
        let flushed = outbox.flush();
        outbox.blocked = matches!(flushed, Ok(Flushed::Blocked));
        if flushed.is_err() {
            outbox.shutdown();
        }
        let (phase, has_room) = (outbox.phase, outbox.take_room());
        drop(outbox);
        if has_room {
            inbox.notify();
        }
        phase
    }

    /// The reader's thread: until the end of the connection, after which the peer is down.
    pub(super) async fn read(&self, stream: Arc<Stream>, inbox: &Inbox, config: &Config) {
        let mut parted = false;
        let end = self.read_frames(&stream, inbox, config, &mut parted).await;
        let _ = self.confirmed.put(false);
        let mut outbox = lock(&self.outbox);
        let (why, is_news) = match (end, outbox.phase) {
            // This process has left at once.
            (_, Phase::Closed(Why::Left)) => (Why::Left, false),
            // This process has given the peer up.
            (_, Phase::Closed(why)) => (why, !parted),
            // The peer goes on without this process, or has said before that it leaves.
            (End::Goodbye, _) => (Why::Left, false),
            (End::Eof, _) if parted => (Why::Left, false),
            (End::Eof, _) => (Why::Died, true),
            (End::Nonsense, _) => (Why::Unreachable, !parted),
        };
        outbox.close(why);
        outbox.release();
        drop(outbox);
        // The writer sees that there is nothing to write.
        let _ = self.blocked.try_send(());
        if is_news {
            inbox.push(Happening::Changed(self.peer, Change::Down(why)));
        }
    }

    async fn read_frames(&self, stream: &Stream, inbox: &Inbox, config: &Config, parted: &mut bool) -> End {
        let mut frames = Frames::new();
        let mut is_confirmed = false;
        // Set when the last read has probably taken all bytes that were there.
        let mut drained = false;
        loop {
            loop {
                let frame = frames.next();
                // An attempt to join that has failed says that it leaves, and nothing before.
                if !is_confirmed && matches!(&frame, Ok(Some(frame)) if !matches!(frame, Frame::Leave)) {
                    is_confirmed = true;
                    let _ = self.confirmed.put(true);
                    if self.joins {
                        inbox.push(Happening::Changed(self.peer, Change::Up));
                    }
                }
                match frame {
                    Ok(Some(Frame::Message(lane, bytes))) => {
                        // ORDER: Relaxed: a count; what is counted goes through the inbox's lock.
                        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
                        inbox.push(Happening::Arrived(self.peer, lane, bytes));
                    }
                    Ok(Some(Frame::Alive)) => {}
                    Ok(Some(Frame::Notify)) => inbox.notify(),
                    Ok(Some(Frame::Beside(said))) => {
                        // ORDER: sequentially consistent: stored before the look for a hearer. A hearer that comes
                        // later looks here.
                        self.beside.store(said, Ordering::SeqCst);
                        inbox.hears(self.peer, said);
                    }
                    Ok(Some(Frame::Leave)) if !*parted => {
                        *parted = true;
                        self.part(inbox);
                    }
                    Ok(Some(Frame::Goodbye)) => {
                        let outbox = lock(&self.outbox);
                        if outbox.phase != Phase::Left {
                            return End::Nonsense;
                        }
                        if outbox.is_flushed() {
                            return End::Goodbye;
                        }
                        // The other end leaves as well, and closes the connection when it has got this end's
                        // good-bye.
                    }
                    Ok(Some(Frame::Leave)) | Err(_) => return End::Nonsense,
                    Ok(None) => break,
                }
            }
            // ORDER: Relaxed: a count. A poll leaves a token in `room` each time that the count falls to the limit,
            // so the last one is not missed.
            while self.held.load(Ordering::Relaxed) > config.inbox {
                if self.room.recv().await.is_err() || self.is_closed() {
                    return End::Eof;
                }
            }
            if drained {
                // ORDER: Relaxed: hints for the beat.
                self.listens.store(true, Ordering::Relaxed);
                let ready = stream.readable().await;
                self.listens.store(false, Ordering::Relaxed);
                if ready.is_err() {
                    return End::Eof;
                }
            } else {
                yield_if_requested().await;
            }
            let room = frames.room();
            let most = room.len();
            match stream.try_read(room) {
                Ok(0) => return End::Eof,
                Ok(read) => {
                    frames.filled(read);
                    drained = read < most;
                    // ORDER: Relaxed: hints for the beat.
                    self.heard.store(true, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => drained = true,
                Err(_) => return End::Eof,
            }
        }
    }

    /// The statement that came before there was a hearer, if one did.
    pub(super) fn said_beside(&self) -> Option<u64> {
        // ORDER: sequentially consistent: the counterpart of the store in `read_frames`. The hearer was set before
        // this load.
        Some(self.beside.load(Ordering::SeqCst)).filter(|said| *said != 0)
    }

    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.certificate.clone()
    }

    #[cfg(all(test, feature = "tls"))]
    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    #[cfg(test)]
    pub(super) fn break_off(&self) {
        lock(&self.outbox).shutdown();
    }

    fn is_closed(&self) -> bool {
        matches!(lock(&self.outbox).phase, Phase::Closed(_))
    }

    /// Notes that the other end leaves. Frames that were not sent to it are dropped, unless this end leaves too: then
    /// the other one still reads.
    fn part(&self, inbox: &Inbox) {
        let mut outbox = lock(&self.outbox);
        if outbox.phase == Phase::Open {
            outbox.phase = Phase::Parting;
            outbox.forget_queues();
        }
        outbox.say_goodbye();
        self.flush(outbox, inbox);
        inbox.push(Happening::Changed(self.peer, Change::Down(Why::Left)));
    }

    /// Notes that a poll has taken a message of `bytes` bytes.
    pub(super) fn took(&self, bytes: usize, config: &Config) {
        // ORDER: Relaxed: a count. The token in `taken` tells the reader that it has fallen to the limit.
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        if before > config.inbox && before - bytes <= config.inbox {
            // If the channel is full, the reader is about to look.
            let _ = self.taken.try_send(());
        }
    }

    pub(super) fn leave(&self, how: Leave, inbox: &Inbox) {
        let mut outbox = lock(&self.outbox);
        // Nothing is said after the leave.
        inbox.says(self.peer).inspect(|said| outbox.say_beside(*said));
        if outbox.phase == Phase::Open {
            outbox.phase = Phase::Leaving;
        }
        if how == Leave::Now && !matches!(outbox.phase, Phase::Closed(_)) {
            outbox.forget_queues();
            // The socket may take some of it, and then the other end sees that this one leaves.
            let _ = outbox.flush();
            outbox.close(Why::Left);
            outbox.shutdown();
            drop(outbox);
            // The reader must no longer wait for a poll.
            let _ = self.taken.try_send(());
        } else {
            self.flush(outbox, inbox);
        }
    }

    /// Says that this process lives, if it has sent nothing else, and counts the silence of the other end.
    pub(super) fn beat(&self, inbox: &Inbox, config: &Config) {
        let mut outbox = lock(&self.outbox);
        if matches!(outbox.phase, Phase::Closed(_)) {
            return;
        }
        let quiet = std::mem::replace(&mut *lock(&self.written), outbox.written_ever) == outbox.written_ever;
        // ORDER: Relaxed: a count that only beats touch.
        let stuck = if quiet && matches!(outbox.phase, Phase::Leaving | Phase::Left) {
            self.stuck.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            self.stuck.store(0, Ordering::Relaxed);
            0
        };
        if stuck >= config.lost_after {
            drop(outbox);
            self.give_up();
            return;
        }
        let said = inbox.says(self.peer);
        said.inspect(|said| outbox.say_beside(*said));
        if quiet {
            outbox.say_alive();
        }
        if quiet || said.is_some() {
            self.flush(outbox, inbox);
        } else {
            drop(outbox);
        }
        // ORDER: Relaxed: hints, and a count that only beats touch.
        let silent = if self.heard.swap(false, Ordering::Relaxed) || !self.listens.load(Ordering::Relaxed) {
            if self.silent.swap(0, Ordering::Relaxed) >= config.suspect_after {
                inbox.push(Happening::Changed(self.peer, Change::Well));
            }
            return;
        } else {
            self.silent.fetch_add(1, Ordering::Relaxed) + 1
        };
        if silent == config.suspect_after {
            inbox.push(Happening::Changed(self.peer, Change::Suspect));
        }
        // A silent process of this machine is stopped or in a debugger; the OS would report its end.
        if silent >= config.lost_after && !self.is_local {
            self.give_up();
        }
    }

    /// Gives the peer up, and closes the connection.
    pub(super) fn give_up(&self) {
        {
            let mut outbox = lock(&self.outbox);
            if !matches!(outbox.phase, Phase::Closed(_)) {
                outbox.close(Why::Unreachable);
            }
            outbox.shutdown();
        }
        // The reader finds the end and reports it. It must no longer wait for a poll.
        let _ = self.taken.try_send(());
    }
}
