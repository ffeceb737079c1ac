//! Objects, by their owners and by reference.

use std::any::{TypeId, type_name};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::gate::Object;
use crate::table;

/// The owner of an object: the object lives until this is dropped, and nobody is in it any more.
///
/// ```
/// use chanter_objects::prelude::*;
///
/// struct Count(u64);
///
/// #[object]
/// impl Count {
///     #[method(mut)]
///     fn add(&mut self, more: u64) -> u64 {
///         self.0 += more;
///         self.0
///     }
/// }
///
/// # chanter::block_on(async {
/// let count = Owner::new(Count(3));
/// let by: Ref<Count> = count.by_ref();
/// assert_eq!(by.add(4).await, Ok(7));
/// drop(count);
/// assert_eq!(by.add(1).await, Err(Gone::Dropped));
/// # });
/// ```
pub struct Owner<T> {
    by: Ref<T>,
    /// It may be dropped with the last reference to it.
    _object: PhantomData<T>,
}

impl<T: Send + Sync + 'static> Owner<T> {
    /// An object. `Send` and `Sync`, since threads on any processor call its methods, and several may read at a time.
    pub fn new(object: T) -> Self {
        /// # Safety
        /// `at` comes from the box below, and is not used afterwards.
        unsafe fn end<T>(at: *mut ()) {
            // SAFETY: the caller's contract.
            drop(unsafe { Box::from_raw(at.cast::<T>()) });
        }
        let at = Box::into_raw(Box::new(object)).cast();
        let (slot, gate) = table::take();
        let generation = gate.open(Object { at, kind: TypeId::of::<T>(), end: end::<T> });
        Self { by: Ref { process: 0, slot, generation, _object: PhantomData }, _object: PhantomData }
    }
}

impl<T> Owner<T> {
    /// A reference to it, through which its methods are called.
    pub fn by_ref(&self) -> Ref<T> {
        self.by
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        if let Some(gate) = table::gate(self.by.slot) {
            end(self.by.slot, gate.close());
        }
    }
}

impl<T> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner of {:?}", self.by)
    }
}

/// Drops an object that nobody has any more, if there is one.
pub(crate) fn end(slot: u32, object: Option<Object>) {
    if let Some(object) = object {
        /// The place is free, even if the object's drop panics.
        struct Frees(u32);
        impl Drop for Frees {
            fn drop(&mut self) {
                table::give_back(self.0);
            }
        }
        let _frees = Frees(slot);
        // SAFETY: INV-LAST: it was taken out of its gate, once, when nobody was inside.
        unsafe { (object.end)(object.at) };
    }
}

/// A reference to an object: its name. It keeps nothing alive, may be copied and sent anywhere, and takes 12 bytes.
///
/// What comes from elsewhere is checked at each call: a name of nothing, or of an object of another type, is [`Gone::Dropped`](crate::Gone::Dropped).
pub struct Ref<T> {
    /// Of which process; there is only this one, so far.
    process: u32,
    slot: u32,
    generation: u32,
    _object: PhantomData<fn() -> T>,
}

impl<T: 'static> Ref<T> {
    /// Whether its object has an owner.
    pub fn is_alive(self) -> bool {
        table::gate(self.slot).is_some_and(|gate| gate.is_open(self.generation, TypeId::of::<T>()))
    }
}

impl<T> Ref<T> {
    pub(crate) fn slot(self) -> u32 {
        self.slot
    }

    pub(crate) fn generation(self) -> u32 {
        self.generation
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.process, self.slot, self.generation) == (other.process, other.slot, other.generation)
    }
}

impl<T> Eq for Ref<T> {}

impl<T> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.process, self.slot, self.generation).hash(state);
    }
}

impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} {}.{} of process {}>", type_name::<T>(), self.slot, self.generation, self.process)
    }
}

impl<T> Serialize for Ref<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.process, self.slot, self.generation).serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (process, slot, generation) = Deserialize::deserialize(deserializer)?;
        Ok(Self { process, slot, generation, _object: PhantomData })
    }
}
