//! Messages between processes, by the public interface alone.

use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::engine::{Local, Why};
use chanter_cluster::{
    ANY_TAG, ANYONE, Inbox, LookupError, OpenError, Process, RecvError, SendError, Undecoded, local, testany,
    waitall,
};

const TAG: u32 = 7;
const OTHER: u32 = 8;

/// Runs `body` in a cluster of two processes, each with an inbox, once on one virtual processor and once on two.
fn with_two<F, R>(body: fn(Process, Process) -> F) -> Vec<R>
where
    F: Future<Output = R> + Send + 'static,
    R: Send + 'static,
{
    let on = |vps| {
        let machine = Machine::builder().vps(vps).build().unwrap();
        machine.block_on(async move {
            let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
            body(first, second).await
        })
    };
    vec![on(1), on(2)]
}

fn inboxes(first: &Process, second: &Process) -> (Inbox, Inbox) {
    (first.inbox().unwrap(), second.inbox().unwrap())
}

#[test]
fn values_come_whole_in_order_and_know_who_has_sent_them() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let to = there.name();
        let from = here.name();
        let sender = spawn(async move {
            for number in 0..1000_u64 {
                here.send(to, TAG, &(number, vec![number; 3], Some("text"))).await.unwrap();
            }
        });
        for number in 0..1000_u64 {
            let got = there.recv::<(u64, Vec<u64>, Option<String>)>(ANYONE, TAG).await.unwrap();
            assert_eq!((got.from, got.tag), (from, TAG));
            assert_eq!(got.value, (number, vec![number; 3], Some("text".to_owned())));
        }
        sender.join().await.unwrap();
    });
}

#[test]
fn a_thread_of_this_process_is_reached_by_its_global_name_too() {
    with_two(|first, _second| async move {
        let (here, same) = (first.inbox().unwrap(), first.inbox().unwrap());
        here.send(same.name(), TAG, "near").await.unwrap();
        assert_eq!(same.recv::<String>(here.name(), TAG).await.unwrap().value, "near");
        here.send(here.name(), TAG, "to myself").await.unwrap();
        assert_eq!(here.recv::<String>(here.name(), ANY_TAG).await.unwrap().value, "to myself");
    });
}

#[test]
fn a_receive_takes_the_oldest_that_it_wants_and_leaves_the_rest() {
    with_two(|first, second| async move {
        let (a, there) = inboxes(&first, &second);
        let b = first.inbox().unwrap();
        for (inbox, tag, value) in [(&a, TAG, 1), (&b, OTHER, 2), (&a, OTHER, 3), (&b, TAG, 4)] {
            inbox.send(there.name(), tag, &value).await.unwrap();
        }
        assert_eq!(there.recv::<i32>(ANYONE, OTHER).await.unwrap().value, 2);
        assert_eq!(there.recv::<i32>(b.name(), ANY_TAG).await.unwrap().value, 4);
        assert_eq!(there.recv::<i32>(a.name(), OTHER).await.unwrap().value, 3);
        assert_eq!(there.recv::<i32>(ANYONE, ANY_TAG).await.unwrap().value, 1);
        assert!(there.is_empty());
    });
}

#[test]
fn receives_that_wait_are_served_in_the_order_in_which_they_were_posted() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let mut receives = vec![
            there.irecv::<u32>(ANYONE, ANY_TAG),
            there.irecv(here.name(), TAG),
            there.irecv(ANYONE, OTHER),
            there.irecv(here.name(), ANY_TAG),
        ];
        for (tag, value) in [(TAG, 0_u32), (TAG, 1), (TAG, 2), (OTHER, 3)] {
            here.send(there.name(), tag, &value).await.unwrap();
        }
        let last = receives.pop().unwrap().await.unwrap();
        assert_eq!(last.value, 2, "the third wants another tag");
        let got = waitall(receives).await.unwrap();
        let got: Vec<_> = got.into_iter().map(|(at, got)| (at, got.value)).collect();
        assert_eq!(got, [(0, 0), (1, 1), (2, 3)]);
    });
}

#[test]
fn a_message_that_was_not_chosen_is_in_its_place() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let (tx, rx) = channel::<u32>();
        for round in 0..100 {
            here.send(there.name(), TAG, &round).await.unwrap();
            let sender = spawn({
                let tx = tx.clone();
                async move { tx.send(round).await }
            });
            let mut seen = (false, false);
            while seen != (true, true) {
                let from_far = there.recv::<u32>(ANYONE, TAG).wrap(|got| (got.unwrap().value, true));
                let (value, is_far) = choose((from_far, rx.recv().wrap(|got| (got.unwrap(), false)))).await;
                assert_eq!(value, round);
                if is_far { seen.0 = true } else { seen.1 = true }
            }
            sender.join().await.unwrap().unwrap();
        }
        assert!(there.is_empty());
    });
}

#[test]
fn a_posted_receive_that_is_dropped_gives_its_message_back() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let early = there.irecv::<u32>(ANYONE, TAG);
        let never = there.irecv::<u32>(ANYONE, OTHER);
        for value in 0..3_u32 {
            here.send(there.name(), TAG, &value).await.unwrap();
        }
        while !early.is_done() {
            yield_now().await;
        }
        drop((early, never));
        here.send(there.name(), OTHER, &9_u32).await.unwrap();
        for value in 0..3 {
            assert_eq!(there.recv::<u32>(ANYONE, TAG).await.unwrap().value, value);
        }
        assert_eq!(there.recv::<u32>(ANYONE, OTHER).await.unwrap().value, 9);
    });
}

#[test]
fn posted_receives_are_tested_without_waiting() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let mut receives = [there.irecv::<u32>(here.name(), TAG), there.irecv(here.name(), OTHER)];
        assert_eq!(testany(&mut receives).unwrap(), None);
        here.send(there.name(), OTHER, &5_u32).await.unwrap();
        let (at, got) = loop {
            if let Some(found) = testany(&mut receives).unwrap() {
                break found;
            }
            yield_now().await;
        };
        assert_eq!((at, got.value), (1, 5));
        assert_eq!(testany(&mut receives).unwrap(), None);
        here.send(there.name(), TAG, &6_u32).await.unwrap();
        let rest = waitall(receives).await.unwrap();
        assert_eq!(rest.iter().map(|(at, got)| (*at, got.value)).collect::<Vec<_>>(), [(0, 6)]);
    });
}

#[test]
fn names_are_found_before_and_after_they_are_given() {
    with_two(|first, second| async move {
        let early = spawn({
            let second = second.clone();
            async move { second.lookup("late@0").await.unwrap() }
        });
        let late = first.open("late").unwrap();
        assert_eq!(early.join().await.unwrap(), late.name());
        assert_eq!(second.lookup("late@0").await.unwrap(), late.name());
        assert_eq!(first.lookup("late").await.unwrap(), late.name());
        assert_eq!(first.open("late").unwrap_err(), OpenError::Taken("late".to_owned()));
        let name = late.name();
        drop(late);
        let again = first.open("late").unwrap();
        assert_ne!(again.name(), name);
        assert_eq!(second.lookup("late@0").await.unwrap(), again.name());
    });
}

#[test]
fn bad_names_are_refused() {
    with_two(|first, _second| async move {
        for bad in ["", "a@0", &"x".repeat(256)] {
            assert_eq!(first.open(bad).unwrap_err(), OpenError::Bad(bad.to_owned()));
        }
        for bad in ["", "@0", "a@", "a@b", "a@-1"] {
            assert_eq!(first.lookup(bad).await, Err(LookupError::Bad(bad.to_owned())));
        }
        let none = chanter_cluster::engine::ProcessId(2);
        assert_eq!(first.lookup("a@2").await, Err(LookupError::NoSuchProcess(none)));
    });
}

#[test]
fn a_lookup_that_loses_waits_no_longer() {
    with_two(|first, second| async move {
        let never = second.lookup("nobody@0").wrap(|_| false);
        assert!(choose((never, after(Duration::from_millis(1)).wrap(|()| true))).await);
        let _ = first.open("nobody").unwrap();
    });
}

#[test]
fn what_is_sent_to_a_closed_inbox_reaches_nobody_and_is_an_error() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let name = there.name();
        here.send(name, TAG, "unread").await.unwrap();
        drop(there);
        // Its place has a new owner.
        let next = second.inbox().unwrap();
        assert_eq!(next.name().thread.index, name.thread.index);
        // The process learns of it by the answer to one of the first messages.
        let error = loop {
            match here.send(name, TAG, "late").await {
                Ok(()) => yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(error, SendError::Gone(name));
        assert!(next.is_empty());
        let near = first.inbox().unwrap().name();
        assert_eq!(here.send(near, TAG, "late").await, Err(SendError::Gone(near)));
    });
}

#[test]
fn a_flood_waits_at_its_sender() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let to = there.name();
        let mut sent = 0_u32;
        while here.send(to, TAG, &sent).try_sync().is_some() {
            sent += 1;
        }
        assert_eq!(sent, 64);
        let waiting = spawn(async move { here.send(to, TAG, &sent).await });
        for value in 0..=sent {
            assert_eq!(there.recv::<u32>(ANYONE, TAG).await.unwrap().value, value);
        }
        waiting.join().await.unwrap().unwrap();
    });
}

#[test]
fn long_messages_are_counted_by_their_bytes_and_the_longest_go_alone() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        let to = there.name();
        let half = "x".repeat(120 * 1024);
        assert_eq!(here.send(to, TAG, &half).try_sync(), Some(Ok(())));
        assert_eq!(here.send(to, TAG, &half).try_sync(), Some(Ok(())));
        assert_eq!(here.send(to, TAG, &half).try_sync(), None);
        let long = "y".repeat(16 << 20);
        let sender = spawn(async move {
            here.send(to, TAG, &long).await.unwrap();
            here.send(to, TAG, "short").await.unwrap();
        });
        for length in [120 * 1024, 120 * 1024, 16 << 20, 5] {
            assert_eq!(there.recv::<String>(ANYONE, TAG).await.unwrap().value.len(), length);
        }
        sender.join().await.unwrap();
    });
}

#[test]
fn a_message_of_another_type_is_an_error_that_has_its_bytes() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        here.send(there.name(), TAG, &[1_u8, 200]).await.unwrap();
        let error = there.recv::<String>(ANYONE, TAG).await.unwrap_err();
        let RecvError::Decode(undecoded) = error else { panic!("{error}") };
        let Undecoded { from, tag, bytes, .. } = *undecoded;
        assert_eq!((from, tag, &bytes[..]), (here.name(), TAG, &[1, 200][..]));
        here.send(there.name(), TAG, "next").await.unwrap();
        assert_eq!(there.recv::<String>(ANYONE, TAG).await.unwrap().value, "next");
    });
}

#[test]
fn a_value_that_cannot_be_written_is_an_error_of_its_send() {
    struct Refuses;
    impl serde::Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        assert!(matches!(here.send(there.name(), TAG, &Refuses).await, Err(SendError::Encode(_))));
        assert!(there.is_empty());
    });
}

/// Two processes, the first of which is killed by hand.
async fn with_a_killer() -> (Process, Process, std::sync::Arc<Local>) {
    let mut engines = Local::cluster(2);
    let second = engines.pop().unwrap();
    let first = std::sync::Arc::new(engines.pop().unwrap());
    (Process::start(std::sync::Arc::clone(&first)), Process::start(second), first)
}

#[test]
fn what_a_process_had_sent_is_received_before_its_death_is_known() {
    let machine = Machine::builder().vps(2).build().unwrap();
    machine.block_on(async {
        let (first, second, killer) = with_a_killer().await;
        let (here, there) = inboxes(&first, &second);
        let name = here.name();
        for value in 0..3_u32 {
            here.send(there.name(), TAG, &value).await.unwrap();
        }
        killer.kill();
        for value in 0..3 {
            assert_eq!(there.recv::<u32>(name, TAG).await.unwrap().value, value);
        }
        let lost = RecvError::Lost(name.process, Why::Died);
        assert_eq!(there.recv::<u32>(name, TAG).await, Err(lost.clone()));
        assert_eq!(there.irecv::<u32>(name, ANY_TAG).await, Err(lost));
        assert_eq!(second.down(0), Some(Why::Died));
        assert_eq!(there.send(name, TAG, "late").await, Err(SendError::Lost(name.process, Why::Died)));
        assert_eq!(second.lookup("a@0").await, Err(LookupError::Lost(name.process, Why::Died)));
    });
}

#[test]
fn whoever_waits_for_a_process_is_told_that_it_has_gone() {
    let machine = Machine::builder().vps(2).build().unwrap();
    machine.block_on(async {
        let (first, second, killer) = with_a_killer().await;
        let (here, there) = inboxes(&first, &second);
        let (name, to) = (here.name(), there.name());
        while there.send(name, TAG, "flood").try_sync().is_some() {}
        let there = std::sync::Arc::new(there);
        let sends = spawn({
            let there = there.clone();
            async move { there.send(name, TAG, "one more").await }
        });
        let receives = spawn({
            let there = there.clone();
            async move { there.recv::<u32>(name, TAG).await }
        });
        let posted = there.irecv::<u32>(name, OTHER);
        let looks = spawn({
            let second = second.clone();
            async move { second.lookup("nobody@0").await }
        });
        killer.kill();
        let peer = name.process;
        assert_eq!(sends.join().await.unwrap(), Err(SendError::Lost(peer, Why::Died)));
        assert_eq!(receives.join().await.unwrap(), Err(RecvError::Lost(peer, Why::Died)));
        assert_eq!(posted.await, Err(RecvError::Lost(peer, Why::Died)));
        assert_eq!(looks.join().await.unwrap(), Err(LookupError::Lost(peer, Why::Died)));
        assert_eq!(to.process.0, 1);
    });
}

#[test]
fn who_leaves_has_sent_all_that_he_had_to_send() {
    with_two(|first, second| async move {
        let (here, there) = inboxes(&first, &second);
        for value in 0..50_u32 {
            here.send(there.name(), TAG, &value).await.unwrap();
        }
        first.leave().await;
        for value in 0..50 {
            assert_eq!(there.recv::<u32>(here.name(), TAG).await.unwrap().value, value);
        }
        let lost = RecvError::Lost(here.name().process, Why::Left);
        assert_eq!(there.recv::<u32>(here.name(), TAG).await, Err(lost));
    });
}
