//! Calls under many schedules, and what a report says of objects that wait for each other.

#![cfg(not(miri))]

use chanter::deadlock::{ThreadState, Waiting, Wanted};
use chanter::prelude::*;
use chanter_explore::Explorer;
use chanter_objects::{ObjectError, Owner, Ref, object};

struct Account {
    balance: i64,
}

#[object]
impl Account {
    #[method(read)]
    fn balance(&self) -> i64 {
        self.balance
    }

    #[method(mut)]
    fn deposit(&mut self, amount: i64) {
        self.balance += amount;
    }

    /// Holds its own account while it waits for the other.
    #[method(mut)]
    async fn move_to(&mut self, to: Ref<Account>, amount: i64) -> Result<(), ObjectError> {
        self.balance -= amount;
        to.deposit(amount).await
    }
}

#[chanter::test(explore)]
async fn calls_exclude_in_every_schedule() {
    let account = Owner::new(Account { balance: 0 });
    let to = account.reference();
    let threads = [1, 2].map(|amount| {
        spawn(async move {
            to.with_mut_async(async |account| {
                let before = account.balance;
                yield_now().await;
                account.balance = before + amount;
            })
            .await
            .unwrap();
        })
    });
    to.deposit(4).await.unwrap();
    for thread in threads {
        thread.await.unwrap();
    }
    assert_eq!(to.balance().await, Ok(7));
}

#[test]
fn a_cycle_of_objects_is_named() {
    let failure = Explorer::new()
        .exhaustive()
        .check(|| async {
            let (a, b) = (Owner::new(Account { balance: 5 }), Owner::new(Account { balance: 5 }));
            let (a_ref, b_ref) = (a.reference(), b.reference());
            let there = spawn(async move { a_ref.move_to(b_ref, 1).await });
            let back = spawn(async move { b_ref.move_to(a_ref, 1).await });
            let _ = (there.await, back.await, a, b);
        })
        .unwrap_failure();
    let report = failure.deadlock().expect("a deadlock");
    assert_eq!(report.cycle, [1, 2], "{failure}");
    for thread in [1, 2] {
        let ThreadState::Blocked(waits) = &report.thread(thread).unwrap().state else { panic!("{failure}") };
        let [Waiting::Lock { wants: Wanted::Object, of, holders, .. }] = &waits[..] else {
            panic!("{failure}")
        };
        assert!(of.ends_with("Account"), "{of}");
        assert_eq!(holders[..], [3 - thread], "{failure}");
    }
    assert!(failure.to_string().contains("Account"), "{failure}");
}
