//! A starved thread: a worker prefers work to the request to stop, and every
//! job makes another one. The thread that asks it to stop waits for ever.

use chanter::prelude::*;
use chanter_explore::{Explorer, FailureKind};

enum Next {
    Work(u32),
    Stop,
}

async fn retry_until_stopped(stop_first: bool) {
    let (jobs, job) = mailbox();
    let (stops, stop) = channel();
    let worker = spawn(async move {
        jobs.try_send(0).unwrap();
        loop {
            let job = job.recv().wrap(|job| Next::Work(job.unwrap())).boxed();
            let stop = stop.recv().wrap(|_| Next::Stop).boxed();
            let order = if stop_first { [stop, job] } else { [job, stop] };
            match choose_biased(order).await {
                // It fails, as it did before: it is tried again later.
                Next::Work(tries) => jobs.try_send(tries + 1).unwrap(),
                Next::Stop => return,
            }
            yield_now().await;
        }
    });
    let stopper = spawn(async move { stops.send(()).await.unwrap() });
    stopper.join().await.unwrap();
    worker.join().await.unwrap();
}

fn main() {
    let explorer = Explorer::new().exhaustive().steps(1000);
    let failure = explorer.check(|| retry_until_stopped(false)).unwrap_failure();
    println!("{failure}\n");
    let FailureKind::TooLong { starved, .. } = &failure.kind else { panic!("{failure}") };
    // The stopper, and the main thread, which waits for it.
    assert_eq!(starved[..], [0, 2]);

    let report = explorer.check(|| retry_until_stopped(true));
    println!("fixed: {report}");
    assert!(report.is_complete && !report.has_failed());
}
