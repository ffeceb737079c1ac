//! The state of a space behind its lock: tuples, operations that wait for tuples, and threads that stand for tuples.
//!
//! All of these lie in *buckets*, one for each value of the first field. A pattern whose first field is a formal waits
//! in a bucket of its own (`open`). So does a thread that stands for a tuple whose first field is not known.
//!
//! * INV-SPACE: while the lock is free, no waiting operation matches a tuple of the space. A tuple that is put goes
//!   first to those who wait. An operation waits only after it has searched the space.
//! * INV-DEMAND: a *standing* thread stands for a tuple, and has not begun. While the lock is free, no waiting
//!   operation matches a standing thread. An operation demands all that it matches before it waits, under the lock
//!   under which it begins to wait. If a standing thread that is added later is matched, the adding thread schedules
//!   it.
//! * The tuples of a bucket are in the order of their numbers. A tuple that comes back keeps its number.
//! * No value of a user is compared, copied or dropped under the lock: keys are types of the standard library.

use std::collections::VecDeque;

use chanter::Thread;
use chanter::base::{Queue, WakeList};
use foldhash::{HashMap, HashMapExt};

use crate::held::Held;
use crate::note::{Kind, Note, Search, Stored};
use crate::pattern::Tuple;

/// Number of buckets below which empty ones are kept, to be used again.
const FEW: usize = 64;

/// A thread that stands for a tuple, and has not begun.
struct Standing<T: Tuple> {
    number: u64,
    /// The known fields of the tuple.
    shape: T::Wanted,
    thread: Thread<()>,
}

struct Bucket<T: Tuple> {
    tuples: VecDeque<Stored<T>>,
    readers: Queue<Note<T>>,
    takers: Queue<Note<T>>,
    threads: VecDeque<Standing<T>>,
}

#[doc(hidden)]
pub struct State<T: Tuple> {
    /// Boxed, because operations are queued in them.
    buckets: HashMap<T::First, Box<Bucket<T>>>,
    open: Bucket<T>,
    /// Number of buckets at which empty ones are removed.
    most: usize,
    /// Counts puts, waits and standing threads.
    count: u64,
    /// Number of standing threads.
    standing: usize,
}

impl<T: Tuple> Bucket<T> {
    fn new() -> Self {
        Self {
            tuples: VecDeque::new(),
            readers: Queue::new(),
            takers: Queue::new(),
            threads: VecDeque::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.tuples.is_empty() && self.threads.is_empty() && !self.is_awaited()
    }

    /// Index of the oldest tuple that matches.
    #[inline(always)]
    fn find(&self, wanted: &T::Wanted) -> Option<usize> {
        self.tuples.iter().position(|stored| T::matches(wanted, &stored.keys))
    }

    /// Whether an operation waits here.
    #[inline(always)]
    fn is_awaited(&self) -> bool {
        !self.takers.is_empty() || !self.readers.is_empty()
    }

    /// Gives back the memory of many tuples that have gone.
    #[inline(always)]
    fn shrink(&mut self) {
        if self.tuples.is_empty() && self.tuples.capacity() > FEW {
            self.tuples = VecDeque::new();
        }
    }

    fn waiters(&mut self, note: &Note<T>) -> &mut Queue<Note<T>> {
        if matches!(note.0, Kind::Read { .. }) { &mut self.readers } else { &mut self.takers }
    }

    /// Whether an operation waits here that a tuple of this shape may serve.
    fn awaits(&self, shape: &T::Wanted) -> bool {
        let wants =
            |note: &Note<T>| note.search().filter(|search| T::may_match(&search.wanted, shape)).map(|_| ());
        self.readers.find(wants).or_else(|| self.takers.find(wants)).is_some()
    }

    fn thread_for(&self, wanted: &T::Wanted) -> Option<(u64, usize)> {
        let at = self.threads.iter().position(|standing| T::may_match(wanted, &standing.shape))?;
        Some((self.threads[at].number, at))
    }
}

impl<T: Tuple> State<T> {
    pub(crate) fn new() -> Self {
        Self { buckets: HashMap::new(), open: Bucket::new(), most: FEW, count: 0, standing: 0 }
    }

    /// Number of tuples.
    pub(crate) fn len(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.tuples.len()).sum()
    }

    #[inline(always)]
    pub(crate) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// The bucket of a first field, and the open one. A missing bucket is made.
    #[inline(always)]
    fn bucket(&mut self, first: &T::First) -> (&mut Bucket<T>, &mut Bucket<T>) {
        if self.buckets.len() >= self.most {
            self.sweep();
        }
        let bucket = self.buckets.entry(first.clone()).or_insert_with(|| Box::new(Bucket::new()));
        (bucket, &mut self.open)
    }

    /// Removes empty buckets, once their number may have doubled.
    #[cold]
    fn sweep(&mut self) {
        self.buckets.retain(|_, bucket| !bucket.is_empty());
        self.most = FEW.max(2 * self.buckets.len());
    }

    /// The queue in which an operation waits; one that begins to wait gets its ticket.
    pub(crate) fn waiters(&mut self, note: &Note<T>) -> &mut Queue<Note<T>> {
        let search = note.search().expect("a put does not wait");
        if search.ticket.get() == 0 {
            search.ticket.set(self.next_number());
        }
        match T::first_wanted(&search.wanted) {
            Some(first) => self.bucket(first).0.waiters(note),
            None => self.open.waiters(note),
        }
    }

    /// Puts a tuple. It goes first to those who wait for it (INV-SPACE).
    #[inline(always)]
    fn put(&mut self, mut stored: Stored<T>, wakes: &mut WakeList) {
        stored.number = self.next_number();
        let (bucket, open) = self.bucket(T::first(&stored.keys));
        if !bucket.is_awaited() && !open.is_awaited() {
            bucket.tuples.push_back(stored);
        } else if let Some(stored) = serve(bucket, open, stored, wakes) {
            bucket.tuples.push_back(stored);
        }
    }

    /// Puts back a tuple that was given to an operation which is undone.
    pub(crate) fn put_back(&mut self, stored: Stored<T>, wakes: &mut WakeList) {
        let (bucket, open) = self.bucket(T::first(&stored.keys));
        if let Some(stored) = serve(bucket, open, stored, wakes) {
            let at = bucket.tuples.iter().position(|later| later.number > stored.number);
            bucket.tuples.insert(at.unwrap_or(bucket.tuples.len()), stored);
        }
    }

    /// Whether an operation can commit now. The index of its tuple is left in the note.
    #[inline(always)]
    pub(crate) fn is_ready(&self, note: &Note<T>) -> bool {
        let Some(search) = note.search() else { return true };
        let found = match T::first_wanted(&search.wanted) {
            Some(first) => self.buckets.get(first).and_then(|bucket| bucket.find(&search.wanted)),
            None => self.find_anywhere(&search.wanted).map(|(_, _, at)| at),
        };
        search.found.set(found.unwrap_or(0));
        found.is_some()
    }

    /// The oldest tuple that matches: its number, its first field, and its index in its bucket.
    fn find_anywhere(&self, wanted: &T::Wanted) -> Option<(u64, &T::First, usize)> {
        let found = self.buckets.iter().filter_map(|(first, bucket)| {
            let at = bucket.find(wanted)?;
            Some((bucket.tuples[at].number, first, at))
        });
        found.min_by_key(|(number, ..)| *number)
    }

    /// The bucket and the index of the tuple that `is_ready` has just found.
    #[inline(always)]
    fn found(&mut self, search: &Search<T>) -> (&mut Bucket<T>, usize) {
        let at = search.found.get();
        match T::first_wanted(&search.wanted) {
            Some(first) => (self.buckets.get_mut(first).expect("it was found"), at),
            None => {
                let first = self.find_anywhere(&search.wanted).expect("it was found").1.clone();
                (self.buckets.get_mut(&first).expect("it was found"), at)
            }
        }
    }

    /// Performs an operation that is ready.
    #[inline(always)]
    pub(crate) fn act(&mut self, note: &mut Note<T>, wakes: &mut WakeList) {
        match &mut note.0 {
            Kind::Put(stored) => {
                let stored = stored.take().expect("a put has its tuple until it commits");
                self.put(stored, wakes);
            }
            Kind::Take { search, got } => {
                let (bucket, at) = self.found(search);
                *got = bucket.tuples.remove(at);
                bucket.shrink();
            }
            Kind::Read { search, copying, got } => {
                let (bucket, at) = self.found(search);
                *got = Held::share(&mut bucket.tuples[at].held, copying);
            }
        }
    }

    /// Adds a thread that stands for a tuple. True: an operation waits that the tuple may serve, so the thread is to
    /// run (INV-DEMAND).
    pub(crate) fn stand(&mut self, number: u64, shape: T::Wanted, thread: Thread<()>) -> bool {
        self.standing += 1;
        let known = T::first_wanted(&shape).cloned();
        let is_awaited = match &known {
            Some(first) => {
                let (bucket, open) = self.bucket(first);
                bucket.awaits(&shape) || open.awaits(&shape)
            }
            None => self.open.awaits(&shape) || self.buckets.values().any(|bucket| bucket.awaits(&shape)),
        };
        let bucket = match &known {
            Some(first) => self.bucket(first).0,
            None => &mut self.open,
        };
        bucket.threads.push_back(Standing { number, shape, thread });
        is_awaited
    }

    /// Takes a standing thread that begins. `None`: it was demanded.
    pub(crate) fn begin(&mut self, number: u64, first: Option<&T::First>) -> Option<Thread<()>> {
        let threads = match first {
            Some(first) => &mut self.buckets.get_mut(first)?.threads,
            None => &mut self.open.threads,
        };
        let at = threads.iter().position(|standing| standing.number == number)?;
        self.standing -= 1;
        threads.remove(at).map(|standing| standing.thread)
    }

    /// Takes the oldest standing thread whose tuple may serve `note`.
    #[inline(always)]
    pub(crate) fn demanded(&mut self, note: &Note<T>) -> Option<Thread<()>> {
        if self.standing == 0 { None } else { self.demanded_now(&note.search()?.wanted) }
    }

    #[inline(never)]
    fn demanded_now(&mut self, wanted: &T::Wanted) -> Option<Thread<()>> {
        let of_first: Vec<&mut Bucket<T>> = match T::first_wanted(wanted) {
            Some(first) => self.buckets.get_mut(first).map(|bucket| &mut **bucket).into_iter().collect(),
            None => self.buckets.values_mut().map(|bucket| &mut **bucket).collect(),
        };
        let all = of_first.into_iter().chain([&mut self.open]);
        let of_each =
            all.filter_map(|bucket| bucket.thread_for(wanted).map(|(number, at)| (number, at, bucket)));
        let (_, at, bucket) = of_each.min_by_key(|(number, ..)| *number)?;
        let standing = bucket.threads.remove(at)?;
        self.standing -= 1;
        Some(standing.thread)
    }
}

/// Gives a tuple to those who wait for it: to all readers, and to the first taker. Returns it if nobody takes it.
#[inline(never)]
fn serve<T: Tuple>(
    bucket: &mut Bucket<T>,
    open: &mut Bucket<T>,
    mut stored: Stored<T>,
    wakes: &mut WakeList,
) -> Option<Stored<T>> {
    for readers in [&mut bucket.readers, &mut open.readers] {
        while let Some(ticket) = readers.find(|note| note.ticket_for(&stored.keys)) {
            readers.give_where(
                wakes,
                |note| note.has(ticket),
                |note| {
                    if let Kind::Read { copying, got, .. } = &mut note.0 {
                        *got = Held::share(&mut stored.held, copying);
                    }
                },
            );
        }
    }
    let mut stored = Some(stored);
    while let Some(tuple) = &stored {
        let here = bucket.takers.find(|note| note.ticket_for(&tuple.keys));
        let there = open.takers.find(|note| note.ticket_for(&tuple.keys));
        let (takers, ticket) = match (here, there) {
            (None, None) => break,
            (Some(here), Some(there)) if there < here => (&mut open.takers, there),
            (None, Some(there)) => (&mut open.takers, there),
            (Some(here), _) => (&mut bucket.takers, here),
        };
        // A taker whose choice has committed elsewhere is out of the queue now.
        takers.give_where(
            wakes,
            |note| note.has(ticket),
            |note| {
                if let Kind::Take { got, .. } = &mut note.0 {
                    *got = stored.take();
                }
            },
        );
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Any, Pattern};

    /// Buckets that were used once are removed, whatever was in them.
    #[test]
    fn empty_buckets_go_and_full_ones_stay() {
        let mut state = State::<(u64, u64)>::new();
        let mut wakes = WakeList::new();
        for n in 0..10_000 {
            state.act(&mut Note(Kind::Put(Some(Stored::new((n, n))))), &mut wakes);
            let search = Search::new(Pattern::<(u64, u64)>::wanted((n, Any)));
            let mut take = Note(Kind::Take { search, got: None });
            assert!(state.is_ready(&take));
            if n % 100 != 0 {
                state.act(&mut take, &mut wakes);
            }
            let _ = state.waiters(&take).is_empty();
            assert!(state.buckets.len() <= FEW.max(2 * (state.len() + 1)), "{}", state.buckets.len());
        }
        assert_eq!(state.len(), 100);
    }
}
