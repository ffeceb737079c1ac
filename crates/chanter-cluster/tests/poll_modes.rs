//! The forms in which a thread waits for a message: whatever the form, messages are received once and in order.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::{Local, Why};
use chanter_cluster::{ANYONE, PollMode, Process, Pump, RecvError};

const TAG: u32 = 1;

/// Runs `body` in a cluster of two processes, the second of which is served by the machine's pump or by its own notifier, on one
/// virtual processor and on two.
fn with_two<F>(body: impl Fn(Process, Process, Arc<Local>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for vps in [1, 2] {
        for is_pumped in [false, true] {
            let pump = Pump::new();
            let machine = pump.attached_to(Machine::builder().vps(vps)).build().unwrap();
            machine.block_on_local(async {
                let [first, second] = <[Local; 2]>::try_from(Local::cluster(2)).unwrap();
                let first = Arc::new(first);
                let here = Process::start(Arc::clone(&first));
                let there =
                    if is_pumped { Process::start_polled(second, &pump) } else { Process::start(second) };
                body(here, there, first).await;
            });
        }
    }
}

/// A thread for each form, and two that share one: each gets its own messages, in order.
#[test]
fn each_form_gets_its_messages_from_another_process() {
    with_two(|first, second, _| async move {
        let there = Arc::new(second.inbox().unwrap());
        let to = there.name();
        let modes: Vec<PollMode> = PollMode::ALL.into_iter().chain([PollMode::ThreadPolls]).collect();
        let tags = modes.len() as u32;
        let sender = spawn(async move {
            let here = first.inbox().unwrap();
            for number in 0..300_u64 {
                for tag in 0..tags {
                    here.send(to, tag, &number).await.unwrap();
                }
            }
        });
        let receive = |(tag, mode): (u32, PollMode)| {
            let there = Arc::clone(&there);
            spawn(async move {
                for number in 0..300_u64 {
                    let got = there.recv::<u64>(ANYONE, tag).polling(mode).await.unwrap();
                    assert_eq!(got.value, number, "{mode}");
                }
            })
        };
        let receivers: Vec<_> = (0..).zip(modes).map(receive).collect();
        for receiver in receivers {
            receiver.join().await.unwrap();
        }
        sender.join().await.unwrap();
    });
}

#[test]
fn each_form_gets_its_messages_from_this_process() {
    with_two(|_, second, _| async move {
        for mode in PollMode::ALL {
            let (one, other) = (second.inbox().unwrap(), second.inbox().unwrap());
            let to = other.name();
            let receiver = spawn(async move {
                for number in 0..100_u32 {
                    assert_eq!(other.recv::<u32>(ANYONE, TAG).polling(mode).await.unwrap().value, number);
                }
            });
            for number in 0..100_u32 {
                one.send(to, TAG, &number).await.unwrap();
                if number % 3 == 0 {
                    yield_now().await;
                }
            }
            receiver.join().await.unwrap();
        }
    });
}

/// Who gives up waiting has received nothing, and hinders nobody.
#[test]
fn who_is_dropped_in_the_queue_leaves_it() {
    with_two(|first, second, _| async move {
        let (here, there) = (first.inbox().unwrap(), Arc::new(second.inbox().unwrap()));
        for mode in PollMode::ALL {
            let waits = || {
                let there = Arc::clone(&there);
                spawn(async move { there.recv::<u32>(ANYONE, TAG).polling(mode).await.unwrap().value })
            };
            let given_up: Vec<_> = (0..3).map(|_| waits()).collect();
            yield_now().await;
            for waits in given_up {
                waits.cancel().await.unwrap();
            }
            let stays = waits();
            here.send(there.name(), TAG, &7_u32).await.unwrap();
            assert_eq!(stays.join().await.unwrap(), 7, "{mode}");
            assert!(there.is_empty());
        }
    });
}

#[test]
fn who_waits_in_any_form_is_told_that_a_process_has_gone() {
    with_two(|first, second, killer| async move {
        let (name, there) = (first.inbox().unwrap().name(), Arc::new(second.inbox().unwrap()));
        let waiting: Vec<_> = PollMode::ALL
            .into_iter()
            .map(|mode| {
                let there = Arc::clone(&there);
                spawn(async move { there.recv::<u32>(name, TAG).polling(mode).await })
            })
            .collect();
        yield_now().await;
        killer.kill();
        for waiting in waiting {
            assert_eq!(waiting.join().await.unwrap(), Err(RecvError::Lost(name.process, Why::Died)));
        }
    });
}
