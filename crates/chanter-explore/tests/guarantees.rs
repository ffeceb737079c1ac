//! Guarantee 1 of `chanter` under the explorer: no loss, no duplication, no leak,
//! however a synchronization ends, in whatever order things happen.
//!
//! The base events and combinators are those of `chanter`'s own test `guarantees`, which steps each synchronization
//! by hand. Here each participant is a thread: the synchronizer, its partner, and a rival that wins instead. Another
//! thread drops the synchronization. One more waited before, and is not polled, or is dropped, too. The explorer
//! orders them, and pauses them before each of their operations. So the drop, the rival and the partner come at every
//! point of the protocol that a thread can see. (The points within an operation are loom's:
//! `chanter/src/event/guarantee_models.rs`.)
//!
//! Each case has some random schedules, and a few of the exhaustive search; core
//! events have all schedules within a bound of preemptions. More of them:
//! `CHANTER_EXPLORE_TIMES=20 cargo test --release`.
//!
//! Events that need the OS (sockets) are not in the table.

#[path = "../../chanter/tests/common/ledger.rs"]
mod ledger;
#[path = "../../chanter/tests/common/watchdog.rs"]
mod watchdog;

/// Items that the shared files expect at this place.
mod common {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    pub(crate) use crate::ledger::{Ledger, Payload};
    pub(crate) use crate::watchdog;

    /// Polls once, with a waker that does nothing.
    pub(crate) fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }
}

#[allow(dead_code, reason = "shared with `chanter`")]
#[path = "../../chanter/tests/it/guarantees/channels.rs"]
mod channels;
#[allow(dead_code, reason = "shared with `chanter`")]
#[path = "../../chanter/tests/it/guarantees/kit.rs"]
mod kit;
#[allow(dead_code, reason = "shared with `chanter`")]
#[path = "../../chanter/tests/it/guarantees/others.rs"]
mod others;
#[allow(dead_code, reason = "shared with `chanter`")]
#[path = "../../chanter/tests/it/guarantees/shapes.rs"]
mod shapes;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use chanter::prelude::*;
use chanter_explore::Explorer;
use futures::FutureExt;
use futures::future::{Either, select};

use crate::watchdog::watchdog;
use kit::{Facts, Kit, Planned, Row};
use shapes::{Case, SHAPES, Witness, shape};

/// Participants.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    serve: bool,
    rival: bool,
    /// Whether another thread drops it.
    stop: bool,
    /// The first message that is dropped with it panics.
    bomb: bool,
    second: Second,
}

/// Another thread that waits before it, and is not polled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Second {
    No,
    Stays,
    /// It is dropped some time.
    Leaves,
}

fn plans() -> Vec<Plan> {
    let plan = |serve, rival, stop, second| Plan { serve, rival, stop, bomb: false, second };
    vec![
        plan(true, false, false, Second::No),
        plan(true, false, true, Second::No),
        plan(false, false, true, Second::No),
        plan(false, true, false, Second::No),
        plan(true, true, false, Second::No),
        plan(true, true, true, Second::No),
        plan(true, false, true, Second::Stays),
        plan(true, false, true, Second::Leaves),
        plan(true, false, false, Second::Leaves),
        Plan { bomb: true, ..plan(true, false, true, Second::No) },
    ]
}

type Wait = Pin<Box<dyn Future<Output = Option<Output>> + Send>>;

/// Polls the kept synchronization, twice, since the explorer may pause it the first time.
fn poll_kept(wait: &mut Wait) -> bool {
    let mut poll = || wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    poll() && poll()
}

/// Others run until they block, or have run for a while.
async fn settle() {
    for _ in 0..6 {
        yield_now().await;
    }
}

/// Shapes of the event itself, without a box around it.
const BARE: [&str; 2] = ["bare", "bare in choice"];

/// Result of any event.
type Output = Box<dyn Any + Send>;

fn erase<O: Send + 'static>(out: O) -> Output {
    Box::new(out)
}

/// A row and one of its synchronizations, whatever the event's type.
struct Scene {
    case: Case<Output>,
    row: Row<BoxEvent<'static, Output>>,
    beat: Sender<()>,
    witness: Arc<Witness<Output>>,
}

fn scene<E>(make: &impl Fn(&Kit) -> Row<E>, name: &'static str, kit: &Kit) -> Scene
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    let Row { mut event, serve, tend, is_tended, verify, ready, early, hands_on, meets } = make(kit);
    let (beat, rival) = mailbox();
    let witness = Witness::new();
    let some = |out| Some(erase::<E::Output>(out));
    let bare = |wait, has_rival| Case { wait, has_rival, eager: false, broken: false };
    let first = match name {
        "bare" => Some(bare(event().sync().map(some).boxed(), false)),
        "bare in choice" => {
            let lost = rival.clone().into_recv().wrap(|_| None);
            Some(bare(choose((lost, event().wrap(some))).sync().boxed(), true))
        }
        _ => None,
    };
    // Erased, or each row would be compiled for each shape.
    let mut event: Box<dyn FnMut() -> BoxEvent<'static, Output>> =
        Box::new(move || Event::boxed(event().wrap(erase)));
    let verify: Box<dyn FnOnce(Option<Output>, Facts)> = Box::new(move |taken, facts| {
        let taken = taken.map(|taken| *taken.downcast::<E::Output>().expect("what this row yields"));
        verify(taken, facts);
    });
    let case = first.unwrap_or_else(|| shape(name, &mut *event, rival, &witness));
    let row = Row { event, serve, tend, is_tended, verify, ready, early, hands_on, meets };
    Scene { case, row, beat, witness }
}

/// One synchronization, and the participants that the plan names.
async fn play(scene: &dyn Fn(&Kit) -> Scene, plan: Plan) {
    let kit = Kit::new(plan.serve);
    let Scene { case, mut row, beat, witness } = scene(&kit);
    let lonely = row.ready || row.early || row.meets;
    if plan.rival && !case.has_rival
        || plan.second != Second::No && lonely
        || plan.second != Second::No && !plan.stop && !row.hands_on
    {
        return;
    }
    let second = Rc::new(RefCell::new(None));
    if plan.second != Second::No {
        let mut wait: Wait = (row.event)().sync().map(Some).boxed();
        assert!(poll_kept(&mut wait), "commits by itself");
        *second.borrow_mut() = Some(wait);
    }
    let (stop, stopped) = mailbox::<()>();
    let polls = Rc::new(Cell::new(0));
    // The taken messages, and whether it ended by itself.
    let owner = {
        let (polls, witness, kit, mut wait) = (polls.clone(), witness.clone(), kit.clone(), case.wait);
        spawn_local(async move {
            let end = {
                let counted = poll_fn(|cx| {
                    polls.set(polls.get() + 1);
                    wait.as_mut().poll(cx)
                });
                let caught = pin!(AssertUnwindSafe(counted).catch_unwind());
                match select(caught, pin!(stopped.recv().sync())).await {
                    Either::Left((end, _)) => Some(end),
                    Either::Right(_) => None,
                }
            };
            let went = end.is_some();
            let taken = match end {
                None => None,
                Some(Ok(out)) => out,
                Some(Err(payload)) if payload.is::<Planned>() => witness.saved.lock().unwrap().take(),
                Some(Err(payload)) => resume_unwind(payload),
            };
            kit.arm(plan.bomb);
            let end = catch_unwind(AssertUnwindSafe(|| drop(wait)));
            kit.arm(false);
            assert!(end.is_ok() || plan.bomb, "a drop panicked");
            (taken, went)
        })
    };
    let done = Rc::new(Cell::new(false));
    let mut idle = Some((row.serve, row.tend));
    let partner = plan.serve.then(|| {
        let ((mut serve, mut tend), tended) = (idle.take().expect("once"), row.is_tended);
        let done = done.clone();
        spawn_local(async move {
            serve();
            while tended && !done.get() {
                tend();
                yield_now().await;
            }
            // Both are kept, since the row accounts for the messages that they hold.
            (serve, tend)
        })
    });
    let rival = plan.rival.then(|| {
        let beat = beat.clone();
        // (Closed, if it has ended.)
        spawn_local(async move { beat.try_send(()).unwrap_or(()) })
    });
    let stopper = plan.stop.then(|| {
        let stop = stop.clone();
        spawn_local(async move { stop.try_send(()).unwrap_or(()) })
    });
    let leaver = (plan.second == Second::Leaves).then(|| {
        let second = second.clone();
        spawn_local(async move {
            let gone = second.borrow_mut().take();
            drop(gone);
        })
    });

    let (mut taken, went) = owner.join().await.unwrap();
    for helper in [rival, stopper, leaver].into_iter().flatten() {
        helper.join().await.unwrap();
    }
    let lost = taken.is_none();
    let over = case.eager || case.broken;
    if plan.serve && !plan.rival && !plan.stop && !over {
        assert!(!lost, "served, and not taken");
    }
    if !plan.serve && !row.ready && !row.early {
        assert!(lost, "taken, and not served");
    }
    if went && case.has_rival && !plan.rival {
        assert!(!lost, "lost to nobody");
    }
    // Nacks and abort actions: exactly when it lost.
    for nack in &*witness.nacks.lock().unwrap() {
        assert_eq!(nack.is_enabled(), lost, "a nack that lies");
    }
    let (actions, aborts) = (witness.actions.load(Ordering::SeqCst), witness.aborts.load(Ordering::SeqCst));
    let expected = if lost && polls.get() > 0 { actions } else { 0 };
    // The only poll may have been paused before it began.
    assert!(aborts == expected || aborts == 0 && polls.get() == 1 && !went, "{aborts} abort actions");
    let kept = second.borrow_mut().take();
    if let Some(wait) = kept
        && lost
        && plan.serve
        && row.hands_on
    {
        // Messages that the first has not taken are the second's.
        taken = wait.await;
        assert!(taken.is_some());
    }
    done.set(true);
    let partner = match partner {
        Some(partner) => Some(partner.join().await.unwrap()),
        None => None,
    };
    settle().await;
    let facts = Facts { served: plan.serve, waited: true, second: plan.second != Second::No };
    (row.verify)(taken, facts);
    drop((row.event, partner, idle));
    for _ in 0..100 {
        if kit.ledger.live() == 0 {
            break;
        }
        yield_now().await;
    }
    kit.ledger.check();
}

/// Planned panics are silent; others say where they come from.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                usual(info);
            }
        }));
    });
}

/// How many times as many schedules as CI runs.
fn zeal() -> u64 {
    std::env::var("CHANTER_EXPLORE_TIMES").ok().and_then(|zeal| zeal.parse().ok()).unwrap_or(1)
}

fn every_order<E>(
    row: &'static str,
    make: impl Fn(&Kit) -> Row<E>,
    names: &[&'static str],
    explorer: &Explorer,
) where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    quiet();
    let mut schedules = 0;
    for (place, name) in names.iter().enumerate() {
        let scene = |kit: &Kit| scene(&make, name, kit);
        let scene: &dyn Fn(&Kit) -> Scene = &scene;
        for (number, plan) in plans().into_iter().enumerate() {
            let seed = (place * 100 + number) as u64;
            let report = explorer.clone().seed(seed).check(|| play(scene, plan));
            schedules += report.schedules;
            assert!(!report.has_failed(), "{row}, {name}, {plan:?}\n{report}");
        }
    }
    println!("{row}: {schedules} schedules");
}

macro_rules! table {
    ($($room:ident :: $row:ident),* $(,)?) => {
        $(#[test]
        fn $row() {
            watchdog!(120);
            // Their time-outs are long enough.
            let explorer = Explorer::new().early_timers(false).random(6 * zeal()).exhaustive().preemptions(1).schedules(12 * zeal());
            let all: Vec<_> = BARE.into_iter().chain(SHAPES).collect();
            every_order(stringify!($row), $room::$row, &all, &explorer);
        })*
    };
}

table! {
    channels::recv_rendezvous,
    channels::recv_bounded,
    channels::recv_mailbox,
    channels::recv_of_asend,
    channels::kept_rendezvous,
    channels::kept_bounded,
    channels::recv_of_closed,
    channels::send_rendezvous,
    channels::send_bounded,
    channels::send_mailbox,
    channels::send_to_closed,
    channels::send_from_rendezvous,
    channels::send_from_bounded,
    channels::send_from_to_closed,
    channels::ivar,
    channels::cvar,
    channels::mvar_take,
    channels::mvar_read,
    channels::mvar_put,
    channels::mvar_put_from,
    channels::mvar_swap,
    channels::swap_ends,
    channels::swap_channel,
    channels::swap_from,
    channels::swap_channel_from,
    channels::multicast_port,
    channels::broadcast_subscriber,
    channels::watcher,
    channels::barrier,
    channels::call,
    channels::accept,
    others::mutex,
    others::rwlock_read,
    others::rwlock_write,
    others::semaphore,
    others::condvar,
    others::timer,
    others::always_ready,
    others::nack,
    others::future_in_place,
    others::join,
    others::future_on_host,
    others::gathered,
}

/// Every schedule with at most two preemptions, of the events that the others are
/// made of.
mod every_schedule {
    use super::*;

    const NAMES: [&str; 6] =
        [BARE[0], BARE[1], "with_nack", "nack in choice", "array of twins", "panic in wrap"];

    macro_rules! core {
        ($($room:ident :: $row:ident),* $(,)?) => {
            $(#[test]
            fn $row() {
                watchdog!(120);
                let explorer = Explorer::new().exhaustive().preemptions(1 + zeal().ilog2().div_ceil(2)).schedules(u64::MAX);
                every_order(stringify!($row), $room::$row, &NAMES, &explorer);
            })*
        };
    }

    core! {
        channels::recv_rendezvous,
        channels::recv_bounded,
        channels::recv_mailbox,
        channels::send_from_rendezvous,
        channels::send_rendezvous,
        channels::send_bounded,
        channels::ivar,
        channels::mvar_take,
        others::nack,
    }
}
