//! A value, written, where its message lies.

use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Body;
use super::codec::decode;
use super::transfer::SenderTransfer;

/// So many bytes lie in the message itself.
const SHORT: usize = 64;
/// A number in front of what is long has at most so many.
const FEW: usize = 16;

/// A value, written: few bytes in place, more in a [`Body`]. What goes to another process needs a body; within a process most
/// messages are short.
#[derive(Debug)]
pub struct Written {
    /// If there are more than few bytes, or it is a buffer.
    body: Option<Body>,
    length: usize,
    short: [u8; SHORT],
}

impl Written {
    /// Nothing yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { body: None, length: 0, short: [0; SHORT] }
    }

    /// Nothing any more.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        if self.body.is_some() {
            self.drop_body();
        }
    }

    /// Apart: a short message ends in a few instructions, and this is many.
    #[inline(never)]
    fn drop_body(&mut self) {
        self.body = None;
    }

    /// That body instead.
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

    /// Appends few bytes that have just been written one by one: to read them at once the processor would wait for all of them.
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

    /// It gets too long to lie in place.
    fn spill(&mut self, more: &[u8]) {
        let short = &self.short[..self.length];
        let body = self.body.get_or_insert_with(|| {
            let mut body = Body::with_capacity(short.len() + more.len());
            // Few were mostly written one by one.
            if short.len() <= FEW {
                body.extend_slowly(short)
            } else {
                body.extend_from_slice(short)
            }
            body
        });
        body.extend_from_slice(more);
    }

    /// It carries these, too: what carries something has a body.
    #[cold]
    pub(super) fn add_parcel(&mut self, transfer: Arc<SenderTransfer>) {
        self.spill(&[]);
        if let Some(body) = &mut self.body {
            body.add_parcel(transfer);
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

    /// How many bytes it takes on its way to another process, the header aside.
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
