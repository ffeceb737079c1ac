//! The event of receiving a message.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;

use chanter::Event;
use chanter::base::{Operation, PlaceBranch, WakeList, synchronization};

use super::message::Message;
use super::pattern::{Pattern, Source};
use super::place::{Core, Got, Note, Share};
use super::read::{AsValue, Read};
use crate::engine::Why;
use crate::error::{RecvError, Undecoded};
use crate::name::ThreadName;

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<T> {
    /// The sender.
    pub from: ThreadName,
    /// The message's tag.
    pub tag: u32,
    /// The value that was sent.
    pub value: T,
}

/// The event of receiving a message; see [`Inbox::recv`](crate::Inbox::recv) and
/// [`Inbox::recv_buffer`](crate::Inbox::recv_buffer).
#[must_use = "events do nothing unless synchronized"]
pub struct Recv<T, R = AsValue> {
    share: Share,
    pattern: Pattern,
    value: PhantomData<fn() -> (T, R)>,
}

impl<T, R> Recv<T, R> {
    #[inline]
    pub(super) fn new(share: Share, pattern: Pattern) -> Self {
        Self { share, pattern, value: PhantomData }
    }

    pub(super) fn core(&self) -> Core {
        self.share.0
    }

    pub(super) fn pattern(&self) -> Pattern {
        self.pattern
    }
}

impl<T, R> fmt::Debug for Recv<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").field("wanted", &self.pattern).finish_non_exhaustive()
    }
}

impl<T, R: Read<T>> Operation for Recv<T, R> {
    type Place = Share;
    type Output = Result<Received<T>, RecvError>;
    // The note of a completed receive is empty.
    const LEAN: bool = true;
    const PROMPT: bool = true;

    /// Receives at once, if the message is there.
    #[inline(always)]
    fn at_once(share: &Share, note: &mut Note, wakes: &mut WakeList) -> bool {
        let message = share.0.take_message(note.pattern(), wakes);
        let is_there = message.is_some();
        note.put(message.map(Ok));
        is_there
    }

    #[inline(always)]
    fn finish(share: &Share, note: &mut Note) -> Self::Output {
        let got = note.take();
        receive::<T, R>(&share.0, note.pattern(), got)
    }
}

impl<T, R: Read<T>> IntoFuture for Recv<T, R> {
    type Output = Result<Received<T>, RecvError>;
    type IntoFuture = chanter::event::Sync<Self>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the event's own share and note, which are `Send`.
unsafe impl<T, R: Read<T>> Event for Recv<T, R> {
    type Branch = PlaceBranch<Self>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.share, Note::new(self.pattern))
    }
}

/// Reads the result of a receive.
#[inline(always)]
pub(super) fn receive<T, R: Read<T>>(
    core: &Core,
    pattern: &Pattern,
    got: Got,
) -> Result<Received<T>, RecvError> {
    match got {
        Ok(message) => read::<T, R>(core, message),
        Err(why) => Err(is_lost(pattern, *why)),
    }
}

/// Reads a message. No lock is held, as reading runs the user's code.
#[inline(always)]
fn read<T, R: Read<T>>(core: &Core, mut message: Box<Message>) -> Result<Received<T>, RecvError> {
    if message.is_away {
        core.was_received(&message);
    }
    match R::read(&mut message.written) {
        Ok(value) => {
            let (from, tag) = (message.from, message.tag);
            message.end();
            Ok(Received { from, tag, value })
        }
        Err(error) => Err(is_unread(&message, error)),
    }
}

#[cold]
fn is_unread(message: &Message, error: String) -> RecvError {
    let (from, tag, bytes) = (message.from, message.tag, message.written.to_vec());
    RecvError::Decode(Box::new(Undecoded { from, tag, bytes, error }))
}

#[cold]
fn is_lost(pattern: &Pattern, why: Why) -> RecvError {
    match pattern.from {
        Source::Thread(name) => RecvError::Lost(name.process, why),
        Source::Anyone => unreachable!("somebody may always come"),
    }
}
