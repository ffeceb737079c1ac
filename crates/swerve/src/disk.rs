//! The disk threads: OS threads for calls that may wait for a disk or for a file server, so that no virtual
//! processor does. Chanter threads and OS threads meet on the same channels.
//!
//! A call may never return: a file server can be gone, and nothing ends a call that waits for one. So every call
//! is made at a [`Place`], which says who else it can hold up:
//!
//! | place | its calls | threads |
//! |---|---|---|
//! | own disk | opening and reading on the served directory's own disk | [`OWN`] |
//! | listings | reading directories on that disk | [`LISTINGS`] |
//! | each way out of its file system | whatever goes that way: to a mounted server, say | [`AT_A_PLACE`], and [`ELSEWHERE`] for all ways together |
//! | details, for each way out | what listings say of files there, and can do without | the same, and [`DETAILS`] together |
//!
//! Within a way out, one file has at most [`ON_A_FILE`] threads: requests for one that hangs leave the
//! others to its neighbours. Each wait, for a thread or for an answer, is bounded. A
//! call that is late goes on alone: its thread and its share of the place come back if it ever returns. Nothing
//! waits for the threads when the server stops.
//!
//! To close a file of another file system may wait as well (FUSE flushes it), and its last share is often dropped on
//! a virtual processor. So it leaves the closing to a thread: one for each place, with a list, from
//! which the threads of later calls take some as well.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::sync::{OwnedPermit, Semaphore};

/// Enough to keep a disk busy; calls on files that memory holds do not come here.
const OWN: usize = 4;
/// Fewer than those: to read a large directory takes long, and is asked for by anybody.
const LISTINGS: usize = 2;
/// For each way out of the served directory's file system.
const AT_A_PLACE: usize = 16;
/// For all of them together.
const ELSEWHERE: usize = 64;
/// For the details of listings, together.
const DETAILS: usize = 16;
/// For each file there.
const ON_A_FILE: usize = 2;
/// Number of files of a place that may wait to be closed. Beyond it no more of its files are opened.
const MOST_UNCLOSED: usize = 256;
/// Time that a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

/// A handle on the disk threads. They start when there is work, and end when there has been none for a while.
#[derive(Clone)]
pub(crate) struct Disk {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Arc<Pool>,
    own: Arc<Place>,
    listings: Arc<Place>,
    ways_out: Mutex<Named<Place>>,
    details: Mutex<Named<Place>>,
    /// The threads of all ways out, and of all details.
    elsewhere: Arc<Semaphore>,
    for_details: Arc<Semaphore>,
    patience: Duration,
}

/// Threads that a call can hold up; see the module.
pub(crate) struct Place {
    threads: Arc<Semaphore>,
    /// Only of a way out.
    beyond: Option<Beyond>,
}

struct Beyond {
    pool: Arc<Pool>,
    /// The threads of all places of this kind.
    together: Arc<Semaphore>,
    files: Mutex<Named<Semaphore>>,
    unclosed: Mutex<Unclosed>,
}

#[derive(Default)]
struct Unclosed {
    files: Vec<File>,
    /// Number of files on the list, with the one that is being closed.
    count: usize,
    has_thread: bool,
}

/// The reason why a call gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It was not begun: there was no thread for it in time.
    Crowded,
    /// It had not returned in time, and goes on alone.
    Late,
    /// It panicked.
    Failed,
}

impl From<Unanswered> for io::Error {
    fn from(unanswered: Unanswered) -> io::Error {
        match unanswered {
            Unanswered::Crowded => io::ErrorKind::ResourceBusy.into(),
            Unanswered::Late => io::ErrorKind::TimedOut.into(),
            Unanswered::Failed => io::ErrorKind::Other.into(),
        }
    }
}

impl Disk {
    /// `patience`: how long a call may wait for a thread, and how long it may take then.
    pub(crate) fn new(patience: Duration) -> Disk {
        let place = |threads| Arc::new(Place { threads: Arc::new(Semaphore::new(threads)), beyond: None });
        Disk {
            shared: Arc::new(Shared {
                pool: Arc::default(),
                own: place(OWN),
                listings: place(LISTINGS),
                ways_out: Mutex::default(),
                details: Mutex::default(),
                elsewhere: Arc::new(Semaphore::new(ELSEWHERE)),
                for_details: Arc::new(Semaphore::new(DETAILS)),
                patience,
            }),
        }
    }

    /// The served directory's own disk.
    pub(crate) fn own(&self) -> Arc<Place> {
        self.shared.own.clone()
    }

    /// The same, for those who read directories.
    pub(crate) fn listings(&self) -> Arc<Place> {
        self.shared.listings.clone()
    }

    /// A way out of the served directory's file system.
    pub(crate) fn beyond(&self, way_out: &Path) -> Arc<Place> {
        let Shared { ways_out, elsewhere, .. } = &*self.shared;
        lock(ways_out).get(way_out, || self.shared.place_beyond(elsewhere))
    }

    /// The same, for calls whose answers can be missed: they take no thread from the others there.
    pub(crate) fn details(&self, way_out: &Path) -> Arc<Place> {
        let Shared { details, for_details, .. } = &*self.shared;
        lock(details).get(way_out, || self.shared.place_beyond(for_details))
    }

    /// Time that a call may wait for a thread, and time that it may take then.
    pub(crate) fn patience(&self) -> Duration {
        self.shared.patience
    }

    /// Runs `call`, which concerns the file at `path`, on a thread. Dropping the future does not end the call.
    pub(crate) async fn run<T, F>(&self, place: &Arc<Place>, path: &Path, call: F) -> Result<T, Unanswered>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_within(self.shared.patience, place, path, call).await
    }

    /// Like [`Disk::run`], with a patience of its own.
    pub(crate) async fn run_within<T, F>(
        &self,
        patience: Duration,
        place: &Arc<Place>,
        path: &Path,
        call: F,
    ) -> Result<T, Unanswered>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (of_file, permits) = place.permits(path, Instant::now() + patience).await?;
        let (reply, result) = bounded(1);
        let at_place = place.clone();
        let call = Box::new(move || {
            // Refused when nobody waits for the result any more.
            let _ = reply.try_send(call());
            drop(of_file);
            // One for the file that this call may have opened, and one for a busier time.
            at_place.close_some(2);
        });
        self.shared.pool.give(Job { call, permits }).map_err(|_| Unanswered::Crowded)?;
        choose((
            result.recv().wrap(|result| result.map_err(|_| Unanswered::Failed)),
            at(Instant::now() + patience).wrap(|()| Err(Unanswered::Late)),
        ))
        .await
    }
}

impl Shared {
    /// A place that shares `together` with others of its kind.
    fn place_beyond(&self, together: &Arc<Semaphore>) -> Place {
        let beyond = Beyond {
            pool: self.pool.clone(),
            together: together.clone(),
            files: Mutex::default(),
            unclosed: Mutex::default(),
        };
        Place { threads: Arc::new(Semaphore::new(AT_A_PLACE)), beyond: Some(beyond) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl Place {
    /// The right to the file and to a thread, by `deadline`.
    async fn permits(
        &self,
        path: &Path,
        deadline: Instant,
    ) -> Result<(Option<OwnedPermit>, Permits), Unanswered> {
        let Some(beyond) = &self.beyond else {
            return Ok((None, [Some(permit(self.threads.clone(), deadline).await?), None]));
        };
        if lock(&beyond.unclosed).count >= MOST_UNCLOSED {
            return Err(Unanswered::Crowded);
        }
        // The scarcest first: who waits for a file keeps no thread from the others.
        let file = lock(&beyond.files).get(path, || Semaphore::new(ON_A_FILE));
        let file = permit(file, deadline).await?;
        let here = permit(self.threads.clone(), deadline).await?;
        let together = permit(beyond.together.clone(), deadline).await?;
        Ok((Some(file), [Some(here), Some(together)]))
    }

    /// Closes a file of this place without waiting for it.
    pub(crate) fn close(self: &Arc<Self>, file: File) {
        let Some(beyond) = &self.beyond else {
            drop(file);
            return;
        };
        let starts = {
            let mut unclosed = lock(&beyond.unclosed);
            unclosed.files.push(file);
            unclosed.count += 1;
            !std::mem::replace(&mut unclosed.has_thread, true)
        };
        if starts {
            let place = self.clone();
            let call = Box::new(move || place.close_all());
            if beyond.pool.give(Job { call, permits: [None, None] }).is_err() {
                // The next file that is to be closed tries again.
                lock(&beyond.unclosed).has_thread = false;
            }
        }
    }

    /// The work of the thread that closes. (Should it hang, those who come with calls still close some.)
    fn close_all(&self) {
        let Some(beyond) = &self.beyond else { return };
        loop {
            let file = {
                let mut unclosed = lock(&beyond.unclosed);
                unclosed.has_thread = !unclosed.files.is_empty();
                unclosed.files.pop()
            };
            match file {
                Some(file) => beyond.close(file),
                None => return,
            }
        }
    }

    fn close_some(&self, most: usize) {
        let Some(beyond) = &self.beyond else { return };
        for _ in 0..most {
            let file = lock(&beyond.unclosed).files.pop();
            match file {
                Some(file) => beyond.close(file),
                None => return,
            }
        }
    }
}

impl Beyond {
    fn close(&self, file: File) {
        drop(file);
        lock(&self.unclosed).count -= 1;
    }
}

/// The right to a thread: of the place, and of all places of its kind.
type Permits = [Option<OwnedPermit>; 2];

async fn permit(of: Arc<Semaphore>, deadline: Instant) -> Result<OwnedPermit, Unanswered> {
    let granted =
        choose_biased((of.acquire_owned(1).wrap(|permit| permit.ok()), at(deadline).wrap(|()| None)));
    granted.await.ok_or(Unanswered::Crowded)
}

/// State shared by all holders of the same path, for as long as any of them has it.
struct Named<T> {
    by_path: HashMap<PathBuf, Weak<T>>,
    /// Length at which the entries that nobody holds are removed.
    full: usize,
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { by_path: HashMap::new(), full: 64 }
    }
}

impl<T> Named<T> {
    fn get(&mut self, path: &Path, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(shared) = self.by_path.get(path).and_then(Weak::upgrade) {
            return shared;
        }
        if self.by_path.len() >= self.full {
            self.by_path.retain(|_, shared| shared.strong_count() > 0);
            self.full = 64.max(2 * self.by_path.len());
        }
        let shared = Arc::new(make());
        self.by_path.insert(path.to_owned(), Arc::downgrade(&shared));
        shared
    }
}

/// A call, and its right to a thread, which is given back after it.
struct Job {
    call: Box<dyn FnOnce() + Send>,
    permits: Permits,
}

/// Threads that take jobs. As many as there are jobs: it is the permits that bound them.
#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    has_job: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that take the next job, now or in a moment.
    idle: usize,
    is_closed: bool,
}

impl Pool {
    /// Never blocks. Fails when there is no thread for the job and none can be started.
    fn give(self: &Arc<Self>, job: Job) -> io::Result<()> {
        let mut queue = lock(&self.queue);
        if queue.idle > queue.jobs.len() {
            queue.jobs.push_back(job);
            drop(queue);
            self.has_job.notify_one();
            return Ok(());
        }
        drop(queue);
        let pool = self.clone();
        thread::Builder::new().name("swerve-disk".into()).spawn(move || pool.work(job)).map(drop)
    }

    fn work(&self, first: Job) {
        let mut next = Some(first);
        while let Some(Job { call, permits }) = next {
            // A job that panics drops its reply, which its owner sees.
            let _ = catch_unwind(AssertUnwindSafe(call));
            lock(&self.queue).idle += 1;
            // A holder of such a permit finds an idle thread.
            drop(permits);
            next = self.next();
        }
    }

    /// The next job of an idle thread. `None`: there has been none for long, or there will be none.
    fn next(&self) -> Option<Job> {
        let queue = lock(&self.queue);
        let (mut queue, _) = self
            .has_job
            .wait_timeout_while(queue, IDLE, |queue| queue.jobs.is_empty() && !queue.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }

    fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.has_job.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
