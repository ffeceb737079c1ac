//! Many small values between two processes, in messages of their own and in batches. One program is a histogram whose
//! bins are in both processes. The other reads an array whose parts are in both.

use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::group::Group;
use chanter_cluster::{ANYONE, Batches, Inbox, Process, SendError, ThreadName};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::process::{Failure, SceneArgs, check, say_each};

pub(super) const HISTOGRAM: &str = "histogram, a message for each update: ns";
pub(super) const HISTOGRAM_BATCHED: &str = "histogram, in batches: ns";
pub(super) const INDEX_GATHER: &str = "index-gather, a message for each read: ns";
pub(super) const INDEX_GATHER_BATCHED: &str = "index-gather, in batches: ns";

/// Bins, or numbers of the array, in each process.
const PART: u32 = 1 << 12;
const TAG: u32 = 1;

/// A thread's way to send small values.
enum Way<T> {
    Messages(Arc<Inbox>),
    Batches(Batches<T>),
}

impl<T: Serialize> Way<T> {
    fn new(inbox: Arc<Inbox>, batched: bool) -> Self {
        if batched { Self::Batches(Batches::new(inbox, TAG)) } else { Self::Messages(inbox) }
    }

    async fn send(&self, to: ThreadName, value: &T) -> Result<(), SendError> {
        match self {
            Self::Messages(inbox) => inbox.send(to, TAG, value).await,
            Self::Batches(batches) => batches.add(to, value).await,
        }
    }

    async fn flush(&self) -> Result<(), SendError> {
        match self {
            Self::Messages(_) => Ok(()),
            Self::Batches(batches) => batches.flush().await,
        }
    }
}

/// Receives the next values, and their sender.
async fn receive<T>(inbox: &Inbox, batched: bool) -> Result<(ThreadName, Vec<T>), Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    if batched {
        let got = inbox.recv_batch::<T>(ANYONE, TAG).await?;
        return Ok((got.from, got.value.collect::<Result<_, _>>()?));
    }
    let got = inbox.recv::<T>(ANYONE, TAG).await?;
    Ok((got.from, vec![got.value]))
}

/// The same numbers in each process.
fn random(seed: u32) -> impl FnMut() -> u32 {
    let mut state = u64::from(seed) + 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    }
}

pub(super) async fn scene(here: &Process, args: &SceneArgs) -> Result<(), Failure> {
    let mut group = Group::of(here, "small", here.number(), 2).await?;
    for _ in 0..args.rounds {
        for (batched, histogram, gather) in
            [(false, HISTOGRAM, INDEX_GATHER), (true, HISTOGRAM_BATCHED, INDEX_GATHER_BATCHED)]
        {
            self::histogram(here, &mut group, batched, histogram, args.n).await?;
            index_gather(here, &mut group, batched, gather, args.n).await?;
        }
    }
    Ok(())
}

/// Each process has half of the bins, and updates the other process's.
async fn histogram(
    here: &Process,
    group: &mut Group,
    batched: bool,
    row: &str,
    n: u32,
) -> Result<(), Failure> {
    let (bins, me) = (Arc::new(here.inbox()?), Arc::new(here.inbox()?));
    let other = group.all_gather(bins.name()).await?[1 - here.number() as usize];
    let clock = Instant::now();
    let counting = spawn(async move {
        let (mut counts, mut left) = (vec![0_u32; PART as usize], n as usize);
        while left > 0 {
            let (_, values) = receive::<u32>(&bins, batched).await?;
            left -= values.len();
            values.into_iter().for_each(|bin| counts[bin as usize] += 1);
        }
        Ok::<_, Failure>(counts)
    });
    let (way, mut next) = (Way::new(me, batched), random(here.number()));
    for _ in 0..n {
        way.send(other, &(next() % PART)).await?;
    }
    way.flush().await?;
    let counts = counting.await??;
    group.barrier().await?;
    if here.number() == 0 {
        say_each(row, clock, n)?;
    }
    let (mut expected, mut next) = (vec![0; PART as usize], random(1 - here.number()));
    (0..n).for_each(|_| expected[(next() % PART) as usize] += 1);
    check(counts == expected, "a histogram was wrong")
}

/// Each process has half of the numbers, and reads the other process's.
async fn index_gather(
    here: &Process,
    group: &mut Group,
    batched: bool,
    row: &str,
    n: u32,
) -> Result<(), Failure> {
    let (asked, answered) = (Arc::new(here.inbox()?), Arc::new(here.inbox()?));
    let names = group.all_gather(asked.name()).await?;
    let other = names[1 - here.number() as usize];
    let clock = Instant::now();
    // A question: the place of the answer, and the index.
    let serving = spawn(async move {
        let way = Way::<(u32, u64)>::new(Arc::clone(&asked), batched);
        let mut left = n as usize;
        while left > 0 {
            let (from, questions) = receive::<(u32, u32)>(&asked, batched).await?;
            left -= questions.len();
            for (place, index) in questions {
                way.send(from, &(place, u64::from(index) * 3)).await?;
            }
        }
        Ok::<_, Failure>(way.flush().await?)
    });
    let me = Arc::clone(&answered);
    let asking = spawn(async move {
        let (way, mut next) = (Way::<(u32, u32)>::new(me, batched), random(7));
        for place in 0..n {
            way.send(other, &(place, next() % PART)).await?;
        }
        way.flush().await
    });
    let (mut values, mut left) = (vec![0; n as usize], n as usize);
    while left > 0 {
        let (_, answers) = receive::<(u32, u64)>(&answered, batched).await?;
        left -= answers.len();
        answers.into_iter().for_each(|(place, value)| values[place as usize] = value);
    }
    asking.await??;
    serving.await??;
    group.barrier().await?;
    if here.number() == 0 {
        say_each(row, clock, n)?;
    }
    let mut next = random(7);
    check(values.iter().all(|value| *value == u64::from(next() % PART) * 3), "a read was wrong")
}
