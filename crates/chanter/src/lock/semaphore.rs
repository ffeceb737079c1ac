//! `Semaphore`, a number of permits.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::acquire::{Acquire, Request};
use super::permits::{BYPASSES, MAX, Outcome, Permits};
use crate::frame::report::Wanted;
use crate::sync::const_unless_loom;

/// A semaphore: a number of permits that are acquired and given back.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::Semaphore;
/// # chanter::block_on(async {
/// let seats = Semaphore::new(2);
/// let (_a, _b) = (seats.acquire().await, seats.acquire().await);
/// // A choice: a seat, or something else.
/// assert!(!choose_biased((seats.acquire().wrap(|_| true), always(false))).await);
/// # });
/// ```
///
/// An acquisition of many permits takes all or none, and cannot starve: see [the module](crate::sync) for the
/// order of waiters.
pub struct Semaphore {
    permits: Permits,
}

impl Semaphore {
    /// The largest number of permits that a semaphore can have.
    pub const MAX_PERMITS: usize = MAX;

    const_unless_loom! {
        /// Makes a semaphore with `permits` free permits.
        ///
        /// # Panics
        /// If `permits` is more than [`Semaphore::MAX_PERMITS`].
        pub fn new(permits: usize) -> Self {
            assert!(permits <= MAX, "a semaphore has at most MAX_PERMITS permits");
            Self { permits: Permits::new(permits) }
        }
    }

    /// The event of acquiring one permit.
    ///
    /// It commits when it is polled and a permit is free, or with an error when the semaphore has
    /// been closed. If it is not chosen, or dropped, no permit was taken.
    #[inline]
    pub fn acquire(&self) -> Acquire<Acquiring<'_>> {
        self.acquire_many(1)
    }

    /// The event of acquiring `permits` permits together. None is taken while fewer are free. If
    /// the semaphore has fewer in all, it waits until more are [added](Semaphore::add_permits).
    ///
    /// It commits like [`Semaphore::acquire`].
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::sync::Semaphore;
    /// let budget = Semaphore::new(10);
    /// let seven = budget.acquire_many(7).sync_blocking().unwrap();
    /// assert!(budget.acquire_many(7).try_sync().is_none());
    /// drop(seven);
    /// assert!(budget.acquire_many(7).try_sync().is_some());
    /// ```
    #[inline]
    pub fn acquire_many(&self, permits: usize) -> Acquire<Acquiring<'_>> {
        Acquire::new(Acquiring { semaphore: self, permits })
    }

    /// Like [`Semaphore::acquire_many`], but the event and the permits share the semaphore instead
    /// of borrowing it.
    pub fn acquire_owned(self: Arc<Self>, permits: usize) -> Acquire<AcquiringOwned> {
        Acquire::new(AcquiringOwned { semaphore: self, permits })
    }

    /// Takes `permits` permits if they are free now. Never blocks.
    ///
    /// # Errors
    /// `Unavailable` if fewer are free or a waiter has precedence, `Closed` if the semaphore has
    /// been closed.
    pub fn try_acquire(&self, permits: usize) -> Result<Permit<'_>, TryAcquireError> {
        match self.permits.try_take(permits) {
            Some(Outcome::Granted) => Ok(Permit { semaphore: self, permits }),
            Some(Outcome::Closed) => Err(TryAcquireError::Closed),
            None => Err(TryAcquireError::Unavailable),
        }
    }

    /// The number of permits that are free at this moment.
    pub fn available(&self) -> usize {
        self.permits.free()
    }

    /// Adds permits. Never blocks.
    ///
    /// # Panics
    /// If more than [`Semaphore::MAX_PERMITS`] would be free afterwards.
    pub fn add_permits(&self, permits: usize) {
        assert!(self.permits.add(permits), "a semaphore has at most MAX_PERMITS permits");
    }

    /// Closes the semaphore: all present and future waiters get an error. Permits that are held
    /// stay valid. Never blocks.
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether [`Semaphore::close`] has been called.
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The request of [`Semaphore::acquire`].
#[derive(Clone, Copy, Debug)]
pub struct Acquiring<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl<'a> Request for Acquiring<'a> {
    type Output = Result<Permit<'a>, SemaphoreClosed>;

    #[inline(always)]
    fn permits(&self) -> &Permits {
        &self.semaphore.permits
    }

    #[inline(always)]
    fn terms(&self) -> (usize, u32) {
        (self.permits, BYPASSES)
    }

    fn wanted(&self) -> (Wanted, &'static str) {
        (Wanted::Permits(self.permits), "()")
    }

    fn hand_out(self, outcome: Outcome) -> Self::Output {
        match outcome {
            Outcome::Granted => Ok(Permit { semaphore: self.semaphore, permits: self.permits }),
            Outcome::Closed => Err(SemaphoreClosed),
        }
    }
}

/// The request of [`Semaphore::acquire_owned`].
#[derive(Clone, Debug)]
pub struct AcquiringOwned {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl Request for AcquiringOwned {
    type Output = Result<OwnedPermit, SemaphoreClosed>;

    fn permits(&self) -> &Permits {
        &self.semaphore.permits
    }

    fn terms(&self) -> (usize, u32) {
        (self.permits, BYPASSES)
    }

    fn wanted(&self) -> (Wanted, &'static str) {
        (Wanted::Permits(self.permits), "()")
    }

    fn hand_out(self, outcome: Outcome) -> Self::Output {
        match outcome {
            Outcome::Granted => Ok(OwnedPermit { semaphore: self.semaphore, permits: self.permits }),
            Outcome::Closed => Err(SemaphoreClosed),
        }
    }
}

/// Permits of a [`Semaphore`], which are given back when this is dropped.
#[derive(Debug)]
#[must_use = "the permits are given back when this is dropped"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

/// Permits of a shared [`Semaphore`], which are given back when this is dropped.
#[derive(Debug)]
#[must_use = "the permits are given back when this is dropped"]
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

macro_rules! permit {
    ([$($generics:tt)*] $permit:ty, |$semaphore:ident| $share:expr) => {
        impl<$($generics)*> $permit {
            /// The number of these permits.
            pub fn count(&self) -> usize {
                self.permits
            }

            /// Splits off `permits` of these permits, as a value of their own. `None` if there are fewer.
            pub fn split(&mut self, permits: usize) -> Option<Self> {
                self.permits = self.permits.checked_sub(permits)?;
                let $semaphore = &self.semaphore;
                Some(Self { semaphore: $share, permits })
            }

            /// Forgets these permits: they are never given back, so the semaphore has fewer from
            /// now on.
            pub fn forget(mut self) {
                self.permits = 0;
            }
        }

        impl<$($generics)*> Drop for $permit {
            #[inline]
            fn drop(&mut self) {
                if self.permits > 0 {
                    self.semaphore.permits.give(self.permits);
                }
            }
        }
    };
}

permit!(['a] Permit<'a>, |semaphore| *semaphore);
permit!([] OwnedPermit, |semaphore| Arc::clone(semaphore));

/// The error of acquiring permits of a semaphore that has been closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreClosed;

impl fmt::Display for SemaphoreClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore is closed")
    }
}

impl Error for SemaphoreClosed {}

/// The reason why [`Semaphore::try_acquire`] got no permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// Too few permits are free, or a waiter has precedence.
    Unavailable,
    /// The semaphore has been closed.
    Closed,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "no permits are free",
            Self::Closed => "the semaphore is closed",
        })
    }
}

impl Error for TryAcquireError {}
