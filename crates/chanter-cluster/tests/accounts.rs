//! What a sender is told when a process has gone (law D2).

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::{Fault, Faults, Local, Pace, ProcessId, Reliable, Simulated, Why};
use chanter_cluster::{ANYONE, Process, Returned, SendError};

/// Two processes, and what kills the second.
fn mortal() -> (Process, Process, Arc<Local>) {
    let [first, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    (Process::start(first), Process::start(Arc::clone(&second)), second)
}

fn tags(returned: &Returned) -> (Vec<u32>, Vec<u32>) {
    let unknown = returned.unknown.iter().map(|message| message.tag);
    (unknown.collect(), returned.unsent.iter().map(|message| message.tag).collect())
}

#[chanter::test]
async fn what_is_acknowledged_was_taken_and_what_is_not_is_unknown() {
    let (first, second, killer) = mortal();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    // Half a window: then it is acknowledged.
    for tag in 0..32 {
        here.send(there.name(), tag, &tag).await.unwrap();
    }
    for tag in 0..32 {
        there.recv::<u32>(ANYONE, tag).await.unwrap();
    }
    // The acknowledgement comes before the answer.
    there.send(here.name(), 99, "all of them").await.unwrap();
    here.recv::<String>(ANYONE, 99).await.unwrap();
    for tag in 32..34 {
        here.send(there.name(), tag, &tag).await.unwrap();
    }
    killer.kill();
    let returned = here.returned(1).await;
    assert_eq!((returned.why, tags(&returned)), (Why::Died, (vec![32, 33], vec![])));
    assert_eq!(tags(&here.returned(1).await), (vec![], vec![]), "told twice");
    assert_eq!(here.send(there.name(), 34, "").await, Err(SendError::Lost(ProcessId(1), Why::Died)));
}

/// The news that an inbox is closed acknowledges, too: who only meets closed ones has no accounts that grow.
#[chanter::test]
async fn what_came_for_a_closed_inbox_was_taken() {
    let (first, second, killer) = mortal();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let to = there.name();
    drop(there);
    here.send(to, 0, "").await.unwrap();
    while second.dropped() == 0 {
        yield_now().await;
    }
    let there = second.inbox().unwrap();
    there.send(here.name(), 9, "after the news").await.unwrap();
    here.recv::<String>(ANYONE, 9).await.unwrap();
    killer.kill();
    assert_eq!(tags(&here.returned(1).await), (vec![], vec![]));
}

/// Two frames fit into the window of a link that nobody answers; what is behind them comes back.
#[chanter::test]
async fn what_was_not_sent_comes_back_whole_and_in_order() {
    let network = Simulated::cluster(2, Faults::of(&[Fault::Cut], 0));
    let [first, second] = <[_; 2]>::try_from(network).unwrap().map(Arc::new);
    let pace = Pace { window: 2, ..Pace::default() };
    first.cut(ProcessId(1));
    let first = Process::start(Reliable::over(first, pace.clone()));
    let (me, other) = (first.inbox().unwrap(), first.inbox().unwrap());
    let there = Process::start(Reliable::over(Arc::clone(&second), pace));
    let to = there.inbox().unwrap();
    for tag in 0..6 {
        let from = if tag % 2 == 0 { &me } else { &other };
        from.send(to.name(), tag, &format!("message {tag}")).await.unwrap();
    }
    second.kill();
    let returned = me.returned(1).await;
    assert_eq!(tags(&returned), (vec![0], vec![2, 4]));
    for message in &returned.unsent {
        assert_eq!((message.from, message.to), (me.name(), to.name()));
        assert_eq!(message.value(), Ok(format!("message {}", message.tag)));
        assert!(message.value::<[f64; 9]>().is_err());
    }
    assert_eq!(tags(&other.returned(1).await), (vec![1], vec![3, 5]));
}

/// An event: while the process lives it does not happen, and what is not chosen takes nothing.
#[chanter::test]
async fn accounts_that_are_not_chosen_are_kept() {
    let (first, second, killer) = mortal();
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    assert_eq!(here.returned(1).try_sync(), None);
    for nobody in [0, 7] {
        assert_eq!(here.returned(nobody).try_sync(), None);
    }
    here.send(there.name(), 3, "").await.unwrap();
    killer.kill();
    while first.down(1).is_none() {
        yield_now().await;
    }
    let won = choose_biased((always(None), here.returned(1).wrap(Some))).await;
    assert_eq!(won, None);
    assert_eq!(tags(&here.returned(1).await), (vec![3], vec![]));
}

/// Who is cut off is given up, and then what was sent there is unknown.
#[test]
fn a_peer_that_acknowledges_nothing_is_unreachable() {
    let program = || async {
        let network = Simulated::cluster(2, Faults::of(&[Fault::Cut], 0));
        let [first, second] = <[_; 2]>::try_from(network).unwrap().map(Arc::new);
        first.cut(ProcessId(1));
        let (first, second) = (Process::start(first), Process::start(second));
        let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        let begun = chanter::now();
        here.send(there.name(), 3, "").await.unwrap();
        let returned = here.returned(1).await;
        assert_eq!((returned.why, tags(&returned)), (Why::Unreachable, (vec![3], vec![])));
        assert!(chanter::now() - begun >= Pace::default().lost_after);
    };
    chanter_explore::Explorer::new()
        .random(200)
        .exhaustive()
        .preemptions(1)
        .schedules(200)
        .check(program)
        .unwrap();
}
