//! Atomics that count (`--cfg op_count`). They count the read-modify-writes and fences of the library, and find the
//! words that more than one OS thread writes. `chanter-bench scale` reads the counts.
//!
//! A word is *shared* from its second writer on. It is named by the place in the source of the last write that
//! followed another OS thread's. Memory that was freed and is used again counts as the word that it was. Operations
//! that the library does by other means (`Arc`, the system) are not counted.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::sync::atomic::{self as real, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts since the last [`take`].
#[derive(Clone, Debug, Default)]
pub struct OpCounts {
    /// Read-modify-writes, including those that failed.
    pub read_modify_writes: u64,
    /// Read-modify-writes of words that more than one OS thread has written.
    pub shared: u64,
    /// Sequentially consistent fences.
    pub fences: u64,
    /// The places that wrote a word that another OS thread had written last, and how often.
    pub words: BTreeMap<String, u64>,
}

struct Word {
    writer: u32,
    /// Whether more than one OS thread has written the word.
    is_shared: bool,
}

type Places = HashMap<&'static Location<'static>, u64>;

/// Number of tables of words, each behind its own mutex.
const SHARDS: usize = 64;
static WORDS: [Mutex<Option<HashMap<usize, Word>>>; SHARDS] = [const { Mutex::new(None) }; SHARDS];
static PLACES: Mutex<Option<Places>> = Mutex::new(None);
static READ_MODIFY_WRITES: real::AtomicU64 = real::AtomicU64::new(0);
static SHARED: real::AtomicU64 = real::AtomicU64::new(0);
static FENCES: real::AtomicU64 = real::AtomicU64::new(0);

thread_local! {
    static ME: Cell<u32> = const { Cell::new(0) };
}

fn me() -> u32 {
    static NEXT: real::AtomicU32 = real::AtomicU32::new(1);
    ME.with(|me| {
        if me.get() == 0 {
            me.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        me.get()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[track_caller]
fn wrote(address: usize, is_read_modify_write: bool) {
    let me = me();
    let (is_shared, was_others) = {
        let mut words = lock(&WORDS[address / 8 % SHARDS]);
        let words = words.get_or_insert_default();
        let word = words.entry(address).or_insert(Word { writer: me, is_shared: false });
        let was_others = std::mem::replace(&mut word.writer, me) != me;
        word.is_shared |= was_others;
        (word.is_shared, was_others)
    };
    if is_read_modify_write {
        READ_MODIFY_WRITES.fetch_add(1, Ordering::Relaxed);
        SHARED.fetch_add(u64::from(is_shared), Ordering::Relaxed);
    }
    if was_others {
        *lock(&PLACES).get_or_insert_default().entry(Location::caller()).or_insert(0) += 1;
    }
}

/// Returns the counts so far, and begins anew.
pub fn take() -> OpCounts {
    for words in &WORDS {
        *lock(words) = None;
    }
    let places = lock(&PLACES).take().unwrap_or_default();
    let name = |place: &Location<'_>| {
        let file = place.file();
        let file = file.rsplit_once("src/").map_or(file, |(_, file)| file);
        format!("{file}:{}", place.line())
    };
    OpCounts {
        read_modify_writes: READ_MODIFY_WRITES.swap(0, Ordering::Relaxed),
        shared: SHARED.swap(0, Ordering::Relaxed),
        fences: FENCES.swap(0, Ordering::Relaxed),
        words: places.iter().map(|(place, count)| (name(place), *count)).collect(),
    }
}

/// A fence, counted if it is sequentially consistent.
pub(crate) fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        FENCES.fetch_add(1, Ordering::Relaxed);
    }
    real::fence(order);
}

macro_rules! tallied {
    ($name:ident$(<$type:ident>)?, $value:ty $(, $change:ident)*) => {
        /// The atomic of `std`, counted.
        #[repr(transparent)]
        #[derive(Debug)]
        pub(crate) struct $name$(<$type>)?(real::$name$(<$type>)?);

        #[allow(dead_code, reason = "the interface of `std`'s")]
        impl$(<$type>)? $name$(<$type>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(real::$name::new(value))
            }

            fn address(&self) -> usize {
                std::ptr::from_ref(self).addr()
            }

            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub(crate) fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                wrote(self.address(), false);
                self.0.store(value, order);
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                wrote(self.address(), true);
                self.0.swap(value, order)
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                wrote(self.address(), true);
                self.0.compare_exchange(old, new, order, failed)
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                wrote(self.address(), true);
                self.0.compare_exchange_weak(old, new, order, failed)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                order: Ordering,
                failed: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                wrote(self.address(), true);
                self.0.fetch_update(order, failed, change)
            }

            $(
                #[track_caller]
                pub(crate) fn $change(&self, value: $value, order: Ordering) -> $value {
                    wrote(self.address(), true);
                    self.0.$change(value, order)
                }
            )*
        }
    };
}

/// The names of `std::sync::atomic`, counted.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::Ordering;

    pub(crate) use super::fence;
    use super::{real, wrote};

    macro_rules! number {
        ($name:ident, $value:ty) => {
            tallied!(
                $name, $value, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min
            );

            impl Default for $name {
                fn default() -> Self {
                    Self::new(0)
                }
            }
        };
    }
    number!(AtomicU8, u8);
    number!(AtomicU16, u16);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
    number!(AtomicUsize, usize);
    number!(AtomicI32, i32);
    number!(AtomicIsize, isize);
    tallied!(AtomicBool, bool, fetch_and, fetch_or, fetch_xor);
    tallied!(AtomicPtr<T>, *mut T);

    impl Default for AtomicBool {
        fn default() -> Self {
            Self::new(false)
        }
    }
}
