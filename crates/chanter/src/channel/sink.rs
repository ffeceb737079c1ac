//! Senders as sinks, on any executor.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_sink::Sink;

use super::{IntoSend, SendError, Sender, TrySendError};
use crate::event::{Event, Sync};

/// A sender as a [`Sink`]; made by [`Sender::into_sink`].
pub struct SendSink<T> {
    sender: Sender<T>,
    /// The item that has no place yet.
    sending: Option<Pin<Box<Sync<IntoSend<T>>>>>,
}

impl<T> Sender<T> {
    /// This sender as a [`Sink`], for `forward` and similar functions.
    ///
    /// The sink takes one item beyond what the channel has room for. It offers that item at once. A receiver may take it
    /// even while nobody polls the sink. *Ready* and *flushed* mean that the item has been sent. *Closing* flushes, and
    /// leaves the channel open for others. Dropping the sink closes its side, and drops an item that nobody has taken.
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
    /// If `poll_ready` has not said before that the sink is ready.
    fn start_send(mut self: Pin<&mut Self>, item: T) -> Result<(), SendError<T>> {
        assert!(self.sending.is_none(), "the sink is not ready for an item");
        match self.sender.try_send(item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(item)) => Err(SendError(item)),
            Err(TrySendError::Full(item)) => {
                let mut sending = Box::pin(self.sender.clone().into_send(item).sync());
                // The send is offered here and now; a flush leaves a waker.
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
