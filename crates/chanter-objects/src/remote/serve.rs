//! The serving side: requests of other processes on objects of this one.

use std::cell::{Cell, UnsafeCell};
use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use chanter_cluster::__table::{Begin, Duty, longest, raw, raw_forwarded, read};
use chanter_cluster::wire::Body;
use chanter_cluster::{Caller, Process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::{ProcessContext, entered, within};
use super::hosted::for_hosted;
use super::request::{Allow, Asked, Placed, answer, route, still, unread};
use super::waits::told;
use crate::answer::Answer;
use crate::lazy::{Answers, Forward};
use crate::{ObjectError, Ref};

/// The service that runs the requests for a method that returns. `call` makes the call in this process.
pub fn serve<T, A, R, C>(name: &'static str, call: fn(Ref<T>, A) -> C) -> Begin
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize + 'static,
    C: IntoFuture<Output = Result<R, ObjectError>> + 'static,
    C::IntoFuture: Send,
{
    serve_if(name, |_| true, call)
}

/// Like [`serve`], for callers that `allow` accepts.
pub fn serve_if<T, A, R, C>(name: &'static str, allow: Allow, call: fn(Ref<T>, A) -> C) -> Begin
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize + 'static,
    C: IntoFuture<Output = Result<R, ObjectError>> + 'static,
    C::IntoFuture: Send,
{
    raw_forwarded(
        name,
        move |caller, body| route(allow, caller, body),
        move |caller, body| {
            let request = Unread::<A>::new(&caller, body);
            entered(caller.here(), served(allow, call, caller, request, |called| called))
        },
    )
}

/// Serves a request: finds its object, calls the method, and makes the answer. `run` waits for what the call gives.
async fn served<T, A, R, C, F>(
    allow: Allow,
    call: fn(Ref<T>, A) -> C,
    caller: Caller,
    request: Unread<A>,
    run: impl FnOnce(C::IntoFuture) -> F,
) -> Result<Body, String>
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize + 'static,
    C: IntoFuture,
    F: Future<Output = Result<R, ObjectError>>,
{
    let context = ProcessContext::of(&caller.here());
    let (called, hosted, place) = {
        let asked = Asked::read(&request.body)?;
        if !asked.is_let_in(allow, &caller, &context) {
            return request.refuse(&caller, ObjectError::Refused, None);
        }
        let place = asked.tells(&context);
        match asked.object(&context) {
            Ok(to) => (call(to, request.read(&asked)?).into_future(), asked.hosted(), place),
            Err(gone) => return request.refuse(&caller, gone, place),
        }
    };
    drop(request);
    let told = told(&context, (caller.origin(), caller.request()), run(called));
    drop(context);
    let result = for_hosted(hosted, told).await;
    fitting(&caller, answer(result, still(place))?)
}

/// A request whose arguments are still to be read. If it is dropped before that, they are read and dropped, so the
/// continuations among them end. (Its caller has gone. Or its caller is not the process that has sent them.)
struct Unread<A> {
    here: Process,
    body: Body,
    is_over: Cell<bool>,
    end: fn(&Process, &Body),
    arguments: PhantomData<fn() -> A>,
}

impl<A: DeserializeOwned> Unread<A> {
    fn new(caller: &Caller, body: Body) -> Self {
        Self { here: caller.here(), body, is_over: Cell::new(false), end: Self::end, arguments: PhantomData }
    }

    /// Reads the arguments.
    fn read(&self, asked: &Asked<'_>) -> Result<A, String> {
        self.is_over.set(true);
        read(asked.arguments)
    }

    /// The answer to a request that is not run. The caller ends the continuations that it has sent itself.
    fn refuse(&self, caller: &Caller, why: ObjectError, place: Option<Placed>) -> Result<Body, String> {
        self.is_over.set(caller.origin() == caller.process());
        unread(why, place)
    }

    fn end(here: &Process, body: &Body) {
        let end = || Asked::read(body).map(|asked| within(here, || drop(read::<A>(asked.arguments))));
        // Reading is user code. If it panics here, nobody waits for it.
        let _ = catch_unwind(AssertUnwindSafe(end));
    }
}

impl<A> Drop for Unread<A> {
    fn drop(&mut self) {
        if !self.is_over.get() {
            (self.end)(&self.here, &self.body);
        }
    }
}

/// The answer, or [`ObjectError::TooLong`] if it is too long for its caller.
fn fitting(caller: &Caller, answered: Body) -> Result<Body, String> {
    match longest(&caller.here(), caller.origin()) {
        Some(longest) if answered.len() > longest as usize => answer::<()>(Err(ObjectError::TooLong), None),
        _ => Ok(answered),
    }
}

/// The service that runs the requests for a method with a continuation, which answers the caller in the other
/// process.
pub fn serve_lazily<T, A, R, C>(name: &'static str, call: fn(Ref<T>, A) -> C) -> Begin
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize + Send + 'static,
    C: Forward<Answer = R> + 'static,
    C::IntoFuture: Send,
{
    serve_lazily_if(name, |_| true, call)
}

/// Like [`serve_lazily`], for callers that `allow` accepts.
pub fn serve_lazily_if<T, A, R, C>(name: &'static str, allow: Allow, call: fn(Ref<T>, A) -> C) -> Begin
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize + Send + 'static,
    C: Forward<Answer = R> + 'static,
    C::IntoFuture: Send,
{
    raw(
        name,
        move |caller, body| route(allow, caller, body),
        move |caller, duty, body| {
            let request = Unread::<A>::new(&caller, body);
            entered(caller.here(), served(allow, call, caller, request, move |called| answers(called, duty)))
        },
    )
}

/// Runs a call for a caller that is in another process.
async fn answers<R: Send + 'static>(call: impl Answers<R> + Send, duty: Duty) -> Result<R, ObjectError> {
    let place = Root(UnsafeCell::new(Answer::Owed(duty)));
    {
        let place = &place;
        let mut call = pin!(call);
        // SAFETY: the place is the call's until that is dropped, before the place.
        poll_fn(move |cx| unsafe { call.as_mut().poll_for(cx, place.0.get()) }).await?;
    }
    match place.0.into_inner() {
        Answer::Filled(value) => Ok(value),
        Answer::Failed(gone) => Err(gone),
        Answer::Kept(promise) => promise.await,
        // If the call was forwarded, this result is ignored.
        Answer::None | Answer::Owed(_) | Answer::Awaited(_) => Err(ObjectError::Unanswered),
    }
}

/// The place where the method answers.
struct Root<R>(UnsafeCell<Answer<R>>);

// SAFETY: the method alone uses it while it runs, and it is a part of the future that is polled here.
unsafe impl<R: Send> Sync for Root<R> {}
