//! The rows on Tokio: its `select!`, and the combinators of the crate `futures`.
//!
//! `select!` and `select_all` choose anew each time, and drop what lost. `FuturesUnordered` and `SelectAll` keep one
//! set of branches for all choices: a branch is polled again only when something has come for it.
//!
//! Since Tokio's channels have a buffer, a send branch that has sent all that its consumer will take could still win.
//! It is left out of further choices.

use std::time::Instant;

use futures_util::future::{BoxFuture, FutureExt, select_all};
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use crate::case::{Failure, Load, Outcome};
use crate::choice::row::{Moved, Ran, Row, Shape, Tally, cannot};
use crate::peers::asynchronous::{run_on, runtime};
use crate::peers::channels::{Channels, Mpsc};

fn play<P, F>(
    row: Row,
    load: Load,
    chooser: impl FnOnce(Vec<P::Receiver>, Vec<P::Sender>, u64) -> F + Send + 'static,
) -> Outcome
where
    P: Channels,
    F: Future<Output = u64> + Send + 'static,
{
    let broken = |error: tokio::task::JoinError| Failure::Broken(error.to_string());
    let ran = run_on(&runtime(load.vps)?, async move {
        let each = row.each(load.n);
        let clock = Instant::now();
        let ends = row.ends(P::channel);
        // The handles keep the results of their tasks, so that no channel closes before the end.
        let feeders: Vec<_> = ends.feeds.into_iter().map(|f| tokio::spawn(feeder::<P>(f, each))).collect();
        let consumers: Vec<_> =
            ends.drains.into_iter().map(|d| tokio::spawn(consumer::<P>(d, each))).collect();
        let chooser = tokio::spawn(chooser(ends.receives, ends.sends, row.choices(load.n)));
        let received = chooser.await.map_err(broken)?;
        let elapsed = clock.elapsed();
        let mut consumed = 0;
        for consumer in consumers {
            consumed += consumer.await.map_err(broken)?.0;
        }
        drop((feeders, ends.silent));
        Ok::<_, Failure>(Ran { received, consumed, elapsed })
    })??;
    row.checked(load.n, &ran)
}

async fn feeder<P: Channels>(feed: Vec<P::Sender>, each: u64) -> Vec<P::Sender> {
    for value in 0..each {
        for tx in &feed {
            if !P::send(tx, value).await {
                return feed;
            }
        }
    }
    feed
}

async fn consumer<P: Channels>(mut drain: P::Receiver, each: u64) -> (u64, P::Receiver) {
    let mut sum = 0;
    for _ in 0..each {
        sum += P::recv(&mut drain).await.unwrap_or(0);
    }
    (sum, drain)
}

type Receivers = Vec<mpsc::Receiver<u64>>;
type Senders = Vec<mpsc::Sender<u64>>;

macro_rules! receives {
    ($name:ident: $($rx:ident)+) => {
        async fn $name(mut receivers: Receivers, _: Senders, choices: u64) -> u64 {
            let [$($rx),+] = &mut receivers[..] else { return 0 };
            let mut sum = 0;
            for _ in 0..choices {
                let got = tokio::select! { $(got = $rx.recv() => got,)+ };
                sum += got.unwrap_or(0);
            }
            sum
        }
    };
}

receives!(receives_2: a b);
receives!(receives_8: a b c d e f g h);
receives!(receives_64:
    r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15
    r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31
    r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47
    r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63
);

/// Messages of each branch, when none is silent.
fn quota<R, S>(receivers: &[R], senders: &[S], choices: u64) -> u64 {
    choices / (receivers.len() + senders.len()) as u64
}

macro_rules! mixed {
    ($name:ident: $($rx:ident)+, $($tx:ident $at:literal)+) => {
        async fn $name(mut receivers: Receivers, senders: Senders, choices: u64) -> u64 {
            let mut tally = Tally::new(senders.len());
            let all = quota(&receivers, &senders, choices);
            let ([$($rx),+], [$($tx),+]) = (&mut receivers[..], &senders[..]) else { return 0 };
            for _ in 0..choices {
                let moved = tokio::select! {
                    $(got = $rx.recv() => Moved::In(got.unwrap_or(0)),)+
                    $(_ = $tx.send(tally.sent[$at]), if tally.sent[$at] < all => Moved::Out($at),)+
                };
                tally.count(moved);
            }
            tally.received
        }
    };
}

mixed!(mixed_2: a, b 0);
mixed!(mixed_8: a b c d, e 0 f 1 g 2 h 3);
mixed!(mixed_64:
    r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15
    r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31,
    s0 0 s1 1 s2 2 s3 3 s4 4 s5 5 s6 6 s7 7 s8 8 s9 9
    s10 10 s11 11 s12 12 s13 13 s14 14 s15 15 s16 16 s17 17 s18 18 s19 19
    s20 20 s21 21 s22 22 s23 23 s24 24 s25 25 s26 26 s27 27 s28 28 s29 29
    s30 30 s31 31
);

/// `tokio::select!`.
pub(crate) fn select(row: Row, load: Load) -> Outcome {
    match (row.shape, row.branches) {
        (Shape::Mixed, 2) => play::<Mpsc, _>(row, load, mixed_2),
        (Shape::Mixed, 8) => play::<Mpsc, _>(row, load, mixed_8),
        (Shape::Mixed, 64) => play::<Mpsc, _>(row, load, mixed_64),
        (_, 2) => play::<Mpsc, _>(row, load, receives_2),
        (_, 8) => play::<Mpsc, _>(row, load, receives_8),
        (_, 64) => play::<Mpsc, _>(row, load, receives_64),
        _ => cannot("tokio::select! takes at most 64 branches"),
    }
}

/// `futures::future::select_all` over Tokio's channels, whose operations may be dropped when they lose.
pub(crate) fn select_all_anew(row: Row, load: Load) -> Outcome {
    play::<Mpsc, _>(row, load, |mut receivers: Receivers, senders: Senders, choices| async move {
        fn receive(rx: &mut mpsc::Receiver<u64>) -> BoxFuture<'_, Moved> {
            rx.recv().map(|got| Moved::In(got.unwrap_or(0))).boxed()
        }
        fn send<'a>((at, (tx, value)): (usize, (&'a mpsc::Sender<u64>, &u64))) -> BoxFuture<'a, Moved> {
            tx.send(*value).map(move |_| Moved::Out(at)).boxed()
        }
        let mut tally = Tally::new(senders.len());
        let all = quota(&receivers, &senders, choices);
        for _ in 0..choices {
            let receives = receivers.iter_mut().map(receive);
            let sends = senders.iter().zip(&tally.sent).enumerate();
            let sends = sends.filter(|(_, (_, sent))| **sent < all).map(send);
            let (moved, ..) = select_all(receives.chain(sends)).await;
            tally.count(moved);
        }
        tally.received
    })
}

/// One operation of a set, with the end that it owns meanwhile.
enum Step<P: Channels> {
    Receive(P::Receiver),
    Send(P::Sender, usize, u64),
}

async fn step<P: Channels>(mut step: Step<P>) -> (Step<P>, Moved) {
    let moved = match &mut step {
        Step::Receive(rx) => Moved::In(P::recv(rx).await.unwrap_or(0)),
        Step::Send(tx, at, value) => {
            P::send(tx, *value).await;
            *value += 1;
            Moved::Out(*at)
        }
    };
    (step, moved)
}

/// `futures::stream::FuturesUnordered`: a set of operations, each put back when it has happened.
pub(crate) fn futures_unordered(row: Row, load: Load) -> Outcome {
    play::<Mpsc, _>(row, load, |receivers: Receivers, senders: Senders, choices| async move {
        let mut tally = Tally::new(senders.len());
        let all = quota(&receivers, &senders, choices);
        let receives = receivers.into_iter().map(Step::Receive);
        let sends = senders.into_iter().enumerate().map(|(at, tx)| Step::Send(tx, at, 0));
        let mut set: FuturesUnordered<_> = receives.chain(sends).map(step::<Mpsc>).collect();
        for _ in 0..choices {
            let Some((next, moved)) = set.next().await else { break };
            tally.count(moved);
            if !matches!(next, Step::Send(_, _, value) if value == all) {
                set.push(step(next));
            }
        }
        tally.received
    })
}

/// `futures::stream::SelectAll`: one stream out of many.
pub(crate) fn merge<P: Channels>(row: Row, load: Load) -> Outcome {
    if row.shape == Shape::Mixed {
        return cannot("streams only receive");
    }
    play::<P, _>(row, load, |receivers: Vec<P::Receiver>, _, choices| async move {
        let mut any = stream::select_all(receivers.into_iter().map(P::stream));
        let mut sum = 0;
        for _ in 0..choices {
            sum += any.next().await.unwrap_or(0);
        }
        sum
    })
}
