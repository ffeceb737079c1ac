//! An encoded value, in the place of its message.

use std::ops::Deref;
use std::sync::Arc;

use chanter_engine::wire::Body;
use serde::de::DeserializeOwned;

use super::contents::Contents;
use super::decode::decode;
use super::transfer::SenderTransfer;

/// Largest number of bytes that lie in the message itself.
const SHORT: usize = 64;
/// Upper bound of the bytes that precede a long piece, which are mostly one number.
const FEW: usize = 16;

/// An encoded value: few bytes in place, more in a [`Body`]. A message to another process needs a body; within a
/// process most messages are short.
#[derive(Debug)]
pub struct Written {
    /// Set if the value is longer than [`SHORT`], is a buffer, or carries senders.
    body: Option<Body>,
    length: usize,
    short: [u8; SHORT],
}

impl Written {
    /// An empty value.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { body: None, length: 0, short: [0; SHORT] }
    }

    /// Empties the value.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        if self.body.is_some() {
            self.drop_body();
        }
    }

    /// Kept out of line: a short message ends in a few instructions, and this takes many.
    #[inline(never)]
    fn drop_body(&mut self) {
        self.body = None;
    }

    /// Replaces the value by a body.
    #[inline(always)]
    pub(crate) fn set_body(&mut self, body: Body) {
        self.body = Some(body);
    }

    /// Appends a byte.
    #[inline(always)]
    pub(super) fn push(&mut self, byte: u8) {
        match &mut self.body {
            None if self.length < SHORT => {
                self.short[self.length] = byte;
                self.length += 1;
            }
            Some(body) => body.push(byte),
            None => self.spill(&[byte]),
        }
    }

    /// Appends a few bytes that were just written one by one. A read of all at once would make the processor wait for
    /// all of those writes.
    #[inline(always)]
    pub(super) fn extend_slowly(&mut self, more: &[u8]) {
        match &mut self.body {
            None => more.iter().for_each(|byte| self.push(*byte)),
            Some(body) => body.extend_from_slice(more),
        }
    }

    /// Appends bytes.
    #[inline(always)]
    pub(super) fn extend_from_slice(&mut self, more: &[u8]) {
        let after = self.length + more.len();
        match &mut self.body {
            None if after <= SHORT => {
                self.short[self.length..after].copy_from_slice(more);
                self.length = after;
            }
            Some(body) => body.extend_from_slice(more),
            None => self.spill(more),
        }
    }

    /// Moves a value into a body when it gets too long for its place.
    fn spill(&mut self, more: &[u8]) {
        let short = &self.short[..self.length];
        let body = self.body.get_or_insert_with(|| {
            let mut body = Body::with_capacity(short.len() + more.len());
            // A few bytes were mostly written one by one.
            if short.len() <= FEW {
                body.extend_slowly(short)
            } else {
                body.extend_from_slice(short)
            }
            body
        });
        body.extend_from_slice(more);
    }

    /// Adds senders that the value carries; such a value has a body.
    #[cold]
    pub(super) fn add_transfer(&mut self, transfer: Arc<SenderTransfer>) {
        self.spill(&[]);
        if let Some(body) = &mut self.body {
            body.add_transfer(transfer);
        }
    }

    /// Reads the value, which must take all the bytes.
    #[inline(always)]
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        match &self.body {
            None => decode(&self.short[..self.length]),
            Some(body) => body.decode(),
        }
    }

    /// Number of bytes that it takes on its way to another process, without the header.
    pub(crate) fn length_away(&self) -> usize {
        self.body.as_ref().map_or(self.length, Body::length_away)
    }

    /// Takes it out as a body, which has room for a header.
    pub(crate) fn take_body(&mut self) -> Body {
        self.body.take().unwrap_or_else(|| Body::copied_from(&self.short[..self.length]))
    }

    /// Whether it is a buffer, not a value.
    #[inline(always)]
    pub(crate) fn is_buffer(&self) -> bool {
        self.body.as_ref().is_some_and(Body::is_buffer)
    }
}

impl Deref for Written {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match &self.body {
            None => &self.short[..self.length],
            Some(body) => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_goes_into_a_body() {
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT] {
            let bytes: Vec<u8> = (0..length as u8).collect();
            let (mut one_by_one, mut at_once) = (Written::new(), Written::new());
            bytes.iter().for_each(|byte| one_by_one.push(*byte));
            at_once.extend_from_slice(&bytes);
            for mut written in [one_by_one, at_once] {
                assert_eq!(*written, *bytes);
                assert_eq!(written.body.is_none(), length <= SHORT);
                assert_eq!(*written.take_body(), *bytes);
                written.clear();
                assert!(written.is_empty());
            }
        }
    }
}
