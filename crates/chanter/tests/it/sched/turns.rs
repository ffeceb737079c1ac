//! In which order threads run that are woken by each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use chanter::prelude::*;
use chanter::{
    ThreadBuilder,
    sync::{MVar, rpc},
};

fn on_one_processor<F: Future + Send>(main: F) -> F::Output
where
    F::Output: Send,
{
    Machine::builder().vps(1).hand_off_after(None).build().unwrap().block_on(main)
}

/// Lets all others come to where they wait, and then is woken, as they will be.
async fn let_all_wait() {
    for _ in 0..10 {
        yield_now().await;
    }
    let (tx, rx) = channel();
    drop(spawn(async move { tx.send(()).await }));
    rx.recv().await.unwrap();
}

/// A thread that answers whatever it is sent.
fn echo() -> (Sender<()>, Receiver<()>) {
    let (ping, pinged) = channel();
    let (pong, ponged) = channel();
    drop(spawn(async move { while pinged.recv().await.is_ok() && pong.send(()).await.is_ok() {} }));
    (ping, ponged)
}

/// Takes a sender's message, and then `give` gives `taker` its message. Returns which of the two runs first.
async fn first_of_sender_and(
    taker: impl Future<Output = ()> + Send + 'static,
    give: impl IntoFuture,
) -> &'static str {
    let (log, order) = mailbox();
    let (to_us, from_sender) = channel();
    let own = log.clone();
    let sender = spawn(async move {
        to_us.send(()).await.unwrap();
        own.send("sender").await.unwrap();
    });
    let taker = spawn(async move {
        taker.await;
        log.send("taker").await.unwrap();
    });
    let_all_wait().await;
    from_sender.recv().await.unwrap();
    give.await;
    taker.await.unwrap();
    sender.await.unwrap();
    order.recv().await.unwrap()
}

#[test]
fn who_is_given_a_message_runs_before_who_got_rid_of_one() {
    on_one_processor(async {
        let (tx, rx) = channel();
        let taker = async move { rx.recv().await.unwrap() };
        assert_eq!(first_of_sender_and(taker, tx.send(())).await, "taker");
    });
}

/// A thread in a choice waits for more branches to be ready, unless another processor is awake that could take the
/// threads before it.
#[test]
fn who_is_given_a_message_in_a_choice_runs_first_only_beside_another_processor() {
    async fn first() -> &'static str {
        let (tx, rx) = channel();
        let (never, nothing) = channel();
        let taker = async move { choose((rx.recv(), nothing.recv())).await.unwrap() };
        let first = first_of_sender_and(taker, tx.send(())).await;
        drop(never);
        first
    }
    assert_eq!(on_one_processor(first()), "sender");
    let machine = Machine::builder().vps(2).hand_off_after(None).build().unwrap();
    machine.block_on(async {
        let (begins, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (begun, end) = (Arc::clone(&begins), Arc::clone(&ends));
        let other = ThreadBuilder::new().on(1).spawn(async move {
            begun.store(1, Relaxed);
            while end.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
        });
        while begins.load(Relaxed) == 0 {
            yield_now().await;
        }
        let talk = ThreadBuilder::new().on(0).spawn(first());
        let first = talk.await;
        ends.store(1, Relaxed);
        other.await.unwrap();
        assert_eq!(first.unwrap(), "taker");
    });
}

#[test]
fn who_takes_from_an_mvar_or_accepts_a_call_is_given_a_message_too() {
    on_one_processor(async {
        let place = MVar::<()>::empty();
        let there = place.clone();
        assert_eq!(first_of_sender_and(async move { there.take().await }, place.put(())).await, "taker");

        let (client, server) = rpc::<(), ()>();
        let serve = async move {
            let ((), reply) = server.accept().await.unwrap();
            drop(reply);
        };
        assert_eq!(first_of_sender_and(serve, client.call(())).await, "taker");
    });
}

#[test]
fn of_several_who_are_given_messages_the_first_runs_first() {
    on_one_processor(async {
        let (log, order) = mailbox();
        let workers: Vec<_> = (0..3)
            .map(|number| {
                let (tx, rx) = channel();
                let log = log.clone();
                let thread = spawn(async move {
                    rx.recv().await.unwrap();
                    log.send(number).await.unwrap();
                });
                (tx, thread)
            })
            .collect();
        let_all_wait().await;
        for (tx, _) in &workers {
            tx.send(()).await.unwrap();
        }
        for (_, thread) in workers {
            thread.await.unwrap();
        }
        assert_eq!((order.recv().await, order.recv().await, order.recv().await), (Ok(0), Ok(1), Ok(2)));
    });
}

#[test]
fn a_conversation_does_not_keep_who_was_woken_before() {
    const ROUNDS: u64 = 100_000;
    on_one_processor(async {
        let (to_us, from_sender) = channel();
        let (ping, ponged) = echo();
        let rounds = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&rounds);
        let sender = spawn(async move {
            to_us.send(()).await.unwrap();
            seen.load(Relaxed)
        });
        let_all_wait().await;
        let talk = spawn(async move {
            // From now on the sender is ready.
            from_sender.recv().await.unwrap();
            for _ in 0..ROUNDS {
                ping.send(()).await.unwrap();
                ponged.recv().await.unwrap();
                rounds.fetch_add(1, Relaxed);
            }
        });
        let late = sender.await.unwrap();
        assert!(late < 200, "it ran after {late} rounds of others");
        talk.await.unwrap();
    });
}

#[test]
fn new_threads_begin_soon_beside_those_that_talk() {
    const NEW: u64 = 100;
    on_one_processor(async {
        let (ping, ponged) = echo();
        ping.send(()).await.unwrap();
        let begun = Arc::new(AtomicU64::new(0));
        for _ in 0..NEW {
            let begun = Arc::clone(&begun);
            drop(spawn(async move { begun.fetch_add(1, Relaxed) }));
        }
        let mut rounds = 0;
        while begun.load(Relaxed) < NEW {
            ponged.recv().await.unwrap();
            ping.send(()).await.unwrap();
            rounds += 1;
        }
        assert!(rounds > NEW / 2, "those that talk go on meanwhile");
        assert!(rounds < 3 * NEW, "{rounds} rounds");
    });
}

#[test]
fn who_yields_beside_those_that_talk_lets_new_threads_begin_in_order() {
    on_one_processor(async {
        let (ping, ponged) = echo();
        let (log, order) = mailbox();
        for round in 0..10 {
            for _ in 0..round {
                ping.send(()).await.unwrap();
                ponged.recv().await.unwrap();
            }
            for number in 0..4 {
                let log = log.clone();
                drop(spawn(async move { log.send(number).await.unwrap() }));
            }
            yield_now().await;
            for number in 0..4 {
                assert_eq!(order.recv().await, Ok(number), "round {round}");
            }
        }
    });
}

#[test]
fn the_stages_of_a_pipeline_do_not_fill_up() {
    const STAGES: u64 = 100;
    const NUMBERS: u64 = 1_000;
    on_one_processor(async {
        let begun = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&begun);
        let (tx, mut last) = channel();
        for _ in 0..STAGES {
            let (to, next) = channel();
            let from = std::mem::replace(&mut last, next);
            drop(spawn(async move {
                while let Ok(number) = from.recv().await {
                    if to.send(number).await.is_err() {
                        break;
                    }
                }
            }));
        }
        let_all_wait().await;
        drop(spawn(async move {
            for number in 0.. {
                count.store(number, Relaxed);
                if tx.send(number).await.is_err() {
                    break;
                }
            }
        }));
        let mut under_way = 0;
        for expected in 0..NUMBERS {
            assert_eq!(last.recv().await, Ok(expected));
            under_way += begun.load(Relaxed) - expected;
        }
        let average = under_way / NUMBERS;
        assert!(average < STAGES / 10, "{average} numbers are under way");
    });
}

/// On one processor a thread in a choice finds a message of each sender, rather than two of the one that came first.
#[test]
fn who_chooses_on_one_processor_lets_all_others_send_before() {
    const SENDERS: usize = 16;
    const MESSAGES: usize = 100;
    on_one_processor(async {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| channel()).unzip();
        for (name, tx) in senders.into_iter().enumerate() {
            drop(spawn(async move { while tx.send(name).await.is_ok() {} }));
        }
        let (mut last, mut repeated) = (SENDERS, 0);
        for _ in 0..SENDERS * MESSAGES {
            let events = receivers.iter().map(Receiver::recv).collect::<Vec<_>>();
            let name = choose(events).await.unwrap();
            repeated += usize::from(std::mem::replace(&mut last, name) == name);
        }
        assert!(
            repeated < MESSAGES * SENDERS / 4,
            "{repeated} messages came from the sender of the last one"
        );
    });
}

/// The same, where the thread in the choice sends.
#[test]
fn who_chooses_whom_to_send_to_lets_all_others_receive_before() {
    const RECEIVERS: usize = 16;
    const MESSAGES: usize = 100;
    on_one_processor(async {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..RECEIVERS).map(|_| channel()).unzip();
        for rx in receivers {
            drop(spawn(async move { while rx.recv().await.is_ok() {} }));
        }
        let (mut last, mut repeated) = (RECEIVERS, 0);
        for _ in 0..RECEIVERS * MESSAGES {
            let events = senders.iter().enumerate().map(|(name, tx)| tx.send(()).wrap(move |_| name));
            let name = choose(events.collect::<Vec<_>>()).await;
            repeated += usize::from(std::mem::replace(&mut last, name) == name);
        }
        assert!(
            repeated < MESSAGES * RECEIVERS / 4,
            "{repeated} messages went to the receiver of the last one"
        );
    });
}
