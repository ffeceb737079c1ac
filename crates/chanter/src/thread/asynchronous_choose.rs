//! Choices over asynchronous events.

use std::sync::{Arc, Mutex, PoisonError};

use super::asynchronous::{AsyncEvent, WHAT};
use super::gather::Kind;
use crate::event::{Event, always, choose, guard};

/// Several asynchronous events with the same two results: a tuple of up to
/// 12, an array or a vector.
pub trait AsyncChoices {
    /// The result for the caller.
    type Now;
    /// The result for the implicit thread.
    type Later: 'static;

    /// The choice of the branches' operations.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = Self::Now>
    where
        L: FnOnce(Self::Later) + Send + 'static;

    /// The choice of the operations on the implicit thread, without now results.
    #[doc(hidden)]
    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(Self::Later) + Send + 'static;
}

/// One action that all branches of a choice share. The branch that is chosen takes it.
struct Once<L>(Arc<Mutex<Option<L>>>);

impl<L> Once<L> {
    fn new(action: L) -> Self {
        Self(Arc::new(Mutex::new(Some(action))))
    }

    fn share<T>(&self) -> impl FnOnce(T) + use<L, T>
    where
        L: FnOnce(T),
    {
        let pool = Arc::clone(&self.0);
        move |result| {
            // Taken out, so that the action runs when the lock is free again.
            let action = pool.lock().unwrap_or_else(PoisonError::into_inner).take();
            action.expect("one branch is chosen")(result);
        }
    }
}

impl<A: AsyncEvent, const N: usize> AsyncChoices for [A; N] {
    type Now = A::Now;
    type Later = A::Later;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        let later = Once::new(later);
        choose(self.map(|event| event.commit(kind, later.share())))
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        let later = Once::new(later);
        choose(self.map(|event| event.operate(later.share())))
    }
}

impl<A: AsyncEvent> AsyncChoices for Vec<A> {
    type Now = A::Now;
    type Later = A::Later;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        let later = Once::new(later);
        choose(self.into_iter().map(|event| event.commit(kind, later.share())).collect::<Vec<_>>())
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        let later = Once::new(later);
        choose(self.into_iter().map(|event| event.operate(later.share())).collect::<Vec<_>>())
    }
}

macro_rules! tuple {
    ($first:ident $first_index:tt $(, $rest:ident $index:tt)*) => {
        impl<$first, $($rest),*> AsyncChoices for ($first, $($rest,)*)
        where
            $first: AsyncEvent,
            $($rest: AsyncEvent<Now = $first::Now, Later = $first::Later>,)*
        {
            type Now = $first::Now;
            type Later = $first::Later;

            #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
            fn commit<Act>(self, kind: Kind, later: Act) -> impl Event<Output = Self::Now>
            where
                Act: FnOnce(Self::Later) + Send + 'static,
            {
                let later = Once::new(later);
                choose((
                    self.$first_index.commit(kind, later.share()),
                    $(self.$index.commit(kind, later.share()),)*
                ))
            }

            fn operate<Act>(self, later: Act) -> impl Event<Output = ()> + Send + 'static
            where
                Act: FnOnce(Self::Later) + Send + 'static,
            {
                let later = Once::new(later);
                choose((
                    self.$first_index.operate(later.share()),
                    $(self.$index.operate(later.share()),)*
                ))
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11);

/// The asynchronous event of [`choose_now`](crate::event::choose_now).
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct ChooseNow<C> {
    pub(super) events: C,
}

impl<C: AsyncChoices> AsyncEvent for ChooseNow<C> {
    type Now = C::Now;
    type Later = C::Later;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = C::Now>
    where
        L: FnOnce(C::Later) + Send + 'static,
    {
        self.commit(kind, later)
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = C::Now>
    where
        L: FnOnce(C::Later) + Send + 'static,
    {
        self.events.commit(kind, later)
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(C::Later) + Send + 'static,
    {
        self.events.operate(later)
    }
}

/// The asynchronous event of [`choose_later`](crate::event::choose_later).
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct ChooseLater<C> {
    pub(super) events: C,
}

impl<C: AsyncChoices> AsyncEvent for ChooseLater<C>
where
    C::Later: Send,
{
    type Now = ();
    type Later = C::Later;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(C::Later) + Send + 'static,
    {
        guard(move || {
            kind.check(WHAT);
            // The branches' own guards run here, on the caller's thread.
            always(self.events.operate(later))
        })
        .wrap(move |choice| kind.spawn(choice.sync()))
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(C::Later) + Send + 'static,
    {
        guard(move || {
            kind.check(WHAT);
            self.events.operate(move |result| kind.spawn(async move { later(result) }))
        })
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(C::Later) + Send + 'static,
    {
        self.events.operate(later)
    }
}
