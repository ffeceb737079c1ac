//! Channels of words.

use std::ffi::c_int;
use std::mem;

use chanter::{Event, Receiver, Sender, TryRecvError, TrySendError, bounded, channel, mailbox};

use crate::current;
use crate::door::{Limit, check, door, may_block, store, wait};
use crate::handle::{Held, Kind, Table};

type Destroy = unsafe extern "C" fn(u64);

/// A value on its way. It is destroyed as the channel says, unless it is taken out.
pub(crate) struct Message {
    value: u64,
    destroy: Option<Destroy>,
}

impl Message {
    #[inline(always)]
    pub(crate) fn into_value(self) -> u64 {
        let value = self.value;
        mem::forget(self);
        value
    }
}

impl Drop for Message {
    #[inline]
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the program has given the destructor for the values of this channel.
            current::callback(|| unsafe { destroy(self.value) });
        }
    }
}

/// A channel with both of its ends.
pub(crate) struct Channel {
    pub(crate) sender: Sender<Message>,
    pub(crate) receiver: Receiver<Message>,
    destroy: Option<Destroy>,
}

impl Channel {
    #[inline(always)]
    pub(crate) fn message(&self, value: u64) -> Message {
        Message { value, destroy: self.destroy }
    }
}

static CHANNELS: Table<Channel> = Table::new(Kind::Channel);

#[inline(always)]
pub(crate) fn channel_of(handle: u64) -> Result<Held<Channel>, c_int> {
    CHANNELS.get(handle).ok_or(libc::EINVAL)
}

/// Makes a channel. See `chanter.h`.
///
/// # Safety
/// `channel` may be written. `destroy` may be called with each value that is sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_channel_create(
    capacity: usize,
    destroy: Option<Destroy>,
    channel: *mut u64,
) -> c_int {
    door(|| {
        check(channel)?;
        let (sender, receiver) = match capacity {
            0 => self::channel(),
            usize::MAX => mailbox(),
            // More values than memory can hold are no limit.
            _ if capacity > isize::MAX as usize / size_of::<Message>() => mailbox(),
            _ => bounded(capacity),
        };
        let made = Channel { sender, receiver, destroy };
        let (handle, _) = CHANNELS.insert(made).ok_or(libc::ENOMEM)?;
        // SAFETY: the caller keeps the contract.
        unsafe { store(channel, handle) }
    })
}

/// Sends a value. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_send(channel: u64, value: u64, deadline: u64) -> c_int {
    door(|| {
        let held = channel_of(channel)?;
        let limit = Limit::of(deadline);
        if limit != Limit::Now {
            may_block()?;
        }
        // The caller has its value again with each error from here on.
        let message = held.message(value);
        match limit {
            Limit::Forever => held.sender.send(message).sync_blocking().map_err(|error| {
                error.0.into_value();
                libc::EPIPE
            }),
            Limit::Now => try_send(&held, message),
            Limit::At(time) => {
                let mut place = Some(message);
                let sent = wait(held.sender.send_from(&mut place), Limit::At(time));
                place.map(Message::into_value);
                sent?.map_err(|_| libc::EPIPE)
            }
        }
    })
}

/// Sends at once, or not at all: the value stays with the caller then.
#[inline(always)]
pub(crate) fn try_send(channel: &Channel, message: Message) -> Result<(), c_int> {
    channel.sender.try_send(message).map_err(|error| {
        let is_closed = matches!(error, TrySendError::Closed(_));
        let code = if is_closed { libc::EPIPE } else { libc::ETIMEDOUT };
        error.into_message().into_value();
        code
    })
}

/// Receives at once, or not at all.
#[inline(always)]
pub(crate) fn try_recv(channel: &Channel) -> Result<u64, c_int> {
    match channel.receiver.try_recv() {
        Ok(message) => Ok(message.into_value()),
        Err(TryRecvError::Closed) => Err(libc::EPIPE),
        Err(_) => Err(libc::ETIMEDOUT),
    }
}

/// Receives a value. See `chanter.h`.
///
/// # Safety
/// `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_recv(channel: u64, value: *mut u64, deadline: u64) -> c_int {
    door(|| {
        check(value)?;
        let held = channel_of(channel)?;
        let received = match Limit::of(deadline) {
            Limit::Now => try_recv(&held)?,
            limit => match wait(held.receiver.recv(), limit)? {
                Ok(message) => message.into_value(),
                Err(_) => return Err(libc::EPIPE),
            },
        };
        // SAFETY: the caller keeps the contract.
        unsafe { store(value, received) }
    })
}

/// Closes a channel. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_channel_close(channel: u64) -> c_int {
    door(|| {
        channel_of(channel)?.sender.close();
        Ok(())
    })
}

/// Closes a channel and frees its handle. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_channel_free(channel: u64) -> c_int {
    door(|| {
        let held = CHANNELS.close(channel).ok_or(libc::EINVAL)?;
        held.sender.close();
        Ok(())
    })
}

/// Stores the number of values in a channel. See `chanter.h`.
///
/// # Safety
/// `length` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_channel_length(channel: u64, length: *mut usize) -> c_int {
    door(|| {
        let held = channel_of(channel)?;
        // SAFETY: the caller keeps the contract.
        unsafe { store(length, held.receiver.len()) }
    })
}
