//! Groups of threads in several processes, with collective operations: barrier, broadcast and reduce.
//!
//! The members have ranks from 0. Members in one process with consecutive ranks form a run: they meet in memory. One
//! message for all of them goes to the next run, along a tree. So the threads of a process should have
//! consecutive ranks.

mod bytes;
mod membership;
mod run;
mod tree;

use std::fmt;
use std::sync::Arc;

use chanter::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::inbox::Inbox;
use crate::name::{NameError, Registered, ThreadName};
use crate::wire::decode;
use crate::{ANY_TAG, OpenError, Process, RecvError, SendError};
use bytes::Bytes;
use membership::{Came, Coming, MemberPlace, take_place};
pub(crate) use membership::{MembershipTables, serve};
use run::{Part, Run};

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
    /// A caller that gets [`Missing`](GroupError::Missing) may try again.
    ///
    /// **Cancel safety.** A caller that drops the future is no member.
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
        Ok(Self {
            member,
            rank,
            size,
            operations: 0,
            room: Vec::new(),
            _inbox: inbox,
            _registered: registered,
            _coming: coming,
        })
    }

    /// Rank of this member.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Waits until all members have called this.
    ///
    /// **Cancel safety.** A member that drops this future before its end has left the group. The same holds for the
    /// other operations.
    ///
    /// # Errors
    /// [`Lost`]: a member has gone. If that is noticed late, some members succeed and others get this error; in the
    /// next operation all get it.
    pub async fn barrier(&mut self) -> Result<(), Lost> {
        let operation = next(&mut self.operations);
        let run = &*self.member.run;
        let unfinished = Unfinished { run, rank: self.rank };
        let result = match run.meet::<()>(self.member.place, &Bytes::NONE).await {
            Part::Told(outcome) => outcome,
            Part::Last(values) => {
                let result = exchange(run, operation, (), |(), ()| ()).await;
                run.tell(&result.map(|()| Bytes::NONE), values);
                result
            }
        };
        unfinished.finish(result.err());
        result
    }

    /// Combines the values of all members, in the order of their ranks, and gives all of them the result. `combine`
    /// must be associative, and give the same result for the same values in each process. It need not be commutative.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    pub async fn reduce<T>(&mut self, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let operation = next(&mut self.operations);
        let run = &*self.member.run;
        let unfinished = Unfinished { run, rank: self.rank };
        let bytes = written(&value, &mut self.room);
        let result = match run.meet(self.member.place, &bytes).await {
            Part::Told(outcome) => outcome,
            Part::Last(values) => {
                // This member's value was encoded for the others, so it is decoded like theirs.
                let combined = values.iter().map(|value| read(value)).reduce(&combine);
                let combined = combined.expect("a run has members");
                let result = exchange(run, operation, combined, &combine).await;
                let outcome = result.as_ref().map(|value| written(value, &mut self.room));
                run.tell(&outcome.map_err(|lost| *lost), values);
                result
            }
        };
        unfinished.finish(result.as_ref().err().copied());
        result
    }

    /// Gives all members the value of the member with rank `root`, which passes `Some`. The values of others are
    /// ignored.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    ///
    /// # Panics
    /// The root passes `None`.
    pub async fn broadcast<T>(&mut self, root: u32, value: Option<T>) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        assert!(self.rank != root || value.is_some(), "the root of a broadcast brings the value");
        let mine = value.filter(|_| self.rank == root);
        let all = self.reduce(mine, Option::or).await?;
        all.ok_or(Lost { member: root })
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

/// Tells the neighbouring runs that this run is broken.
fn tell_all(run: &Run) {
    if let (Some(inbox), Some(lost)) = (run.inbox(), run.broken()) {
        for (_, name) in run.neighbours() {
            // A run without room for this has not received from this one for long. Its next message will fail.
            let _ = inbox.send(*name, LEAVES, &Err::<(), Lost>(lost)).try_sync();
        }
    }
}

fn written<T: Serialize>(value: &T, room: &mut Vec<u8>) -> Bytes {
    Bytes::of(value, room).unwrap_or_else(|error| cannot(&error.to_string()))
}

fn cannot(error: &str) -> ! {
    panic!("a value of a group cannot be written: {error}")
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> T {
    decode(bytes).unwrap_or_else(|error| panic!("the members of a group do different things: {error}"))
}

/// Sends a run's value up the tree, combined with the values below it, and takes the result of all that comes down.
async fn exchange<T>(run: &Run, operation: u32, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
where
    T: Serialize + DeserializeOwned,
{
    let Some(inbox) = run.inbox() else { return Ok(value) };
    if let Some(other) = run.only_other() {
        return swap(inbox, run, other, operation, value, combine).await;
    }
    let mut combined = Ok(value);
    for child in &run.children {
        // All children are heard, so that no message is left over.
        let part = hear(inbox, *child, operation).await;
        combined = match (combined, part) {
            (Ok(mine), Ok(part)) => Ok(combine(mine, part)),
            (Err(lost), _) | (_, Err(lost)) => Err(lost),
        };
    }
    let result = match run.parent {
        None => combined,
        Some(parent) => match say(inbox, parent, operation, &combined).await {
            Ok(()) => hear(inbox, parent, operation).await,
            Err(lost) => Err(lost),
        },
    };
    for child in &run.children {
        // A child may have gone; the next operation will find that out.
        let _ = say(inbox, *child, operation, &result).await;
    }
    result
}

/// The exchange of two runs. Each sends its value to the other and combines both itself, so no result has to come
/// down.
async fn swap<T>(
    inbox: &Inbox,
    run: &Run,
    other: (u32, ThreadName),
    operation: u32,
    value: T,
    combine: impl Fn(T, T) -> T,
) -> Result<T, Lost>
where
    T: Serialize + DeserializeOwned,
{
    let mine = Ok(value);
    say(inbox, other, operation, &mine).await?;
    let (mine, theirs) = (mine?, hear(inbox, other, operation).await?);
    Ok(if run.first() < other.0 { combine(mine, theirs) } else { combine(theirs, mine) })
}

async fn say<T: Serialize>(inbox: &Inbox, to: (u32, ThreadName), tag: u32, what: &T) -> Result<(), Lost> {
    let (member, name) = to;
    match inbox.send(name, tag, what).await {
        Ok(()) => Ok(()),
        Err(SendError::Encode(error)) => cannot(&error),
        Err(SendError::TooLong { length, longest }) => {
            panic!("a value of a group takes {length} bytes, and a message at most {longest}")
        }
        Err(_) => Err(Lost { member }),
    }
}

/// Receives another run's next message: its part in that operation, or that it is broken.
async fn hear<T: DeserializeOwned>(inbox: &Inbox, from: (u32, ThreadName), tag: u32) -> Result<T, Lost> {
    let (member, name) = from;
    match inbox.recv::<Result<T, Lost>>(name, ANY_TAG).await {
        Ok(got) if got.tag == tag || got.tag == LEAVES => got.value,
        Err(RecvError::Lost(..)) => Err(Lost { member }),
        Ok(got) => panic!("the members of a group do different things: {} for {tag}", got.tag),
        Err(error) => panic!("the members of a group do different things: {error}"),
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}
