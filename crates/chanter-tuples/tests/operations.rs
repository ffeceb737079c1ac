//! The operations of a space, one at a time.

use std::future::{IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use chanter::prelude::*;
use chanter_tuples::{Any, Data, Field, TupleSpace};

type Space = TupleSpace<(&'static str, u32, u32)>;

fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    Machine::builder().vps(1).build().unwrap().block_on(future)
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[test]
fn a_tuple_is_found_by_each_of_its_fields() {
    block_on(async {
        let space = Space::new();
        for tuple in [("a", 1, 10), ("a", 2, 20), ("b", 1, 30), ("b", 2, 20)] {
            space.put(tuple).await;
        }
        assert_eq!(space.read(("a", Any, Any)).await, ("a", 1, 10));
        assert_eq!(space.read(("a", 2, Any)).await, ("a", 2, 20));
        assert_eq!(space.read((Any, Any, 30)).await, ("b", 1, 30));
        assert_eq!(space.read((Any, 2, 20)).await, ("a", 2, 20));
        assert_eq!(space.read(("b", 2, 20)).await, ("b", 2, 20));
        assert_eq!(space.read(("c", Any, Any)).try_sync(), None);
        assert_eq!(space.read(("a", 1, 20)).try_sync(), None);
        assert_eq!(space.len(), 4);
        assert_eq!(space.take((Any, Any, 20)).await, ("a", 2, 20));
        assert_eq!(space.take((Any, Any, 20)).await, ("b", 2, 20));
        assert_eq!(space.take((Any, Any, 20)).try_sync(), None);
        assert_eq!(space.len(), 2);
    });
}

#[test]
fn tuples_are_taken_in_the_order_in_which_they_were_put() {
    block_on(async {
        let space = TupleSpace::new();
        for n in 0..1000_u32 {
            space.put((n % 7, n)).await;
        }
        for n in 0..500 {
            assert_eq!(space.take((Any, Any)).await.1, n);
        }
        let sevens = (500..1000).filter(|n| n % 7 == 3);
        for n in sevens {
            assert_eq!(space.take((3, Any)).await.1, n);
        }
        assert_eq!(space.take((3, Any)).try_sync(), None);
    });
}

#[test]
fn who_waits_longest_takes_the_tuple_whatever_the_pattern() {
    block_on(async {
        let space = Space::new();
        let mut takers = Vec::new();
        for n in 0..12 {
            let take = match n % 3 {
                0 => space.take(("a", Any, Any)),
                1 => space.take((Any, Any, Any)),
                _ => space.take((Any, 5, Any)),
            };
            takers.push(Box::pin(take.into_future()));
        }
        for taker in &mut takers {
            assert!(poll_once(taker.as_mut()).await.is_pending());
        }
        for n in 0..12 {
            space.put(("a", 5, n)).await;
        }
        for (n, taker) in takers.into_iter().enumerate() {
            assert_eq!(taker.await, ("a", 5, n as u32));
        }
    });
}

#[test]
fn a_put_serves_all_readers_and_one_taker() {
    block_on(async {
        let space = Space::new();
        let mut readers = Vec::new();
        let mut takers = Vec::new();
        for n in 0..6 {
            let reader = if n % 2 == 0 { space.read(("a", 1, Any)) } else { space.read((Any, 1, Any)) };
            readers.push(spawn(reader));
            takers.push(spawn(space.take(("a", Any, Any))));
        }
        let other = spawn(space.read(("a", 2, Any)));
        for _ in 0..3 {
            yield_now().await;
        }
        space.put(("a", 1, 7)).await;
        for reader in readers {
            assert_eq!(reader.await.unwrap(), ("a", 1, 7));
        }
        assert_eq!(space.len(), 0, "one of the takers has it");
        yield_now().await;
        assert_eq!(takers.iter().filter(|taker| taker.is_determined()).count(), 1);
        for n in 0..5 {
            space.put(("a", 2, n)).await;
        }
        for (n, taker) in takers.into_iter().enumerate() {
            let value = if n == 0 { ("a", 1, 7) } else { ("a", 2, n as u32 - 1) };
            assert_eq!(taker.await.unwrap(), value);
        }
        assert_eq!(other.await.unwrap(), ("a", 2, 0));
    });
}

#[test]
fn a_lost_choice_takes_nothing_and_puts_nothing() {
    block_on(async {
        let space = Space::new();
        space.put(("a", 1, 1)).await;
        for _ in 0..100 {
            choose_biased((always(()), space.take(("a", Any, Any)).wrap(|_| ()))).await;
            choose_biased((always(()), space.put(("b", 1, 1)))).await;
            choose((space.take(("c", Any, Any)).wrap(|_| ()), after(Duration::ZERO))).await;
        }
        assert_eq!(space.len(), 1);
        // The losers do not wait any more.
        space.put(("c", 1, 1)).await;
        assert_eq!(space.len(), 2);
    });
}

#[test]
fn a_choice_never_serves_itself() {
    block_on(async {
        let space = TupleSpace::<(u32, u32, u32)>::new();
        for _ in 0..100 {
            let mut both = pin!(
                choose((
                    space.take((1, Any, Any)).wrap(|_| false),
                    space.take((Any, 1, Any)).wrap(|_| false),
                    space.put((1, 1, 1)).wrap(|()| true),
                ))
                .into_future()
            );
            assert_eq!(poll_once(both.as_mut()).await, Poll::Ready(true));
            assert_eq!(space.take((1, 1, 1)).await, (1, 1, 1));
        }
        assert!(space.is_empty());
    });
}

#[test]
fn a_taker_that_is_dropped_gives_its_tuple_to_the_next_or_back_in_its_place() {
    block_on(async {
        let space = Space::new();
        let mut first = Box::pin(space.take(("a", Any, Any)).into_future());
        let mut second = Box::pin(space.take((Any, 1, Any)).into_future());
        assert!(poll_once(first.as_mut()).await.is_pending());
        assert!(poll_once(second.as_mut()).await.is_pending());
        space.put(("a", 1, 1)).await;
        space.put(("a", 2, 2)).await;
        drop(first);
        assert_eq!(poll_once(second.as_mut()).await, Poll::Ready(("a", 1, 1)));

        let mut first = Box::pin(space.take((Any, 3, Any)).into_future());
        assert!(poll_once(first.as_mut()).await.is_pending());
        space.put(("a", 3, 3)).await;
        space.put(("a", 4, 4)).await;
        assert_eq!(space.len(), 2);
        drop(first);
        for n in 2..5 {
            assert_eq!(space.take(("a", Any, Any)).await, ("a", n, n));
        }
    });
}

/// Each state in which a choice can be dropped: not polled, waiting, served and not polled, over.
#[test]
fn nothing_is_lost_when_a_choice_is_dropped_at_any_poll() {
    block_on(async {
        for polls in 0..3 {
            for put_before in 0..=polls {
                let (space, never) = (TupleSpace::<(u32, u32, u32)>::new(), TupleSpace::new());
                let mut choice = Box::pin(
                    choose((
                        never.take((Any, Any, Any)),
                        space.take((1, Any, Any)),
                        space.take((Any, Any, 1)),
                        space.read((Any, 9, Any)),
                    ))
                    .into_future(),
                );
                let mut taken = 0;
                for poll in 0..polls {
                    if put_before == poll {
                        space.put((1, 1, 1)).await;
                    }
                    if poll_once(choice.as_mut()).await.is_ready() {
                        taken = 1;
                        break;
                    }
                }
                if put_before == polls {
                    space.put((1, 1, 1)).await;
                }
                drop(choice);
                assert_eq!(taken, usize::from(put_before < polls));
                assert_eq!(taken + space.len(), 1, "{polls} polls, put before {put_before}");
                assert_eq!(space.take((1, 1, 1)).try_sync().is_some(), taken == 0);
            }
        }
    });
}

#[test]
fn readers_copy_and_a_taker_gets_the_tuple() {
    #[derive(Clone)]
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    block_on(async {
        let dropped = Arc::new(AtomicUsize::new(0));
        let space = TupleSpace::new();
        space.put((1, Data(Counted(Arc::clone(&dropped))))).await;
        let mut copies = Vec::new();
        for _ in 0..3 {
            copies.push(space.read((1, Any)).await);
        }
        let tuple = space.take((1, Any)).await;
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(copies);
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
        space.put(tuple).await;
        drop(space);
        assert_eq!(dropped.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn fields_of_many_types_are_compared() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Stage {
        Raw,
        Sorted,
    }
    impl Field for Stage {
        type Key = u8;
        fn key(&self) -> u8 {
            *self as u8
        }
    }
    block_on(async {
        let space = TupleSpace::<(Stage, String, Option<(u8, char)>, [bool; 2], Vec<u8>)>::new();
        space.put((Stage::Raw, "x".into(), None, [true, false], vec![1])).await;
        space.put((Stage::Sorted, "y".into(), Some((1, 'c')), [false; 2], vec![2])).await;
        assert_eq!(space.read((Any, "y", Any, Any, Any)).await.0, Stage::Sorted);
        assert_eq!(space.read((Any, String::from("x"), Any, Any, Any)).await.4, [1]);
        assert_eq!(space.read((Any, Any, Some((1, 'c')), Any, Any)).await.4, [2]);
        assert_eq!(space.read((Any, Any, None, [true, false], Any)).await.4, [1]);
        assert_eq!(space.take((Stage::Sorted, Any, Any, Any, Any)).await.4, [2]);
    });
}

#[test]
fn os_threads_use_a_space_too() {
    let space = Space::new();
    let other = space.clone();
    let taker = std::thread::spawn(move || other.take(("a", Any, Any)).sync_blocking());
    space.put(("a", 1, 2)).sync_blocking();
    assert_eq!(taker.join().unwrap(), ("a", 1, 2));
}
