//! Events as streams and sinks, on any executor.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::{FusedStream, Stream};
use futures_sink::Sink;

use super::{Event, Sync};
use crate::channel::{SendError, SendEvent, Sender, TrySendError};

/// The endless stream of what `make`'s events yield, one after another.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::repeat;
/// # use futures::{StreamExt, executor::block_on};
/// let (tx, rx) = mailbox();
/// (0..3).for_each(|n| tx.try_send(n).unwrap());
/// let twice = repeat(move || rx.recv().wrap(|n| 2 * n.unwrap()));
/// assert_eq!(block_on(twice.take(3).collect::<Vec<_>>()), [0, 2, 4]);
/// ```
///
/// **Cancel safety.** Between two polls the stream may hold a synchronization,
/// which may commit in that time; its result waits in the stream. Dropping the
/// stream gives a message back. So do not keep one that you do not poll while
/// others want what it waits for. A [`Receiver`](crate::Receiver) is a stream
/// that holds nothing.
///
/// # Panics
/// Polling resumes panics of `make`, guards and `wrap`s; the stream can be
/// polled again, and then makes a new event.
pub fn repeat<F, E>(make: F) -> Repeat<F, E>
where
    F: FnMut() -> E,
    E: Event,
{
    Repeat { make, sync: None }
}

/// See [`repeat`] and [`Event::into_stream`].
#[must_use = "streams do nothing unless polled"]
pub struct Repeat<F, E: Event> {
    make: F,
    /// Pinned.
    sync: Option<Sync<E>>,
}

impl<F, E: Event> fmt::Debug for Repeat<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeat").field("waits", &self.sync.is_some()).finish_non_exhaustive()
    }
}

impl<F: FnMut() -> E, E: Event> Stream for Repeat<F, E> {
    type Item = E::Output;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E::Output>> {
        // SAFETY: `sync` is polled and dropped in place; `make` is not pinned.
        let (make, mut sync) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.make, Pin::new_unchecked(&mut this.sync))
        };
        if sync.is_none() {
            let event = make();
            sync.set(Some(event.sync()));
        }
        let mut clear = Clear { sync: sync.as_mut(), armed: true };
        let poll = clear.sync.as_mut().as_pin_mut().map_or(Poll::Pending, |sync| sync.poll(cx));
        clear.armed = poll.is_ready();
        poll.map(Some)
    }
}

/// Ends a synchronization that is over, or has panicked.
struct Clear<'a, E: Event> {
    sync: Pin<&'a mut Option<Sync<E>>>,
    armed: bool,
}

impl<E: Event> Drop for Clear<'_, E> {
    fn drop(&mut self) {
        if self.armed {
            self.sync.set(None);
        }
    }
}

/// Never ends.
impl<F: FnMut() -> E, E: Event> FusedStream for Repeat<F, E> {
    fn is_terminated(&self) -> bool {
        false
    }
}

/// A sender as a [`Sink`]; made by [`Sender::into_sink`].
pub struct SendSink<T> {
    sender: Sender<T>,
    /// The item that has no place yet.
    sending: Option<Pin<Box<Sync<SendEvent<T>>>>>,
}

impl<T> Sender<T> {
    /// This sender as a [`Sink`], for `forward` and its like.
    ///
    /// One item is taken beyond what the channel has room for: it is offered
    /// at once, and is sent when a receiver takes it, whether anybody polls the
    /// sink or not. *Ready* and *flushed* mean that it has been. *Closing*
    /// flushes, and does not close the channel for others: drop the sink.
    /// Dropping the sink drops an item that nobody has taken.
    ///
    /// An error gives the item back: [`SendError`].
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use futures::{SinkExt, executor::block_on};
    /// let (tx, rx) = bounded(2);
    /// let mut sink = tx.into_sink();
    /// block_on(async {
    ///     sink.send(1).await.unwrap();
    ///     sink.send(2).await.unwrap();
    /// });
    /// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
    /// ```
    pub fn into_sink(self) -> SendSink<T> {
        SendSink { sender: self, sending: None }
    }
}

impl<T> SendSink<T> {
    /// The sender of the sink.
    pub fn sender(&self) -> &Sender<T> {
        &self.sender
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        let sent = ready!(sending.as_mut().poll(cx));
        self.sending = None;
        Poll::Ready(sent)
    }
}

// The item lies in a box.
impl<T> Unpin for SendSink<T> {}

impl<T> fmt::Debug for SendSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendSink").field("sending", &self.sending.is_some()).finish_non_exhaustive()
    }
}

impl<T> Sink<T> for SendSink<T> {
    type Error = SendError<T>;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        self.poll_sent(cx)
    }

    /// # Panics
    /// Without a `poll_ready` that said so.
    fn start_send(mut self: Pin<&mut Self>, item: T) -> Result<(), SendError<T>> {
        assert!(self.sending.is_none(), "the sink is not ready for an item");
        match self.sender.try_send(item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(item)) => Err(SendError(item)),
            Err(TrySendError::Full(item)) => {
                let mut sending = Box::pin(self.sender.send(item).sync());
                // Offered here and now; whoever flushes leaves a waker.
                let mut cx = Context::from_waker(std::task::Waker::noop());
                match sending.as_mut().poll(&mut cx) {
                    Poll::Ready(sent) => sent,
                    Poll::Pending => {
                        self.sending = Some(sending);
                        Ok(())
                    }
                }
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        self.poll_sent(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        self.poll_sent(cx)
    }
}
