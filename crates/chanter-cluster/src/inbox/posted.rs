//! Posted receives, by their patterns.

use std::collections::VecDeque;
use std::sync::Arc;

use chanter::base::{Queue, WakeList};
use foldhash::HashMap;

use super::note::{Got, Note};
use super::pattern::{Key, Letter, Pattern};
use super::request::Request;

/// Number of patterns up to which a linear search is faster than a hash table.
const FEW: usize = 16;

/// The posted receives of an inbox: waiting events, and requests.
pub(super) struct PostedReceives<M> {
    /// Receives by pattern, as a list. Empty if `many` is used.
    #[expect(clippy::vec_box, reason = "who waits in a kind must not be moved")]
    few: Vec<Box<SamePattern<M>>>,
    many: HashMap<Pattern, Box<SamePattern<M>>>,
    /// Number of patterns in `many` from which the empty ones are dropped.
    most: usize,
    /// Number of receives ever posted, and (in `waiting`) number posted now. If none is, a message need not look for
    /// one.
    posts: u64,
    waiting: usize,
}

/// The receives of one pattern. It does not move while one of them waits.
pub(super) struct SamePattern<M> {
    pattern: Pattern,
    events: Queue<Note<M>>,
    requests: VecDeque<(u64, Arc<Request<M>>)>,
}

impl<M> SamePattern<M> {
    fn new(pattern: Pattern) -> Box<Self> {
        Box::new(Self { pattern, events: Queue::new(), requests: VecDeque::new() })
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.requests.is_empty()
    }

    /// Number of its oldest receive, and whether that is a request.
    fn oldest(&mut self) -> Option<(u64, bool)> {
        let event = self.events.peek(|note| (note.number(), false));
        let request = self.requests.front().map(|(number, _)| (*number, true));
        event.into_iter().chain(request).min()
    }
}

impl<M> Default for PostedReceives<M> {
    fn default() -> Self {
        Self { few: Vec::new(), many: HashMap::default(), most: 0, posts: 0, waiting: 0 }
    }
}

impl<M: Letter> PostedReceives<M> {
    /// Number of receives that are posted.
    #[inline(always)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether no receive was ever posted.
    pub(super) fn is_as_new(&self) -> bool {
        self.posts == 0 && self.few.is_empty() && self.many.capacity() == 0
    }

    /// Counts a receive that begins to wait, or that stops without having been served.
    pub(super) fn waits(&mut self, waits: bool) {
        self.waiting = if waits { self.waiting + 1 } else { self.waiting - 1 };
    }

    /// The queue in which an event with this pattern waits.
    pub(super) fn events(&mut self, note: &Note<M>) -> &mut Queue<Note<M>> {
        if note.number() == 0 {
            self.posts += 1;
            note.set_number(self.posts);
        }
        &mut self.of(*note.pattern()).events
    }

    /// Posts a request and returns its number.
    pub(super) fn post(&mut self, pattern: Pattern, request: &Arc<Request<M>>) -> u64 {
        self.posts += 1;
        let number = self.posts;
        self.of(pattern).requests.push_back((number, Arc::clone(request)));
        self.waiting += 1;
        number
    }

    /// Withdraws a request.
    pub(super) fn take_back(&mut self, pattern: &Pattern, number: u64) {
        let Some(kind) = self.find(pattern) else { return };
        if let Ok(at) = kind.requests.binary_search_by_key(&number, |(number, _)| *number) {
            kind.requests.remove(at);
            self.waiting -= 1;
        }
    }

    /// Gives a message to the receive posted first among those that want it. `Err`: there is none. `via`: how it was
    /// brought.
    pub(super) fn give(&mut self, message: Box<M>, wakes: &mut WakeList) -> Result<(), Box<M>> {
        if self.waiting == 0 {
            return Err(message);
        }
        let key = message.key();
        let mut message = Some(message);
        while self.waiting > 0 {
            let Some((kind, is_request)) = self.oldest(key) else { break };
            if is_request {
                if let (Some((_, request)), Some(message)) = (kind.requests.pop_front(), message.take()) {
                    request.fill(Ok(message), wakes);
                }
            } else {
                kind.events.serve_first(wakes, |note| note.put(message.take().map(Ok)));
            }
            // One receive is out of its queue, served or not.
            self.waiting -= 1;
            if message.is_none() {
                return Ok(());
            }
        }
        message.map_or(Ok(()), Err)
    }

    /// Ends all receives whose pattern satisfies `is_of`, with the result of `got`.
    pub(super) fn end(
        &mut self,
        is_of: impl Fn(&Pattern) -> bool,
        got: impl Fn() -> Got<M>,
        wakes: &mut WakeList,
    ) {
        let mut served = 0;
        for kind in self.few.iter_mut().chain(self.many.values_mut()).filter(|kind| is_of(&kind.pattern)) {
            while !kind.events.is_empty() {
                kind.events.serve_first(wakes, |note| note.put(Some(got())));
                served += 1;
            }
            for (_, request) in kind.requests.drain(..) {
                request.fill(got(), wakes);
                served += 1;
            }
        }
        self.waiting -= served;
    }

    /// The pattern with the receive that was posted first, among those that match `key`. True: that receive is a
    /// request.
    fn oldest(&mut self, key: Key) -> Option<(&mut SamePattern<M>, bool)> {
        fn oldest<M>(kind: &mut Box<SamePattern<M>>) -> Option<((u64, bool), &mut SamePattern<M>)> {
            kind.oldest().map(|oldest| (oldest, &mut **kind))
        }
        let ((_, is_request), kind) = if self.many.is_empty() {
            let wanted = self.few.iter_mut().filter(|kind| kind.pattern.wants(key));
            wanted.filter_map(oldest).min_by_key(|(oldest, _)| oldest.0)?
        } else {
            let patterns = Pattern::all(key);
            let wanted = self.many.get_disjoint_mut(patterns.each_ref()).into_iter().flatten();
            wanted.filter_map(oldest).min_by_key(|(oldest, _)| oldest.0)?
        };
        Some((kind, is_request))
    }

    fn find(&mut self, pattern: &Pattern) -> Option<&mut SamePattern<M>> {
        if self.many.is_empty() {
            return self.few.iter_mut().find(|kind| kind.pattern == *pattern).map(|kind| &mut **kind);
        }
        self.many.get_mut(pattern).map(|kind| &mut **kind)
    }

    /// The receives of this pattern; a missing entry is made.
    fn of(&mut self, pattern: Pattern) -> &mut SamePattern<M> {
        if self.many.is_empty() {
            if let Some(at) = self.few.iter().position(|kind| kind.pattern == pattern) {
                return &mut self.few[at];
            }
            if self.few.len() == FEW {
                self.few.retain(|kind| !kind.is_empty());
            }
            if self.few.len() < FEW {
                self.few.push(SamePattern::new(pattern));
                return self.few.last_mut().expect("it was pushed");
            }
            self.many = self.few.drain(..).map(|kind| (kind.pattern, kind)).collect();
            self.most = 4 * FEW;
        } else if self.many.len() >= self.most && !self.many.contains_key(&pattern) {
            self.many.retain(|_, kind| !kind.is_empty());
            self.most = (2 * self.many.len()).max(4 * FEW);
        }
        self.many.entry(pattern).or_insert_with(|| SamePattern::new(pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::super::pattern::{Source, Tags};
    use super::*;
    use crate::engine::{NodeId, ProcessId};
    use crate::name::ThreadName;
    use crate::node::send_window::WindowRef;
    use crate::wire::Slot;

    fn from(index: u32) -> ThreadName {
        ThreadName { pe: NodeId(0), process: ProcessId(0), thread: Slot { index, generation: 1 } }
    }

    fn message(sender: u32, tag: u32) -> Box<Message> {
        Message::new(WindowRef::nobodys(), from(sender), from(0), tag)
    }

    /// Compares few patterns, and enough of them for the hash table, with a list searched from its beginning.
    #[test]
    fn who_was_posted_first_gets_it() {
        for senders in [3_u32, 40] {
            let mut random = u64::from(senders);
            let mut next = move |below: u32| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((random >> 33) % u64::from(below)) as u32
            };
            let (mut posted, mut list) =
                (PostedReceives::default(), Vec::<(Pattern, u64, Arc<Request<Message>>)>::new());
            for _ in 0..20_000 {
                if next(2) == 0 && list.len() < 200 {
                    let pattern = Pattern {
                        from: if next(3) == 0 { Source::Anyone } else { Source::Thread(from(next(senders))) },
                        tag: if next(3) == 0 { Tags::Any } else { Tags::Tag(next(3)) },
                    };
                    let request = Arc::new(Request::default());
                    let number = posted.post(pattern, &request);
                    list.push((pattern, number, request));
                } else if next(4) == 0 && !list.is_empty() {
                    let (pattern, number, _) = list.remove(next(list.len() as u32) as usize);
                    posted.take_back(&pattern, number);
                } else {
                    let message = message(next(senders), next(3));
                    let key = message.key();
                    let at = list.iter().position(|(pattern, ..)| pattern.wants(key));
                    let given = posted.give(message, &mut WakeList::new());
                    assert_eq!(given.is_ok(), at.is_some());
                    if let Some(at) = at {
                        assert!(list.remove(at).2.empty().is_some(), "another one got it");
                    }
                }
                assert_eq!(posted.waiting(), list.len());
                assert!(posted.many.len() <= 4 * FEW + 2 * list.len());
            }
        }
    }
}
