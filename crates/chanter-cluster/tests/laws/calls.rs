//! D6: a request runs at most once, and its call has one answer or is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter_cluster::engine::Local;
use chanter_cluster::{Begun, CallError, Process, Service, Serving};

const WORK: Service<u32, u32> = Service::new("laws::work");

/// How often each request has begun, and ended.
#[derive(Clone, Default)]
pub(super) struct Runs(Arc<[[AtomicU32; 2]; 4]>);

impl Runs {
    /// Serves: each request is noted, blocks if it is odd, and answers with ten times what it was asked.
    pub(super) fn serve(&self, here: &Process) -> Serving {
        let runs = self.clone();
        let serving = here.serve(WORK, move |_, n| {
            let runs = runs.clone();
            async move {
                let [begun, ended] = &runs.0[n as usize];
                begun.fetch_add(1, Ordering::SeqCst);
                if n % 2 == 1 {
                    yield_now().await;
                }
                ended.fetch_add(1, Ordering::SeqCst);
                10 * n
            }
        });
        serving.unwrap()
    }

    fn of(&self, n: u32) -> (u32, u32) {
        let [begun, ended] = &self.0[n as usize];
        (begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst))
    }

    /// D6, of one call.
    pub(super) fn check(&self, n: u32, answer: &Result<u32, CallError>) -> Result<(), String> {
        let runs = self.of(n);
        let holds = match answer {
            Ok(value) => *value == 10 * n && runs == (1, 1),
            Err(CallError::Lost { begun: Begun::No, .. }) => runs == (0, 0),
            Err(CallError::Lost { begun: Begun::Unknown, .. }) => runs.0 <= 1 && runs.1 <= runs.0,
            Err(_) => false,
        };
        if holds { Ok(()) } else { Err(format!("request {n}: {answer:?}, begun and ended {runs:?}")) }
    }
}

/// Two callers, three calls, and one of this process to itself.
pub(super) async fn three_calls(first: &Process, runs: &Runs) -> Result<(), String> {
    let call = |n| {
        let at = first.at(1);
        async move { at.call(WORK.ask(&n)).await }
    };
    let other = spawn({
        let call = call(1);
        async move { (1, call.await) }
    });
    for n in [2, 3] {
        runs.check(n, &call(n).await)?;
    }
    let (n, answer) = other.join().await.unwrap();
    runs.check(n, &answer)
}

/// The server's process is killed at any point.
pub(super) async fn a_request_runs_at_most_once() {
    let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
    let runs = Runs::default();
    let serving = runs.serve(&second);
    let killing = spawn(async move { killer.kill() });
    three_calls(&first, &runs).await.unwrap();
    killing.join().await.unwrap();
    drop(serving);
}

/// A call that loses a choice runs at most once, and the next of the same caller as if it had not been.
pub(super) async fn a_call_that_loses_is_withdrawn() {
    let [first, second] = super::two();
    let runs = Runs::default();
    let serving = runs.serve(&second);
    let (tx, rx) = channel::<()>();
    let rival = spawn(async move { tx.send(()).await });
    let at = first.at(1);
    let answer = choose((at.call(WORK.ask(&1)).wrap(Some), rx.recv().wrap(|_| None))).await;
    if let Some(answer) = &answer {
        runs.check(1, answer).unwrap();
    }
    drop(rx);
    let next = at.call(WORK.ask(&2)).await;
    runs.check(2, &next).unwrap();
    assert!(next.is_ok());
    assert!(runs.of(1).0 <= 1);
    let _ = rival.join().await.unwrap();
    drop(serving);
}

/// Requests of one process begin in order, whether they block or not.
pub(super) async fn requests_begin_in_order() {
    let [first, second] = super::two();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let serving = second
        .serve(WORK, move |_, n| {
            let seen = Arc::clone(&sees);
            async move {
                seen.lock().unwrap().push(n);
                yield_now().await;
                n
            }
        })
        .unwrap();
    let at = first.at(1);
    for n in 0..2 {
        at.post(WORK.ask(&n)).unwrap();
    }
    assert_eq!(at.call(WORK.ask(&2)).await, Ok(2));
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    drop(serving);
}
