//! The calls of a reference: `with` and similar methods, one for each of Concert's schemas (section 4.2.2).

use std::future::Future;

use crate::begin::{Alone, Shared};
use crate::call::{Call, Reads, Writes};
use crate::lazy::{Answers, Forward, Lazy, lazy_call};
use crate::may_block::may_block;
use crate::{ObjectError, Ref};

impl<T> Ref<T> {
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
