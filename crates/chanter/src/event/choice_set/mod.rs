//! `ChoiceSet`: a choice that is kept.
//!
//! - `kept` is the protocol: when a partner may commit an offer that stays in its queue (INV-KEPT).
//! - `member` is one of the events, with the function that makes the next one.
//! - `next` is the event of the set.

pub(crate) mod kept;
mod member;
mod next;

#[cfg(all(test, loom))]
mod models;

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;

use crate::event::WakeList;
use crate::frame::catch_panic;
use crate::sync::AliasedBox;
use kept::Kept;
pub use member::BaseEvent;
use member::{Member, Source};
pub use next::Next;

/// A choice over many events that is made once, and synchronized on again and again.
///
/// A [`choose`](crate::choose) offers each of its branches and takes all offers back, every time. A set leaves them
/// where they are. So a synchronization takes time for the members that became ready, and not for the others. Each
/// member makes its next event when the last one has committed. Members may be of different types: each is a [base
/// event](BaseEvent), or a `wrap` of one, that yields a `T`.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::ChoiceSet;
/// # use std::time::Duration;
/// let (ask, asked) = mailbox();
/// let (stop, stopped) = channel::<()>();
/// let mut set = ChoiceSet::new();
/// set.insert(|| asked.recv().wrap(Result::ok));
/// let watch = set.insert(|| stopped.recv().wrap(|_| None));
/// ask.try_send(1).unwrap();
/// assert_eq!(set.next().sync_blocking().1, Some(1));
/// drop(stop);
/// let (key, nothing) = set.next().sync_blocking();
/// assert_eq!((key, nothing), (watch, None));
/// assert!(!set.contains(watch), "a channel that is closed leaves");
/// ```
///
/// **Law.** `set.next()` is the [`choose`](crate::choose) of its members' events, each wrapped to yield its key, too.
/// But an event that is not chosen is not made anew. So the time of a member [`after(d)`](crate::after) runs on from
/// one synchronization to the next: it is a clock that ticks. For a time limit on each, write
/// `set.next().timeout(d)`.
///
/// **Fairness.** Ready members are taken in the order in which they became ready. A member that was chosen and is
/// ready again goes behind all other ready ones. So a member that stays ready is bypassed at most once by each other
/// member.
///
/// **Nothing is granted to a set that nobody waits for.** Its offers stay in the wait queues between
/// synchronizations, but partners pass them over. A rendezvous with a member happens only while a thread
/// synchronizes. A message that is sent meanwhile goes to another receiver, or waits.
///
/// **Closing.** A member whose channel is closed yields that error once, and leaves. An empty set is
/// [`never`](crate::never), so a loop that ends with the last member says `while !set.is_empty()`.
///
/// Dropping the set takes every offer back, and drops events that have not committed, as dropping a choice does. Each
/// member takes one allocation.
///
/// Parallel CML's choice (sections 2 and 5), over time.
pub struct ChoiceSet<'a, T> {
    /// The members, by index. They are dropped before `kept`, after all have been retracted.
    members: Vec<Place<'a, T>>,
    /// Indices of places without a member.
    free: Vec<u32>,
    /// The number of places that have used up their generations. They stay empty.
    worn: usize,
    /// Members that need a new event: they are new, or a message that was committed to them went back.
    vacant: VecDeque<Key>,
    /// The member that committed last. It needs a new event, or has it and is tried when `ready` is empty.
    again: Option<Key>,
    /// Members that are to be tried, in order. They are in no queue. Members that partners have passed over since are
    /// in `kept`. (Keys of members that were removed may be among them.)
    ready: VecDeque<Key>,
    /// Members that are linked, but were offered in a choice with another set, whose members they did not match.
    shunned: Vec<Key>,
    /// Whether a synchronization has gone live, and has not been settled.
    live: bool,
    /// The part of the set that partners see. Members point to it, and partners reach it through them.
    kept: AliasedBox<Kept>,
}

/// A place for a member.
struct Place<'a, T> {
    /// The number of members that have left the place.
    generation: u32,
    member: Option<Pin<Box<dyn Member<T> + Send + 'a>>>,
}

// SAFETY: members are `Send`. Partners reach members and set under locks only, on whatever thread the owner is.
unsafe impl<T> Send for ChoiceSet<'_, T> {}
// SAFETY: a shared reference to the set only allows to count its members and look up keys.
unsafe impl<T> Sync for ChoiceSet<'_, T> {}

/// The name of a member of a [`ChoiceSet`]. It is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl<'a, T> ChoiceSet<'a, T> {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self {
            members: Vec::new(),
            free: Vec::new(),
            worn: 0,
            vacant: VecDeque::new(),
            again: None,
            ready: VecDeque::new(),
            shunned: Vec::new(),
            live: false,
            kept: AliasedBox::new(Kept::new()),
        }
    }

    /// Adds a member that synchronizes on the event which `make` returns, again and again, until it is removed or its
    /// channel is closed.
    ///
    /// `make` runs on the thread that synchronizes, at the beginning of the next synchronization: once now, and once
    /// after each commit. It may bring the next message to send. If it panics, so does the synchronization, which has
    /// not happened. The next one calls it again.
    ///
    /// A message that is to be sent waits in the set until it is taken. It is dropped with the set.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::ChoiceSet;
    /// let (tx, rx) = channel();
    /// let other = std::thread::spawn(move || [rx.recv().sync_blocking(), rx.recv().sync_blocking()]);
    /// let mut numbers = 1..;
    /// let mut set = ChoiceSet::new();
    /// set.insert(|| tx.send(numbers.next().unwrap()));
    /// for _ in 0..2 {
    ///     assert_eq!(set.next().sync_blocking().1, Ok(()));
    /// }
    /// assert_eq!(other.join().unwrap(), [Ok(1), Ok(2)]);
    /// ```
    ///
    /// # Panics
    /// Panics if there are 2^32 members.
    pub fn insert<F, E>(&mut self, make: F) -> Key
    where
        F: FnMut() -> E + Send + 'a,
        E: BaseEvent + IntoFuture<Output = T> + Send + 'a,
    {
        self.insert_source(make, false)
    }

    /// Adds a member that leaves when it has committed.
    ///
    /// `make` runs once. It runs once more if a message went back: a partner had committed it to this member, and the
    /// synchronization was dropped.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::ChoiceSet;
    /// let answer = IVar::new();
    /// let mut set = ChoiceSet::new();
    /// let asked = answer.clone();
    /// set.insert_once(move || asked.get());
    /// answer.put(42).unwrap();
    /// assert_eq!(set.next().sync_blocking().1, 42);
    /// assert!(set.is_empty());
    /// ```
    ///
    /// # Panics
    /// Panics if there are 2^32 members.
    pub fn insert_once<F, E>(&mut self, make: F) -> Key
    where
        F: FnMut() -> E + Send + 'a,
        E: BaseEvent + IntoFuture<Output = T> + Send + 'a,
    {
        self.insert_source(make, true)
    }

    fn insert_source<F, E>(&mut self, make: F, once: bool) -> Key
    where
        F: FnMut() -> E + Send + 'a,
        E: BaseEvent + IntoFuture<Output = T> + Send + 'a,
    {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.members.len()).expect("a set has fewer than 2^32 members");
            self.members.push(Place { generation: 0, member: None });
            index
        });
        let place = &mut self.members[index as usize];
        let key = Key { index, generation: place.generation };
        place.member = Some(Box::pin(Source::new(self.kept.as_ptr(), key, once, make)));
        self.vacant.push_back(key);
        key
    }

    /// Takes a member out. Its offer is retracted, and the message that it would have sent is dropped. Returns false
    /// if there is no such member any more.
    ///
    /// # Panics
    /// A panic of a destructor is resumed. The member is gone nevertheless.
    pub fn remove(&mut self, key: Key) -> bool {
        self.recover();
        let Some(mut member) = self.vacate(key) else { return false };
        let retracted = catch_unwind(AssertUnwindSafe(|| member.as_mut().retract()));
        // The offer is retracted, so no partner puts the member on the ready list any more. The drain takes it off
        // the list.
        self.drain();
        if self.ready.len() > 2 * self.members.len() + 64 {
            let (ready, members) = (&mut self.ready, &self.members);
            ready.retain(|key| is_in(members, *key));
        }
        drop(member);
        if let Err(panic) = retracted {
            resume_unwind(panic);
        }
        true
    }

    /// Whether the set has this member.
    pub fn contains(&self, key: Key) -> bool {
        is_in(&self.members, key)
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len() - self.free.len() - self.worn
    }

    /// Whether the set has no member. Then [`next`](Self::next) never commits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event that commits exactly one of the members, the first that can. It yields the member's key and result.
    ///
    /// It composes as any event does: `choose((set.next(), stop.get()))`,
    /// `set.next().timeout(d)`.
    ///
    /// If it is not chosen, or dropped, no member has committed, and all stay. A message that a sender had already
    /// committed to the set goes back to the head of its channel. A send that was taken, or a time that has come, is
    /// the result of the next synchronization.
    ///
    /// It blocks the thread, not its virtual processor. It begins, waits and ends in constant time, plus the time for
    /// members that became ready or are new.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::ChoiceSet;
    /// # use std::time::Duration;
    /// let channels: Vec<_> = (0..100).map(|_| bounded(1)).collect();
    /// let mut set = ChoiceSet::new();
    /// for (_, rx) in &channels {
    ///     set.insert(|| rx.recv());
    /// }
    /// channels[7].0.try_send("seven").unwrap();
    /// assert_eq!(set.next().sync_blocking().1, Ok("seven"));
    /// assert_eq!(set.next().timeout(Duration::from_millis(1)).sync_blocking(), None);
    /// ```
    ///
    /// # Panics
    /// The synchronization resumes panics of `insert`ed functions and of `wrap`s. The set can be used again.
    #[allow(clippy::should_implement_trait, reason = "an event, not an item")]
    pub fn next(&mut self) -> Next<'_, 'a, T> {
        Next::new(self)
    }

    /// Takes a member out of its place, and retires its key.
    fn vacate(&mut self, key: Key) -> Option<Pin<Box<dyn Member<T> + Send + 'a>>> {
        let place =
            self.members.get_mut(key.index as usize).filter(|place| place.generation == key.generation)?;
        let member = place.member.take()?;
        match place.generation.checked_add(1) {
            Some(next) => {
                place.generation = next;
                self.free.push(key.index);
            }
            // A key must not name another member.
            None => self.worn += 1,
        }
        Some(member)
    }

    /// Takes over the members that partners have passed over.
    fn drain(&mut self) {
        let ready = &mut self.ready;
        self.kept.drain(|key| ready.push_back(key));
    }

    /// Has all offers taken back before the next synchronization makes its own.
    fn shun_all(&mut self) {
        let keys =
            self.members.iter().zip(0..).map(|(place, index)| Key { index, generation: place.generation });
        self.shunned.extend(keys);
    }

    /// The rarer part of the beginning of a synchronization.
    #[cold]
    fn prepare(&mut self) {
        self.recover();
        for key in self.shunned.drain(..) {
            if member(&mut self.members, key).is_some_and(|member| member.take_back()) {
                self.ready.push_back(key);
            }
        }
        while let Some(key) = self.vacant.front().copied() {
            if let Some(member) = member(&mut self.members, key) {
                // If this panics, the key is still in the list.
                member.make();
            }
            self.vacant.pop_front();
            self.ready.push_back(key);
        }
    }

    /// Ends the synchronization without a result.
    fn rest(&mut self, wakes: &mut WakeList) {
        self.live = false;
        // SAFETY: the winner is a member of this set, so it is alive.
        let Some(won) = (unsafe { self.kept.give_up().as_ref() }) else { return };
        let key = won.key;
        let Some(member) = member(&mut self.members, key) else { unreachable!("members that won are there") };
        if member.give_back(wakes) {
            self.ready.push_front(key);
        } else {
            self.vacant.push_back(key);
        }
    }

    /// Ends a synchronization that was leaked: it never happened.
    #[inline]
    fn recover(&mut self) {
        if self.live {
            let mut wakes = WakeList::new();
            self.rest(&mut wakes);
            wakes.queue();
        }
    }
}

fn is_in<T>(members: &[Place<'_, T>], key: Key) -> bool {
    let place = members.get(key.index as usize);
    place.is_some_and(|place| place.generation == key.generation && place.member.is_some())
}

#[inline]
fn member<'m, 'a, T>(
    members: &'m mut [Place<'a, T>],
    key: Key,
) -> Option<Pin<&'m mut (dyn Member<T> + Send + 'a)>> {
    let place = members.get_mut(key.index as usize)?;
    if place.generation == key.generation { place.member.as_mut().map(Pin::as_mut) } else { None }
}

impl<T> Drop for ChoiceSet<'_, T> {
    fn drop(&mut self) {
        // All offers are retracted before the first member is freed. While one is linked, a partner may put it behind
        // another in the ready list.
        for place in &mut self.members {
            if let Some(member) = &mut place.member {
                catch_panic(|| member.as_mut().retract());
            }
        }
    }
}

impl<T> Default for ChoiceSet<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for ChoiceSet<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChoiceSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::ChoiceSet;
    use crate::after;

    #[test]
    fn keys_are_not_used_again() {
        let make = || after(Duration::ZERO);
        let mut set = ChoiceSet::new();
        let other = set.insert(make);
        let first = set.insert(make);
        assert!(set.remove(first));
        // As after 2^32 - 1 members in this place.
        set.members[first.index as usize].generation = u32::MAX;
        let last = set.insert(make);
        assert_eq!(last.index, first.index);
        assert!(set.remove(last));
        let next = set.insert(make);
        assert_ne!(next.index, first.index);
        assert_eq!([first, last, other, next].map(|key| set.contains(key)), [false, false, true, true]);
        assert_eq!(set.len(), 2);
        assert!(set.remove(next) && set.remove(other) && set.is_empty());
    }
}
