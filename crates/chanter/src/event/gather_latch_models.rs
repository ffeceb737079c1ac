//! Loom models of gather latches (INV-COUNT): gatherings without threads, with partners on other processors.
//!
//! How to run them: see `sync/models.rs`.

use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::task::Poll;

use loom::sync::Arc as LoomArc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::{Event, choose};
use crate::channel::{Closed, SendError, TrySendError, channel};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::models::{Message, block_on, check, check_wide, needs, poll_once};
use crate::thread::gather::models::Bare;

/// Two partners end two members. The owner is told once, when both messages are there, however the three meet.
fn both() {
    let ((tx1, rx1), (tx2, rx2)) = (channel::<Message>(), channel::<Message>());
    let one = thread::spawn(move || block_on(tx1.send(Message::new(1))).is_ok());
    let two = thread::spawn(move || block_on(tx2.send(Message::new(2))).is_ok());
    // Not dropped when a weakened model panics, since loom would panic again.
    let mut waits = ManuallyDrop::new(Box::pin(Bare::gather([rx1.into_recv(), rx2.into_recv()]).sync()));
    let [first, second] = block_on(poll_fn(|cx| waits.as_mut().poll(cx)));
    drop(ManuallyDrop::into_inner(waits));
    assert_eq!((first.unwrap().number(), second.unwrap().number()), (1, 2));
    assert!(one.join().unwrap() && two.join().unwrap());
}

#[test]
fn the_last_tells_the_owner() {
    check_wide(both);
}

/// One partner is enough to need the orderings, since it is the last one.
fn one() {
    let (tx, rx) = channel();
    let sender = thread::spawn(move || block_on(tx.send(Message::new(1))).is_ok());
    let [first] = block_on(Bare::gather([rx.into_recv()]));
    assert_eq!(first.unwrap().number(), 1);
    assert!(sender.join().unwrap());
}

#[test]
fn a_single_member_tells_the_owner() {
    check(one);
}

/// The owner is told by the last partner. It sees the results of the first partner, whose lock it never takes again.
#[test]
fn count_end_is_needed() {
    needs("count_end", Relaxed, both);
}

#[test]
fn count_observe_is_needed() {
    needs("count_observe", Relaxed, both);
}

/// The last partner sees the owner's offer, which no lock protects.
#[test]
fn count_claim_is_needed() {
    needs("count_claim", Relaxed, both);
}

#[test]
fn count_prepare_is_needed() {
    needs("count_prepare", Relaxed, both);
}

/// Members that send. The receivers give up their shares.
#[test]
fn members_may_send() {
    check_wide(|| {
        let ((tx1, rx1), (tx2, rx2)) = (channel::<Message>(), channel::<Message>());
        let one = thread::spawn(move || block_on(rx1.recv()).unwrap().number());
        let two = thread::spawn(move || block_on(rx2.recv()).unwrap().number());
        let sent = block_on(Bare::gather([tx1.into_send(Message::new(1)), tx2.into_send(Message::new(2))]));
        assert!(sent.iter().all(Result::is_ok));
        assert_eq!((one.join().unwrap(), two.join().unwrap()), (1, 2));
    });
}

/// The owner gives up while its members are claimed. Each message is with its sender or is reclaimed, and the
/// channels are freed after all.
fn dropped() {
    let ((tx1, rx1), (tx2, rx2)) = (channel::<Message>(), channel::<Message>());
    let reclaimed = LoomArc::new(AtomicU32::new(0));
    let count = LoomArc::clone(&reclaimed);
    // Only the gathering keeps the channels.
    let event = Bare::gather([rx1.into_recv(), rx2.into_recv()]).reclaim(move |partial| {
        // (Closed, if the sender was dropped with its message.)
        let sum: u32 = partial.into_iter().flatten().flatten().map(|message| message.number()).sum();
        count.fetch_add(sum, SeqCst);
    });
    let sender = thread::spawn(move || {
        let mut sent = 0;
        for (tx, number) in [(tx1, 1), (tx2, 2)] {
            match tx.try_send(Message::new(number)) {
                Ok(()) => sent += number,
                Err(TrySendError::Full(message) | TrySendError::Closed(message)) => {
                    assert_eq!(message.number(), number);
                }
            }
        }
        sent
    });
    let got = {
        let mut waits = pin!(event.sync());
        match poll_once(waits.as_mut()) {
            Poll::Pending => 0,
            Poll::Ready(results) => results.into_iter().flatten().map(|message| message.number()).sum(),
        }
    };
    let sent = sender.join().unwrap();
    assert_eq!(sent, got + reclaimed.load(SeqCst));
}

#[test]
fn a_dropped_gathering_loses_nothing() {
    check(dropped);
}

/// The partner gives up the member's share. The channel is closed for the next send, though the owner has not looked.
#[test]
fn a_member_that_has_ended_does_not_listen() {
    check(|| {
        let ((tx1, rx1), (tx2, rx2)) = (channel::<Message>(), channel::<Message>());
        let event = Bare::gather([rx1.into_recv(), rx2.into_recv()]);
        let sender = thread::spawn(move || {
            assert!(block_on(tx1.send(Message::new(1))).is_ok());
            let SendError(back) = block_on(tx1.send(Message::new(3))).unwrap_err();
            assert_eq!(back.number(), 3);
            assert!(block_on(tx2.send(Message::new(2))).is_ok());
        });
        let [first, second] = block_on(event);
        assert_eq!((first.unwrap().number(), second.unwrap().number()), (1, 2));
        sender.join().unwrap();
    });
}

/// A partner ends the only member, and commits the other branch of the owner's choice, or the other way round. One of
/// the two wins, and no message is lost.
fn compete(gathered_first: bool) {
    let ((tx1, rx1), (tx2, rx2)) = (channel::<Message>(), channel::<Message>());
    let reclaimed = LoomArc::new(AtomicU32::new(0));
    let count = LoomArc::clone(&reclaimed);
    let event = Bare::gather([rx1.into_recv()])
        .reclaim(move |[message]: [Option<Result<Message, Closed>>; 1]| {
            count.fetch_add(message.unwrap().unwrap().number(), SeqCst);
        })
        .wrap(|[message]| message.unwrap().number());
    let other = rx2.recv().wrap(|message| message.unwrap().number());
    let partner = thread::spawn(move || {
        let mut sends = [(&tx1, 1), (&tx2, 2)];
        if !gathered_first {
            sends.reverse();
        }
        let sent: u32 = (sends.into_iter())
            .map(|(tx, number)| if tx.try_send(Message::new(number)).is_ok() { number } else { 0 })
            .sum();
        (sent, tx1, tx2)
    });
    let got = {
        let mut waits = pin!(choose((event, other)).sync());
        match poll_once(waits.as_mut()) {
            Poll::Ready(number) => number,
            Poll::Pending => match poll_once(waits.as_mut()) {
                Poll::Ready(number) => number,
                Poll::Pending => 0,
            },
        }
    };
    let (sent, _tx1, _tx2) = partner.join().unwrap();
    // A message that was committed to the plain receive of a dropped choice is at the head of its channel.
    let back = rx2.try_recv().map_or(0, |message| message.number());
    assert_eq!(sent, got + reclaimed.load(SeqCst) + back);
}

#[test]
fn a_gathering_in_a_choice_wins() {
    check(|| compete(true));
}

#[test]
fn a_gathering_in_a_choice_loses() {
    check(|| compete(false));
}
