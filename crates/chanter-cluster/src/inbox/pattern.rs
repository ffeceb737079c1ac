//! Patterns: senders and tags of the messages that a receive wants.

use std::fmt;

use crate::name::ThreadName;

/// The sender that a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// This thread.
    Thread(ThreadName),
    /// Any thread.
    Anyone,
}

/// Any thread.
pub const ANYONE: Source = Source::Anyone;

impl From<ThreadName> for Source {
    #[inline]
    fn from(name: ThreadName) -> Self {
        Self::Thread(name)
    }
}

/// The tag that a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tags {
    /// This tag.
    Tag(u32),
    /// Any tag.
    Any,
}

/// Any tag.
pub const ANY_TAG: Tags = Tags::Any;

impl From<u32> for Tags {
    #[inline]
    fn from(tag: u32) -> Self {
        Self::Tag(tag)
    }
}

/// The sender and the tag that a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    pub(super) from: Source,
    pub(super) tag: Tags,
}

impl fmt::Display for Pattern {
    /// Continues the words "receive a message".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Tags::Tag(tag) = self.tag {
            write!(f, " with tag {tag}")?;
        }
        match self.from {
            Source::Thread(name) => write!(f, " from {name}"),
            Source::Anyone => Ok(()),
        }
    }
}

impl Pattern {
    /// Whether it matches messages of that thread with that tag.
    #[inline]
    pub(super) fn wants(&self, (from, tag): Key) -> bool {
        (self.from == Source::Anyone || self.from == Source::Thread(from))
            && (self.tag == Tags::Any || self.tag == Tags::Tag(tag))
    }

    /// Whether it matches a message, whose fields are passed as they lie there.
    #[inline(always)]
    pub(super) fn wants_of(&self, from: &ThreadName, tag: u32) -> bool {
        let is_wanted = match &self.tag {
            Tags::Tag(wanted) => *wanted == tag,
            Tags::Any => true,
        };
        is_wanted
            && match &self.from {
                Source::Anyone => true,
                Source::Thread(wanted) => wanted == from,
            }
    }

    /// All patterns that match such a message, the exact one first.
    pub(super) fn all((from, tag): Key) -> [Self; 4] {
        let [any, tagged, sent] = Self::wild((from, tag));
        [Self { from: Source::Thread(from), tag: Tags::Tag(tag) }, sent, tagged, any]
    }

    /// The patterns that match such a message and others, too.
    pub(super) fn wild((from, tag): Key) -> [Self; 3] {
        [
            Self { from: Source::Anyone, tag: Tags::Any },
            Self { from: Source::Anyone, tag: Tags::Tag(tag) },
            Self { from: Source::Thread(from), tag: Tags::Any },
        ]
    }
}

/// The sender and the tag of a message.
pub(super) type Key = (ThreadName, u32);

/// A message, as the search for the one that is wanted sees it.
pub(super) trait Letter {
    fn from(&self) -> &ThreadName;

    fn tag(&self) -> u32;

    /// Number of the message in its inbox, in order of arrival.
    fn number(&self) -> u64;

    #[inline(always)]
    fn key(&self) -> Key {
        (*self.from(), self.tag())
    }
}
