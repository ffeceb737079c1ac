//! `Named`: calls that may be made from any process.

use std::fmt;
use std::future::Future;

use chanter::base::Mode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::RemoteCall;
use super::key::Key;
use crate::answer::Answer;
use crate::begin::{Alone, Begin, Shared};
use crate::call::{Call, Method};
use crate::lazy::{Answers, Forward, Lazy, lazy_call};
use crate::may_block::may_block;
use crate::{ObjectError, Ref};

impl<T> Ref<T> {
    /// A call that may be made from any process: the method by its key, and its arguments as data. The method's body
    /// is given by one of the methods of [`Named`], as with [`with`](Ref::with) and similar methods.
    #[inline(always)]
    pub fn named<A, R>(self, key: Key<A, R>, arguments: A) -> Named<T, A, R> {
        Named { to: self, key, arguments }
    }
}

/// A call that may be made from any process, still without its method's body; see [`Ref::named`].
#[must_use = "it is no call yet"]
pub struct Named<T, A, R> {
    to: Ref<T>,
    key: Key<A, R>,
    arguments: A,
}

impl<T, A, R> fmt::Debug for Named<T, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("to", &self.to).field("key", &self.key).finish_non_exhaustive()
    }
}

/// A method with its arguments, which may be called from any process.
struct Carried<A, R, F> {
    key: Key<A, R>,
    arguments: A,
    method: F,
}

impl<T: Send + 'static, A: Serialize, R: DeserializeOwned> Named<T, A, R> {
    #[inline(always)]
    fn carried<F>(self, method: F) -> (Ref<T>, Carried<A, R, F>) {
        (self.to, Carried { key: self.key, arguments: self.arguments, method })
    }

    /// Like [`Ref::with`].
    #[inline(always)]
    pub fn with<F>(self, method: F) -> Call<T, impl Method<T, Output = R> + use<T, A, R, F>>
    where
        T: Sync,
        F: FnOnce(&T, A) -> R,
    {
        let (to, carried) = self.carried(method);
        Call::new(to, Reading(carried))
    }

    /// Like [`Ref::with_mut`].
    #[inline(always)]
    pub fn with_mut<F>(self, method: F) -> Call<T, impl Method<T, Output = R> + use<T, A, R, F>>
    where
        F: FnOnce(&mut T, A) -> R,
    {
        let (to, carried) = self.carried(method);
        Call::new(to, Writing(carried))
    }

    /// Like [`Ref::with_async`].
    #[inline(always)]
    pub fn with_async<M>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<R, ObjectError>,
        IntoFuture = impl Future<Output = Result<R, ObjectError>> + use<T, A, R, M>,
    > + use<T, A, R, M>
    where
        T: Sync,
        M: AsyncFnOnce(&T, A) -> R,
    {
        let (to, carried) = self.carried(|value: *mut T, arguments| {
            // SAFETY: `may_block` gives the value's pointer, which is shared while the method's future lives.
            method(unsafe { &*value }, arguments)
        });
        // SAFETY: `method` takes any borrow, its output has no lifetime of that borrow, and `T` is `Sync`.
        unsafe { may_block(to, Shared, carried) }
    }

    /// Like [`Ref::with_mut_async`].
    #[inline(always)]
    pub fn with_mut_async<M>(
        self,
        method: M,
    ) -> impl IntoFuture<
        Output = Result<R, ObjectError>,
        IntoFuture = impl Future<Output = Result<R, ObjectError>> + use<T, A, R, M>,
    > + use<T, A, R, M>
    where
        M: AsyncFnOnce(&mut T, A) -> R,
    {
        let (to, carried) = self.carried(|value: *mut T, arguments| {
            // SAFETY: `may_block` gives the value's pointer, which is exclusive while the method's future lives.
            method(unsafe { &mut *value }, arguments)
        });
        // SAFETY: `method` takes any borrow, and its output has no lifetime of that borrow.
        unsafe { may_block(to, Alone, carried) }
    }

    /// Like [`Ref::with_lazily`].
    #[inline(always)]
    pub fn with_lazily<M>(
        self,
        method: M,
    ) -> impl Forward<
        Answer = R,
        Output = Result<R, ObjectError>,
        IntoFuture = impl Answers<R> + use<T, A, R, M>,
    > + use<T, A, R, M>
    where
        T: Sync,
        R: 'static,
        M: AsyncFnOnce(&T, A, Lazy<'_, R>),
    {
        let (to, carried) = self.carried(|value: *mut T, arguments, answer: *mut Answer<R>| {
            // SAFETY: `lazy_call` gives the value's pointer, shared, and the answer's, exclusive, while the method's
            // future lives.
            unsafe { method(&*value, arguments, Lazy::new(answer)) }
        });
        // SAFETY: `method` takes any borrow, and returns nothing.
        unsafe { lazy_call(to, Shared, carried) }
    }

    /// Like [`Ref::with_mut_lazily`].
    #[inline(always)]
    pub fn with_mut_lazily<M>(
        self,
        method: M,
    ) -> impl Forward<
        Answer = R,
        Output = Result<R, ObjectError>,
        IntoFuture = impl Answers<R> + use<T, A, R, M>,
    > + use<T, A, R, M>
    where
        R: 'static,
        M: AsyncFnOnce(&mut T, A, Lazy<'_, R>),
    {
        let (to, carried) = self.carried(|value: *mut T, arguments, answer: *mut Answer<R>| {
            // SAFETY: `lazy_call` gives the pointers of the value and of the answer, both exclusive while the
            // method's future lives.
            unsafe { method(&mut *value, arguments, Lazy::new(answer)) }
        });
        // SAFETY: `method` takes any borrow, and returns nothing.
        unsafe { lazy_call(to, Alone, carried) }
    }
}

/// A non-blocking method that reads.
struct Reading<A, R, F>(Carried<A, R, F>);

/// A non-blocking method that writes.
struct Writing<A, R, F>(Carried<A, R, F>);

// SAFETY: `run` only reads the value, as `Mode::Shared` allows.
unsafe impl<T, A: Serialize, R: DeserializeOwned, F: FnOnce(&T, A) -> R> Method<T> for Reading<A, R, F> {
    type Output = R;
    type Away = RemoteCall<R>;
    const MODE: Mode = Mode::Shared;
    const IS_FAR: bool = true;

    #[inline(always)]
    unsafe fn run(self, value: *mut T) -> R {
        // SAFETY: the caller is inside, in this mode.
        (self.0.method)(unsafe { &*value }, self.0.arguments)
    }

    fn remote(self, to: Ref<T>) -> Result<RemoteCall<R>, ObjectError> {
        RemoteCall::of(to, self.0.key, &self.0.arguments)
    }
}

// SAFETY: `run` has the value to itself by `Mode::Alone`.
unsafe impl<T, A: Serialize, R: DeserializeOwned, F: FnOnce(&mut T, A) -> R> Method<T> for Writing<A, R, F> {
    type Output = R;
    type Away = RemoteCall<R>;
    const MODE: Mode = Mode::Alone;
    const IS_FAR: bool = true;

    #[inline(always)]
    unsafe fn run(self, value: *mut T) -> R {
        // SAFETY: the caller is inside, in this mode.
        (self.0.method)(unsafe { &mut *value }, self.0.arguments)
    }

    fn remote(self, to: Ref<T>) -> Result<RemoteCall<R>, ObjectError> {
        RemoteCall::of(to, self.0.key, &self.0.arguments)
    }
}

impl<T, A, R, F, M> Begin<T, ()> for Carried<A, R, M>
where
    A: Serialize,
    R: DeserializeOwned,
    F: Future<Output = R>,
    M: FnOnce(*mut T, A) -> F,
{
    type Method = F;
    type Away = RemoteCall<R>;

    #[inline(always)]
    fn begin(self, value: *mut T, (): ()) -> F {
        (self.method)(value, self.arguments)
    }

    unsafe fn remote(self, to: Ref<T>, (): ()) -> Result<RemoteCall<R>, ObjectError> {
        RemoteCall::of(to, self.key, &self.arguments)
    }
}

impl<T, A, R, F, M> Begin<T, *mut Answer<R>> for Carried<A, R, M>
where
    A: Serialize,
    R: DeserializeOwned,
    F: Future<Output = ()>,
    M: FnOnce(*mut T, A, *mut Answer<R>) -> F,
{
    type Method = F;
    type Away = RemoteCall<()>;

    #[inline(always)]
    fn begin(self, value: *mut T, answer: *mut Answer<R>) -> F {
        (self.method)(value, self.arguments, answer)
    }

    unsafe fn remote(self, to: Ref<T>, answer: *mut Answer<R>) -> Result<RemoteCall<()>, ObjectError> {
        // SAFETY: the caller keeps the answer's place alive and unshared while the remote call lives.
        unsafe { RemoteCall::answering(to, self.key, &self.arguments, answer) }
    }
}
