//! Names of the whole cluster, ports and groups, by the public interface alone.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::{Local, ProcessId, Why};
use chanter_cluster::group::{Group, GroupError, Lost};
use chanter_cluster::port::{PortSender, Unsent};
use chanter_cluster::{ANYONE, NameError, Process, SendError, local};

fn on_machines<F: Future<Output = ()> + Send + 'static>(body: fn() -> F) {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async move { body().await });
    }
}

fn mortal(count: u32) -> (Vec<Process>, Vec<Arc<Local>>) {
    let engines: Vec<Arc<Local>> = Local::cluster(count).into_iter().map(Arc::new).collect();
    (engines.iter().map(|engine| Process::start(Arc::clone(engine))).collect(), engines)
}

#[test]
fn a_name_is_one_threads_in_the_whole_cluster() {
    on_machines(|| async {
        let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
        let finding = spawn({
            let first = first.clone();
            async move { first.find("clerk").await }
        });
        let clerk = second.inbox().unwrap();
        let registered = second.register("clerk", &clerk).await.unwrap();
        assert_eq!(finding.await.unwrap(), Ok(clerk.name()), "who asked early is told later");
        let other = first.inbox().unwrap();
        let taken = NameError::Taken(clerk.name());
        assert_eq!(first.register("clerk", &other).await.unwrap_err(), taken);
        assert_eq!(second.register("clerk", &clerk).await.unwrap_err(), taken);
        drop(registered);
        let _registered = first.register("clerk", &other).await.unwrap();
        assert_eq!(second.find("clerk").await, Ok(other.name()));
        for bad in ["", &"x".repeat(256)] {
            assert_eq!(first.find(bad).await, Err(NameError::Bad(bad.to_owned())));
            assert!(matches!(first.register(bad, &other).await, Err(NameError::Bad(_))));
        }
        assert_eq!(choose_biased((first.find("nobody").wrap(Some), always(None))).await, None);
    });
}

/// The leader dies, and the next one, and each time the names are known still.
#[test]
fn names_survive_their_keepers() {
    on_machines(|| async {
        let (here, engines) = mortal(4);
        let inboxes: Vec<_> = here.iter().map(|here| here.inbox().unwrap()).collect();
        let mut names = Vec::new();
        for (at, (here, inbox)) in here.iter().zip(&inboxes).enumerate() {
            names.push(here.register(&format!("name {at}"), inbox).await.unwrap());
        }
        let early = spawn({
            let last = here[3].clone();
            async move { last.find("later").await }
        });
        for (dead, engine) in engines.iter().enumerate().take(2) {
            engine.kill();
            for (at, inbox) in inboxes.iter().enumerate().skip(dead + 1) {
                assert_eq!(here[3].find(&format!("name {at}")).await, Ok(inbox.name()));
                let other = here[3].inbox().unwrap();
                let error = here[3].register(&format!("name {at}"), &other).await.unwrap_err();
                assert_eq!(error, NameError::Taken(inbox.name()));
            }
        }
        // What the dead had is free.
        let again = here[3].register("name 0", &inboxes[3]).await.unwrap();
        assert_eq!(here[2].find("name 0").await, Ok(inboxes[3].name()));
        let later = here[2].register("later", &inboxes[2]).await.unwrap();
        assert_eq!(early.await.unwrap(), Ok(inboxes[2].name()));
        drop((again, later));
    });
}

#[test]
fn a_port_receives_from_all_who_have_its_sender() {
    on_machines(|| async {
        let here = local(3);
        let port = here[0].port::<(u32, u32)>().unwrap();
        // Senders are values.
        let me = here[1].inbox().unwrap();
        let there = here[2].inbox().unwrap();
        me.send(there.name(), 5, &port.sender()).await.unwrap();
        let sender: PortSender<(u32, u32)> = there.recv(ANYONE, 5).await.unwrap().value;
        assert_eq!(sender, port.sender());
        let senders: Vec<_> = (0..3)
            .map(|process| {
                let outlet = here[process as usize].connect(sender.clone()).unwrap();
                spawn(async move {
                    for n in 0..300 {
                        outlet.send((process, n)).await.unwrap();
                    }
                    outlet
                })
            })
            .collect();
        let mut next = [0; 3];
        for _ in 0..900 {
            let (process, n) = port.recv().await.unwrap();
            assert_eq!(n, next[process as usize], "of process {process}");
            next[process as usize] += 1;
        }
        assert!(port.is_empty());
        let home = port.sender();
        drop(port);
        for sender in senders {
            let outlet = sender.await.unwrap();
            // The news may be on its way.
            let closed = loop {
                match outlet.send((7, 7)).await {
                    Ok(()) => yield_now().await,
                    Err(closed) => break closed,
                }
            };
            assert_eq!(closed.message, (7, 7), "it comes back");
            assert!(matches!(closed.why, SendError::Gone(_)), "{closed}");
        }
        let _ = home;
    });
}

/// A full port: a send waits for a credit, and one that loses has taken none.
#[test]
fn a_send_to_a_port_takes_part_in_choices() {
    on_machines(|| async {
        let (here, engines) = mortal(2);
        let port = here[1].port::<u32>().unwrap();
        let outlet = here[0].connect(port.sender()).unwrap();
        let mut sent = 0;
        while choose_biased((outlet.send(sent).wrap(|sent| sent.is_ok()), always(false))).await {
            sent += 1;
        }
        assert_eq!(sent, 64, "as many as there are credits");
        for n in 0..64 {
            assert_eq!(port.recv().await, Ok(n));
        }
        outlet.send(64).await.unwrap();
        assert_eq!(port.recv().await, Ok(64), "what lost is not there");
        engines[1].kill();
        assert_eq!(outlet.returned().await.why, Why::Died);
        let lost = Unsent { message: 9, why: SendError::Lost(ProcessId(1), Why::Died) };
        assert_eq!(outlet.send(9).await, Err(lost));
    });
}

#[test]
fn a_group_does_everything_together() {
    on_machines(|| async {
        const SIZE: u32 = 13;
        let here = local(3);
        let entered = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let members: Vec<_> = (0..SIZE)
            .map(|rank| {
                let (here, entered) = (here[rank as usize * 3 / SIZE as usize].clone(), Arc::clone(&entered));
                spawn(async move {
                    use std::sync::atomic::Ordering::SeqCst;
                    let mut group = Group::of(&here, "thirteen", rank, SIZE).await.unwrap();
                    assert_eq!((group.rank(), group.size()), (rank, SIZE));
                    for round in 1..=10 {
                        entered.fetch_add(1, SeqCst);
                        group.barrier().await.unwrap();
                        assert!(entered.load(SeqCst) >= round * SIZE, "somebody was not there");
                        group.barrier().await.unwrap();
                        // Words are not commutative.
                        let words = group.reduce(format!("{rank} "), |a, b| a + &b).await.unwrap();
                        assert_eq!(words, (0..SIZE).map(|rank| format!("{rank} ")).collect::<String>());
                        let root = round % SIZE;
                        let said = (rank == root).then_some(round * 100);
                        assert_eq!(group.broadcast(root, said).await, Ok(round * 100));
                    }
                })
            })
            .collect();
        for member in members {
            member.await.unwrap();
        }
        let error = Group::of(&here[0], "x", 2, 2).await.unwrap_err();
        assert_eq!(error, GroupError::NoSuchRank { rank: 2, size: 2 });
        let alone = Group::of(&here[0], "x", 0, 1).await.unwrap().reduce(7, |a, b| a + b).await;
        assert_eq!(alone, Ok(7));
    });
}

/// Whoever is there no more, by whatever way and wherever in the tree: all others know it, in this operation or the next.
#[test]
fn a_group_without_a_member_does_nothing() {
    on_machines(|| async {
        const SIZE: u32 = 6;
        for (victim, dies) in (0..SIZE).flat_map(|victim| [(victim, false), (victim, true)]) {
            // Each member has a process, and the names are kept by another one.
            let (here, engines) = mortal(SIZE + 1);
            let members: Vec<_> = (0..SIZE)
                .map(|rank| {
                    let here = here[rank as usize + 1].clone();
                    let engine = Arc::clone(&engines[rank as usize + 1]);
                    spawn(async move {
                        let mut group = Group::of(&here, "six", rank, SIZE).await.unwrap();
                        group.barrier().await.unwrap();
                        if rank == victim {
                            if dies {
                                engine.kill();
                            }
                            return None;
                        }
                        let first = group.barrier().await;
                        assert!(first.is_err(), "nobody waits for nobody");
                        assert_eq!(group.reduce(1, |a, b| a + b).await.unwrap_err(), first.unwrap_err());
                        Some(first)
                    })
                })
                .collect();
            for member in members {
                let result = member.await.unwrap();
                assert!(result.is_none_or(|result| result == Err(Lost { member: victim })), "{result:?}");
            }
        }
    });
}

/// A process that has gone before keeps nobody from a group without it.
#[chanter::test]
async fn the_living_are_a_group_without_the_dead() {
    let mut engines = Local::cluster(3);
    engines.pop().unwrap().kill();
    let here: Vec<Process> = engines.into_iter().map(Process::start).collect();
    while here[0].down(2).is_none() || here[1].down(2).is_none() {
        yield_now().await;
    }
    for _ in 0..3 {
        let members = [0, 1].map(|rank| {
            let here = here[rank as usize].clone();
            spawn(async move { Group::of(&here, "living", rank, 2).await.unwrap().barrier().await })
        });
        for member in members {
            assert_eq!(member.join().await.unwrap(), Ok(()));
        }
    }
}
