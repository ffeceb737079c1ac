//! The store of messages not yet received, by sender and tag.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::pattern::{Key, Letter, Pattern, Source, Tags};
use crate::engine::ProcessId;
use foldhash::HashMap;

/// Number of messages up to which a linear search is faster than an index.
const FEW: usize = 32;

/// Messages in the order of their numbers. They are in one row while the wanted ones are found near its beginning,
/// and otherwise indexed by sender and tag.
pub(super) struct Store<M> {
    /// All messages, oldest first. Empty if there is an index.
    row: VecDeque<Box<M>>,
    index: Index<M>,
    /// Number of messages visited by long searches since the last index. When it outweighs the cost of an index, one
    /// is made.
    vain: Cell<usize>,
}

impl<M> Default for Store<M> {
    fn default() -> Self {
        Self { row: VecDeque::new(), index: Index::default(), vain: Cell::new(0) }
    }
}

impl<M: Letter> Store<M> {
    pub(super) fn len(&self) -> usize {
        self.row.len() + self.index.len
    }

    /// Keeps a message, in the order of its number.
    pub(super) fn put(&mut self, message: Box<M>) {
        self.settle();
        if self.index.len == 0 {
            insert(&mut self.row, message);
        } else {
            self.index.put(message);
        }
    }

    /// Keeps a message that has come after all others.
    #[inline(always)]
    pub(super) fn put_last(&mut self, message: Box<M>) {
        if self.index.len == 0 {
            self.row.push_back(message);
        } else {
            self.index.put(message);
        }
    }

    /// Takes the oldest message that is wanted.
    #[inline(always)]
    pub(super) fn take(&mut self, pattern: &Pattern) -> Option<Box<M>> {
        // Usually the oldest message is wanted. (If there is an index, the row is empty.)
        match self.row.front() {
            Some(first) if pattern.wants_of(first.from(), first.tag()) => self.row.pop_front(),
            None if self.index.len == 0 => None,
            _ => self.take_other(pattern),
        }
    }

    #[inline(never)]
    fn take_other(&mut self, pattern: &Pattern) -> Option<Box<M>> {
        self.settle();
        if self.index.len > 0 {
            return self.index.take(pattern);
        }
        let at = self.find(pattern)?;
        self.row.remove(at)
    }

    /// Whether a wanted message is there.
    pub(super) fn has(&self, pattern: &Pattern) -> bool {
        if self.index.len > 0 { self.index.find(pattern).is_some() } else { self.find(pattern).is_some() }
    }

    /// The tags of the messages that a process has sent, with the number of messages of each, most first.
    pub(super) fn tags_of(&self, peer: ProcessId) -> Vec<(u32, usize)> {
        let mut tags = BTreeMap::new();
        let all = self.row.iter().chain(self.index.queues.values().flatten());
        for message in all.filter(|message| message.from().process == peer) {
            *tags.entry(message.tag()).or_default() += 1;
        }
        let mut tags: Vec<(u32, usize)> = tags.into_iter().collect();
        tags.sort_by_key(|(_, count)| Reverse(*count));
        tags
    }

    /// Takes all messages, in any order.
    pub(super) fn drain(&mut self) -> VecDeque<Box<M>> {
        let mut all = std::mem::take(&mut self.row);
        all.extend(std::mem::take(&mut self.index).queues.into_values().flatten());
        all
    }

    /// Makes an index if long searches have cost too much.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.vain.get() > 4 * self.row.len() {
            self.make_index();
        }
    }

    #[cold]
    fn make_index(&mut self) {
        self.vain.set(0);
        if self.row.len() > FEW {
            self.row.drain(..).for_each(|message| self.index.put(message));
        }
    }

    /// Index in the row of the first message that is wanted.
    #[inline]
    fn find(&self, pattern: &Pattern) -> Option<usize> {
        if pattern.wants(self.row.front()?.key()) { Some(0) } else { self.search(pattern) }
    }

    fn search(&self, pattern: &Pattern) -> Option<usize> {
        let at = self.row.iter().position(|message| pattern.wants(message.key()));
        let looked_at = at.unwrap_or(self.row.len());
        if looked_at > FEW {
            self.vain.set(self.vain.get() + looked_at);
        }
        at
    }
}

/// Inserts a message in the order of its number, and returns its index.
fn insert<M: Letter>(queue: &mut VecDeque<Box<M>>, message: Box<M>) -> usize {
    let number = message.number();
    // Usually the message is the newest.
    if queue.back().is_none_or(|last| last.number() < number) {
        queue.push_back(message);
        return queue.len() - 1;
    }
    let at = queue.iter().rposition(|other| other.number() < number).map_or(0, |at| at + 1);
    queue.insert(at, message);
    at
}

/// Queues of messages, one for each sender and tag. A receive from any thread, or with any tag, finds the queue whose
/// first message came first.
struct Index<M> {
    queues: HashMap<Key, VecDeque<Box<M>>>,
    /// First messages of all queues, of the queues with one tag, and of those from one sender: their numbers and
    /// keys.
    firsts: HashMap<Pattern, BTreeMap<u64, Key>>,
    len: usize,
}

impl<M> Default for Index<M> {
    fn default() -> Self {
        Self { queues: HashMap::default(), firsts: HashMap::default(), len: 0 }
    }
}

impl<M: Letter> Index<M> {
    fn put(&mut self, message: Box<M>) {
        let (key, number) = (message.key(), message.number());
        let queue = self.queues.entry(key).or_default();
        let first = queue.front().map(|first| first.number());
        let at = insert(queue, message);
        self.len += 1;
        if at == 0 {
            self.replace_first(key, first, Some(number));
        }
    }

    fn take(&mut self, pattern: &Pattern) -> Option<Box<M>> {
        let key = self.find(pattern)?;
        let queue = self.queues.get_mut(&key)?;
        let message = queue.pop_front()?;
        let next = queue.front().map(|next| next.number());
        if next.is_none() {
            self.queues.remove(&key);
        }
        self.len -= 1;
        self.replace_first(key, Some(message.number()), next);
        Some(message)
    }

    fn find(&self, pattern: &Pattern) -> Option<Key> {
        if let (Source::Thread(from), Tags::Tag(tag)) = (pattern.from, pattern.tag) {
            return self.queues.contains_key(&(from, tag)).then_some((from, tag));
        }
        let (_, key) = self.firsts.get(pattern)?.first_key_value()?;
        Some(*key)
    }

    fn replace_first(&mut self, key: Key, before: Option<u64>, now: Option<u64>) {
        for pattern in Pattern::wild(key) {
            let firsts = self.firsts.entry(pattern).or_default();
            if let Some(before) = before {
                firsts.remove(&before);
            }
            if let Some(now) = now {
                firsts.insert(now, key);
            }
            if firsts.is_empty() {
                self.firsts.remove(&pattern);
            }
        }
    }
}

/// Whether receives of this pattern end when `peer` is lost.
pub(super) fn concerns(pattern: &Pattern, peer: ProcessId) -> bool {
    matches!(pattern.from, Source::Thread(name) if name.process == peer)
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;
    use crate::engine::NodeId;
    use crate::name::ThreadName;
    use crate::node::send_window::WindowRef;
    use crate::wire::Slot;

    fn name(index: u32) -> ThreadName {
        ThreadName { pe: NodeId(0), process: ProcessId(0), thread: Slot { index, generation: 1 } }
    }

    fn message(from: u32, tag: u32, number: u64) -> Box<Message> {
        let mut message = Message::new(WindowRef::nobodys(), name(from), name(0), tag);
        message.number = number;
        message
    }

    fn pattern(from: Option<u32>, tag: Option<u32>) -> Pattern {
        Pattern {
            from: from.map_or(Source::Anyone, |from| Source::Thread(name(from))),
            tag: tag.map_or(Tags::Any, Tags::Tag),
        }
    }

    /// Compares the store with a list searched from its beginning, for few senders (in the row) and for many (in the
    /// index).
    #[test]
    fn each_receive_takes_the_oldest_that_it_wants() {
        for senders in [3, 200] {
            let mut random = 1_u64;
            let mut next = move |below: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let (mut store, mut list) = (Store::default(), Vec::<(u32, u32, u64)>::new());
            let mut was_indexed = 0;
            for number in 0..20_000 {
                if next(5) < 3 {
                    let (from, tag) = (next(senders) as u32, next(3) as u32);
                    store.put(message(from, tag, number));
                    list.push((from, tag, number));
                } else {
                    let from = (next(2) == 0).then(|| next(senders) as u32);
                    let tag = (next(2) == 0).then(|| next(3) as u32);
                    let at = list.iter().position(|other| {
                        from.is_none_or(|from| from == other.0) && tag.is_none_or(|tag| tag == other.1)
                    });
                    let wanted = pattern(from, tag);
                    assert_eq!(store.has(&wanted), at.is_some());
                    let taken = store.take(&wanted);
                    assert_eq!(taken.as_ref().map(|taken| taken.number), at.map(|at| list[at].2));
                    if let Some(at) = at {
                        let back = list.remove(at);
                        if next(4) == 0 {
                            store.put(taken.unwrap());
                            list.insert(list.partition_point(|other| other.2 < back.2), back);
                        }
                    }
                }
                assert_eq!(store.len(), list.len());
                was_indexed += usize::from(store.index.len > 0);
            }
            assert_eq!(was_indexed > 0, senders > 3);
            assert_eq!(store.drain().len(), list.len());
            assert!(!store.has(&pattern(None, None)));
        }
    }

    #[test]
    fn nothing_is_left_behind_when_all_are_taken() {
        let mut store = Store::default();
        for number in 0..100 {
            store.put(message(number as u32 % 7, number as u32 % 5, number));
        }
        while store.take(&pattern(None, None)).is_some() {}
        assert!(store.row.is_empty() && store.index.queues.is_empty() && store.index.firsts.is_empty());
    }
}
