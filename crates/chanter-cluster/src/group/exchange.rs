//! Messages between the runs of a group in an operation. One thread talks for each run.

use chanter::Event;
use chanter::event::gather;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::run::{Below, Head, Run};
use super::{LEAVES, Lost, cannot, different};
use crate::inbox::Inbox;
use crate::{ANY_TAG, Received, RecvError, SendError};

/// The encoded value of one member. It travels as bytes, which nobody between looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block(pub(super) Vec<u8>);

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Block;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the bytes of a value")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Block, E> {
                Ok(Block(bytes.to_vec()))
            }
            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Block, E> {
                Ok(Block(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Visitor)
    }
}

/// An operation of one run: the run, the inbox of its first member, and the number of the operation.
#[derive(Clone, Copy)]
pub(super) struct Talk<'a> {
    pub(super) run: &'a Run,
    pub(super) operation: u32,
}

impl Talk<'_> {
    /// The inbox of the run. It is there: all members have come.
    fn inbox(&self) -> &Inbox {
        self.run.inbox().expect("the first member has come")
    }

    /// Sends a run's value up the tree, combined with the values below it, and takes the result of all that comes down.
    pub(super) async fn combine<T>(self, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        if let Some(other) = self.run.only_other() {
            return self.swap(other, value, combine).await;
        }
        let tree = &self.run.tree;
        let mut combined = Ok(value);
        for child in &tree.children {
            // All children are heard, so that no message is left over.
            let part = self.hear(child.head).await;
            combined = match (combined, part) {
                (Ok(mine), Ok(part)) => Ok(combine(mine, part)),
                (Err(lost), _) | (_, Err(lost)) => Err(lost),
            };
        }
        let result = match tree.parent {
            None => combined,
            Some(parent) => match self.say(parent, &combined).await {
                Ok(()) => self.hear(parent).await,
                Err(lost) => Err(lost),
            },
        };
        self.say_below(&tree.children, &result).await;
        result
    }

    /// The exchange of two runs. Each sends its value to the other and combines both itself, so no result has to come
    /// down.
    async fn swap<T>(self, other: Head, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let mine = Ok(value);
        self.say(other, &mine).await?;
        let (mine, theirs) = (mine?, self.hear(other).await?);
        Ok(if self.run.own().start < other.rank { combine(mine, theirs) } else { combine(theirs, mine) })
    }

    /// Sends a block down the tree that the run `root` leads, and returns it. `own`: the block, if this run is the root.
    pub(super) async fn down(self, root: u32, own: Option<Block>) -> Result<Block, Lost> {
        let tree = self.run.tree_of(root);
        let result = match (own, tree.parent) {
            (Some(own), _) => Ok(own),
            (None, Some(parent)) => self.hear(parent).await,
            (None, None) => unreachable!("the root brings the block"),
        };
        self.say_below(&tree.children, &result).await;
        result
    }

    /// Sends blocks up the tree that the run `root` leads. Returns those of all members there, in the order of their
    /// ranks, and none elsewhere.
    pub(super) async fn up(self, root: u32, own: Vec<Block>) -> Result<Option<Vec<Block>>, Lost> {
        let tree = self.run.tree_of(root);
        let mut all = Ok(own);
        for child in &tree.children {
            // All children are heard, so that no message is left over.
            let part: Result<Vec<Block>, Lost> = self.hear(child.head).await;
            all = match (all, part) {
                (Ok(mut all), Ok(part)) if part.len() == self.members(child) => {
                    all.extend(part);
                    Ok(all)
                }
                (Ok(_), Ok(_)) => different("the number of values"),
                (Err(lost), _) | (_, Err(lost)) => Err(lost),
            };
        }
        if let Some(parent) = tree.parent {
            self.say(parent, &all).await?;
            return all.map(|_| None);
        }
        // The first are those of this run, and those of the runs before it are the last.
        let mut all = all?;
        all.rotate_right(self.run.own().start as usize);
        Ok(Some(all))
    }

    /// Sends to each member its block down the tree that the run `root` leads. `all`: the blocks of all members in the
    /// order of their ranks, if this run is the root. Returns those of this run's members.
    pub(super) async fn deal(self, root: u32, all: Option<Vec<Block>>) -> Result<Vec<Block>, Lost> {
        let tree = self.run.tree_of(root);
        let mine = match (all, tree.parent) {
            (Some(mut all), _) => {
                all.rotate_left(self.run.own().start as usize);
                Ok(all)
            }
            (None, Some(parent)) => self.hear(parent).await,
            (None, None) => unreachable!("the root brings the blocks"),
        };
        let mut mine = match mine {
            Ok(mine) => mine,
            Err(lost) => {
                self.say_below(&tree.children, &Err::<Vec<Block>, _>(lost)).await;
                return Err(lost);
            }
        };
        let expected =
            self.run.own().len() + tree.children.iter().map(|child| self.members(child)).sum::<usize>();
        if mine.len() != expected {
            different("the number of values");
        }
        let mut below = mine.split_off(self.run.own().len());
        for child in &tree.children {
            let rest = below.split_off(self.members(child));
            self.say_down(child, &Ok(below)).await;
            below = rest;
        }
        Ok(mine)
    }

    /// Exchanges blocks with each other run: sends what `to` returns for it, and gives what comes to `from`.
    pub(super) async fn with_each(
        self,
        mut to: impl FnMut(u32) -> Vec<Block>,
        mut from: impl FnMut(u32, Vec<Block>),
    ) -> Result<(), Lost> {
        let (at, runs) = (self.run.at(), self.run.heads().len() as u32);
        for step in 1..runs {
            // In a ring, so that each run hears from one other at a time.
            let (next, last) = ((at + step) % runs, (at + runs - step) % runs);
            let head = |run: u32| self.run.heads()[run as usize];
            let message = Ok::<_, Lost>(to(next));
            let send = self.inbox().send(head(next).name, self.operation, &message);
            let recv = self.inbox().recv::<Result<Vec<Block>, Lost>>(head(last).name, ANY_TAG);
            // At once: a long message may wait for its receiver.
            let (sent, received) = gather((send, recv)).await;
            sent.map_err(|error| self.lost(head(next), error))?;
            from(last, self.heard(head(last), received)?);
        }
        Ok(())
    }

    /// The running totals of all members: each gets the combination of the values up to its own. `own`: the values of
    /// this run's members, of which `read` makes values and `write` makes blocks.
    pub(super) async fn scan<T>(
        self,
        own: Vec<Block>,
        read: impl Fn(&[u8]) -> T,
        write: impl Fn(&T) -> Block,
        combine: impl Fn(T, T) -> T,
    ) -> Result<Vec<Block>, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let tree = &self.run.tree;
        let mut below = Ok(Vec::new());
        for child in &tree.children {
            // All children are heard, so that no message is left over.
            let part: Result<Block, Lost> = self.hear(child.head).await;
            below = below.and_then(|mut below| {
                below.push(part?);
                Ok(below)
            });
        }
        let total = below.as_ref().map_err(|lost| *lost).map(|below| {
            let values = own.iter().chain(below).map(|block| read(&block.0));
            write(&values.reduce(&combine).expect("a run has members"))
        });
        // The total of all members before this run's, if there are any.
        let before: Result<Option<Block>, Lost> = match tree.parent {
            None => total.map(|_| None),
            Some(parent) => match self.say(parent, &total).await {
                Ok(()) => self.hear(parent).await,
                Err(lost) => Err(lost),
            },
        };
        let before = match before.and_then(|before| Ok((before, below?))) {
            Ok(before) => before,
            Err(lost) => {
                self.say_below(&tree.children, &Err::<Option<Block>, _>(lost)).await;
                return Err(lost);
            }
        };
        let (before, below) = before;
        let mut running = before.map(|block| read(&block.0));
        let mut add = |block: &Block| {
            let value = read(&block.0);
            let total = match running.take() {
                Some(total) => combine(total, value),
                None => value,
            };
            let written = write(&total);
            running = Some(total);
            written
        };
        let totals: Vec<Block> = own.iter().map(&mut add).collect();
        let mut last = totals.last().cloned();
        for (child, total) in tree.children.iter().zip(&below) {
            self.say_down(child, &Ok(last)).await;
            last = Some(add(total));
        }
        Ok(totals)
    }

    /// Number of members of a run and of all below it.
    fn members(&self, below: &Below) -> usize {
        below.runs.iter().map(|run| self.run.ranks(*run).len()).sum()
    }

    async fn say_below<T: Serialize>(self, children: &[Below], what: &Result<T, Lost>) {
        for child in children {
            self.say_down(child, what).await;
        }
    }

    /// Sends a result to a run below. If that has gone, the operation has happened here nevertheless.
    async fn say_down<T: Serialize>(self, child: &Below, what: &Result<T, Lost>) {
        if let Err(lost) = self.say(child.head, what).await {
            self.run.misses(lost);
        }
    }

    async fn say<T: Serialize>(self, to: Head, what: &Result<T, Lost>) -> Result<(), Lost> {
        self.inbox().send(to.name, self.operation, what).await.map_err(|error| self.lost(to, error))
    }

    /// Receives another run's next message: its part in this operation, or that it is broken.
    async fn hear<T: DeserializeOwned>(self, from: Head) -> Result<T, Lost> {
        let received = self.inbox().recv::<Result<T, Lost>>(from.name, ANY_TAG).await;
        self.heard(from, received)
    }

    fn heard<T>(self, from: Head, received: Result<Received<Result<T, Lost>>, RecvError>) -> Result<T, Lost> {
        match received {
            Ok(got) if got.tag == self.operation || got.tag == LEAVES => got.value,
            Err(RecvError::Lost(..)) => Err(Lost { member: from.rank }),
            Ok(got) => different(&format!("{} for {}", got.tag, self.operation)),
            Err(error) => different(&error.to_string()),
        }
    }

    /// The member that has gone, as a run cannot be reached. A run that has left has said why before.
    fn lost(self, to: Head, error: SendError) -> Lost {
        match error {
            SendError::Encode(error) => cannot(&error),
            SendError::TooLong { length, longest } => {
                panic!("a value of a group takes {length} bytes, and a message at most {longest}")
            }
            _ => match self.inbox().recv::<Result<(), Lost>>(to.name, LEAVES).try_sync() {
                Some(Ok(Received { value: Err(lost), .. })) => lost,
                _ => Lost { member: to.rank },
            },
        }
    }
}
