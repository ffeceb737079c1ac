//! Members: base events that are synchronized on again and again.

use std::marker::PhantomPinned;
use std::pin::Pin;

use super::Key;
use super::kept::{Header, Kept};
use crate::event::{Branch, Event, Leaf, Offered, Offering, WakeList};
use crate::frame::report::Waits;

/// An event that a [`ChoiceSet`](super::ChoiceSet) can keep: a base event, or one with a [`wrap`](Event::wrap).
///
/// Other events stand beside the set: `choose((set.next(), event))`. Some need their thread's attention between
/// synchronizations (a lock, a future that is polled in place). For others losing is part of the event (`with_nack`,
/// `on_abort`, a nested choice).
///
/// # Safety
///
/// Implemented by this crate only. The branch has one leaf, which is neither walked nor retried. It may be
/// offered again when the offer was passed over.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a base event: a set cannot keep it",
    note = "put it beside the set: `choose((set.next(), event))`"
)]
pub unsafe trait BaseEvent: Event {
    /// Whether a commit whose result nobody has taken yet may wait for the next synchronization. It may if it
    /// withholds nothing from others.
    #[doc(hidden)]
    const LASTS: bool;

    /// Whether this commit is the last one worth waiting for, because the channel is closed.
    #[doc(hidden)]
    fn is_last(branch: &Self::Branch) -> bool;

    /// Takes the offer out of its queue, to be offered again. Returns false if it is in no queue. (For offers that
    /// meet partners.)
    #[doc(hidden)]
    fn take_back(branch: Pin<&mut Self::Branch>) -> bool;
}

/// The operations of a set on its members, of any type.
pub(super) trait Member<T> {
    /// Makes the member's next event, if there is none.
    fn make(self: Pin<&mut Self>);
    /// Commits if that is possible now, or else offers.
    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered;
    /// Commits if that is possible now. The member is offered nowhere.
    fn attempt(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool;
    /// Whether the member passed over partners when it was offered that it may match next time: see
    /// `Header::shunned`. Resets that flag.
    fn has_shunned(&self) -> bool;
    /// Takes the offer out of its queue: see [`BaseEvent::take_back`].
    fn take_back(self: Pin<&mut Self>) -> bool;
    /// Settles the commit that a partner has made.
    fn settle(self: Pin<&mut Self>, wakes: &mut WakeList);
    /// Settles a commit that a partner has made for a synchronization that was dropped. Returns true if the commit
    /// waits for the next one, false if the message went back.
    fn give_back(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool;
    /// Whether the commit is the member's last.
    fn is_last(&self) -> bool;
    /// Takes the offer out of its queue. From then on no partner knows of it.
    fn retract(self: Pin<&mut Self>);
    /// Returns the result of the commit.
    fn finish(self: Pin<&mut Self>) -> T;
    /// Adds what the member waits on, for a report.
    fn report(self: Pin<&mut Self>, waits: &mut Waits);
}

/// A member, and the function that makes its events.
#[repr(C)]
pub(super) struct Source<E: Event, F> {
    /// The first field: see [`Header`].
    header: Header,
    make: F,
    /// Whether the member leaves after its first commit.
    once: bool,
    /// The current event's branch, which is pinned. It is empty from a commit to the next synchronization.
    branch: Option<E::Branch>,
    /// Whether the member has committed, and its result has not been taken.
    done: bool,
    _pinned: PhantomPinned,
}

// SAFETY: the branch is `Send` when the event is, by `Event`'s contract. Partners reach the header under locks only.
unsafe impl<E: Event + Send, F: Send> Send for Source<E, F> {}

impl<E: BaseEvent, F: FnMut() -> E> Source<E, F> {
    pub(super) fn new(set: *const Kept, key: Key, once: bool, make: F) -> Self {
        const {
            let shape = E::Branch::SHAPE;
            assert!(shape.single && !shape.walked && !shape.retries, "BaseEvent's contract");
        }
        Self { header: Header::new(set, key), make, once, branch: None, done: false, _pinned: PhantomPinned }
    }

    /// Returns the header, the branch, which stays pinned, and the rest.
    fn parts(self: Pin<&mut Self>) -> (&Header, Pin<&mut Option<E::Branch>>, &mut F, &mut bool) {
        // SAFETY: header and branch stay where they are, since both are handed out pinned or shared. The rest is not
        // pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (&this.header, Pin::new_unchecked(&mut this.branch), &mut this.make, &mut this.done)
        }
    }

    #[inline(always)]
    fn branch(self: Pin<&mut Self>) -> (&Header, Pin<&mut E::Branch>) {
        let (header, branch, ..) = self.parts();
        (header, branch.as_pin_mut().expect("a vacant member is made first"))
    }
}

impl<E: BaseEvent, F: FnMut() -> E> Member<E::Output> for Source<E, F> {
    fn make(self: Pin<&mut Self>) {
        let (_, mut branch, make, _) = self.parts();
        if branch.is_none() {
            let event = make();
            branch.set(Some(event.into_branch()));
        }
    }

    fn offer(mut self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        if self.done {
            return at.commit_alone();
        }
        let (header, mut branch) = self.as_mut().branch();
        let group = &header.group;
        let own = Offering { group, leaf: 0, single: at.single, waker: None, task: None, kept: Some(at) };
        let offered = branch.as_mut().only().offer(&own, wakes);
        if !E::Branch::SHAPE.lean && offered == Offered::Committed {
            branch.only().settle(true, wakes);
        }
        offered
    }

    fn attempt(mut self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        if self.done {
            return true;
        }
        let (_, mut branch) = self.as_mut().branch();
        let committed = branch.as_mut().only().attempt(wakes);
        if committed {
            branch.only().settle(true, wakes);
        }
        committed
    }

    #[inline]
    fn has_shunned(&self) -> bool {
        self.header.shunned.replace(false)
    }

    fn take_back(self: Pin<&mut Self>) -> bool {
        self.parts().1.as_pin_mut().is_some_and(E::take_back)
    }

    fn settle(mut self: Pin<&mut Self>, wakes: &mut WakeList) {
        let outcome = self.header.group.outcome();
        debug_assert!(outcome.is_some(), "a partner has won it");
        self.header.group.renew_kept();
        self.as_mut().branch().1.only().settle(true, wakes);
    }

    fn give_back(mut self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        if E::LASTS {
            self.as_mut().settle(wakes);
            *self.as_mut().parts().3 = true;
            return true;
        }
        let outcome = self.header.group.outcome();
        debug_assert!(outcome.is_some(), "a partner has won it");
        self.header.group.renew_kept();
        self.as_mut().branch().1.only().settle(false, wakes);
        self.parts().1.set(None);
        false
    }

    fn is_last(&self) -> bool {
        self.once || self.branch.as_ref().is_some_and(E::is_last)
    }

    fn retract(self: Pin<&mut Self>) {
        self.parts().1.set(None);
    }

    fn finish(self: Pin<&mut Self>) -> E::Output {
        /// A guard that drops the branch, even if a `wrap` panics.
        struct Clear<'a, B>(Pin<&'a mut Option<B>>);
        impl<B> Drop for Clear<'_, B> {
            fn drop(&mut self) {
                self.0.set(None);
            }
        }
        let (_, branch, _, done) = self.parts();
        *done = false;
        let mut branch = Clear(branch);
        branch.0.as_mut().as_pin_mut().expect("it has committed").finish(0)
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        if let Some(branch) = self.parts().1.as_pin_mut() {
            branch.only().report(waits);
        }
    }
}
