//! Requests as bytes, which may be forwarded: the base of `chanter-objects`.
//!
//! A process may forward a request to a third one, which then answers the caller itself.
//!
//! ```text
//!   caller A ── ask ──► B ── forward ──► C
//!      ▲  ▲             │                │
//!      │  └── moved ────┘                │
//!      └───────────── answer ────────────┘
//! ```
//!
//! If the third process has no room for the request, it comes back with its body, and is forwarded again a little
//! later.
//!
//! INV-FORWARDED:
//!
//! 1. Each request has one holder, or is on its way to one: a process that forwards it gives its [`Owed`] away.
//! 2. The caller knows a holder: the last one that it has heard of, by the count of forwards. When that holder goes,
//!    the call ends as lost (law D6), whether the request is still there or not. When the caller hears of a later
//!    holder, it checks whether that has gone already.
//! 3. A call ends once: it is pending until then, and later messages find no call.
//! 4. A process without room for a request gives it back to the process that has forwarded it, and tells the caller so
//!    itself. That counts as one more forward.
//! 5. The number of a request is random (`numbers.rs`), and goes with the request to each of its holders, and to no other
//!    process. So a process that knows the number, in an answer or in a message about a later holder, has had the request.
//!
//! A forwarded request is judged by the proof of the process that sends it here; its caller is a claim. Only services
//! that are made for forwarded requests take them, and the others refuse them.
//!
//! (`forwarded.rs` has the rules, and `forwarded_models.rs` models of them.)
//!
//! A call's holder may go before the caller has heard of it. Then the call ends when the message about the holder
//! arrives. Its sender sends it a little after the request. If the sender goes before, the call ends as well.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use chanter::base::synchronization;
use chanter::{after, spawn, spawn_parasite};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answers::Outcome;
use super::at::At;
use super::awaited::Awaited;
use super::error::CallError;
use super::forwarded::Place;
use super::registry::{Begins, Start, message_of};
use super::run::Owed;
use super::{Ask, Caller};
use crate::engine::{Lane, ProcessId, Why};
use crate::lock::lock;
use crate::node::Node;
use crate::wire::{Body, Control, Ended, Number, decode, encode_into};

/// Appends a value to a body.
pub fn write<T: Serialize + ?Sized>(body: Body, value: &T) -> Result<Body, String> {
    encode_into(body, value)
}

/// Reads a value, which must take all the bytes.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    decode(bytes)
}

/// A call with bytes that was made. If this is dropped before its end, the call is withdrawn.
#[must_use = "futures do nothing unless awaited"]
pub struct Called {
    answer: chanter::event::Sync<Awaited>,
    request: u64,
}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Called(..)")
    }
}

impl Future for Called {
    type Output = Outcome;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        // SAFETY: pinned with us.
        unsafe { self.map_unchecked_mut(|this| &mut this.answer) }.poll(cx)
    }
}

impl Called {
    /// The number of the request.
    pub fn request(&self) -> u64 {
        self.request
    }
}

impl At {
    /// Makes a request with bytes, now. The asked process may forward it.
    ///
    /// # Errors
    /// The body, if the largest number of requests is under way to the process.
    #[doc(hidden)]
    pub fn call_raw(&self, name: &'static str, number: Number, body: Body) -> Result<Called, Body> {
        let awaited = self.make_for_any(name, number, body)?;
        Ok(Called { request: awaited.request(), answer: synchronization(awaited) })
    }

    /// Makes a request with bytes for whose answer nobody waits: see [`post`](Self::post).
    #[doc(hidden)]
    pub fn post_raw(&self, name: &'static str, number: Number, body: Body) -> Result<(), CallError> {
        self.post(Ask::<()> { name, number, body: Ok(body), answer: std::marker::PhantomData })
    }
}

/// The place of a request that does not belong here.
#[derive(Debug)]
pub struct Elsewhere {
    /// The process.
    pub to: u32,
    /// The body of the forwarded request.
    pub body: Body,
}

/// Returns the request if it is to run here. Otherwise forwards it, or ends it if that is impossible.
fn kept(number: Number, elsewhere: Option<Elsewhere>, owed: Owed, body: Body) -> Option<(Owed, Body)> {
    let Some(Elsewhere { to, body }) = elsewhere else { return Some((owed, body)) };
    if let Err((owed, why)) = owed.forward(to, number, body) {
        owed.end(Ended::NotBegun, Body::copied_from(why.to_string().as_bytes()));
    }
    None
}

/// Makes the starter of a service that takes requests with bytes. `route` is called first for each, in the server
/// thread: it names another place, or lets the request run here.
pub(crate) fn start<R>(
    number: Number,
    route: impl Fn(&Caller, &Body) -> Option<Elsewhere> + Send + Sync + 'static,
    handler: impl Fn(Caller, Duty, Body) -> R + Send + Sync + 'static,
) -> Start
where
    R: Future<Output = Result<Body, String>> + Send + 'static,
{
    Arc::new(Forwarded(move |caller: Caller, owed: Owed, body: Body| {
        let Some((owed, body)) = kept(number, route(&caller, &body), owed, body) else { return };
        let duty = Duty(Arc::new(Place::new(owed)));
        // The handler itself is the library's; its future runs user code.
        let work = handler(caller, duty.clone(), body);
        spawn_parasite(run(duty, work));
    }))
}

/// Begins requests that may have been forwarded.
struct Forwarded<F>(F);

impl<F: Fn(Caller, Owed, Body)> Begins for Forwarded<F> {
    fn begin(self: Arc<Self>, caller: Caller, owed: Owed, body: Body) {
        (self.0)(caller, owed, body);
    }

    fn takes_forwarded(&self) -> bool {
        true
    }
}

/// Like [`start`], for requests that are not forwarded once they have begun. `takes_forwarded` is true if they may have
/// been forwarded before.
pub(crate) fn start_here<R>(
    number: Number,
    takes_forwarded: bool,
    route: impl Fn(&Caller, &Body) -> Option<Elsewhere> + Send + Sync + 'static,
    handler: impl Fn(Caller, Body) -> R + Send + Sync + 'static,
) -> Start
where
    R: Future<Output = Result<Body, String>> + Send + 'static,
{
    let begins = move |caller: Caller, owed: Owed, body: Body| {
        let Some((owed, body)) = kept(number, route(&caller, &body), owed, body) else { return };
        let work = handler(caller, body);
        spawn_parasite(super::registry::run(owed, move || async move {
            match work.await {
                Ok(body) => (Ended::Well, body, ()),
                Err(why) => (Ended::BadRequest, Body::copied_from(why.as_bytes()), ()),
            }
        }));
    };
    if takes_forwarded { Arc::new(Forwarded(begins)) } else { Arc::new(begins) }
}

/// The duty to answer a request that runs. It may be forwarded.
#[derive(Clone)]
pub struct Duty(Arc<Place<Owed>>);

impl fmt::Debug for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Duty(..)")
    }
}

impl Duty {
    /// Whether another process has the duty now.
    pub fn is_handed_on(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Lets the process `to` answer instead, which gets `body`.
    ///
    /// # Errors
    /// The reason: that process has gone, or does not exist. The duty stays.
    pub fn forward(&self, to: u32, number: Number, body: Body) -> Result<(), Why> {
        let Some(owed) = self.0.take() else { return Ok(()) };
        owed.forward(to, number, body).map_err(|(owed, why)| {
            self.0.put_back(owed);
            why
        })
    }
}

/// Like `registry::run`, for requests that may be forwarded meanwhile.
async fn run(duty: Duty, work: impl Future<Output = Result<Body, String>>) {
    let ended = {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if duty.is_withdrawn(None) {
                return Poll::Ready(None);
            }
            match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                Ok(Poll::Ready(Ok(body))) => Poll::Ready(Some((Ended::Well, body))),
                Ok(Poll::Ready(Err(why))) => {
                    Poll::Ready(Some((Ended::BadRequest, Body::copied_from(why.as_bytes()))))
                }
                Err(payload) => {
                    let text = Body::copied_from(message_of(&*payload).as_bytes());
                    Poll::Ready(Some((Ended::Panicked, text)))
                }
                Ok(Poll::Pending) if duty.is_withdrawn(Some(cx)) => Poll::Ready(None),
                Ok(Poll::Pending) => Poll::Pending,
            }
        })
        .await
    };
    // The duty is taken first, since its lock must be free here: the answer may wake a caller in this process.
    let owed = duty.0.take();
    if let Some(owed) = owed {
        let (ended, body) = ended.unwrap_or_else(|| (Ended::GivenUp, Body::with_capacity(0)));
        owed.end(ended, body);
    }
}

impl Duty {
    fn is_withdrawn(&self, cx: Option<&Context<'_>>) -> bool {
        self.0.lock().as_mut().is_some_and(|owed| match cx {
            None => owed.is_withdrawn_or_runs(),
            Some(cx) => owed.is_withdrawn_as_it_blocks(cx.waker()),
        })
    }
}

impl Owed {
    /// Gives the request to another process: INV-FORWARDED.
    fn forward(self, to: u32, service: Number, body: Body) -> Result<(), (Self, Why)> {
        let (origin, request, forwarded) = self.asked;
        let Some(node) = self.node() else { return Err((self, Why::Left)) };
        let (to, forwarded) = (ProcessId(to), forwarded.saturating_add(1));
        if to != node.me() {
            let why = node.down(to).or_else(|| match node.longest(to) {
                Some(longest) if body.len() <= longest as usize => None,
                _ => Some(Why::Left),
            });
            if let Some(why) = why {
                return Err((self, why));
            }
        }
        let control = Control::Forward { service, request, origin: origin.0, forwarded };
        // The request ends here before it is sent, since it may come back.
        node.is_over(origin, request);
        if to == node.me() {
            node.take_in(to, control, body);
            node.notify();
        } else if let Err(why) = node.transmit_control(to, Lane::User, control, body) {
            return Err((self, why));
        }
        self.hand_on();
        node.tell_moved(origin, request, to, forwarded);
        Ok(())
    }
}

/// Pause of a request that has come back before it is forwarded again. Each further pause is twice as long, up to
/// [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The pause of a request that was forwarded that many times.
fn pause(forwarded: u32) -> Duration {
    // Each try counts two forwards: there and back.
    let times = (forwarded / 2).clamp(1, 8) - 1;
    (PAUSE * (1 << times)).min(LONGEST_PAUSE)
}

impl Owed {
    /// Forwards a request again after a pause, because the process `to` had no room for it.
    pub(super) async fn forward_again(mut self, to: ProcessId, service: Number, body: Body) {
        let is_wanted = {
            let (_, _, forwarded) = self.asked;
            let mut pause = pin!(async move { after(pause(forwarded)).await });
            poll_fn(|cx| match self.is_withdrawn_as_it_blocks(cx.waker()) {
                true => Poll::Ready(false),
                false => pause.as_mut().poll(cx).map(|()| true),
            })
            .await
        };
        if !is_wanted {
            self.end(Ended::GivenUp, Body::with_capacity(0));
        } else if let Err((owed, why)) = self.forward(to.0, service, body) {
            owed.end(Ended::NotBegun, Body::copied_from(why.to_string().as_bytes()));
        }
    }
}

/// Delay before callers are told that their calls were forwarded. Most have their answers by then, and the messages
/// of many calls go together. (Callers need the message only to notice a death, which takes no less time.)
const TOLD_AFTER: Duration = Duration::from_millis(1);

/// Forwarded calls of which their callers have not been told.
#[derive(Default)]
pub(crate) struct ForwardedCalls(Mutex<Vec<(ProcessId, Control)>>);

impl Node {
    fn tell_moved(self: &Arc<Self>, origin: ProcessId, request: u64, to: ProcessId, forwarded: u32) {
        if origin == self.me() {
            self.moved(request, to, forwarded);
            return;
        }
        let is_first = {
            let mut forwarded_calls = lock(&self.requests().forwarded.0);
            forwarded_calls.push((origin, Control::Moved { request, to: to.0, forwarded }));
            forwarded_calls.len() == 1
        };
        if is_first {
            let node = Arc::downgrade(self);
            drop(spawn(async move {
                after(TOLD_AFTER).await;
                if let Some(node) = node.upgrade() {
                    node.tell_all_moved();
                }
            }));
        }
    }

    /// Sends the messages that are due to callers of forwarded calls.
    pub(crate) fn tell_all_moved(&self) {
        let forwarded_calls = mem::take(&mut *lock(&self.requests().forwarded.0));
        for (origin, moved) in forwarded_calls {
            // A process that has gone need not be told.
            let _ = self.transmit_control(origin, Lane::User, moved, Body::with_capacity(0));
        }
    }
}
