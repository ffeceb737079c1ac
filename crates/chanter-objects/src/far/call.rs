//! `FarCall`: a call that is made in another process.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use std::time::Duration;

use chanter::after;
use chanter_cluster::__table::{Called, read, write};
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{At, Begun as BegunThere, CallError, Here};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Key;
use super::space::{Space, within};
use crate::lazy::Answer;
use crate::{Begun, Gone, Ref};

/// So long it waits before it asks again, if too many requests are under way.
const PAUSE: Duration = Duration::from_micros(200);

/// In front of a request: slot and generation.
pub(super) const REQUEST: usize = 8;
/// In front of an answer: a value comes, or why there is none.
pub(super) const VALUE: u8 = 0;
pub(super) const GONE: u8 = 1;

/// A request that is under way.
pub(crate) struct FarCall<R> {
    here: Here,
    stage: Stage<R>,
    finish: Finish<R>,
}

// SAFETY: a place for the answer is used by this alone, which is a part of whoever has it.
unsafe impl<R> Send for FarCall<R> {}

enum Stage<R> {
    /// Too many were under way.
    Paused { request: Request, pause: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// Pinned.
    Called(Called),
    /// It is over, or was handed on.
    Over(Option<Result<R, Gone>>),
}

/// What is asked of whom.
struct Request {
    at: At,
    name: &'static str,
    number: Number,
    body: Body,
}

/// What is made of an answer: `R` itself, or `()` where the value is put into a continuation's place.
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
/// It is that of an `Answer<R>`, and nobody else uses it.
unsafe fn fill<R: DeserializeOwned>(place: *mut (), bytes: &[u8]) -> Result<(), String> {
    let value = read(bytes)?;
    // SAFETY: the caller's contract.
    unsafe { *place.cast::<Answer<R>>() = Answer::Filled(value) };
    Ok(())
}

/// Where an object is, as seen from `here`.
pub(super) struct Target {
    pub(super) here: Here,
    pub(super) process: u32,
    slot: u32,
    generation: u32,
}

impl Target {
    /// Of a reference to an object that is not here.
    pub(super) fn of<T>(to: Ref<T>) -> Result<Self, Gone> {
        let (place, generation) = to.away().ok_or(Gone::Elsewhere)?;
        let here = Space::at(place.space).and_then(|space| space.here()).ok_or(Gone::Elsewhere)?;
        Ok(Self { here, process: place.process, slot: place.slot, generation })
    }

    pub(super) fn body<A: Serialize>(&self, arguments: &A) -> Result<Body, Gone> {
        let mut body = Body::with_capacity(REQUEST + 56);
        body.extend_from_slice(&self.slot.to_le_bytes());
        body.extend_from_slice(&self.generation.to_le_bytes());
        within(&self.here, || write(body, arguments)).map_err(|_| Gone::Incompatible)
    }
}

impl<R> FarCall<R> {
    /// Asks for a method's answer.
    pub(super) fn of<T, A: Serialize>(to: Ref<T>, key: Key<A, R>, arguments: &A) -> Result<Self, Gone>
    where
        R: DeserializeOwned,
    {
        let target = Target::of(to)?;
        let body = target.body(arguments)?;
        Ok(Self::make(
            target,
            key.name,
            key.number,
            body,
            Finish { place: ptr::null_mut(), read: value::<R> },
        ))
    }

    fn make(target: Target, name: &'static str, number: Number, body: Body, finish: Finish<R>) -> Self {
        let at = target.here.at(target.process);
        let stage = Request { at, name, number, body }.make();
        Self { here: target.here, stage, finish }
    }

    fn end(&self, answer: &[u8]) -> Result<R, Gone> {
        match answer {
            // SAFETY: `Finish` was made so; the place is there while this is.
            [VALUE, value @ ..] => {
                within(&self.here, || unsafe { (self.finish.read)(self.finish.place, value) })
                    .map_err(|_| Gone::Incompatible)
            }
            [GONE, gone @ ..] => Err(read(gone).unwrap_or(Gone::Incompatible)),
            _ => Err(Gone::Incompatible),
        }
    }
}

impl FarCall<()> {
    /// Asks for a method's answer, for a continuation. If its caller is in another process itself, it is handed on.
    ///
    /// # Safety
    /// The place is there, and nobody else's, as long as this is.
    pub(super) unsafe fn answering<T, A: Serialize, R: DeserializeOwned>(
        to: Ref<T>,
        key: Key<A, R>,
        arguments: &A,
        place: *mut Answer<R>,
    ) -> Result<Self, Gone> {
        let target = Target::of(to)?;
        let body = target.body(arguments)?;
        let finish = Finish { place: place.cast(), read: fill::<R> };
        // SAFETY: the caller's contract.
        if let Answer::Owed(duty) = unsafe { &*place } {
            let handed = duty.forward(target.process, key.number, body);
            let over = handed.map_err(|_| Gone::Lost { begun: Begun::No });
            return Ok(Self { here: target.here, stage: Stage::Over(Some(over)), finish });
        }
        Ok(Self::make(target, key.name, key.number, body, finish))
    }
}

impl Request {
    fn make<R>(self) -> Stage<R> {
        let Self { at, name, number, body } = self;
        match at.call_raw(name, number, body) {
            Ok(called) => Stage::Called(called),
            Err(body) => {
                let pause: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async { after(PAUSE).await });
                Stage::Paused { request: Self { at, name, number, body }, pause }
            }
        }
    }
}

impl<R> Future for FarCall<R> {
    type Output = Result<R, Gone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: what is called is not moved until it is over.
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
                Stage::Called(called) => {
                    // SAFETY: pinned with us.
                    let Poll::Ready(outcome) = unsafe { Pin::new_unchecked(called) }.poll(cx) else {
                        return Poll::Pending;
                    };
                    this.stage = Stage::Over(None);
                    return Poll::Ready(outcome.map_err(gone).and_then(|answer| this.end(&answer)));
                }
                Stage::Over(result) => {
                    return Poll::Ready(result.take().expect("a call is polled behind its end"));
                }
            }
        }
    }
}

/// What is said instead of a value.
///
/// # Panics
/// If the method has: as where it is here, that is its caller's.
pub(super) fn gone(error: CallError) -> Gone {
    match error {
        CallError::Lost { begun, .. } => Gone::Lost {
            begun: match begun {
                BegunThere::No => Begun::No,
                BegunThere::Unknown => Begun::Unknown,
            },
        },
        CallError::GivenUp => Gone::Lost { begun: Begun::Unknown },
        CallError::NoSuchProcess(_) => Gone::Ended,
        CallError::Panicked(message) => resume_unwind(Box::new(message)),
        _ => Gone::Incompatible,
    }
}
