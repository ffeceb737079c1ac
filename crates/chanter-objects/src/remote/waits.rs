//! Deadlocks among calls of objects, through several processes: how they are found and reported.
//!
//! A call that is answered soon leaves no trace here. A call that has waited for [`PATIENCE`] follows the wait-for graph:
//!
//! ```text
//!   call c of P ──► its request at Q ──► waits for an object at Q, which a method holds that waits for a call d of Q ──► ..
//!                                   └──► waits for a call e of Q ──► its request at R ──► ..
//! ```
//!
//! The call asks the process where its request runs what that request waits for. It goes on along each answer. If that leads back to the
//! call, the call is in a circle.
//!
//! A process finds out what a request waits for by polling it once more, with a [`Census`] on its stack. Each remote
//! call and each object's wait queue that is polled then adds itself. (The core does the same for its deadlock
//! reports.)
//!
//! INV-WAITS:
//!
//! 1. A process reports the waits of a request to any process that knows the request's [`Mark`]. The caller and the
//!    holders of a request know its number, and so its mark. Others learn marks from answers, and no number follows
//!    from a mark: a number gives the right to answer its request. The answer is believed for a report alone: no call
//!    ends by it.
//! 2. Only the call that waits asks. It asks at most [`MOST_ASKED`] questions at a time, and [`LOOKS`] times, at intervals that double. A
//!    process that is asked asks nobody else.
//! 3. A circle is reported when the same call has found it twice. A call in a circle cannot end before the next one has. So all
//!    waits of the circle were there together, unless a call was withdrawn meanwhile.
//! 4. A process reports its own calls. So each process of a circle reports it.
//!
//! A method may wait for a call *or* for something else, as in a choice with a timer. Its circle is reported, too. The call cannot be
//! answered before the method gives up.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use chanter::{
    Event, Sender, after,
    base::stack_local,
    choose,
    event::{Sync as Synchronizing, from_future},
    mailbox, spawn,
    time::After,
};
use chanter_cluster::__table::{SERVICES, Service, holder, linkme, raw_here, read, write};
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{Caller, Process};
use serde::{Deserialize, Serialize};

use super::census::{Call, Census, Leaf, held};
use super::circle::{Circle, Step};
use super::context::{ProcessContext, enter};
use super::wait_graph::{Blocked, Key, Mark, WAITS, lock};
use crate::place::Name;

/// Time until a call looks around for the first time. Each later interval is twice as long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of times that a call looks around, within about a quarter of an hour.
const LOOKS: u32 = 10;
/// Largest number of questions that a call asks each time.
const MOST_ASKED: usize = 64;
/// Largest number of waits of one request that a process reports.
const MOST_TOLD: usize = 64;
/// Largest number of questions about one request at a time.
const MOST_ASKERS: usize = 16;

/// The timer of a call that waits for its answer.
pub(super) struct Waiting {
    /// Pinned.
    timer: Synchronizing<After>,
    looks: u32,
    request: u64,
    /// Set once the call has looked around.
    known: Option<Weak<ProcessContext>>,
    /// Shared with the thread that looks around. That thread ends when `ends` is dropped.
    found: Arc<Mutex<Found>>,
    ends: Option<Sender<()>>,
}

#[derive(Default)]
struct Found {
    is_looking: bool,
    last: Option<Vec<Key>>,
    is_told: bool,
}

/// Guard of a thread that looks around, dropped when it stops.
struct Looking(Arc<Mutex<Found>>);

impl Drop for Looking {
    fn drop(&mut self) {
        lock(&self.0).is_looking = false;
    }
}

impl Waiting {
    pub(super) fn new(request: u64) -> Self {
        Self {
            timer: after(PATIENCE).sync(),
            looks: 0,
            request,
            known: None,
            found: Arc::default(),
            ends: None,
        }
    }

    /// Notes that the call was polled, and has no answer. `to` and `method` say what was called.
    pub(super) fn waits(
        self: Pin<&mut Self>,
        here: &Process,
        to: Name,
        method: Number,
        cx: &mut Context<'_>,
    ) {
        // SAFETY: the timer is not moved, and nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the timer is pinned with `self`, and is never moved out.
        let mut timer = unsafe { Pin::new_unchecked(&mut this.timer) };
        let (request, call) = (this.request, || Call { to, method, inside: held() });
        stack_local::with(|census: Option<&Census>| {
            if let Some(Census(leaves)) = census {
                leaves.borrow_mut().push(Leaf::Call(request, call()));
            }
        });
        while this.looks < LOOKS && timer.as_mut().poll(cx).is_ready() {
            this.looks += 1;
            timer.set(after(PATIENCE * (1 << this.looks)).sync());
            let context = ProcessContext::of(here);
            lock(&context.waits.calls).insert(request, call());
            this.known = Some(Arc::downgrade(&context));
            if std::mem::replace(&mut lock(&this.found).is_looking, true) {
                // The earlier search still waits for an answer.
                continue;
            }
            let looking = Looking(Arc::clone(&this.found));
            let (ends, ended) = mailbox::<()>();
            this.ends = Some(ends);
            let here = here.clone();
            drop(spawn(enter(&here.clone(), async move {
                let looks = from_future(look_around(here, context, request, Arc::clone(&looking.0)));
                choose((looks, ended.recv().wrap(drop))).await;
                drop(looking);
            })));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(context) = self.known.take().and_then(|context| context.upgrade()) {
            lock(&context.waits.calls).remove(&self.request);
        }
    }
}

/// A request's method that answers questions about what it waits for.
pub(super) struct Told<F> {
    context: Weak<ProcessContext>,
    /// The process that has made the request, and its number there.
    request: (u32, u64),
    blocked: Option<(Key, Arc<Blocked>)>,
    method: F,
}

/// Runs the method of a request. `request` is the process that has made it, and its number there.
pub(super) fn told<F: Future>(context: &Arc<ProcessContext>, request: (u32, u64), method: F) -> Told<F> {
    Told { context: Arc::downgrade(context), request, blocked: None, method }
}

impl<F: Future> Future for Told<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the method is not moved, and nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the method is pinned with `self`, and is never moved out.
        let method = unsafe { Pin::new_unchecked(&mut this.method) };
        let Some((_, blocked)) = &this.blocked else {
            let poll = method.poll(cx);
            if poll.is_pending()
                && let Some(context) = this.context.upgrade()
            {
                let waker = Mutex::new(cx.waker().clone());
                let blocked =
                    Arc::new(Blocked { is_told: AtomicBool::new(false), waker, asked: Mutex::default() });
                let key = (this.request.0, Mark::of(this.request.1));
                lock(&context.waits.requests).insert(key, Arc::clone(&blocked));
                this.blocked = Some((key, blocked));
            }
            return poll;
        };
        let old = {
            let mut waker = lock(&blocked.waker);
            (!waker.will_wake(cx.waker())).then(|| std::mem::replace(&mut *waker, cx.waker().clone()))
        };
        drop(old);
        let asked = std::mem::take(&mut *lock(&blocked.asked));
        if asked.is_empty() {
            return method.poll(cx);
        }
        let census = Census::default();
        let poll = stack_local::set(&census, || method.poll(cx));
        if poll.is_pending() {
            let leaves = census.0.into_inner();
            asked
                .into_iter()
                .for_each(|asked| drop(asked.try_send(leaves.iter().map(Leaf::again).collect())));
        }
        poll
    }
}

impl<F> Drop for Told<F> {
    fn drop(&mut self) {
        if let Some((key, _)) = self.blocked
            && let Some(context) = self.context.upgrade()
        {
            let blocked = lock(&context.waits.requests).remove(&key);
            drop(blocked);
        }
    }
}

/// A thing that a request waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Wait {
    /// A call that it has made.
    Call(Made),
    /// An object, held by a method that waits for a call. `inside` is an object that the request holds meanwhile.
    Line { inside: Option<Name>, for_call: Made },
    /// An object that the request holds itself.
    Itself(Name),
}

/// A call of the process that reports it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Made {
    request: Mark,
    /// The process that has the request now.
    holder: u32,
    /// The object inside of which it was made, if any, and the object that was called.
    inside: Option<Name>,
    to: Name,
    method: u64,
}

/// All that a request of this process waits for.
async fn waits_of(context: &ProcessContext, here: &Process, key: Key) -> Vec<Wait> {
    let blocked = lock(&context.waits.requests).get(&key).cloned();
    let Some(blocked) = blocked else { return Vec::new() };
    let (ask, told) = mailbox();
    {
        let mut asked = lock(&blocked.asked);
        if asked.len() >= MOST_ASKERS {
            return Vec::new();
        }
        asked.push(ask);
    }
    let waker = lock(&blocked.waker).clone();
    waker.wake();
    drop(blocked);
    // The request was woken. It is polled and answers, or it ends, and the question ends with it.
    let leaves = told.recv().await;
    let mut waits = Vec::new();
    for leaf in leaves.unwrap_or_default() {
        context.waits_of_leaf(here, leaf, &mut waits);
    }
    waits.truncate(MOST_TOLD);
    waits
}

impl ProcessContext {
    fn named(&self, (slot, generation): (u32, u32)) -> Name {
        (self.number, slot, generation)
    }

    /// Describes a call that waits. `holding` is an object that the call holds; `None` stands for the innermost one.
    fn made(&self, here: &Process, request: u64, call: &Call, holding: Option<(u32, u32)>) -> Option<Made> {
        let holder = holder(here, request)?;
        let inside = holding.or(call.inside.first().copied()).map(|name| self.named(name));
        Some(Made { request: Mark::of(request), holder, inside, to: call.to, method: call.method.0 })
    }

    fn waits_of_leaf(&self, here: &Process, leaf: Leaf, waits: &mut Vec<Wait>) {
        match leaf {
            Leaf::Call(request, call) => {
                waits.extend(self.made(here, request, &call, None).map(Wait::Call));
            }
            Leaf::Line(object, held) if held.contains(&object) => {
                waits.push(Wait::Itself(self.named(object)))
            }
            Leaf::Line(object, held) => {
                let holding: Vec<(u64, Call)> = {
                    let calls = lock(&self.waits.calls);
                    let holding = calls.iter().filter(|(_, call)| call.inside.contains(&object));
                    holding.map(|(request, call)| (*request, call.clone())).collect()
                };
                let inside = held.first().map(|&name| self.named(name));
                let made = holding
                    .iter()
                    .filter_map(|(request, call)| self.made(here, *request, call, Some(object)));
                waits.extend(made.map(|for_call| Wait::Line { inside, for_call }));
            }
        }
    }
}

/// Asks a process what a request there waits for.
async fn ask(here: &Process, process: u32, (of, request): Key) -> Vec<Wait> {
    let mut body = Body::with_capacity(20);
    body.extend_from_slice(&of.to_le_bytes());
    body.extend_from_slice(&request.0);
    // If too many are under way, the next look may find more.
    let Ok(called) = here.at(process).call_raw(WAITS, Number::of(WAITS), body) else { return Vec::new() };
    let Ok(answer) = called.await else { return Vec::new() };
    let mut waits: Vec<Wait> = read(&answer).unwrap_or_default();
    waits.truncate(MOST_TOLD);
    waits
}

/// Follows the waits of a call, and reports a circle if they lead back to it.
async fn look_around(here: Process, context: Arc<ProcessContext>, request: u64, found: Arc<Mutex<Found>>) {
    let start = (context.number, Mark::of(request));
    let Some(call) = lock(&context.waits.calls).get(&request).cloned() else { return };
    let Some(first) = context.made(&here, request, &call, None) else { return };
    // For each call that was reached: the call before it, and the wait that led from there.
    let mut ways: HashMap<Key, (Key, Wait)> = HashMap::new();
    let mut next = VecDeque::from([(first.holder, start)]);
    let mut closing = None;
    let mut asked = 0;
    while asked < MOST_ASKED
        && closing.is_none()
        && let Some((process, at)) = next.pop_front()
    {
        asked += 1;
        for wait in ask(&here, process, at).await {
            let (Wait::Call(made) | Wait::Line { for_call: made, .. }) = &wait else { continue };
            // A process reports only its own calls.
            let (to, holder) = ((process, made.request), made.holder);
            if to == start {
                closing = Some((at, wait));
                break;
            }
            if holder < here.count()
                && let Entry::Vacant(place) = ways.entry(to)
            {
                place.insert((at, wait));
                next.push_back((holder, to));
            }
        }
    }
    let Some((mut at, last)) = closing else { return };
    // From the end to the beginning.
    let (mut keys, mut waits) = (vec![start], vec![last]);
    while at != start {
        let Some((before, wait)) = ways.remove(&at) else { return };
        keys.push(at);
        waits.push(wait);
        at = before;
    }
    waits.reverse();
    keys.sort_unstable();
    let is_told = {
        let mut found = lock(&found);
        // INV-WAITS 3.
        let is_again = found.last.as_ref() == Some(&keys);
        found.last = Some(keys);
        !is_again || std::mem::replace(&mut found.is_told, true)
    };
    if !is_told && lock(&context.waits.calls).contains_key(&request) {
        let steps = waits.iter().flat_map(Step::of).collect();
        context.tell(&Circle { process: context.number, steps });
    }
}

impl Step {
    /// The steps of a wait in a report: two, if another object is held meanwhile.
    fn of(wait: &Wait) -> impl Iterator<Item = Self> {
        let (line, made) = match wait {
            Wait::Call(made) => (None, Some(made)),
            // A request that waits for the called object needs no step of its own: the step of its call covers it.
            Wait::Line { inside, for_call } => {
                let to = for_call.inside.filter(|_| inside.is_some());
                (to.map(|to| Self { inside: *inside, to, method: None }), Some(for_call))
            }
            Wait::Itself(object) => (Some(Self { inside: Some(*object), to: *object, method: None }), None),
        };
        let called = made.map(|made| {
            let mut names = SERVICES.iter().map(|service| service.name());
            let method = names.find(|name| Number::of(name).0 == made.method);
            let method = method.map(|name| name.split('#').next().unwrap_or(name));
            Self { inside: made.inside, to: made.to, method }
        });
        line.into_iter().chain(called)
    }
}

impl ProcessContext {
    fn tell(&self, circle: &Circle) {
        let handler = lock(&self.waits.handler).clone();
        match handler {
            Some(handler) => handler(circle),
            None => eprintln!("{circle}"),
        }
    }
}

/// Calls `handler` with each circle of calls in which this process takes part, instead of a report on the standard
/// error.
///
/// The handler runs on a thread of the machine, and blocks that thread alone.
pub fn on_circle(here: &Process, handler: impl Fn(&Circle) + Send + Sync + 'static) {
    let old = lock(&ProcessContext::of(here).waits.handler).replace(Arc::new(handler));
    drop(old);
}

/// Serves a process that asks what a request waits for.
async fn asked(caller: Caller, body: Body) -> Result<Body, String> {
    let read = || {
        let (of, request) = body.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*of), Mark(<[u8; 16]>::try_from(request).ok()?)))
    };
    let key = read().ok_or("this names no request")?;
    let here = caller.here();
    let context = ProcessContext::of(&here);
    let waits = waits_of(&context, &here, key).await;
    // An object that waits for itself is reported by its own process.
    if let Some(wait) = waits.iter().find(|wait| matches!(wait, Wait::Itself(_))) {
        context.tell_itself(key, wait);
    }
    write(Body::with_capacity(64), &waits)
}

impl ProcessContext {
    fn tell_itself(&self, key: Key, wait: &Wait) {
        let blocked = lock(&self.waits.requests).get(&key).cloned();
        let Some(blocked) = blocked else { return };
        // ORDER: Relaxed: the first thread that sets it reports, and nothing else depends on it.
        if !blocked.is_told.swap(true, Ordering::Relaxed) {
            self.tell(&Circle { process: self.number, steps: Step::of(wait).collect() });
        }
    }
}

#[linkme::distributed_slice(SERVICES)]
#[linkme(crate = linkme)]
static ASKED: Service = Service::new(WAITS, || {
    raw_here(WAITS, |_, _| None, |caller, body| enter(&caller.here(), asked(caller.clone(), body)))
});
