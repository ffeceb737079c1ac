//! The laws of delivery, under schedules of two processes and three messages with at most two preemptions (all, or the
//! first 2,000), with a process that is killed at any point; and under random schedules beyond.

#[path = "laws/blind.rs"]
mod blind;
#[path = "laws/calls.rs"]
mod calls;
#[path = "laws/history.rs"]
mod history;
#[path = "laws/network.rs"]
mod network;
#[path = "laws/ports.rs"]
mod ports;
#[path = "laws/threads.rs"]
mod threads;
#[path = "laws/together.rs"]
mod together;

use std::sync::Arc;

use calls::{a_call_that_loses_is_withdrawn, a_request_runs_at_most_once, requests_begin_in_order};
use chanter::prelude::*;
use chanter_cluster::engine::{Local, Why};
use chanter_cluster::{ANY_TAG, ANYONE, Buffer, LookupError, Process, RecvError, SendError, local};
use ports::{
    a_port_ends_after_its_last_message, a_port_ends_when_all_have_gone,
    a_sender_outlives_who_has_passed_it_on, a_team_survives_a_process, a_team_that_cannot_go_on_ends,
    senders_of_a_dead_port_are_told,
};
use threads::{
    a_monitor_is_told_last, a_spawn_that_loses_leaves_no_thread, requests_to_a_thread_are_answered_once,
    who_is_tied_to_the_dead_ends,
};
use together::{
    a_group_ends_what_it_does, a_group_names_who_has_ended_before, a_name_has_one_holder,
    members_that_disagree_are_told,
};

fn two() -> [Process; 2] {
    local(2).try_into().unwrap()
}

/// Two processes, and what kills the first.
fn mortal() -> (Process, Process, Arc<Local>) {
    let mut engines = Local::cluster(2);
    let second = engines.pop().unwrap();
    let first = Arc::new(engines.pop().unwrap());
    (Process::start(Arc::clone(&first)), Process::start(second), first)
}

/// D1: each message once, in order per thread and tag, whoever else sends.
async fn each_message_once_and_in_order() {
    let [first, second] = two();
    let there = second.inbox().unwrap();
    let to = there.name();
    let senders = [(0, 2_u32), (10, 1)].map(|(tag, count)| {
        let here = first.inbox().unwrap();
        spawn(async move {
            for value in 0..count {
                here.send(to, tag, &value).await.unwrap();
            }
            here
        })
    });
    let mut next = [0_u32, 0];
    for _ in 0..3 {
        let got = there.recv::<u32>(ANYONE, ANY_TAG).await.unwrap();
        let sender = usize::from(got.tag == 10);
        assert_eq!(got.value, next[sender], "of sender {sender}");
        next[sender] += 1;
    }
    assert_eq!(next, [2, 1]);
    for sender in senders {
        sender.join().await.unwrap();
    }
    assert!(there.is_empty());
}

/// D1, of long messages: a send that has waited for room and one that has not, to one inbox. They may leave in another order than
/// that in which they were let through; the first fills the window but for some, the second is over it.
async fn long_messages_of_two_threads_come() {
    const KIB: usize = 1 << 10;
    let [first, second] = two();
    let there = second.inbox().unwrap();
    let to = there.name();
    let here = first.inbox().unwrap();
    here.send_buffer(to, 0, Buffer::copied_from(&[0_u8; 250 * KIB])).await.unwrap();
    let senders = [(1, 100 * KIB), (2, 200 * KIB)].map(|(tag, length)| {
        let here = first.inbox().unwrap();
        spawn(async move {
            here.send_buffer(to, tag, Buffer::copied_from(&vec![0_u8; length])).await.unwrap();
            here
        })
    });
    let mut bytes = 0;
    for _ in 0..3 {
        bytes += there.recv_buffer::<u8>(ANYONE, ANY_TAG).await.unwrap().value.len();
    }
    assert_eq!(bytes, 550 * KIB);
    for sender in senders {
        sender.join().await.unwrap();
    }
    assert_eq!((there.len(), second.dropped()), (0, 0));
}

/// D3: of a process that is killed a prefix is received, and then it is known to be dead.
async fn a_prefix_and_then_the_end() {
    let (first, second, killer) = mortal();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let (from, to) = (here.name(), there.name());
    let sender = spawn(async move {
        for value in 0..3_u32 {
            // Its own process may be dead by now.
            let _ = here.send(to, 0, &value).await;
        }
        here
    });
    let killing = spawn(async move { killer.kill() });
    let mut next = 0;
    let end = loop {
        match there.recv::<u32>(from, 0).await {
            Ok(got) => {
                assert_eq!(got.value, next);
                next += 1;
            }
            Err(end) => break end,
        }
    };
    assert_eq!(end, RecvError::Lost(from.process, Why::Died));
    assert!(next <= 3);
    assert!(there.is_empty(), "what came later than the end");
    killing.join().await.unwrap();
    sender.join().await.unwrap();
}

/// D2, the sender's side: a send is on its way, or an error; after the first error there are only errors.
async fn no_send_succeeds_after_one_that_was_lost() {
    let (first, second, killer) = mortal();
    let (dying, here) = (first.inbox().unwrap(), second.inbox().unwrap());
    let to = dying.name();
    let killing = spawn(async move { killer.kill() });
    let mut is_lost = false;
    for value in 0..3_u32 {
        match here.send(to, 0, &value).await {
            Ok(()) => assert!(!is_lost),
            Err(error) => {
                assert_eq!(error, SendError::Lost(to.process, Why::Died));
                is_lost = true;
            }
        }
    }
    killing.join().await.unwrap();
    let lost = RecvError::Lost(to.process, Why::Died);
    assert_eq!(here.recv::<u32>(to, ANY_TAG).await, Err(lost));
    assert_eq!(here.send(to, 0, "late").await, Err(SendError::Lost(to.process, Why::Died)));
    drop(dying);
}

/// D4: what was not chosen is in its place; a posted receive that loses gives its message back.
async fn losers_have_no_effect() {
    let [first, second] = two();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let to = there.name();
    let (tx, rx) = channel::<u32>();
    let sender = spawn(async move {
        for value in 0..2_u32 {
            here.send(to, 0, &value).await.unwrap();
        }
        here
    });
    let near = spawn(async move { tx.send(7).await });
    let (mut far, mut close) = (Vec::new(), 0);
    while far.len() < 2 || close == 0 {
        let posted = there.irecv::<u32>(ANYONE, 0).wrap(|got| Ok(got.unwrap().value));
        let direct = there.recv::<u32>(ANYONE, 0).wrap(|got| Ok(got.unwrap().value));
        match choose((posted, rx.recv().wrap(Err), direct)).await {
            Ok(value) => far.push(value),
            Err(Ok(7)) => close += 1,
            // The channel is closed: the rest comes from afar.
            Err(_) => far.push(there.recv::<u32>(ANYONE, 0).await.unwrap().value),
        }
    }
    // The direct one may win while the posted one, which came first, has the first message.
    far.sort_unstable();
    assert_eq!((far, close), (vec![0, 1], 1));
    near.join().await.unwrap().unwrap();
    sender.join().await.unwrap();
    assert!(there.is_empty());
}

/// D5: what was meant for a thread that has gone does not reach the next one in its place; the sender is told, or not.
async fn nothing_for_the_dead_reaches_the_living() {
    let [first, second] = two();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let gone = there.name();
    let sender = spawn(async move {
        for value in 0..3_u32 {
            if let Err(error) = here.send(gone, 0, &value).await {
                assert_eq!(error, SendError::Gone(gone));
            }
        }
        here
    });
    drop(there);
    let next = second.inbox().unwrap();
    let here = sender.join().await.unwrap();
    here.send(next.name(), 1, &9_u32).await.unwrap();
    assert_eq!(next.recv::<u32>(ANYONE, ANY_TAG).await.unwrap().value, 9);
    assert!(next.is_empty());
}

/// A name is found whether it is given before or after it is asked for; or its process is dead.
async fn a_name_is_found_or_its_process_has_died() {
    let (first, second, killer) = mortal();
    let opening = spawn(async move { first.open("name").map(|inbox| (inbox.name(), inbox, first)) });
    let killing = spawn(async move { killer.kill() });
    let found = second.lookup("name@0").await;
    let (name, ..) = opening.join().await.unwrap().unwrap();
    killing.join().await.unwrap();
    assert!(found == Ok(name) || found == Err(LookupError::Lost(name.process, Why::Died)), "{found:?}");
}

macro_rules! explored {
    ($($law:ident),*) => {
        mod exhaustive { $(
            #[chanter::test(explore(strategy = "exhaustive", preemptions = 2, schedules = 2_000))]
            async fn $law() { super::$law().await }
        )* }
        mod pct { $(
            #[chanter::test(explore(strategy = "pct", depth = 3, schedules = 250))]
            async fn $law() { super::$law().await }
        )* }
        mod random { $(
            #[chanter::test(explore(strategy = "random", schedules = 250))]
            async fn $law() { super::$law().await }
        )* }
    };
}

explored!(
    each_message_once_and_in_order,
    long_messages_of_two_threads_come,
    a_prefix_and_then_the_end,
    no_send_succeeds_after_one_that_was_lost,
    losers_have_no_effect,
    nothing_for_the_dead_reaches_the_living,
    a_name_is_found_or_its_process_has_died,
    a_request_runs_at_most_once,
    a_call_that_loses_is_withdrawn,
    requests_begin_in_order,
    requests_to_a_thread_are_answered_once,
    a_spawn_that_loses_leaves_no_thread,
    a_monitor_is_told_last,
    who_is_tied_to_the_dead_ends,
    a_name_has_one_holder,
    a_port_ends_after_its_last_message,
    a_port_ends_when_all_have_gone,
    senders_of_a_dead_port_are_told
);

/// What takes longer: fewer schedules.
macro_rules! explored_less {
    ($($law:ident),*) => { mod less { $( mod $law {
        #[chanter::test(explore(strategy = "exhaustive", preemptions = 2, schedules = 400))]
        async fn exhaustive() { super::super::$law().await }

        #[chanter::test(explore(strategy = "pct", depth = 3, schedules = 125))]
        async fn pct() { super::super::$law().await }

        #[chanter::test(explore(strategy = "random", schedules = 125))]
        async fn random() { super::super::$law().await }
    } )* } };
}

explored_less!(
    a_group_ends_what_it_does,
    a_group_names_who_has_ended_before,
    members_that_disagree_are_told,
    a_sender_outlives_who_has_passed_it_on,
    a_team_survives_a_process,
    a_team_that_cannot_go_on_ends
);
