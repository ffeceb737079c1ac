//! Meeting: an operation looks for its partner among the waiters at the other end (INV-MATCH).

use std::ptr::NonNull;

use crate::event::protocol::Take;
use crate::event::{Offer, OfferList, Offered, Offering};
use crate::sync::spin;

/// The outcome of the search for a partner.
pub(super) enum Meet {
    /// The partner's offer has been won and unlinked, and our own is committed.
    Won(NonNull<Offer>),
    /// Like `Won`, and the caller also gives up the partner's share of the channel.
    WithShare(NonNull<Offer>),
    Nobody,
    /// Another offer of our own group committed meanwhile.
    Lost,
}

/// Looks for a partner in `list`, in order, for the group that `own` belongs to. If `own` is `None`, the search is on
/// behalf of an operation that has offered nothing yet.
///
/// # Safety
/// The caller holds the lock of `list`.
#[inline(always)]
pub(super) unsafe fn meet(list: &mut OfferList, own: Option<&Offering<'_>>) -> Meet {
    let Some(first) = list.front() else { return Meet::Nobody };
    // SAFETY: the lock of the list is held, as the caller promises. So `first` is alive and linked (INV-LIVE).
    unsafe {
        if own.is_none_or(|own| own.single) && first.as_ref().group().is_single() {
            list.unlink(first);
            return Meet::Won(first);
        }
        // Passed by value: a reference would force it into memory for every call.
        meet_others(list, first, own.copied())
    }
}

/// Like `meet`, for a first offer that is not single, or an offer of ours that is not.
///
/// # Safety
/// The caller holds the lock of `list`, and `first` is its first offer.
#[inline(never)]
unsafe fn meet_others(list: &mut OfferList, first: NonNull<Offer>, own: Option<Offering<'_>>) -> Meet {
    // SAFETY: the lock of the list is held, as the caller promises. So `first` is alive and linked (INV-LIVE).
    unsafe {
        let theirs = first.as_ref();
        if own.as_ref().is_none_or(|own| own.single)
            && theirs.group().leaves_its_share()
            && theirs.take() == Take::Won
        {
            list.unlink(first);
            return Meet::WithShare(first);
        }
        meet_choices(list, first, own)
    }
}

/// Like `meet`, where claims are needed.
///
/// # Safety
/// The caller holds the lock of `list`, and `first` is its first offer.
#[inline(never)]
unsafe fn meet_choices(list: &mut OfferList, first: NonNull<Offer>, own: Option<Offering<'_>>) -> Meet {
    let mut next = Some(first);
    let mut turn = 0;
    while let Some(offer) = next {
        // SAFETY: the lock of the list is held, and the offer is in it, so it is alive (INV-LIVE).
        let theirs = unsafe { offer.as_ref() };
        // SAFETY: the offer is linked in the list, whose lock is held.
        if own.is_some_and(|own| unsafe { own.is_own(theirs) }) {
            // SAFETY: the offer is linked in the list, whose lock is held.
            next = unsafe { list.after(offer) };
            continue;
        }
        if own.is_some_and(|own| !own.single && !own.claim()) {
            return Meet::Lost;
        }
        // SAFETY: the offer is linked in the list, whose lock is held.
        match unsafe { theirs.take() } {
            Take::Won => {
                // SAFETY: the offer is linked in the list, whose lock is held.
                unsafe { list.unlink(offer) };
                if let Some(own) = own {
                    own.commit();
                }
                // SAFETY: the offer is won, so its owner waits for the publication, and the group is alive.
                let leaves_its_share = unsafe { theirs.group() }.leaves_its_share();
                return if leaves_its_share { Meet::WithShare(offer) } else { Meet::Won(offer) };
            }
            lost => {
                if let Some(own) = own.filter(|own| !own.single) {
                    own.unclaim();
                }
                if lost == Take::Busy {
                    // The partner's owner tries to match another offer. With our own claim given up, one of the two
                    // makes progress.
                    spin(&mut turn);
                } else {
                    // SAFETY: the offer is linked in the list, whose lock is held.
                    unsafe {
                        next = list.after(offer);
                        list.unlink(offer);
                    }
                }
            }
        }
    }
    Meet::Nobody
}

/// Commits our own offer to something that needs no partner. Returns false if it has lost.
#[inline(always)]
pub(super) fn commit(own: Option<&Offering<'_>>) -> bool {
    own.is_none_or(|own| own.single || own.commit_alone() == Offered::Committed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use crate::channel::mailbox;
    use crate::event::{Event, choose};

    /// If lost offers stayed, each partner would look at all the choices that are not polled.
    #[test]
    fn lost_offers_are_looked_at_once() {
        let (a, from_a) = mailbox();
        let (b, from_b) = mailbox();
        let mut choices: Vec<_> =
            (0..100).map(|_| Box::pin(choose((from_a.recv(), from_b.recv())).sync())).collect();
        let mut cx = Context::from_waker(Waker::noop());
        choices.iter_mut().for_each(|choice| assert!(choice.as_mut().poll(&mut cx).is_pending()));
        (0..100).for_each(|number| a.try_send(number).expect("somebody waits"));
        assert!(!from_b.handle.core().lock().receivers.is_empty());
        b.try_send(100).expect("it is kept");
        assert!(from_b.handle.core().lock().receivers.is_empty());
        drop(choices);
        assert_eq!((from_a.try_recv(), from_b.try_recv()), (Ok(0), Ok(100)));
    }
}
