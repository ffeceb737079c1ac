//! Memory that processes share. Each process is the home of some words, and the others fetch copies. A copy is
//! invalid before its word changes (Chant, section 3.2: fetch and coherence): `chanter launch -n 4
//! target/release/examples/fetch [ROUNDS]`.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use chanter::sync::Mutex as Turns;
use chanter_cluster::{Process, Service};

/// A word's value, for a copy of it.
const FETCH: Service<u32, u64> = Service::new("example::fetch");
/// Adds to a word: its new value.
const ADD: Service<(u32, u64), u64> = Service::new("example::add");
/// A copy is of no use any more.
const INVALIDATE: Service<u32, ()> = Service::new("example::invalidate");
/// Words of each process.
const WORDS: u32 = 4;

type Failure = Box<dyn Error + Send + Sync>;

/// A word at home: its value, and who has copies.
#[derive(Default)]
struct Word {
    value: u64,
    sharers: BTreeSet<u32>,
}

/// A copy, and how often the word was invalidated: an answer that was on its way meanwhile is old.
#[derive(Default)]
struct Copy {
    value: Option<u64>,
    epoch: u64,
}

/// The memory, as one process has it.
struct Memory {
    here: Process,
    words: Vec<Turns<Word>>,
    copies: Mutex<BTreeMap<u32, Copy>>,
}

impl Memory {
    fn home(&self, address: u32) -> u32 {
        address / WORDS % self.here.count()
    }

    fn word(&self, address: u32) -> &Turns<Word> {
        &self.words[(address % WORDS) as usize]
    }

    /// Short use of a copy.
    fn with_copy<R>(&self, address: u32, f: impl FnOnce(&mut Copy) -> R) -> R {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        f(copies.entry(address).or_default())
    }

    fn serve(self: &Arc<Self>) -> Result<(), Failure> {
        let memory = Arc::clone(self);
        let fetch = self.here.serve(FETCH, move |caller, address| {
            let memory = Arc::clone(&memory);
            async move {
                let mut word = memory.word(address).lock().await;
                word.sharers.insert(caller.process());
                word.value
            }
        });
        let memory = Arc::clone(self);
        let add = self.here.serve(ADD, move |_, (address, more)| {
            let memory = Arc::clone(&memory);
            async move {
                // Others wait for this word meanwhile, and for no other.
                let mut word = memory.word(address).lock().await;
                for sharer in std::mem::take(&mut word.sharers) {
                    memory.here.at(sharer).call(INVALIDATE.ask(&address)).await.expect("a sharer answers");
                }
                word.value += more;
                word.value
            }
        });
        let memory = Arc::clone(self);
        let invalidate = self.here.serve(INVALIDATE, move |_, address| {
            memory.with_copy(address, |copy| {
                copy.value = None;
                copy.epoch += 1;
            });
            async {}
        });
        for serving in [fetch?, add?, invalidate?] {
            serving.forever();
        }
        Ok(())
    }

    /// The word, from a copy if there is one, and whether there was.
    async fn read(&self, address: u32) -> Result<(u64, bool), Failure> {
        let epoch = match self.with_copy(address, |copy| copy.value.ok_or(copy.epoch)) {
            Ok(value) => return Ok((value, true)),
            Err(epoch) => epoch,
        };
        let value = self.here.at(self.home(address)).call(FETCH.ask(&address)).await?;
        self.with_copy(address, |copy| {
            if copy.epoch == epoch {
                copy.value = Some(value);
            }
        });
        Ok((value, false))
    }
}

/// The body of each process.
pub(crate) async fn process(here: &Process) -> Result<(), Failure> {
    let rounds: u32 = std::env::args().nth(1).map_or(Ok(2000), |rounds| rounds.parse())?;
    let memory = Arc::new(Memory {
        here: here.clone(),
        words: (0..WORDS).map(|_| Turns::new(Word::default())).collect(),
        copies: Mutex::default(),
    });
    memory.serve()?;
    // All serve before anybody asks.
    let me = here.open("memory")?;
    let mut others = Vec::new();
    for process in 0..here.count() {
        others.push(here.lookup(&format!("memory@{process}")).await?);
    }
    let all = WORDS * here.count();
    let mut last_seen = vec![0; all as usize];
    let (mut added, mut hits) = (0_u64, 0_u32);
    for round in 0..rounds {
        // Each process goes its own way through the words; one in eight times it writes.
        let address = (round * 7 + here.number() * 3 + round / 5) % all;
        let seen = &mut last_seen[address as usize];
        if (round + here.number()).is_multiple_of(8) {
            let value = here.at(memory.home(address)).call(ADD.ask(&(address, 1))).await?;
            assert!(value > *seen, "an addition was lost");
            (*seen, added) = (value, added + 1);
        }
        let (value, is_hit) = memory.read(address).await?;
        assert!(value >= *seen, "word {address} went back from {seen} to {value}");
        *seen = value;
        hits += u32::from(is_hit);
    }
    // All have written, and say how much; the first adds up.
    for other in &others {
        me.send(*other, 0, &added).await?;
    }
    let mut total = 0;
    for other in &others {
        total += me.recv::<u64>(*other, 0).await?.value;
    }
    if here.number() == 0 {
        let mut sum = 0;
        for address in 0..all {
            sum += memory.read(address).await?.0;
        }
        assert_eq!(sum, total, "additions were lost, or counted twice");
        println!("{sum} additions, all there; {hits} of {rounds} reads were from copies");
    }
    // Nobody leaves while others ask.
    for other in &others {
        me.send(*other, 1, &()).await?;
    }
    for other in &others {
        me.recv::<()>(*other, 1).await?;
    }
    Ok(())
}

#[chanter_cluster::main]
async fn main(here: Process) -> Result<(), Failure> {
    process(&here).await
}
