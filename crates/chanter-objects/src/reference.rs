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

/// The name of an object: who has it can call the object's methods, from any thread.
///
/// It is an address and a generation (16 bytes, as is an `Option` of it), `Copy`, and keeps nothing alive: a call on an object that has ended gives [`ObjectError`]. As data
/// (`serde`) it is the numbers of a process, a slot and a generation; what does not name an object of type `T` when it is read
/// names none for ever.
///
/// (Concert, section 2: objects in a global name space.)
// (Two words that are passed in registers, and stored and loaded as such: 12 packed bytes are copied in pieces that wait for each other.)
pub struct Ref<T> {
    /// The slot's address; or, with [`REMOTE`], a process and the number of its slot.
    place: NonNull<Slot>,
    pub(crate) generation: u32,
    of: PhantomData<fn(T) -> T>,
}

/// Where an object of another process is: in the word of a reference, 11 bits for the space from which it is seen, 20 for its
/// process, and 32 for its slot there.
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

/// Where that is; `None`: in this process.
#[cfg(not(feature = "cluster"))]
fn place_of(process: u32, slot: u32) -> Option<Place> {
    (process != 0).then_some(Place { context: 0, process, slot })
}

#[cfg(feature = "cluster")]
use crate::remote::{name_of_here, place_of};

// SAFETY: a slot is there for all threads. What of `T` is used where, calls see to.
unsafe impl<T> Send for Ref<T> {}
// SAFETY: as above.
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

    /// Its slot and generation, if it was born in this process.
    #[cfg(feature = "cluster")]
    pub(crate) fn local(&self) -> Option<(&'static Slot, u32)> {
        Some((self.slot()?, self.generation))
    }

    /// The object of that name in another process.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_away(place: Place, generation: u32) -> Option<Self> {
        Some(Self::of_parts(place.word()?, generation))
    }

    /// Where it is, if not in this process, and of what generation there.
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

    /// Calls `method` as one that reads: beside others that do.
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

/// As [`Ref::with`] and [`Ref::with_mut`], with methods that may suspend (Concert's schema *may-block*, section 4.2.2).
impl<T: Send + 'static> Ref<T> {
    /// Calls an async method as one that reads: beside others that do, until it ends.
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
        // SAFETY: `method` takes any borrow, and what it returns is of no lifetime of its.
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
        // SAFETY: as above.
        unsafe { may_block(self, Alone, |value: *mut T| method(&mut *value)) }
    }
}

/// With methods that take their continuation (Concert's schema *continuation-passing*, section 4.2.2).
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
        // SAFETY: as above.
        unsafe { lazy_call(self, Alone, |value: *mut T, answer| method(&mut *value, Lazy::new(answer))) }
    }
}

/// For `#[object]`: calls of methods themselves, without a future of a closure around theirs. The borrow is said to be for ever, and is for as
/// long as the future lives.
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
        // SAFETY: the caller's contract.
        unsafe { may_block(self, Shared, |value: *mut T| method(&*value)) }
    }

    /// # Safety
    /// As above.
    #[inline(always)]
    pub unsafe fn __with_mut_async<F: Future, M: FnOnce(&'static mut T) -> F>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<F::Output, ObjectError>,
        IntoFuture = impl Future<Output = Result<F::Output, ObjectError>> + use<T, F, M>,
    > + use<T, F, M> {
        // SAFETY: the caller's contract.
        unsafe { may_block(self, Alone, |value: *mut T| method(&mut *value)) }
    }

    /// # Safety
    /// As above, and the continuation's borrow is any, too.
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
        // SAFETY: the caller's contract.
        unsafe { lazy_call(self, Shared, |value: *mut T, answer| method(&*value, Lazy::new(answer))) }
    }

    /// # Safety
    /// As above.
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
        // SAFETY: the caller's contract.
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
        // What is here now may be called by this name. No other object will ever be.
        let generation = if slot.is_of::<T>(generation) { generation } else { slot::NEVER };
        Ok(Self::new(slot, generation))
    }
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a reference has room for a process and a slot in an address of 64 bits");
