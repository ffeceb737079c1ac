//! `Fluid`: a variable that is bound for an extent, and inherited by the threads that are spawned in it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use crate::frame::environment::{self, Binding, Bound, Environment, within};

/// A variable with a value for the extent of a future or a closure: a part of a thread's *dynamic environment*.
///
/// A thread that is spawned within the extent inherits the bindings, of whatever kind it is: host, parasite, delayed
/// thread, fiber, or blocking call. It has them wherever it runs, also when it is attached to another thread's stack,
/// or stolen. A `thread_local!` belongs to the OS thread, and does not follow.
///
/// A program without fluids pays nothing. From the first extent on its machine makes parasites as slowly as with
/// [genealogy](crate::Builder::genealogy). Within an extent each spawn allocates once more, and each poll of the thread
/// takes a few nanoseconds more.
///
/// A half of a [`fork_join`](crate::fork_join) that another processor takes sees no bindings. Neither does a
/// call within [`block_in_place`](crate::block_in_place), if its processor is handed over: read the value before.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::thread::Fluid;
///
/// static USER: Fluid<String> = Fluid::new();
///
/// async fn greet() -> String {
///     format!("hello, {}", USER.get().unwrap_or("stranger".into()))
/// }
///
/// # chanter::block_on(async {
/// assert_eq!(greet().await, "hello, stranger");
/// let greeting = USER.bind("Ann".into(), async { spawn(greet()).await.unwrap() }).await;
/// assert_eq!(greeting, "hello, Ann");
/// # });
/// ```
///
/// STING, section 2.2 (fluid bindings).
pub struct Fluid<T> {
    /// The variable's number; 0 until it is bound for the first time.
    key: AtomicU32,
    value: PhantomData<fn(T) -> T>,
}

static KEYS: AtomicU32 = AtomicU32::new(1);

struct Value<T>(T);

impl<T: Send + Sync + 'static> Bound for Value<T> {}

impl<T> Fluid<T> {
    /// A variable that is bound nowhere.
    pub const fn new() -> Self {
        Self { key: AtomicU32::new(0), value: PhantomData }
    }

    fn key(&self) -> u32 {
        // ORDER: Relaxed: the number is all there is.
        match self.key.load(Ordering::Relaxed) {
            0 => {
                let new = KEYS.fetch_add(1, Ordering::Relaxed);
                match self.key.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => new,
                    Err(key) => key,
                }
            }
            key => key,
        }
    }
}

impl<T: Send + Sync + 'static> Fluid<T> {
    /// The future `future`, within which the variable has this value. Dropped, it drops `future` within the extent,
    /// and the value when no thread has it any more.
    pub fn bind<F: IntoFuture>(&self, value: T, future: F) -> Binds<F::IntoFuture> {
        let (key, value) = (self.key(), Arc::new(Value(value)));
        Binds { bindings: Bindings::New(key, value), future: Some(future.into_future()) }
    }

    /// Calls `body`, within which the variable has this value: for code that does not await.
    pub fn bind_blocking<R>(&self, value: T, body: impl FnOnce() -> R) -> R {
        within(&Binding::new(self.key(), Arc::new(Value(value)), environment::current()), body)
    }

    /// Calls `body` with the value that the running thread, or other code, sees here. `None`: there is none.
    pub fn with<R>(&self, body: impl FnOnce(Option<&T>) -> R) -> R {
        // The bindings are kept, since `body` may do anything.
        let bindings = environment::current();
        // ORDER: Relaxed: the number is all there is.
        let key = self.key.load(Ordering::Relaxed);
        let value = bindings.as_ref().and_then(|bindings| bindings.find(key));
        body(value.and_then(|value| value.downcast_ref::<Value<T>>()).map(|value| &value.0))
    }

    /// A clone of the value that is seen here.
    pub fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.cloned())
    }
}

impl<T> Default for Fluid<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Fluid<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fluid(..)")
    }
}

enum Bindings {
    /// The key and the value. The bindings around them are those of the first poll.
    New(u32, Arc<dyn Bound>),
    Made(Environment),
    /// The first poll is being prepared.
    None,
}

/// A future within the extent of a binding; see [`Fluid::bind`].
#[must_use = "futures do nothing unless awaited"]
pub struct Binds<F> {
    bindings: Bindings,
    /// Pinned with the whole; there until the drop.
    future: Option<F>,
}

impl<F> Binds<F> {
    fn bindings(&mut self) -> &Environment {
        if let Bindings::New(..) = self.bindings
            && let Bindings::New(key, value) = std::mem::replace(&mut self.bindings, Bindings::None)
        {
            self.bindings = Bindings::Made(Binding::new(key, value, environment::current()));
        }
        match &self.bindings {
            Bindings::Made(bindings) => bindings,
            _ => unreachable!("they have just been made"),
        }
    }
}

impl<F: Future> Future for Binds<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is not moved; the bindings are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let bindings = this.bindings().clone();
        let future = this.future.as_mut().expect("it is there until the drop");
        // SAFETY: `future` is pinned with the whole.
        within(&bindings, || unsafe { Pin::new_unchecked(future) }.poll(cx))
    }
}

impl<F> Drop for Binds<F> {
    fn drop(&mut self) {
        let bindings = self.bindings().clone();
        // The future is dropped in its place.
        within(&bindings, || self.future = None);
    }
}

impl<F> fmt::Debug for Binds<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binds(..)")
    }
}
