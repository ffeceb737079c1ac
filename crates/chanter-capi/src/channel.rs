//! Channels of words.

use std::ffi::c_int;

use chanter::{Event, Receiver, Sender, TryRecvError, TrySendError, bounded, channel, mailbox};

use crate::current;
use crate::door::{Limit, attempt, check, door, may_block, store, wait};
use crate::handle::{Held, Kind, Table};

pub(crate) type Destroy = unsafe extern "C" fn(u64);

/// A channel with both of its ends. Its values are words. So those that are left are destroyed here, and those that a
/// send still owns are destroyed by the send, if its thread is left.
pub(crate) struct Channel {
    pub(crate) sender: Sender<u64>,
    pub(crate) receiver: Receiver<u64>,
    pub(crate) destroy: Option<Destroy>,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.sender.close();
        if self.destroy.is_some() {
            while let Ok(value) = self.receiver.try_recv() {
                destroy(self.destroy, value);
            }
        }
    }
}

/// Destroys a value that nobody receives.
pub(crate) fn destroy(destroy: Option<Destroy>, value: u64) {
    if let Some(destroy) = destroy {
        // SAFETY: the program has given the destructor for the values of the channel.
        current::callback(|| unsafe { destroy(value) });
    }
}

/// The greatest capacity of a bounded channel.
const MOST: usize = (1 << 27) - 2;

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
            _ if capacity > MOST => return Err(libc::EINVAL),
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
        if limit == Limit::Now {
            return try_send(&held, value);
        }
        if limit == Limit::Forever && held.destroy.is_none() {
            return held.sender.send(value).sync_blocking().map_err(|_| libc::EPIPE);
        }
        let mut place = Some(value);
        let sent = attempt(|| wait(held.sender.send_from(&mut place), limit));
        // The caller has its value again if it was not sent, and if its stack is not left.
        sent.unwrap_or_else(|unwound| {
            if let Some(value) = place.filter(|_| unwound.leaves()) {
                destroy(held.destroy, value);
            }
            unwound.resume()
        })?
        .map_err(|_| libc::EPIPE)
    })
}

/// Sends at once, or not at all: the value stays with the caller then.
#[inline(always)]
pub(crate) fn try_send(channel: &Channel, value: u64) -> Result<(), c_int> {
    channel.sender.try_send(value).map_err(|error| match error {
        TrySendError::Closed(_) => libc::EPIPE,
        TrySendError::Full(_) => libc::ETIMEDOUT,
    })
}

/// Receives at once, or not at all.
#[inline(always)]
pub(crate) fn try_recv(channel: &Channel) -> Result<u64, c_int> {
    channel.receiver.try_recv().map_err(|error| match error {
        TryRecvError::Closed => libc::EPIPE,
        TryRecvError::Empty => libc::ETIMEDOUT,
    })
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
            limit => wait(held.receiver.recv(), limit)?.map_err(|_| libc::EPIPE)?,
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
