//! `Ref`: the name of an object.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Object;
use crate::place::Place;
use crate::slot::{self, Slot};

/// The name of an object, through which any thread can call the object's methods.
///
/// A `Ref` is an address and a generation: 16 bytes, and so is an `Option<Ref>`. It is `Copy`, and keeps nothing
/// alive: a call on an object that has ended gives [`ObjectError`](crate::ObjectError). As data (`serde`) it is the
/// numbers of a process, a slot and a generation. Numbers that name no object of type `T` when they are read give a
/// reference that never names one.
///
/// (Concert, section 2: objects in a global name space.)
pub struct Ref<T> {
    /// The slot's address; or, with [`REMOTE`](slot::REMOTE), a process and the number of its slot.
    place: NonNull<Slot>,
    pub(crate) generation: u32,
    of: PhantomData<fn(T) -> T>,
}

/// The number of this process.
#[cfg(not(feature = "cluster"))]
fn name_of_here() -> u32 {
    0
}

/// The place of a slot of another process; `None` for this process.
#[cfg(not(feature = "cluster"))]
fn place_of(process: u32, slot: u32) -> Option<Place> {
    (process != 0).then_some(Place { context: 0, process, slot })
}

#[cfg(feature = "cluster")]
use crate::remote::{name_of_here, place_of};

// SAFETY: a slot is there for all threads. Calls check on which thread a `T` may be used.
unsafe impl<T> Send for Ref<T> {}
// SAFETY: slots are shared by all threads, and a `Ref` is never changed through a shared reference. Calls check where
// a `T` may be used.
unsafe impl<T> Sync for Ref<T> {}

impl<T> Clone for Ref<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl<T> Eq for Ref<T> {}

impl<T> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words().hash(state);
    }
}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name(process, slot, generation) = self.name();
        write!(f, "Ref({process}.{slot}.{generation})")
    }
}

/// A reference as data.
#[derive(Serialize, Deserialize)]
struct Name(u32, u32, u32);

impl<T> Ref<T> {
    pub(crate) fn new(slot: &'static Slot, generation: u32) -> Self {
        Self::of_parts(NonNull::from(slot), generation)
    }

    fn words(&self) -> (NonNull<Slot>, u32) {
        (self.place, self.generation)
    }

    fn name(&self) -> Name {
        match self.slot() {
            Some(slot) => Name(name_of_here(), slot::number_of(slot), self.generation),
            None => {
                let Place { process, slot, .. } = Place::of(self.place.addr().get());
                Name(process, slot, self.generation)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> Option<&'static Slot> {
        slot::at(self.place.as_ptr())
    }

    /// The slot and generation of an object that was made in this process.
    #[cfg(feature = "cluster")]
    pub(crate) fn local(&self) -> Option<(&'static Slot, u32)> {
        Some((self.slot()?, self.generation))
    }

    /// The object of that name in another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_away(place: Place, generation: u32) -> Option<Self> {
        Some(Self::of_parts(place.word()?, generation))
    }

    /// The place and generation of an object of another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn away(&self) -> Option<(Place, u32)> {
        self.slot().is_none().then(|| (Place::of(self.place.addr().get()), self.generation))
    }

    #[inline(always)]
    pub(crate) fn of_parts(place: NonNull<Slot>, generation: u32) -> Self {
        Self { place, generation, of: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn parts(self) -> (NonNull<Slot>, u32) {
        (self.place, self.generation)
    }
}

impl<T: Object> Deref for Ref<T> {
    type Target = T::Methods;

    #[inline(always)]
    fn deref(&self) -> &T::Methods {
        // SAFETY: transparent: `Object`'s contract.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

impl<T> Serialize for Ref<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl<'de, T: 'static> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Name(process, number, generation) = Name::deserialize(deserializer)?;
        if let Some(place) = place_of(process, number) {
            let word = place.word().ok_or_else(|| serde::de::Error::custom("no process has this number"))?;
            return Ok(Self::of_parts(word, generation));
        }
        let slot = slot::by_number(number)
            .ok_or_else(|| serde::de::Error::custom("this process has never had as many objects"))?;
        // Only the object that is here now may be called by this name. A later one never can.
        let generation = if slot.is_of::<T>(generation) { generation } else { slot::NEVER };
        Ok(Self::new(slot, generation))
    }
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a reference has room for a process and a slot in an address of 64 bits");
