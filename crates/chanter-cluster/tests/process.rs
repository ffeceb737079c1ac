//! Messages between threads of one process, by their global names.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::{ANY_TAG, ANYONE, Inbox, Process, SendError, local};

const TAG: u32 = 7;

/// Runs `body` in a process with two inboxes, once on one virtual processor and once on two.
fn with_two<F>(body: fn(Inbox, Inbox) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for vps in [1, 2] {
        let machine = Machine::builder().vps(vps).build().unwrap();
        machine.block_on(async move {
            let [here] = <[Process; 1]>::try_from(local(1)).unwrap();
            body(here.inbox().unwrap(), here.inbox().unwrap()).await;
        });
    }
}

/// Fills the window from `one` to `other`: how many messages went.
fn fill(one: &Inbox, other: &Inbox) -> u32 {
    (0_u32..).take_while(|number| one.send(other.name(), TAG, number).try_sync().is_some()).count() as u32
}

#[test]
fn a_window_is_filled_and_opened_by_receives() {
    with_two(|one, other| async move {
        assert_eq!(fill(&one, &other), 64);
        let to = other.name();
        let waits = spawn(async move {
            for number in 64..200_u32 {
                one.send(to, TAG, &number).await.unwrap();
            }
        });
        for number in 0..200 {
            assert_eq!(other.recv::<u32>(ANYONE, TAG).await.unwrap().value, number);
        }
        waits.join().await.unwrap();
        assert!(other.is_empty());
    });
}

#[test]
fn who_waits_for_room_is_told_that_the_inbox_is_closed() {
    with_two(|one, other| async move {
        fill(&one, &other);
        let to = other.name();
        let waits = spawn(async move { one.send(to, TAG, "late").await });
        yield_now().await;
        drop(other);
        assert_eq!(waits.join().await.unwrap(), Err(SendError::Gone(to)));
    });
}

#[test]
fn a_send_that_loses_leaves_no_message_and_takes_no_room() {
    with_two(|one, other| async move {
        let sent = fill(&one, &other);
        for _ in 0..3 {
            let given_up =
                choose((one.send(other.name(), TAG, &u32::MAX).wrap(|_| false), always(()).wrap(|()| true)));
            assert!(given_up.await);
        }
        for number in 0..sent {
            assert_eq!(other.recv::<u32>(ANYONE, ANY_TAG).await.unwrap().value, number);
        }
        assert!(other.is_empty());
        assert_eq!(fill(&one, &other), sent);
    });
}

/// Receives that lose give their messages back, and these take room again.
#[test]
fn a_message_that_is_given_back_takes_its_room_again() {
    with_two(|one, other| async move {
        let posted = other.irecv::<u32>(ANYONE, TAG);
        assert_eq!(fill(&one, &other), 65, "the first one is with the receive that was posted");
        drop(posted);
        assert_eq!(other.len(), 65);
        assert_eq!(other.recv::<u32>(ANYONE, TAG).await.unwrap().value, 0);
        assert!(one.send(other.name(), TAG, &65_u32).try_sync().is_none());
        assert_eq!(other.recv::<u32>(ANYONE, TAG).await.unwrap().value, 1);
        assert!(one.send(other.name(), TAG, &65_u32).try_sync().is_some());
    });
}

/// A thread that may send to itself, or receive from itself, does one of both.
#[test]
fn a_choice_between_both_ends_of_an_inbox_does_one() {
    with_two(|one, _| async move {
        for round in 0..100_u32 {
            let had = one.len();
            let sent = choose((
                one.send(one.name(), TAG, &round).wrap(|sent| sent.map(|()| true).unwrap()),
                one.recv::<u32>(ANYONE, TAG).wrap(|_| false),
            ));
            let now = if sent.await { had + 1 } else { had - 1 };
            assert_eq!(one.len(), now);
        }
    });
}

/// Many senders, on a window that is often full: each message comes once, in order by sender.
#[test]
fn a_crowd_is_received_in_order_by_sender() {
    with_two(|one, other| async move {
        let (one, to) = (Arc::new(one), other.name());
        for tag in 0..8_u32 {
            let one = Arc::clone(&one);
            spawn(async move {
                for number in 0..500_u32 {
                    one.send(to, tag, &number).await.unwrap();
                }
            });
        }
        let mut next = [0_u32; 8];
        for _ in 0..8 * 500 {
            let got = other.recv::<u32>(ANYONE, ANY_TAG).await.unwrap();
            assert_eq!(got.value, next[got.tag as usize]);
            next[got.tag as usize] += 1;
        }
        assert!(other.is_empty());
    });
}
