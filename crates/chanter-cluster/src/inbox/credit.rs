//! Credit accounts: how much of another process's messages an inbox keeps, and how much credit the process is owed.

use crate::node::room::{Kept, is_due, is_worth_saying};

/// The account of one process: its messages kept here, at most a send window of them, and its credit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreditAccount {
    kept: Kept,
    /// Messages and bytes received since the process was last told.
    credit: Credit,
    /// Set once the process's link knows that the credit is worth carrying.
    is_worth_saying: bool,
}

/// Messages and bytes that were received without the sender's process knowing. It may send as much again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

/// The notice that the receipt of a message calls for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CreditUpdate {
    Nothing,
    /// The next message to the process should carry its credit.
    WorthSaying,
    /// The process must be told this credit now.
    Due(Credit),
}

impl CreditAccount {
    /// Counts an arriving message of `bytes` bytes. False: its sender exceeds its window.
    #[inline(always)]
    pub(super) fn takes(&mut self, bytes: u64) -> bool {
        self.kept.takes(bytes)
    }

    /// Whether the process may send little or nothing before some of its messages are received.
    pub(super) fn is_full(&self) -> bool {
        self.kept.is_full()
    }

    /// Counts the receipt of a message of `bytes` bytes.
    pub(super) fn received(&mut self, bytes: u64) -> CreditUpdate {
        if self.is_received_quietly(bytes) {
            return CreditUpdate::Nothing;
        }
        let credit = self.count(bytes);
        self.is_worth_saying = !is_due(credit.messages, credit.bytes);
        if self.is_worth_saying {
            return CreditUpdate::WorthSaying;
        }
        self.credit = Credit::default();
        CreditUpdate::Due(credit)
    }

    /// Counts the receipt if it calls for no notice. False: it calls for one, and the message is not counted yet.
    #[inline(always)]
    pub(super) fn is_received_quietly(&mut self, bytes: u64) -> bool {
        let (messages, sum) = (self.credit.messages + 1, self.credit.bytes + bytes);
        let is_news = !self.is_worth_saying && is_worth_saying(messages, sum);
        if is_news || is_due(messages, sum) {
            return false;
        }
        self.count(bytes);
        true
    }

    /// Adds a received message to the credit, and returns the credit.
    #[inline(always)]
    fn count(&mut self, bytes: u64) -> Credit {
        self.kept.gives(bytes);
        self.credit.messages += 1;
        self.credit.bytes += bytes;
        self.credit
    }

    /// Takes the credit, which the caller tells the process now.
    pub(super) fn take_credit(&mut self) -> Option<Credit> {
        self.is_worth_saying = false;
        (self.credit.messages > 0).then(|| std::mem::take(&mut self.credit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Credit is told in time: once as worth saying, or when it is due.
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
        // After a message has carried the credit, the account begins anew.
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
