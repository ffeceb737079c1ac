//! Revocable ownership: one OS thread uses a thing at the price of plain stores, and another one may take it away.
//!
//! Two things are owned like this:
//!
//! * the ready threads of a virtual processor (`sched/hand_off/ownership.rs`),
//! * an object that is biased to an OS thread (`lock/biased_gate.rs`); its hold count is the mark.
//!
//! In both the owner comes thousands of times for each time that another OS thread does. So the owner pays two plain
//! stores for a use, and the *revoker*, which takes the thing away, pays for a barrier on every OS thread.
//!
//! ```text
//!   owner:    mark := thing;  light fence;  is the thing mine?   yes:  use it;  mark := none
//!                                                                no:   mark := none
//!   revoker:  thing := not the owner's;  heavy fence;  is the mark at the thing?   yes:  wait, or give it back
//!                                                                                  no:   the thing is the revoker's
//! ```
//!
//! INV-OWNER: the owner uses the thing while its mark is at it and the thing is its own. The revoker uses it once it has
//! seen the mark elsewhere. They never do so at the same time, and each sees what the other did before.
//!
//! *The argument.* This is Dekker's protocol with an asymmetric pair of fences (`sync/fence_pair.rs`). The heavy fence
//! runs a full barrier on every OS thread, at some point of that thread's program. Take the point in the owner's:
//!
//! * It lies before the store to the mark. Then the owner's look at the thing comes after the barrier, and finds that
//!   the thing is not its own.
//! * It lies behind the store. Then the revoker finds the mark at the thing, since it looks after the barrier. Or it
//!   finds a later value: the owner has left, or is at another thing.
//!
//! Both `leave` and `enter` are Releases, since the revoker may read the next `enter` and not the last `leave`. The
//! revoker's look is an Acquire. It sees all that was done with the thing.
//!
//! *Late owners.* An owner may be interrupted between its decision to enter and the store. Then it sets its mark long
//! after the thing was taken away, looks, finds that the thing is another's, and leaves. That touches its own mark only.
//! If the thing has become its own again meanwhile, it has set that up itself, or Acquire shows it what happened.
//! This is why the mark belongs to the owner, and not to the thing: a late owner cannot wipe out another one's mark.
//!
//! *Consent.* The heavy fence interrupts every processor; it took 13 us on a virtual machine. So the owner is asked
//! first, once the thing is not its own any more ([`Consent`]). An owner answers between two turns, when it is at
//! nothing. It reads the question with Acquire, so no later look of its finds the thing its own. It answers with
//! Release, so the asker sees what it did. One that does not answer in time is revoked by the fence.
//!
//! An owner that waits in the kernel says that it is *parked*, and need not be asked. That is store buffering, with a
//! full fence on each side: either the asker sees it parked, or it sees, when it returns, that the thing is gone.
//!
//! Where the OS has no such barrier, nothing is ever owned like this.

use std::ptr;

use super::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use super::{const_unless_loom, fence_pair, full_fence, order, pause};

/// The word in which an owner announces the thing that it is using. Only the owner writes it.
#[derive(Debug)]
pub(crate) struct Mark(AtomicPtr<()>);

impl Mark {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Marks the owner, which calls this, as using `thing`, if that is its own. The owner checks that next.
    #[inline(always)]
    pub(crate) fn enter<T>(&self, thing: *const T) {
        // ORDER: Release: a revoker of the thing before may read this store rather than that of its `leave`.
        self.0.store(thing.cast_mut().cast(), order::owner_enter());
        // ORDER: INV-OWNER, the owner's side.
        fence_pair::light();
    }

    /// Marks the owner, which calls this, as using nothing.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // ORDER: Release publishes what it did to the revoker.
        self.0.store(ptr::null_mut(), order::owner_leave());
    }

    /// Whether the owner uses nothing. This is exact for the owner itself, and a hint for others.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Whether the owner still uses `thing`. The revoker asks this after its heavy fence.
    pub(crate) fn is_still_at<T>(&self, thing: *const T) -> bool {
        // ORDER: Acquire pairs with the Releases of `enter` and `leave`.
        ptr::eq(self.0.load(order::owner_observe()), thing.cast())
    }
}

/// The counts by which an OS thread is asked to agree that something is not its own any more.
#[derive(Debug)]
pub(super) struct Consent {
    /// Number of times that it was asked.
    asked: AtomicU64,
    /// Number of these questions that it has agreed to.
    agreed: AtomicU64,
    /// [`SILENT`], [`RESPONSIVE`] or [`PARKED`].
    presence: AtomicU8,
}

/// The OS thread perhaps never agrees.
const SILENT: u8 = 0;
/// The OS thread is likely to agree soon.
const RESPONSIVE: u8 = 1;
/// The OS thread uses nothing now, and will use nothing before it has returned.
const PARKED: u8 = 2;

/// Number of looks for an answer before an asker gives up: a few microseconds, several turns of threads that talk.
const PATIENCE: u32 = if cfg!(loom) { 2 } else { 64 };

/// Number of looks for an answer before the owner is reminded: it may be in the middle of a long turn.
const REMINDED: u32 = 8;

impl Consent {
    const_unless_loom! {
        pub(super) fn new() -> Self {
            Self { asked: AtomicU64::new(0), agreed: AtomicU64::new(0), presence: AtomicU8::new(SILENT) }
        }
    }

    /// Agrees to all that the owner was asked. The owner calls this often, while it uses nothing.
    #[inline(always)]
    pub(super) fn give(&self) {
        // ORDER: Acquire: the asker has taken the thing away, and no later look finds it.
        let asked = self.asked.load(order::consent_give());
        if asked != self.agreed.load(Ordering::Relaxed) {
            // ORDER: Release publishes what it did.
            self.agreed.store(asked, order::consent_given());
        }
    }

    /// Sets whether the owner, which calls this, will agree soon when it is asked.
    pub(super) fn set_responsive(&self, is_responsive: bool) {
        self.presence.store(if is_responsive { RESPONSIVE } else { SILENT }, Ordering::Relaxed);
    }

    /// Waits for something. The owner calls this while it uses nothing. Nobody need ask it meanwhile.
    pub(super) fn while_parked<R>(&self, wait: impl FnOnce() -> R) -> R {
        // Relaxed: nobody else writes here.
        let before = self.presence.load(Ordering::Relaxed);
        // ORDER: Release publishes what it did. (A swap, for loom: see `Sleeper`.)
        self.presence.swap(PARKED, order::consent_parked());
        let result = wait();
        self.presence.swap(before, Ordering::Relaxed);
        // ORDER: the owner's side of the store buffering: its return is stored before it looks at a thing again.
        full_fence(order::consent_return());
        result
    }

    /// The asker's, who has taken something away. True: the owner is not at it, and will not be. False: it does not
    /// answer.
    ///
    /// `remind` is called when the owner takes long, and `meanwhile` all the time: the asker may be asked itself.
    pub(super) fn ask(&self, remind: impl FnOnce(), meanwhile: impl Fn()) -> bool {
        if self.presence.load(Ordering::Relaxed) == SILENT {
            return false;
        }
        // ORDER: the asker's side of the store buffering. Acquire pairs with the Release of `while_parked`.
        full_fence(order::consent_find());
        match self.presence.load(order::consent_found()) {
            PARKED => return true,
            RESPONSIVE => (),
            _ => return false,
        }
        let mut remind = Some(remind);
        // ORDER: Relaxed: the fence above publishes that the thing is gone; see `give`.
        let ticket = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        for look in 0..PATIENCE {
            if look == REMINDED
                && let Some(remind) = remind.take()
            {
                remind();
            }
            // ORDER: Acquire pairs with the Release in `give`.
            if self.agreed.load(order::consent_asked()) >= ticket {
                return true;
            }
            meanwhile();
            pause();
        }
        false
    }
}
