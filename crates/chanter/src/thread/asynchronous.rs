//! Asynchronous events: a result for the caller at once, and another one later.
//!
//! ACML's `AEvent`, on which the paper's web server is built (Featherweight
//! Threads, sections 5.2 and 6.4).

use std::fmt;
use std::future::{Future, poll_fn};
use std::task::Poll;

use super::asynchronous_choose::{AsyncChoices, ChooseLater, ChooseNow};
use super::gather::Kind;
use crate::channel::{IntoRecv, Receiver, bounded};
use crate::event::{Event, always, guard};
use crate::sched::budget;

/// An asynchronous event: an operation with two results.
///
/// Synchronizing on it ([`async_sync`](AsyncEvent::async_sync)) *initiates* the operation. A thread of its own, the
/// *implicit* thread, synchronizes on the operation, and passes the **later** result to [`wrap_later`]. The caller
/// goes on with the **now** result, as [`wrap_now`] says. The implicit thread is a parasite: if its event can commit
/// at once, it costs about a call. See [`on_hosts`] for hosts.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::AsyncEvent;
/// # use chanter::event::asend;
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// let (log, lines) = mailbox();
/// let send = asend(&tx, 7)
///     .wrap_now(|()| "initiated")
///     .wrap_later(move |sent| log.try_send(sent).unwrap());
/// assert_eq!(send.async_sync().await, "initiated");
/// assert!(lines.is_empty());
/// assert_eq!(rx.recv().await, Ok(7));
/// assert_eq!(lines.recv().await, Ok(Ok(())));
/// # });
/// ```
///
/// | here | ACML |
/// |---|---|
/// | [`asend`], [`arecv`] | `aSendEvt`, `aRecvEvt` |
/// | [`wrap_now`], [`wrap_later`] | `sWrap`, `aWrap` |
/// | [`guard_now`], [`guard_later`] | `sGuard`, `aGuard` |
/// | [`choose_now`], [`choose_later`] | `sChoose`, `aChoose` |
/// | [`asynchronously`], [`into_event`] | `sTrans`, `aTrans` |
/// | [`async_sync`](AsyncEvent::async_sync) | `aSync` |
///
/// **Commit points.** The now part commits at once, except that of [`choose_now`], which waits for one branch's
/// operation. The later part commits when its event does. If the machine ends before that, the later part never
/// happened: the implicit thread is cancelled. (An [`asend`] without a later part is the exception: its message waits
/// in the channel.)
///
/// **Panics.** A panic in a later part ends the implicit thread, and is reported. Outside of a machine, synchronizing
/// panics before anything has happened.
///
/// Laws (`~` means: the same to every observer):
/// * `a.wrap_now(f).wrap_now(g)` ~ `a.wrap_now(|x| g(f(x)))`, and so for later;
/// * `a.wrap_now(f).wrap_later(g)` ~ `a.wrap_later(g).wrap_now(f)`;
/// * `asend(&tx, v)` ~ `asynchronously(tx.clone().into_send(v))`, and so for `arecv`;
/// * `asynchronously(e).into_event()` ~ `always(())`, and then a thread that
///   does `e.await`;
/// * `choose_now([asynchronously(e)]).into_event()` ~ `e.wrap(drop)`.
///
/// [`asend`]: crate::event::asend
/// [`wrap_now`]: AsyncEvent::wrap_now
/// [`wrap_later`]: AsyncEvent::wrap_later
/// [`on_hosts`]: AsyncEvent::on_hosts
/// [`into_event`]: AsyncEvent::into_event
pub trait AsyncEvent: Sized {
    /// The result for the caller.
    type Now;
    /// The result for the implicit thread.
    type Later: 'static;

    /// The event of initiating the operation. Its implicit thread calls `later`.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = Self::Now>
    where
        L: FnOnce(Self::Later) + Send + 'static;

    /// The event of the operation itself. It waits for the commit, and leaves only `later` to a thread.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = Self::Now>
    where
        L: FnOnce(Self::Later) + Send + 'static;

    /// Like `commit`, for a choice that is made on the implicit thread. `later` runs there too, and there is no now
    /// result.
    #[doc(hidden)]
    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(Self::Later) + Send + 'static;

    /// Applies `f` to the now result, on the caller's thread.
    fn wrap_now<F, U>(self, f: F) -> WrapNow<Self, F>
    where
        F: FnOnce(Self::Now) -> U,
    {
        WrapNow { event: self, f }
    }

    /// Applies `f` to the later result, on the implicit thread.
    fn wrap_later<F, U>(self, f: F) -> WrapLater<Self, F>
    where
        F: FnOnce(Self::Later) -> U + Send + 'static,
    {
        WrapLater { event: self, f }
    }

    /// The same asynchronous event, with a host as the implicit thread.
    fn on_hosts(self) -> OnHosts<Self> {
        OnHosts { event: self }
    }

    /// The event of initiating the operation. It is ready at once, unless it is a [`choose_now`]. ACML's `aTrans`. If
    /// it is not chosen, nothing is initiated.
    fn into_event(self) -> impl Event<Output = Self::Now> {
        self.initiate(Kind::Parasite, drop)
    }

    /// Initiates the operation: `into_event().sync()`.
    fn async_sync(self) -> impl Future<Output = Self::Now> {
        self.into_event().sync()
    }

    /// Adds a receiver of the later result to the caller's now result. The receiver is closed without a message if
    /// the implicit thread panics or is cancelled.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::event::AsyncEvent;
    /// # use chanter::event::arecv;
    /// # chanter::block_on(async {
    /// let (tx, rx) = channel();
    /// let ((), reply) = arecv(&rx).promise().async_sync().await;
    /// tx.send(7).await.unwrap();
    /// assert_eq!(reply.recv().await, Ok(Ok(7)));
    /// # });
    /// ```
    fn promise(self) -> Promise<Self> {
        Promise { event: self }
    }
}

/// The asynchronous event of receiving a message. The message goes to [`wrap_later`](AsyncEvent::wrap_later), or is
/// dropped without one. The event owns a clone of `receiver`.
pub fn arecv<T: Send + 'static>(receiver: &Receiver<T>) -> Asynchronously<IntoRecv<T>> {
    asynchronously(receiver.clone().into_recv())
}

/// Turns `event` into an asynchronous one: its now result is `()`, its later result that of `event`. ACML's `sTrans`.
#[inline(always)]
pub fn asynchronously<E>(event: E) -> Asynchronously<E>
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
    E::Branch: 'static,
{
    Asynchronously { event }
}

/// The asynchronous event that `make` returns. `make` runs on the caller's thread when it synchronizes. ACML's
/// `sGuard`.
pub fn guard_now<F, A>(make: F) -> GuardNow<F>
where
    F: FnOnce() -> A,
    A: AsyncEvent,
{
    GuardNow { make }
}

/// The asynchronous event of the event that `make` returns. `make` runs on the implicit thread. ACML's `aGuard`.
///
/// Law: it is `asynchronously(guard(make))`.
pub fn guard_later<F, E>(make: F) -> Asynchronously<crate::event::Guard<F, E>>
where
    F: FnOnce() -> E + Send + 'static,
    E: Event + Send + 'static,
    E::Output: Send + 'static,
    E::Branch: 'static,
{
    asynchronously(guard(make))
}

/// The asynchronous event of one of `events`, chosen while the caller waits. The caller goes on with the now result
/// of the branch whose operation has committed. The rest of that branch's later part happens on the implicit thread.
/// The losers never happened. ACML's `sChoose`.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::AsyncEvent;
/// # use chanter::event::{arecv, choose_now};
/// # chanter::block_on(async {
/// let (tx, rx) = mailbox();
/// let (_nobody, silent) = channel::<u32>();
/// tx.try_send(1).unwrap();
/// let one = choose_now((
///     arecv(&rx).wrap_now(|()| 1).wrap_later(drop),
///     arecv(&silent).wrap_now(|()| 2).wrap_later(drop),
/// ));
/// assert_eq!(one.async_sync().await, 1, "the mailbox");
/// # });
/// ```
pub fn choose_now<C: AsyncChoices>(events: C) -> ChooseNow<C> {
    ChooseNow { events }
}

/// The asynchronous event of one of `events`, chosen by the implicit thread. The caller goes on at once, with `()`.
/// The now wraps of the branches are not run, since that of the chosen branch would come too late. ACML's `aChoose`.
pub fn choose_later<C: AsyncChoices>(events: C) -> ChooseLater<C> {
    ChooseLater { events }
}

/// The asynchronous event of [`asynchronously`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Asynchronously<E> {
    pub(super) event: E,
}

impl<E> AsyncEvent for Asynchronously<E>
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
    E::Branch: 'static,
{
    type Now = ();
    type Later = E::Output;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(E::Output) + Send + 'static,
    {
        let thread = async move { later(self.event.await) };
        guard(move || {
            kind.check(WHAT);
            always(())
        })
        .wrap(move |()| kind.spawn(thread))
    }

    /// The operation is ready at once, so there is nothing to synchronize on. It counts against the budget
    /// nevertheless, so that a thread that initiates one after the other yields now and then.
    #[inline(always)]
    async fn async_sync(self) {
        Kind::Parasite.check(WHAT);
        poll_fn(|cx| if budget::is_spent(cx) { Poll::Pending } else { Poll::Ready(()) }).await;
        Kind::Parasite.spawn(async move { drop(self.event.await) });
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(E::Output) + Send + 'static,
    {
        guard(move || {
            kind.check(WHAT);
            self.event
        })
        .wrap(move |result| kind.spawn(async move { later(result) }))
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(E::Output) + Send + 'static,
    {
        self.event.wrap(later)
    }
}

/// The asynchronous event of [`AsyncEvent::wrap_now`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct WrapNow<A, F> {
    event: A,
    f: F,
}

impl<A: AsyncEvent, F: FnOnce(A::Now) -> U, U> AsyncEvent for WrapNow<A, F> {
    type Now = U;
    type Later = A::Later;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = U>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        self.event.initiate(kind, later).wrap(self.f)
    }

    fn into_event(self) -> impl Event<Output = U> {
        self.event.into_event().wrap(self.f)
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = U>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        self.event.commit(kind, later).wrap(self.f)
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        self.event.operate(later)
    }
}

/// The asynchronous event of [`AsyncEvent::wrap_later`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct WrapLater<A, F> {
    event: A,
    f: F,
}

impl<A: AsyncEvent, F: FnOnce(A::Later) -> U + Send + 'static, U: 'static> AsyncEvent for WrapLater<A, F> {
    type Now = A::Now;
    type Later = U;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(U) + Send + 'static,
    {
        self.event.initiate(kind, move |result| later((self.f)(result)))
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(U) + Send + 'static,
    {
        self.event.commit(kind, move |result| later((self.f)(result)))
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(U) + Send + 'static,
    {
        self.event.operate(move |result| later((self.f)(result)))
    }
}

/// The asynchronous event of [`AsyncEvent::on_hosts`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct OnHosts<A> {
    event: A,
}

impl<A: AsyncEvent> AsyncEvent for OnHosts<A> {
    type Now = A::Now;
    type Later = A::Later;

    #[allow(private_interfaces, reason = "the kind is chosen here")]
    fn initiate<L>(self, _kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        self.event.initiate(Kind::Host, later)
    }

    #[allow(private_interfaces, reason = "the kind is chosen here")]
    fn commit<L>(self, _kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        self.event.commit(Kind::Host, later)
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        self.event.operate(later)
    }
}

/// The asynchronous event of [`guard_now`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct GuardNow<F> {
    make: F,
}

impl<F: FnOnce() -> A, A: AsyncEvent> AsyncEvent for GuardNow<F> {
    type Now = A::Now;
    type Later = A::Later;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        guard(move || (self.make)().initiate(kind, later))
    }

    fn into_event(self) -> impl Event<Output = A::Now> {
        guard(|| (self.make)().into_event())
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = A::Now>
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        guard(move || (self.make)().commit(kind, later))
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(A::Later) + Send + 'static,
    {
        (self.make)().operate(later)
    }
}

/// The event of [`AsyncEvent::promise`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Promise<A> {
    event: A,
}

/// Wraps `later` to send the result of a promise, and returns the receiver of that result.
fn promised<T, L: FnOnce(())>(later: L) -> (impl FnOnce(T) + use<T, L>, Receiver<T>) {
    let (tx, rx) = bounded(1);
    let keep = move |result| {
        // The caller may have dropped the receiver: then the result is not wanted.
        drop(tx.try_send(result));
        later(());
    };
    (keep, rx)
}

impl<A: AsyncEvent> AsyncEvent for Promise<A>
where
    A::Later: Send,
{
    type Now = (A::Now, Receiver<A::Later>);
    type Later = ();

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = Self::Now>
    where
        L: FnOnce(()) + Send + 'static,
    {
        guard(move || {
            let (later, rx) = promised(later);
            self.event.initiate(kind, later).wrap(|now| (now, rx))
        })
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = Self::Now>
    where
        L: FnOnce(()) + Send + 'static,
    {
        guard(move || {
            let (later, rx) = promised(later);
            self.event.commit(kind, later).wrap(|now| (now, rx))
        })
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(()) + Send + 'static,
    {
        self.event.operate(move |_result| later(()))
    }
}

/// The name in the panic of an asynchronous event that is used outside of a machine.
pub(super) const WHAT: &str = "an asynchronous event";

macro_rules! opaque_debug {
    ($($name:ident<$($generic:ident),*>)*) => {
        $(impl<$($generic),*> fmt::Debug for $name<$($generic),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        })*
    };
}

opaque_debug!(WrapNow<A, F> WrapLater<A, F> GuardNow<F>);
