//! How a message is read: as a value, or as the buffer that it is.

use bytemuck::Pod;
use serde::de::DeserializeOwned;

use crate::wire::{Buffer, Written};

/// How a [receive](super::Recv) reads what it has got. Sealed: there are the two below.
pub trait Read<T>: sealed::Sealed + 'static {
    /// What was sent. Else what is wrong with it, which is still there.
    #[doc(hidden)]
    fn read(written: &mut Written) -> Result<T, String>;
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
