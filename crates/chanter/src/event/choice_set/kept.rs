//! Kept offers: the rules for a commit of a set's member.
//!
//! The offers of a set's members stay in their wait queues from one synchronization on the set to the next. Nothing
//! may be committed to them while nobody synchronizes. So a partner that finds a kept offer asks the set ([`take`]):
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
//! * INV-KEPT: a member whose offer was passed over is put on the ready list before the queue's lock is free. Its
//!   offer is in no queue then. The set goes live only while that list is empty, under the same lock. So a
//!   synchronization on the set tries the members that were passed over before it waits. No offer that can commit
//!   waits beside its partner (INV-MATCH).
//! * A live set belongs to one synchronization: the group that is `outer`. The partner takes that group and publishes
//!   it. It puts the waker of `outer` into the member's group, from which every partner takes it out. An owner that
//!   sees `outer` DONE has a winner, which is an instant away from DONE.
//! * INV-LAST holds twice. A partner's last access to `outer` is its publication, under the set's lock. Its last
//!   access to the member is `Group::publish`. An owner that did not win takes the set's lock before `outer` dies,
//!   and the queue's lock before the member dies.
//! * Lock order: a queue's lock, then a set's, then those of the sets in which that set is itself a member. A thread
//!   that holds a set's lock never waits for a claim: it returns `Busy`.

use std::marker::PhantomPinned;
use std::ptr;

use crate::event::Offering;
use crate::event::protocol::{Group, Take};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Cell, Lock, aliased};

/// The part of a member that partners see. Its group is the first field, so that a pointer to the group is a pointer
/// to the member.
#[repr(C)]
pub(super) struct Header {
    pub(super) group: Group,
    set: *const Kept,
    /// The next member in the ready list. Protected by the set's lock.
    next: Cell<*const Header>,
    pub(super) key: super::Key,
    /// Whether the member met members of another set that was part of the same choice when it was offered. It may
    /// match them next time. Only the owner uses it.
    pub(super) shunned: Cell<bool>,
    _pinned: PhantomPinned,
}

// SAFETY: partners reach a header under the set's lock or a queue's lock only, on whatever thread the owner is.
unsafe impl Send for Header {}

impl Header {
    /// Makes a header. `set` outlives the member.
    pub(super) fn new(set: *const Kept, key: super::Key) -> Self {
        let (next, shunned) = (Cell::new(ptr::null()), Cell::new(false));
        Self { group: Group::new_kept(), set, next, key, shunned, _pinned: PhantomPinned }
    }

    /// # Safety
    /// The group is a kept one, and alive.
    unsafe fn of(group: &Group) -> &Header {
        // SAFETY: the group is kept, as the caller promises. Only `Header::new` makes kept groups, as its first
        // field.
        unsafe { &*ptr::from_ref(group).cast::<Header>() }
    }
}

/// The part of a set that partners see.
pub(super) struct Kept {
    state: Lock<State>,
    /// Whether the ready list is perhaps not empty: a hint.
    stirred: AtomicBool,
    /// The member that has won. It is written under the lock, before the publication of `outer`. The owner reads it
    /// after it has observed that publication.
    won: Cell<*const Header>,
}

aliased!(Header);

// SAFETY: partners reach the state under its lock, and `won` as its field says, on whatever thread the owner is.
unsafe impl Send for Kept {}

struct State {
    /// The synchronization that waits, and the number of its leaf that stands for the set.
    live: Option<(*const Group, u32)>,
    /// The ends of the ready list: members that were passed over, in order.
    first: *const Header,
    last: *const Header,
}

// SAFETY: members in the list are alive, and are touched under the lock only, on whatever thread the owner is.
unsafe impl Send for State {}

impl Kept {
    pub(super) fn new() -> Self {
        let state = State { live: None, first: ptr::null(), last: ptr::null() };
        Self { state: Lock::new(state), stirred: AtomicBool::new(false), won: Cell::new(ptr::null()) }
    }

    /// Whether a member may have been passed over.
    #[inline]
    pub(super) fn is_stirred(&self) -> bool {
        // ORDER: Relaxed: a hint; `wait` looks under the lock.
        self.stirred.load(Ordering::Relaxed)
    }

    /// Empties the ready list, and hands each member's key to `put`, in order. Called by the owner.
    pub(super) fn drain(&self, put: impl FnMut(super::Key)) {
        self.state.lock().drain(&self.stirred, put);
    }

    /// Makes the set live for `at` and returns true, if no member is ready. If one is, empties the ready list as
    /// [`drain`](Self::drain) does, and returns false. Called by the owner.
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

    /// Ends the synchronization. Called by an owner that gives up. Afterwards no partner touches the synchronization.
    /// Returns the member that has won before, or null.
    pub(super) fn give_up(&self) -> *const Header {
        self.state.lock().live = None;
        self.winner()
    }

    /// Returns the member that has won, or null. The synchronization is DONE or given up.
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
        // ORDER: Relaxed: the flag is a hint, and is written under the lock.
        stirred.store(false, Ordering::Relaxed);
        let mut next = std::mem::replace(&mut self.first, ptr::null());
        self.last = ptr::null();
        // SAFETY: members in the list are alive, since an owner drains the list before it drops a member.
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
        // SAFETY: members in the list are alive, since an owner drains the list before it drops a member.
        match unsafe { self.last.as_ref() } {
            None => self.first = header,
            Some(last) => last.next.set(header),
        }
        self.last = header;
    }
}

/// Tries to take a kept offer. Called by a partner that holds the queue's lock. `Lost` means that the member was
/// passed over: the partner unlinks the offer.
///
/// # Safety
/// The group belongs to a member. Its offer is linked in the queue whose lock the caller holds, or was prepared for
/// the caller.
#[cold]
#[inline(never)]
pub(crate) unsafe fn take(group: &Group) -> Take {
    // SAFETY: the group belongs to a member, as the caller promises. The owner keeps the member and its set alive
    // while the offer is linked.
    let (header, set) = unsafe {
        let header = Header::of(group);
        (header, &*header.set)
    };
    let mut state = set.state.lock();
    if let Some((outer, leaf)) = state.live {
        // SAFETY: the owner's group is alive while the set is live, because the owner ends that under this lock: see
        // `give_up`.
        match unsafe { &*outer }.take() {
            Take::Won => {
                state.live = None;
                set.won.set(header);
                // Permitted before the owner can see that it has a winner.
                group.consent();
                // SAFETY: `outer` was won above. The owner frees it only after it has seen the publication.
                group.carry(unsafe { Group::publish(outer, leaf) });
                return Take::Won;
            }
            Take::Busy => return Take::Busy,
            // Another leaf has won, so the set is about to rest.
            Take::Lost => (),
        }
    }
    state.push(header);
    // ORDER: Relaxed: a hint.
    set.stirred.store(true, Ordering::Relaxed);
    Take::Lost
}

/// Whether `theirs` belongs to a member that takes part in the synchronization of `own`. That is a member of the same
/// set, or of a set whose live synchronization is this one.
///
/// # Safety
/// `theirs` is the group of a linked offer, and the caller holds its queue's
/// lock.
#[cold]
#[inline(never)]
pub(crate) unsafe fn is_own(theirs: &Group, own: &Offering<'_>) -> bool {
    let mut at = Some(own);
    while let Some(own) = at {
        if ptr::eq(theirs, own.group) {
            return true;
        }
        // SAFETY: both groups are kept when this is called: an offering with `kept` set is a member's. `theirs` is
        // alive because its offer is linked, `own` because its owner is the caller.
        let same_set = || unsafe { ptr::eq(Header::of(theirs).set, Header::of(own.group).set) };
        if own.kept.is_some() && theirs.is_kept() && same_set() {
            return true;
        }
        at = own.kept;
    }
    if own.single || !theirs.is_kept() {
        return false;
    }
    // SAFETY: `theirs` is kept, and its offer is linked in a queue whose lock the caller holds. So the member and its
    // set are alive.
    let state = unsafe { &*Header::of(theirs).set }.state.lock();
    // SAFETY: the set's lock is held, so the group that it is live for is alive. The call needs no more than that of
    // a linked offer's group.
    let is_own = state.live.is_some_and(|(outer, _)| unsafe { is_own(&*outer, own) });
    if is_own && own.kept.is_some() {
        // SAFETY: an offering with `kept` set is a member's, so its group is a kept one. It belongs to the caller, so
        // it is alive.
        unsafe { Header::of(own.group) }.shunned.set(true);
    }
    is_own
}
