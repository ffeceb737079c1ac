//! A thread for each stage.

use std::future::Future;

use chanter::prelude::*;

use crate::kit::{Done, Style};

/// The prime of a stage, and how many numbers came to it.
type Found = (u32, u64);

pub(super) async fn primes<S: Style>(last: u32) -> Done<Vec<u32>> {
    let (found, all) = mailbox::<Found>();
    let (to, first) = channel();
    drop(spawn(stage::<S>(first, found)));
    for number in 2..=last {
        S::send(&to, number).await;
    }
    drop(to);
    let (mut primes, mut communications) = (Vec::new(), 0);
    while let Ok((prime, received)) = all.recv().await {
        primes.push(prime);
        communications += received;
    }
    // A stage reports its prime when no more numbers come.
    primes.sort_unstable();
    Done::new(primes).communications(communications)
}

fn stage<S: Style>(numbers: Receiver<u32>, found: Sender<Found>) -> impl Future<Output = ()> + Send {
    async move {
        let Ok(prime) = numbers.recv().await else { return };
        let (to, next) = channel();
        drop(spawn(stage::<S>(next, found.clone())));
        let mut received = 1;
        while let Ok(number) = numbers.recv().await {
            received += 1;
            if number % prime != 0 {
                S::send(&to, number).await;
            }
        }
        found.send((prime, received)).await.expect("the first stage's maker collects");
    }
}
