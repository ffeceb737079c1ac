//! Continuations that are sent to other processes: each promise is determined, whatever becomes of the call that
//! carries its continuation, and of the processes between.

#![cfg(all(feature = "cluster", not(miri)))]

#[path = "common/short.rs"]
mod short;

use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter_cluster::engine::{Engine, Local};
use chanter_cluster::{Caller, Process, local};
use chanter_objects::remote::enter;
use chanter_objects::{Begun, Continuation, Lazy, ObjectError, Owner, Promise, Ref, object};
use short::{SHORT, Short};

fn nobody(_: &Caller) -> bool {
    false
}

struct Clerk;

#[object(remote)]
impl Clerk {
    #[method(read)]
    fn tell(&self, k: Continuation<u32>) {
        let _ = k.fill(7);
    }

    #[method(read)]
    fn tell_at_length(&self, k: Continuation<Vec<u8>>) -> bool {
        k.fill(vec![7; SHORT]).is_ok()
    }

    #[method(read, allow = nobody)]
    fn refuses(&self, k: Continuation<u32>) {
        let _ = k.fill(7);
    }

    /// Sends the continuation on.
    #[method(read)]
    async fn pass_on(&self, to: Ref<Clerk>, k: Continuation<u32>) -> Result<(), ObjectError> {
        to.tell(k).await
    }

    /// Answers.
    #[method(read)]
    async fn answer(&self, more: Continuation<u32>, k: Lazy<'_, u32>) {
        let _ = more.fill(7);
        k.fill(8);
    }

    /// Answers, but serves nobody.
    #[method(read, allow = nobody)]
    async fn refuse(&self, more: Continuation<u32>, k: Lazy<'_, u32>) {
        let _ = more.fill(7);
        k.fill(8);
    }

    /// Lets another object answer.
    #[method(read)]
    async fn forward(&self, to: Ref<Clerk>, refused: bool, k: Lazy<'_, u32>) {
        let (promise, more) = Promise::new();
        *PROMISE.lock().unwrap() = Some(promise);
        if refused {
            k.forward(to.refuse(more)).await;
        } else {
            k.forward(to.answer(more)).await;
        }
    }
}

static PROMISE: Mutex<Option<Promise<u32>>> = Mutex::new(None);

/// As the processes `from` and `to` see it after it has been sent.
async fn sent<T: 'static + Send>(object: Ref<T>, from: &Process, to: &Process) -> Ref<T> {
    let bytes = enter(from, async { postcard::to_allocvec(&object).unwrap() }).await;
    enter(to, async { postcard::from_bytes(&bytes).unwrap() }).await
}

#[chanter::test]
async fn a_call_that_is_refused_ends_its_continuation() {
    let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
    let clerk = Owner::new(Clerk);
    let there = sent(clerk.reference(), &first, &second).await;
    let (promise, k) = Promise::new();
    assert_eq!(enter(&second, async move { there.refuses(k).await }).await, Err(ObjectError::Refused));
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
}

#[chanter::test]
async fn a_value_that_is_too_long_comes_back() {
    let engines = Local::cluster(2).into_iter().map(Short);
    let [first, second] = <[Process; 2]>::try_from(engines.map(Process::start).collect::<Vec<_>>()).unwrap();
    let clerk = Owner::new(Clerk);
    let there = sent(clerk.reference(), &first, &second).await;
    let (promise, k) = Promise::new();
    assert_eq!(enter(&second, async move { there.tell_at_length(k).await }).await, Ok(false));
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
}

/// The process that sent it on goes before the next one has read it: that call is not made.
#[chanter::test]
async fn a_continuation_ends_with_the_call_that_carries_it() {
    let [first, middle, last] = <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Arc::new);
    let (first, killer) = (Process::start(first), Arc::clone(&middle));
    let middle = Process::start(middle);
    let (clerk, end) = (Owner::new(Clerk), Owner::new(Clerk));
    let there = sent(clerk.reference(), &middle, &first).await;
    let name = name_of(&middle, end.reference(), 2).await;
    let (promise, k) = Promise::new();
    let calling = spawn(enter(&first, async move { there.pass_on(name, k).await }));
    while !last.has_work() {
        yield_now().await;
    }
    killer.kill();
    assert!(calling.join().await.unwrap().is_err());
    let _last = Process::start(last);
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
}

/// The process to which it was sent on goes without having read it.
#[chanter::test]
async fn a_continuation_ends_with_the_process_that_it_was_sent_on_to() {
    let [first, middle, last] = <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Arc::new);
    let [first, middle] = [first, middle].map(Process::start);
    let (clerk, end) = (Owner::new(Clerk), Owner::new(Clerk));
    let there = sent(clerk.reference(), &middle, &first).await;
    let name = name_of(&middle, end.reference(), 2).await;
    let (promise, k) = Promise::new();
    let calling = spawn(enter(&first, async move { there.pass_on(name, k).await }));
    while !last.has_work() {
        yield_now().await;
    }
    last.kill();
    assert_eq!(calling.join().await.unwrap(), Ok(Err(ObjectError::Lost { begun: Begun::Unknown })));
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
}

/// The reference to an object of that process, as an object of this OS process (they share their slots).
async fn name_of(by: &Process, object: Ref<Clerk>, process: u32) -> Ref<Clerk> {
    let bytes = enter(by, async { postcard::to_allocvec(&object).unwrap() }).await;
    let (_, slot, generation): (u32, u32, u32) = postcard::from_bytes(&bytes).unwrap();
    let bytes = postcard::to_allocvec(&(process, slot, generation)).unwrap();
    enter(by, async { postcard::from_bytes(&bytes).unwrap() }).await
}

/// A method lets an object answer that has ended, or that refuses, and sends it a continuation of its own.
#[chanter::test]
async fn a_forwarded_call_that_is_not_run_ends_its_continuations() {
    for refused in [false, true] {
        let [first, middle, last] = <[Process; 3]>::try_from(local(3)).unwrap();
        let (clerk, end) = (Owner::new(Clerk), Owner::new(Clerk));
        let there = sent(clerk.reference(), &middle, &first).await;
        let name = sent(end.reference(), &last, &first).await;
        let why = if refused {
            ObjectError::Refused
        } else {
            drop(end);
            ObjectError::Ended
        };
        let asked = enter(&first, async move { there.forward(name, refused).await }).await;
        assert_eq!(asked, Err(why));
        let promise = PROMISE.lock().unwrap().take().unwrap();
        assert_eq!(promise.await, Err(ObjectError::Unanswered), "refused: {refused}");
    }
}
