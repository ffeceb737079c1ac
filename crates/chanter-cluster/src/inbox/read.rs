//! How a message is read: as a value, or as the buffer that it is.

use bytemuck::Pod;
use serde::de::DeserializeOwned;

use crate::wire::{Body, Buffer};

/// How a [receive](super::Recv) reads what it has got. Sealed: there are the two below.
pub trait Read<T>: sealed::Sealed + 'static {
    /// What was sent. Else the body, and what is wrong with it.
    #[doc(hidden)]
    fn read(body: Body) -> Result<T, (Body, String)>;
}

/// As a value.
#[derive(Clone, Copy, Debug)]
pub enum AsValue {}

/// As a [`Buffer`], without a copy.
#[derive(Clone, Copy, Debug)]
pub enum AsBuffer {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::AsValue {}
    impl Sealed for super::AsBuffer {}
}

impl<T: DeserializeOwned> Read<T> for AsValue {
    #[inline]
    fn read(body: Body) -> Result<T, (Body, String)> {
        if body.is_buffer() {
            return Err((body, "it is a buffer, not a value: receive it with `recv_buffer`".to_owned()));
        }
        body.decode().map_err(|error| (body, error))
    }
}

impl<T: Pod> Read<Buffer<T>> for AsBuffer {
    fn read(body: Body) -> Result<Buffer<T>, (Body, String)> {
        Buffer::read(body)
    }
}
