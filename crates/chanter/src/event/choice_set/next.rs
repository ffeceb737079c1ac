//! `Next`: one synchronization on a set.

use std::fmt;
use std::pin::Pin;

use super::{ChoiceSet, Key, member};
use crate::event::{Base, Event, Leaf, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::Waits;
use crate::sync::switches::KEPT_OFFERS;

/// The event of the member that commits next; see [`ChoiceSet::next`].
#[must_use = "events do nothing unless synchronized"]
pub struct Next<'s, 'a, T> {
    set: &'s mut ChoiceSet<'a, T>,
}

impl<'s, 'a, T> Next<'s, 'a, T> {
    pub(super) fn new(set: &'s mut ChoiceSet<'a, T>) -> Self {
        Self { set }
    }
}

impl<T> fmt::Debug for Next<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next(..)")
    }
}

into_future!(['s, 'a, T] Next<'s, 'a, T>, (Key, T));

// SAFETY: the branch borrows the set as the event does, so it is `Send` when the event is.
unsafe impl<'s, 'a, T> Event for Next<'s, 'a, T> {
    type Branch = NextBranch<'s, 'a, T>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        NextBranch { set: self.set, won: None }
    }
}

#[doc(hidden)]
pub struct NextBranch<'s, 'a, T> {
    set: &'s mut ChoiceSet<'a, T>,
    /// The member that has committed, once it is known.
    won: Option<Key>,
}

impl<T> fmt::Debug for NextBranch<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NextBranch(..)")
    }
}

// SAFETY: the branch has no offer of its own. The members' offers are in queues. They refer to the synchronization
// only while the set is live, which ends in `settle`, or when the branch is dropped. `begin` runs user code.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T> Leaf for NextBranch<'_, '_, T> {
    #[inline]
    fn begin(mut self: Pin<&mut Self>) {
        let set = &mut *self.set;
        if !KEPT_OFFERS {
            set.shun_all();
        }
        if set.live | !set.shunned.is_empty() | !set.vacant.is_empty() {
            set.prepare();
        }
        let Some(key) = set.again else { return };
        if let Some(member) = member(&mut set.members, key) {
            member.make();
        }
        if !set.ready.is_empty() || set.kept.is_stirred() {
            // The member that committed last goes behind all that are ready.
            set.drain();
            set.again = None;
            set.ready.push_back(key);
        }
    }

    fn hint(&self) -> bool {
        let set = &*self.set;
        set.again.is_some() || !set.ready.is_empty() || set.kept.is_stirred()
    }

    fn attempt(mut self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        let this = &mut *self;
        let set = &mut *this.set;
        if set.kept.is_stirred() {
            set.drain();
        }
        set.ready.extend(set.again.take());
        for _ in 0..set.ready.len() {
            let Some(key) = set.ready.pop_front() else { break };
            let Some(member) = member(&mut set.members, key) else { continue };
            if member.attempt(wakes) {
                this.won = Some(key);
                return true;
            }
            set.ready.push_back(key);
        }
        false
    }

    #[inline]
    fn offer(mut self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        let this = &mut *self;
        let set = &mut *this.set;
        loop {
            if set.kept.is_stirred() {
                // They go behind the members that have waited for longer.
                set.drain();
            }
            let Some(key) = set.ready.pop_front().or_else(|| set.again.take()) else {
                let ready = &mut set.ready;
                if set.kept.wait(at, |key| ready.push_back(key)) {
                    set.live = true;
                    return Offered::Linked;
                }
                continue;
            };
            let Some(mut member) = member(&mut set.members, key) else { continue };
            match member.as_mut().offer(at, wakes) {
                Offered::Linked | Offered::Idle => {
                    if member.has_shunned() {
                        set.shunned.push(key);
                    }
                }
                Offered::Committed => {
                    this.won = Some(key);
                    return Offered::Committed;
                }
                Offered::Lost => {
                    set.ready.push_front(key);
                    return Offered::Lost;
                }
            }
        }
    }

    #[inline]
    fn settle(mut self: Pin<&mut Self>, has_won: bool, wakes: &mut WakeList) {
        let this = &mut *self;
        let set = &mut *this.set;
        if !has_won {
            if set.live {
                set.rest(wakes);
            }
        } else if this.won.is_none() {
            // A partner has committed the set.
            set.live = false;
            // SAFETY: the winner is a member of this set, which the branch borrows, so it is alive.
            let won = unsafe { set.kept.winner().as_ref() }.expect("its partner has said which").key;
            this.won = Some(won);
            member(&mut set.members, won).expect("members that won are there").settle(wakes);
        }
    }

    fn report(mut self: Pin<&mut Self>, waits: &mut Waits) {
        for place in &mut self.set.members {
            if let Some(member) = &mut place.member {
                member.as_mut().report(waits);
            }
        }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.set.kept.locked(f);
    }
}

// The group needs no state of its own: the set's lock does what a
// queue's lock does for a single synchronization.
impl<T> Base for NextBranch<'_, '_, T> {
    type Output = (Key, T);
    const SHAPE: Shape = Shape { lean: true, lean_loser: true, ..Shape::LEAF };

    fn finish(mut self: Pin<&mut Self>) -> (Key, T) {
        let this = &mut *self;
        let key = this.won.take().expect("settled");
        let mut won = member(&mut this.set.members, key).expect("members that won are there");
        if !won.is_last() {
            // Set before its `wrap` runs, which may panic.
            if let Some(other) = this.set.again.replace(key) {
                this.set.ready.push_back(other);
            }
            return (key, won.as_mut().finish());
        }
        let mut won = this.set.vacate(key).expect("it was there");
        (key, won.as_mut().finish())
    }
}

impl<T> Drop for NextBranch<'_, '_, T> {
    fn drop(&mut self) {
        // Not settled only if some code has panicked.
        self.set.recover();
    }
}
