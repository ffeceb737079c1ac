//! `Ref`: the name of an object.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::call::{Call, Reads, Writes};
use crate::lazy::{Answers, Forward, Lazy, lazy_call};
use crate::may_block::{Alone, Shared, may_block};
use crate::slot::{self, REMOTE, Slot};
use crate::{Object, ObjectError};

/// The name of an object, through which any thread can call the object's methods.
///
/// A `Ref` is an address and a generation: 16 bytes, and so is an `Option<Ref>`. It is `Copy`, and keeps nothing
/// alive: a call on an object that has ended gives [`ObjectError`]. As data (`serde`) it is the numbers of a process,
/// a slot and a generation. Numbers that name no object of type `T` when they are read give a reference that never
/// names one.
///
/// (Concert, section 2: objects in a global name space.)
pub struct Ref<T> {
    /// The slot's address; or, with [`REMOTE`], a process and the number of its slot.
    place: NonNull<Slot>,
    pub(crate) generation: u32,
    of: PhantomData<fn(T) -> T>,
}

/// The place of an object in another process. In the word of a reference it takes 11 bits for the context from which
/// it is seen, 20 for its process, and 32 for its slot there.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) context: u16,
    pub(crate) process: u32,
    pub(crate) slot: u32,
}

const CONTEXTS: u16 = 1 << 11;
const PROCESSES: u32 = 1 << 20;

impl Place {
    fn word(self) -> Option<NonNull<Slot>> {
        let fits = self.context < CONTEXTS && self.process < PROCESSES;
        let word = u64::from(self.slot) << 32 | u64::from(self.process) << 12 | u64::from(self.context) << 1;
        NonNull::new(ptr::without_provenance_mut(word as usize | REMOTE)).filter(|_| fits)
    }

    fn of(word: usize) -> Self {
        let word = word as u64;
        Self {
            context: (word >> 1) as u16 & (CONTEXTS - 1),
            process: (word >> 12) as u32 & (PROCESSES - 1),
            slot: (word >> 32) as u32,
        }
    }
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

    /// Calls `method` as one that reads: beside other methods that read.
    ///
    /// # Errors
    /// The call yields [`ObjectError`] if the object cannot be called.
    #[inline(always)]
    pub fn with<R, F: FnOnce(&T) -> R>(self, method: F) -> Call<T, Reads<F, R>>
    where
        T: Sync,
    {
        Call::new(self, Reads::new(method))
    }

    /// Calls `method` as one that writes: alone.
    ///
    /// # Errors
    /// The call yields [`ObjectError`] if the object cannot be called.
    ///
    /// # Panics
    /// If the method does, which leaves the object poisoned.
    #[inline(always)]
    pub fn with_mut<R, F: FnOnce(&mut T) -> R>(self, method: F) -> Call<T, Writes<F, R>>
    where
        T: Send,
    {
        Call::new(self, Writes::new(method))
    }
}

/// Like [`Ref::with`] and [`Ref::with_mut`], with methods that may suspend (Concert's schema *may-block*,
/// section 4.2.2).
impl<T: Send + 'static> Ref<T> {
    /// Calls an async method as one that reads: beside other methods that read, until it ends.
    ///
    /// # Errors
    /// [`ObjectError`], if the object cannot be called.
    #[inline(always)]
    pub fn with_async<R, M>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<R, ObjectError>,
        IntoFuture = impl Future<Output = Result<R, ObjectError>> + use<T, R, M>,
    > + use<T, R, M>
    where
        T: Sync,
        M: AsyncFnOnce(&T) -> R,
    {
        // SAFETY: `method` takes any borrow, its output has no lifetime of that borrow, and `T` is `Sync`.
        unsafe { may_block(self, Shared, |value: *mut T| method(&*value)) }
    }

    /// Calls an async method as one that writes: alone, until it ends.
    ///
    /// # Errors
    /// [`ObjectError`], if the object cannot be called.
    ///
    /// # Panics
    /// If the method does, which leaves the object poisoned.
    #[inline(always)]
    pub fn with_mut_async<R, M>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<R, ObjectError>,
        IntoFuture = impl Future<Output = Result<R, ObjectError>> + use<T, R, M>,
    > + use<T, R, M>
    where
        M: AsyncFnOnce(&mut T) -> R,
    {
        // SAFETY: `method` takes any borrow, and its output has no lifetime of that borrow.
        unsafe { may_block(self, Alone, |value: *mut T| method(&mut *value)) }
    }
}

/// Calls of methods that take their continuation (Concert's schema *continuation-passing*, section 4.2.2).
impl<T: Send + 'static> Ref<T> {
    /// Calls a method that reads, and answers by a [`Lazy`] continuation.
    ///
    /// # Errors
    /// [`ObjectError`], if the object cannot be called, or nobody answers.
    #[inline(always)]
    pub fn with_lazily<R: 'static, M>(
        self,
        method: M,
    ) -> impl Forward<Answer = R, Output = Result<R, ObjectError>, IntoFuture = impl Answers<R> + use<T, R, M>>
    + use<T, R, M>
    where
        T: Sync,
        M: AsyncFnOnce(&T, Lazy<'_, R>),
    {
        // SAFETY: `method` takes any borrow, and returns nothing.
        unsafe { lazy_call(self, Shared, |value: *mut T, answer| method(&*value, Lazy::new(answer))) }
    }

    /// Calls a method that writes, and answers by a [`Lazy`] continuation.
    ///
    /// # Errors
    /// [`ObjectError`], if the object cannot be called, or nobody answers.
    ///
    /// # Panics
    /// If the method does, which leaves the object poisoned.
    #[inline(always)]
    pub fn with_mut_lazily<R: 'static, M>(
        self,
        method: M,
    ) -> impl Forward<Answer = R, Output = Result<R, ObjectError>, IntoFuture = impl Answers<R> + use<T, R, M>>
    + use<T, R, M>
    where
        M: AsyncFnOnce(&mut T, Lazy<'_, R>),
    {
        // SAFETY: `method` takes any borrow, and returns nothing.
        unsafe { lazy_call(self, Alone, |value: *mut T, answer| method(&mut *value, Lazy::new(answer))) }
    }
}

/// Calls for `#[object]`: of the methods themselves, without a closure's future around theirs. The borrow is declared
/// `'static`, and lasts as long as the future lives.
#[doc(hidden)]
#[allow(missing_docs)]
impl<T: Send + 'static> Ref<T> {
    /// # Safety
    /// `method` takes any borrow, and what its future yields keeps none.
    #[inline(always)]
    pub unsafe fn __with_async<F: Future, M: FnOnce(&'static T) -> F>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<F::Output, ObjectError>,
        IntoFuture = impl Future<Output = Result<F::Output, ObjectError>> + use<T, F, M>,
    > + use<T, F, M>
    where
        T: Sync,
    {
        // SAFETY: the caller says that `method` takes any borrow and its output keeps none. `T` is `Sync`.
        unsafe { may_block(self, Shared, |value: *mut T| method(&*value)) }
    }

    /// # Safety
    /// `method` takes any borrow, and the output of its future keeps none.
    #[inline(always)]
    pub unsafe fn __with_mut_async<F: Future, M: FnOnce(&'static mut T) -> F>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<F::Output, ObjectError>,
        IntoFuture = impl Future<Output = Result<F::Output, ObjectError>> + use<T, F, M>,
    > + use<T, F, M> {
        // SAFETY: the caller says that `method` takes any borrow and its output keeps none.
        unsafe { may_block(self, Alone, |value: *mut T| method(&mut *value)) }
    }

    /// # Safety
    /// `method` takes any borrow, both of the value and of the continuation, and its future keeps none behind its
    /// end.
    #[inline(always)]
    pub unsafe fn __with_lazily<R, F, M>(
        self,
        method: M,
    ) -> impl Forward<
        Answer = R,
        Output = Result<R, ObjectError>,
        IntoFuture = impl Answers<R> + use<T, R, F, M>,
    > + use<T, R, F, M>
    where
        T: Sync,
        R: 'static,
        F: Future<Output = ()>,
        M: FnOnce(&'static T, Lazy<'static, R>) -> F,
    {
        // SAFETY: the caller says that `method` takes any borrow of the value and of the answer, and keeps none. `T`
        // is `Sync`.
        unsafe { lazy_call(self, Shared, |value: *mut T, answer| method(&*value, Lazy::new(answer))) }
    }

    /// # Safety
    /// `method` takes any borrow, both of the value and of the continuation, and its future keeps none behind its
    /// end.
    #[inline(always)]
    pub unsafe fn __with_mut_lazily<R, F, M>(
        self,
        method: M,
    ) -> impl Forward<
        Answer = R,
        Output = Result<R, ObjectError>,
        IntoFuture = impl Answers<R> + use<T, R, F, M>,
    > + use<T, R, F, M>
    where
        R: 'static,
        F: Future<Output = ()>,
        M: FnOnce(&'static mut T, Lazy<'static, R>) -> F,
    {
        // SAFETY: the caller says that `method` takes any borrow of the value and of the answer, and keeps none.
        unsafe { lazy_call(self, Alone, |value: *mut T, answer| method(&mut *value, Lazy::new(answer))) }
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
