//! The asynchronous event of a send whose later result is not wanted.

use std::fmt;

use super::asynchronous::{AsyncEvent, Asynchronously, WHAT, asynchronously};
use super::gather::Kind;
use crate::channel::{IntoSend, SendError, Sender};
use crate::event::{Event, always, guard};
use crate::frame::catch_panic;

/// The asynchronous event of sending `message`. The caller goes on at once.
///
/// This differs from a mailbox: each send waits by itself, so that [`wrap_later`](AsyncEvent::wrap_later) can act on
/// it, in a thread of its own. Without a later part there is no thread: it is a [`Sender::asend`]. (Such a message
/// outlives the machine: it waits in the channel.)
///
/// Without a later part, the messages of one thread keep their order. With one, the order is not promised. A parasite
/// begins in a queue if little stack is left, or if another processor is idle. Hosts run when the policy says.
#[inline(always)]
pub fn asend<T: Send + 'static>(sender: &Sender<T>, message: T) -> AsyncSend<'_, T> {
    AsyncSend { sender, message }
}

/// The asynchronous event of [`asend`]. It borrows the sender. A thread that it starts owns a clone of the sender.
#[must_use = "events do nothing unless synchronized"]
pub struct AsyncSend<'a, T> {
    sender: &'a Sender<T>,
    message: T,
}

impl<T: Clone> Clone for AsyncSend<'_, T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender, message: self.message.clone() }
    }
}

impl<T> fmt::Debug for AsyncSend<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncSend(..)")
    }
}

impl<T: Send + 'static> AsyncSend<'_, T> {
    /// Starts the send, and discards its result.
    #[inline(always)]
    fn leave(self) {
        if let Err(unsent) = self.sender.asend(self.message) {
            catch_panic(|| drop(unsent));
        }
    }

    fn whole(self) -> Asynchronously<IntoSend<T>> {
        asynchronously(self.sender.clone().into_send(self.message))
    }
}

impl<T: Send + 'static> AsyncEvent for AsyncSend<'_, T> {
    type Now = ();
    type Later = Result<(), SendError<T>>;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(Self::Later) + Send + 'static,
    {
        self.whole().initiate(kind, later)
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(Self::Later) + Send + 'static,
    {
        self.whole().commit(kind, later)
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(Self::Later) + Send + 'static,
    {
        self.whole().operate(later)
    }

    fn into_event(self) -> impl Event<Output = ()> {
        guard(|| {
            Kind::Parasite.check(WHAT);
            always(())
        })
        .wrap(move |()| self.leave())
    }

    #[inline(always)]
    async fn async_sync(self) {
        Kind::Parasite.check(WHAT);
        self.leave();
    }
}
