//! D6 and the laws of owners, for objects. They run under schedules of two and three processes with at most two
//! preemptions (all, or the first 6,000). A process is killed at any point. Random schedules go beyond.

#![cfg(all(feature = "cluster", not(miri)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::event::from_future;
use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_cluster::engine::Local;
use chanter_objects::remote::enter;
use chanter_objects::{Begun, Lazy, ObjectError, Owner, Ref, object};
use serde::{Deserialize, Serialize};

/// Makes the given number of processes, and a handle that kills each.
fn mortals<const N: usize>() -> ([Process; N], [Arc<Local>; N]) {
    let engines = <[_; N]>::try_from(Local::cluster(N as u32)).unwrap().map(Arc::new);
    (engines.each_ref().map(|engine| Process::start(Arc::clone(engine))), engines)
}

/// As the processes `from` and `to` see it after it has been sent.
fn sent<T: 'static + Send>(object: Ref<T>, from: &Process, to: &Process) -> Ref<T> {
    let bytes = now(enter(from, async { postcard::to_allocvec(&object).unwrap() }));
    now(enter(to, async { postcard::from_bytes(&bytes).unwrap() }))
}

/// Yields the output of a future that does not block.
fn now<F: Future>(future: F) -> F::Output {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => unreachable!("it does not block"),
    }
}

/// How often its methods have begun, and ended.
#[derive(Clone, Default)]
struct Runs(Arc<[AtomicU32; 2]>);

impl Runs {
    fn begin(&self) {
        self.0[0].fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self) {
        self.0[1].fetch_add(1, Ordering::SeqCst);
    }

    /// D6, of one call that should answer 7.
    fn check(&self, answer: Result<u32, ObjectError>) {
        let [begun, ended] = self.0.each_ref().map(|count| count.load(Ordering::SeqCst));
        let holds = match answer {
            Ok(value) => value == 7 && (begun, ended) == (1, 1),
            Err(ObjectError::Lost { begun: Begun::No }) => begun == 0,
            Err(ObjectError::Lost { begun: Begun::Unknown }) => begun <= 1 && ended <= begun,
            Err(_) => false,
        };
        assert!(holds, "{answer:?}, begun {begun}, ended {ended}");
    }
}

struct Worker {
    runs: Runs,
    next: Option<Ref<Worker>>,
}

#[object(remote)]
impl Worker {
    /// Blocks.
    #[method(mut)]
    async fn work(&mut self) -> u32 {
        self.runs.begin();
        yield_now().await;
        self.runs.end();
        7
    }

    /// The last one answers.
    #[method(read)]
    async fn last(&self, k: Lazy<'_, u32>) {
        match self.next {
            Some(next) => k.forward_boxed(next.last()).await,
            None => {
                self.runs.begin();
                self.runs.end();
                k.fill(7);
            }
        }
    }
}

fn worker(runs: &Runs, next: Option<Ref<Worker>>) -> Owner<Worker> {
    Owner::new(Worker { runs: runs.clone(), next })
}

/// The object's process is killed.
async fn a_method_runs_at_most_once() {
    let ([first, second], [_, killer]) = mortals();
    let runs = Runs::default();
    let owner = worker(&runs, None);
    let remote = sent(owner.reference(), &second, &first);
    let killing = spawn(async move { killer.kill() });
    runs.check(remote.work().await);
    killing.join().await.unwrap();
}

/// Three processes; the call goes by the second to the third, and one of them is killed.
async fn forwarded(victim: usize) {
    let ([first, second, third], killers) = mortals();
    let runs = Runs::default();
    let last = worker(&runs, None);
    let middle = worker(&Runs::default(), Some(sent(last.reference(), &third, &second)));
    let remote = sent(middle.reference(), &second, &first);
    let killing = spawn(async move { killers[victim].kill() });
    runs.check(remote.last().await);
    killing.join().await.unwrap();
}

async fn a_forwarded_call_ends_once_if_the_middle_dies() {
    forwarded(1).await;
}

async fn a_forwarded_call_ends_once_if_the_last_dies() {
    forwarded(2).await;
}

/// A call that loses a choice is withdrawn, wherever it is; the next one is as if it had not been.
async fn a_forwarded_call_that_loses_is_withdrawn() {
    let ([first, second, third], _) = mortals();
    let runs = Runs::default();
    let last = worker(&runs, None);
    let middle = worker(&Runs::default(), Some(sent(last.reference(), &third, &second)));
    let remote = sent(middle.reference(), &second, &first);
    let (tx, rx) = channel::<()>();
    let rival = spawn(async move { tx.send(()).await });
    let call = from_future(async move { remote.last().await });
    let answer = choose((call.wrap(Some), rx.recv().wrap(|_| None))).await;
    assert!(answer.is_none_or(|answer| answer == Ok(7)));
    drop(rx);
    let _ = rival.join().await.unwrap();
    assert_eq!(remote.last().await, Ok(7));
}

/// An object that counts, and may be anywhere.
#[derive(Serialize, Deserialize)]
struct Count(u32);

#[object(remote, moves)]
impl Count {
    #[method(mut)]
    fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }

    #[method(mut)]
    async fn next_for(&mut self, k: Lazy<'_, u32>) {
        k.fill(self.next());
    }
}

/// An object migrates, and the process where it goes is killed: it counts on, where it was, or it is lost.
async fn a_migration_ends_here_or_there() {
    let ([first, second], [_, killer]) = mortals();
    let owner = Owner::new(Count(0));
    let object = owner.reference();
    let killing = spawn(async move { killer.kill() });
    let calling = spawn(enter(&first.clone(), async move { object.next().await }));
    let moved = enter(&first, object.migrate(1)).await;
    let called = calling.join().await.unwrap();
    killing.join().await.unwrap();
    let after = enter(&first, async { object.next().await }).await;
    match (moved, called, after) {
        // It was not there yet, or never.
        (Err(ObjectError::Lost { .. }), Ok(1), Ok(2)) => (),
        // It was there.
        (Ok(()), Ok(1) | Err(ObjectError::Lost { .. }), Err(ObjectError::Lost { .. })) => (),
        other => panic!("{other:?}"),
    }
    drop(second);
}

/// It migrates twice while two call it: each call counts once.
async fn callers_do_not_notice() {
    let ([first, second], _engines) = mortals();
    let owner = Owner::new(Count(0));
    let object = owner.reference();
    let seen = sent(object, &first, &second);
    let remote = spawn(enter(&second.clone(), async move { seen.next().await.unwrap() }));
    let near = spawn(enter(&first.clone(), async move { object.next().await.unwrap() }));
    enter(&first, object.migrate(1)).await.unwrap();
    enter(&first, object.migrate(0)).await.unwrap();
    let mut counts = [remote.join().await.unwrap(), near.join().await.unwrap()];
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
}

/// An object forwards to one that moves meanwhile: the answer is that of the other object, and a later call of the
/// first one finds it.
async fn a_forward_to_a_moved_object() {
    let ([first, second, third], _engines) = mortals();
    let owner = Owner::new(Count(0));
    let runs = Runs::default();
    let desk = Owner::new(Desk { runs: runs.clone(), count: sent(owner.reference(), &second, &first) });
    let seen = sent(desk.reference(), &first, &third);
    let moving =
        spawn(enter(&second.clone(), async move { owner.reference().migrate(2).await.map(|()| owner) }));
    let counted = enter(&third, async { (seen.count().await, seen.is_desk().await) }).await;
    assert_eq!(counted, (Ok(1), Ok(7)));
    let owner = moving.join().await.unwrap().unwrap();
    let counted = enter(&third, async { (seen.count().await, seen.is_desk().await) }).await;
    assert_eq!(counted, (Ok(2), Ok(7)));
    drop(owner);
}

/// Forwards to a count.
struct Desk {
    runs: Runs,
    count: Ref<Count>,
}

#[object(remote)]
impl Desk {
    #[method(read)]
    async fn count(&self, k: Lazy<'_, u32>) {
        k.forward(self.count.next_for()).await;
    }

    #[method(read)]
    fn is_desk(&self) -> u32 {
        self.runs.begin();
        7
    }
}

/// The owner of an object in another process is killed: the object ends there.
async fn what_a_process_owns_ends_with_it() {
    let ([first, second], [killer, _]) = mortals();
    let (tx, placed) = mailbox();
    let placing = spawn(enter(&first.clone(), async move {
        let owner = Owner::new_on(1, Count(0)).await;
        let _ = tx.send(owner).await;
        // A killed process drops nothing.
        never::<()>().await;
    }));
    let killing = spawn(async move { killer.kill() });
    killing.join().await.unwrap();
    while let Ok(Ok(owner)) = placed.try_recv() {
        let there = sent(owner.reference(), &first, &second);
        // That it is killed comes behind all that it has sent, in time.
        while there.next().await != Err(ObjectError::Ended) {
            yield_now().await;
        }
    }
    let _ = placing.cancel().await;
}

macro_rules! explored {
    ($($law:ident),*) => {
        mod exhaustive { $(
            #[chanter::test(explore(strategy = "exhaustive", preemptions = 2, schedules = 600))]
            async fn $law() { super::$law().await }
        )* }
        mod pct { $(
            #[chanter::test(explore(strategy = "pct", depth = 3, schedules = 125))]
            async fn $law() { super::$law().await }
        )* }
        mod random { $(
            #[chanter::test(explore(strategy = "random", schedules = 125))]
            async fn $law() { super::$law().await }
        )* }
    };
}

explored!(
    a_method_runs_at_most_once,
    a_forwarded_call_ends_once_if_the_middle_dies,
    a_forwarded_call_ends_once_if_the_last_dies,
    a_forwarded_call_that_loses_is_withdrawn,
    a_forward_to_a_moved_object,
    a_migration_ends_here_or_there,
    callers_do_not_notice,
    what_a_process_owns_ends_with_it
);
