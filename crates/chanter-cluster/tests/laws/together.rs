//! Names that survive their leader, and groups that lose a member: nobody waits for ever, and nobody is told what is not so.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::Local;
use chanter_cluster::group::{Group, GroupError, Lost};
use chanter_cluster::{NameError, Process};

fn mortal(count: u32) -> (Vec<Process>, Vec<Arc<Local>>) {
    let engines: Vec<Arc<Local>> = Local::cluster(count).into_iter().map(Arc::new).collect();
    (engines.iter().map(|engine| Process::start(Arc::clone(engine))).collect(), engines)
}

/// The leader is killed at any point while two threads want the same name and a third looks for it.
pub(super) async fn a_name_has_one_holder() {
    let (here, engines) = mortal(3);
    let killer = Arc::clone(&engines[0]);
    let killing = spawn(async move { killer.kill() });
    let wanting: Vec<_> = here[1..]
        .iter()
        .map(|here| {
            let here = here.clone();
            spawn(async move {
                let inbox = here.inbox().unwrap();
                let registered = here.register("clerk", &inbox).await;
                (inbox, registered)
            })
        })
        .collect();
    let found = here[2].find("clerk").await.unwrap();
    let mut holders = Vec::new();
    let mut refused = Vec::new();
    for wanting in wanting {
        let (inbox, registered) = wanting.join().await.unwrap();
        match registered {
            Ok(registered) => holders.push((inbox, registered)),
            Err(NameError::Taken(by)) => refused.push(by),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(holders.len(), 1, "{refused:?}");
    assert_eq!((found, refused), (holders[0].0.name(), vec![holders[0].0.name()]));
    killing.join().await.unwrap();
    assert_eq!(here[1].find("clerk").await, Ok(found), "it is known to the next keeper");
}

/// A member's process is killed at any point of two operations; the others end them, and those that fail say who it was.
pub(super) async fn a_group_ends_what_it_does() {
    const SIZE: u32 = 3;
    // The names are kept by a process that lives.
    let (here, engines) = mortal(SIZE + 1);
    let members: Vec<_> = (0..SIZE)
        .map(|rank| {
            let here = here[rank as usize + 1].clone();
            spawn(async move { Group::of(&here, "team", rank, SIZE).await.unwrap() })
        })
        .collect();
    let mut groups = Vec::new();
    for member in members {
        groups.push(member.join().await.unwrap());
    }
    let killer = Arc::clone(&engines[2]);
    let killing = spawn(async move { killer.kill() });
    let working: Vec<_> = groups
        .into_iter()
        .map(|mut group| {
            spawn(async move { [group.reduce(1, |a, b| a + b).await, group.reduce(1, |a, b| a + b).await] })
        })
        .collect();
    // The threads of the dead process wait for ever: nobody tells them anything.
    for member in [&working[0], &working[2]] {
        let [first, second] = member.join().await.unwrap();
        for sum in [first, second] {
            match sum {
                Ok(sum) => assert_eq!(sum, SIZE),
                Err(Lost { member }) => assert_eq!(member, 1),
            }
        }
        assert!(first.is_ok() || second == first, "a broken group stays so");
    }
    killing.join().await.unwrap();
}

/// A process that is killed before its member comes, at any point, is named by the others; they do not wait for it.
pub(super) async fn a_group_names_who_has_ended_before() {
    const SIZE: u32 = 3;
    let (here, engines) = mortal(SIZE);
    let killer = Arc::clone(&engines[2]);
    let killing = spawn(async move { killer.kill() });
    let members: Vec<_> = [0, 1]
        .map(|rank| {
            let here = here[rank as usize].clone();
            spawn(async move { Group::of(&here, "team", rank, SIZE).await.map(drop) })
        })
        .into();
    for member in members {
        let error = member.join().await.unwrap().unwrap_err();
        // Who has been told first takes his name along.
        assert!(matches!(&error, GroupError::Missing { gone, .. } if gone[..] == [2]), "{error}");
    }
    killing.join().await.unwrap();
}

/// Members that disagree on the size are told so, both, whoever comes first.
pub(super) async fn members_that_disagree_are_told() {
    for (other, is_near) in [(1, false), (2, false), (1, true)] {
        let (here, _engines) = mortal(2);
        let members: Vec<_> = [(0, 2, 0), (other, 3, u32::from(!is_near))]
            .map(|(rank, size, process)| {
                let here = here[process as usize].clone();
                spawn(async move { Group::of(&here, "team", rank, size).await.map(drop) })
            })
            .into();
        let mut errors = Vec::new();
        for member in members {
            errors.push(member.join().await.unwrap().unwrap_err());
        }
        let says = |rank, size| GroupError::Size { rank, size };
        assert_eq!(errors, [says(other, 3), says(0, 2)], "{other}, {is_near}");
    }
}
