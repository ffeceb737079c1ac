//! Groups of threads in several processes, with collective operations: barrier, reduce, broadcast, gather, scatter,
//! all-to-all and scan.
//!
//! The members have ranks from 0. Members in one process with consecutive ranks form a run: they meet in memory. One
//! message for all of them goes to the next run, along a tree. So the threads of a process should have
//! consecutive ranks.
//!
//! - `run.rs` holds what the members of a run have in common, and how they meet.
//! - `exchange.rs` holds what runs send each other.
//! - `operations.rs` holds the operations.
//! - `membership.rs` finds the members.

mod bytes;
mod exchange;
mod membership;
mod operations;
mod run;
mod tree;

use std::fmt;
use std::sync::Arc;

use chanter::current_vp;
use chanter::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::inbox::Inbox;
use crate::name::{NameError, Registered};
use crate::wire::decode;
use crate::{OpenError, Process};
use bytes::Bytes;
use membership::{Came, Coming, MemberPlace, take_place};
pub(crate) use membership::{MembershipTables, serve};
use run::Run;

/// Tag of a message from a run that leaves. All other tags are numbers of operations.
const LEAVES: u32 = u32::MAX;

/// A thread's membership in a group; see [the module](self).
///
/// All members must do the same operations in the same order. When a membership is dropped, the others are told in
/// their next operation.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::group::Group;
/// use chanter_cluster::local;
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let mut members = Vec::new();
/// let processes = local(2);
/// for (rank, here) in (0..).zip(processes.clone()) {
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
    here: Process,
    name: String,
    member: MemberPlace,
    rank: u32,
    size: u32,
    operations: u32,
    /// Buffer for long values.
    room: Vec<u8>,
    /// The inbox of a member that does not talk for its run. It keeps the member's name.
    _inbox: Option<Inbox>,
    _registered: Registered,
    _coming: Coming,
}

/// A member has gone, so the group does no more operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The rank of the member, or of one of several that have gone.
    pub member: u32,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {} of the group is there no more: make a group without it", self.member)
    }
}

impl std::error::Error for Lost {}

/// The reason why a thread is not a member of a group.
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
    /// The thread cannot open an inbox.
    Open(OpenError),
    /// A member's name could not be registered or found. [`Taken`](NameError::Taken): another thread has that rank.
    Name(NameError),
    /// Another member has come to a group of another size.
    Size {
        /// The rank of that member.
        rank: u32,
        /// The size that it has stated.
        size: u32,
    },
    /// Processes have gone, and no member with that rank has come for 10 seconds.
    Missing {
        /// The first missing rank.
        rank: u32,
        /// The processes that have gone.
        gone: Vec<u32>,
    },
    /// A member has gone that some had found already. With [`split`](Group::split), it may be a member of the group
    /// that was to be split.
    Lost(Lost),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRank { rank, size } => write!(f, "a group of {size} has no rank {rank}"),
            Self::Open(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Size { rank, size } => write!(
                f,
                "member {rank} has come to a group of {size}, and this thread to one of another size: let all say the same size"
            ),
            Self::Lost(error) => error.fmt(f),
            Self::Missing { rank, gone } => {
                let gone: Vec<String> = gone.iter().map(u32::to_string).collect();
                write!(
                    f,
                    "member {rank} of the group has not come, and these processes have gone: {}; make a group without it",
                    gone.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for GroupError {}

impl Group {
    /// Becomes the member with rank `rank` of a group of `size` members, and waits for all others. `name` is the
    /// group's name in the whole cluster, as long as the group has members.
    ///
    /// While all processes live, the wait has no limit. Once a process of the cluster has gone, each missing member
    /// has 10 seconds to come after the one before. So no member waits for threads that have ended before they came.
    /// A caller that gets [`Missing`](GroupError::Missing) or [`Lost`](GroupError::Lost) may try again.
    ///
    /// **Cancel safety.** A caller that drops the future is no member. If others have found it before, they get
    /// [`Lost`](GroupError::Lost).
    ///
    /// # Errors
    /// See [`GroupError`]. Members that have come for different sizes learn of each other.
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn of(here: &Process, name: &str, rank: u32, size: u32) -> Result<Self, GroupError> {
        if rank >= size {
            return Err(GroupError::NoSuchRank { rank, size });
        }
        let inbox = here.inbox().map_err(GroupError::Open)?;
        let came = Came { rank, size };
        // Before another process can find the name.
        let coming = Coming::new(here, inbox.name(), came);
        let registered = here.register(&format!("{name}#{rank}"), &inbox).await.map_err(GroupError::Name)?;
        let member = take_place(here, name, came, inbox.name()).await?;
        let mut inbox = Some(inbox);
        if member.place == 0
            && let Some(inbox) = inbox.take()
            && member.run.opens(Arc::new(inbox))
        {
            tell_all(&member.run);
        }
        let mut group = Self {
            here: here.clone(),
            name: name.to_owned(),
            member,
            rank,
            size,
            operations: 0,
            room: Vec::new(),
            _inbox: inbox,
            _registered: registered,
            _coming: coming,
        };
        // A member may leave soon. All others must have found it before.
        group.barrier().await.map_err(GroupError::Lost)?;
        Ok(group)
    }

    /// Rank of this member.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.size
    }
}

/// A member within an operation. If this is dropped, the member has left.
struct Unfinished<'a> {
    run: &'a Run,
    rank: u32,
}

impl Unfinished<'_> {
    /// Ends the operation; `lost`: a member has gone.
    fn finish(self, lost: Option<Lost>) {
        let run = self.run;
        std::mem::forget(self);
        if let Some(lost) = lost
            && run.breaks(lost)
        {
            tell_all(run);
        }
    }
}

/// The number of the next operation. It is never 0, the number before the first, and never `LEAVES`.
fn next(operations: &mut u32) -> u32 {
    *operations = *operations % (LEAVES - 1) + 1;
    *operations
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        leave(self.run, self.rank);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        leave(&self.member.run, self.rank);
    }
}

fn leave(run: &Run, rank: u32) {
    if run.breaks(Lost { member: rank }) {
        tell_all(run);
    }
}

/// Tells the other runs that this run is broken. In some operations they wait for runs that are no neighbours.
fn tell_all(run: &Run) {
    let (Some(inbox), Some(lost)) = (run.inbox(), run.broken()) else { return };
    for (at, head) in (0..).zip(run.heads()) {
        if at == run.at() {
            continue;
        }
        let name = head.name;
        let message = Err::<(), Lost>(lost);
        if inbox.send(name, LEAVES, &message).try_sync().is_none() && current_vp().is_some() {
            // It has no room for this yet: it has not received all that came before.
            let inbox = Arc::clone(inbox);
            drop(spawn(async move { inbox.send(name, LEAVES, &message).await }));
        }
    }
}

/// The bytes of a value for all members of a run.
fn encoded<T: Serialize>(value: &T) -> Bytes {
    written(value, &mut Vec::new())
}

fn written<T: Serialize>(value: &T, room: &mut Vec<u8>) -> Bytes {
    Bytes::of(value, room).unwrap_or_else(|error| cannot(&error.to_string()))
}

fn different(what: &str) -> ! {
    panic!("the members of a group do different things: {what}")
}

fn cannot(error: &str) -> ! {
    panic!("a value of a group cannot be written: {error}")
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> T {
    decode(bytes).unwrap_or_else(|error| different(&error))
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}
