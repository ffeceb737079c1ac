//! Objects of other processes: calls of each schema, several at a time, and what a caller is told.

#![cfg(all(feature = "cluster", not(miri)))]

use chanter::prelude::*;
use std::sync::Arc;

use chanter_cluster::engine::Local;
use chanter_cluster::{Process, local};
use chanter_objects::remote::enter;
use chanter_objects::{Begun, Continuation, Lazy, ObjectError, Owner, Promise, Ref, conc, object};

struct Account {
    balance: i64,
    next: Option<Ref<Account>>,
}

#[object(remote)]
impl Account {
    #[method(read)]
    fn balance(&self) -> i64 {
        self.balance
    }

    #[method(mut)]
    fn deposit(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }

    #[method(mut)]
    fn fail(&mut self) {
        panic!("no account is that large");
    }

    /// Deposits the sum of many bytes, and blocks within.
    #[method(mut)]
    async fn weigh(&mut self, bytes: Vec<u8>) -> i64 {
        yield_now().await;
        let sum = bytes.iter().map(|byte| i64::from(*byte)).sum();
        self.deposit(sum);
        sum
    }

    /// Blocks within.
    #[method(mut)]
    async fn slowly(&mut self, amount: i64) -> i64 {
        yield_now().await;
        self.deposit(amount)
    }

    #[method(mut)]
    async fn move_to(&mut self, to: Ref<Account>, amount: i64) -> Result<i64, ObjectError> {
        self.balance -= amount;
        to.deposit(amount).await
    }

    /// The balance of the last one.
    #[method(read)]
    async fn last(&self, k: Lazy<'_, i64>) {
        match self.next {
            Some(next) => k.forward_boxed(next.last()).await,
            None => k.fill(self.balance),
        }
    }

    /// Lets the next one weigh them, who blocks within.
    #[method(read)]
    async fn weigh_next(&self, bytes: Vec<u8>, k: Lazy<'_, i64>) {
        k.forward(self.next.expect("there is one").weigh_for(bytes)).await;
    }

    #[method(mut)]
    async fn weigh_for(&mut self, bytes: Vec<u8>, k: Lazy<'_, i64>) {
        k.fill(self.weigh(bytes).await);
    }

    /// Keeps its continuation for a while.
    #[method(read)]
    async fn later(&self, k: Lazy<'_, i64>) {
        let k = k.keep();
        let balance = self.balance;
        spawn(async move {
            yield_now().await;
            k.fill(balance)
        });
    }

    #[method(read)]
    async fn never(&self, k: Lazy<'_, i64>) {
        drop(k);
    }

    /// Answers later, by the caller's own promise.
    #[method(read)]
    fn promise(&self, k: Continuation<i64>) {
        let balance = self.balance;
        spawn(async move {
            yield_now().await;
            k.fill(balance)
        });
    }

    /// Lets the next one do that.
    #[method(read)]
    async fn pass_on(&self, k: Continuation<i64>) -> Result<(), ObjectError> {
        self.next.expect("there is one").promise(k).await
    }

    #[method(read)]
    fn forget(&self, k: Continuation<i64>) {
        drop(k);
    }

    /// Keeps it for ever.
    #[method(read)]
    fn hoard(&self, k: Continuation<i64>) {
        std::mem::forget(k);
    }

    #[method(read, local)]
    fn with_what_is_no_data(&self, f: impl FnOnce(i64) -> i64) -> i64 {
        f(self.balance)
    }
}

fn account(balance: i64) -> Owner<Account> {
    Owner::new(Account { balance, next: None })
}

/// As the processes `from` and `to` see it after it has been sent.
async fn sent<T: 'static + Send>(object: Ref<T>, from: &Process, to: &Process) -> Ref<T> {
    let bytes = enter(from, async { postcard::to_allocvec(&object).unwrap() }).await;
    enter(to, async { postcard::from_bytes(&bytes).unwrap() }).await
}

fn two() -> [Process; 2] {
    local(2).try_into().unwrap()
}

#[chanter::test]
async fn each_schema_is_called_from_afar() {
    let [first, second] = two();
    let owner = account(100);
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    assert!(format!("{remote:?}").starts_with("Ref(1."));
    assert_eq!(remote.balance().await, Ok(100));
    assert_eq!(remote.deposit(11).await, Ok(111));
    assert_eq!(remote.slowly(9).await, Ok(120));
    assert_eq!(remote.last().await, Ok(120));
    assert_eq!(remote.later().await, Ok(120));
    assert_eq!(remote.never().await, Err(ObjectError::Unanswered));
    assert_eq!(owner.reference().balance().await, Ok(120));
    assert_eq!(owner.reference().with_what_is_no_data(|balance| balance + 1).await, Ok(121));
    assert_eq!(remote.with_what_is_no_data(|balance| balance + 1).await, Err(ObjectError::Elsewhere));
    assert_eq!(remote.with(|account| account.balance).await, Err(ObjectError::Elsewhere));
    drop(owner);
    assert_eq!(remote.balance().await, Err(ObjectError::Ended));
}

#[chanter::test]
async fn references_are_arguments() {
    let [first, second] = two();
    let (here, there) = (account(0), account(100));
    let remote: Ref<Account> = sent(there.reference(), &second, &first).await;
    // Within the method, it is the first process's that is called back.
    let mine = here.reference();
    let moved = enter(&first, async move { remote.move_to(mine, 40).await }).await;
    assert_eq!(moved, Ok(Ok(40)));
    assert_eq!(here.reference().balance().await, Ok(40));
    assert_eq!(there.reference().balance().await, Ok(60));
}

#[chanter::test]
async fn several_are_under_way_at_a_time() {
    let [first, second] = two();
    let (a, b) = (account(1), account(2));
    let (a, b) = (sent(a.reference(), &second, &first).await, (b.reference(), a));
    let near = b.0;
    conc! { x = a.slowly(1), y = near.balance(), z = a.last() }
    assert_eq!((x, y), (Ok(2), Ok(2)));
    assert!(z == Ok(1) || z == Ok(2));
}

#[chanter::test]
async fn a_continuation_is_forwarded_past_the_middle() {
    let [first, second, third] = <[_; 3]>::try_from(local(3)).unwrap();
    let last = account(7);
    let last_seen = sent(last.reference(), &third, &second).await;
    let middle = Owner::new(Account { balance: 1, next: Some(last_seen) });
    let remote: Ref<Account> = sent(middle.reference(), &second, &first).await;
    for _ in 0..100 {
        assert_eq!(remote.last().await, Ok(7));
    }
    drop(last);
    assert_eq!(remote.last().await, Err(ObjectError::Ended));
}

#[chanter::test]
async fn a_panic_is_its_callers() {
    let [first, second] = two();
    let owner = account(1);
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    let failed = spawn(async move { remote.fail().await }).join().await;
    let message = failed.unwrap_err().to_string();
    assert!(message.contains("no account is that large"), "{message}");
    assert_eq!(remote.balance().await, Err(ObjectError::Poisoned));
    owner.forgive();
    assert_eq!(remote.balance().await, Ok(1));
}

/// One that is dropped is withdrawn: the method ends where it is suspended, and the object is free.
#[chanter::test]
async fn a_call_that_is_dropped_holds_nothing() {
    let [first, second] = two();
    let owner = account(1);
    let inside = owner.reference();
    let (tx, rx) = channel::<()>();
    let holder = spawn(async move {
        inside
            .with_mut_async(async |_| {
                rx.recv().await.unwrap();
            })
            .await
    });
    yield_now().await;
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    let waiting = spawn(async move { remote.slowly(1).await });
    yield_now().await;
    let _ = waiting.cancel().await;
    // A request after the withdrawal is answered after it.
    let another = account(1);
    let other: Ref<Account> = sent(another.reference(), &second, &first).await;
    assert_eq!(other.slowly(1).await, Ok(2));
    tx.send(()).await.unwrap();
    holder.join().await.unwrap().unwrap();
    assert_eq!(remote.slowly(1).await, Ok(2));
}

/// A promise is determined from wherever its continuation has got to, or ends with who has it.
#[chanter::test]
async fn continuations_are_arguments() {
    let [first, second, third] = <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Arc::new);
    let killer = Arc::clone(&third);
    let [first, second, third] = [first, second, third].map(Process::start);
    let last = account(7);
    let next = sent(last.reference(), &third, &second).await;
    let owner = Owner::new(Account { balance: 1, next: Some(next) });
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    let (promise, k) = Promise::new();
    remote.promise(k).await.unwrap();
    assert_eq!(promise.await, Ok(1));
    let (promise, k) = Promise::new();
    remote.pass_on(k).await.unwrap().unwrap();
    assert_eq!(promise.await, Ok(7), "by two processes");
    let (promise, k) = Promise::new();
    remote.forget(k).await.unwrap();
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
    let (promise, k) = Promise::new();
    let to_third: Ref<Account> = sent(last.reference(), &third, &first).await;
    to_third.hoard(k).await.unwrap();
    assert!(promise.try_touch().is_none());
    killer.kill();
    assert_eq!(promise.await, Err(ObjectError::Unanswered), "who had it is gone");
    let (promise, k) = Promise::new();
    assert!(matches!(to_third.hoard(k).await, Err(ObjectError::Lost { .. })));
    assert_eq!(promise.await, Err(ObjectError::Unanswered), "it was not sent");
    let (_promise, k) = Promise::<i64>::new();
    assert!(postcard::to_allocvec(&k).is_err(), "nobody knows where it goes");
}

/// More bytes than may be under way also wait: no call fails because of them.
#[chanter::test]
async fn floods_of_bytes_wait() {
    let [first, second] = two();
    let owner = account(0);
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    let calls = (0..64).map(|_| spawn(async move { remote.weigh(vec![1; 1 << 18]).await.unwrap() }));
    let mut sum = 0;
    for call in calls.collect::<Vec<_>>() {
        sum += call.join().await.unwrap();
    }
    assert_eq!((sum, remote.balance().await), (64 << 18, Ok(64 << 18)));
}

/// Two callers, each within its bounds, are over those of the one in the middle together: what it hands on waits there.
#[chanter::test]
async fn floods_that_are_handed_on_wait() {
    let [first, second, middle, last] = <[_; 4]>::try_from(local(4)).unwrap();
    let end = account(0);
    let next = sent(end.reference(), &last, &middle).await;
    let between = Owner::new(Account { balance: 0, next: Some(next) });
    // All are there before the first has ended.
    let (open, opened) = channel::<()>();
    let inside = end.reference();
    let holder = spawn(async move {
        inside.with_mut_async(async |_| opened.recv().await.unwrap()).await.unwrap();
    });
    yield_now().await;
    let mut calls = Vec::new();
    let callers = [first, second];
    for caller in &callers {
        let remote: Ref<Account> = sent(between.reference(), &middle, caller).await;
        calls.extend((0..16).map(|_| spawn(async move { remote.weigh_next(vec![1; 1 << 18]).await })));
    }
    after(std::time::Duration::from_millis(100)).await;
    open.send(()).await.unwrap();
    holder.join().await.unwrap();
    for call in calls {
        assert_eq!(call.join().await.unwrap(), Ok(1 << 18));
    }
    assert_eq!(end.reference().balance().await, Ok(32 << 18));
}

/// One that has been given back, and cannot be forwarded again, has not begun.
#[chanter::test]
async fn what_cannot_be_handed_on_has_not_begun() {
    let [caller, middle, last] = <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Arc::new);
    let killer = Arc::clone(&last);
    let [caller, middle, last] = [caller, middle, last].map(Process::start);
    let end = account(0);
    let next = sent(end.reference(), &last, &middle).await;
    let between = Owner::new(Account { balance: 0, next: Some(next) });
    let remote: Ref<Account> = sent(between.reference(), &middle, &caller).await;
    killer.kill();
    while middle.down(2).is_none() {
        yield_now().await;
    }
    assert_eq!(remote.weigh_next(vec![1]).await, Err(ObjectError::Lost { begun: Begun::No }));
}

/// More calls than may be under way at a time wait for each other.
#[chanter::test]
async fn floods_wait() {
    let [first, second] = two();
    let owner = account(0);
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    let calls = (0..17_000).map(|_| spawn(async move { remote.slowly(1).await.unwrap() }));
    for call in calls.collect::<Vec<_>>() {
        call.join().await.unwrap();
    }
    assert_eq!(remote.balance().await, Ok(17_000));
}

/// The current process stays that of a suspended fiber, and ends with its own call. Here the call that began first
/// ends first.
#[chanter::test]
async fn two_fibers_speak_for_their_own_processes() {
    let [first, second] = two();
    let owner = account(1);
    let object = owner.reference();
    let named = move || format!("{object:?}").split('.').next().unwrap().to_owned();
    let fiber = move |here: Process, name: &'static str, turns: u32| {
        chanter::fiber::Builder::new().on(0).spawn(move || {
            let within = enter(&here, async move {
                for _ in 0..turns {
                    assert_eq!(named(), name);
                    // Suspends the fiber within the poll.
                    chanter::fiber::yield_now();
                }
                assert_eq!(named(), name);
            });
            drop(here);
            block_on(within);
        })
    };
    for turns in [[1, 4], [4, 1]] {
        let fibers = [fiber(first.clone(), "Ref(0", turns[0]), fiber(second.clone(), "Ref(1", turns[1])];
        for fiber in fibers {
            fiber.join().await.unwrap();
        }
        assert_eq!(named(), "Ref(0", "nobody's name is left");
    }
}

/// A continuation is written for the process to which its call goes, also while another fiber writes another one within the poll.
#[chanter::test]
async fn two_fibers_send_continuations() {
    /// Suspends the fiber while it is written.
    struct Slow(Continuation<i64>, u32);
    impl serde::Serialize for Slow {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            (0..self.1).for_each(|_| chanter::fiber::yield_now());
            self.0.serialize(serializer)
        }
    }
    let [first, second, third] = <[_; 3]>::try_from(local(3)).unwrap();
    let near = account(1);
    let (to_second, to_third): (Ref<Account>, Ref<Account>) =
        (sent(near.reference(), &second, &first).await, sent(near.reference(), &third, &first).await);
    // As `promise` is called: by its key, with arguments that are written as its own are.
    let key = chanter_objects::remote::Key::<(Slow,), ()>::new(promise_name());
    let fiber = move |remote: Ref<Account>, turns: u32| {
        let here = first.clone();
        chanter::fiber::Builder::new().on(0).spawn(move || {
            let (promise, k) = Promise::new();
            block_on(enter(&here, async move {
                let call = remote.named(key, (Slow(k, turns),));
                call.with(|_, _| unreachable!("it is elsewhere")).await.unwrap();
                promise.await
            }))
        })
    };
    for turns in [[1, 4], [4, 1], [2, 2]] {
        let fibers = [fiber(to_second, turns[0]), fiber(to_third, turns[1])];
        for fiber in fibers {
            assert_eq!(fiber.join().await.unwrap(), Ok(1));
        }
    }
}

/// Arguments that panic as they are written: the call is the caller's panic, and what was written before is ended.
#[chanter::test]
async fn a_panic_while_arguments_are_written_ends_their_continuations() {
    struct Panics(Continuation<i64>);
    impl serde::Serialize for Panics {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let _ = self.0.serialize(serializer);
            panic!("it cannot be written")
        }
    }
    let [first, second] = two();
    let owner = account(1);
    let remote: Ref<Account> = sent(owner.reference(), &second, &first).await;
    let key = chanter_objects::remote::Key::<(Panics,), ()>::new(promise_name());
    let (promise, k) = Promise::new();
    let call =
        enter(&first, async move { remote.named(key, (Panics(k),)).with(|_, _| unreachable!()).await });
    assert!(spawn(call).join().await.is_err());
    assert_eq!(promise.await, Err(ObjectError::Unanswered));
}

/// The name by which processes know `Account::promise`.
fn promise_name() -> &'static str {
    let names = chanter_cluster::__table::SERVICES.iter().map(|service| service.name());
    names.into_iter().find(|name| name.starts_with("remote::Account::promise#")).expect("it is served")
}
