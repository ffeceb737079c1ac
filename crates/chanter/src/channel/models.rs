//! Loom models of channels: single operations, through the public interface.
//!
//! How to run them: see `sync/models.rs`. Choices are in `event/models.rs`.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_core::Stream;
use loom::thread;

use super::{Closed, SendError, TryRecvError, TrySendError, bounded, channel, mailbox};
use crate::Event;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{Message, block_on, check, check_wide, needs, poll_once};

/// INV-MATCH, INV-LAST: a message arrives once, whole, whichever side comes first. Both sides commit, and the channel
/// is freed after both are done with it.
fn rendezvous() {
    let (tx, rx) = channel();
    let sender = thread::spawn(move || block_on(tx.send(Message::new(1))).is_ok());
    assert_eq!(block_on(rx.recv()).unwrap().number(), 1);
    assert!(sender.join().unwrap());
    assert_eq!(block_on(rx.recv()).err(), Some(Closed), "its last sender has gone");
}

#[test]
fn rendezvous_delivers_once() {
    check(rendezvous);
}

#[test]
fn rendezvous_needs_publish() {
    needs("group_publish", Relaxed, rendezvous);
}

#[test]
fn rendezvous_needs_observe() {
    needs("group_observe", Relaxed, rendezvous);
}

/// INV-MATCH: each of two senders meets its receive. No message is lost, and none comes twice.
#[test]
fn two_senders_one_receiver() {
    check_wide(|| {
        let (tx, rx) = channel();
        let senders = [(tx.clone(), 1), (tx, 2)]
            .map(|(tx, number)| thread::spawn(move || block_on(tx.send(Message::new(number))).is_ok()));
        let first = block_on(rx.recv()).unwrap().number();
        let second = block_on(rx.recv()).unwrap().number();
        assert_eq!(first + second, 3);
        for sender in senders {
            assert!(sender.join().unwrap());
        }
    });
}

/// The one guarantee: a receive that waits is dropped while a message is sent. Either the send does not commit, and
/// the sender has its message, or the message is at the head of the channel.
fn dropped_receive() {
    let (tx, rx) = channel();
    let sender = thread::spawn(move || (tx.try_send(Message::new(1)), tx));
    {
        let mut receive = pin!(rx.recv().sync());
        if let Poll::Ready(message) = poll_once(receive.as_mut()) {
            panic!("nobody waits to send, and yet {:?}", message.is_ok());
        }
    }
    let (sent, _tx) = sender.join().unwrap();
    match (sent, rx.try_recv()) {
        (Ok(()), Ok(message)) => assert_eq!(message.number(), 1),
        (Err(TrySendError::Full(message)), Err(TryRecvError::Empty)) => assert_eq!(message.number(), 1),
        (sent, received) => panic!("sent: {}, received: {}", sent.is_ok(), received.is_ok()),
    }
}

#[test]
fn dropped_receives_lose_nothing() {
    check(dropped_receive);
}

/// The one guarantee, with another receiver that waits. It gets the message, whether that is sent to the first
/// receiver, which is dropped meanwhile, or to itself.
#[test]
fn dropped_receives_pass_on() {
    check(|| {
        let (tx, rx) = channel();
        let mut first = Box::pin(rx.recv().sync());
        assert!(poll_once(first.as_mut()).is_pending());
        let mut second = pin!(rx.recv().sync());
        assert!(poll_once(second.as_mut()).is_pending());
        let sender = thread::spawn(move || tx.try_send(Message::new(1)).is_ok());
        drop(first);
        assert_eq!(block_on(second).unwrap().number(), 1);
        assert!(sender.join().unwrap());
    });
}

/// A send that waits is dropped while it is received. The message arrives, or the receive waits on, until the channel
/// closes. The message is never in both places.
#[test]
fn dropped_sends_arrive_or_not() {
    check(|| {
        let (tx, rx) = channel::<Message>();
        let receiver = thread::spawn(move || block_on(rx.recv()).map(|message| message.number()));
        let sent = {
            let mut send = pin!(tx.send(Message::new(1)).sync());
            poll_once(send.as_mut())
        };
        drop(tx);
        let got = receiver.join().unwrap();
        if let Poll::Ready(sent) = sent {
            assert!(sent.is_ok() && got == Ok(1));
        } else {
            assert!(matches!(got, Ok(1) | Err(Closed)));
        }
    });
}

/// Closing races with a send and a receive. Both commit, or both fail and the sender has its message back.
#[test]
fn closing_tells_both() {
    check_wide(|| {
        let (tx, rx) = channel();
        let closer = tx.clone();
        let sender = thread::spawn(move || match block_on(tx.send(Message::new(1))) {
            Ok(()) => true,
            Err(SendError(message)) => {
                assert_eq!(message.number(), 1);
                false
            }
        });
        let receiver = thread::spawn(move || block_on(rx.recv()).map(|message| message.number()));
        closer.close();
        let sent = sender.join().unwrap();
        assert_eq!(receiver.join().unwrap().is_ok(), sent);
    });
}

/// Closing races with a send alone, which gets its message back.
#[test]
fn closing_gives_messages_back() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || block_on(tx.send(Message::new(1))));
        rx.close();
        let Err(SendError(message)) = sender.join().unwrap() else { panic!("nobody received it") };
        assert_eq!(message.number(), 1);
        assert!(rx.try_recv().is_err());
    });
}

/// INV-SIDE: the last sender is dropped while a receive waits whose receiver is gone already. The receive is told,
/// and the last of the two frees the channel with the message in it.
fn last_handle() {
    let (tx, rx) = bounded(2);
    tx.try_send(Message::new(1)).unwrap();
    let receive = rx.into_recv();
    let sender = thread::spawn(move || {
        let sent = tx.try_send(Message::new(2));
        drop(tx);
        sent.is_ok()
    });
    assert_eq!(block_on(receive).unwrap().number(), 1);
    sender.join().unwrap();
}

#[test]
fn last_handles_free_the_channel() {
    check(last_handle);
}

/// INV-SIDE: the last sender is dropped while a receive waits.
#[test]
fn last_senders_close() {
    check(|| {
        let (tx, rx) = channel::<Message>();
        let sender = thread::spawn(move || drop(tx));
        assert_eq!(block_on(rx.recv()).err(), Some(Closed));
        sender.join().unwrap();
    });
}

/// INV-MATCH: a bounded channel keeps the order, and a sender that waits for a place gets the one that is freed.
#[test]
fn bounded_refills_in_order() {
    check(|| {
        let (tx, rx) = bounded(1);
        let sender = thread::spawn(move || {
            assert!(block_on(tx.send(Message::new(1))).is_ok());
            assert!(block_on(tx.send(Message::new(2))).is_ok());
        });
        assert_eq!(block_on(rx.recv()).unwrap().number(), 1);
        assert_eq!(block_on(rx.recv()).unwrap().number(), 2);
        sender.join().unwrap();
        assert_eq!(block_on(rx.recv()).err(), Some(Closed));
    });
}

/// A stream watches instead of offering. A message that comes while it looks is seen, or wakes it, and so does the
/// end.
#[test]
fn streams_miss_nothing() {
    check(|| {
        let (tx, mut rx) = mailbox();
        let sender = thread::spawn(move || assert!(tx.try_send(Message::new(1)).is_ok()));
        let mut next = || block_on(poll_fn(|cx| Pin::new(&mut rx).poll_next(cx)));
        assert_eq!(next().map(|message| message.number()), Some(1));
        assert!(next().is_none());
        sender.join().unwrap();
    });
}

/// A single wait moves to another waker while it commits. The new one is woken, or the poll sees the result.
#[test]
fn renewed_receives_are_woken() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || block_on(tx.send(Message::new(1))).is_ok());
        let mut receive = pin!(rx.recv().sync());
        let message = match poll_once(receive.as_mut()) {
            Poll::Ready(message) => message,
            Poll::Pending => block_on(receive),
        };
        assert_eq!(message.unwrap().number(), 1);
        assert!(sender.join().unwrap());
    });
}

/// INV-LAST of an asynchronous send, which has no owner left. Its partner frees it, whichever comes first. A message
/// that nobody takes is dropped with the channel.
fn detached() {
    let (tx, rx) = channel();
    let sender = thread::spawn(move || {
        assert!(tx.asend(Message::new(1)).is_ok());
        assert!(tx.asend(Message::new(2)).is_ok());
    });
    assert_eq!(block_on(rx.recv()).unwrap().number(), 1);
    assert_eq!(block_on(rx.recv()).unwrap().number(), 2);
    sender.join().unwrap();
    assert_eq!(block_on(rx.recv()).err(), Some(Closed), "its last sender has gone");
}

#[test]
fn detached_sends_arrive_in_order() {
    check(detached);
}

/// An asynchronous send meets the end of its channel. The message comes back, or is dropped.
#[test]
fn detached_sends_end_with_their_channel() {
    check(|| {
        let (tx, rx) = channel();
        let receiver = thread::spawn(move || drop(rx));
        if let Err(SendError(message)) = tx.asend(Message::new(1)) {
            assert_eq!(message.number(), 1);
        }
        receiver.join().unwrap();
    });
}

/// INV-LAST when the receive gives up both last shares: the channel is gone before the frame of its sender.
#[test]
fn detached_sends_outlive_their_channel() {
    check(|| {
        let (tx, rx) = channel();
        let receive = rx.into_recv();
        let sender = thread::spawn(move || assert!(tx.asend(Message::new(1)).is_ok()));
        assert_eq!(block_on(receive).unwrap().number(), 1);
        sender.join().unwrap();
    });
}

/// INV-SIDE when a detached send moves into a place while the last handle is dropped.
#[test]
fn detached_sends_refill() {
    check(|| {
        let (tx, rx) = bounded(1);
        assert!(tx.asend(Message::new(1)).is_ok());
        assert!(tx.asend(Message::new(2)).is_ok());
        let sender = thread::spawn(move || drop(tx));
        assert_eq!(block_on(rx.recv()).unwrap().number(), 1);
        assert_eq!(block_on(rx.recv()).unwrap().number(), 2);
        assert_eq!(block_on(rx.recv()).err(), Some(Closed));
        sender.join().unwrap();
    });
}

/// INV-LEFT, INV-MATCH: a message is left, or met, while a receive that waits is dropped.
#[test]
fn left_messages_outlive_receives() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || {
            assert!(tx.asend(Message::new(1)).is_ok());
            tx
        });
        let first = poll_once(pin!(rx.recv().sync()));
        let _tx = sender.join().unwrap();
        let message = match first {
            Poll::Ready(message) => message.unwrap(),
            Poll::Pending => rx.try_recv().unwrap(),
        };
        assert_eq!(message.number(), 1);
        assert_eq!(rx.try_recv().err(), Some(TryRecvError::Empty));
    });
}

/// INV-LEFT, INV-SIDE: one of two receivers takes the message that the last sender has left, and both hear of the
/// end.
#[test]
fn left_messages_end_their_side() {
    check_wide(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || assert!(tx.asend(Message::new(1)).is_ok()));
        let other = thread::spawn({
            let rx = rx.clone();
            move || block_on(rx.recv()).is_ok()
        });
        assert!(block_on(rx.recv()).is_ok() != other.join().unwrap(), "one of them takes it");
        sender.join().unwrap();
        assert_eq!(block_on(rx.recv()).err(), Some(Closed));
    });
}

/// INV-LAST of events that borrow their handle, which is dropped right after them. The partner is done with the
/// channel, or keeps it alive by itself.
#[test]
fn borrowed_events_end_before_their_handle() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || block_on(tx.send(Message::new(1))).is_ok());
        assert_eq!(block_on(rx.recv()).unwrap().number(), 1);
        drop(rx);
        assert!(sender.join().unwrap());
    });
}

/// INV-SIDE: events that own the last handle of their side. Each side may end first, and one of them frees the channel.
#[test]
fn owned_events_end_with_their_handle() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || block_on(tx.into_send(Message::new(1))).is_ok());
        assert_eq!(block_on(rx.into_recv()).unwrap().number(), 1);
        assert!(sender.join().unwrap());
    });
}

/// INV-SIDE: an event that owns the last receiver is dropped while a message is sent to it. The sender has its message
/// back, or the message is dropped with the channel.
#[test]
fn dropped_owned_receives_close() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || match block_on(tx.send(Message::new(1))) {
            Ok(()) => (),
            Err(SendError(message)) => assert_eq!(message.number(), 1),
        });
        {
            let mut receive = pin!(rx.into_recv().sync());
            if let Poll::Ready(message) = poll_once(receive.as_mut()) {
                assert_eq!(message.unwrap().number(), 1);
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn dropped_borrowed_receives_lose_nothing() {
    check(|| {
        let (tx, rx) = channel();
        let sender = thread::spawn(move || (tx.try_send(Message::new(1)).is_ok(), tx));
        {
            let mut receive = pin!(rx.recv().sync());
            assert!(poll_once(receive.as_mut()).is_pending(), "nobody waits to send");
        }
        let (sent, _tx) = sender.join().unwrap();
        assert_eq!(rx.try_recv().is_ok(), sent);
    });
}
