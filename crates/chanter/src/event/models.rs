//! Loom models of choice, nacks and wait queues.
//!
//! Choices are biased here: a model must not depend on random numbers. How to
//! run them: see `sync/models.rs`.

use std::pin::pin;
use std::task::{Poll, Waker};

use loom::sync::Arc;
use loom::thread;

use super::protocol::Group;
use super::{Event, Offer, Offered, Offering, WaitQueue, WakeList, choose_biased, never, with_nack};
use crate::channel::{Receiver, Sender, channel};
use crate::sync::Cell;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{Message, block_on, check, check_wide, needs, poll_once};
use crate::{IVar, TrySendError};

/// Receives from either channel. Yields which of the two, and the number.
fn either(first: &Receiver<Message>, second: &Receiver<Message>) -> impl Event<Output = (u32, u32)> {
    let read = |which| move |message: Result<Message, _>| (which, message.unwrap().number());
    choose_biased((first.recv().wrap(read(1)), second.recv().wrap(read(2))))
}

/// Sends its number over either channel. Yields which of the two.
fn over(first: &Sender<Message>, second: &Sender<Message>) -> impl Event<Output = u32> {
    choose_biased((
        first.send(Message::new(1)).wrap(|sent| sent.map_or(0, |()| 1)),
        second.send(Message::new(2)).wrap(|sent| sent.map_or(0, |()| 2)),
    ))
}

/// INV-ONE, INV-LOCK: a choice of receives meets a choice of sends that names the channels in the other order. They
/// do not deadlock. Both commit the same channel, and nothing is left in the other.
#[test]
fn crossing_choices_agree() {
    check(|| {
        let ((tx_a, rx_a), (tx_b, rx_b)) = (channel(), channel());
        let sender = thread::spawn(move || {
            let sent = block_on(over(&tx_b, &tx_a));
            // 1 went over b, 2 over a.
            (sent, tx_a, tx_b)
        });
        let (which, number) = block_on(either(&rx_a, &rx_b));
        let (sent, _tx_a, _tx_b) = sender.join().unwrap();
        assert_eq!(number, sent);
        assert_eq!(which, 3 - sent);
        assert!(rx_a.try_recv().is_err() && rx_b.try_recv().is_err(), "INV-ONE: one commits");
    });
}

/// INV-ONE, INV-LOCK: each of two choices sends on one channel and receives on
/// the other. Exactly one message passes.
#[test]
fn opposed_choices_match_once() {
    check(|| {
        let ((tx_a, rx_a), (tx_b, rx_b)) = (channel(), channel());
        let both = |tx: &Sender<Message>, rx: &Receiver<Message>| {
            choose_biased((
                tx.clone().into_send(Message::new(1)).wrap(|sent| u32::from(sent.is_ok())),
                rx.clone().into_recv().wrap(|message| 10 * message.unwrap().number()),
            ))
        };
        let (mine, theirs) = (both(&tx_a, &rx_b), both(&tx_b, &rx_a));
        let other = thread::spawn(move || block_on(theirs));
        let sum = block_on(mine) + other.join().unwrap();
        assert_eq!(sum, 11, "INV-ONE: one sends, the other receives");
    });
}

/// INV-ONE: two threads each choose to send or to receive on one channel. Each
/// meets the other, never itself.
#[test]
fn choices_never_match_themselves() {
    check(|| {
        let (tx, rx) = channel();
        let swap = |number| {
            choose_biased((
                tx.clone().into_send(Message::new(number)).wrap(|sent| u32::from(sent.is_err())),
                rx.clone().into_recv().wrap(|message| message.unwrap().number()),
            ))
        };
        let (mine, theirs) = (swap(1), swap(2));
        let other = thread::spawn(move || block_on(theirs));
        match (block_on(mine), other.join().unwrap()) {
            (0, 1) | (2, 0) => (),
            (mine, theirs) => panic!("INV-ONE: {mine} and {theirs}"),
        }
    });
}

/// INV-ONE: a choice against two single sends. One commits, and the other
/// sender waits for the next receive.
#[test]
fn choices_commit_one_of_two_partners() {
    check_wide(|| {
        let ((tx_a, rx_a), (tx_b, rx_b)) = (channel(), channel());
        let senders = [(tx_a.clone(), 1), (tx_b.clone(), 2)]
            .map(|(tx, number)| thread::spawn(move || block_on(tx.send(Message::new(number))).is_ok()));
        let first = block_on(either(&rx_a, &rx_b));
        let second = block_on(either(&rx_a, &rx_b));
        assert!(matches!((first, second), ((1, 1), (2, 2)) | ((2, 2), (1, 1))), "{first:?} {second:?}");
        for sender in senders {
            assert!(sender.join().unwrap());
        }
    });
}

/// INV-ONE: a choice against a single send.
#[test]
fn choices_meet_single_operations() {
    check(|| {
        let ((tx_a, rx_a), (_tx_b, rx_b)) = (channel(), channel());
        let sender = thread::spawn(move || (block_on(tx_a.send(Message::new(7))).is_ok(), tx_a));
        assert_eq!(block_on(either(&rx_a, &rx_b)), (1, 7));
        assert!(sender.join().unwrap().0);
    });
}

/// INV-LIVE, INV-LAST, and the one guarantee: a choice that waits is dropped while a partner commits one of its
/// receives. The message is at the head of the channel, or it never left its sender.
fn dropped_choice() {
    let ((tx_a, rx_a), (_tx_b, rx_b)) = (channel(), channel::<Message>());
    let sender = thread::spawn(move || (tx_a.try_send(Message::new(1)), tx_a));
    {
        let mut choice = pin!(either(&rx_a, &rx_b).sync());
        assert!(poll_once(choice.as_mut()).is_pending());
    }
    let (sent, _tx_a) = sender.join().unwrap();
    match (sent, rx_a.try_recv()) {
        (Ok(()), Ok(message)) => assert_eq!(message.number(), 1),
        (Err(TrySendError::Full(message)), Err(_)) => assert_eq!(message.number(), 1),
        (sent, received) => panic!("sent: {}, received: {}", sent.is_ok(), received.is_ok()),
    }
}

#[test]
fn dropped_choices_lose_nothing() {
    check(dropped_choice);
}

/// INV-LIVE: a choice between two things that happen once is dropped while one of them happens. The partner is done
/// with the offer before it is freed.
fn dropped_wait() {
    let (a, b) = (IVar::new(), IVar::<u32>::new());
    let writer = {
        let a = a.clone();
        thread::spawn(move || a.put(1).unwrap())
    };
    {
        let mut choice = pin!(choose_biased((b.get(), a.get())).sync());
        if let Poll::Ready(value) = poll_once(choice.as_mut()) {
            assert_eq!(value, 1);
        }
    }
    writer.join().unwrap();
}

#[test]
fn dropped_waits_are_unlinked() {
    check(dropped_wait);
}

/// INV-LIVE, without the combinators: an owner that has withdrawn, and sees its offer unlinked, may free it without
/// the queue's lock.
fn unlinked_wait() {
    let queue = Arc::new(WaitQueue::new());
    let group = Group::new();
    let offer = Offer::new();
    let waker = group.open(Waker::noop());
    let at = Offering { group: &group, leaf: 0, single: false, waker, task: None, kept: None };
    // SAFETY: neither is moved, and the offer is unlinked before it dies.
    assert_eq!(unsafe { queue.offer(&offer, &at, || false) }, Offered::Linked);
    let completer = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let mut wakes = WakeList::new();
            queue.complete_all(&mut wakes);
            wakes.queue();
        })
    };
    if group.withdraw().is_none() {
        // Loom looks for races at the lock, and this race is beside it.
        while offer.is_linked() {
            thread::yield_now();
        }
    }
    drop(offer);
    drop(group);
    completer.join().unwrap();
}

#[test]
fn unlinked_offers_may_be_freed() {
    check(unlinked_wait);
}

#[test]
fn unlink_release_is_needed() {
    needs("offer_unlink", Relaxed, unlinked_wait);
}

#[test]
fn unlink_acquire_is_needed() {
    needs("offer_observe", Relaxed, unlinked_wait);
}

/// INV-LAST: an owner that sees DONE sees the winner, and may free everything.
fn completed_wait() {
    let (a, b) = (IVar::new(), IVar::<u32>::new());
    let writer = {
        let a = a.clone();
        thread::spawn(move || a.put(1).unwrap())
    };
    assert_eq!(block_on(choose_biased((b.get(), a.get()))), 1);
    writer.join().unwrap();
}

#[test]
fn completed_waits_are_whole() {
    check(completed_wait);
}

#[test]
fn publish_release_is_needed() {
    needs("group_publish", Relaxed, completed_wait);
}

#[test]
fn observe_acquire_is_needed() {
    needs("group_observe", Relaxed, completed_wait);
}

/// A choice moves to another waker while a partner commits. The partner takes the old one or the new one, whole. If
/// it takes the old one, the owner sees the result at once.
fn renewed_choice() {
    let (a, b) = (IVar::new(), IVar::<u32>::new());
    let writer = {
        let a = a.clone();
        thread::spawn(move || a.put(1).unwrap())
    };
    let mut choice = pin!(choose_biased((b.get(), a.get())).sync());
    let value = match poll_once(choice.as_mut()) {
        Poll::Ready(value) => value,
        Poll::Pending => block_on(choice),
    };
    assert_eq!(value, 1);
    writer.join().unwrap();
}

#[test]
fn renewed_choices_are_woken() {
    check(renewed_choice);
}

#[test]
fn unclaim_release_is_needed() {
    needs("group_unclaim", Relaxed, renewed_choice);
}

#[test]
fn take_acquire_is_needed() {
    needs("group_take", Relaxed, renewed_choice);
}

/// A nack races with a thread that waits for it. That thread is told in the end. The nack of the branch that commits
/// is never enabled.
#[test]
fn nacks_reach_their_waiters() {
    check_wide(|| {
        let (tx, rx) = channel::<Message>();
        let nacks = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let (first, second) = (nacks.clone(), nacks.clone());
        let choice = choose_biased((
            with_nack(move |nack| {
                first.borrow_mut().push(nack);
                never::<u32>()
            }),
            with_nack(move |nack| {
                second.borrow_mut().push(nack);
                rx.into_recv().wrap(|message| message.unwrap().number())
            }),
        ));
        let mut choice = pin!(choice.sync());
        // The guards run.
        assert!(poll_once(choice.as_mut()).is_pending());
        let mut nacks = nacks.take().into_iter();
        let (lost, won) = (nacks.next().unwrap(), nacks.next().unwrap());
        let waiter = thread::spawn(move || block_on(lost));
        let sender = thread::spawn(move || block_on(tx.send(Message::new(1))).is_ok());
        assert_eq!(block_on(choice), 1);
        waiter.join().unwrap();
        assert!(sender.join().unwrap());
        assert!(!won.is_enabled());
    });
}

/// A cell that two threads use in turns, which loom checks.
struct Shared(Cell<u32>);

// SAFETY: the threads use the cell in turns, ordered by the nack, and loom checks every access.
unsafe impl Sync for Shared {}
// SAFETY: it holds a number, which may be sent to another thread.
unsafe impl Send for Shared {}

/// A nack is enabled when its synchronization is dropped. A thread that sees it, even without waiting, sees what came
/// before.
fn observed_nack() {
    let before = Arc::new(Shared(Cell::new(0)));
    let told = std::rc::Rc::new(std::cell::RefCell::new(None));
    let telling = told.clone();
    let event = with_nack(move |nack| {
        *telling.borrow_mut() = Some(nack);
        never::<u32>()
    });
    let mut waits = Box::pin(event.sync());
    assert!(poll_once(waits.as_mut()).is_pending());
    let nack = told.take().unwrap();
    let observer = {
        let before = Arc::clone(&before);
        thread::spawn(move || {
            while !nack.is_enabled() {
                thread::yield_now();
            }
            assert_eq!(before.0.get(), 7);
        })
    };
    before.0.set(7);
    drop(waits);
    observer.join().unwrap();
}

#[test]
fn nacks_show_what_came_before() {
    check(observed_nack);
}

#[test]
fn nack_release_is_needed() {
    needs("nack_enable", Relaxed, observed_nack);
}

#[test]
fn nack_acquire_is_needed() {
    needs("nack_observe", Relaxed, observed_nack);
}
