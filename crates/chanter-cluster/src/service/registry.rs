//! The services of a process.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use chanter::spawn_parasite;
use foldhash::fast::RandomState;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Caller;
use super::error::ServeError;
use super::run::Owed;
use crate::node::Node;
use crate::wire::{Body, Contents, Ended, Number, encode};

/// Begins requests.
pub(crate) trait Begins {
    /// Begins a request by a poll in place. The request shares its starter, so it needs no other share.
    fn begin(self: Arc<Self>, caller: Caller, owed: Owed, body: Body);

    /// Whether the service takes requests that were forwarded by a process that names the caller.
    fn takes_forwarded(&self) -> bool {
        false
    }
}

impl<F: Fn(Caller, Owed, Body)> Begins for F {
    fn begin(self: Arc<Self>, caller: Caller, owed: Owed, body: Body) {
        self(caller, owed, body);
    }
}

/// The starter of a service's requests.
pub(crate) type Start = Arc<dyn Begins + Send + Sync>;

/// The services of a process, by their numbers.
#[derive(Default)]
pub(crate) struct Registry {
    served: HashMap<Number, (&'static str, Start), RandomState>,
}

impl Registry {
    pub(super) fn insert(
        &mut self,
        name: &'static str,
        number: Number,
        start: Start,
    ) -> Result<(), ServeError> {
        if let Some((taken, _)) = self.served.get(&number) {
            return Err(ServeError::Taken(taken));
        }
        self.served.insert(number, (name, start));
        Ok(())
    }

    pub(super) fn remove(&mut self, number: Number) -> Option<Start> {
        self.served.remove(&number).map(|(_, start)| start)
    }

    pub(super) fn get(&self, number: Number) -> Option<Start> {
        self.served.get(&number).map(|(_, start)| Arc::clone(start))
    }
}

/// A service that is served as long as this lives. Requests that have begun go on afterwards.
#[must_use = "a service is served as long as this lives"]
pub struct Serving {
    node: Weak<Node>,
    name: &'static str,
    number: Number,
}

impl Serving {
    pub(super) fn new(node: &Arc<Node>, name: &'static str, number: Number) -> Self {
        Self { node: Arc::downgrade(node), name, number }
    }

    /// Serves it as long as the process lives.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Serving").field(&self.name).finish()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.unregister(self.number);
        }
    }
}

/// A service: its `allow`, and its handler.
struct Handled<L, H, T> {
    allow: L,
    handler: H,
    types: PhantomData<T>,
}

impl<L, H, Q, A, R> Begins for Handled<L, H, fn(Q) -> (A, R)>
where
    L: Fn(&Caller) -> bool + Send + Sync + 'static,
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
    H: Fn(Caller, Q) -> R + Send + Sync + 'static,
    R: Future<Output = A> + Send + 'static,
{
    fn begin(self: Arc<Self>, caller: Caller, owed: Owed, body: Body) {
        spawn_parasite(run(owed, move || async move {
            let Self { allow, handler, .. } = &*self;
            if !allow(&caller) {
                return (Ended::Refused, Body::with_capacity(0), None);
            }
            let question = match body.decode() {
                Ok(question) => question,
                Err(error) => return (Ended::BadRequest, Body::copied_from(error.as_bytes()), None),
            };
            drop(body);
            let answer = handler(caller, question).await;
            match encode(&answer) {
                Ok(body) => (Ended::Well, body, Some(answer)),
                Err(error) => (Ended::BadAnswer, Body::copied_from(error.as_bytes()), Some(answer)),
            }
        }));
    }
}

/// Makes the starter of requests that `handler` runs, if `allow` accepts the caller.
pub(crate) fn start<Q, A, F, R>(allow: impl Fn(&Caller) -> bool + Send + Sync + 'static, handler: F) -> Start
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
    F: Fn(Caller, Q) -> R + Send + Sync + 'static,
    R: Future<Output = A> + Send + 'static,
{
    Arc::new(Handled { allow, handler, types: PhantomData::<fn(Q) -> (A, R)> })
}

/// Runs a request: to its end, or until it is withdrawn. All of it is user code, which may panic. The future is made
/// in place: an argument would lie here twice, and be copied. Besides its end, `work` gives a value that is dropped
/// once the caller was told.
pub(super) async fn run<K, W: Future<Output = (Ended, Body, K)>>(mut owed: Owed, work: impl FnOnce() -> W) {
    let ended = {
        let mut work = pin!(work());
        poll_fn(|cx| {
            if owed.is_withdrawn_or_runs() {
                return Poll::Ready(None);
            }
            match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                Ok(Poll::Ready(ended)) => Poll::Ready(Some(Ok(ended))),
                Err(payload) => Poll::Ready(Some(Err(payload))),
                Ok(Poll::Pending) if owed.is_withdrawn_as_it_blocks(cx.waker()) => Poll::Ready(None),
                Ok(Poll::Pending) => Poll::Pending,
            }
        })
        .await
    };
    match ended {
        Some(Ok((ended, body, kept))) => {
            owed.end(ended, body);
            drop(kept);
        }
        Some(Err(payload)) => {
            let is_post = owed.is_post();
            owed.end(Ended::Panicked, Body::copied_from(message_of(&*payload).as_bytes()));
            if is_post {
                // The panic of a post is visible only here.
                resume_unwind(payload);
            }
        }
        None => owed.end(Ended::GivenUp, Body::with_capacity(0)),
    }
}

/// The message of a panic.
pub(crate) fn message_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
