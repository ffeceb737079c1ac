//! The asynchronous event of a send, of which nobody asks for the later result.

use super::asynchronous::{AsyncEvent, Asynchronously, WHAT, asynchronously};
use super::gather::Kind;
use crate::channel::{SendError, SendEvent, Sender};
use crate::event::{Event, always, guard};
use crate::frame::catch_panic;

/// The asynchronous event of sending `message`: the caller goes on at once.
///
/// Not the same as a mailbox: each send waits in a thread of its own, so that
/// [`wrap_later`](AsyncEvent::wrap_later) can act on it. If nothing does, that thread is a
/// parasite which has only its message left when it blocks: it costs what
/// [`Sender::asend`] does. (Such a message outlives the machine: it waits in the
/// channel.)
///
/// There is no promise of order: parasites usually begin in order, but one may be queued
/// instead (deep stack, another processor that is idle), and hosts run when the policy
/// says. Where order matters, use a mailbox, or [`Sender::asend`].
#[inline(always)]
pub fn asend<T: Send + 'static>(sender: &Sender<T>, message: T) -> AsyncSend<T> {
    AsyncSend { whole: asynchronously(sender.send(message)) }
}

/// See [`asend`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct AsyncSend<T> {
    whole: Asynchronously<SendEvent<T>>,
}

impl<T: Send + 'static> AsyncSend<T> {
    /// Nobody looks at the result.
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
