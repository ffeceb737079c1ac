//! Groups: threads of several processes that do something together, each for itself: wait for each other, spread a value, combine
//! values.
//!
//! The members have ranks from 0. Those in one process whose ranks follow each other meet in memory, and one message for all
//! of them goes to the next such run, along a tree. So it pays to give the threads of a process ranks that follow
//! each other.

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
    member: MemberPlace,
    rank: u32,
    size: u32,
    operations: u32,
    /// Where it writes values that are long.
    room: Vec<u8>,
    /// Keeps its name, if it is not the one that talks for its run.
    _inbox: Option<Inbox>,
    _registered: Registered,
    _coming: Coming,
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
    /// Another member has come to a group of another size.
    Size {
        /// Its rank.
        rank: u32,
        /// The size that it has said.
        size: u32,
    },
    /// Processes have gone, and for 10 seconds no member of that rank has come.
    Missing {
        /// The first rank that is missing.
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
    /// Becomes the member with that rank of a group of `size`, and waits for all others. `name` is the group's, in the whole cluster, as long
    /// as it has members.
    ///
    /// As long as all processes live, it waits for as long as the others take. If a process of the cluster has gone, each member that
    /// is missing has 10 seconds to come after the one before: so nobody waits for those who have ended before they came. Who has got such
    /// an error may try again.
    ///
    /// **Cancel safety.** Dropped, it is no member.
    ///
    /// # Errors
    /// See [`GroupError`]. Members that have come for different sizes are told of each other.
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn of(here: &Process, name: &str, rank: u32, size: u32) -> Result<Self, GroupError> {
        if rank >= size {
            return Err(GroupError::NoSuchRank { rank, size });
        }
        let inbox = here.inbox().map_err(GroupError::Open)?;
        let came = Came { rank, size };
        // Before anybody finds it.
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
    /// **Cancel safety.** A member that does not finish an operation has left the group: this, and what follows.
    ///
    /// # Errors
    /// [`Lost`]: a member is there no more. If that is seen late, some members get what they wanted and others this; in the next operation
    /// all get it.
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

    /// Combines the values of all members, in the order of their ranks, and gives all of them the result. `combine` is to be
    /// associative, and to make the same of the same values in each process; it need not be commutative.
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
                // The value itself was written for the others: it is read again like theirs.
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
}

/// A member in the midst of an operation: if it gets no further, it has left.
struct Unfinished<'a> {
    run: &'a Run,
    rank: u32,
}

impl Unfinished<'_> {
    /// It has ended, perhaps as somebody is there no more.
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

/// The number of the next operation: never 0, which is before the first; and never that of leaving.
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

/// Tells the runs beside this one that it does nothing any more.
fn tell_all(run: &Run) {
    if let (Some(inbox), Some(lost)) = (run.inbox(), run.broken()) {
        for (_, name) in run.neighbours() {
            // Whoever has no room for it has heard nothing of this run for long: its next message is an error, then.
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

/// A run's value goes up the tree, together with those below it, and the result of all comes down.
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
        // All are heard, so that nothing is left over.
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
        // Who is there no more hears nothing; the next operation finds it out.
        let _ = say(inbox, *child, operation, &result).await;
    }
    result
}

/// The same where there are two runs: each tells the other one its value, and combines both for itself. Nobody waits for what comes
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

/// What another run says next: to that operation, or that it does nothing any more.
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
