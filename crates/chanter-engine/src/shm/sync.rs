//! The base of the protocol: atomics, the bytes of a slot, the orderings that models weaken, and the points at which
//! tests end a process.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64};
pub(super) use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

/// The bytes of a slot. One process writes them and another one reads them, in turn if both keep to the protocol.
#[cfg(not(loom))]
#[repr(C, align(8))]
pub(super) struct Bytes(std::cell::UnsafeCell<[u8; Bytes::LENGTH]>);

#[cfg(not(loom))]
impl Bytes {
    /// Size of the body of a slot, in bytes. A message of 4 KiB with its header fits, and a slot is a whole number of
    /// cache lines.
    pub(super) const LENGTH: usize = 4096 + 128 - 24;

    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn new() -> Self {
        Self(std::cell::UnsafeCell::new([0; Self::LENGTH]))
    }

    /// Number of bytes that are worth prefetching for a read. A longer read stays ahead by itself.
    const SOON: usize = 2048;
    /// Number of bytes that lie on the first cache line of a slot.
    const FIRST: usize = 64 - 24;

    /// Writes the part of `bytes` that is not on the first cache line. At most [`LENGTH`](Self::LENGTH) bytes are
    /// taken.
    pub(super) fn write_rest(&self, bytes: &[u8]) {
        let length = bytes.len().min(Self::LENGTH);
        if length > Self::FIRST {
            // SAFETY: both ranges are in bounds, as `length` is at most `LENGTH`. The slot is free, so its owner, the
            // caller, has it alone. A process that breaks this rule changes bytes, which may have any value.
            unsafe {
                let from = bytes.as_ptr().add(Self::FIRST);
                let to = self.0.get().cast::<u8>().add(Self::FIRST);
                std::ptr::copy_nonoverlapping(from, to, length - Self::FIRST);
            }
        }
    }

    /// Writes the part of `bytes` that is on the first cache line.
    pub(super) fn write_first(&self, bytes: &[u8]) {
        let to = self.0.get().cast::<u8>();
        match bytes.first_chunk::<{ Self::FIRST }>() {
            // SAFETY: `FIRST` is less than `LENGTH`, so the write is in bounds. The slot is free, so its owner, the
            // caller, has it alone. A process that breaks this rule changes bytes, which may have any value.
            Some(first) => unsafe { to.cast::<[u8; Self::FIRST]>().write(*first) },
            // SAFETY: `bytes` is shorter than `FIRST`, so both ranges are in bounds. The slot is free, so its owner,
            // the caller, has it alone. A process that breaks this rule changes bytes, which may have any value.
            None => unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) },
        }
    }

    /// The cache lines of the first `length` bytes, without the first line.
    fn lines(&self, length: usize) -> impl Iterator<Item = *const u8> {
        let from = self.0.get().cast::<u8>().cast_const();
        (Self::FIRST..length.min(Self::LENGTH)).step_by(64).map(move |at| from.wrapping_add(at))
    }

    /// Hints that another processor will read `length` bytes soon, and this one will not. Not all processors have
    /// such a hint.
    #[inline]
    pub(super) fn give_away(&self, length: usize) {
        for line in self.lines(length) {
            cache::demote(line);
        }
    }

    /// Hints that this processor will write `length` bytes soon.
    #[inline]
    pub(super) fn fetch(&self, length: usize) {
        for line in self.lines(length) {
            cache::fetch_to_write(line);
        }
    }

    /// Hints that this processor will read `length` bytes soon.
    #[inline]
    pub(super) fn fetch_to_read(&self, length: usize) {
        for line in self.lines(length.min(Self::SOON)) {
            cache::fetch_to_read(line);
        }
    }

    /// Appends the first `length` bytes, at most [`LENGTH`](Self::LENGTH).
    pub(super) fn read(&self, length: usize, to: &mut Vec<u8>) {
        let length = length.min(Self::LENGTH);
        to.reserve(length);
        // SAFETY: the source is in bounds, as `length` is at most `LENGTH`, and room was reserved. The slot is
        // published for the reader, who has not freed it, so no process writes it. A process that does so
        // nevertheless, or takes slots back from a leaving receiver, changes bytes; they may have any value. They are
        // looked at only after they were copied.
        unsafe {
            let (from, end) = (self.0.get().cast::<u8>(), to.as_mut_ptr().add(to.len()));
            if length > Self::FIRST {
                // The first cache line is here already, so its bytes can be read without waiting for the other lines.
                end.cast::<[u8; Self::FIRST]>().write(from.cast::<[u8; Self::FIRST]>().read());
                let rest = length - Self::FIRST;
                std::ptr::copy_nonoverlapping(from.add(Self::FIRST), end.add(Self::FIRST), rest);
            } else {
                std::ptr::copy_nonoverlapping(from, end, length);
            }
            to.set_len(to.len() + length);
        }
    }
}

// SAFETY: the protocol lets one process write a free slot, and one receiver read a published one, in turn. A process
// that breaks it changes bytes, which may have any value.
#[cfg(not(loom))]
unsafe impl Sync for Bytes {}

/// Hints that this processor will read `place` soon.
#[inline(always)]
pub(super) fn fetch_to_read<T>(place: *const T) {
    #[cfg(not(loom))]
    cache::fetch_to_read(place.cast());
    let _ = place;
}

/// Hints for the processor. They change no values.
#[cfg(not(loom))]
mod cache {
    macro_rules! hints {
        ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => {$(
            $(#[$doc])*
            #[inline(always)]
            pub(super) fn $name(line: *const u8) {
                // SAFETY: the instruction is a hint. It never faults at any address, changes no memory, and does
                // nothing on processors that do not know it.
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                unsafe {
                    std::arch::asm!(
                        concat!($instruction, " [{}]"),
                        in(reg) line,
                        options(nostack, preserves_flags)
                    );
                }
                let _ = line;
            }
        )*};
    }

    hints! {
        /// Moves the line to a cache that processors share.
        demote = "cldemote";
        /// Fetches the line to this processor for a read.
        fetch_to_read = "prefetcht0";
        /// Fetches the line to this processor for a write.
        fetch_to_write = "prefetchw";
    }
}

/// One byte, whose accesses loom watches.
#[cfg(loom)]
#[derive(Default)]
pub(super) struct Bytes(loom::cell::UnsafeCell<u8>);

#[cfg(loom)]
impl Bytes {
    pub(super) const LENGTH: usize = 1;

    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn write_first(&self, bytes: &[u8]) {
        // SAFETY: the byte lives as long as `self`. Loom fails the model if an access overlaps a write.
        self.0.with_mut(|byte| unsafe { *byte = bytes[0] });
    }

    pub(super) fn write_rest(&self, _bytes: &[u8]) {}

    pub(super) fn give_away(&self, _length: usize) {}

    pub(super) fn fetch(&self, _length: usize) {}

    pub(super) fn fetch_to_read(&self, _length: usize) {}

    pub(super) fn read(&self, length: usize, to: &mut Vec<u8>) {
        // SAFETY: the byte lives as long as `self`. Loom fails the model if an access overlaps a write.
        to.extend((0..length).map(|_| self.0.with(|byte| unsafe { *byte })));
    }
}

// SAFETY: loom fails the model if an access to the byte overlaps a write.
#[cfg(loom)]
unsafe impl Sync for Bytes {}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident = $order:ident;)*) => {
        /// The orderings of the protocol. A model may run with one of them weakened, and must then fail.
        pub(super) mod order {
            use crate::shm::sync::Ordering;

            $($(#[$doc])*
            #[inline(always)]
            pub(crate) fn $name() -> Ordering {
                #[cfg(all(test, loom))]
                if let Some(weaker) = crate::shm::sync::weakened::weaker(stringify!($name)) {
                    return weaker;
                }
                Ordering::$order
            })*
        }
    };
}

orders! {
    /// A slot is published with its content.
    pull_publish = Release;
    /// A watched slot is published with its content: INV-NOTIFY.
    pull_publish_watched = SeqCst;
    /// A receiver that takes a slot sees its content.
    pull_take = Acquire;
    /// The tail is swapped: INV-NOTIFY. A receiver that empties the tail sees pieces published before the swap.
    pull_swap = SeqCst;
    /// The tail is emptied after the slot that was there.
    pull_empty = AcqRel;
    /// The tail is emptied by a scan.
    pull_scan = AcqRel;
    /// A slot is free after it was read.
    pull_free = SeqCst;
    /// A slot is filled again after it was freed.
    pull_reuse = SeqCst;
    /// A sender finds a free slot of a receiver's, after it was read: INV-NOTIFY, for room.
    push_look = SeqCst;
    /// A free slot is claimed, after its sender has published the last one.
    push_claim = Release;
    /// A claimed slot is published with its content: INV-NOTIFY.
    push_publish = SeqCst;
    /// A receiver that takes a slot sees its content.
    push_take = Acquire;
    /// A slot is free after it was read: INV-NOTIFY, for room.
    push_free = SeqCst;
    /// INV-NOTIFY: the sleeper announces itself.
    notify_asleep = SeqCst;
    /// INV-NOTIFY: the sleeper looks for work.
    notify_look = SeqCst;
    /// INV-NOTIFY: the sender looks for a sleeper.
    notify_find = SeqCst;
    /// INV-NOTIFY: a receiver says that there is room.
    room_given = SeqCst;
    /// INV-NOTIFY in models: the sleeper's fence.
    #[cfg(loom)]
    notify_fence_of_sleeper = SeqCst;
    /// INV-NOTIFY in models: the sender's fence.
    #[cfg(loom)]
    notify_fence_of_sender = SeqCst;
}

/// The sleeper's fence in models. Loom treats sequentially consistent accesses as acquiring and releasing ones; it
/// knows only sequentially consistent fences. So models have a fence between the two accesses of each side of
/// INV-NOTIFY. Elsewhere the accesses suffice.
#[inline(always)]
pub(super) fn fence_of_sleeper() {
    #[cfg(loom)]
    loom::sync::atomic::fence(order::notify_fence_of_sleeper());
}

/// The sender's fence in models.
#[inline(always)]
pub(super) fn fence_of_sender() {
    #[cfg(loom)]
    loom::sync::atomic::fence(order::notify_fence_of_sender());
}

/// A point of the protocol at which tests end a process. True: the modelled process ends here. A test's real process
/// is killed if `CHANTER_CRASH` is `NAME` or `NAME:COUNT`, the COUNT-th time that it comes by.
#[inline(always)]
pub(super) fn point(name: &'static str) -> bool {
    #[cfg(all(test, not(loom)))]
    crash::point(name);
    #[cfg(all(test, loom))]
    {
        if YIELDS.with(|yields| yields.get()) {
            loom::thread::yield_now();
        }
        if ENDS_AT.with(|at| at.get() == Some(name)) {
            return true;
        }
    }
    let _ = name;
    false
}

#[cfg(all(test, loom))]
loom::thread_local! {
    /// Point at which this modelled process ends.
    pub(super) static ENDS_AT: std::cell::Cell<Option<&'static str>> = std::cell::Cell::new(None);
    /// Whether this modelled process lets others run at each point.
    pub(super) static YIELDS: std::cell::Cell<bool> = std::cell::Cell::new(false);
}

#[cfg(all(test, not(loom)))]
mod crash {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(super) fn point(name: &'static str) {
        static WHERE: OnceLock<Option<(String, u32)>> = OnceLock::new();
        static CAME: AtomicU32 = AtomicU32::new(0);
        let wanted = WHERE.get_or_init(|| {
            let said = std::env::var("CHANTER_CRASH").ok()?;
            let (name, count) = said.split_once(':').unwrap_or((&said, "1"));
            Some((name.to_owned(), count.parse().expect("a count")))
        });
        if let Some((wanted, count)) = wanted
            && wanted == name
            && CAME.fetch_add(1, Ordering::Relaxed) + 1 == *count
        {
            // This ends the process at once.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
        }
    }
}

#[cfg(all(test, loom))]
pub(super) mod weakened {
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    static NOW: Mutex<Option<(&'static str, Ordering)>> = Mutex::new(None);

    pub(super) fn weaker(name: &'static str) -> Option<Ordering> {
        let now = NOW.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        (*now).and_then(|(weakened, order)| (weakened == name).then_some(order))
    }

    /// Whether `model` fails when the ordering `name` is weakened to `order`. At most one call runs at a time in a
    /// process.
    pub(crate) fn is_noticed(name: &'static str, order: Ordering, model: impl FnOnce()) -> bool {
        let set = |now| *NOW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
        set(Some((name, order)));
        let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(model)).is_err();
        set(None);
        noticed
    }
}
