//! Kept offers: who may commit a member of a set, and when.
//!
//! The offers of a set's members stay in the queues of what they wait for,
//! from one synchronization on the set to the next. Nothing may be committed
//! to them while nobody synchronizes. So a partner that finds a kept offer asks
//! the set ([`take`]):
//!
//! ```text
//!                ┌──────────── settle ◄───────────┐
//!                ▼                                │
//!   set:      RESTS ──(wait, if none is ready)──► LIVE ──(take)──► WON ──(settle)──► RESTS
//!                │                                │ the synchronization
//!                │ take                           │ is over already: take
//!                ▼                                ▼
//!   member:   passed over: stands in the ready list, is in no queue
//! ```
//!
//! * INV-KEPT: a member whose offer was passed over stands in the ready list
//!   before the queue's lock is free, and its offer is in no queue then. The set
//!   goes live only while that list is empty, under the same lock. So whoever
//!   synchronizes on the set tries what was passed over before it waits: no
//!   offer that can commit waits beside what it waits for (INV-MATCH).
//! * While the set is live, it belongs to one synchronization: the group that
//!   is `outer`. The partner takes that group, publishes it, and carries its
//!   waker in the member's group to where every partner takes it out. The owner
//!   that sees `outer` DONE has a winner, which is an instant away from DONE.
//! * INV-LAST holds twice: a partner's last access to `outer` is its
//!   publication, under the set's lock; to the member, `Group::publish`. An owner
//!   that did not win takes the set's lock before `outer` dies, and the queue's
//!   lock before the member dies.
//! * Locks: a queue's, then a set's, then those of the sets in which it is
//!   itself a member. No one who holds a set's lock waits for a claim: `Busy` is
//!   handed back.

use std::marker::PhantomPinned;
use std::ptr;

use crate::event::Offering;
use crate::event::protocol::{Group, Take};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{BiasedLock, Cell, aliased};

/// What partners know of a member. Its group is first, so that a pointer to it
/// is a pointer to the member.
#[repr(C)]
pub(super) struct Header {
    pub(super) group: Group,
    set: *const Kept,
    /// The next in the ready list; under the set's lock.
    next: Cell<*const Header>,
    pub(super) key: super::Key,
    /// The owner's: when it was offered, members of another set that was part of
    /// the same choice were there. It may match them next time.
    pub(super) shunned: Cell<bool>,
    _pinned: PhantomPinned,
}

// SAFETY: shared with partners by the protocol, wherever the owner is.
unsafe impl Send for Header {}

impl Header {
    /// `set` outlives the member.
    pub(super) fn new(set: *const Kept, key: super::Key) -> Self {
        let (next, shunned) = (Cell::new(ptr::null()), Cell::new(false));
        Self { group: Group::new_kept(), set, next, key, shunned, _pinned: PhantomPinned }
    }

    /// # Safety
    /// The group is a kept one, and alive.
    unsafe fn of(group: &Group) -> &Header {
        // SAFETY: only `new` makes kept groups.
        unsafe { &*ptr::from_ref(group).cast::<Header>() }
    }
}

/// What partners know of a set.
pub(super) struct Kept {
    state: BiasedLock<State>,
    /// A hint: the ready list is not empty.
    stirred: AtomicBool,
    /// The member that has won; written under the lock, before the publication
    /// of `outer`, by whose observation the owner reads it.
    won: Cell<*const Header>,
}

aliased!(Header);

// SAFETY: as for `Header`.
unsafe impl Send for Kept {}

struct State {
    /// The synchronization that waits, and its leaf that stands for the set.
    live: Option<(*const Group, u32)>,
    /// Members that were passed over, in order.
    first: *const Header,
    last: *const Header,
}

// SAFETY: as for `Header`.
unsafe impl Send for State {}

impl Kept {
    pub(super) fn new() -> Self {
        let state = State { live: None, first: ptr::null(), last: ptr::null() };
        Self {
            state: BiasedLock::new(state, 0),
            stirred: AtomicBool::new(false),
            won: Cell::new(ptr::null()),
        }
    }

    /// Whether a member may have been passed over.
    #[inline]
    pub(super) fn is_stirred(&self) -> bool {
        // ORDER: Relaxed: a hint; `wait` looks under the lock.
        self.stirred.load(Ordering::Relaxed)
    }

    /// The owner takes the ready list: hands each member's key to `put`, in order.
    pub(super) fn drain(&self, put: impl FnMut(super::Key)) {
        self.state.lock().drain(&self.stirred, put);
    }

    /// The owner waits: goes live for `at`, if no member is ready; else as
    /// [`drain`](Self::drain).
    #[inline]
    pub(super) fn wait(&self, at: &Offering<'_>, put: impl FnMut(super::Key)) -> bool {
        let mut state = self.state.lock();
        debug_assert!(state.live.is_none(), "one synchronization at a time");
        if !state.first.is_null() {
            state.drain(&self.stirred, put);
            return false;
        }
        at.arm();
        state.live = Some((at.group, at.leaf));
        true
    }

    /// The owner gives up: afterwards nobody touches the synchronization. The
    /// member that has won before.
    pub(super) fn give_up(&self) -> *const Header {
        self.state.lock().live = None;
        self.winner()
    }

    /// The member that has won, if the synchronization is DONE or given up.
    #[inline]
    pub(super) fn winner(&self) -> *const Header {
        self.won.replace(ptr::null())
    }

    /// Runs `f` while no partner can touch the synchronization.
    pub(super) fn locked(&self, f: &mut dyn FnMut()) {
        let _state = self.state.lock();
        f();
    }
}

impl State {
    fn drain(&mut self, stirred: &AtomicBool, mut put: impl FnMut(super::Key)) {
        // ORDER: Relaxed: under the lock.
        stirred.store(false, Ordering::Relaxed);
        let mut next = std::mem::replace(&mut self.first, ptr::null());
        self.last = ptr::null();
        // SAFETY: members in the list are alive: an owner that drops one drains
        // the list first.
        while let Some(header) = unsafe { next.as_ref() } {
            next = header.next.replace(ptr::null());
            put(header.key);
        }
    }

    fn push(&mut self, header: &Header) {
        debug_assert!(
            header.next.get().is_null() && !ptr::eq(self.last, header),
            "INV-KEPT: passed over twice"
        );
        // SAFETY: as in `drain`.
        match unsafe { self.last.as_ref() } {
            None => self.first = header,
            Some(last) => last.next.set(header),
        }
        self.last = header;
    }
}

/// A partner that holds the queue's lock tries to take a kept offer. `Lost`:
/// it was passed over, and the partner unlinks it.
///
/// # Safety
/// The group is that of a member whose offer is linked in that queue (or was
/// prepared for the caller).
#[cold]
#[inline(never)]
pub(in crate::events) unsafe fn take(group: &Group) -> Take {
    // SAFETY: the owner keeps the member and its set alive while the offer is
    // linked.
    let (header, set) = unsafe {
        let header = Header::of(group);
        (header, &*header.set)
    };
    let mut state = set.state.lock();
    if let Some((outer, leaf)) = state.live {
        // SAFETY: while it is live, the owner's group is alive: see `give_up`.
        match unsafe { &*outer }.take() {
            Take::Won => {
                state.live = None;
                set.won.set(header);
                // Before the owner can see that it has a winner.
                group.consent();
                // SAFETY: won; the owner waits for the publication.
                group.carry(unsafe { Group::publish(outer, leaf) });
                return Take::Won;
            }
            Take::Busy => return Take::Busy,
            // Another leaf has won: the set is about to rest.
            Take::Lost => (),
        }
    }
    state.push(header);
    // ORDER: Relaxed: a hint.
    set.stirred.store(true, Ordering::Relaxed);
    Take::Lost
}

/// Whether `theirs` is a member's that takes part in the synchronization of
/// `own`: of the same set, or of one that is live for it.
///
/// # Safety
/// `theirs` is the group of a linked offer, and the caller holds its queue's
/// lock.
#[cold]
#[inline(never)]
pub(in crate::events) unsafe fn is_own(theirs: &Group, own: &Offering<'_>) -> bool {
    let mut at = Some(own);
    while let Some(own) = at {
        if ptr::eq(theirs, own.group) {
            return true;
        }
        // SAFETY: an offering that has `kept` is a member's.
        let same_set = || unsafe { ptr::eq(Header::of(theirs).set, Header::of(own.group).set) };
        if own.kept.is_some() && theirs.is_kept() && same_set() {
            return true;
        }
        at = own.kept;
    }
    if own.single || !theirs.is_kept() {
        return false;
    }
    // SAFETY: as in `take`.
    let state = unsafe { &*Header::of(theirs).set }.state.lock();
    // SAFETY: live under the lock.
    let is_own = state.live.is_some_and(|(outer, _)| unsafe { is_own(&*outer, own) });
    if is_own && own.kept.is_some() {
        // SAFETY: a member's.
        unsafe { Header::of(own.group) }.shunned.set(true);
    }
    is_own
}
