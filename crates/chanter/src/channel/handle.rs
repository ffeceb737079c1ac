//! The shares of a channel that handles and events have.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::core::Core;
use super::state::End;
use crate::event::WakeList;
use crate::frame::report::{Held, Probe};

/// A sender's or receiver's share of its channel.
pub(super) struct Handle<T, const END: bool> {
    core: NonNull<Core<T>>,
}

/// Values of `END` of a [`Handle`]. It is a const parameter, so that handles are small.
pub(super) const TX: bool = true;
pub(super) const RX: bool = false;

/// A handle's share, taken over by an event. The event gives it up in one of its critical sections, or leaves it to
/// its partner. There is no destructor.
pub struct Owned<T> {
    core: NonNull<Core<T>>,
}

/// A handle's share, used by an event that borrows the handle. Nothing is given up.
///
/// If the event is leaked, the handle may be dropped before it. But then no thread touches the event's side of the
/// channel again, and the memory of the pinned event stays.
pub struct Borrowed<'a, T> {
    core: NonNull<Core<T>>,
    handle: PhantomData<&'a ()>,
}

/// As [`Borrowed`], for an offer that outlives its owner. It adds a share when it begins to wait, and leaves that share
/// to its partner.
pub(super) struct Detached;

/// The way in which an event refers to its channel.
pub trait Shared {
    /// Whether the event has a share of its own, and gives it up.
    const OWNED: bool;
    /// Whether the event adds a share when it begins to wait.
    const ADDS: bool = false;
}

/// The share of an event of a channel of `T`.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub trait Share<T>: Shared {
    #[doc(hidden)]
    fn core_ptr(&self) -> NonNull<Core<T>>;
}

impl<T> Shared for Owned<T> {
    const OWNED: bool = true;
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl<T> Share<T> for Owned<T> {
    #[inline(always)]
    fn core_ptr(&self) -> NonNull<Core<T>> {
        self.core
    }
}

impl<T> Shared for Borrowed<'_, T> {
    const OWNED: bool = false;
}

#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
impl<T> Share<T> for Borrowed<'_, T> {
    #[inline(always)]
    fn core_ptr(&self) -> NonNull<Core<T>> {
        self.core
    }
}

impl Shared for Detached {
    const OWNED: bool = false;
    const ADDS: bool = true;
}

/// Makes a channel's first two handles.
// Inlined, so that handles are made where they stay: a copy would wait for the stores.
#[inline(always)]
pub(super) fn pair<T>(capacity: u32) -> (Handle<T, TX>, Handle<T, RX>) {
    let core = Core::boxed(capacity);
    (Handle { core }, Handle { core })
}

impl<T, const END: bool> Handle<T, END> {
    const SIDE: End = if END == TX { End::Tx } else { End::Rx };

    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        // SAFETY: the handle's share keeps the channel alive.
        unsafe { self.core.as_ref() }
    }

    #[inline(always)]
    pub(super) fn core_ptr(&self) -> NonNull<Core<T>> {
        self.core
    }

    /// The channel for a report, while the handle exists.
    #[cold]
    pub(super) fn probe(&self) -> Probe {
        probe(self.core)
    }

    /// The handle for a report.
    #[cold]
    pub(super) fn held(&self) -> Held {
        Held { channel: self.core.as_ptr() as usize, sends: END == TX }
    }

    /// Returns the handle's share, for an event that borrows the handle.
    #[inline(always)]
    pub(super) fn borrow(&self) -> Borrowed<'_, T> {
        Borrowed { core: self.core, handle: PhantomData }
    }

    /// Passes the handle's share on, to an event that owns it.
    #[inline(always)]
    pub(super) fn into_share(self) -> Owned<T> {
        Owned { core: ManuallyDrop::new(self).core }
    }
}

impl<T, const END: bool> Clone for Handle<T, END> {
    fn clone(&self) -> Self {
        self.core().lock().side(Self::SIDE).add();
        Self { core: self.core }
    }
}

impl<T, const END: bool> Drop for Handle<T, END> {
    fn drop(&mut self) {
        // SAFETY: the handle ends here, and does not use the channel afterwards.
        unsafe { Core::drop_handle(self.core, Self::SIDE) };
    }
}

/// A channel for a report. The caller of each function knows that the channel is alive.
#[cold]
pub(super) fn probe<T>(core: NonNull<Core<T>>) -> Probe {
    // SAFETY: the caller of each function knows that the channel is alive: it has a share itself, or a thread that
    // waits there has one.
    unsafe {
        Probe {
            channel: core.cast(),
            shares: |channel| channel.cast::<Core<T>>().as_ref().shares(),
            census: |channel, offers| channel.cast::<Core<T>>().as_ref().census(offers),
            retain: |channel| {
                let mut state = channel.cast::<Core<T>>().as_ref().lock();
                state.side(End::Tx).add();
                state.side(End::Rx).add();
            },
            release: |channel| {
                let mut wakes = WakeList::new();
                let core = channel.cast::<Core<T>>();
                Core::part::<Owned<T>>(core, End::Tx, false, &mut wakes);
                Core::part::<Owned<T>>(core, End::Rx, false, &mut wakes);
                wakes.queue();
            },
        }
    }
}
