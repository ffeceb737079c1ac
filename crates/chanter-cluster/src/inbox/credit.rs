//! What of another process's messages an inbox keeps, and what the process is owed for them.

use crate::node::{Kept, SendWindow};

/// What of a process's messages is kept here: it may have sent no more than a [`SendWindow`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreditAccount {
    kept: Kept,
    /// What was received since it was told.
    credit: Credit,
    /// The process's link was told that this is worth saying.
    is_worth_saying: bool,
}

/// What has been received and its sender's process does not know of: so much more it may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

/// What there is to say when a message was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CreditUpdate {
    Nothing,
    /// The next message that goes to the process should say what it is owed.
    WorthSaying,
    /// The process must be told that.
    Due(Credit),
}

impl CreditAccount {
    /// A message of so many bytes comes. False: its sender does not keep within its window.
    #[inline(always)]
    pub(super) fn takes(&mut self, bytes: u64) -> bool {
        self.kept.takes(bytes)
    }

    /// A message of so many bytes was received.
    pub(super) fn received(&mut self, bytes: u64) -> CreditUpdate {
        if self.is_received_quietly(bytes) {
            return CreditUpdate::Nothing;
        }
        let credit = self.count(bytes);
        self.is_worth_saying = !SendWindow::is_due(credit.messages, credit.bytes);
        if self.is_worth_saying {
            return CreditUpdate::WorthSaying;
        }
        self.credit = Credit::default();
        CreditUpdate::Due(credit)
    }

    /// The same, if there is nothing to say then. False: there is, and it does not count as received yet.
    #[inline(always)]
    pub(super) fn is_received_quietly(&mut self, bytes: u64) -> bool {
        let (messages, sum) = (self.credit.messages + 1, self.credit.bytes + bytes);
        let is_news = !self.is_worth_saying && SendWindow::is_worth_saying(messages, sum);
        if is_news || SendWindow::is_due(messages, sum) {
            return false;
        }
        self.count(bytes);
        true
    }

    /// What it is owed now.
    #[inline(always)]
    fn count(&mut self, bytes: u64) -> Credit {
        self.kept.gives(bytes);
        self.credit.messages += 1;
        self.credit.bytes += bytes;
        self.credit
    }

    /// What it is owed, which is told now.
    pub(super) fn take_credit(&mut self) -> Option<Credit> {
        self.is_worth_saying = false;
        (self.credit.messages > 0).then(|| std::mem::take(&mut self.credit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is received, what is owed is said in time: as worth saying, once, or when it is due.
    #[test]
    fn news_come_when_they_are_worth_saying_and_when_they_are_due() {
        let mut account = CreditAccount::default();
        let update = |account: &mut CreditAccount, count: u32| -> Vec<(u32, CreditUpdate)> {
            let all = (0..count).map(|_| {
                assert!(account.takes(10));
                account.received(10)
            });
            (1..).zip(all).filter(|(_, update)| *update != CreditUpdate::Nothing).collect()
        };
        assert_eq!(
            update(&mut account, 40),
            [(16, CreditUpdate::WorthSaying), (32, CreditUpdate::Due(Credit { messages: 32, bytes: 320 }))]
        );
        // Told by another message, it begins anew.
        assert_eq!(account.take_credit(), Some(Credit { messages: 8, bytes: 80 }));
        assert_eq!(account.take_credit(), None);
        assert_eq!(update(&mut account, 17), [(16, CreditUpdate::WorthSaying)]);
        assert_eq!(account.kept, Kept::default());
    }

    #[test]
    fn what_is_news_does_not_count_before_it_was_told() {
        let mut account = CreditAccount::default();
        for _ in 0..20 {
            assert!(account.takes(1));
        }
        assert_eq!((0..20).filter(|_| account.is_received_quietly(1)).count(), 15);
        assert_eq!(account.received(1), CreditUpdate::WorthSaying);
        assert!(account.is_received_quietly(1));
    }
}
