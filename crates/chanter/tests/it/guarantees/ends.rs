//! Steps one synchronization to one of its ends, and looks at what is left.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::kit::{Facts, Kit, Planned, Row};
use super::shapes::{Witness, shape};
use crate::common::{FOREVER, Wakes};

/// How a synchronization is stepped to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Polls before anything happens.
    pub(crate) before: usize,
    pub(crate) serve: bool,
    pub(crate) rival: Rival,
    /// Then it goes on while it can; or else it is dropped as it is.
    pub(crate) goes_on: bool,
    /// The first message that is dropped with it panics.
    pub(crate) bomb: bool,
    /// Whether another wait is behind it.
    pub(crate) second: Second,
    /// Each poll is on another OS thread: here, on Tokio's, on one of its own.
    pub(crate) moves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Second {
    No,
    Stays,
    /// It is dropped after the partner's part, before the first goes on.
    Leaves,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rival {
    No,
    First,
    Last,
}

impl Plan {
    pub(crate) fn all(moves: bool) -> Vec<Self> {
        let mut plans = Vec::new();
        for before in 0..=if moves { 3 } else { 2 } {
            for serve in [false, true] {
                for rival in [Rival::No, Rival::First, Rival::Last] {
                    for goes_on in [false, true] {
                        for (bomb, second) in ends() {
                            // Both orders are one if nobody serves.
                            let new = serve || rival != Rival::Last;
                            if new
                                && !(moves && (bomb || before == 0))
                                && !(second != Second::No && before == 0)
                            {
                                plans.push(Self { before, serve, rival, goes_on, bomb, second, moves });
                            }
                        }
                    }
                }
            }
        }
        plans
    }
}

/// The ends with and without a bomb, and with and without another wait.
fn ends() -> impl Iterator<Item = (bool, Second)> {
    let seconds = [Second::No, Second::Stays, Second::Leaves];
    seconds.into_iter().flat_map(|second| [(false, second), (true, second)])
}

type Wait<O> = Pin<Box<dyn Future<Output = Option<O>> + Send>>;

/// The result of a poll.
enum Step<O> {
    Pending,
    Ended(Option<O>),
    /// With the panic that was planned.
    Panicked,
}

fn poll_with<O>(wait: &mut Wait<O>, waker: &Waker) -> Step<O> {
    let poll = AssertUnwindSafe(|| wait.as_mut().poll(&mut Context::from_waker(waker)));
    match catch_unwind(poll) {
        Ok(Poll::Pending) => Step::Pending,
        Ok(Poll::Ready(out)) => Step::Ended(out),
        Err(payload) if payload.is::<Planned>() => Step::Panicked,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Polls on the `turn`-th OS thread.
fn poll_at<O: Send>(
    turn: usize,
    tokio: &tokio::runtime::Handle,
    wait: &mut Wait<O>,
    waker: &Waker,
) -> Step<O> {
    match turn % 3 {
        0 => poll_with(wait, waker),
        1 => std::thread::scope(|scope| {
            // A thread of Tokio's pool has its context, and may be blocked.
            let inside = scope.spawn(|| tokio.block_on(async { poll_with(wait, waker) }));
            inside.join().unwrap()
        }),
        _ => std::thread::scope(|scope| scope.spawn(|| poll_with(wait, waker)).join().unwrap()),
    }
}

/// Others have their turn; in a machine, the budget is renewed.
async fn breathe(inside: bool) {
    if inside {
        yield_now().await;
    }
}

/// Steps a new synchronization, of the row's event in this shape, as planned.
pub(crate) async fn drive<E>(
    make: impl Fn(&Kit) -> Row<E>,
    name: &'static str,
    plan: Plan,
    inside: bool,
    tokio: &tokio::runtime::Handle,
) where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    let kit = Kit::new(plan.serve);
    let mut row = make(&kit);
    let witness = Witness::new();
    let (beat, rival) = mailbox();
    let case = shape(name, &mut *row.event, rival, &witness);
    if plan.rival != Rival::No && !case.has_rival {
        return;
    }
    let mut wait = Some(case.wait);
    let mut taken = None;
    let mut polls = 0;
    let (mut wakes, mut waker) = Wakes::new();
    // Each poll has a waker of its own: only the latest counts.
    let mut step = |wait: &mut Option<Wait<E::Output>>, wakes: &mut Arc<Wakes>| {
        let Some(future) = wait.as_mut() else { return };
        (*wakes, waker) = Wakes::new();
        let turn = if plan.moves { polls } else { 0 };
        polls += 1;
        match poll_at(turn, tokio, future, &waker) {
            Step::Pending => return,
            Step::Ended(out) => taken = out,
            Step::Panicked => taken = witness.saved.lock().unwrap().take(),
        }
        *wait = None;
    };
    for _ in 0..plan.before {
        breathe(inside).await;
        step(&mut wait, &mut wakes);
    }
    let over = row.ready || case.eager || case.broken;
    assert!(wait.is_some() || row.early || over && plan.before > 0, "commits by itself");
    let waited = plan.before > 0 && wait.is_some() || plan.second != Second::No;
    let facts = Facts { served: plan.serve, waited, second: plan.second == Second::Stays };
    let (second_wakes, second_waker) = Wakes::new();
    let mut second = None;
    if plan.second != Second::No && !row.ready && !row.early && !row.meets {
        let event = (row.event)();
        let mut wait: Wait<E::Output> = Box::pin(futures::FutureExt::map(event.sync(), Some));
        assert!(matches!(poll_with(&mut wait, &second_waker), Step::Pending), "commits by itself");
        second = Some(wait);
    }
    if plan.rival == Rival::First {
        // (Closed, if it has ended.)
        let _ = beat.try_send(());
    }
    if plan.serve {
        breathe(inside).await;
        (row.serve)();
    }
    if plan.rival == Rival::Last {
        // (Closed, if it has ended.)
        let _ = beat.try_send(());
    }
    if plan.second == Second::Leaves {
        second = None;
    }
    if plan.goes_on {
        if plan.before == 0 {
            breathe(inside).await;
            step(&mut wait, &mut wakes);
        }
        // A wait that can go on is woken, and then goes on.
        let can = plan.serve || plan.rival != Rival::No || row.ready;
        let start = Instant::now();
        let mut rounds = 0;
        while can && wait.is_some() {
            breathe(inside).await;
            (row.tend)();
            if wakes.count() > 0 {
                step(&mut wait, &mut wakes);
            }
            rounds += 1;
            if rounds > 20 {
                std::thread::sleep(Duration::from_micros(100));
            }
            assert!(start.elapsed() < FOREVER, "it could go on, and was not woken");
        }
    }
    // A value that was taken, and is dropped later, belongs to the row.
    let went = wait.is_none();
    kit.arm(plan.bomb);
    let end = catch_unwind(AssertUnwindSafe(|| drop(wait)));
    kit.arm(false);
    assert!(end.is_ok_and(|()| true) || plan.bomb, "a drop panicked");
    let lost = taken.is_none();
    if plan.goes_on && plan.rival == Rival::No && plan.serve && !case.eager && !case.broken {
        assert!(!lost, "served, and not taken");
    }
    if !plan.serve && !row.ready && !row.early {
        assert!(lost, "taken, and not served");
    }
    if went && case.has_rival && plan.rival == Rival::No {
        assert!(!lost, "lost to nobody");
    }
    // Nacks and abort actions: exactly when it lost.
    for nack in &*witness.nacks.lock().unwrap() {
        assert_eq!(nack.is_enabled(), lost, "a nack that lies");
    }
    let actions = witness.actions.load(Ordering::SeqCst);
    let begun = polls > 0;
    let expected = if lost && begun { actions } else { 0 };
    assert_eq!(witness.aborts.load(Ordering::SeqCst), expected, "abort actions");
    if lost
        && plan.serve
        && row.hands_on
        && let Some(wait) = &mut second
    {
        // The second wait gets the message that the first has not taken.
        let start = Instant::now();
        while taken.is_none() {
            breathe(inside).await;
            (row.tend)();
            if second_wakes.count() > 0
                && let Step::Ended(out) = poll_with(wait, &second_waker)
            {
                taken = out;
            }
            assert!(start.elapsed() < FOREVER, "the next was not woken");
        }
    }
    drop(second);
    breathe(inside).await;
    (row.verify)(taken, facts);
    drop((row.event, row.serve, row.tend));
    let start = Instant::now();
    while kit.ledger.live() > 0 && inside && start.elapsed() < FOREVER {
        breathe(inside).await;
    }
    kit.ledger.check();
}
