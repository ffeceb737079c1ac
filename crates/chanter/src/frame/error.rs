//! How a thread ended without a value.

use std::any::Any;
use std::fmt;

use super::about::About;
use super::{Site, panic_place, scheduler};

/// How a thread ended without a value for you.
pub struct JoinError {
    cause: Cause,
}

enum Cause {
    Panicked(Box<Panicked>),
    Cancelled(Option<Box<About>>),
    Taken,
}

struct Panicked {
    payload: Box<dyn Any + Send>,
    place: Option<String>,
    about: About,
}

impl JoinError {
    /// The payload has just been caught on this OS thread.
    #[cold]
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self::panicked_in(payload, About::default())
    }

    /// As [`panicked`](Self::panicked), by a thread.
    #[cold]
    pub(crate) fn panicked_in(payload: Box<dyn Any + Send>, about: About) -> Self {
        let place = panic_place::of(&*payload);
        Self { cause: Cause::Panicked(Box::new(Panicked { payload, place, about })) }
    }

    pub(crate) fn cancelled() -> Self {
        Self { cause: Cause::Cancelled(None) }
    }

    /// A thread was cancelled, of which something is known.
    pub(crate) fn cancelled_in(about: About) -> Self {
        let is_known = about.name.is_some() || about.site.is_some();
        Self { cause: Cause::Cancelled(is_known.then(|| Box::new(about))) }
    }

    pub(crate) fn taken() -> Self {
        Self { cause: Cause::Taken }
    }

    /// The thread panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Panicked(_))
    }

    /// The thread was dropped before its end, because its machine ended or
    /// its policy dropped it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled(_))
    }

    /// Somebody else took the value.
    pub fn is_taken(&self) -> bool {
        matches!(self.cause, Cause::Taken)
    }

    /// What the thread panicked with.
    ///
    /// # Errors
    /// Gives the error back if it is not a panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.cause {
            Cause::Panicked(panicked) => Ok(panicked.payload),
            _ => Err(self),
        }
    }

    /// The panic's message, if it is a panic with one.
    pub fn message(&self) -> Option<&str> {
        let Cause::Panicked(panicked) = &self.cause else { return None };
        panic_place::message_of(&*panicked.payload)
    }

    /// Where the panic happened, as `file:line:column`, if it is one, and that is known: the panic hook that the library
    /// sets when the first machine is built has to be there still. (A program that sets its own hook does so before.)
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let error = Thread::builder().name("parser").spawn(async { panic!("no more input") }).await.unwrap_err();
    /// assert_eq!(error.name(), Some("parser"));
    /// assert_eq!(error.message(), Some("no more input"));
    /// assert!(error.location().unwrap().contains(".rs:"));
    /// # });
    /// ```
    pub fn location(&self) -> Option<&str> {
        match &self.cause {
            Cause::Panicked(panicked) => panicked.place.as_deref(),
            _ => None,
        }
    }

    /// The thread's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.about()?.name.as_deref()
    }

    /// Where the thread was spawned, if its machine [keeps genealogy](crate::Builder::genealogy).
    pub fn site(&self) -> Option<Site> {
        self.about()?.site
    }

    /// The path of the function in which the body of the thread that panicked was written, as the compiler names its type: for people
    /// to read, and not always there.
    pub fn body(&self) -> Option<&'static str> {
        self.about()?.body
    }

    fn about(&self) -> Option<&About> {
        match &self.cause {
            Cause::Panicked(panicked) => Some(&panicked.about),
            Cause::Cancelled(about) => about.as_deref(),
            Cause::Taken => None,
        }
    }

    /// Raises a panic once more, maybe on another OS thread than before.
    pub(crate) fn resume(self) -> ! {
        match self.cause {
            Cause::Panicked(panicked) => {
                panic_place::pass_on(panicked.place, &*panicked.payload);
                std::panic::resume_unwind(panicked.payload)
            }
            _ => panic!("{self}"),
        }
    }

    /// Reports a panic that nobody will see otherwise. Never panics, even if
    /// the payload's destructor does.
    #[cold]
    pub(crate) fn report(self, whose: &str) {
        use std::io::Write;
        if let (Cause::Panicked(panicked), Some(scheduler)) = (&self.cause, scheduler())
            && scheduler.takes_panic(whose, &*panicked.payload, self.message())
        {
            return self.forget();
        }
        let message = self.message().unwrap_or("no message");
        let _ = match self.location() {
            Some(place) => writeln!(std::io::stderr(), "chanter: {whose} panicked at {place}: {message}"),
            None => writeln!(std::io::stderr(), "chanter: {whose} panicked: {message}"),
        };
        self.forget();
    }

    /// Drops the payload, whose destructor may panic.
    fn forget(self) {
        if let Cause::Panicked(panicked) = self.cause {
            let drop_it = std::panic::AssertUnwindSafe(|| drop(panicked));
            if let Err(worse) = std::panic::catch_unwind(drop_it) {
                std::mem::forget(worse);
            }
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().map(|name| format!(" '{name}'")).unwrap_or_default();
        match &self.cause {
            Cause::Panicked(panicked) => {
                write!(f, "the thread{name} panicked")?;
                if let Some(place) = &panicked.place {
                    write!(f, " at {place}")?;
                }
                write!(f, ": {}", self.message().unwrap_or("no message"))
            }
            Cause::Cancelled(_) => write!(f, "the thread{name} was cancelled"),
            Cause::Taken => f.write_str("the thread's value has been taken"),
        }
    }
}

impl std::error::Error for JoinError {}

// SAFETY: a shared `JoinError` shows the payload only as text.
unsafe impl std::marker::Sync for JoinError {}
