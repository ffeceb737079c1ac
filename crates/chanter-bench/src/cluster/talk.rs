//! Two threads of two processes that talk, each message checked.

use std::error::Error;

use chanter_cluster::{Buffer, Inbox, Plain, PollMode, ThreadName};

pub(super) type Failure = Box<dyn Error + Send + Sync>;

const TAG: u32 = 1;
const END: u32 = 2;

/// This thread, and the other one.
pub(super) struct Pair {
    pub(super) me: Inbox,
    pub(super) other: ThreadName,
    pub(super) is_first: bool,
}

impl Pair {
    /// Waits for the other process, which does the same. The first process speaks first. When it returns, the other
    /// one has nothing more to say.
    pub(super) async fn meet(&self) -> Result<(), Failure> {
        if self.is_first {
            self.me.send(self.other, END, &()).await?;
        }
        self.me.recv::<()>(self.other, END).await?;
        if !self.is_first {
            self.me.send(self.other, END, &()).await?;
        }
        Ok(())
    }

    /// Round trips. Each message carries its number. All but the first answer with the message that has come.
    pub(super) async fn talk(&self, form: PollMode, bytes: usize, trips: u32) -> Result<(), Failure> {
        let mut message = Plain(vec![0_u8; bytes]);
        for trip in 0..trips {
            if self.is_first {
                message.0[..4].copy_from_slice(&trip.to_le_bytes());
                self.me.send(self.other, TAG, &message).await?;
            }
            let got = self.me.recv::<Plain<u8>>(self.other, TAG).polling(form).await?.value;
            if got.0.len() != bytes || got.0[..4] != trip.to_le_bytes() {
                return Err(format!("message {trip} of {bytes} bytes was wrong").into());
            }
            if !self.is_first {
                self.me.send(self.other, TAG, &got).await?;
            }
        }
        Ok(())
    }

    /// The same, with messages that are not copied.
    pub(super) async fn talk_in_buffers(
        &self,
        form: PollMode,
        bytes: usize,
        trips: u32,
    ) -> Result<(), Failure> {
        let mut message = Some(Buffer::<u8>::zeroed(bytes));
        for trip in 0..trips {
            if self.is_first {
                let mut message = message.take().ok_or("the buffer is away")?;
                message[..4].copy_from_slice(&trip.to_le_bytes());
                self.me.send_buffer(self.other, TAG, message).await?;
            }
            let got = self.me.recv_buffer::<u8>(self.other, TAG).polling(form).await?.value;
            if got.len() != bytes || got[..4] != trip.to_le_bytes() {
                return Err(format!("message {trip} of {bytes} bytes was wrong").into());
            }
            if self.is_first {
                message = Some(got);
            } else {
                self.me.send_buffer(self.other, TAG, got).await?;
            }
        }
        Ok(())
    }

    /// A token of 8 bytes goes to and fro and counts its steps.
    pub(super) async fn token(&self, trips: u32) -> Result<(), Failure> {
        let mut steps = 0_u64;
        for _ in 0..trips {
            if self.is_first {
                self.me.send(self.other, TAG, &(steps + 1)).await?;
            }
            steps = self.me.recv::<u64>(self.other, TAG).await?.value;
            if !self.is_first {
                self.me.send(self.other, TAG, &(steps + 1)).await?;
            }
        }
        let count = u64::from(2 * trips);
        if self.is_first && steps != count {
            return Err(format!("the token has counted {steps} steps of {count}").into());
        }
        Ok(())
    }
}
