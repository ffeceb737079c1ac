//! `Observer`: whom a machine tells of its threads.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::header::Header;
use super::report::Site;

/// Writes down what happens to the threads of one machine, and says what is known of them.
///
/// Each function defaults to one that knows nothing. A machine without an observer pays for a comparison at most.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// Notes a new thread in `frame`, which nobody else knows. Returns its number.
    fn born(&self, _frame: NonNull<Header>, _site: Site) -> u64 {
        0
    }

    /// Notes the end of the thread in `frame`, to which nobody refers any more.
    fn died(&self, _frame: NonNull<Header>) {}

    /// The number of the thread in `frame`.
    ///
    /// # Safety
    /// The caller keeps the frame, which is of the observer's machine.
    unsafe fn id(&self, _frame: NonNull<Header>) -> Option<u64> {
        None
    }

    /// The place where the thread in `frame` was spawned.
    ///
    /// # Safety
    /// As for [`Observer::id`].
    unsafe fn site(&self, _frame: NonNull<Header>) -> Option<Site> {
        None
    }

    /// The name of the thread in `frame`, if it has one.
    ///
    /// # Safety
    /// As for [`Observer::id`].
    unsafe fn name(&self, _frame: NonNull<Header>) -> Option<Arc<str>> {
        None
    }

    /// Names the thread in `frame`. False: it is not known.
    ///
    /// # Safety
    /// As for [`Observer::id`].
    unsafe fn set_name(&self, _frame: NonNull<Header>, _name: Arc<str>) -> bool {
        false
    }

    /// Adds the nearest ancestors of the thread in `frame` to a text.
    ///
    /// # Safety
    /// As for [`Observer::id`].
    unsafe fn add_ancestry(&self, _frame: NonNull<Header>, _text: &mut String) {}

    /// The observer itself, for the code that has made it.
    fn as_any(&self) -> &dyn Any;
}
