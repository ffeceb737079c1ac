//! Batches: many small values to one thread, in few messages.
//!
//! INV-BATCH: the values that wait for one thread are under a mutex, which is held until they are in its inbox. So they
//! arrive in the order in which they were added.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use chanter::after;
use chanter::sync::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

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
    batches: std::sync::Mutex<HashMap<ThreadName, Arc<Batch>>>,
}

/// The values that wait for one thread.
struct Batch {
    to: ThreadName,
    /// Number of values so far, which shows the thread that sends by time whether one has come.
    added: AtomicU64,
    sending: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The error of a send by time, which the next caller gets.
    failed: Option<SendError>,
    /// Whether a thread sends by time.
    is_timed: bool,
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
            batches: std::sync::Mutex::default(),
        };
        Self { shared: Arc::new(shared), values: PhantomData }
    }

    /// Sends the values to one thread when they take that many bytes.
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

    /// Adds a value to those that wait for a thread. Waits if the thread's inbox has no room for values that are to go
    /// on their way.
    ///
    /// **Cancel safety.** If the future is dropped, the value may have been added. No other value is lost or doubled.
    ///
    /// # Errors
    /// As for [`Inbox::send`]. The error may be that of values before this one, which are lost then: they could not be
    /// sent by time. A value that cannot be written is not added.
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
        let batch = self.shared.batch(to);
        let mut waiting = batch.sending.lock().await;
        if let Some(error) = waiting.failed.take() {
            return Err(error);
        }
        // Relaxed: a hint for the thread that sends by time.
        batch.added.fetch_add(1, Ordering::Relaxed);
        waiting.bytes.extend_from_slice(bytes);
        if waiting.bytes.len() >= self.shared.longest {
            return self.shared.send(to, &mut waiting).await;
        }
        if !waiting.is_timed {
            waiting.is_timed = true;
            drop(waiting);
            chanter::spawn_parasite(Arc::clone(&self.shared).send_by_time(batch));
        }
        Ok(())
    }

    /// Sends all values that wait.
    ///
    /// **Cancel safety.** If the future is dropped, values that wait go on waiting.
    ///
    /// # Errors
    /// As for [`add`](Self::add): the first error. The values to other threads are sent nevertheless.
    pub async fn flush(&self) -> Result<(), SendError> {
        let batches: Vec<_> = self.shared.lock().values().cloned().collect();
        let mut result = Ok(());
        for batch in batches {
            let mut waiting = batch.sending.lock().await;
            let sent = match waiting.failed.take() {
                Some(error) => Err(error),
                None => self.shared.send(batch.to, &mut waiting).await,
            };
            result = result.and(sent);
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
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadName, Arc<Batch>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn batch(&self, to: ThreadName) -> Arc<Batch> {
        let new =
            || Arc::new(Batch { to, added: AtomicU64::new(0), sending: Mutex::new(Waiting::default()) });
        Arc::clone(self.lock().entry(to).or_insert_with(new))
    }

    /// Sends the values that wait for a thread. Those that cannot be sent are dropped. If the future is dropped, they
    /// go on waiting.
    async fn send(&self, to: ThreadName, waiting: &mut Waiting) -> Result<(), SendError> {
        if waiting.bytes.is_empty() {
            return Ok(());
        }
        let mut buffer = Buffer::<u8>::zeroed(waiting.bytes.len());
        buffer.copy_from_slice(&waiting.bytes);
        let sent = self.inbox.send_buffer(to, self.tag, buffer).await;
        waiting.bytes.clear();
        sent
    }

    /// Sends the values of a batch once they have waited for long, or no other has come for a while.
    async fn send_by_time(self: Arc<Self>, batch: Arc<Batch>) {
        let begin = Instant::now();
        let mut added = batch.added.load(Ordering::Relaxed);
        loop {
            after(self.silence.min(self.oldest)).await;
            let now = batch.added.load(Ordering::Relaxed);
            if std::mem::replace(&mut added, now) == now || begin.elapsed() >= self.oldest {
                break;
            }
        }
        let mut waiting = batch.sending.lock().await;
        waiting.is_timed = false;
        if let Err(error) = self.send(batch.to, &mut waiting).await {
            waiting.failed = Some(error);
        }
    }
}

/// The values of one message, in the order in which they were added; see [`Inbox::recv_batch`]. It is an iterator over
/// results: a value that cannot be read ends it, after its error.
pub struct Values<T> {
    bytes: Buffer<u8>,
    at: usize,
    values: PhantomData<fn() -> T>,
}

impl<T> Values<T> {
    pub(crate) fn of(bytes: Buffer<u8>) -> Self {
        Self { bytes, at: 0, values: PhantomData }
    }
}

impl<T> fmt::Debug for Values<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("bytes", &(self.bytes.len() - self.at)).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Iterator for Values<T> {
    type Item = Result<T, String>;

    fn next(&mut self) -> Option<Result<T, String>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        match postcard::take_from_bytes(rest) {
            Ok((value, left)) if left.len() < rest.len() => {
                self.at += rest.len() - left.len();
                Some(Ok(value))
            }
            failed => {
                self.at = self.bytes.len();
                let why = failed.err().map_or("a value takes no bytes".to_owned(), |error| error.to_string());
                Some(Err(format!("the values of a batch cannot be read: {why}")))
            }
        }
    }
}
