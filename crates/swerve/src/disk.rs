//! The disk threads: OS threads for calls that may wait for a disk, so that no virtual processor
//! does. Chanter threads and OS threads meet on the same channels.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use chanter::prelude::*;

/// Enough to keep a disk busy; calls on files that memory holds do not come here.
const THREADS: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// A handle on the disk threads, which end when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Disk {
    /// A rendezvous: when all of them are busy, whoever asks waits in line.
    jobs: Sender<Job>,
}

impl Disk {
    pub(crate) fn start() -> io::Result<Disk> {
        let (jobs, queue) = channel::<Job>();
        for i in 0..THREADS {
            let queue = queue.clone();
            thread::Builder::new().name(format!("swerve-disk-{i}")).spawn(move || {
                while let Ok(job) = queue.recv().sync_blocking() {
                    // A job that panics drops its reply, and that is what its owner sees.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            })?;
        }
        Ok(Disk { jobs })
    }

    /// Runs `call` on a disk thread. `None` if it panicked or the threads are gone.
    pub(crate) async fn run<T, F>(&self, call: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (reply, result) = bounded(1);
        let job: Job = Box::new(move || {
            // Refused when nobody waits for the result any more.
            let _ = reply.try_send(call());
        });
        self.jobs.send(job).await.ok()?;
        result.recv().await.ok()
    }
}
