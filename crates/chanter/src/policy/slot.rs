//! The slot of a virtual processor's policy, which may be replaced while the machine runs.
//!
//! ```text
//!   requester: leave the request, wake the worker
//!   worker:    between two turns: current := new; FENCE; drain the old one
//!              visitors = 0?  drain it again, free it  : else it is RETIRED
//!   visitor:   visitors += 1; FENCE; use current; visitors -= 1
//! ```
//!
//! Only the worker replaces the policy, so its own calls cost as much as a plain field would: `mine` is its copy of
//! the pointer. Others only visit, to steal and to look for work. Visits are rare, and may cost a read-modify-write.
//!
//! * INV-VISIT: with both fences sequentially consistent, either the worker
//!   sees the visitor, or the visitor sees the new policy (store buffering, as
//!   in INV-SLEEP). So a policy that was replaced before the worker saw no
//!   visitors is seen by nobody, and can be freed.
//! * INV-MOVE: a replaced policy is drained until it is freed. A visitor that takes threads out and puts some of them
//!   back may do so after the first drain. The last drain comes after the last visitor.
//! * INV-FAIL: a policy that has panicked is replaced, once. The worker does it at once if it made the call itself. A
//!   visitor marks the policy and leaves a request, under the lock of requests. A worker that has taken the request
//!   sees the mark.

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use crate::frame::{JoinError, catch_panic};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{Cell, Lock, free, full_fence, order};

/// A policy, and whether it has panicked.
pub(crate) struct Held<P: ?Sized> {
    policy: ManuallyDrop<Box<P>>,
    /// Whether the policy has panicked.
    has_failed: AtomicBool,
}

impl<P: ?Sized> Held<P> {
    fn new(policy: Box<P>) -> *mut Self {
        let policy = ManuallyDrop::new(policy);
        Box::into_raw(Box::new(Self { policy, has_failed: AtomicBool::new(false) }))
    }

    pub(crate) fn has_failed(&self) -> bool {
        // ORDER: Relaxed: for visitors a hint; see `is_to_be_replaced` for the worker.
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Notes that the policy has panicked; true: for the first time.
    pub(crate) fn fail(&self) -> bool {
        !self.has_failed.swap(true, Ordering::Relaxed)
    }
}

impl<P: ?Sized> Deref for Held<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.policy
    }
}

/// A policy that was replaced, and that nobody else can see any more.
pub(crate) struct Retired<P: ?Sized>(*mut Held<P>);

impl<P: ?Sized> Deref for Retired<P> {
    type Target = Held<P>;

    fn deref(&self) -> &Held<P> {
        // SAFETY: the policy belongs to this value alone until it is dropped.
        unsafe { &*self.0 }
    }
}

impl<P: ?Sized> Drop for Retired<P> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, and dropped once.
        // It does not panic.
        drop(free(unsafe { Box::from_raw(self.0) }));
    }
}

impl<P: ?Sized> Drop for Held<P> {
    fn drop(&mut self) {
        // SAFETY: the policy is taken out once, here, and not used afterwards.
        let policy = unsafe { ManuallyDrop::take(&mut self.policy) };
        if let Err(payload) = free(policy) {
            report(self.fail(), payload);
        }
    }
}

/// Reports a panic of a policy, if it is the policy's first one.
#[cold]
pub(crate) fn report(is_first: bool, payload: Box<dyn Any + Send>) {
    if is_first {
        JoinError::panicked(payload).report("a policy");
    } else {
        catch_panic(|| drop(payload));
    }
}

/// The slot of a policy, which tells who may use it.
pub(crate) struct Slot<P: ?Sized, R> {
    /// The policy in force. Only the worker uses this copy.
    mine: Cell<*const P>,
    /// The same, for visitors.
    current: AtomicPtr<Held<P>>,
    visitors: AtomicUsize,
    /// Replaced policies that may still have visitors. Only the worker uses it.
    retired: UnsafeCell<Vec<*mut Held<P>>>,
    /// Whether there is a request.
    asked: AtomicBool,
    request: Lock<Option<R>>,
}

// SAFETY: `mine` and `retired` belong to the worker, a role that is handed
// over with Release and Acquire; everybody may visit a policy that is `Sync`.
unsafe impl<P: ?Sized + Send + Sync, R: Send> Sync for Slot<P, R> {}
// SAFETY: `mine` and `retired` belong to the worker, a role that is handed over with Release and Acquire.
unsafe impl<P: ?Sized + Send + Sync, R: Send> Send for Slot<P, R> {}

impl<P: ?Sized, R> Slot<P, R> {
    pub(crate) fn new(policy: Box<P>) -> Self {
        let mine: *const P = &raw const *policy;
        Self {
            mine: Cell::new(mine),
            current: AtomicPtr::new(Held::new(policy)),
            visitors: AtomicUsize::new(0),
            retired: UnsafeCell::new(Vec::new()),
            asked: AtomicBool::new(false),
            request: Lock::new(None),
        }
    }

    /// The policy in force.
    ///
    /// # Safety
    /// The caller is the worker, and does not keep the borrow beyond a
    /// [`reclaim`](Self::reclaim).
    #[inline(always)]
    pub(crate) unsafe fn get(&self) -> &P {
        // SAFETY: only the worker frees the policy, in `reclaim` at the earliest. The caller is the worker, and its
        // borrow ends before that.
        unsafe { &*self.mine.get() }
    }

    /// The policy in force, for anyone.
    pub(crate) fn visit(&self) -> Visit<'_, P, R> {
        self.visitors.fetch_add(1, Ordering::Relaxed);
        // ORDER: INV-VISIT, the visitor's side.
        full_fence(order::policy_visit());
        // ORDER: Acquire pairs with `replace`: the policy is whole.
        let policy = self.current.load(order::policy_observe());
        // SAFETY: INV-VISIT: it is not freed while the visit lasts.
        Visit { policy: unsafe { &*policy }, slot: self }
    }

    /// Asks the worker for something. A request that has not been served yet is handed back. The caller wakes the
    /// worker afterwards.
    pub(crate) fn ask(&self, request: R) -> Option<R> {
        let mut place = self.request.lock();
        // ORDER: Relaxed, here and in `take_request`: it is written under the lock, so it says what the place holds.
        // INV-SLEEP makes a sleeping worker see it.
        self.asked.store(true, Ordering::Relaxed);
        place.replace(request)
    }

    /// Whether there is a request (a hint, unless fenced).
    #[inline(always)]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Takes the request, if there is one. Only the worker and the shutdown call this.
    pub(crate) fn take_request(&self) -> Option<R> {
        let mut place = self.request.lock();
        self.asked.store(false, Ordering::Relaxed);
        place.take()
    }

    /// Notes that a policy has panicked in a call by the worker; true: for the first time.
    ///
    /// # Safety
    /// The caller is the worker. The policy is in force, or retired.
    pub(crate) unsafe fn fail(&self, policy: *const P) -> bool {
        // SAFETY: the caller is the worker; the borrow ends here.
        let retired = unsafe { &*self.retired.get() };
        let current = self.current.load(Ordering::Relaxed);
        // SAFETY: only the worker frees policies, and the caller is the worker.
        let mut all = retired.iter().chain([&current]).map(|held| unsafe { &**held });
        // Policies without a size may share an address. Then it does not matter which of them is marked.
        all.find(|held| ptr::addr_eq(policy, &raw const ***held)).is_some_and(Held::fail)
    }

    /// Calls `f` with the policy in force. `f` may do anything but replace
    /// and reclaim.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn with_current(&self, f: impl FnOnce(&Held<P>)) {
        // SAFETY: only the worker frees policies, and the caller is the worker, whose `f` does not reclaim.
        f(unsafe { &*self.current.load(Ordering::Relaxed) });
    }

    /// Whether the policy in force has panicked. A worker that has taken the request of a visitor whose call panicked
    /// sees the mark.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn is_to_be_replaced(&self) -> bool {
        // SAFETY: only the worker frees policies, and the caller is the worker.
        unsafe { &*self.current.load(Ordering::Relaxed) }.has_failed()
    }

    /// Puts `policy` in force. The old one is retired: see
    /// [`drain`](Self::drain) and [`reclaim`](Self::reclaim).
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn replace(&self, policy: Box<P>) {
        self.mine.set(&raw const *policy);
        // ORDER: Release publishes the policy to `visit`.
        let old = self.current.swap(Held::new(policy), order::policy_publish());
        // ORDER: INV-VISIT, the worker's side, for the looks that follow.
        full_fence(order::policy_retire());
        // SAFETY: the caller is the worker; the borrow ends here.
        unsafe { (*self.retired.get()).push(old) };
    }

    /// Whether replaced policies wait to be reclaimed.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline(always)]
    pub(crate) unsafe fn has_retired(&self) -> bool {
        // SAFETY: the caller is the worker; the borrow ends here.
        unsafe { !(*self.retired.get()).is_empty() }
    }

    /// Calls `f` with every replaced policy. `f` may do anything but replace
    /// and reclaim.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn drain(&self, mut f: impl FnMut(&Held<P>)) {
        let mut index = 0;
        loop {
            // SAFETY: the caller is the worker; the borrow ends here.
            let Some(policy) = (unsafe { (&*self.retired.get()).get(index).copied() }) else { return };
            // SAFETY: policies are freed in `reclaim` only, which `f` does not call.
            f(unsafe { &*policy });
            index += 1;
        }
    }

    /// Hands the replaced policies to `f`, to drain and to drop them, if nobody can see them
    /// any more. False: there are visitors.
    ///
    /// # Safety
    /// The caller is the worker, and no call of any policy of this slot is
    /// under way on its stack.
    pub(crate) unsafe fn reclaim(&self, mut f: impl FnMut(Retired<P>)) -> bool {
        // ORDER: Acquire sees what visitors did that have left; later visitors see the new policy (INV-VISIT).
        if self.visitors.load(order::policy_gone()) != 0 {
            return false;
        }
        // SAFETY: the caller is the worker; the borrow ends here.
        let retired = unsafe { std::mem::take(&mut *self.retired.get()) };
        for policy in retired {
            f(Retired(policy));
        }
        true
    }
}

impl<P: ?Sized, R> Drop for Slot<P, R> {
    fn drop(&mut self) {
        let current = self.current.swap(ptr::null_mut(), Ordering::Relaxed);
        for policy in std::mem::take(self.retired.get_mut()).into_iter().chain([current]) {
            drop(Retired(policy));
        }
    }
}

/// A visit: keeps the policy from being freed while it lives.
pub(crate) struct Visit<'a, P: ?Sized, R> {
    policy: &'a Held<P>,
    slot: &'a Slot<P, R>,
}

impl<P: ?Sized, R> Visit<'_, P, R> {
    /// Notes that the policy has panicked, and asks the worker to replace it. The caller wakes the worker afterwards.
    /// True: it is the first panic.
    pub(crate) fn fail(&self) -> bool {
        let is_first = self.policy.fail();
        let _request = self.slot.request.lock();
        // ORDER: Relaxed, as in `ask`; INV-FAIL: the mark above comes before the lock.
        self.slot.asked.store(true, Ordering::Relaxed);
        is_first
    }
}

impl<P: ?Sized, R> Deref for Visit<'_, P, R> {
    type Target = Held<P>;

    fn deref(&self) -> &Held<P> {
        self.policy
    }
}

impl<P: ?Sized, R> Drop for Visit<'_, P, R> {
    fn drop(&mut self) {
        // ORDER: Release ends the visitor's use before the policy is freed.
        self.slot.visitors.fetch_sub(1, order::policy_leave());
    }
}
