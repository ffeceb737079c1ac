//! The collective operations of groups, by the public interface alone.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::Local;
use chanter_cluster::group::{Group, Lost};
use chanter_cluster::{Process, local};

/// Which process the member with a rank is in.
type Place = fn(u32, u32) -> u32;

const PROCESSES: u32 = 3;
/// In blocks, in turns, and each in a process of its own or all in one where there are few.
const PLACES: [Place; 3] =
    [|rank, size| rank * PROCESSES / size, |rank, _| rank % PROCESSES, |rank, _| u32::from(rank > 2)];

/// Runs `body` as each member of groups of all sizes, with all places, on one processor and on two.
fn in_groups<F: Future<Output = ()> + Send + 'static>(body: fn(Group) -> F) {
    for (vps, place) in [1, 2].into_iter().flat_map(|vps| PLACES.map(|place| (vps, place))) {
        Machine::builder().vps(vps).build().unwrap().block_on(async move {
            let here = local(PROCESSES);
            for size in 1..8 {
                let members: Vec<_> = (0..size)
                    .map(|rank| {
                        let here = here[place(rank, size) as usize].clone();
                        spawn(async move { body(Group::of(&here, "all", rank, size).await.unwrap()).await })
                    })
                    .collect();
                for member in members {
                    member.await.unwrap();
                }
            }
        });
    }
}

/// A long value now and then.
fn word(a: u32, b: u32) -> String {
    format!("{a}>{b};").repeat(if (a + b).is_multiple_of(3) { 40 } else { 1 })
}

#[test]
fn values_go_to_one_and_come_from_one() {
    in_groups(|mut group| async move {
        let (rank, size) = (group.rank(), group.size());
        for root in 0..size {
            let gathered = group.gather(root, word(rank, root)).await.unwrap();
            let all = (0..size).map(|from| word(from, root)).collect::<Vec<_>>();
            assert_eq!(gathered, (rank == root).then_some(all));
            // The values of others do not count.
            let values =
                (rank == root || rank % 2 == 0).then(|| (0..size).map(|to| word(rank, to)).collect());
            assert_eq!(group.scatter(root, values).await.unwrap(), word(root, rank));
            assert_eq!(group.broadcast(root, Some(word(rank, 7))).await.unwrap(), word(root, 7));
        }
    });
}

#[test]
fn values_go_from_all_to_all() {
    in_groups(|mut group| async move {
        let (rank, size) = (group.rank(), group.size());
        for round in 0..3 {
            let row = group.all_to_all((0..size).map(|to| word(rank, to + round)).collect()).await.unwrap();
            assert_eq!(row, (0..size).map(|from| word(from, rank + round)).collect::<Vec<_>>());
            let all = group.all_gather(word(rank, round)).await.unwrap();
            assert_eq!(all, (0..size).map(|from| word(from, round)).collect::<Vec<_>>());
            // Not commutative.
            let total = group.scan(word(rank, round), |a, b| a + &b).await.unwrap();
            assert_eq!(total, (0..=rank).map(|from| word(from, round)).collect::<String>());
        }
    });
}

#[test]
fn a_group_splits_into_groups() {
    in_groups(|mut group| async move {
        let (rank, size) = (group.rank(), group.size());
        // Downwards, and the first member is in none.
        let part = group.split((rank > 0).then_some(rank % 2), size - rank).await.unwrap();
        let expected: Vec<u32> = (1..size).rev().filter(|other| other % 2 == rank % 2).collect();
        match part {
            None => assert_eq!(rank, 0),
            Some(mut part) => {
                assert_eq!((part.size() as usize, expected[part.rank() as usize]), (expected.len(), rank));
                assert_eq!(part.all_gather(rank).await.unwrap(), expected);
                // And again, while the larger ones go on.
                let mut alone = part.split(Some(rank), 0).await.unwrap().unwrap();
                assert_eq!(alone.reduce(5, |a, b| a + b).await, Ok(5));
            }
        }
        assert_eq!(group.all_gather(rank).await.unwrap(), (0..size).collect::<Vec<_>>());
    });
}

/// The root of a broadcast does not wait. When it leaves, hundreds of messages are on their way, and all of them come.
#[test]
fn a_root_that_leaves_loses_nothing() {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            const SIZE: u32 = 5;
            const ROUNDS: u32 = 500;
            let here = local(SIZE);
            let members: Vec<_> = (0..SIZE)
                .map(|rank| {
                    let here = here[rank as usize].clone();
                    spawn(async move {
                        let mut group = Group::of(&here, "news", rank, SIZE).await.unwrap();
                        for round in 0..ROUNDS {
                            let news = (rank == 3).then(|| word(round, rank));
                            assert_eq!(group.broadcast(3, news).await, Ok(word(round, 3)));
                            if rank == 0 && round % 100 == 0 {
                                yield_now().await;
                            }
                        }
                        if rank != 3 {
                            assert_eq!(group.broadcast::<String>(3, None).await, Err(Lost { member: 3 }));
                            assert_eq!(group.scan(1, |a, b| a + b).await, Err(Lost { member: 3 }));
                        }
                    })
                })
                .collect();
            for member in members {
                member.await.unwrap();
            }
        });
    }
}

/// Only the root waits for the others, which leave at once. Each is a member until all have found it.
#[test]
fn a_member_that_leaves_soon_is_found_by_all() {
    const SIZE: u32 = 3;
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            let here = local(SIZE);
            for round in 0..200 {
                let members: Vec<_> = (0..SIZE)
                    .map(|rank| {
                        let here = here[rank as usize].clone();
                        spawn(async move {
                            let mut group = Group::of(&here, "short", rank, SIZE).await.unwrap();
                            group.gather(0, word(round, rank)).await.unwrap()
                        })
                    })
                    .collect();
                for (rank, member) in (0..).zip(members) {
                    let all = (0..SIZE).map(|rank| word(round, rank)).collect();
                    assert_eq!(member.await.unwrap(), (rank == 0).then_some(all));
                }
            }
        });
    }
}

/// A member dies or leaves. Nobody waits for ever, and all know it in the end.
#[test]
fn nobody_waits_for_a_member_that_has_gone() {
    const SIZE: u32 = 5;
    async fn operate(group: &mut Group, which: u32) -> Result<(), Lost> {
        let (rank, size) = (group.rank(), group.size());
        match which {
            0 => group.gather(2, rank).await.map(drop),
            1 => group.scatter(2, Some(vec![rank; size as usize])).await.map(drop),
            2 => group.all_to_all(vec![word(rank, 0); size as usize]).await.map(drop),
            3 => group.scan(rank, |a, b| a + b).await.map(drop),
            4 => group.broadcast(2, Some(rank)).await.map(drop),
            _ => group.all_gather(rank).await.map(drop),
        }
    }
    for (which, gone, dies) in
        (0..6).flat_map(|which| (0..SIZE).flat_map(move |v| [(which, v, false), (which, v, true)]))
    {
        Machine::builder().vps(2).build().unwrap().block_on(async move {
            // Each member has a process, and the names are kept by another one.
            let engines: Vec<Arc<Local>> = Local::cluster(SIZE + 1).into_iter().map(Arc::new).collect();
            let here: Vec<Process> =
                engines.iter().map(|engine| Process::start(Arc::clone(engine))).collect();
            let members: Vec<_> = (0..SIZE)
                .map(|rank| {
                    let here = here[rank as usize + 1].clone();
                    let engine = Arc::clone(&engines[rank as usize + 1]);
                    spawn(async move {
                        let mut group = Group::of(&here, "mortal", rank, SIZE).await.unwrap();
                        operate(&mut group, which).await.unwrap();
                        group.barrier().await.unwrap();
                        if rank == gone {
                            if dies {
                                engine.kill();
                            }
                            return;
                        }
                        // In some operations a member does not depend on that one.
                        while operate(&mut group, which).await.is_ok() {}
                        assert_eq!(group.barrier().await, Err(Lost { member: gone }));
                    })
                })
                .collect();
            for member in members {
                member.await.unwrap();
            }
        });
    }
}

#[test]
fn wrong_numbers_of_values_are_refused() {
    Machine::builder().vps(1).build().unwrap().block_on(async {
        let here = local(1);
        for what in 0..4 {
            let here = here[0].clone();
            let failed = spawn(async move {
                let mut group = Group::of(&here, "one", 0, 1).await.unwrap();
                match what {
                    0 => drop(group.all_to_all(vec![1, 2]).await),
                    1 => drop(group.scatter::<u32>(0, Some(vec![])).await),
                    2 => drop(group.gather(1, 0).await),
                    _ => drop(group.broadcast::<u32>(0, None).await),
                }
            });
            assert!(failed.join().await.is_err(), "{what}");
        }
    });
}
