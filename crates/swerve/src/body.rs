//! The body of an answer, and the exchange that ends when the body does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use chanter::prelude::Receiver;
use futures_core::Stream;
use http_body::{Frame, SizeHint};

use crate::meter::Meter;
use crate::pace::Turn;
use crate::record::Record;

/// What follows the head of an answer.
pub(crate) enum Content {
    /// Nothing.
    Empty,
    /// All of it, at once.
    Whole(Bytes),
    /// Chunks from a file processor, `left` bytes in all; it blocks until each is taken.
    Chunks {
        /// Where they come from.
        chunks: Receiver<io::Result<Bytes>>,
        /// How many bytes are still to come.
        left: u64,
        /// That of the processor: a connection that is stalled gives it up.
        turn: Turn,
    },
}

/// One request and its answer. Dropping it ends the exchange, wherever that happens: after the last
/// byte, or when the client has gone.
pub(crate) struct Exchange {
    meter: Arc<Meter>,
    record: Option<Box<Record>>,
}

impl Exchange {
    pub(crate) fn new(meter: Arc<Meter>, record: Option<Box<Record>>) -> Exchange {
        meter.request();
        Exchange { meter, record }
    }

    /// The status is decided.
    pub(crate) fn answer_with(&mut self, status: u16) {
        if let Some(record) = &mut self.record {
            record.status = status;
        }
    }

    fn sent(&mut self, bytes: usize) {
        if let Some(record) = &mut self.record {
            record.sent += bytes as u64;
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.meter.answered(self.record.take());
    }
}

/// A [`Content`] on its way to the client.
pub(crate) struct Body {
    content: Content,
    exchange: Exchange,
}

impl Body {
    pub(crate) fn new(content: Content, exchange: Exchange) -> Body {
        if let Content::Chunks { turn, .. } = &content {
            exchange.meter.sends(Some(turn.clone()));
        }
        Body { content, exchange }
    }

    fn len(&self) -> u64 {
        match &self.content {
            Content::Empty => 0,
            Content::Whole(bytes) => bytes.len() as u64,
            Content::Chunks { left, .. } => *left,
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Content::Chunks { .. } = self.content {
            self.exchange.meter.sends(None);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let chunk = match &mut this.content {
            Content::Empty | Content::Chunks { left: 0, .. } => return Poll::Ready(None),
            Content::Whole(bytes) => std::mem::take(bytes),
            Content::Chunks { chunks, left, .. } => {
                // An error cuts the connection: the length was promised, and silence would look
                // like a shorter file.
                let chunk = match ready!(Pin::new(chunks).poll_next(cx)) {
                    Some(chunk) => chunk?,
                    None => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
                };
                *left = left.saturating_sub(chunk.len() as u64);
                chunk
            }
        };
        if matches!(this.content, Content::Whole(_)) {
            this.content = Content::Empty;
        }
        this.exchange.sent(chunk.len());
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}
