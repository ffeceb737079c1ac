//! Events that own their handle: `into_send` and `into_recv`. (Their rows in the table of guarantees are `recv_owned`
//! and `send_owned`.)

use crate::common;

use std::task::Poll;

use chanter::prelude::*;
use chanter::{TryRecvError, TrySendError};
use common::{machine, poll, watchdog};

fn is_static<E: Event + Send + 'static>(event: E) -> E {
    event
}

/// A function that returns a borrowing event needs no lifetimes.
fn next(rx: &Receiver<u8>) -> impl Event<Output = Option<u8>> {
    rx.recv().wrap(Result::ok)
}

#[test]
fn functions_return_events_that_borrow() {
    let (tx, rx) = mailbox();
    tx.try_send(1).unwrap();
    assert_eq!(choose((next(&rx), never())).sync_blocking(), Some(1));
    drop(tx);
    assert_eq!(next(&rx).sync_blocking(), None);
}

#[test]
fn owned_events_are_spawned_and_stored() {
    watchdog!();
    machine(2).block_on(async {
        let (tx, rx) = channel();
        let senders: Vec<_> = (0..4_u64).map(|n| spawn(is_static(tx.clone().into_send(n)))).collect();
        let stored = vec![is_static(tx.into_send(4))];
        stored.into_iter().for_each(spawn_parasite);
        let mut sum = 0;
        for _ in 0..5 {
            sum += spawn(is_static(rx.clone().into_recv())).await.unwrap().unwrap();
        }
        assert_eq!(sum, 10);
        for sender in senders {
            sender.await.unwrap().unwrap();
        }
        assert_eq!(spawn(rx.into_recv()).await.unwrap(), Err(Closed));
    });
}

#[test]
fn an_owned_event_keeps_its_side_open() {
    let (tx, rx) = channel::<u8>();
    let (send, receive) = (is_static(tx.into_send(1)), is_static(rx.into_recv()));
    let both = std::thread::spawn(move || send.sync_blocking());
    assert_eq!(receive.sync_blocking(), Ok(1));
    assert_eq!(both.join().unwrap(), Ok(()));
}

/// Undecided events, in each state in which they can be dropped: new, waiting, and lost.
#[test]
fn a_dropped_event_drops_its_handle() {
    for state in 0..4 {
        let (tx, rx) = channel::<u8>();
        let event = rx.into_recv();
        assert!(!tx.is_closed());
        match state {
            0 => drop(event),
            1 => drop(event.sync()),
            2 => {
                let mut waits = Box::pin(event.sync());
                assert!(poll(&mut waits).is_pending());
                assert!(!tx.is_closed());
            }
            _ => assert_eq!(choose_biased((event.wrap(drop), always(()))).sync_blocking(), ()),
        }
        assert!(tx.is_closed());
        assert_eq!(tx.try_send(1), Err(TrySendError::Closed(1)));

        let (tx, rx) = channel::<u8>();
        let event = tx.into_send(1);
        match state {
            0 => drop(event),
            1 => drop(event.sync()),
            2 => {
                let mut waits = Box::pin(event.sync());
                assert!(poll(&mut waits).is_pending());
            }
            _ => assert_eq!(choose_biased((event.wrap(drop), always(()))).sync_blocking(), ()),
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    }
}

/// A partner that waits is told.
#[test]
fn a_partner_that_waits_sees_the_close() {
    watchdog!();
    let (tx, rx) = channel::<u8>();
    let event = rx.into_recv();
    let mut sends = Box::pin(tx.send(1).sync());
    assert!(poll(&mut sends).is_pending());
    drop(event);
    assert_eq!(poll(&mut sends), Poll::Ready(Err(SendError(1))));

    let (tx, rx) = channel::<u8>();
    let event = tx.into_send(1);
    let mut receives = Box::pin(choose((rx.recv(), rx.recv())).sync());
    assert!(poll(&mut receives).is_pending());
    drop(event);
    assert_eq!(poll(&mut receives), Poll::Ready(Err(Closed)));
}

/// The handle is gone when the event has committed, though the future is still there.
#[test]
fn a_committed_event_has_no_handle() {
    let (tx, rx) = bounded(2);
    let mut sent = Box::pin(tx.into_send(1_u8).sync());
    assert_eq!(poll(&mut sent), Poll::Ready(Ok(())));
    assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Err(TryRecvError::Closed)));

    let (tx, rx) = bounded(2);
    tx.try_send(1).unwrap();
    let mut received = Box::pin(rx.into_recv().sync());
    assert_eq!(poll(&mut received), Poll::Ready(Ok(1)));
    assert!(tx.is_closed());
}

#[test]
fn a_clone_has_a_handle_of_its_own() {
    let (tx, rx) = mailbox();
    let event = tx.into_send(1);
    assert_eq!(event.clone().sync_blocking(), Ok(()));
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "the first event has a sender");
    drop(event);
    let receive = rx.into_recv();
    assert_eq!(receive.clone().sync_blocking(), Err(Closed));
    drop(receive);
}
