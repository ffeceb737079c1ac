//! The reason why a thread ended without a value.

use std::any::Any;
use std::fmt;

use super::about::About;
use super::{Site, panic_place, scheduler};

/// The reason why the joiner of a thread got no value: the thread panicked or was cancelled, or another joiner took
/// its value.
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
    /// A panic whose payload has just been caught on this OS thread.
    #[cold]
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self::panicked_in(payload, About::default())
    }

    /// Like [`panicked`](Self::panicked), for the thread that `about` describes.
    #[cold]
    pub(crate) fn panicked_in(payload: Box<dyn Any + Send>, about: About) -> Self {
        let place = panic_place::of(&*payload);
        Self { cause: Cause::Panicked(Box::new(Panicked { payload, place, about })) }
    }

    /// The same error, for another caller. The payload of a panic is its message.
    #[cold]
    pub(crate) fn again(&self) -> Self {
        let cause = match &self.cause {
            Cause::Panicked(panicked) => Cause::Panicked(Box::new(Panicked {
                payload: Box::new(self.message().unwrap_or("no message").to_owned()),
                place: panicked.place.clone(),
                about: panicked.about.clone(),
            })),
            Cause::Cancelled(about) => Cause::Cancelled(about.clone()),
            Cause::Taken => Cause::Taken,
        };
        Self { cause }
    }

    pub(crate) fn cancelled() -> Self {
        Self { cause: Cause::Cancelled(None) }
    }

    /// The cancellation of the thread that `about` describes.
    pub(crate) fn cancelled_in(about: About) -> Self {
        let is_known = about.name.is_some() || about.site.is_some();
        Self { cause: Cause::Cancelled(is_known.then(|| Box::new(about))) }
    }

    pub(crate) fn taken() -> Self {
        Self { cause: Cause::Taken }
    }

    /// Whether the thread panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Panicked(_))
    }

    /// Whether the thread was dropped before its end, because its machine ended or its policy
    /// dropped it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled(_))
    }

    /// Whether somebody else took the value, or may still look at it: see
    /// [`Thread::touch`](crate::Thread::touch).
    pub fn is_taken(&self) -> bool {
        matches!(self.cause, Cause::Taken)
    }

    /// The payload of the panic.
    ///
    /// # Errors
    /// Returns the error itself if it is not a panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.cause {
            Cause::Panicked(panicked) => Ok(panicked.payload),
            _ => Err(self),
        }
    }

    /// The message of the panic; `None` if the thread did not panic, or its payload is no string.
    pub fn message(&self) -> Option<&str> {
        let Cause::Panicked(panicked) = &self.cause else { return None };
        panic_place::message_of(&*panicked.payload)
    }

    /// The place of the panic, as `file:line:column`; `None` if the thread did not panic, or the place is not
    /// known. It is known while the panic hook is in place that the library sets when the first machine is
    /// built. A program that sets a hook of its own should therefore do so before that.
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

    /// The place where the thread was spawned, if its machine [keeps
    /// genealogy](crate::Builder::genealogy).
    pub fn site(&self) -> Option<Site> {
        self.about()?.site
    }

    /// The path of the function that contains the body of the thread that panicked, if it is known.
    /// It is taken from the name that the compiler gives the body's type, and is meant for people
    /// to read.
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

    /// Raises the panic again, perhaps on another OS thread than before.
    pub(crate) fn resume(self) -> ! {
        match self.cause {
            Cause::Panicked(panicked) => {
                panic_place::pass_on(panicked.place, &*panicked.payload);
                std::panic::resume_unwind(panicked.payload)
            }
            _ => panic!("{self}"),
        }
    }

    /// Reports a panic that nobody would see otherwise. Never panics, even if the payload's
    /// destructor does.
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
