//! The collective operations of a group.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bytes::Bytes;
use super::exchange::{Block, Talk};
use super::run::{Part, Told, Value};
use super::{Group, GroupError, Lost, Unfinished, different, encoded, next, read, tell_all, written};

impl Group {
    /// Waits until all members have called this.
    ///
    /// **Cancel safety.** A member that drops this future before its end has left the group. The same holds for the
    /// other operations.
    ///
    /// # Errors
    /// [`Lost`]: a member has gone. If that is noticed late, some members succeed and others get this error. Then all
    /// get it in a later operation.
    pub async fn barrier(&mut self) -> Result<(), Lost> {
        self.reduce((), |(), ()| ()).await
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
        let result = match run.meet::<Value<T>>(self.member.place, &bytes).await {
            Part::Told(outcome) => outcome.map(|Value(value)| value),
            Part::Last(values) => {
                // This member's value was encoded for the others, so it is decoded like theirs.
                let combined = values.iter().map(|value| read(value)).reduce(&combine);
                let combined = combined.expect("a run has members");
                let result = Talk { run, operation }.combine(combined, &combine).await;
                let outcome = result.as_ref().map(|value| written(value, &mut self.room));
                if run.tell(&outcome.map_err(|lost| *lost), values) {
                    tell_all(run);
                }
                result
            }
        };
        unfinished.finish(result.as_ref().err().copied());
        result
    }

    /// Gives all members the value of the member with rank `root`, which passes `Some`. The values of others are
    /// ignored. The value goes down a tree of processes. The root does not wait for members of other processes.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    ///
    /// # Panics
    /// The root passes `None`, or no member has that rank.
    pub async fn broadcast<T>(&mut self, root: u32, value: Option<T>) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let mine = self.brought(root, value);
        let Value(value) = self
            .operate(&mine, async |talk: Talk<'_>, values: &[Bytes]| {
                let (run, own) = (talk.run.run_of(root), talk.run.own());
                let block = own.contains(&root).then(|| Block(values[(root - own.start) as usize].to_vec()));
                talk.down(run, block).await.map(|block| Bytes::copied(&block.0))
            })
            .await?;
        Ok(value)
    }

    /// Gives the member with rank `root` the values of all members, in the order of their ranks. Other members get
    /// `None`, and do not wait for the root.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    ///
    /// # Panics
    /// No member has that rank.
    ///
    /// ```
    /// use chanter::prelude::*;
    /// use chanter_cluster::group::Group;
    /// use chanter_cluster::local;
    ///
    /// # let machine = Machine::new()?;
    /// # machine.block_on(async {
    /// let mut members = Vec::new();
    /// let processes = local(3);
    /// for (rank, here) in (0..).zip(processes.clone()) {
    ///     members.push(spawn(async move {
    ///         let mut team = Group::of(&here, "letters", rank, 3).await.unwrap();
    ///         team.gather(0, ["a", "b", "c"][rank as usize].to_owned()).await.unwrap()
    ///     }));
    /// }
    /// let mut gathered = Vec::new();
    /// for member in members {
    ///     gathered.push(member.await.unwrap());
    /// }
    /// assert_eq!(gathered[0].as_deref().unwrap().concat(), "abc");
    /// assert_eq!(gathered[1..], [None, None]);
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn gather<T>(&mut self, root: u32, value: T) -> Result<Option<Vec<T>>, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        self.is_member(root);
        let mine = written(&value, &mut self.room);
        let all: Bytes = self
            .operate(&mine, async |talk: Talk<'_>, values: &[Bytes]| {
                let all = talk.up(talk.run.run_of(root), blocks(values)).await?;
                Ok(all.map_or(Bytes::NONE, |all| encoded(&all)))
            })
            .await?;
        Ok((self.rank == root).then(|| values_of(&all)))
    }

    /// Gives all members the values of all, in the order of their ranks.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    pub async fn all_gather<T>(&mut self, value: T) -> Result<Vec<T>, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let mine = written(&value, &mut self.room);
        let all: Bytes = self
            .operate(&mine, async |talk: Talk<'_>, values: &[Bytes]| {
                let append = |mut all: Vec<Block>, more| {
                    all.extend::<Vec<Block>>(more);
                    all
                };
                Ok(encoded(&talk.combine(blocks(values), append).await?))
            })
            .await?;
        Ok(values_of(&all))
    }

    /// Gives each member one of the values of the member with rank `root`, by its rank. The root passes `Some` with a
    /// value for each member. The values of others are ignored. The root does not wait for members of other processes.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    ///
    /// # Panics
    /// The root passes `None` or another number of values, or no member has that rank.
    pub async fn scatter<T>(&mut self, root: u32, values: Option<Vec<T>>) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let values = values.filter(|_| self.rank == root);
        if let Some(values) = &values {
            self.is_for_each(values);
        }
        let mine = self.brought(root, values.map(|values| write_all(&values)));
        let own: Bytes = self
            .operate(&mine, async |talk: Talk<'_>, values: &[Bytes]| {
                let (run, own) = (talk.run.run_of(root), talk.run.own());
                let all = own.contains(&root).then(|| read(&values[(root - own.start) as usize]));
                Ok(encoded(&talk.deal(run, all).await?))
            })
            .await?;
        let own: Vec<&[u8]> = borrowed(&own);
        Ok(read(own[self.member.place as usize]))
    }

    /// Each member gives a value to each. Value `r` of the argument goes to the member with rank `r`. Value `r` of the
    /// result is from that member.
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    ///
    /// # Panics
    /// There are more or fewer values than members.
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
    ///         let mut team = Group::of(&here, "transpose", rank, 2).await.unwrap();
    ///         team.all_to_all(vec![(rank, 0), (rank, 1)]).await.unwrap()
    ///     }));
    /// }
    /// for (rank, member) in (0..).zip(members) {
    ///     assert_eq!(member.await.unwrap(), [(0, rank), (1, rank)]);
    /// }
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn all_to_all<T>(&mut self, values: Vec<T>) -> Result<Vec<T>, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        self.is_for_each(&values);
        let mine = written(&write_all(&values), &mut self.room);
        drop(values);
        let size = self.size;
        let rows: Bytes = self
            .operate(&mine, async |talk: Talk<'_>, values: &[Bytes]| {
                let sent: Vec<Vec<&[u8]>> = values.iter().map(|value| borrowed(value)).collect();
                if sent.iter().any(|row| row.len() != size as usize) {
                    different("the number of values");
                }
                let own = talk.run.own();
                let mut rows = vec![vec![Block::default(); size as usize]; own.len()];
                for (from, row) in own.clone().zip(&sent) {
                    for (to, rows) in own.clone().zip(&mut rows) {
                        rows[from as usize] = Block(row[to as usize].to_vec());
                    }
                }
                let to = |run| {
                    let theirs = talk.run.ranks(run);
                    let part = |row: &Vec<&[u8]>| {
                        row[theirs.start as usize..theirs.end as usize]
                            .iter()
                            .map(|bytes| Block(bytes.to_vec()))
                            .collect::<Vec<_>>()
                    };
                    sent.iter().flat_map(part).collect()
                };
                let from = |run, blocks: Vec<Block>| {
                    let theirs = talk.run.ranks(run);
                    if blocks.len() != theirs.len() * own.len() {
                        different("the number of values");
                    }
                    for (at, block) in blocks.into_iter().enumerate() {
                        rows[at % own.len()][theirs.start as usize + at / own.len()] = block;
                    }
                };
                talk.with_each(to, from).await?;
                Ok(encoded(&rows))
            })
            .await?;
        let rows: Vec<Vec<&[u8]>> = borrowed(&rows);
        Ok(rows[self.member.place as usize].iter().map(|bytes| read(bytes)).collect())
    }

    /// Gives each member the combination of the values of the members up to itself, in the order of their ranks: a
    /// running total. `combine` is as for [`reduce`](Self::reduce).
    ///
    /// # Errors
    /// As for [`barrier`](Self::barrier).
    pub async fn scan<T>(&mut self, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Lost>
    where
        T: Serialize + DeserializeOwned,
    {
        let mine = written(&value, &mut self.room);
        let totals: Bytes = self
            .operate(&mine, async |talk: Talk<'_>, values: &[Bytes]| {
                let write = |value: &T| Block(written(value, &mut Vec::new()).to_vec());
                Ok(encoded(&talk.scan(blocks(values), read::<T>, write, &combine).await?))
            })
            .await?;
        let totals: Vec<&[u8]> = borrowed(&totals);
        Ok(read(totals[self.member.place as usize]))
    }

    /// Makes smaller groups: all members with the same `colour` are one, ordered by `key`, and then by rank. A member
    /// with the colour `None` gets none. This group goes on.
    ///
    /// # Errors
    /// [`GroupError::Lost`]: a member of this group has gone. Other errors are those of [`of`](Self::of).
    pub async fn split(&mut self, colour: Option<u32>, key: u32) -> Result<Option<Self>, GroupError> {
        let all = self.all_gather((colour, key)).await.map_err(GroupError::Lost)?;
        let Some(colour) = colour else { return Ok(None) };
        let mut same: Vec<(u32, u32)> = (0..)
            .zip(all)
            .filter(|(_, (other, _))| *other == Some(colour))
            .map(|(rank, (_, key))| (key, rank))
            .collect();
        same.sort_unstable();
        let rank = same.iter().position(|(_, rank)| *rank == self.rank).expect("it has its own colour");
        let name = format!("{}/{}/{colour}", self.name, self.operations);
        Self::of(&self.here, &name, rank as u32, same.len() as u32).await.map(Some)
    }

    /// An operation to which this member brings `mine`. The last member of its run calls `talk` with the values of all,
    /// for the bytes that all of them get.
    async fn operate<R: Told>(
        &mut self,
        mine: &Bytes,
        talk: impl AsyncFnOnce(Talk<'_>, &[Bytes]) -> Result<Bytes, Lost>,
    ) -> Result<R, Lost> {
        let operation = next(&mut self.operations);
        let run = &*self.member.run;
        let unfinished = Unfinished { run, rank: self.rank };
        let result = match run.meet::<R>(self.member.place, mine).await {
            Part::Told(outcome) => outcome,
            Part::Last(values) => {
                let result = talk(Talk { run, operation }, &values).await;
                if run.tell(&result, values) {
                    tell_all(run);
                }
                result.map(R::take)
            }
        };
        unfinished.finish(result.as_ref().err().copied());
        result
    }

    /// The bytes that a member brings of which only the root's count.
    fn brought<T: Serialize>(&mut self, root: u32, value: Option<T>) -> Bytes {
        self.is_member(root);
        if self.rank != root {
            return Bytes::NONE;
        }
        written(&value.expect("the root of an operation brings the value"), &mut self.room)
    }

    fn is_member(&self, root: u32) {
        assert!(root < self.size, "a group of {} has no rank {root}", self.size);
    }

    fn is_for_each<T>(&self, values: &[T]) {
        let (size, found) = (self.size, values.len());
        assert!(found == size as usize, "a group of {size} needs as many values, and these are {found}");
    }
}

fn blocks(values: &[Bytes]) -> Vec<Block> {
    values.iter().map(|value| Block(value.to_vec())).collect()
}

fn write_all<T: Serialize>(values: &[T]) -> Vec<Block> {
    values.iter().map(|value| Block(written(value, &mut Vec::new()).to_vec())).collect()
}

fn values_of<T: DeserializeOwned>(all: &[u8]) -> Vec<T> {
    borrowed::<Vec<&[u8]>>(all).into_iter().map(read).collect()
}

/// Reads blocks where they lie.
fn borrowed<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> T {
    crate::wire::decode(bytes).unwrap_or_else(|error| different(&error))
}
