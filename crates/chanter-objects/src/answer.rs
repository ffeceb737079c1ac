//! `Answer`: the place of a call's answer.

use std::fmt;
use std::pin::Pin;
use std::ptr;

use chanter::event::Sync;

use crate::ObjectError;
use crate::promise::{IntoTouch, Promise};

/// The place where a caller finds its answer.
#[doc(hidden)]
pub enum Answer<T> {
    None,
    Filled(T),
    /// The object to which the continuation was forwarded could not be called.
    Failed(ObjectError),
    Kept(Promise<T>),
    /// The continuation was kept, the method has ended, and the caller waits.
    Awaited(Pin<Box<Sync<IntoTouch<T>>>>),
    /// The caller is another process. The duty to answer may pass to a third process.
    #[cfg(feature = "cluster")]
    Owed(chanter_cluster::__table::Duty),
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer(..)")
    }
}

impl<T> Answer<T> {
    /// Replaces the old answer, which is `None` unless the caller is another process.
    #[inline(always)]
    pub(crate) fn fill(&mut self, value: T) {
        if !matches!(self, Self::None) {
            return self.fill_again(value);
        }
        // (Made where it lies: what is made before is copied.)
        // SAFETY: there is nothing that has to be dropped.
        unsafe { ptr::write(self, Self::Filled(value)) }
    }

    #[cold]
    #[inline(never)]
    fn fill_again(&mut self, value: T) {
        *self = Self::Filled(value);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&mut self, gone: ObjectError) {
        *self = Self::Failed(gone);
    }
}
