//! `Group`: threads as one value, their children included.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use super::any::AnyThread;
use super::join::Thread;
use super::spawn::spawn_at;
use crate::channel::CVar;
use crate::frame::Header;
use crate::frame::environment::{self, Binding, Bound, within};
use crate::sched::yield_now;
use crate::sync::Lock;

/// Threads that are asked together. They are those that are spawned into the group, and all that these spawn.
///
/// A group is inherited as a [`Fluid`](super::Fluid) is. A member may belong to several groups, one within the
/// other. A clone is the same group. A group that is dropped leaves its
/// threads alone.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::thread::Group;
///
/// # chanter::block_on(async {
/// let group = Group::new();
/// for _ in 0..10 {
///     group.spawn(async {
///         spawn(never::<()>().into_future());
///         never::<()>().await;
///     });
/// }
/// while group.living() < 20 {
///     chanter::yield_now().await;
/// }
/// group.suspend().await;
/// group.resume();
/// group.cancel().await;
/// assert_eq!(group.living(), 0);
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Group {
    shared: Arc<Lock<Members>>,
}

#[derive(Default)]
struct Members {
    /// The frames of those whose bodies are not over.
    ///
    /// INV-MEMBER: a frame is here once, from before others know its thread until [`Bound::ended`], which comes before
    /// the frame is freed. So its state may be looked at under the lock, and a handle be made of it.
    living: Vec<Member>,
    /// Where each of them is in `living`. (Nobody goes through the table, whose order is random.)
    places: HashMap<NonNull<Header>, usize>,
    /// Whether new members end at once.
    is_cancelled: bool,
    /// Set when no member lives, if a thread waits for the end.
    empty: Option<CVar>,
}

struct Member {
    frame: NonNull<Header>,
    is_host: bool,
}

impl Members {
    fn add(&mut self, member: Member) {
        debug_assert!(!self.places.contains_key(&member.frame), "INV-MEMBER: a frame is here once");
        self.places.insert(member.frame, self.living.len());
        self.living.push(member);
    }

    fn remove(&mut self, frame: NonNull<Header>) {
        let Some(place) = self.places.remove(&frame) else { return };
        self.living.swap_remove(place);
        if let Some(moved) = self.living.get(place) {
            self.places.insert(moved.frame, place);
        }
    }
}

// SAFETY: frames are looked at as INV-MEMBER says, by atomic operations.
unsafe impl Send for Members {}

/// The membership of a group, as a binding.
struct Membership(Group);

impl Bound for Membership {
    fn made(&self, frame: NonNull<Header>) {
        // SAFETY: the frame is new, with its table, and its maker keeps it.
        let is_host = unsafe { (frame.as_ref().vtable.get().joiners)(frame) }.is_some();
        let mut members = self.0.shared.lock();
        members.add(Member { frame, is_host });
        let is_cancelled = members.is_cancelled;
        drop(members);
        if is_cancelled {
            // SAFETY: the maker keeps the frame. The reference is counted here.
            let thread = unsafe {
                frame.as_ref().state.retain();
                AnyThread::from_frame(frame, is_host)
            };
            drop(thread.cancel());
        }
    }

    fn ended(&self, frame: NonNull<Header>) {
        let mut members = self.0.shared.lock();
        members.remove(frame);
        let empty = if members.living.is_empty() { members.empty.take() } else { None };
        drop(members);
        if let Some(empty) = empty {
            empty.set();
        }
    }
}

impl Group {
    /// A group without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns a member; see [`spawn`](crate::spawn).
    ///
    /// # Panics
    /// Outside of a machine.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let (future, site) = (future.into_future(), Location::caller());
        self.enter(|| spawn_at(future, site))
    }

    /// Calls `body`. All threads that it spawns, of whatever kind, are members. A member need not call it: its threads are
    /// members anyway.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::thread::Group;
    /// # chanter::block_on(async {
    /// let group = Group::new();
    /// let lazy = group.enter(|| delay(async { 7 }));
    /// assert_eq!(group.living(), 1);
    /// assert_eq!(lazy.await.unwrap(), 7);
    /// assert_eq!(group.living(), 0);
    /// # });
    /// ```
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let bindings = environment::current();
        if bindings.as_ref().is_some_and(|bindings| bindings.values().any(|value| self.is_of(value))) {
            // It is entered already: INV-MEMBER.
            return body();
        }
        within(&Binding::new(0, Arc::new(Membership(self.clone())), bindings), body)
    }

    /// Whether a value that is bound is the membership of this group.
    fn is_of(&self, value: &dyn Any) -> bool {
        value.downcast_ref::<Membership>().is_some_and(|Membership(group)| group == self)
    }

    /// The members whose bodies are not over.
    pub fn members(&self) -> Vec<AnyThread> {
        let members = self.shared.lock();
        let handle = |Member { frame, is_host }: &Member| {
            // SAFETY: INV-MEMBER: the frame is not freed while the lock is held. Its thread is SHARED, since it has
            // inherited bindings. The reference is counted here.
            unsafe { frame.as_ref().state.try_retain().then(|| AnyThread::from_frame(*frame, *is_host)) }
        };
        members.living.iter().filter_map(handle).collect()
    }

    /// Number of members whose bodies are not over.
    pub fn living(&self) -> usize {
        self.shared.lock().living.len()
    }

    /// Suspends all members, except the caller, and waits until they stand still, those included that they spawn
    /// meanwhile. Members that compute, and never await, are waited for. A delayed member stays delayed.
    ///
    /// **Cancel safety.** The requests that have been made stand.
    pub async fn suspend(&self) {
        let me = super::this();
        // Their handles are kept, so that no other thread gets the frame of one that is known.
        let mut known = HashMap::new();
        loop {
            let is_new = |thread: &AnyThread| {
                Some(thread) != me.as_ref() && !known.contains_key(&thread.id_of_frame())
            };
            let new: Vec<_> = self.members().into_iter().filter(is_new).collect();
            if new.is_empty() {
                return;
            }
            let requests: Vec<_> = new.iter().map(AnyThread::suspend).collect();
            for (thread, request) in new.iter().zip(requests) {
                // A thread that is still delayed takes the request before it begins, if it ever does.
                if !thread.header().state.is_delayed() {
                    let _ = request.await;
                }
            }
            known.extend(new.into_iter().map(|thread| (thread.id_of_frame(), thread)));
        }
    }

    /// Resumes all members that are suspended or blocked by a request; see [`Thread::resume`]. Never blocks.
    ///
    /// Returns how many there were.
    pub fn resume(&self) -> usize {
        self.members().iter().filter(|thread| thread.resume()).count()
    }

    /// Ends all members without a value, except the caller, and waits until the bodies of all of them are over. Each of
    /// them is determined then, or will be in a moment. Threads that are spawned into the group from now on end
    /// likewise. Members that compute, and never await, are waited for.
    ///
    /// **Cancel safety.** The group stays cancelled, and the requests that have been made stand.
    pub async fn cancel(&self) {
        self.shared.lock().is_cancelled = true;
        let me = super::this();
        loop {
            // Those that were spawned since the first round have been asked at their birth.
            let others: Vec<_> =
                self.members().into_iter().filter(|thread| Some(thread) != me.as_ref()).collect();
            if others.is_empty() {
                if !self.has_others(me.as_ref()) {
                    return;
                }
                // Some are about to end, and nobody can ask them any more.
                yield_now().await;
            }
            let requests: Vec<_> = others.iter().map(AnyThread::cancel).collect();
            for request in requests {
                let _ = request.await;
            }
            for thread in others {
                end_of(&thread).await;
            }
        }
    }

    /// Whether anybody but `me` is a member.
    fn has_others(&self, me: Option<&AnyThread>) -> bool {
        let members = self.shared.lock();
        members.living.iter().any(|member| me.is_none_or(|me| me.frame() != member.frame))
    }

    /// Waits until the bodies of all members are over, those included that are spawned meanwhile. Each of them is
    /// determined then, or will be in a moment. It takes no values, and runs no delayed member. A member that calls it
    /// waits for ever.
    ///
    /// **Cancel safety.** A drop changes nothing for the members.
    pub async fn join(&self) {
        while let Some(empty) = self.when_empty() {
            empty.wait().await;
        }
    }

    /// A condition that is set when nobody lives; `None`: nobody does.
    fn when_empty(&self) -> Option<CVar> {
        let mut members = self.shared.lock();
        if members.living.is_empty() {
            return None;
        }
        Some(members.empty.get_or_insert_default().clone())
    }
}

/// Waits until a thread, whose body is over, or will be soon, is determined.
async fn end_of(thread: &AnyThread) {
    match thread.wait() {
        Some(wait) => wait.await,
        None => {
            while !thread.is_determined() {
                yield_now().await;
            }
        }
    }
}

/// Equal groups have the same members.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Group {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("living", &self.living()).finish_non_exhaustive()
    }
}
