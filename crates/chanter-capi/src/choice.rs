//! Choices over arrays of cases.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use chanter::{BoxEvent, Event, always, at, choose, never};

use crate::channel::{Channel, Destroy, channel_of, destroy};
use crate::config::{Sized0, read};
use crate::current;
use crate::descriptor::watch;
use crate::door::{Done, Limit, attempt, check, door, may_block, once, store};
use crate::event::{Happening, event_of};
use crate::handle::Held;
use crate::thread::{Ends, is_self, take, thread_of};

/// The most cases of one choice.
const MOST: usize = 4096;

/// `chanter_case`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CCase {
    /// See `chanter.h`.
    pub size: usize,
    /// See `chanter.h`.
    pub kind: c_int,
    /// See `chanter.h`.
    pub status: c_int,
    /// See `chanter.h`.
    pub handle: u64,
    /// See `chanter.h`.
    pub value: u64,
    /// See `chanter.h`.
    pub nack: u64,
    /// See `chanter.h`.
    pub lost: Option<unsafe extern "C" fn(*mut c_void)>,
    /// See `chanter.h`.
    pub data: *mut c_void,
}

/// The index of the case that was chosen, and the result of its operation.
pub(crate) type Chosen = (usize, Done<u64>);

/// The cases of the caller's, which may have another size than ours.
#[derive(Clone, Copy)]
pub(crate) struct Cases {
    first: *mut CCase,
    count: usize,
    stride: usize,
}

impl Cases {
    /// # Safety
    /// There are `count` cases, each as long as the first one's size says, and they may be written until the choice has
    /// ended.
    pub(crate) unsafe fn new(first: *mut CCase, count: usize) -> Done<Self> {
        if count > MOST {
            return Err(libc::EINVAL);
        }
        if count == 0 {
            return Ok(Self { first, count, stride: 0 });
        }
        check(first)?;
        // SAFETY: a case begins with its size.
        let stride = unsafe { (*first).size };
        if stride < CCase::FIRST || stride % align_of::<CCase>() != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Self { first, count, stride })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn at(&self, index: usize) -> *mut CCase {
        self.first.wrapping_byte_add(index * self.stride)
    }

    fn read(&self, index: usize) -> Done<CCase> {
        // SAFETY: the case lies within the caller's array, and is as long as its size says.
        let case = unsafe { read(self.at(index)) }?;
        if case.size == self.stride { Ok(case) } else { Err(libc::EINVAL) }
    }

    /// Tells the caller how the choice has ended.
    pub(crate) fn tell(&self, chosen: Option<Chosen>) {
        for index in 0..self.count {
            // SAFETY: the case lies within the caller's array, which may be written.
            unsafe { (*self.at(index)).status = libc::EAGAIN };
        }
        let Some((index, result)) = chosen else { return };
        let case = self.at(index);
        // SAFETY: the case lies within the caller's array, and the index is that of a case.
        unsafe {
            match result {
                Ok(value) => {
                    if !matches!((*case).kind, SEND | TIMER) {
                        (*case).value = value;
                    }
                    (*case).status = 0;
                }
                Err(code) => (*case).status = code,
            }
        }
    }
}

const NEVER: c_int = 0;
const RECV: c_int = 1;
const SEND: c_int = 2;
const EVENT: c_int = 3;
const JOIN: c_int = 4;
pub(crate) const TIMER: c_int = 5;
const READABLE: c_int = 6;
const WRITABLE: c_int = 7;

/// The parties to tell when a case is not chosen.
struct Loss {
    lost: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
    nack: Option<Held<Happening>>,
}

// SAFETY: the program lets the thread that chooses call `lost(data)`, wherever it runs.
unsafe impl Send for Loss {}

impl Loss {
    fn tell(self) {
        if let Some(nack) = &self.nack {
            // The event may have happened before.
            let _ = nack.value.put(1);
        }
        if let Some(lost) = self.lost {
            // SAFETY: the program has given the function with its data.
            current::callback(|| unsafe { lost(self.data) });
        }
    }
}

/// A value to be sent, which is the caller's again if it is not. It owns its memory, and claims it only when the events
/// are gone.
struct Slot {
    place: NonNull<Option<u64>>,
    destroy: Option<Destroy>,
}

impl Slot {
    fn new(value: u64, destroy: Option<Destroy>) -> Self {
        let place = Box::into_raw(Box::new(Some(value)));
        // SAFETY: a box is not null.
        Self { place: unsafe { NonNull::new_unchecked(place) }, destroy }
    }

    fn take(&mut self) -> Option<u64> {
        // SAFETY: the memory is ours, and the event that has borrowed it is gone.
        unsafe { self.place.as_mut() }.take()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: the memory came from a box, and the event that has borrowed it is gone.
        drop(unsafe { Box::from_raw(self.place.as_ptr()) });
    }
}

/// The events of a choice, and what they borrow. The events have to be dropped first.
#[derive(Default)]
pub(crate) struct Built {
    events: Vec<BoxEvent<'static, Chosen>>,
    pub(crate) lent: Lent,
}

/// The values that events send, and the channels that they use.
#[derive(Default)]
pub(crate) struct Lent {
    slots: Vec<Slot>,
    channels: Vec<Held<Channel>>,
}

// SAFETY: the slots are used by the events, or after them by the one owner.
unsafe impl Send for Lent {}

impl Lent {
    /// Keeps a channel for an event.
    ///
    /// # Safety
    /// The reference is not used when this has been dropped.
    pub(crate) unsafe fn keep(&mut self, channel: Held<Channel>) -> &'static Channel {
        let object: *const Channel = &raw const *channel;
        push_first(&mut self.channels, channel);
        // SAFETY: the object lives while there is the reference that was pushed.
        unsafe { &*object }
    }

    /// Leaves the values that were not sent to the caller. Returns whether one was sent. The events have been dropped.
    pub(crate) fn give_back(&mut self) -> bool {
        let mut was_sent = false;
        for mut slot in self.slots.drain(..) {
            match slot.take() {
                Some(_) => (),
                None => was_sent = true,
            }
        }
        was_sent
    }

    /// Destroys the values that were not sent, since their owner is gone. The events have been dropped.
    pub(crate) fn destroy(&mut self) {
        for mut slot in self.slots.drain(..) {
            if let Some(value) = slot.take() {
                destroy(slot.destroy, value);
            }
        }
    }
}

/// Pushes to a vector that has one element in most cases: the first push makes room for no more.
pub(crate) fn push_first<T>(all: &mut Vec<T>, one: T) {
    if all.is_empty() {
        all.reserve_exact(1);
    }
    all.push(one);
}

impl Built {
    /// Makes the events of the cases. Nothing has begun, so nothing is told if a case is wrong.
    pub(crate) fn new(cases: &Cases) -> Done<Self> {
        let mut built = Self::default();
        for index in 0..cases.count() {
            if let Err(code) = cases.read(index).and_then(|case| built.add(index, &case)) {
                built.abandon();
                return Err(code);
            }
        }
        Ok(built)
    }

    /// Gives the values back before anything has begun.
    fn abandon(mut self) {
        self.events.clear();
        self.lent.give_back();
    }

    fn add(&mut self, index: usize, case: &CCase) -> Done {
        let nack = if case.nack == 0 { None } else { Some(event_of(case.nack)?) };
        let event = self.event(index, case)?;
        let event = if nack.is_some() || case.lost.is_some() {
            let loss = Loss { lost: case.lost, data: case.data, nack };
            event.on_abort(move || loss.tell()).boxed()
        } else {
            event
        };
        self.events.push(event);
        Ok(())
    }

    fn event(&mut self, index: usize, case: &CCase) -> Done<BoxEvent<'static, Chosen>> {
        Ok(match case.kind {
            NEVER => never().boxed(),
            RECV => {
                // SAFETY: the event is dropped before `lent`.
                let channel = unsafe { self.lent.keep(channel_of(case.handle)?) };
                let received = move |result: Result<u64, _>| (index, result.map_err(|_| libc::EPIPE));
                channel.receiver.recv().wrap(received).boxed()
            }
            SEND => self.send(index, case)?,
            EVENT => event_of(case.handle)?.value.get().wrap(move |value| (index, Ok(value))).boxed(),
            JOIN => {
                let (handle, held) = (case.handle, thread_of(case.handle)?);
                if is_self(handle) {
                    return Err(libc::EDEADLK);
                }
                match held.done() {
                    Some(Ends::Told(told)) => told.wrap(move |()| (index, take(handle))).boxed(),
                    Some(Ends::Fiber(fiber)) => {
                        let told = move |_| {
                            // A fiber that never ran may tell its end a moment later.
                            let told = held.told();
                            async move {
                                if let Some(told) = told {
                                    told.await;
                                }
                                (index, take(handle))
                            }
                        };
                        fiber.then(told).boxed()
                    }
                    None => always(()).wrap(move |()| (index, take(handle))).boxed(),
                }
            }
            TIMER => match Limit::of(case.value) {
                Limit::Now => always((index, Ok(0))).boxed(),
                Limit::At(time) => at(time).wrap(move |()| (index, Ok(0))).boxed(),
                Limit::Forever => never().boxed(),
            },
            READABLE | WRITABLE => match watch(case.handle)? {
                None => always((index, Ok(0))).boxed(),
                Some(watched) => {
                    let ready = watched.ready(case.kind == WRITABLE);
                    let told = move |result: std::io::Result<()>| {
                        drop(watched);
                        (index, result.map(|()| 0).map_err(|_| libc::EIO))
                    };
                    ready.wrap(told).boxed()
                }
            },
            _ => return Err(libc::EINVAL),
        })
    }

    fn send(&mut self, index: usize, case: &CCase) -> Done<BoxEvent<'static, Chosen>> {
        let channel = channel_of(case.handle)?;
        let mut slot = Slot::new(case.value, channel.destroy);
        // SAFETY: the memory and the channel stay in `lent` until the events were dropped, and are not claimed before.
        let (place, from): (&'static mut Option<u64>, _) =
            unsafe { (slot.place.as_mut(), self.lent.keep(channel)) };
        push_first(&mut self.lent.slots, slot);
        let sent = move |result: Result<(), _>| (index, result.map(|()| 0).map_err(|_| libc::EPIPE));
        Ok(from.sender.send_from(place).wrap(sent).boxed())
    }

    /// The choice as one event, and what it borrows.
    pub(crate) fn into_parts(self) -> (impl Event<Output = Chosen> + Send + use<>, Lent) {
        (choose(self.events), self.lent)
    }
}

/// Waits for one of several cases. See `chanter.h`.
///
/// # Safety
/// There are `count` cases, each as long as the first one's size says, and they may be written. `chosen` may be written,
/// or is null for one case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_choose(
    cases: *mut CCase,
    count: usize,
    deadline: u64,
    chosen: *mut usize,
) -> c_int {
    door(|| {
        // SAFETY: the caller keeps the contract.
        let cases = unsafe { Cases::new(cases, count) }?;
        if count != 1 {
            check(chosen)?;
        }
        let limit = Limit::of(deadline);
        if limit != Limit::Now {
            may_block()?;
        }
        // The values are claimed after the events, also if the thread is cancelled.
        let (event, mut lent) = Built::new(&cases)?.into_parts();
        let choice = attempt(|| match limit {
            Limit::Now => once(event),
            Limit::At(time) => event.by(time).sync_blocking(),
            Limit::Forever => Some(event.sync_blocking()),
        });
        let result = choice.unwrap_or_else(|unwound| {
            if unwound.leaves() {
                lent.destroy();
            }
            unwound.resume()
        });
        lent.give_back();
        cases.tell(result);
        let (index, _) = result.ok_or(libc::ETIMEDOUT)?;
        // SAFETY: the caller keeps the contract.
        if chosen.is_null() { Ok(()) } else { unsafe { store(chosen, index) } }
    })
}
