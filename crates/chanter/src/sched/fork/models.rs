//! Loom models of the steal of a job.
//!
//! How to run them: see `sync/models.rs`.

use std::ptr;

use loom::sync::Arc;
use loom::thread;

use super::job::Shared;
use super::published::Published;
use crate::sync::Cell;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{check, needs};

/// A job: the data that its owner wrote, and the place for a stealer's share. Loom checks each use.
struct Job {
    body: Cell<u32>,
    share: Shared<Cell<u32>>,
}

struct Processor {
    published: Published<Job>,
    jobs: [Job; 2],
}

// SAFETY: the protocol guards the jobs, and the models check this.
unsafe impl Sync for Processor {}
// SAFETY: no field is bound to an OS thread, and the models check the accesses.
unsafe impl Send for Processor {}

/// The owner publishes two jobs in turn, and takes each back unless the stealer has it.
fn stolen_once() {
    let job = || Job { body: Cell::new(0), share: Shared::new() };
    let processor = Arc::new(Processor { published: Published::new(), jobs: [job(), job()] });
    let other = Arc::clone(&processor);
    let stealer = thread::spawn(move || {
        let job = other.published.steal();
        // SAFETY: INV-EXPOSED: the stolen job is alive until its owner sees the share.
        if let Some(job) = unsafe { job.as_ref() } {
            job.body.set(job.body.get() + 1);
            // SAFETY: the owner keeps the job until it sees the share.
            unsafe { Shared::set(&raw const job.share, Box::new(Cell::new(job.body.get()))) };
        }
    });
    let mut in_work = None;
    for (number, job) in (0..).zip(&processor.jobs) {
        job.body.set(10 * number);
        processor.published.put(ptr::from_ref(job));
        if processor.published.withdraw() {
            assert!(!job.share.is_set(), "the owner runs it");
            job.body.set(10 * number + 1);
        } else if job.share.is_set() {
            assert_eq!(job.share.take().unwrap().get(), 10 * number + 1);
        } else {
            in_work = Some(job);
        }
    }
    stealer.join().unwrap();
    let left = in_work.and_then(|job| job.share.take());
    assert_eq!(left.is_some(), in_work.is_some(), "the thief shares what it has stolen");
    assert_eq!([0, 1].map(|number| processor.jobs[number].body.get()), [1, 11], "each has run once");
}

#[test]
fn a_job_is_run_by_one() {
    check(stolen_once);
}

#[test]
fn exposed_put_needs_release() {
    needs("exposed_put", Relaxed, stolen_once);
}

#[test]
fn exposed_steal_needs_acquire() {
    needs("exposed_steal", Relaxed, stolen_once);
}

#[test]
fn share_set_needs_release() {
    needs("share_set", Relaxed, stolen_once);
}

#[test]
fn share_is_set_needs_acquire() {
    needs("share_is_set", Relaxed, stolen_once);
}
