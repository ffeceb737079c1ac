//! A process of a cluster under test. It polls its engine, sleeps, and checks the calls of its sink.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::Finding;
use chanter_engine::wire::{Body, Header, Kind};
use chanter_engine::{Change, Engine, Full, Idle, Lane, Notifier, Order, Polled, ProcessId, Sink, Why};

pub(super) const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];

/// A body of `length` bytes that depend on `number`. Its header holds the sender, stream and number.
pub(super) fn message(from: ProcessId, stream: u32, number: u64, length: usize) -> Body {
    let mut body = Body::with_capacity(length);
    let block = block(number);
    for _ in 0..length / block.len() {
        body.extend_from_slice(&block);
    }
    body.extend_from_slice(&block[..length % block.len()]);
    let header = Header {
        process: from.0,
        tag: stream,
        request: number,
        length: length as u32,
        ..Header::new(Kind::Message)
    };
    body.set_header(&header);
    body
}

/// The block that the body of a message repeats. Its length is a prime, so no two pieces of an engine begin alike.
fn block(number: u64) -> [u8; 4093] {
    let start = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    std::array::from_fn(|at| start[at % 8].wrapping_add((at >> 3) as u8))
}

/// A frame that came: its sender, its lane, one of the sender's numbered streams, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) from: ProcessId,
    pub(super) lane: Lane,
    pub(super) stream: u32,
    pub(super) number: u64,
}

/// A record of the calls of the sink.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) came: Vec<Came>,
    /// Processes that have gone, each with the number of frames that had come by then.
    pub(super) gone: Vec<(ProcessId, Why, usize)>,
    /// Number of calls.
    pub(super) calls: usize,
    /// The first fault that was seen.
    pub(super) wrong: Option<String>,
}

impl Sink for Seen {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        self.calls += 1;
        let header = match Header::decode(frame.frame(), u32::MAX) {
            Ok(header) => header,
            Err(error) => return self.blame(format!("a frame from {from:?} has lost its header: {error}")),
        };
        if frame != message(from, header.tag, header.request, header.length as usize) {
            return self.blame(format!("a frame from {from:?} is not what was sent: {header:?}, {frame:?}"));
        }
        if self.has_gone(from) {
            self.blame(format!("a frame came from {from:?} after it had gone"));
        }
        self.came.push(Came { from, lane, stream: header.tag, number: header.request });
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.calls += 1;
        if self.has_gone(peer) {
            self.blame(format!("{peer:?} had gone, and then: {change:?}"));
        }
        if let Change::Down(why) = change {
            self.gone.push((peer, why, self.came.len()));
        }
    }
}

impl Seen {
    pub(super) fn has_gone(&self, peer: ProcessId) -> bool {
        self.gone.iter().any(|(gone, ..)| *gone == peer)
    }

    pub(super) fn count_from(&self, peer: ProcessId) -> usize {
        self.came.iter().filter(|came| came.from == peer).count()
    }

    fn blame(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// The numbers of the frames that came, in order of arrival, by sender, lane and stream.
    pub(super) fn streams(&self) -> HashMap<(ProcessId, Lane, u32), Vec<u64>> {
        let mut streams: HashMap<_, Vec<u64>> = HashMap::new();
        for came in &self.came {
            streams.entry((came.from, came.lane, came.stream)).or_default().push(came.number);
        }
        streams
    }

    /// Checks that each stream has its numbers from 0, without a gap and each once, and in order if `order` promises
    /// that.
    pub(super) fn is_in_order(&self, order: Order) -> Finding {
        for (stream, mut numbers) in self.streams() {
            if order == Order::None {
                numbers.sort_unstable();
            }
            if let Some((number, expected)) =
                numbers.iter().zip(0..).find(|(number, expected)| *number != expected)
            {
                return Err(format!("in {stream:?} came number {number} in place of {expected}"));
            }
        }
        Ok(())
    }
}

/// A process: an engine, its notifier, and a record of its calls.
pub(super) struct Member<E> {
    pub(super) engine: E,
    pub(super) seen: Seen,
    notified: Receiver<()>,
    /// The notifier's other end stays open, even if the engine has dropped it.
    _notifier: Sender<()>,
    pub(super) patience: Duration,
}

impl<E: Engine> Member<E> {
    pub(super) fn new(engine: E, patience: Duration) -> Self {
        let (notifier, notified) = mailbox();
        let kept = notifier.clone();
        engine.attach(Notifier::new(move || {
            // A process that is through with the check is notified no more.
            let _ = notifier.try_send(());
        }));
        Self { engine, seen: Seen::default(), notified, _notifier: kept, patience }
    }

    pub(super) fn me(&self) -> ProcessId {
        self.engine.me()
    }

    /// Sends a frame that should be taken at once.
    pub(super) fn send(&self, to: ProcessId, lane: Lane, body: Body) -> Finding {
        self.engine.try_send(to, lane, body).map_err(|Full { body }| {
            format!(
                "a body of {} bytes to {to:?} in {lane:?} was refused, although there is room",
                body.len()
            )
        })
    }

    /// Sends a message, and sleeps while there is no room for it. The other end must be polled meanwhile.
    pub(super) async fn send_patiently(&mut self, to: ProcessId, lane: Lane, mut body: Body) -> Finding {
        let began = Instant::now();
        while let Err(Full { body: refused }) = self.engine.try_send(to, lane, body) {
            body = refused;
            self.take_all()?;
            if began.elapsed() > self.patience {
                return Err(format!("{lane:?} to {to:?} stays full, although {to:?} polls"));
            }
            self.sleep("room in a lane that was full").await?;
        }
        Ok(())
    }

    /// Polls once, and compares the answer with the calls of the sink.
    pub(super) fn poll(&mut self, budget: u32) -> Result<Polled, String> {
        let (came, calls) = (self.seen.came.len(), self.seen.calls);
        let polled = self.engine.poll(budget, &mut self.seen);
        if let Some(wrong) = self.seen.wrong.take() {
            return Err(wrong);
        }
        let (came, calls) = (self.seen.came.len() - came, self.seen.calls - calls);
        if came > budget as usize {
            return Err(format!("a poll with a budget of {budget} has handed over {came} frames"));
        }
        if polled.has_found() == (calls == 0) {
            return Err(format!("a poll said {polled:?}, and told the sink {calls} things"));
        }
        Ok(polled)
    }

    /// Polls until nothing is found.
    pub(super) fn take_all(&mut self) -> Finding {
        while self.poll(16)?.has_found() {}
        Ok(())
    }

    /// Sleeps, as the engine allows.
    pub(super) async fn sleep(&self, awaited: &str) -> Finding {
        let rest = self.engine.park();
        let slept = self.sleep_for(rest, awaited).await;
        self.engine.unpark();
        slept
    }

    /// Parks the engine of a process without work, after all notifications have been taken.
    pub(super) fn fall_asleep(&mut self) -> Result<Idle, String> {
        while self.notified.try_recv().is_ok() {}
        self.take_all()?;
        Ok(self.engine.park())
    }

    pub(super) async fn sleep_for(&self, rest: Idle, awaited: &str) -> Finding {
        match rest {
            Idle::Work => yield_now().await,
            Idle::For(time) => choose((self.notified.recv().wrap(drop), after(time))).await,
            Idle::Notified => {
                if self.notified.recv().timeout(self.patience).await.is_none() {
                    let patience = self.patience;
                    return Err(format!(
                        "{:?} has slept for {patience:?}, and waits for {awaited}",
                        self.me()
                    ));
                }
            }
        }
        while self.notified.try_recv().is_ok() {}
        Ok(())
    }

    /// Polls until `is_so` holds, and sleeps in between.
    pub(super) async fn until(&mut self, awaited: &str, is_so: impl Fn(&E, &Seen) -> bool) -> Finding {
        let mut progress = Instant::now();
        while !is_so(&self.engine, &self.seen) {
            if self.poll(16)?.has_found() {
                progress = Instant::now();
                continue;
            }
            if progress.elapsed() > self.patience {
                return Err(format!("{:?} is kept awake for nothing, and waits for {awaited}", self.me()));
            }
            self.sleep(awaited).await?;
        }
        Ok(())
    }

    /// Polls until a thread of another process has ended, as that thread may need this process's progress.
    pub(super) async fn while_polling<T: Send + 'static>(
        &mut self,
        thread: Thread<Result<T, String>>,
    ) -> Result<T, String> {
        loop {
            if self.poll(16)?.has_found() {
                continue;
            }
            let woken = self.notified.recv().wrap(|_| None);
            let ended = thread.join().wrap(Some);
            let joined = match self.engine.park() {
                Idle::Work => choose_biased((ended, after(Duration::ZERO).wrap(|()| None))).await,
                Idle::For(time) => choose((ended, woken, after(time).wrap(|()| None))).await,
                Idle::Notified => choose((ended, woken)).await,
            };
            self.engine.unpark();
            if let Some(joined) = joined {
                return joined.map_err(|error| error.to_string())?;
            }
        }
    }

    /// Polls until `count` frames have come in all.
    pub(super) async fn until_came(&mut self, count: usize) -> Finding {
        let came = |_: &E, seen: &Seen| seen.came.len() >= count;
        let waited = self.until(&format!("frame {count}"), came).await;
        waited.map_err(|wrong| format!("{wrong}, of which {} have come", self.seen.came.len()))
    }

    /// Polls until `peer` has gone.
    pub(super) async fn until_gone(&mut self, peer: ProcessId) -> Result<(Why, usize), String> {
        self.until(&format!("the end of {peer:?}"), |_, seen| seen.has_gone(peer)).await?;
        let (_, why, came) = self.seen.gone.iter().find(|(gone, ..)| *gone == peer).expect("it has gone");
        Ok((*why, *came))
    }

    /// Polls until the engine has ended.
    pub(super) async fn until_ended(&mut self) -> Finding {
        self.until("the end of everything", |engine, _| engine.has_ended()).await?;
        self.take_all()
    }
}
