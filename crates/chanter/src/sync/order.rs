//! The orderings that the loom models weaken.
//!
//! Each function names one side of an edge of a protocol. In a normal build it is a constant. Under `--cfg loom` a
//! model may run with one of them weakened, and must then fail. So we know that the ordering is needed, and that the
//! model would notice its absence. An ordering is `Relaxed` in the code where no model can notice it, because another
//! edge always covers it.

use super::atomic::Ordering;

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident = $order:ident;)*) => {
        $($(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name() -> Ordering {
            #[cfg(loom)]
            if let Some(weaker) = weakened::weaker(stringify!($name)) {
                return weaker;
            }
            Ordering::$order
        })*
    };
}

orders! {
    /// `Lock::lock`: sees what the last holder wrote.
    lock_acquire = Acquire;
    /// `Guard::drop`: publishes what the holder wrote.
    lock_release = Release;
    /// `Mark::enter`: the owner is announced before it looks at the thing.
    #[cfg(loom)]
    owner_light = SeqCst;
    /// The thing is taken away before the revoker looks at the owner's mark.
    #[cfg(loom)]
    owner_heavy = SeqCst;
    /// `Mark::enter`: publishes what came before the last `leave`, to a revoker that reads this store instead.
    owner_enter = Release;
    /// `Mark::leave`: publishes what the owner did.
    owner_leave = Release;
    /// `Mark::is_still_at`: sees what the owner did.
    owner_observe = Acquire;
    /// `Consent::give`: the thing that it is asked about is gone from its next look.
    consent_give = Acquire;
    /// `Consent::give`: publishes what the owner did.
    consent_given = Release;
    /// `Consent::ask`: sees what the owner did.
    consent_asked = Acquire;
    /// `Consent::while_parked`: publishes what the owner did.
    consent_parked = Release;
    /// `Consent::while_parked`: an asker that found it parked has taken the thing from its next look.
    consent_return = SeqCst;
    /// `Consent::ask`: the thing is gone before the look whether its owner is parked.
    consent_find = SeqCst;
    /// `Consent::ask`: sees what the parked owner did.
    consent_found = Acquire;
    /// `Owner::enter`: sees what was done with the processor before.
    processor_enter = Acquire;
    /// `Ownership::pass`: publishes it to the new holder.
    processor_pass = Release;
    /// `Group::publish`: the result is complete before the owner looks.
    group_publish = Release;
    /// `Group::outcome`: sees the result that `publish` published.
    group_observe = Acquire;
    /// `Group::unclaim`: the waiter that `renew` left is there.
    group_unclaim = Release;
    /// `Group::take`: sees the waiter that `renew` left.
    group_take = Acquire;
    /// `OfferList::unlink`: the partner is done with the links.
    offer_unlink = Release;
    /// `Offer::is_linked`: the owner may free the offer.
    offer_observe = Acquire;
    /// `Nack::enable`: what the loser's waiters will see.
    nack_enable = Release;
    /// `Nack::is_enabled`: sees what came before the loss.
    nack_observe = Acquire;
    /// `GatherLatch::claim`: the last sees the owner's offer.
    count_claim = Acquire;
    /// `GatherLatch::prepare`: the owner's offer is there.
    count_prepare = Release;
    /// `Offer::end_with_share`: the member's result is complete.
    count_end = Release;
    /// `Offer::has_ended`: sees that result.
    count_observe = Acquire;
    /// `Slot::pause`: the future and its waker are the owner's to drop.
    slot_pause = Release;
    /// `Slot::abort`: sees the future that `pause` left.
    slot_abort = Acquire;
    /// `Shared::leave`: an output is published; the last sees all of them.
    gather_leave = AcqRel;
    /// `Shared::give_up`: the one that frees sees every use end.
    gather_free = AcqRel;
    /// `Shared::fail`: the panic is there.
    gather_fail = Release;
    /// `Shared::is_over`: sees the outputs, or the panic.
    gather_observe = Acquire;
    /// `Permits::try_take`: sees what was done with the permits before.
    permit_take = Acquire;
    /// `Permits::give`: publishes what was done with the permits.
    permit_give = Release;
    /// `BiasedGate::leave_here`: publishes what was done inside.
    gate_leave = Release;
    /// `BiasedGate::look_at_mark`: sees what was done inside by the bias, for the next holder of the permits.
    gate_look = Acquire;
    /// `BiasedGate::give`: sees what was stored before a `try_shut` that failed.
    gate_left = Acquire;
    /// `Permits::touch`: publishes what was stored before it.
    permit_touch = AcqRel;
    /// `BiasedGate::bias`: the owner is set before the look for waiters.
    gate_bias = SeqCst;
    /// `BiasedGate::joined`: the waiter is in the queue before the look for a bias.
    gate_join = SeqCst;
    /// `Published::put`: the job is complete.
    exposed_put = Release;
    /// `Published::steal`: sees the job complete.
    exposed_steal = Acquire;
    /// `Shared::set`: the share is complete.
    share_set = Release;
    /// `Shared::is_set`: sees the share complete.
    share_is_set = Acquire;
    /// `LazyQueue::make`: the queue is whole.
    queue_publish = Release;
    /// `LazyQueue::get`: sees the queue whole.
    queue_observe = Acquire;
    /// `State::wake`: what was done before the wake is seen by the next poll.
    state_wake = AcqRel;
    /// `State::begin`: sees what was done before its stale token was revived, when it looks at once.
    state_found = Acquire;
    /// `State::begin`: sees the same where it looks again.
    state_revived = Acquire;
    /// `State::begin`: the stale token's reference is given up, and the last reference sees every other use end.
    state_stale = AcqRel;
    /// `State::begin`: sees what the wakers did.
    state_begin = Acquire;
    /// `State::end`: publishes the frame to its next runner.
    state_end = Release;
    /// `State::complete`: publishes the result, and sees every use end.
    state_complete = AcqRel;
    /// `State::release`: the last reference sees every other use end.
    state_release = AcqRel;
    /// `State::is_last`: sees every other use end, without a read-modify-write.
    state_last = Acquire;
    /// `State::is_private`: sees the end of the uses by threads that have given their references up.
    state_private = Acquire;
    /// `State::steal_with_token`: sees the end of those uses too.
    state_withdraw = Acquire;
    /// `State::is_complete`, `await_completion`: sees the result.
    state_observe = Acquire;
    /// `Stack::push`: the node, for example a dead frame, is complete.
    frame_return = Release;
    /// `Stack::take_all` and `close`: see the nodes whole.
    frame_take = Acquire;
    /// `Missing`: the last frame to come home sees every use of the slabs end.
    frame_missing = AcqRel;
    /// `Sleeper`: the flag is set before the queues are looked at again.
    sleep_fence = SeqCst;
    /// `Sleeper`: the work is published before the flag is read.
    wake_fence = SeqCst;
    /// `Slot::visit`: the visitor is counted before it looks for the policy.
    policy_visit = SeqCst;
    /// `Slot::replace`: the policy is replaced before visitors are looked for.
    policy_retire = SeqCst;
    /// `Slot::replace`: the new policy is whole.
    policy_publish = Release;
    /// `Slot::visit`: sees the policy whole.
    policy_observe = Acquire;
    /// `Visit::drop`: the visitor's use of the policy ends.
    policy_leave = Release;
    /// `Slot::reclaim`: sees every visitor's use end.
    policy_gone = Acquire;
    /// `Sleeper::vacate`: the driver's fields are its successor's.
    driver_leave = Release;
    /// `Sleeper::occupy` and `wake`: the successor sees the driver's fields.
    driver_enter = Acquire;
}

#[cfg(loom)]
pub(crate) mod weakened {
    #[cfg(test)]
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use super::Ordering;

    static NOW: Mutex<Option<(&'static str, Ordering)>> = Mutex::new(None);

    #[cfg(test)]
    fn set(now: Option<(&'static str, Ordering)>) {
        *NOW.lock().unwrap_or_else(|e| e.into_inner()) = now;
    }

    /// The ordering that the ordering `name` is weakened to, if it is.
    pub(crate) fn weaker(name: &str) -> Option<Ordering> {
        let now = *NOW.lock().unwrap_or_else(|e| e.into_inner());
        now.filter(|(weak, _)| *weak == name).map(|(_, order)| order)
    }

    /// Runs `model` with the ordering `name` weakened to `order`, and returns
    /// how the model noticed. One at a time: `--test-threads=1`.
    #[cfg(test)]
    pub(crate) fn noticed(name: &'static str, order: Ordering, model: impl FnOnce()) -> Option<String> {
        set(Some((name, order)));
        let outcome = catch_unwind(AssertUnwindSafe(model));
        set(None);
        let panic = outcome.err()?;
        let message = panic.downcast_ref::<String>().cloned();
        Some(message.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
    }
}
