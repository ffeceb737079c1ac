//! The orderings that the loom models weaken.
//!
//! Each function names one edge of a protocol. In a normal build it is a
//! constant. Under `--cfg loom` a model may run with one of them weakened to
//! `Relaxed` and must then fail: that is how we know that the edge, and the
//! model, are needed.

use super::atomic::Ordering;

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident = $order:ident;)*) => {
        $($(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name() -> Ordering {
            #[cfg(loom)]
            if weakened::is(stringify!($name)) {
                return Ordering::Relaxed;
            }
            Ordering::$order
        })*
    };
}

orders! {
    /// `Lock::lock`: sees what the last holder wrote.
    lock_acquire = Acquire;
    /// `Guard::drop`: publishes what the holder wrote.
    lock_release = Release;
    /// `Group::publish`: the result is complete before the owner looks.
    group_publish = Release;
    /// `Group::outcome`: sees the result that `publish` published.
    group_observe = Acquire;
    /// `State::wake`: what was done before the wake is seen by the next poll.
    state_wake = AcqRel;
    /// `State::begin`: sees what the wakers did.
    state_begin = AcqRel;
    /// `State::end` and `complete`: publishes the frame to its next runner.
    state_end = AcqRel;
    /// `ReturnList::push`: the dead frame's contents are settled.
    frame_return = Release;
    /// `ReturnList::take`: sees the dead frames whole.
    frame_take = Acquire;
    /// `Sleeper`: the flag is set before the queues are looked at again.
    sleep_fence = SeqCst;
    /// `Sleeper`: the work is published before the flag is looked at.
    wake_fence = SeqCst;
}

#[cfg(loom)]
pub(crate) mod weakened {
    use std::sync::Mutex;

    static NAME: Mutex<Option<&'static str>> = Mutex::new(None);

    pub(crate) fn is(name: &str) -> bool {
        NAME.lock().unwrap_or_else(|e| e.into_inner()).is_some_and(|n| n == name)
    }

    /// Runs `model` with the edge `name` weakened, and reports whether the
    /// model noticed.
    pub(crate) fn notices(name: &'static str, model: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        *NAME.lock().unwrap_or_else(|e| e.into_inner()) = Some(name);
        let noticed = std::panic::catch_unwind(model).is_err();
        *NAME.lock().unwrap_or_else(|e| e.into_inner()) = None;
        noticed
    }
}
