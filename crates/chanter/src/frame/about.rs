//! The name, place and body of a thread, for errors, reports and spans.

use std::any::Any;
use std::fmt::Write;
use std::ptr::NonNull;
use std::sync::Arc;

use super::arena;
use super::error::JoinError;
use super::header::{Header, Kind};
use super::report::Site;
use super::schedule::scheduler;

/// The facts about a thread that has failed, as far as they are known.
#[derive(Clone, Default)]
pub(crate) struct About {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) site: Option<Site>,
    pub(crate) body: Option<&'static str>,
}

/// The facts that a thread's error tells of it.
///
/// # Safety
/// The caller keeps the frame, and so its machine.
#[cold]
pub(crate) unsafe fn about(frame: NonNull<Header>) -> About {
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    unsafe {
        let observer = arena::observer_of(frame);
        let site = observer.and_then(|observer| observer.site(frame));
        let name = observer.and_then(|observer| observer.name(frame)).or_else(|| name_of(frame).cloned());
        About { name, site, body: body_of(frame) }
    }
}

/// The error of the thread that is polled here, whose body has its panics caught before it gets to its frame.
#[cold]
pub(crate) fn here_panicked(payload: Box<dyn Any + Send>) -> JoinError {
    let frame = scheduler().and_then(|scheduler| scheduler.running());
    // SAFETY: it is being polled.
    JoinError::panicked_in(payload, frame.map_or_else(About::default, |frame| unsafe { about(frame) }))
}

/// The number of the thread in `frame`, if its machine has an observer.
///
/// # Safety
/// As for [`about`].
pub(crate) unsafe fn id_of(frame: NonNull<Header>) -> Option<u64> {
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    unsafe { arena::observer_of(frame)?.id(frame) }
}

/// The name of the thread in `frame`, if it was given one.
///
/// # Safety
/// The caller keeps the frame.
pub(crate) unsafe fn name_of<'a>(frame: NonNull<Header>) -> Option<&'a Arc<str>> {
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    unsafe { (frame.as_ref().vtable.get().name)(frame).map(|name| name.as_ref()) }
}

/// The place where the body of the thread in `frame` was written, as far as its type tells.
///
/// # Safety
/// The caller keeps the frame.
pub(crate) unsafe fn body_of(frame: NonNull<Header>) -> Option<&'static str> {
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    path_of(unsafe { (frame.as_ref().vtable.get().body)() })
}

/// The path of the function in which a body of this type was written.
pub(crate) fn path_of(name: &'static str) -> Option<&'static str> {
    let name = name.trim_end_matches("::{{closure}}");
    // Of one that was wrapped the type is that of the wrapping.
    (!name.is_empty() && !name.contains('<')).then_some(name)
}

/// A text that names the thread in `frame`, if it has a number or a name.
///
/// # Safety
/// As for [`about`].
pub(crate) unsafe fn called(frame: NonNull<Header>) -> Option<String> {
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    let (id, name, kind) = unsafe { (id_of(frame), name_of(frame), frame.as_ref().kind.get()) };
    if id.is_none() && name.is_none() {
        return None;
    }
    let mut text = if kind == Kind::Parasite { "parasite" } else { "thread" }.to_owned();
    // Writing to a string does not fail.
    let _ = id.map_or(Ok(()), |id| write!(text, " {id}"));
    let _ = name.map_or(Ok(()), |name| write!(text, " '{name}'"));
    Some(text)
}

/// `whose`, and what is known of the thread in `frame`: for reports of panics.
///
/// # Safety
/// As for [`about`].
#[cold]
pub(crate) unsafe fn describe(whose: &str, frame: NonNull<Header>) -> String {
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    let (id, about) = unsafe { (id_of(frame), about(frame)) };
    let mut text = whose.to_owned();
    // Writing to a string does not fail.
    let _ = match (id, &about.name, about.site) {
        (Some(id), Some(name), Some(site)) => write!(text, " ({id} '{name}', spawned at {site}"),
        (Some(id), None, Some(site)) => write!(text, " ({id}, spawned at {site}"),
        (_, Some(name), _) => write!(text, " ('{name}'"),
        _ => match about.body {
            Some(body) => write!(text, " (of {body}"),
            None => return text,
        },
    };
    // SAFETY: the caller keeps the frame, and so its machine and its table.
    unsafe {
        if let Some(observer) = arena::observer_of(frame) {
            observer.add_ancestry(frame, &mut text);
        }
    }
    text.push(')');
    text
}
