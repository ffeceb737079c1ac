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

/// The part of an answer behind its head.
pub(crate) enum Content {
    /// Nothing.
    Empty,
    /// All of it, at once.
    Whole(Bytes),
    /// Chunks from a file processor, `left` bytes in all; it blocks until each is taken.
    Chunks {
        /// The channel from which they come.
        chunks: Receiver<io::Result<Bytes>>,
        /// Number of bytes that are still to come.
        left: u64,
        /// That of the processor: a connection that is stalled gives it up.
        turn: Turn,
    },
    /// Chunks whose lengths nobody knows beforehand, up to an empty one.
    Stream(Receiver<io::Result<Bytes>>),
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

    /// Notes the status, which is decided now.
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

    /// `None`: nobody knows yet.
    fn len(&self) -> Option<u64> {
        match &self.content {
            Content::Empty => Some(0),
            Content::Whole(bytes) => Some(bytes.len() as u64),
            Content::Chunks { left, .. } => Some(*left),
            Content::Stream(_) => None,
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
                let chunk = ready!(next(chunks, cx))?;
                *left = left.saturating_sub(chunk.len() as u64);
                chunk
            }
            Content::Stream(chunks) => ready!(next(chunks, cx))?,
        };
        if matches!(this.content, Content::Whole(_)) || chunk.is_empty() {
            this.content = Content::Empty;
        }
        if chunk.is_empty() {
            return Poll::Ready(None);
        }
        this.exchange.sent(chunk.len());
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The next chunk. An error cuts the connection: more was promised, and silence would look like the end.
fn next(chunks: &mut Receiver<io::Result<Bytes>>, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    let chunk = ready!(Pin::new(chunks).poll_next(cx));
    Poll::Ready(chunk.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into())))
}
