//! The serving side: requests of other processes on objects of this one.

use std::cell::UnsafeCell;
use std::future::poll_fn;
use std::pin::pin;

use chanter_cluster::__table::{Begin, Duty, longest, raw, raw_forwarded, read};
use chanter_cluster::Caller;
use chanter_cluster::wire::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::{ProcessContext, entered, for_hosted};
use super::request::{Asked, answer, route, still};
use super::waits::told;
use crate::lazy::{Answer, Answers, Forward};
use crate::{ObjectError, Ref};

/// A function that decides whether an object serves a caller, whose identity its connection proves.
pub type Allow = fn(&Caller) -> bool;

/// The service that runs the requests for a method that returns. `call` makes the call in this process.
pub fn serve<T, A, R, C>(name: &'static str, call: fn(Ref<T>, A) -> C) -> Begin
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize,
    C: IntoFuture<Output = Result<R, ObjectError>> + 'static,
    C::IntoFuture: Send,
{
    serve_if(name, |_| true, call)
}

/// As [`serve`], for callers that `allow` accepts.
pub fn serve_if<T, A, R, C>(name: &'static str, allow: Allow, call: fn(Ref<T>, A) -> C) -> Begin
where
    T: Send + 'static,
    A: DeserializeOwned + 'static,
    R: Serialize,
    C: IntoFuture<Output = Result<R, ObjectError>> + 'static,
    C::IntoFuture: Send,
{
    raw_forwarded(
        name,
        move |caller, body| route(allow, caller, body),
        move |caller, body| {
            entered(caller.here(), async move {
                let context = ProcessContext::of(&caller.here());
                let (called, hosted, place) = {
                    let asked = Asked::read(&body)?;
                    if !asked.is_let_in(allow, &caller, &context) {
                        return answer::<R>(Err(ObjectError::Refused), None);
                    }
                    let place = asked.tells(&context);
                    match asked.object(&context) {
                        Ok(to) => (call(to, read(asked.arguments)?).into_future(), asked.hosted(), place),
                        Err(gone) => return answer::<R>(Err(gone), place),
                    }
                };
                drop(body);
                let told = told(&context, (caller.origin(), caller.request()), called);
                drop(context);
                let result = for_hosted(hosted, told).await;
                fitting(&caller, answer(result, still(place))?)
            })
        },
    )
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

/// As [`serve_lazily`], for callers that `allow` accepts.
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
            entered(caller.here(), async move {
                let context = ProcessContext::of(&caller.here());
                let (called, hosted, place) = {
                    let asked = Asked::read(&body)?;
                    if !asked.is_let_in(allow, &caller, &context) {
                        return answer::<R>(Err(ObjectError::Refused), None);
                    }
                    let place = asked.tells(&context);
                    match asked.object(&context) {
                        Ok(to) => (call(to, read(asked.arguments)?).into_future(), asked.hosted(), place),
                        Err(gone) => return answer::<R>(Err(gone), place),
                    }
                };
                drop(body);
                let told = told(&context, (caller.origin(), caller.request()), answers(called, duty));
                drop(context);
                let result = for_hosted(hosted, told).await;
                fitting(&caller, answer(result, still(place))?)
            })
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
