//! Policies: who runs next on a virtual processor, written by you.
//!
//! A [`Policy`] is ordinary, safe Rust: it is handed [`Ready`] threads with
//! the [`Reason`] why they are ready, and says which one runs next (STING,
//! section 4: the policy manager). Each virtual processor has its own, and can
//! be given another one while it runs
//! ([`VirtualProcessor::set_policy`](crate::VirtualProcessor::set_policy)).
//!
//! Ours are [`WorkStealing`] (the default), [`Fifo`], [`Lifo`], [`RoundRobin`],
//! [`Priority`], [`EarliestDeadline`], [`Lottery`], [`Deque`], [`GlobalQueue`],
//! and [`Bands`], which combines others. The crate `chanter-conformance` has a kit that yours
//! should pass, and the book's chapter on policies writes one in forty lines.

mod bands;
mod deadline;
mod depth_first_queue;
mod deque;
mod fifo;
mod global_queue;
mod lifo;
mod lottery;
mod priority;
mod queue;
mod round_robin;
mod slot;
mod work_stealing;

#[cfg(all(test, loom))]
mod models;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

pub use crate::frame::{Attributes, set_attributes};
pub use crate::sync::short_lock::{ShortGuard, ShortLock};
pub use bands::Bands;
pub use deadline::EarliestDeadline;
pub use deque::Deque;
pub use fifo::Fifo;
pub use global_queue::{GlobalQueue, GlobalQueueMember};
pub use lifo::Lifo;
pub use lottery::Lottery;
pub use priority::Priority;
pub use queue::ReadyQueue;
pub use round_robin::RoundRobin;
pub(crate) use slot::{Held, Retired, Slot, Visit, report};
pub use work_stealing::WorkStealing;

use crate::frame::{Header, Kind, attributes_of, scheduler};
use crate::sync::random::random;

/// Operations of a turn, unless the policy says otherwise: about ten
/// microseconds.
pub(crate) const QUANTUM: u32 = 256;

/// Why a thread became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has just been spawned.
    New,
    /// It gave the processor away.
    Yielded,
    /// It used up its budget of operations.
    Spent,
    /// A thread on this virtual processor unblocked it.
    Woken {
        /// That thread's [`Ready::id`]; `None` if it was no thread of ours.
        by: Option<u64>,
    },
    /// A timer of this virtual processor was due.
    Timer,
    /// I/O of this virtual processor is ready.
    Io,
    /// It was unblocked, or sent here, from outside of this virtual processor:
    /// by another one, or by an OS thread.
    Remote,
    /// It was a parasite and has become a host.
    Inflated,
    /// It was to run soon here, but another virtual processor is hungry.
    Displaced,
    /// It was taken from another virtual processor.
    Stolen,
    /// This policy replaces another one, whose thread it was.
    Replaced,
}

/// A scheduling policy: one object for each virtual processor.
///
/// `enqueue`, `next`, `withdraw`, `place`, `need_thread`, `idle` and `drain` are called by
/// the worker that drives the virtual processor, one at a time; `give` and
/// `waiting` by other workers at any time, until the policy is dropped. No lock of the runtime is held during any call. Calls
/// must be short: the virtual processor waits. They may use the library: spawn threads, drop tokens, and block.
///
/// # What a wrong policy can do
///
/// It can starve threads and waste time. It cannot break memory, nor lose the threads of others:
///
/// * **It panics.** The panic is reported, and the policy is not called any more, but for
///   [`drain`](Policy::drain). [`WorkStealing`] takes its place, and gets its threads: those that
///   it had, and those whose tokens the panic has dropped, or the end of the policy does. No
///   thread ends by that. [`Stats::policies_failed`](crate::Stats::policies_failed) counts.
///   (A [`Simulation`](crate::simulation::Simulation) ends its schedule instead.)
/// * **It keeps a token, forgets it, or lets others have it.** The thread does not run meanwhile.
///   If it must end (with its machine; with the `block_on` to which it is bound; with its simulation)
///   it does, whoever has its token. That is dead from then on: to drop it, or to
///   hand it out, does nothing.
/// * **It hands out a token of another virtual processor, or of another machine.** The thread
///   goes home.
/// * **It blocks, or does not return.** Its virtual processor waits for it; so does the end of its machine.
pub trait Policy: Send + Sync + 'static {
    /// A thread is ready: keep it, or return it to have it run soon; or, for one that [yields](Reason::Yielded), another one that
    /// has waited. Those that are returned run first in, first out, before
    /// [`next`](Policy::next) is asked (which happens at the latest after 64
    /// of them, or after two in a row whose turns have not ended them, if it may have one), and cost no lock. (With
    /// [`lets_woken_run`](Policy::lets_woken_run) two go first: the first that the turn of
    /// another of them has given a message (in a choice only while another processor is awake), and the first from which it has taken one, of those that talk to it;
    /// in one turn of 64 none does.) If another virtual processor is hungry
    /// meanwhile, half of them come back as [`Reason::Displaced`], unless the policy lets the woken run: keep those.
    ///
    /// A `Ready` that is dropped ends its thread as cancelled (but not if a panic
    /// of this policy drops it).
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready>;

    /// Whether `enqueue` returns every thread that is [`Reason::Woken`],
    /// [`Timer`](Reason::Timer) or [`Io`](Reason::Io), always: then it is not
    /// asked. Neither is it if half of those that run soon are handed to another virtual processor that has nothing to
    /// run, which come to that one's policy as [`Reason::Remote`]. Looked at once, when the policy comes into force.
    fn lets_woken_run(&self) -> bool {
        false
    }

    /// How many operations (sends, receives, choices, ...) a thread may do in
    /// one turn before it comes back as [`Reason::Spent`]. Looked at once, when
    /// the policy comes into force; 0 counts as 1.
    ///
    /// A thread is asked to leave at its operations only; between two of them
    /// it keeps the processor.
    fn quantum(&self) -> u32 {
        QUANTUM
    }

    /// The thread to run now.
    fn next(&self) -> Option<Ready>;

    /// The value of the thread with this [`id`](Ready::id), which has not run, is demanded here, where it
    /// may be queued: hands it out, if it is at hand, as the one is that was enqueued last
    /// ([`ReadyQueue::withdraw`]). The call must not search long: it is made at each such demand.
    ///
    /// The thread is run where it is demanded either way. If it is not handed out, what is queued is dead from
    /// then on, and thrown away when [`next`](Policy::next) or a stealer comes to it. The default hands out nothing.
    ///
    /// STING, section 6 (stealing threads).
    fn withdraw(&self, id: u64) -> Option<Ready> {
        let _ = id;
        None
    }

    /// Another virtual processor has nothing to run: hand it a thread, and
    /// perhaps more of them to `stealer`. Called on its worker. The default
    /// gives nothing.
    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        let _ = stealer;
        None
    }

    /// How many threads [`give`](Policy::give) could hand out: a hint that
    /// decides whether sleeping processors are woken. The default is none.
    fn waiting(&self) -> usize {
        0
    }

    /// Nothing is ready here: find a thread elsewhere. The default asks the
    /// others in random order.
    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        others.ask_in_random_order()
    }

    /// Where a new thread is to run: an index of a virtual processor, or
    /// `None` for here. The default says here.
    fn place(&self, vps: usize) -> Option<usize> {
        let _ = vps;
        None
    }

    /// Whether [`place`](Policy::place) may name another virtual processor. If not, it is not asked, and a spawn costs less. Looked
    /// at once, when the policy comes into force.
    fn places(&self) -> bool {
        true
    }

    /// The virtual processor is about to sleep.
    fn idle(&self) {}

    /// The policy is replaced, or its machine ends: hands over its threads, one
    /// a call, in any order, until there are none. The default is
    /// [`next`](Policy::next), which does if the policy holds none back.
    /// Called by the worker; others may still call `give` meanwhile.
    fn drain(&self) -> Option<Ready> {
        self.next()
    }
}

/// A box of a policy is one: policies are chosen and combined at run time.
impl<P: Policy + ?Sized> Policy for Box<P> {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        (**self).enqueue(thread, reason)
    }

    fn lets_woken_run(&self) -> bool {
        (**self).lets_woken_run()
    }

    fn quantum(&self) -> u32 {
        (**self).quantum()
    }

    fn next(&self) -> Option<Ready> {
        (**self).next()
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        (**self).withdraw(id)
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        (**self).give(stealer)
    }

    fn waiting(&self) -> usize {
        (**self).waiting()
    }

    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        (**self).need_thread(others)
    }

    fn place(&self, vps: usize) -> Option<usize> {
        (**self).place(vps)
    }

    fn places(&self) -> bool {
        (**self).places()
    }

    fn idle(&self) {
        (**self).idle();
    }

    fn drain(&self) -> Option<Ready> {
        (**self).drain()
    }
}

/// The virtual processors of a machine, as policies know them. Each index is below the count.
pub(crate) trait Processors {
    fn count(&self) -> usize;

    /// A thread of the virtual processor `index`, for `stealer`.
    fn give(&self, index: usize, stealer: &dyn Policy) -> Option<Ready>;

    /// Whether its driver sleeps. A hint.
    fn is_asleep(&self, index: usize) -> bool;
}

/// The other virtual processors of the machine, as seen by a hungry one.
pub struct Others<'a> {
    pub(crate) stealer: &'a dyn Policy,
    pub(crate) vps: &'a dyn Processors,
    pub(crate) index: usize,
}

impl Others<'_> {
    /// Asks the virtual processor `index` for threads.
    pub fn ask(&self, index: usize) -> Option<Ready> {
        if index == self.index || index >= self.vps.count() {
            return None;
        }
        self.vps.give(index, self.stealer)
    }

    /// Asks all of them that are awake, beginning at a random one. (Who sleeps has nothing that is ready.)
    pub fn ask_in_random_order(&self) -> Option<Ready> {
        let count = self.vps.count();
        let start = random(count);
        let all = (0..count).map(|step| (start + step) % count);
        all.filter(|index| !self.vps.is_asleep(*index)).find_map(|index| self.ask(index))
    }

    /// How many virtual processors the machine has.
    pub fn len(&self) -> usize {
        self.vps.count()
    }

    /// Whether there is no other one.
    pub fn is_empty(&self) -> bool {
        self.vps.count() < 2
    }

    /// The index of the hungry one.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl fmt::Debug for Others<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Others").field("index", &self.index).field("len", &self.len()).finish()
    }
}

/// A thread that is ready to run: the right, held once, to run it
/// (INV-TOKEN of `frame/state.rs`).
///
/// Dropping it ends the thread: its future is dropped, and who joins it gets
/// a cancelled [`JoinError`](crate::JoinError). Dropped where its thread may not
/// run, it goes home instead. It may outlive its thread, and its machine; then it keeps some
/// memory, and does nothing.
pub struct Ready {
    frame: NonNull<Header>,
}

// SAFETY: a thread that may move is `Send`, and a token that has strayed to
// the wrong place is sent home before it is run.
unsafe impl Send for Ready {}
// SAFETY: a shared token only reads what the holder alone writes.
unsafe impl Sync for Ready {}

impl Ready {
    /// # Safety
    /// The caller holds the frame's token.
    #[inline(always)]
    pub(crate) unsafe fn from_frame(frame: NonNull<Header>) -> Self {
        Self { frame }
    }

    #[inline(always)]
    pub(crate) fn into_frame(self) -> NonNull<Header> {
        ManuallyDrop::new(self).frame
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the thread is not complete while its token exists; a stale
        // token is a reference.
        unsafe { self.frame.as_ref() }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.header().kind.get()
    }

    /// A number that no other living thread has.
    pub fn id(&self) -> u64 {
        self.frame.as_ptr() as usize as u64
    }

    /// Whether it is a parasite, waiting here because it could not be
    /// attached.
    pub fn is_parasite(&self) -> bool {
        self.kind() == Kind::Parasite
    }

    /// Whether it may run on any virtual processor.
    pub fn may_move(&self) -> bool {
        matches!(self.kind(), Kind::Host | Kind::Parasite)
    }

    /// What was said of the thread: [`Attributes::new`] if nothing was.
    pub fn attributes(&self) -> Attributes {
        // SAFETY: the token, even a stale one, keeps the frame.
        unsafe { attributes_of(self.frame) }.map_or(Attributes::new(), |place| *place.lock())
    }

    /// The policy's own word: 0 at first, then what the policy last set. It
    /// stays with the thread.
    pub fn tag(&self) -> u64 {
        self.header().tag.get()
    }

    /// Sets the policy's own word. A policy that replaces another one, or
    /// steals, finds the words that the other one has set.
    pub fn set_tag(&mut self, tag: u64) {
        self.header().tag.set(tag);
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("id", &self.id()).field("kind", &self.kind()).finish()
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let scheduler = scheduler().expect("a thread has a scheduler");
        // SAFETY: the token is given up here, and nowhere else.
        unsafe { scheduler.give_up(self.frame) };
    }
}
