//! Loom models of kept offers. How to run them: see `sync/models.rs`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::thread;

use super::ChoiceSet;
use crate::channel::{Closed, Receiver, channel, mailbox};
use crate::event::{Event, choose_biased};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{Message, block_on, check, check_wide, needs, poll_once};
use crate::{IVar, TrySendError};

type Got = Result<Message, Closed>;

fn receiving<'a>(receivers: &'a [&'a Receiver<Message>]) -> ChoiceSet<'a, Got> {
    let mut set = ChoiceSet::new();
    for rx in receivers {
        set.insert(move || rx.recv());
    }
    set
}

/// Polls a synchronization once and drops it. Returns its result.
fn glance<T>(set: &mut ChoiceSet<'_, T>) -> Option<T> {
    match poll_once(pin!(set.next().sync())) {
        Poll::Ready((_, got)) => Some(got),
        Poll::Pending => None,
    }
}

/// INV-KEPT: a sender comes while the set rests, goes live, or is live. It is passed over and served later, or
/// commits. No thread sleeps for ever.
fn late_sender() {
    let (tx, rx) = channel();
    let sender = thread::spawn(move || (block_on(tx.send(Message::new(1))).is_ok(), tx));
    let receivers = [&rx];
    let mut set = receiving(&receivers);
    // Linked and at rest, unless the sender has come already.
    let number = match glance(&mut set) {
        Some(got) => got.unwrap().number(),
        None => block_on(set.next()).1.unwrap().number(),
    };
    assert_eq!(number, 1);
    assert!(sender.join().unwrap().0);
}

#[test]
fn kept_offers_miss_nobody() {
    check(late_sender);
}

#[test]
fn kept_offers_need_publication() {
    needs("group_publish", Relaxed, late_sender);
}

/// INV-ONE, INV-LAST: two senders meet a live set of two members. One commits, and the other is passed over and comes
/// next.
#[test]
fn one_of_two_members_commits() {
    check_wide(|| {
        let ((tx_a, rx_a), (tx_b, rx_b)) = (channel(), channel());
        let senders = [(tx_a.clone(), 1), (tx_b.clone(), 2)]
            .map(|(tx, number)| thread::spawn(move || block_on(tx.send(Message::new(number))).is_ok()));
        let receivers = [&rx_a, &rx_b];
        let mut set = receiving(&receivers);
        let sum = block_on(set.next()).1.unwrap().number() + block_on(set.next()).1.unwrap().number();
        assert_eq!(sum, 3, "INV-ONE: each once");
        for sender in senders {
            assert!(sender.join().unwrap());
        }
    });
}

/// INV-LAST, and the one guarantee: a synchronization is dropped while a partner commits a member of it. The message
/// is at the head of the channel, or never left its sender. Then the set is dropped, too.
fn dropped_next() {
    let (tx, rx) = channel();
    let sender = thread::spawn(move || (tx.try_send(Message::new(1)), tx));
    let receivers = [&rx];
    let mut set = receiving(&receivers);
    let got = glance(&mut set);
    drop(set);
    let (sent, _tx) = sender.join().unwrap();
    match (sent, got.map(Result::unwrap).or_else(|| rx.try_recv().ok())) {
        (Ok(()), Some(message)) | (Err(TrySendError::Full(message)), None) => assert_eq!(message.number(), 1),
        (sent, got) => panic!("sent: {}, received: {}", sent.is_ok(), got.is_some()),
    }
}

#[test]
fn dropped_nexts_lose_nothing() {
    check(dropped_next);
}

/// A send may be taken from a set just when its synchronization is dropped. Then it is the result of the next one,
/// and is not sent twice.
#[test]
fn dropped_nexts_send_once() {
    check(|| {
        let (tx, rx) = channel();
        let receiver = thread::spawn(move || rx.try_recv().map(|message: Message| message.number()).ok());
        let mut numbers = 1..;
        let mut sent = 0;
        {
            let mut set = ChoiceSet::new();
            set.insert(|| tx.send(Message::new(numbers.next().unwrap())));
            for _ in 0..2 {
                sent += u32::from(glance(&mut set).is_some_and(|sent| sent.is_ok()));
            }
        }
        let received = receiver.join().unwrap();
        assert!(received.is_none_or(|number| number == 1) && sent <= 1, "{received:?} {sent}");
        // Sent in the second synchronization, which was dropped before it was told.
        assert!(sent <= u32::from(received.is_some()));
    });
}

/// INV-LIVE, INV-LAST: the set is dropped while one of its members is passed over, and another has been. No partner
/// writes to freed memory.
fn dropped_set() {
    let ((tx_a, rx_a), answer) = (mailbox(), IVar::new());
    let writer = {
        let answer = answer.clone();
        thread::spawn(move || {
            answer.put(2).unwrap();
            tx_a.try_send(1).unwrap();
            tx_a
        })
    };
    let mut set = ChoiceSet::new();
    set.insert(|| answer.get());
    set.insert(|| rx_a.recv().wrap(|got| got.unwrap_or(0)));
    let got = glance(&mut set);
    drop(set);
    let _tx = writer.join().unwrap();
    assert!(matches!(got, None | Some(1 | 2)));
    assert_eq!(rx_a.try_recv().is_ok(), got != Some(1), "in the set or in the mailbox");
}

#[test]
fn dropped_sets_are_known_to_nobody() {
    check(dropped_set);
}

/// INV-ONE beside others: the set and another leaf of the same choice are ready at the same time. One wins, and the
/// message of the other stays where it is.
#[test]
fn sets_and_other_leaves_agree() {
    check(|| {
        let ((tx_a, rx_a), (tx_b, rx_b)) = (channel(), channel());
        let sender = thread::spawn(move || {
            let sent = (tx_a.try_send(Message::new(1)).is_ok(), tx_b.try_send(Message::new(2)).is_ok());
            (sent, tx_a, tx_b)
        });
        let receivers = [&rx_a];
        let mut set = receiving(&receivers);
        let event = choose_biased((set.next().wrap(|(_, got)| got), rx_b.recv()));
        let got = {
            let mut sync = pin!(event.sync());
            let mut cx = Context::from_waker(Waker::noop());
            let first = sync.as_mut().poll(&mut cx);
            if first.is_ready() { first } else { sync.as_mut().poll(&mut cx) }
        };
        let (sent, _tx_a, _tx_b) = sender.join().unwrap();
        let mut numbers = Vec::new();
        if let Poll::Ready(got) = got {
            numbers.push(got.unwrap().number());
        }
        for rx in [&rx_a, &rx_b] {
            numbers.extend(rx.try_recv().map(|message| message.number()));
        }
        numbers.sort_unstable();
        let all: Vec<u32> =
            [(sent.0, 1), (sent.1, 2)].into_iter().filter(|(sent, _)| *sent).map(|(_, n)| n).collect();
        assert_eq!(numbers, all, "each that was sent, once");
    });
}

/// INV-LOCK: two sets whose members meet on two channels, crosswise. They do not deadlock, and one message passes at
/// a time.
#[test]
fn crossing_sets_agree() {
    check(|| {
        let ((tx_a, rx_a), (tx_b, rx_b)) = (channel(), channel());
        let run = |mut set: ChoiceSet<'_, bool>| block_on(set.next()).1;
        let other = thread::spawn(move || {
            let mut set = ChoiceSet::new();
            set.insert(|| rx_a.recv().wrap(|got: Got| got.is_ok()));
            set.insert(|| tx_b.send(Message::new(2)).wrap(|sent| sent.is_ok()));
            let done = run(set);
            (done, rx_a, tx_b)
        });
        let mut set = ChoiceSet::new();
        set.insert(|| tx_a.send(Message::new(1)).wrap(|sent| sent.is_ok()));
        set.insert(|| rx_b.recv().wrap(|got: Got| got.is_ok()));
        assert!(run(set));
        assert!(other.join().unwrap().0);
    });
}
