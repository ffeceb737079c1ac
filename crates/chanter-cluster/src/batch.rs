//! Batches: many small values to one thread, in few messages.
//!
//! INV-BATCH: values to one thread are taken and sent under the thread's `sending`. So they arrive in the order in which
//! they were added, whichever thread sends them.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::after;
use chanter::base::Lock;
use chanter::sync::Mutex;
use foldhash::fast::RandomState;
use serde::Serialize;

use crate::{Buffer, Inbox, SendError, ThreadName};

/// Values that are encoded in place first, up to this number of bytes.
const SHORT: usize = 128;

/// Collects small values to other threads, and sends those to one thread together. A message costs far more than a
/// small value in it.
///
/// Values to one thread are sent when they take 16 KiB, or by [`flush`](Self::flush). They are also sent when the first
/// is 1 ms old, or when no value has been added for 50 us. The receiver takes them by [`Inbox::recv_batch`]. Values of one `Batches` to one thread
/// arrive in the order in which they were added.
///
/// Several threads may share one. Dropping it sends nothing at once: values go on their way by time, unless the
/// machine ends before.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::{ANYONE, Batches, local};
/// use std::sync::Arc;
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
/// let counts = second.inbox().unwrap();
/// let batches = Batches::new(Arc::new(first.inbox().unwrap()), 1);
/// for word in ["to", "be", "or", "not"] {
///     batches.add(counts.name(), &word).await.unwrap();
/// }
/// batches.flush().await.unwrap();
/// let words = counts.recv_batch::<String>(ANYONE, 1).await.unwrap().value;
/// assert_eq!(words.collect::<Result<Vec<_>, _>>().unwrap(), ["to", "be", "or", "not"]);
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches<T: ?Sized> {
    shared: Arc<Shared>,
    values: PhantomData<fn(&T)>,
}

struct Shared {
    inbox: Arc<Inbox>,
    tag: u32,
    longest: usize,
    oldest: Duration,
    silence: Duration,
    batches: Lock<HashMap<ThreadName, Batch, RandomState>>,
}

/// The values that wait for one thread.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Number of values so far.
    added: u64,
    /// The error of a send by time, which the next caller gets.
    failed: Option<SendError>,
    /// Whether a thread sends by time. It also ends the batch.
    is_timed: bool,
    /// Held while values are sent. It holds those whose send was dropped.
    sending: Arc<Mutex<Vec<u8>>>,
}

impl<T: Serialize + ?Sized> Batches<T> {
    /// Makes batches of messages with a tag from the thread of `inbox`.
    pub fn new(inbox: Arc<Inbox>, tag: u32) -> Self {
        let shared = Shared {
            inbox,
            tag,
            longest: 16 << 10,
            oldest: Duration::from_millis(1),
            silence: Duration::from_micros(50),
            batches: Lock::new(HashMap::default()),
        };
        Self { shared: Arc::new(shared), values: PhantomData }
    }

    /// Sends the values to one thread when they take that many bytes. It should be well below what the engine carries in
    /// one message.
    ///
    /// # Panics
    /// A value has been added before. So it is with the other settings.
    #[must_use]
    pub fn longest(self, bytes: usize) -> Self {
        self.with(|shared| shared.longest = bytes)
    }

    /// Sends the values to one thread when the first is that old.
    #[must_use]
    pub fn oldest(self, time: Duration) -> Self {
        self.with(|shared| shared.oldest = time)
    }

    /// Sends the values to one thread when that time has passed without another one.
    #[must_use]
    pub fn silence(self, time: Duration) -> Self {
        self.with(|shared| shared.silence = time)
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::get_mut(&mut self.shared).expect("nothing has been added"));
        self
    }

    /// Adds a value to those that wait for a thread. It costs some tens of nanoseconds, and no message. If the values are
    /// to be sent now, it waits until the thread's inbox has room for them.
    ///
    /// **Cancel safety.** If the future is dropped, the value has been added, or not. The values go on waiting, and none
    /// is lost or doubled.
    ///
    /// # Errors
    /// As for [`Inbox::send`]. The values that waited are lost, this one among them. If it was an earlier send by time that
    /// failed, its values are lost, and this one is not added. Nor is a value that cannot be written, or takes no bytes.
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn add(&self, to: ThreadName, value: &T) -> Result<(), SendError> {
        let mut short = [0; SHORT];
        let long;
        // User code writes the value, so that is not done under a lock.
        let bytes: &[u8] = match postcard::to_slice(value, &mut short) {
            Ok(bytes) => bytes,
            Err(_) => {
                long = postcard::to_stdvec(value).map_err(|error| SendError::Encode(error.to_string()))?;
                &long
            }
        };
        if bytes.is_empty() {
            return Err(SendError::Encode("it takes no bytes, so a batch cannot hold it".to_owned()));
        }
        let (is_long, is_first) = {
            let mut batches = self.shared.batches.lock();
            let batch = batches.entry(to).or_default();
            if let Some(error) = batch.failed.take() {
                return Err(error);
            }
            batch.added += 1;
            batch.bytes.extend_from_slice(bytes);
            (batch.bytes.len() >= self.shared.longest, !std::mem::replace(&mut batch.is_timed, true))
        };
        if is_first {
            // Also if the values are sent now: the send may be dropped.
            chanter::spawn_parasite(Arc::clone(&self.shared).send_by_time(to));
        }
        if is_long { self.shared.send(to).await } else { Ok(()) }
    }

    /// Sends all values that wait.
    ///
    /// **Cancel safety.** If the future is dropped, values that wait go on waiting.
    ///
    /// # Errors
    /// As for [`add`](Self::add): the first error. The values to other threads are sent nevertheless.
    pub async fn flush(&self) -> Result<(), SendError> {
        let all: Vec<_> = self.shared.batches.lock().keys().copied().collect();
        let mut result = Ok(());
        for to in all {
            let failed = self.shared.batches.lock().get_mut(&to).and_then(|batch| batch.failed.take());
            let sent = self.shared.send(to).await;
            result = result.and(failed.map_or(sent, Err));
        }
        result
    }
}

impl<T: ?Sized> fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("tag", &self.shared.tag).finish_non_exhaustive()
    }
}

impl Shared {
    /// Sends the values that wait for a thread. Those that cannot be sent are dropped. If the future is dropped, they
    /// go on waiting.
    async fn send(&self, to: ThreadName) -> Result<(), SendError> {
        let sending = self.batches.lock().get(&to).map(|batch| Arc::clone(&batch.sending));
        let Some(sending) = sending else { return Ok(()) };
        let mut sending = sending.lock().await;
        let mut waiting =
            self.batches.lock().get_mut(&to).map_or(Vec::new(), |batch| std::mem::take(&mut batch.bytes));
        if sending.is_empty() {
            std::mem::swap(&mut *sending, &mut waiting);
        } else {
            // The send of the first ones was dropped.
            sending.append(&mut waiting);
        }
        if sending.is_empty() {
            return Ok(());
        }
        let mut buffer = Buffer::<u8>::zeroed(sending.len());
        buffer.copy_from_slice(&sending);
        let sent = self.inbox.send_buffer(to, self.tag, buffer).await;
        sending.clear();
        // The memory is used again.
        if let Some(batch) = self.batches.lock().get_mut(&to)
            && batch.bytes.capacity() == 0
        {
            std::mem::swap(&mut batch.bytes, &mut sending);
        }
        sent
    }

    /// Sends the values to a thread once they have waited for long, or no other has come for a while.
    async fn send_by_time(self: Arc<Self>, to: ThreadName) {
        let begin = Instant::now();
        let added = || self.batches.lock().get(&to).map_or(0, |batch| batch.added);
        let mut before = added();
        loop {
            after(self.silence.min(self.oldest)).await;
            let now = added();
            if std::mem::replace(&mut before, now) == now || begin.elapsed() >= self.oldest {
                break;
            }
        }
        if let Some(batch) = self.batches.lock().get_mut(&to) {
            batch.is_timed = false;
        }
        if let Err(error) = self.send(to).await
            && let Some(batch) = self.batches.lock().get_mut(&to)
        {
            batch.failed = Some(error);
        }
        // Threads come and go, and a batch without values is made anew.
        let mut batches = self.batches.lock();
        if batches.get_mut(&to).is_some_and(Batch::is_idle) {
            batches.remove(&to);
        }
    }
}

impl Batch {
    /// Whether nothing waits, nobody sends, and nothing is to be told.
    fn is_idle(&mut self) -> bool {
        let nobody_sends =
            Arc::get_mut(&mut self.sending).is_some_and(|sending| sending.get_mut().is_empty());
        nobody_sends && self.bytes.is_empty() && !self.is_timed && self.failed.is_none()
    }
}
