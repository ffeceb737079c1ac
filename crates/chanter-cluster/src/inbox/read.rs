//! Reading a message: as a value, as a buffer, or as a batch of values.

use bytemuck::Pod;
use serde::de::DeserializeOwned;

use super::values::Values;
use crate::wire::{Buffer, Written};

/// The way in which a [receive](super::Recv) reads its message. Sealed: [`AsValue`], [`AsBuffer`] and
/// [`AsBatch`] implement it.
pub trait Read<T>: sealed::Sealed + 'static {
    /// Reads the message. On an error, which says why, the message is still in place.
    #[doc(hidden)]
    fn read(written: &mut Written) -> Result<T, String>;
}

/// Reads a message as a value.
#[derive(Clone, Copy, Debug)]
pub enum AsValue {}

/// Reads a message as a [`Buffer`], without a copy.
#[derive(Clone, Copy, Debug)]
pub enum AsBuffer {}

/// Reads a message as the values of a batch.
#[derive(Clone, Copy, Debug)]
pub enum AsBatch {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::AsValue {}
    impl Sealed for super::AsBatch {}
    impl Sealed for super::AsBuffer {}
}

impl<T: DeserializeOwned> Read<T> for AsValue {
    #[inline(always)]
    fn read(written: &mut Written) -> Result<T, String> {
        if written.is_buffer() {
            return Err("it is a buffer, not a value: receive it with `recv_buffer`".to_owned());
        }
        written.decode()
    }
}

impl<T: Pod> Read<Buffer<T>> for AsBuffer {
    #[inline(always)]
    fn read(written: &mut Written) -> Result<Buffer<T>, String> {
        Buffer::read(written.take_body()).map_err(|unread| {
            let (body, error) = *unread;
            written.set_body(body);
            error
        })
    }
}

impl<T: DeserializeOwned> Read<Values<T>> for AsBatch {
    fn read(written: &mut Written) -> Result<Values<T>, String> {
        AsBuffer::read(written).map(Values::of)
    }
}
