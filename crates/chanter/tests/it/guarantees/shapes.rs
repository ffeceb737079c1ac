//! Every combinator, alone and beside a rival that can win instead.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::event::{Ageing, choose_earliest, optional};
use chanter::prelude::*;
use futures::FutureExt;

use super::kit::Planned;

const HOUR: Duration = Duration::from_secs(3600);

/// One synchronization: `Some` if the event was taken, `None` if its rival was.
pub(crate) struct Case<O> {
    pub(crate) wait: Pin<Box<dyn Future<Output = Option<O>> + Send>>,
    /// The rival can win.
    pub(crate) has_rival: bool,
    /// Ends when it is first polled.
    pub(crate) eager: bool,
    /// Panics when it is first polled.
    pub(crate) broken: bool,
}

/// Records of the code around an event: its nacks, abort actions, and panics.
pub(crate) struct Witness<O> {
    pub(crate) nacks: Mutex<Vec<Nack>>,
    /// Abort actions that were added, and that have run.
    pub(crate) actions: AtomicUsize,
    pub(crate) aborts: AtomicUsize,
    /// The value that a `wrap` had when it panicked.
    pub(crate) saved: Mutex<Option<O>>,
}

impl<O> Witness<O> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            nacks: Mutex::default(),
            actions: AtomicUsize::new(0),
            aborts: AtomicUsize::new(0),
            saved: Mutex::new(None),
        })
    }

    fn action(self: &Arc<Self>) -> impl FnOnce() + Send + use<O>
    where
        O: Send,
    {
        self.actions.fetch_add(1, Ordering::SeqCst);
        let witness = Arc::clone(self);
        move || {
            witness.aborts.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(crate) const SHAPES: [&str; 29] = [
    "plain",
    "wrap",
    "guard",
    "with_nack",
    "on_abort",
    "boxed",
    "tuple",
    "tuple behind",
    "array of twins",
    "vec of triplets",
    "biased",
    "ageing",
    "earliest",
    "nested",
    "timeout",
    "timeout of zero",
    "by",
    "by the past",
    "select",
    "optional",
    "try_sync",
    "abort in choice",
    "nack in choice",
    "boxed in choice",
    "abort of timeout",
    "all at once",
    "panic in wrap",
    "panic in guard",
    "panic in rival",
];

/// `make`'s event in this shape.
pub(crate) fn shape<E>(
    name: &'static str,
    make: &mut dyn FnMut() -> E,
    rival: Receiver<()>,
    witness: &Arc<Witness<E::Output>>,
) -> Case<E::Output>
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    let lost = || rival.clone().into_recv().wrap(|_| None);
    let some = Some::<E::Output>;
    let nacked = |event: E| {
        let witness = Arc::clone(witness);
        with_nack(move |nack| {
            witness.nacks.lock().unwrap().push(nack);
            event
        })
    };
    let alone = |wait| Case { wait, has_rival: false, eager: false, broken: false };
    let rivals = |wait| Case { wait, has_rival: true, eager: false, broken: false };
    let eager = |wait| Case { wait, has_rival: false, eager: true, broken: false };
    let one = make();
    match name {
        "plain" => alone(one.sync().map(some).boxed()),
        "wrap" => alone(one.wrap(some).sync().boxed()),
        "guard" => alone(guard(move || one).sync().map(some).boxed()),
        "with_nack" => alone(nacked(one).sync().map(some).boxed()),
        "on_abort" => alone(one.on_abort(witness.action()).sync().map(some).boxed()),
        "boxed" => alone(Event::boxed(one).sync().map(some).boxed()),
        "tuple" => rivals(choose((one.wrap(some), lost())).sync().boxed()),
        "tuple behind" => rivals(choose((lost(), never(), one.wrap(some))).sync().boxed()),
        "array of twins" => alone(choose([one, make()]).sync().map(some).boxed()),
        "vec of triplets" => alone(choose(vec![one, make(), make()]).sync().map(some).boxed()),
        "biased" => rivals(choose_biased((lost(), one.wrap(some))).sync().boxed()),
        "ageing" => {
            let lost = lost();
            rivals(
                async move {
                    let mut ageing = Ageing::new();
                    ageing.choose((lost, one.wrap(some))).await
                }
                .boxed(),
            )
        }
        "earliest" => {
            let due = one.due(chanter::now()).wrap(some);
            rivals(choose_earliest((lost(), due)).sync().boxed())
        }
        "nested" => {
            let inner = choose([choose((never(), one.wrap(some)))]);
            rivals(choose((never(), choose_biased((inner, lost())))).sync().boxed())
        }
        "timeout" => rivals(choose((lost(), one.timeout(HOUR))).sync().boxed()),
        "timeout of zero" => eager(one.timeout(Duration::ZERO).sync().boxed()),
        "by" => rivals(choose((one.by(chanter::now() + HOUR), lost())).sync().boxed()),
        "by the past" => eager(one.by(chanter::now()).sync().boxed()),
        "select" => {
            let rival = rival.clone();
            rivals(
                async move {
                    select! {
                        out = one => Some(out),
                        _ = rival.recv() => None,
                    }
                }
                .boxed(),
            )
        }
        "optional" => rivals(choose((optional(Some(one.wrap(some))), lost())).sync().boxed()),
        "try_sync" => eager(std::future::ready(()).map(move |()| one.try_sync()).boxed()),
        "abort in choice" => {
            rivals(choose((one.on_abort(witness.action()).wrap(some), lost())).sync().boxed())
        }
        "nack in choice" => rivals(choose((lost(), nacked(one).wrap(some))).sync().boxed()),
        "boxed in choice" => {
            rivals(choose(vec![Event::boxed(one.wrap(some)), Event::boxed(lost())]).sync().boxed())
        }
        "abort of timeout" => {
            rivals(choose((one.timeout(HOUR).on_abort(witness.action()), lost())).sync().boxed())
        }
        "all at once" => {
            let (action, nacked) = (witness.action(), nacked(one));
            let inner = guard(move || Event::boxed(nacked.on_abort(action).wrap(some)));
            rivals(choose(vec![Event::boxed(choose([inner])), Event::boxed(lost())]).sync().boxed())
        }
        "panic in wrap" => {
            let witness = Arc::clone(witness);
            let spoilt = one.wrap(move |out| {
                *witness.saved.lock().unwrap() = Some(out);
                std::panic::panic_any(Planned)
            });
            rivals(choose((lost(), spoilt)).sync().boxed())
        }
        "panic in guard" => {
            let bad = guard(|| -> chanter::event::Never<_> { std::panic::panic_any(Planned) });
            let wait = choose((nacked(one).wrap(some), bad, make().wrap(some))).sync().boxed();
            Case { broken: true, ..alone(wait) }
        }
        "panic in rival" => {
            let bad = rival.into_recv().wrap(|_| std::panic::panic_any(Planned));
            rivals(choose((bad, nacked(one).wrap(some))).sync().boxed())
        }
        _ => unreachable!("{name}"),
    }
}
