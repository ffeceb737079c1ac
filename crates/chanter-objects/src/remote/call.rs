//! `RemoteCall`: a call that is made in another process.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use chanter::after;
use chanter_cluster::__table::{Called, read, write};
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{At, Begun as BegunThere, CallError, Process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::{ProcessContext, current, within};
use super::hosted::home_of;
use super::key::Key;
use super::migration::whereabouts;
use super::request::{Asked, How, NOBODY, answered, is_unread};
use super::sent::{Sent, not_sent, sending};
use super::waits::Waiting;
use crate::answer::Answer;
use crate::place::Name;
use crate::{Begun, ObjectError, Ref, slot};

/// Pause of a call before it asks again, if too many requests are under way. Each further pause is twice as long, up
/// to [`LONGEST_PAUSE`]. (Many calls may wait, and must not keep the threads that they wait for from running.)
const PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A request that is under way.
pub(crate) struct RemoteCall<R> {
    here: Process,
    /// The object's name, and whether it was asked by a hint.
    name: Name,
    is_hinted: bool,
    /// The method.
    number: Number,
    /// Continuations among the arguments: ended if the call is not made.
    sent: Vec<Sent>,
    stage: Stage<R>,
    finish: Finish<R>,
}

// SAFETY: only this call uses the answer's place, and the call is a part of the future that has the place.
unsafe impl<R> Send for RemoteCall<R> {}

#[allow(
    clippy::large_enum_variant,
    reason = "a call lies in a box of its own, and most are in the large stage"
)]
enum Stage<R> {
    /// Too many requests were under way.
    Paused { request: Request, pause: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// Both fields are pinned.
    Called(Called, Waiting),
    /// The call is over, or was forwarded.
    Over(Option<Result<R, ObjectError>>),
}

/// A request, and the process that gets it.
struct Request {
    at: At,
    name: &'static str,
    number: Number,
    body: Body,
    pause: Duration,
}

/// The way in which an answer is read: as `R` itself, or as `()` where the value is put into a continuation's place.
struct Finish<R> {
    place: *mut (),
    read: unsafe fn(*mut (), &[u8]) -> Result<R, String>,
}

/// Reads the value.
unsafe fn value<R: DeserializeOwned>(_: *mut (), bytes: &[u8]) -> Result<R, String> {
    read(bytes)
}

/// Puts the value into a continuation's place.
///
/// # Safety
/// `place` is that of an `Answer<R>`, and nothing else uses it.
unsafe fn fill<R: DeserializeOwned>(place: *mut (), bytes: &[u8]) -> Result<(), String> {
    let value = read(bytes)?;
    // SAFETY: the caller gives the place of an `Answer<R>` that nothing else uses.
    unsafe { *place.cast::<Answer<R>>() = Answer::Filled(value) };
    Ok(())
}

/// The process to ask, and the object to ask for.
pub(super) struct Target {
    pub(super) here: Process,
    pub(super) process: u32,
    /// Slot and generation, there.
    object: (u32, u32),
    how: How,
    /// The object's name, wherever the object is.
    name: Name,
}

impl Target {
    /// The target of an object that is not here: its place, or the place of a hint.
    pub(super) fn of<T>(to: Ref<T>) -> Result<Self, ObjectError> {
        let Some((slot, generation)) = to.local() else {
            let (context, mut target) = Self::seen(to)?;
            if let Some(place) = context.hints.get(target.name) {
                target.go_to(&context, place);
            }
            return Ok(target);
        };
        let here = current().ok_or(ObjectError::Elsewhere)?;
        let name = (slot::number_of(slot), generation);
        let home = (here.number(), name.0, name.1);
        let place = whereabouts(name);
        if let (None, Some(home)) = (place, home_of(name)) {
            // This was a hosted object, which ends with its home.
            if here.down(home.0).is_some() {
                return Err(ObjectError::Ended);
            }
            return Ok(Self::exactly(here, home));
        }
        // It may have come back meanwhile.
        let (process, slot, generation) = place.unwrap_or(home);
        let how = if process == home.0 { How::Home } else { How::Hinted(home) };
        Ok(Self { here, process, object: (slot, generation), how, name: home })
    }

    fn go_to(&mut self, context: &ProcessContext, (process, slot, generation): Name) {
        if self.here.down(process).is_some() {
            context.hints.remove(self.name);
        } else {
            (self.process, self.object) = (process, (slot, generation));
            self.how = How::Hinted(self.name);
        }
    }

    /// The target of an object of another process: the place where it was made.
    pub(super) fn home<T>(to: Ref<T>) -> Result<Self, ObjectError> {
        Self::seen(to).map(|(_, target)| target)
    }

    fn seen<T>(to: Ref<T>) -> Result<(Arc<ProcessContext>, Self), ObjectError> {
        let (place, generation) = to.away().ok_or(ObjectError::Elsewhere)?;
        let context = ProcessContext::at(place.context).ok_or(ObjectError::Elsewhere)?;
        let here = context.here().ok_or(ObjectError::Elsewhere)?;
        Ok((context, Self::exactly(here, (place.process, place.slot, generation))))
    }

    /// The target with exactly this place.
    pub(super) fn exactly(here: Process, name: Name) -> Self {
        Self { here, process: name.0, object: (name.1, name.2), how: How::Home, name }
    }

    /// A process as a target, for no object.
    pub(super) fn nobody(here: Process, process: u32) -> Self {
        Self::exactly(here, (process, NOBODY.0, NOBODY.1))
    }

    fn body<A: Serialize>(&self, arguments: &A) -> Result<(Body, Vec<Sent>), ObjectError> {
        let body = Asked::begin(self.object, self.how);
        let (body, sent) =
            sending(&self.here, self.process, || within(&self.here, || write(body, arguments)));
        match body {
            Ok(body) => Ok((body, sent)),
            Err(_) => {
                not_sent(&self.here, sent);
                Err(ObjectError::Incompatible)
            }
        }
    }
}

impl<R> RemoteCall<R> {
    /// Asks for a method's answer.
    pub(super) fn of<T, A: Serialize>(to: Ref<T>, key: Key<A, R>, arguments: &A) -> Result<Self, ObjectError>
    where
        R: DeserializeOwned,
    {
        Self::to(Target::of(to)?, key, arguments)
    }

    /// Asks a given target for a method's answer.
    pub(super) fn to<A: Serialize>(target: Target, key: Key<A, R>, arguments: &A) -> Result<Self, ObjectError>
    where
        R: DeserializeOwned,
    {
        let (body, sent) = target.body(arguments)?;
        let finish = Finish { place: ptr::null_mut(), read: value::<R> };
        Ok(Self::make(target, key.name, key.number, body, sent, finish))
    }

    fn make(
        target: Target,
        name: &'static str,
        number: Number,
        body: Body,
        sent: Vec<Sent>,
        finish: Finish<R>,
    ) -> Self {
        let at = target.here.at(target.process);
        let stage = Request { at, name, number, body, pause: PAUSE }.make();
        Self::with(target, number, sent, stage, finish)
    }

    fn with(target: Target, number: Number, sent: Vec<Sent>, stage: Stage<R>, finish: Finish<R>) -> Self {
        let is_hinted = matches!(target.how, How::Hinted(_));
        Self { here: target.here, name: target.name, is_hinted, number, sent, stage, finish }
    }

    fn end(&mut self, outcome: Result<Body, CallError>) -> Result<R, ObjectError> {
        let sent = std::mem::take(&mut self.sent);
        if !sent.is_empty() && !is_made(&outcome) {
            not_sent(&self.here, sent);
        }
        let answer = outcome.map_err(gone).inspect_err(|_| self.forget_hint())?;
        let (value, placed) = answered(&answer);
        // INV-REQUEST 3.
        if let Some((object, place)) = placed
            && object == self.name
            && self.here.number() != self.name.0
            && place.0 < self.here.count()
        {
            ProcessContext::of(&self.here).hints.insert(self.name, place);
        }
        // SAFETY: `Finish` was made with a `read` for its place, and the place lives as long as this call.
        within(&self.here, || unsafe {
            (self.finish.read)(self.finish.place, value?).map_err(|_| ObjectError::Incompatible)
        })
    }

    fn forget_hint(&self) {
        if self.is_hinted {
            ProcessContext::of(&self.here).hints.remove(self.name);
        }
    }
}

impl RemoteCall<()> {
    /// Asks for a method's answer, for a continuation. If the caller of the continuation is in another process
    /// itself, the call is forwarded.
    ///
    /// # Safety
    /// The place is there, and nobody else's, as long as this is.
    pub(super) unsafe fn answering<T, A: Serialize, R: DeserializeOwned>(
        to: Ref<T>,
        key: Key<A, R>,
        arguments: &A,
        place: *mut Answer<R>,
    ) -> Result<Self, ObjectError> {
        let target = Target::of(to)?;
        let (body, sent) = target.body(arguments)?;
        let finish = Finish { place: place.cast(), read: fill::<R> };
        // SAFETY: the caller keeps the place alive and unshared while this lives.
        if let Answer::Owed(duty) = unsafe { &*place } {
            let handed = duty.forward(target.process, key.number, body);
            if handed.is_err() {
                not_sent(&target.here, sent);
            }
            let over = handed.map_err(|_| ObjectError::Lost { begun: Begun::No });
            return Ok(Self::with(target, key.number, Vec::new(), Stage::Over(Some(over)), finish));
        }
        Ok(Self::make(target, key.name, key.number, body, sent, finish))
    }
}

/// Whether the method may have got its arguments.
fn is_made(outcome: &Result<Body, CallError>) -> bool {
    match outcome {
        Ok(answer) => !is_unread(answer),
        // The watch on the lost process ends the continuations that were sent there.
        Err(error) => matches!(
            error,
            CallError::Panicked(_)
                | CallError::BadAnswer(_)
                | CallError::Lost { begun: BegunThere::Unknown, .. }
        ),
    }
}

impl<R> Drop for RemoteCall<R> {
    fn drop(&mut self) {
        if !self.sent.is_empty() {
            not_sent(&self.here, std::mem::take(&mut self.sent));
        }
    }
}

impl Request {
    fn make<R>(self) -> Stage<R> {
        let Self { at, name, number, body, pause: time } = self;
        match at.call_raw(name, number, body) {
            Ok(called) => {
                let waiting = Waiting::new(called.request());
                Stage::Called(called, waiting)
            }
            Err(body) => {
                let pause: Pin<Box<dyn Future<Output = ()> + Send>> =
                    Box::pin(async move { after(time).await });
                let again = (2 * time).min(LONGEST_PAUSE);
                Stage::Paused { request: Self { at, name, number, body, pause: again }, pause }
            }
        }
    }
}

impl<R> Future for RemoteCall<R> {
    type Output = Result<R, ObjectError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the fields of `Stage::Called` are not moved until the call is over.
        let this = unsafe { self.get_unchecked_mut() };
        loop {
            match &mut this.stage {
                Stage::Paused { pause, .. } => {
                    if pause.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if let Stage::Paused { request, .. } =
                        std::mem::replace(&mut this.stage, Stage::Over(None))
                    {
                        this.stage = request.make();
                    }
                }
                Stage::Called(called, waiting) => {
                    // SAFETY: pinned with us.
                    let Poll::Ready(outcome) = unsafe { Pin::new_unchecked(called) }.poll(cx) else {
                        // SAFETY: pinned with us.
                        let waiting = unsafe { Pin::new_unchecked(waiting) };
                        waiting.waits(&this.here, this.name, this.number, cx);
                        return Poll::Pending;
                    };
                    this.stage = Stage::Over(None);
                    return Poll::Ready(this.end(outcome));
                }
                Stage::Over(result) => {
                    return Poll::Ready(result.take().expect("a call is polled behind its end"));
                }
            }
        }
    }
}

/// The error that a call yields instead of a value.
///
/// # Panics
/// If the method has panicked: as with a local call, the panic goes on in the caller.
pub(super) fn gone(error: CallError) -> ObjectError {
    match error {
        CallError::Lost { begun, .. } => ObjectError::Lost {
            begun: match begun {
                BegunThere::No => Begun::No,
                BegunThere::Unknown => Begun::Unknown,
            },
        },
        CallError::GivenUp => ObjectError::Lost { begun: Begun::Unknown },
        CallError::NotBegun(_) => ObjectError::Lost { begun: Begun::No },
        CallError::NoSuchProcess(_) => ObjectError::Ended,
        // No caller gets this error: a call that finds too many under way waits (`Stage::Paused`).
        CallError::Full(_) => ObjectError::Lost { begun: Begun::No },
        CallError::Panicked(message) => resume_unwind(Box::new(message)),
        CallError::TooLong { .. } => ObjectError::TooLong,
        CallError::Refused { .. } => ObjectError::Refused,
        _ => ObjectError::Incompatible,
    }
}
