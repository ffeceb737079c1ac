//! What of another process's messages an inbox keeps, and what the process is owed for them.

use crate::node::{Kept, Window};

/// What of a process's messages is kept here: it may have sent no more than a [`Window`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    kept: Kept,
    /// What was received since it was told.
    owed: Owed,
    /// The process's link was told that this is worth saying.
    is_worth_saying: bool,
}

/// What has been received and its sender's process does not know of: so much more it may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

/// What there is to say when a message was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    /// The next message that goes to the process should say what it is owed.
    WorthSaying,
    /// The process must be told that.
    Due(Owed),
}

impl Account {
    /// A message of so many bytes comes. False: its sender does not keep within its window.
    #[inline(always)]
    pub(super) fn takes(&mut self, bytes: u64) -> bool {
        self.kept.takes(bytes)
    }

    /// A message of so many bytes was received.
    pub(super) fn received(&mut self, bytes: u64) -> News {
        if self.is_received_quietly(bytes) {
            return News::Nothing;
        }
        let owed = self.count(bytes);
        self.is_worth_saying = !Window::is_due(owed.messages, owed.bytes);
        if self.is_worth_saying {
            return News::WorthSaying;
        }
        self.owed = Owed::default();
        News::Due(owed)
    }

    /// The same, if there is nothing to say then. False: there is, and it does not count as received yet.
    #[inline(always)]
    pub(super) fn is_received_quietly(&mut self, bytes: u64) -> bool {
        let (messages, sum) = (self.owed.messages + 1, self.owed.bytes + bytes);
        let is_news = !self.is_worth_saying && Window::is_worth_saying(messages, sum);
        if is_news || Window::is_due(messages, sum) {
            return false;
        }
        self.count(bytes);
        true
    }

    /// What it is owed now.
    #[inline(always)]
    fn count(&mut self, bytes: u64) -> Owed {
        self.kept.gives(bytes);
        self.owed.messages += 1;
        self.owed.bytes += bytes;
        self.owed
    }

    /// What it is owed, which is told now.
    pub(super) fn take_owed(&mut self) -> Option<Owed> {
        self.is_worth_saying = false;
        (self.owed.messages > 0).then(|| std::mem::take(&mut self.owed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is received, what is owed is said in time: as worth saying, once, or when it is due.
    #[test]
    fn news_come_when_they_are_worth_saying_and_when_they_are_due() {
        let mut account = Account::default();
        let news = |account: &mut Account, count: u32| -> Vec<(u32, News)> {
            let all = (0..count).map(|_| {
                assert!(account.takes(10));
                account.received(10)
            });
            (1..).zip(all).filter(|(_, news)| *news != News::Nothing).collect()
        };
        assert_eq!(
            news(&mut account, 40),
            [(16, News::WorthSaying), (32, News::Due(Owed { messages: 32, bytes: 320 }))]
        );
        // Told by another message, it begins anew.
        assert_eq!(account.take_owed(), Some(Owed { messages: 8, bytes: 80 }));
        assert_eq!(account.take_owed(), None);
        assert_eq!(news(&mut account, 17), [(16, News::WorthSaying)]);
        assert_eq!(account.kept, Kept::default());
    }

    #[test]
    fn what_is_news_does_not_count_before_it_was_told() {
        let mut account = Account::default();
        for _ in 0..20 {
            assert!(account.takes(1));
        }
        assert_eq!((0..20).filter(|_| account.is_received_quietly(1)).count(), 15);
        assert_eq!(account.received(1), News::WorthSaying);
        assert!(account.is_received_quietly(1));
    }
}
