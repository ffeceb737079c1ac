//! What the protocol stands on: atomics, the bytes of a slot, the orderings that models weaken, and the points at
//! which tests end a process.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64};
pub(super) use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

/// The bytes of a slot, which one process writes and another one reads, one after the other if both keep to the protocol.
#[cfg(not(loom))]
#[repr(C, align(8))]
pub(super) struct Bytes(std::cell::UnsafeCell<[u8; Bytes::LENGTH]>);

#[cfg(not(loom))]
impl Bytes {
    /// A message of 4 KiB with its header fits, and a slot is a whole number of cache lines.
    pub(super) const LENGTH: usize = 4096 + 128 - 24;

    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn new() -> Self {
        Self(std::cell::UnsafeCell::new([0; Self::LENGTH]))
    }

    /// Of so many it is worth saying that they are read soon: whoever reads more is ahead of itself.
    const SOON: usize = 2048;
    /// So many lie on the first cache line of a slot.
    const FIRST: usize = 64 - 24;

    /// What is not on the first cache line. At most [`LENGTH`](Self::LENGTH) bytes are taken.
    pub(super) fn write_rest(&self, bytes: &[u8]) {
        let length = bytes.len().min(Self::LENGTH);
        if length > Self::FIRST {
            // SAFETY: in bounds. The slot is free, so its owner, who calls, is alone with it; and what a process does that does
            // not keep to that changes bytes, which may have any value.
            unsafe {
                let from = bytes.as_ptr().add(Self::FIRST);
                let to = self.0.get().cast::<u8>().add(Self::FIRST);
                std::ptr::copy_nonoverlapping(from, to, length - Self::FIRST);
            }
        }
    }

    /// What is on the first cache line.
    pub(super) fn write_first(&self, bytes: &[u8]) {
        let to = self.0.get().cast::<u8>();
        match bytes.first_chunk::<{ Self::FIRST }>() {
            // SAFETY: as above.
            Some(first) => unsafe { to.cast::<[u8; Self::FIRST]>().write(*first) },
            // SAFETY: as above.
            None => unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) },
        }
    }

    /// The cache lines of so many bytes, but for the first.
    fn lines(&self, length: usize) -> impl Iterator<Item = *const u8> {
        let from = self.0.get().cast::<u8>().cast_const();
        (Self::FIRST..length.min(Self::LENGTH)).step_by(64).map(move |at| from.wrapping_add(at))
    }

    /// Another processor reads so many bytes soon, and this one does not: a hint for processors that have one.
    #[inline]
    pub(super) fn give_away(&self, length: usize) {
        for line in self.lines(length) {
            cache::demote(line);
        }
    }

    /// This processor writes so many bytes soon: a hint.
    #[inline]
    pub(super) fn fetch(&self, length: usize) {
        for line in self.lines(length) {
            cache::fetch_to_write(line);
        }
    }

    /// This processor reads so many bytes soon: a hint.
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
        // SAFETY: in bounds, and there is room. The slot is published for the reader, who has not freed it: nobody writes it. A
        // process that does so all the same, or that takes back what it had sent to who leaves, changes bytes, which
        // may have any value; they are looked at only after they have been copied.
        unsafe {
            let (from, end) = (self.0.get().cast::<u8>(), to.as_mut_ptr().add(to.len()));
            if length > Self::FIRST {
                // The first cache line is here: whoever reads what was on it need not wait for the others.
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

// SAFETY: see `write` and `read`.
#[cfg(not(loom))]
unsafe impl Sync for Bytes {}

/// This processor reads what lies there soon: a hint.
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
                // SAFETY: a hint, which never faults, and is nothing at all where a processor does not know it.
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
        /// The line goes to a cache that processors share.
        demote = "cldemote";
        /// The line comes to this processor, to be read.
        fetch_to_read = "prefetcht0";
        /// The line comes to this processor, to be written.
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
        // SAFETY: loom checks.
        self.0.with_mut(|byte| unsafe { *byte = bytes[0] });
    }

    pub(super) fn write_rest(&self, _bytes: &[u8]) {}

    pub(super) fn give_away(&self, _length: usize) {}

    pub(super) fn fetch(&self, _length: usize) {}

    pub(super) fn fetch_to_read(&self, _length: usize) {}

    pub(super) fn read(&self, length: usize, to: &mut Vec<u8>) {
        // SAFETY: loom checks.
        to.extend((0..length).map(|_| self.0.with(|byte| unsafe { *byte })));
    }
}

// SAFETY: loom checks.
#[cfg(loom)]
unsafe impl Sync for Bytes {}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident = $order:ident;)*) => {
        /// The orderings of the protocol. A model may run with one of them weakened, and must then fail.
        pub(super) mod order {
            use super::Ordering;

            $($(#[$doc])*
            #[inline(always)]
            pub(in super::super) fn $name() -> Ordering {
                #[cfg(all(test, loom))]
                if let Some(weaker) = super::weakened::weaker(stringify!($name)) {
                    return weaker;
                }
                Ordering::$order
            })*
        }
    };
}

orders! {
    /// A slot is published with what it holds.
    pull_publish = Release;
    /// The same, of one that is watched: INV-NOTIFY.
    pull_publish_watched = SeqCst;
    /// Who takes it sees that.
    pull_take = Acquire;
    /// The tail's swap: INV-NOTIFY; and what was published before it is seen by who empties the tail.
    pull_swap = SeqCst;
    /// The tail is emptied after the slot that was there.
    pull_empty = AcqRel;
    /// The tail is emptied by a scan.
    pull_scan = AcqRel;
    /// A slot is free after it was read.
    pull_free = SeqCst;
    /// And is filled again after that.
    pull_reuse = SeqCst;
    /// INV-NOTIFY: the sleeper says so.
    notify_asleep = SeqCst;
    /// INV-NOTIFY: and looks.
    notify_look = SeqCst;
    /// INV-NOTIFY: the sender looks whether somebody sleeps.
    notify_find = SeqCst;
    /// INV-NOTIFY: a receiver says that there is room.
    room_given = SeqCst;
    /// INV-NOTIFY in models.
    #[cfg(loom)]
    notify_fence_of_sleeper = SeqCst;
    /// The same.
    #[cfg(loom)]
    notify_fence_of_sender = SeqCst;
}

/// Loom takes sequentially consistent accesses for acquiring and releasing ones, and knows fences only. So in models there
/// is one between the two accesses of each side of INV-NOTIFY; elsewhere the accesses do.
#[inline(always)]
pub(super) fn fence_of_sleeper() {
    #[cfg(loom)]
    loom::sync::atomic::fence(order::notify_fence_of_sleeper());
}

/// The other side's.
#[inline(always)]
pub(super) fn fence_of_sender() {
    #[cfg(loom)]
    loom::sync::atomic::fence(order::notify_fence_of_sender());
}

/// A point of the protocol, at which tests end a process. True: the modelled one ends here. A test's real process ends without a
/// word, if `CHANTER_CRASH` is `NAME` or `NAME:COUNT`: the count-th time that it comes by.
#[inline(always)]
pub(super) fn point(name: &'static str) -> bool {
    #[cfg(all(test, not(loom)))]
    crash::point(name);
    #[cfg(all(test, loom))]
    if ENDS_AT.with(|at| at.get() == Some(name)) {
        return true;
    }
    let _ = name;
    false
}

#[cfg(all(test, loom))]
loom::thread_local! {
    /// Where this modelled process ends.
    pub(super) static ENDS_AT: std::cell::Cell<Option<&'static str>> = std::cell::Cell::new(None);
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
            // SAFETY: it ends this process, at once.
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

    /// Whether `model` fails when that ordering is weakened. One at a time in a process.
    pub(in super::super) fn is_noticed(name: &'static str, order: Ordering, model: impl FnOnce()) -> bool {
        let set = |now| *NOW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
        set(Some((name, order)));
        let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(model)).is_err();
        set(None);
        noticed
    }
}
