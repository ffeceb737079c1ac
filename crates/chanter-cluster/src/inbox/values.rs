//! The values of a batch, as their receiver reads them.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::wire::Buffer;

/// The values of one message, in the order in which they were added; see [`Inbox::recv_batch`](crate::Inbox::recv_batch). It is an iterator over
/// results: a value that cannot be read ends it, after its error.
pub struct Values<T> {
    bytes: Buffer<u8>,
    at: usize,
    values: PhantomData<fn() -> T>,
}

impl<T> Values<T> {
    pub(crate) fn of(bytes: Buffer<u8>) -> Self {
        Self { bytes, at: 0, values: PhantomData }
    }
}

impl<T> fmt::Debug for Values<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("bytes", &(self.bytes.len() - self.at)).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Iterator for Values<T> {
    type Item = Result<T, String>;

    fn next(&mut self) -> Option<Result<T, String>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        match postcard::take_from_bytes(rest) {
            Ok((value, left)) if left.len() < rest.len() => {
                self.at += rest.len() - left.len();
                Some(Ok(value))
            }
            failed => {
                self.at = self.bytes.len();
                let why = failed.err().map_or("a value takes no bytes".to_owned(), |error| error.to_string());
                Some(Err(format!("the values of a batch cannot be read: {why}")))
            }
        }
    }
}
