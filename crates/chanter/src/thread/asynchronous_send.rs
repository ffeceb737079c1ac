//! The asynchronous event of a send whose later result is not wanted.

use super::asynchronous::{AsyncEvent, Asynchronously, WHAT, asynchronously};
use super::gather::Kind;
use crate::channel::{SendError, SendEvent, Sender};
use crate::event::{Event, always, guard};
use crate::frame::catch_panic;

/// The asynchronous event of sending `message`. The caller goes on at once.
///
/// This differs from a mailbox: each send waits in a thread of its own, so that
/// [`wrap_later`](AsyncEvent::wrap_later) can act on it. Without a later part, that thread is a parasite. When it
/// blocks it has only its message left, so it costs as much as [`Sender::asend`]. (Such a message outlives the
/// machine: it waits in the channel.)
///
/// The order of messages is not promised. Parasites usually begin in order, but one may be queued instead (little
/// stack is left, or another processor is idle). Hosts run when the policy says. Where order matters, use a mailbox,
/// or [`Sender::asend`].
#[inline(always)]
pub fn asend<T: Send + 'static>(sender: &Sender<T>, message: T) -> AsyncSend<T> {
    AsyncSend { whole: asynchronously(sender.send(message)) }
}

/// The asynchronous event of [`asend`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct AsyncSend<T> {
    whole: Asynchronously<SendEvent<T>>,
}

impl<T: Send + 'static> AsyncSend<T> {
    /// Starts the send, and discards its result.
    #[inline(always)]
    fn leave(self) {
        if let Err(unsent) = self.whole.event.leave() {
            catch_panic(|| drop(unsent));
        }
    }
}

impl<T: Send + 'static> AsyncEvent for AsyncSend<T> {
    type Now = ();
    type Later = Result<(), SendError<T>>;

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn initiate<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(Self::Later) + Send + 'static,
    {
        self.whole.initiate(kind, later)
    }

    #[allow(private_interfaces, reason = "the kind is chosen by `on_hosts`")]
    fn commit<L>(self, kind: Kind, later: L) -> impl Event<Output = ()>
    where
        L: FnOnce(Self::Later) + Send + 'static,
    {
        self.whole.commit(kind, later)
    }

    fn operate<L>(self, later: L) -> impl Event<Output = ()> + Send + 'static
    where
        L: FnOnce(Self::Later) + Send + 'static,
    {
        self.whole.operate(later)
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
