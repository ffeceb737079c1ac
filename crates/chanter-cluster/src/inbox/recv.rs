//! The event of receiving a message.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;

use chanter::Event;
use chanter::base::{Operation, PlaceBranch, synchronization};
use serde::de::DeserializeOwned;

use super::irecv::Irecv;
use super::pattern::{Pattern, Source};
use super::place::{Core, Got, Note, Share};
use crate::error::RecvError;
use crate::name::ThreadName;
use crate::wire::decode;

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<T> {
    /// Who has sent it.
    pub from: ThreadName,
    /// Its tag.
    pub tag: u32,
    /// What was sent.
    pub value: T,
}

/// The event of receiving a message; see [`Inbox::recv`](crate::Inbox::recv).
#[must_use = "events do nothing unless synchronized"]
pub struct Recv<T> {
    share: Share,
    pattern: Pattern,
    value: PhantomData<fn() -> T>,
}

impl<T> Recv<T> {
    pub(super) fn new(share: Share, pattern: Pattern) -> Self {
        Self { share, pattern, value: PhantomData }
    }

    pub(super) fn core(&self) -> &Core {
        &self.share.0
    }

    pub(super) fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// The same receive, posted.
    pub(super) fn posted(self) -> Irecv<T>
    where
        T: DeserializeOwned,
    {
        Irecv::new(self.share.0, self.pattern)
    }
}

impl<T> fmt::Debug for Recv<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").field("wanted", &self.pattern).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Operation for Recv<T> {
    type Place = Share;
    type Output = Result<Received<T>, RecvError>;

    fn finish(share: &Share, note: &mut Note) -> Self::Output {
        receive(&share.0, note.pattern(), note.take())
    }
}

impl<T: DeserializeOwned> IntoFuture for Recv<T> {
    type Output = Result<Received<T>, RecvError>;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the same share and note, which is `Send`.
unsafe impl<T: DeserializeOwned> Event for Recv<T> {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.share, Note::new(self.pattern))
    }
}

/// What was got, read. No lock is held: reading is the user's code.
pub(super) fn receive<T: DeserializeOwned>(
    core: &Core,
    pattern: Pattern,
    got: Got,
) -> Result<Received<T>, RecvError> {
    let message = got.map_err(|why| match pattern.from {
        Source::Thread(name) => RecvError::Lost(name.process, why),
        Source::Anyone => unreachable!("somebody may always come"),
    })?;
    core.was_received(&message);
    let (from, tag) = (message.from, message.tag);
    match decode(&message.body) {
        Ok(value) => Ok(Received { from, tag, value }),
        Err(error) => Err(RecvError::Decode { from, tag, bytes: message.body.to_vec(), error }),
    }
}
