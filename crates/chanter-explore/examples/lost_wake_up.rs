//! A lost wake-up: a consumer looks whether there is work, finds none, and
//! says that it sleeps. A producer that comes in between wakes nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter_explore::Explorer;

/// A queue with a doorbell for one consumer.
#[derive(Clone)]
struct Jobs {
    queue: Arc<Mutex<Vec<u32>>>,
    asleep: Arc<AtomicBool>,
    ring: Sender<()>,
    bell: Receiver<()>,
}

impl Jobs {
    fn new() -> Self {
        let (ring, bell) = channel();
        Self { queue: Arc::default(), asleep: Arc::default(), ring, bell }
    }

    async fn add(&self, job: u32) {
        self.queue.lock().unwrap().push(job);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.ring.send(()).await.unwrap();
        }
    }

    fn take(&self) -> Option<u32> {
        self.queue.lock().unwrap().pop()
    }

    /// Wrong: a thread that adds between the look and the announcement does not notify.
    async fn next_wrong(&self, idle: &Sender<()>) -> u32 {
        loop {
            if let Some(job) = self.take() {
                return job;
            }
            idle.send(()).await.unwrap();
            self.asleep.store(true, Ordering::SeqCst);
            self.bell.recv().await.unwrap();
        }
    }

    /// Right: it announces its sleep, and then looks once more.
    async fn next_right(&self, idle: &Sender<()>) -> u32 {
        loop {
            if let Some(job) = self.take() {
                return job;
            }
            idle.send(()).await.unwrap();
            self.asleep.store(true, Ordering::SeqCst);
            if let Some(job) = self.take() {
                // A waker that has seen us asleep is about to notify us.
                if !self.asleep.swap(false, Ordering::SeqCst) {
                    self.bell.recv().await.unwrap();
                }
                return job;
            }
            self.bell.recv().await.unwrap();
        }
    }
}

async fn produce_and_consume(right: bool) {
    let jobs = Jobs::new();
    // Told when the consumer is idle.
    let (idle, told) = mailbox();
    let theirs = jobs.clone();
    let consumer = spawn(async move {
        if right { theirs.next_right(&idle).await } else { theirs.next_wrong(&idle).await }
    });
    let producer = spawn(async move { jobs.add(7).await });
    assert_eq!(consumer.join().await.unwrap(), 7);
    producer.join().await.unwrap();
    drop(told);
}

fn main() {
    let failure = Explorer::new().exhaustive().check(|| produce_and_consume(false)).unwrap_failure();
    println!("{failure}\n");
    assert!(failure.is_deadlock());

    let report = Explorer::new().exhaustive().check(|| produce_and_consume(true));
    println!("fixed: {report}");
    assert!(report.is_complete && !report.has_failed());
}
