//! The places of panics. A caught payload does not name its place; only the panic hook learns it.
//!
//! Our hook contains the hook that was there when the first machine was built. It first notes the
//! place for the code that catches the panic on the same OS thread. Then it calls the earlier hook,
//! which can only name the OS thread, and adds the name of the Chanter thread. A hook that a
//! program sets later replaces ours: then places are not known.

use std::any::Any;
use std::cell::RefCell;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::Once;

use super::about::called;
use super::scheduler;

/// The latest panic of this OS thread.
struct Latest {
    place: String,
    message: Option<String>,
}

thread_local! {
    static LATEST: RefCell<Option<Latest>> = const { RefCell::new(None) };
}

/// Sets the hook, once a process.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        // The hook cannot be changed now: the next machine does it.
        return;
    }
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            note(info);
            before(info);
            name_thread();
        }));
    });
}

fn note(info: &PanicHookInfo<'_>) {
    let Some(location) = info.location() else { return };
    let latest =
        Latest { place: location.to_string(), message: message_of(info.payload()).map(str::to_owned) };
    keep(Some(latest));
}

fn keep(latest: Option<Latest>) -> Option<Latest> {
    // In the destructor of another thread-local this one may be gone.
    LATEST
        .try_with(|place| {
            place.try_borrow_mut().ok().and_then(|mut place| std::mem::replace(&mut *place, latest))
        })
        .ok()?
}

fn name_thread() {
    let Some(scheduler) = scheduler().filter(|scheduler| !scheduler.is_in_test()) else { return };
    // SAFETY: the thread is being polled, here.
    if let Some(called) = scheduler.running().and_then(|frame| unsafe { called(frame) }) {
        let _ = writeln!(std::io::stderr(), "chanter: this OS thread runs {called}");
    }
}

/// The place of the panic whose payload has just been caught on this OS thread, if it is known.
pub(crate) fn of(payload: &(dyn Any + Send)) -> Option<String> {
    let latest = keep(None)?;
    // It may belong to another panic, if this one was caught and raised again by hand.
    (latest.message.as_deref() == message_of(payload)).then_some(latest.place)
}

/// Sets the place of a panic that the caller is about to raise again on this OS thread.
pub(crate) fn pass_on(place: Option<String>, payload: &(dyn Any + Send)) {
    keep(place.map(|place| Latest { place, message: message_of(payload).map(str::to_owned) }));
}

/// The message of a panic, if its payload is a string.
pub(crate) fn message_of<'a>(payload: &'a (dyn Any + 'static)) -> Option<&'a str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
