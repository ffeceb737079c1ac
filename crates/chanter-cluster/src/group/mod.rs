//! Groups: threads of several processes that do something together, each for itself: wait for each other, spread a value, combine
//! values.
//!
//! The members have ranks from 0, and form a tree: each leads a range of ranks and talks to those who lead its parts. The
//! ranges halve, so when the ranks of a process follow each other, its members combine among themselves first, and one message
//! leaves it.

mod tree;

use std::fmt;

use chanter::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::inbox::Inbox;
use crate::name::{NameError, Registered, ThreadName};
use crate::{Here, OpenError, RecvError, SendError};
use tree::Tree;

/// The tag of who leaves. All others are numbers of operations.
const LEAVES: u32 = u32::MAX;

/// A thread's membership in a group; see [the module](self).
///
/// All members do the same operations in the same order. When it is dropped, the others are told in their next operation.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::group::Group;
/// use chanter_cluster::local;
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let mut members = Vec::new();
/// for (rank, here) in (0..).zip(local(2)) {
///     members.push(spawn(async move {
///         let mut team = Group::of(&here, "ranks", rank, 2).await.unwrap();
///         team.reduce(rank + 1, |a, b| a + b).await.unwrap()
///     }));
/// }
/// for member in members {
///     assert_eq!(member.await.unwrap(), 3);
/// }
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Group {
    inbox: Inbox,
    rank: u32,
    size: u32,
    parent: Option<(u32, ThreadName)>,
    /// In the order of their ranks.
    children: Vec<(u32, ThreadName)>,
    operations: u32,
    broken: Option<Lost>,
    _registered: Registered,
}

/// A member is there no more, so the group does nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Its rank. Of several, one.
    pub member: u32,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {} of the group is there no more: make a group without it", self.member)
    }
}

impl std::error::Error for Lost {}

/// Why a thread is not a member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The rank is not below the size.
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The size.
        size: u32,
    },
    /// It has no inbox.
    Open(OpenError),
    /// Its name, or another one's, is not known. [`Taken`](NameError::Taken): another thread has that rank.
    Name(NameError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRank { rank, size } => write!(f, "a group of {size} has no rank {rank}"),
            Self::Open(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GroupError {}

impl Group {
    /// Becomes the member with that rank of a group of `size`, and waits for those that it has to do with. `name` is the group's, in
    /// the whole cluster, as long as it has members.
    ///
    /// **Cancel safety.** Dropped, it is no member.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn of(here: &Here, name: &str, rank: u32, size: u32) -> Result<Self, GroupError> {
        if rank >= size {
            return Err(GroupError::NoSuchRank { rank, size });
        }
        let inbox = here.inbox().map_err(GroupError::Open)?;
        let of = |rank: u32| format!("{name}#{rank}");
        let registered = here.register(&of(rank), &inbox).await.map_err(GroupError::Name)?;
        let Tree { parent, children } = Tree::of(rank, size);
        let mut found = Vec::new();
        for other in children.into_iter().chain(parent) {
            found.push((other, here.find(&of(other)).await.map_err(GroupError::Name)?));
        }
        let parent = parent.and_then(|_| found.pop());
        Ok(Self {
            inbox,
            rank,
            size,
            parent,
            children: found,
            operations: 0,
            broken: None,
            _registered: registered,
        })
    }

    /// This member's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many members there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Waits until all members have come here.
    ///
    /// **Cancel safety.** None, for this and what follows: a member that does not finish an operation should leave the group.
    ///
    /// # Errors
    /// [`Lost`]: a member is there no more. If that is seen late, some members get what they wanted and others this; in the next operation
    /// all get it.
    pub async fn barrier(&mut self) -> Result<(), Lost> {
        self.reduce((), |(), ()| ()).await
    }

    /// Combines the values of all members, in the order of their ranks, and gives all of them the result. `combine` is to be
    /// associative; it need not be commutative.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    pub async fn reduce<T>(&mut self, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let tag = self.begin()?;
        let combined = self.gather_up(tag, value, combine).await;
        let result = self.send_down(tag, combined).await;
        self.note(result)
    }

    /// Gives all members the value of the one with rank `root`, who says `Some`.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    ///
    /// # Panics
    /// At the root: it brings no value.
    pub async fn broadcast<T>(&mut self, root: u32, value: Option<T>) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        assert!(self.rank != root || value.is_some(), "the root of a broadcast brings the value");
        let mine = value.filter(|_| self.rank == root);
        let all = self.reduce(mine, Option::or).await?;
        all.ok_or(Lost { member: root })
    }

    fn begin(&mut self) -> Result<u32, Lost> {
        match self.broken {
            Some(lost) => Err(lost),
            None => {
                self.operations = (self.operations + 1) % LEAVES;
                Ok(self.operations)
            }
        }
    }

    fn note<T>(&mut self, result: Result<T, Lost>) -> Result<T, Lost> {
        self.broken = result.as_ref().err().copied();
        result
    }

    async fn gather_up<T>(&self, tag: u32, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let mut combined = Ok(value);
        for child in &self.children {
            // All are heard, so that nothing is left over.
            let part = self.hear(*child, tag).await;
            combined = match (combined, part) {
                (Ok(mine), Ok(part)) => Ok(combine(mine, part)),
                (Err(lost), _) | (_, Err(lost)) => Err(lost),
            };
        }
        combined
    }

    /// The first has the result of all, and all get it from those above.
    async fn send_down<T>(&self, tag: u32, combined: Result<T, Lost>) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let result = match self.parent {
            None => combined,
            Some(parent) => match self.say(parent, tag, &combined).await {
                Ok(()) => self.hear(parent, tag).await,
                Err(lost) => Err(lost),
            },
        };
        for child in &self.children {
            // Who is there no more hears nothing; the next operation finds it out.
            let _ = self.say(*child, tag, &result).await;
        }
        result
    }

    async fn say<T: Serialize>(&self, to: (u32, ThreadName), tag: u32, what: &T) -> Result<(), Lost> {
        let (member, name) = to;
        match self.inbox.send(name, tag, what).await {
            Ok(()) => Ok(()),
            Err(SendError::Encode(error)) => panic!("a value of a group cannot be written: {error}"),
            Err(SendError::TooLong { length, longest }) => {
                panic!("a value of a group takes {length} bytes, and a message at most {longest}")
            }
            Err(_) => Err(Lost { member }),
        }
    }

    async fn hear<T: DeserializeOwned>(&self, from: (u32, ThreadName), tag: u32) -> Result<T, Lost> {
        let (member, name) = from;
        let said = self.inbox.recv::<Result<T, Lost>>(name, tag).wrap(|got| match got {
            Ok(got) => got.value,
            Err(RecvError::Lost(..)) => Err(Lost { member }),
            Err(error) => panic!("the members of a group do different things: {error}"),
        });
        let left = self.inbox.recv::<()>(name, LEAVES).wrap(|_| Err(Lost { member }));
        // What it has said before it left is said.
        choose_biased((said, left)).await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (_, name) in self.children.iter().chain(&self.parent) {
            // Whoever has no room for it has heard nothing of this member for long: its next message is an error, then.
            let _ = self.inbox.send(*name, LEAVES, &()).try_sync();
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}
