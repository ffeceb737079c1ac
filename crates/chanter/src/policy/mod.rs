//! Policies decide which thread runs next on a virtual processor; you can write your own.
//!
//! A [`Policy`] is ordinary, safe Rust. It is handed [`Ready`] threads with the [`Reason`] why they are ready, and
//! says which one runs next (STING, section 4: the policy manager). Each virtual processor has its own policy. It can
//! be given another one while it runs ([`VirtualProcessor::set_policy`](crate::VirtualProcessor::set_policy)).
//!
//! The library has [`WorkStealing`] (the default), [`Fifo`], [`Lifo`], [`RoundRobin`], [`LeastLoaded`], [`Priority`],
//! [`EarliestDeadline`], [`Lottery`], [`Deque`], [`GlobalQueue`], and [`Bands`], which combines others. The crate
//! `chanter-conformance` has a kit that a policy should pass. The book's chapter on policies writes a policy in forty
//! lines.

mod bands;
mod deadline;
mod depth_first_queue;
mod deque;
mod fifo;
mod global_queue;
mod least_loaded;
mod lifo;
mod lottery;
pub(crate) mod physical;
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
pub use least_loaded::LeastLoaded;
pub use lifo::Lifo;
pub use lottery::Lottery;
pub use priority::Priority;
pub use queue::ReadyQueue;
pub use round_robin::RoundRobin;
pub(crate) use slot::{Held, Retired, Slot, Visit, report};
pub use work_stealing::WorkStealing;

use crate::frame::{Header, Kind, attributes_of, scheduler};
use crate::sync::random::random;

/// Operations of a turn, unless the policy says otherwise: about ten microseconds.
pub(crate) const QUANTUM: u32 = 256;

/// The reason why a thread became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has just been spawned.
    New,
    /// It let other threads go first ([`yield_now`](crate::yield_now)).
    Yielded,
    /// It used up its budget of operations.
    Spent,
    /// A thread on this virtual processor unblocked it.
    Woken {
        /// The [`Ready::id`] of that thread; `None` if it was no thread of this library.
        by: Option<u64>,
    },
    /// A timer of this virtual processor was due.
    Timer,
    /// I/O of this virtual processor is ready.
    Io,
    /// It was unblocked, or sent here, from outside of this virtual processor: by another one, or by an OS thread.
    Remote,
    /// It was a parasite and has become a host.
    Inflated,
    /// It was in the run-next list here, but another virtual processor searches for work.
    Displaced,
    /// It was taken from another virtual processor.
    Stolen,
    /// This policy replaces another one, which had the thread.
    Replaced,
}

/// A scheduling policy: one object for each virtual processor.
///
/// The worker that drives the virtual processor calls `enqueue`, `next`, `withdraw`, `place`, `need_thread`, `idle`
/// and `drain`, one at a time. Other workers call `give` and `waiting` at any time, until the policy is dropped. No
/// lock of the runtime is held during any call. Calls must be short, since the virtual processor waits for them. They
/// may use the library: spawn threads, drop tokens, and block.
///
/// # What a wrong policy can do
///
/// It can starve threads and waste time. It cannot break memory, nor lose the threads of others:
///
/// * **It panics.** The panic is reported, and only [`drain`](Policy::drain) is called from then on. [`WorkStealing`]
///   takes its place, and gets its threads. These include threads whose tokens the panic or the end of the policy
///   drops. No thread ends by that. [`Stats::policies_failed`](crate::Stats::policies_failed) counts such policies.
///   (A [`Simulation`](crate::simulation::Simulation) ends its schedule instead.)
/// * **It keeps a token, forgets it, or lets others have it.** The thread does not run meanwhile. The thread still
///   ends with its machine, with the `block_on` to which it is bound, or with its simulation. The token is dead from
///   then on: to drop it, or to hand it out, does nothing.
/// * **It hands out a token of another virtual processor, or of another machine.** The thread goes home.
/// * **It blocks, or does not return.** Its virtual processor waits for it; so does the end of its machine.
pub trait Policy: Send + Sync + 'static {
    /// Takes a thread that is ready: keeps it, or returns it to have it run from the run-next list. For a thread that
    /// [yields](Reason::Yielded), it may return another one that has waited.
    ///
    /// Threads that are returned run first in, first out, before [`next`](Policy::next) is asked, and cost no lock.
    /// `next` is asked after 64 of them at the latest. It is asked after two of them in a row whose turns have not
    /// ended them, if the policy may have a thread. If another virtual processor searches for work meanwhile, half of
    /// the list comes back as [`Reason::Displaced`]; keep those. If [`lets_woken_run`](Policy::lets_woken_run) is
    /// true, they do not come back.
    ///
    /// If [`lets_woken_run`](Policy::lets_woken_run) is true, at most two threads go before the others of the list in
    /// each turn of one of them. The first thread that the turn has handed a message runs next (in a choice only
    /// while another processor is awake). After it runs the first thread whose message the turn has taken, if the two
    /// talk to each other. Every 64th turn skips this, so that the others are not starved.
    ///
    /// A `Ready` that is dropped ends its thread as cancelled (but not if a panic of this policy drops it).
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready>;

    /// Whether `enqueue` always returns every thread that is [`Reason::Woken`], [`Timer`](Reason::Timer) or
    /// [`Io`](Reason::Io). If so, it is not asked about them. Nor is it asked when half of the run-next list is
    /// handed to another virtual processor that has nothing to run. Those threads come to the policy of that
    /// processor as [`Reason::Remote`]. This is read once, when the policy comes into force.
    fn lets_woken_run(&self) -> bool {
        false
    }

    /// Number of operations (sends, receives, choices, ...) that a thread may do in one turn before it comes back as
    /// [`Reason::Spent`]. It is read once, when the policy comes into force; 0 counts as 1. A thread may have a
    /// [quantum of its own](Attributes::quantum).
    ///
    /// A thread is interrupted at its operations only. Between two of them it keeps the processor.
    fn quantum(&self) -> u32 {
        QUANTUM
    }

    /// Returns the thread to run now.
    fn next(&self) -> Option<Ready>;

    /// Hands out the thread with this [`id`](Ready::id), if it is at hand. The value of the thread is demanded on
    /// this virtual processor, where the thread may be queued, and it has not run. The thread that was enqueued last
    /// is at hand ([`ReadyQueue::withdraw`]). The call must not search long, since it is made at each such demand.
    ///
    /// The thread is run where it is demanded either way. If it is not handed out, its queued token is dead from then
    /// on. It is thrown away when [`next`](Policy::next) or a stealer comes to it. The default hands out nothing.
    ///
    /// STING, section 6 (stealing threads).
    fn withdraw(&self, id: u64) -> Option<Ready> {
        let _ = id;
        None
    }

    /// Hands out a thread to another virtual processor that has nothing to run, and perhaps more threads to
    /// `stealer`. It is called on the other processor's worker. The default gives nothing.
    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        let _ = stealer;
        None
    }

    /// Number of threads that [`give`](Policy::give) could hand out. It is a hint that decides whether sleeping
    /// processors are woken. The default is 0.
    fn waiting(&self) -> usize {
        0
    }

    /// Finds a thread elsewhere, since nothing is ready here. The default asks the others in random order.
    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        others.ask_in_random_order()
    }

    /// Place of a new thread: the index of one of the virtual processors `places`, or `None` for this one. The default
    /// is `None`. It is not asked about threads whose place their spawner has said.
    ///
    /// STING, section 4: how threads "initially get associated with a VP".
    fn place(&self, places: Places<'_>) -> Option<usize> {
        let _ = places;
        None
    }

    /// Whether [`place`](Policy::place) may name another virtual processor. If not, it is not asked, and a spawn
    /// costs less. It is read once, when the policy comes into force.
    fn places(&self) -> bool {
        true
    }

    /// Tells the policy that the virtual processor is about to sleep.
    fn idle(&self) {}

    /// Hands over the threads of a policy that is replaced, or whose machine ends: one a call, in any order, until
    /// there are none. The default calls [`next`](Policy::next), which suffices if the policy holds no thread back.
    /// It is called by the worker; others may still call `give` meanwhile.
    fn drain(&self) -> Option<Ready> {
        self.next()
    }
}

/// A box of a policy is a policy, so policies can be chosen and combined at run time.
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

    fn place(&self, places: Places<'_>) -> Option<usize> {
        (**self).place(places)
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
pub(crate) trait Processors: Sync {
    fn count(&self) -> usize;

    /// A thread of the virtual processor `index`, for `stealer`.
    fn give(&self, index: usize, stealer: &dyn Policy) -> Option<Ready>;

    /// Whether its worker sleeps. A hint.
    fn is_asleep(&self, index: usize) -> bool;

    /// Number of threads that wait there, as its policy says. A hint.
    fn waiting(&self, index: usize) -> usize;
}

/// The virtual processors of a machine, among which [`Policy::place`] chooses.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    pub(crate) vps: &'a dyn Processors,
    pub(crate) index: usize,
}

impl Places<'_> {
    /// Number of virtual processors of the machine.
    pub fn len(&self) -> usize {
        self.vps.count()
    }

    /// Whether the thread can be nowhere but here.
    pub fn is_empty(&self) -> bool {
        self.vps.count() < 2
    }

    /// The index of the virtual processor on which the thread is spawned.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads that wait on the virtual processor `index`, as its policy says by [`Policy::waiting`]; 0 if
    /// there is no such processor. A hint: threads that are on their way there do not count. Never blocks.
    pub fn waiting(&self, index: usize) -> usize {
        if index < self.vps.count() { self.vps.waiting(index) } else { 0 }
    }
}

impl fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("index", &self.index).field("len", &self.len()).finish()
    }
}

/// The other virtual processors of the machine, as seen by one that searches for work.
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

    /// Asks all others that are awake, beginning at a random one. A processor that sleeps has no ready thread.
    pub fn ask_in_random_order(&self) -> Option<Ready> {
        let count = self.vps.count();
        let start = random(count);
        let all = (0..count).map(|step| (start + step) % count);
        all.filter(|index| !self.vps.is_asleep(*index)).find_map(|index| self.ask(index))
    }

    /// Number of virtual processors of the machine.
    pub fn len(&self) -> usize {
        self.vps.count()
    }

    /// Whether there is no other one.
    pub fn is_empty(&self) -> bool {
        self.vps.count() < 2
    }

    /// The index of the virtual processor that searches for work.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl fmt::Debug for Others<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Others").field("index", &self.index).field("len", &self.len()).finish()
    }
}

/// A thread that is ready to run: the right, held once, to run it (INV-TOKEN of `frame/state.rs`).
///
/// A drop of it ends the thread: the thread's future is dropped, and a thread that joins it gets a cancelled
/// [`JoinError`](crate::JoinError). If it is dropped on a virtual processor where its thread may not run, it goes to
/// the thread's own one instead. It may outlive its thread, and its machine. Then it keeps some memory, and does
/// nothing.
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

    /// Whether it is a parasite, which waits here because it could not be attached.
    pub fn is_parasite(&self) -> bool {
        self.kind() == Kind::Parasite
    }

    /// Whether it may run on any virtual processor.
    pub fn may_move(&self) -> bool {
        matches!(self.kind(), Kind::Host | Kind::Parasite)
    }

    /// The attributes that were given to the thread; [`Attributes::new`] if none were.
    pub fn attributes(&self) -> Attributes {
        // SAFETY: the token, even a stale one, keeps the frame.
        unsafe { attributes_of(self.frame) }.map_or(Attributes::new(), |place| *place.lock())
    }

    /// A word that belongs to the policy: 0 at first, then the word that the policy last set. It stays with the
    /// thread.
    pub fn tag(&self) -> u64 {
        self.header().tag.get()
    }

    /// Sets the policy's word. A policy that replaces another one, or steals, finds the words that the other one has
    /// set.
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
