//! The rows `timer` and `recv`: one producer and one consumer. In `recv` the consumer just receives. In `timer` it
//! chooses between the message and a timer of a second, which never fires.

use std::time::Duration;

use chanter::prelude::*;
use tokio::sync::mpsc;

use crate::case::{Load, Outcome};
use crate::micro::send::{producer_and, sync};
use crate::peers::{asynchronous, channels::Mpsc, crossbeam};

const LATER: Duration = Duration::from_secs(1);

pub(super) fn chanter(load: Load) -> Outcome {
    producer_and(load, channel(), sync, move |rx| async move {
        let mut sum = 0;
        let mut left = load.n;
        while left > 0 {
            let next = choose((rx.recv().wrap(Result::ok), after(LATER).wrap(|()| None)));
            if let Some(value) = next.await {
                sum += value;
                left -= 1;
            }
        }
        sum
    })
}

pub(super) fn tokio(load: Load) -> Outcome {
    let runtime = asynchronous::runtime_with_timers(load.vps)?;
    asynchronous::send_to::<Mpsc, _>(&runtime, load, move |mut rx: mpsc::Receiver<u64>| async move {
        let mut sum = 0;
        let mut left = load.n;
        while left > 0 {
            let next = tokio::select! {
                got = rx.recv() => got,
                () = tokio::time::sleep(LATER) => None,
            };
            if let Some(value) = next {
                sum += value;
                left -= 1;
            }
        }
        sum
    })
}

pub(super) fn crossbeam(load: Load) -> Outcome {
    crossbeam::one_producer(load, crossbeam_channel::bounded(0), move |rx| {
        let mut sum = 0;
        let mut left = load.n;
        while left > 0 {
            crossbeam_channel::select! {
                recv(rx) -> got => {
                    sum += got.unwrap_or(0);
                    left -= 1;
                }
                recv(crossbeam_channel::after(LATER)) -> _ => {}
            }
        }
        sum
    })
}
