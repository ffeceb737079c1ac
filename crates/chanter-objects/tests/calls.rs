//! Calls: what objects let in, and what they do when they end.

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use chanter::prelude::*;
use chanter_objects::{ObjectError, Owner, Ref};
use common::{until, workers};

/// Counts how often it is dropped, and how many are inside.
#[derive(Default)]
struct Probe {
    ends: Arc<AtomicU32>,
    inside: u32,
    calls: u32,
}

fn probe() -> (Owner<Probe>, Arc<AtomicU32>) {
    let ends = Arc::new(AtomicU32::new(0));
    (Owner::new(Probe { ends: Arc::clone(&ends), ..Probe::default() }), ends)
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.ends.fetch_add(1, SeqCst);
    }
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[chanter::test]
async fn a_call_yields_what_the_method_returns() {
    let owner = Owner::new(vec![1, 2]);
    let list = owner.reference();
    list.with_mut(|list| list.push(3)).await.unwrap();
    assert_eq!(list.with(|list| list.iter().sum()).await, Ok(6));
    let last = list.with_mut_async(async |list| {
        yield_now().await;
        list.pop()
    });
    assert_eq!(last.await, Ok(Some(3)));
    assert_eq!(list.with_async(async |list| list.len()).await, Ok(2));
    assert_eq!(list.with(Vec::len).now().unwrap(), Ok(2));
}

#[chanter::test]
async fn an_ended_object_is_gone_for_all_its_references() {
    let (owner, ends) = probe();
    let object = owner.reference();
    drop(owner);
    assert_eq!(ends.load(SeqCst), 1);
    assert_eq!(object.with(|_| ()).await, Err(ObjectError::Ended));
    assert_eq!(object.with_mut_async(async |_| ()).await, Err(ObjectError::Ended));
    // The next object lies where it was, and is another one.
    let (other, _) = probe();
    assert_eq!(object.with(|_| ()).await, Err(ObjectError::Ended));
    assert_eq!(other.reference().with(|_| ()).await, Ok(()));
}

#[chanter::test]
async fn an_object_lives_until_the_last_is_out() {
    let (owner, ends) = probe();
    let object = owner.reference();
    let mut inside = Box::pin(object.with_async(async |_| never::<()>().await).into_future());
    assert!(poll_once(inside.as_mut()).is_pending());
    let mut waits = Box::pin(object.with_mut(|_| ()).into_future());
    assert!(poll_once(waits.as_mut()).is_pending());
    drop(owner);
    assert_eq!(ends.load(SeqCst), 0);
    assert_eq!(object.with(|_| ()).await, Err(ObjectError::Ended));
    drop(inside);
    assert_eq!(ends.load(SeqCst), 1);
    assert_eq!(waits.await, Err(ObjectError::Ended));
}

#[chanter::test]
async fn an_object_may_own_itself() {
    struct Selfish(Option<Owner<Selfish>>, Probe);
    let (ends, mut probe) = (Arc::new(AtomicU32::new(0)), Probe::default());
    probe.ends = Arc::clone(&ends);
    let owner = Owner::new(Selfish(None, probe));
    let object = owner.reference();
    object.with_mut(move |this| this.0 = Some(owner)).await.unwrap();
    let dropped_inside = object.with_mut(|this| {
        this.0 = None;
        this.1.ends.load(SeqCst)
    });
    assert_eq!(dropped_inside.await, Ok(0));
    assert_eq!(ends.load(SeqCst), 1);
}

#[chanter::test]
async fn a_call_that_is_dropped_was_not_made() {
    let (owner, _) = probe();
    let object = owner.reference();
    drop(object.with_mut(|probe| probe.calls += 1));
    let mut inside = Box::pin(
        object
            .with_mut_async(async |probe| {
                probe.calls += 10;
                never::<()>().await;
            })
            .into_future(),
    );
    assert!(poll_once(inside.as_mut()).is_pending());
    {
        let mut waits = pin!(object.with_mut(|probe| probe.calls += 1).into_future());
        assert!(poll_once(waits.as_mut()).is_pending());
        assert!(object.with(|_| ()).now().is_err());
    }
    // Dropped while it is inside: what it has done it has done, and the object is free.
    drop(inside);
    assert_eq!(object.with(|probe| probe.calls).now().unwrap(), Ok(10));
}

/// One is woken and not polled: others are let in.
#[chanter::test]
async fn nobody_is_held_up_by_one_that_is_not_polled() {
    let (owner, _) = probe();
    let object = owner.reference();
    let mut inside = Box::pin(object.with_mut_async(async |_| never::<()>().await).into_future());
    assert!(poll_once(inside.as_mut()).is_pending());
    let mut asleep = Box::pin(object.with_mut(|_| ()).into_future());
    assert!(poll_once(asleep.as_mut()).is_pending());
    let waits = spawn(async move { object.with_mut(|probe| probe.calls += 1).await });
    yield_now().await;
    drop(inside);
    assert_eq!(waits.await.unwrap(), Ok(()));
    assert_eq!(asleep.await, Ok(()));
}

#[chanter::test]
async fn a_panic_of_one_that_writes_poisons() {
    let owner = Owner::new(1);
    let object = owner.reference();
    let read = spawn(async move { object.with(|_| -> () { panic!("expected: reads") }).await });
    assert!(read.join().await.is_err());
    assert_eq!(object.with(|value| *value).await, Ok(1));
    for suspends in [false, true] {
        let write = spawn(async move {
            if suspends {
                let method = async |value: &mut i32| {
                    *value += 1;
                    yield_now().await;
                    panic!("expected: writes")
                };
                object.with_mut_async(method).await
            } else {
                object.with_mut(|_| panic!("expected: writes")).await
            }
        });
        assert!(write.join().await.is_err());
        assert!(owner.is_poisoned());
        assert_eq!(object.with(|value| *value).await, Err(ObjectError::Poisoned));
        owner.forgive();
    }
    assert_eq!(object.with(|value| *value).await, Ok(2));
    let last = spawn(async move { object.with_mut(|_| panic!("expected: writes")).await });
    assert!(last.join().await.is_err());
    drop(owner);
    assert_eq!(object.with(|value| *value).await, Err(ObjectError::Ended));
}

#[chanter::test]
async fn references_are_data() {
    assert_eq!([size_of::<Ref<Probe>>(), size_of::<Option<Ref<Probe>>>()], [16; 2]);
    let (owner, _) = probe();
    let object = owner.reference();
    let bytes = postcard::to_stdvec(&object).unwrap();
    let again: Ref<Probe> = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(again, object);
    assert_eq!(again.with_mut(|_| 7).await, Ok(7));
    // Of another type it names nothing.
    let wrong: Ref<String> = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(wrong.with(String::len).await, Err(ObjectError::Ended));
    drop(owner);
    let late: Ref<Probe> = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(late.with(|_| ()).await, Err(ObjectError::Ended));
    // A generation that is to come is not named in advance.
    let (process, slot, generation) = postcard::from_bytes::<(u32, u32, u32)>(&bytes).unwrap();
    let early = postcard::to_stdvec(&(process, slot, generation + 1)).unwrap();
    let early: Ref<String> = postcard::from_bytes(&early).unwrap();
    let _next = Owner::new(0_u8);
    assert_eq!(early.with(String::len).await, Err(ObjectError::Ended));
    // Elsewhere: it keeps its name.
    let elsewhere = postcard::to_stdvec(&(3_u32, slot, generation)).unwrap();
    let remote: Ref<Probe> = postcard::from_bytes(&elsewhere).unwrap();
    assert_eq!(remote.with(|_| ()).await, Err(ObjectError::Elsewhere));
    assert_eq!(postcard::to_stdvec(&remote).unwrap(), elsewhere);
    assert!(
        postcard::from_bytes::<Ref<Probe>>(&postcard::to_stdvec(&(0_u32, 1_u32 << 30, 1_u32)).unwrap())
            .is_err()
    );
}

/// Threads of two virtual processors and of an OS thread call one object, in each way; some are dropped
/// while they wait or are inside. Nobody is beside one that writes, and nobody is forgotten.
#[test]
fn calls_exclude_across_threads() {
    let rounds = if cfg!(miri) { 20 } else { 5_000 };
    let (owner, ends) = probe();
    let object = owner.reference();
    let machine = workers(2);
    let dropped = machine.block_on(async move {
        let threads = Vec::from_iter((0..4).map(|index| {
            Thread::builder().on(index % 2).spawn(async move {
                let mut written = 0;
                for round in 0..rounds {
                    // A streak that earns a bias, now and then.
                    for _ in 0..if round % 50 == index { 200 } else { 1 } {
                        object.with_mut(|probe| probe.calls += 1).await.unwrap();
                        written += 1;
                    }
                    match (round + index) % 4 {
                        0 => {
                            let method = async |probe: &mut Probe| {
                                assert_eq!(std::mem::replace(&mut probe.inside, 1), 0);
                                yield_now().await;
                                probe.inside = 0;
                            };
                            object.with_mut_async(method).await.unwrap();
                        }
                        1 => {
                            let method = async |probe: &Probe| {
                                yield_now().await;
                                assert_eq!(probe.inside, 0);
                            };
                            object.with_async(method).await.unwrap();
                        }
                        2 => {
                            let mut call =
                                Box::pin(object.with_async(async |_| yield_now().await).into_future());
                            let _ = poll_once(call.as_mut());
                        }
                        _ => object.with(|probe| assert_eq!(probe.inside, 0)).await.unwrap(),
                    }
                }
                written
            })
        }));
        let mut written = 0;
        for thread in threads {
            written += thread.await.unwrap();
        }
        assert_eq!(object.with(|probe| probe.calls).await, Ok(written));
        owner
    });
    drop(dropped);
    assert_eq!(ends.load(SeqCst), 1);
}

/// Objects end while others call them: each value is dropped once, and no call meets another object.
#[test]
fn objects_end_beside_calls() {
    let rounds = if cfg!(miri) { 10 } else { 3_000 };
    let ends = Arc::new(AtomicU32::new(0));
    let machine = workers(2);
    let made = machine.block_on({
        let ends = Arc::clone(&ends);
        async move {
            let (tx, rx) = channel::<(u32, Ref<(u32, Probe)>)>();
            let caller = Thread::builder().on(1).spawn(async move {
                let mut calls = 0;
                while let Ok((number, object)) = rx.recv().await {
                    loop {
                        let seen = object
                            .with_mut_async(async |this| {
                                let number = this.0;
                                if calls % 3 == 0 {
                                    yield_now().await;
                                }
                                number
                            })
                            .await;
                        match seen {
                            Ok(seen) => assert_eq!(seen, number),
                            Err(gone) => break assert_eq!(gone, ObjectError::Ended),
                        }
                        calls += 1;
                        if calls % 16 == 0 {
                            yield_now().await;
                        }
                    }
                }
            });
            for number in 0..rounds {
                let owner = Owner::new((number, Probe { ends: Arc::clone(&ends), ..Probe::default() }));
                tx.send((number, owner.reference())).await.unwrap();
                for _ in 0..number % 100 {
                    owner.reference().with_mut(|this| this.1.calls += 1).await.unwrap();
                }
                drop(owner);
            }
            drop(tx);
            caller.await.unwrap();
            rounds
        }
    });
    until(|| ends.load(SeqCst) == made);
}
