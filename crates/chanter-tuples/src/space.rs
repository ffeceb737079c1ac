//! `TupleSpace`, and its events.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::{Arc, Weak};

use chanter::base::{
    Demanded, Lock, Operation, Place, PlaceBranch, Queue, WakeList, another_handle, demanded, synchronization,
};
use chanter::event::{Event, always};

use crate::held::Copying;
use crate::note::{Kind, Note, Search, Stored};
use crate::pattern::{Pattern, Tuple};
use crate::state::State;

/// A space of tuples of type `T`; clones share it.
///
/// See the [crate](crate) for an example, for what a field can be, and for the order in which tuples and waiters are
/// served. All operations are events. None blocks the OS thread when awaited.
///
/// **Cancel safety.** A synchronization that is dropped before its commit never happened: a take took nothing, and the
/// tuple of a put is dropped. A take that is dropped after it was given a tuple puts the tuple back in its place.
pub struct TupleSpace<T: Tuple> {
    state: Arc<Lock<State<T>>>,
}

impl<T: Tuple> TupleSpace<T> {
    /// An empty space.
    pub fn new() -> Self {
        Self { state: Arc::new(Lock::new(State::new())) }
    }

    /// The event of putting a tuple (Linda's `out`).
    ///
    /// The event is always ready: a space has no bound. After its commit, the tuple is with those who wait for it, or
    /// in the space. If it is not chosen, `tuple` is dropped.
    #[inline(always)]
    pub fn put(&self, tuple: T) -> Put<T> {
        Put { space: self.clone(), note: Note(Kind::Put(Some(Stored::new(tuple)))) }
    }

    /// The event of taking a tuple that matches `pattern` (Linda's `in`; `inp` with
    /// [`try_sync`](chanter::Event::try_sync)).
    ///
    /// The event commits when there is a matching tuple and no other taker came first. It takes the oldest one. If
    /// there is none, a thread that stands for such a tuple is [demanded](Self::delay) first. If the event is not
    /// chosen, nothing is taken.
    #[inline(always)]
    pub fn take<P: Pattern<T>>(&self, pattern: P) -> Take<T> {
        Take {
            space: self.clone(),
            note: Note(Kind::Take { search: Search::new(pattern.wanted()), got: None }),
        }
    }

    /// The event of reading a copy of a tuple that matches `pattern` (Linda's `rd`; `rdp` with
    /// [`try_sync`](chanter::Event::try_sync)). The tuple stays.
    ///
    /// The event commits when there is a matching tuple, and reads the oldest one. If there is none, a thread that
    /// stands for such a tuple is [demanded](Self::delay) first. The copy is made after the commit, when no lock is
    /// held.
    #[inline(always)]
    pub fn read<P: Pattern<T>>(&self, pattern: P) -> Read<T>
    where
        T: Clone + Sync,
    {
        let search = Search::new(pattern.wanted());
        Read { space: self.clone(), note: Note(Kind::Read { search, copying: Copying::new(), got: None }) }
    }

    /// The event of spawning a thread whose value is a tuple (Linda's `eval`). The thread is scheduled, and its tuple
    /// is put when it ends.
    ///
    /// `shape` is a pattern: the fields of the tuple that are known beforehand. Until the thread begins, a reader whose
    /// pattern fits `shape` *demands* it, as described at [`delay`](Self::delay). A tuple that does not match `shape`
    /// is put nevertheless.
    ///
    /// The event is always ready. If it is not chosen, nothing is spawned, and `body` is dropped. A thread that panics
    /// puts nothing. Its panic is reported, as if nobody had joined it.
    ///
    /// # Panics
    /// If it is synchronized on outside of a machine.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter_tuples::{Any, TupleSpace};
    /// # chanter::block_on(async {
    /// let space = TupleSpace::<(&str, u64, u64)>::new();
    /// for n in 0..10 {
    ///     space.spawn(("square", n, Any), async move { ("square", n, n * n) }).await;
    /// }
    /// assert_eq!(space.read(("square", 7, Any)).await, ("square", 7, 49));
    /// # });
    /// ```
    pub fn spawn<P, F>(&self, shape: P, body: F) -> impl Event<Output = ()> + use<T, P, F>
    where
        T: 'static,
        P: Pattern<T>,
        F: IntoFuture<Output = T>,
        F::IntoFuture: Send + 'static,
    {
        self.stand(shape.wanted(), body.into_future(), true)
    }

    /// The event of adding a *delayed* thread whose value is a tuple: it runs when somebody waits for the tuple.
    ///
    /// `shape` is a pattern: the fields of the tuple that are known beforehand. A reader or taker that finds no tuple,
    /// and whose pattern fits `shape`, demands the thread. On a thread of the machine the thread is *stolen*: it runs
    /// at once on the reader's stack. Otherwise it is scheduled. A stolen thread that blocks goes on by itself, and the
    /// reader demands the next thread that fits. A choice demands threads only if no branch is ready.
    ///
    /// The event is always ready. If the last handle of the space is dropped, a thread that was not demanded never
    /// runs. For the rest see [`spawn`](Self::spawn).
    ///
    /// # Panics
    /// If it is synchronized on outside of a machine.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter_tuples::{Any, TupleSpace};
    /// # chanter::block_on(async {
    /// let space = TupleSpace::<(u64, u64)>::new();
    /// for n in 0..10 {
    ///     space.delay((n, Any), async move { (n, n * n) }).await;
    /// }
    /// assert_eq!(space.len(), 0);
    /// assert_eq!(space.read((7, Any)).await, (7, 49));
    /// assert_eq!(space.len(), 1);
    /// # });
    /// ```
    ///
    /// STING, section 3.1: `create-thread`, and stealing.
    pub fn delay<P, F>(&self, shape: P, body: F) -> impl Event<Output = ()> + use<T, P, F>
    where
        T: 'static,
        P: Pattern<T>,
        F: IntoFuture<Output = T>,
        F::IntoFuture: Send + 'static,
    {
        self.stand(shape.wanted(), body.into_future(), false)
    }

    fn stand<F>(&self, shape: T::Wanted, body: F, runs: bool) -> impl Event<Output = ()> + use<T, F>
    where
        T: 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let space = self.clone();
        always(()).wrap(move |()| {
            let number = space.state.lock().next_number();
            let first = T::first_wanted(&shape).cloned();
            // A thread in the space does not keep the space.
            let weak = Arc::downgrade(&space.state);
            let thread = chanter::delay(evaluate(weak, number, first, body));
            let handle = another_handle(&thread);
            let is_awaited = space.state.lock().stand(number, shape, thread);
            if is_awaited || runs {
                handle.run();
            }
        })
    }

    /// Number of tuples in the space, at this moment. The time is in proportion to the number of different first
    /// fields.
    pub fn len(&self) -> usize {
        self.state.lock().len()
    }

    /// Whether there is no tuple in the space, at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The body of a thread that stands for a tuple.
async fn evaluate<T: Tuple>(
    space: Weak<Lock<State<T>>>,
    number: u64,
    first: Option<T::First>,
    body: impl Future<Output = T>,
) {
    // It has begun: nobody can steal it any more. Its handle is dropped after the lock.
    let handle = space.upgrade().and_then(|state| state.lock().begin(number, first.as_ref()));
    drop(handle);
    let tuple = body.await;
    if let Some(state) = space.upgrade() {
        TupleSpace { state }.put(tuple).await;
    }
}

impl<T: Tuple> Default for TupleSpace<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Tuple> Clone for TupleSpace<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<T: Tuple> fmt::Debug for TupleSpace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TupleSpace").field("tuples", &self.len()).finish_non_exhaustive()
    }
}

// SAFETY: the queues are in buckets, behind the lock. A bucket is boxed, or part of the state, which the operation's own
// share keeps; it is removed only when it is empty. So a queue neither moves nor ends while an operation waits in it.
// The same note finds the same bucket, since its pattern does not change. Under the lock only keys are compared, which
// are types of the standard library, and tuples are moved; none is copied or dropped.
unsafe impl<T: Tuple> Place for TupleSpace<T> {
    type Note = Note<T>;
    type State = State<T>;

    #[inline(always)]
    fn lock(&self) -> impl DerefMut<Target = State<T>> {
        self.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State<T>, note: &Note<T>) -> &'a mut Queue<Note<T>> {
        state.waiters(note)
    }

    #[inline(always)]
    fn is_ready(&self, state: &State<T>, note: &Note<T>) -> bool {
        state.is_ready(note)
    }

    #[inline(always)]
    fn act(&self, state: &mut State<T>, note: &mut Note<T>, wakes: &mut WakeList) {
        state.act(note, wakes);
    }

    #[inline(always)]
    fn demanded(&self, state: &mut State<T>, note: &Note<T>) -> Option<Demanded> {
        state.demanded(note).map(demanded)
    }

    /// Puts back the tuple of a take. A read or a put stays done.
    fn undo(&self, state: &mut State<T>, note: &mut Note<T>, wakes: &mut WakeList) {
        if let Kind::Take { got, .. } = &mut note.0
            && let Some(stored) = got.take()
        {
            state.put_back(stored, wakes);
        }
    }
}

macro_rules! operation {
    ($(#[$doc:meta])* $name:ident yields $output:ty: |$note:pat_param| $finish:expr) => {
        $(#[$doc])*
        #[must_use = "events do nothing unless synchronized"]
        pub struct $name<T: Tuple> {
            space: TupleSpace<T>,
            note: Note<T>,
        }

        impl<T: Tuple> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }

        impl<T: Tuple> Operation for $name<T> {
            type Place = TupleSpace<T>;
            type Output = $output;

            #[inline(always)]
            fn finish(_: &TupleSpace<T>, $note: &mut Note<T>) -> $output {
                $finish
            }
        }

        impl<T: Tuple> IntoFuture for $name<T> {
            type Output = $output;
            type IntoFuture = chanter::event::Sync<Self>;

            #[inline(always)]
            fn into_future(self) -> Self::IntoFuture {
                synchronization(self)
            }
        }

        // SAFETY: the branch holds the same share and note; its offer is `Send` by the protocol.
        unsafe impl<T: Tuple> Event for $name<T> {
            type Branch = PlaceBranch<Self>;

            #[inline(always)]
            fn into_branch(self) -> Self::Branch {
                PlaceBranch::new(self.space, self.note)
            }
        }
    };
}

operation! {
    /// The event of putting a tuple; see [`TupleSpace::put`].
    Put yields (): |_| ()
}

operation! {
    /// The event of taking a tuple; see [`TupleSpace::take`].
    Take yields T: |note| note.take()
}

operation! {
    /// The event of reading a tuple; see [`TupleSpace::read`].
    Read yields T: |note| note.take()
}
