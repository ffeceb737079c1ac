//! Many threads on several processors. `CHANTER_STRESS=10` makes it ten times as long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chanter::deadlock::Watchdog;
use chanter::prelude::*;
use chanter_tuples::{Any, Data, TupleSpace};

const KEYS: u64 = 5;

fn rounds(of: u64) -> u64 {
    let times = std::env::var("CHANTER_STRESS").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    if cfg!(miri) { of / 100 } else { of * times }
}

/// A payload that is counted: none may be lost or doubled.
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(alive: &Arc<AtomicU64>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takers that lose, time out and are dropped by another library's means, while tuples come from all sides. At the end
/// each tuple was taken once, or is in the space.
#[test]
fn each_tuple_is_taken_once() {
    let _dog = Watchdog::new("each_tuple_is_taken_once", Duration::from_secs(300));
    let alive = Arc::new(AtomicU64::new(0));
    let machine = Machine::builder().vps(4).build().unwrap();
    let (putters, per_putter) = (4, rounds(20_000));
    let total = putters * per_putter;
    let counter = Arc::clone(&alive);
    machine.block_on(async move {
        let space = TupleSpace::<(u64, u64, Data<Counted>)>::new();
        let taken = Arc::new(AtomicU64::new(0));
        let sum = Arc::new(AtomicU64::new(0));
        let mut threads = Vec::new();
        for putter in 0..putters {
            let (space, alive) = (space.clone(), Arc::clone(&counter));
            threads.push(spawn(async move {
                for n in 0..per_putter {
                    let value = putter * per_putter + n;
                    space.put((value % KEYS, value, Data(Counted::new(&alive)))).await;
                    if n % 16 == 0 {
                        yield_now().await;
                    }
                }
            }));
        }
        for taker in 0..6_u64 {
            let (space, taken, sum) = (space.clone(), Arc::clone(&taken), Arc::clone(&sum));
            threads.push(spawn(async move {
                let mut round = taker;
                while taken.load(Ordering::SeqCst) < total {
                    round += 1;
                    let by_key = space.take((round % KEYS, Any, Any));
                    let by_any = space.take((Any, Any, Any));
                    let got = match round % 4 {
                        0 => {
                            choose((by_key.wrap(Some), after(Duration::from_micros(50)).wrap(|()| None)))
                                .await
                        }
                        1 => choose((by_any.wrap(Some), by_key.wrap(Some), always(()).wrap(|()| None))).await,
                        2 => {
                            // Polled once or twice, and dropped.
                            let mut take = Box::pin(by_any.sync());
                            let mut polls = 0;
                            std::future::poll_fn(|cx| {
                                polls += 1;
                                match take.as_mut().poll(cx) {
                                    std::task::Poll::Ready(tuple) => std::task::Poll::Ready(Some(tuple)),
                                    std::task::Poll::Pending if polls > 1 => std::task::Poll::Ready(None),
                                    std::task::Poll::Pending => {
                                        cx.waker().wake_by_ref();
                                        std::task::Poll::Pending
                                    }
                                }
                            })
                            .await
                        }
                        _ => by_any.try_sync(),
                    };
                    match got {
                        Some((_, value, _)) => {
                            sum.fetch_add(value, Ordering::SeqCst);
                            taken.fetch_add(1, Ordering::SeqCst);
                        }
                        None => yield_now().await,
                    }
                }
            }));
        }
        for thread in threads {
            thread.await.unwrap();
        }
        assert_eq!(taken.load(Ordering::SeqCst), total);
        assert_eq!(sum.load(Ordering::SeqCst), total * (total - 1) / 2);
        assert!(space.is_empty());
    });
    drop(machine);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "no payload is left");
}

/// Readers and delayed threads that come at the same time, on several processors: each thread is demanded, once.
#[test]
fn each_delayed_thread_is_demanded_once() {
    let _dog = Watchdog::new("each_delayed_thread_is_demanded_once", Duration::from_secs(300));
    let machine = Machine::builder().vps(4).build().unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    let rounds = rounds(10_000);
    let counter = Arc::clone(&ran);
    machine.block_on(async move {
        let space = TupleSpace::<(u64, u64)>::new();
        for round in 0..rounds {
            let readers: [_; 3] = std::array::from_fn(|_| spawn(space.read((round, Any))));
            let ran = Arc::clone(&counter);
            let body = async move {
                ran.fetch_add(1, Ordering::SeqCst);
                (round, round * round)
            };
            if round % 2 == 0 {
                space.delay((round, Any), body).await;
            } else {
                space.spawn((round, Any), body).await;
            }
            for reader in readers {
                assert_eq!(reader.await.unwrap(), (round, round * round));
            }
            assert_eq!(space.take((round, Any)).await, (round, round * round));
        }
        assert!(space.is_empty());
    });
    assert_eq!(ran.load(Ordering::SeqCst), rounds);
}
