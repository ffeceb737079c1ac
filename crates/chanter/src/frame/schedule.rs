//! `Schedule`: what frames ask of the scheduler, which stands above them.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::header::Header;

/// The scheduler, as frames and tokens know it. They ask it in rare cases alone.
pub(crate) trait Schedule: Sync {
    /// The thread that the calling OS thread polls.
    fn running(&self) -> Option<NonNull<Header>>;

    /// The calling OS thread enters the extent of a binding: threads that it makes there inherit.
    fn lets_inherit(&self);

    /// Whether the calling OS thread drives a machine that a test harness runs.
    fn is_in_test(&self) -> bool;

    /// Whether the caller is on the stack of a fiber that is unwound because it is being ended.
    fn is_unwinding(&self) -> bool;

    /// Takes a panic that nobody will see otherwise. False: it is still to be reported.
    fn takes_panic(&self, whose: &str, payload: &(dyn Any + Send), message: Option<&str>) -> bool;

    /// Ends the thread of a token that is dropped, or sends it home.
    ///
    /// # Safety
    /// The caller gives up the frame's token.
    unsafe fn give_up(&self, frame: NonNull<Header>);

    /// Sends the thread of a token to the virtual processor that it must run on, or ran on last.
    ///
    /// # Safety
    /// As for [`Schedule::give_up`].
    unsafe fn send_home(&self, frame: NonNull<Header>);
}

static SCHEDULER: OnceLock<&'static dyn Schedule> = OnceLock::new();

/// The scheduler announces itself, before it makes the first frame.
pub(crate) fn schedule_by(scheduler: &'static dyn Schedule) {
    // Every caller announces the same one.
    let _ = SCHEDULER.set(scheduler);
}

/// The scheduler, if there are threads.
pub(crate) fn scheduler() -> Option<&'static dyn Schedule> {
    SCHEDULER.get().copied()
}
