//! Objects that serve some processes, and not others: as the connection proves who asks.

#![cfg(all(feature = "cluster", not(miri)))]

use chanter::prelude::*;
use chanter_cluster::{Caller, Process, local};
use chanter_objects::remote::enter;
use chanter_objects::{Lazy, ObjectError, Owner, Ref, object};
use serde::{Deserialize, Serialize};

/// The first and the second process.
fn is_clerk(caller: &Caller) -> bool {
    caller.process() <= 1
}

fn anybody(_: &Caller) -> bool {
    true
}

fn panics(_: &Caller) -> bool {
    panic!("this rule is broken");
}

#[derive(Serialize, Deserialize)]
struct File(u32);

#[object(remote, moves, allow = is_clerk)]
impl File {
    #[method(mut)]
    fn add(&mut self, more: u32) -> u32 {
        self.0 += more;
        self.0
    }

    #[method(read)]
    async fn ask(&self, k: Lazy<'_, u32>) {
        k.fill(self.0);
    }

    #[method(read, allow = anybody)]
    fn is_there(&self) -> bool {
        true
    }

    #[method(read, allow = panics)]
    fn nobody(&self) {}
}

/// As the processes `from` and `to` see it after it has been sent.
async fn sent<T: 'static + Send>(object: Ref<T>, from: &Process, to: &Process) -> Ref<T> {
    let bytes = enter(from, async { postcard::to_allocvec(&object).unwrap() }).await;
    enter(to, async { postcard::from_bytes(&bytes).unwrap() }).await
}

/// The answers of three methods.
async fn asked(
    file: Ref<File>,
    by: &Process,
) -> (Result<u32, ObjectError>, Result<u32, ObjectError>, Result<bool, ObjectError>) {
    enter(by, async { (file.add(1).await, file.ask().await, file.is_there().await) }).await
}

const REFUSED: (Result<u32, ObjectError>, Result<u32, ObjectError>, Result<bool, ObjectError>) =
    (Err(ObjectError::Refused), Err(ObjectError::Refused), Ok(true));

fn four() -> [Process; 4] {
    local(4).try_into().unwrap()
}

#[chanter::test]
async fn an_object_serves_whom_it_allows() {
    let [first, second, third, _] = four();
    let owner = Owner::new(File(0));
    let (by_second, by_third) =
        (sent(owner.reference(), &first, &second).await, sent(owner.reference(), &first, &third).await);
    assert_eq!(asked(by_second, &second).await, (Ok(1), Ok(1), Ok(true)));
    assert_eq!(asked(by_third, &third).await, REFUSED);
    assert_eq!(asked(owner.reference(), &first).await, (Ok(2), Ok(2), Ok(true)), "one's own are not judged");
    // A rule that panics lets nobody in, and the process goes on.
    let broken = spawn(enter(&second, async move { by_second.nobody().await })).join().await;
    assert!(broken.is_err() || broken.is_ok_and(|answer| answer.is_err()));
    assert_eq!(asked(by_second, &second).await, (Ok(3), Ok(3), Ok(true)));
}

/// One that has moved is judged at its home, and serves by a hint as its home does.
#[chanter::test]
async fn an_object_that_has_moved_serves_whom_it_allows() {
    let [first, second, third, fourth] = four();
    let owner = Owner::new(File(0));
    let seen =
        [sent(owner.reference(), &first, &second).await, sent(owner.reference(), &first, &third).await];
    enter(&first, owner.reference().migrate(3)).await.unwrap();
    for turn in 1..=3 {
        assert_eq!(asked(seen[0], &second).await, (Ok(turn), Ok(turn), Ok(true)));
        // Not by its home, nor where the hint leads that a method for anybody has told.
        assert_eq!(asked(seen[1], &third).await, REFUSED);
    }
    drop(fourth);
}

#[chanter::test]
async fn objects_are_placed_and_moved_by_whom_they_serve() {
    let [first, second, third, _fourth] = four();
    let unplaced = enter(&third, Owner::new_on(0, File(7))).await.unwrap_err();
    assert_eq!((unplaced.value.0, unplaced.why), (7, ObjectError::Refused));
    let placed = enter(&second, Owner::new_on(2, File(7))).await.unwrap();
    assert_eq!(asked(placed.reference(), &second).await, (Ok(8), Ok(8), Ok(true)));
    let owner = Owner::new(File(0));
    let by_third = sent(owner.reference(), &first, &third).await;
    assert_eq!(enter(&third, by_third.migrate(2)).await, Err(ObjectError::Refused));
    let by_second = sent(owner.reference(), &first, &second).await;
    assert_eq!(enter(&second, by_second.migrate(2)).await, Ok(()));
    // An object that was let in goes back to its home.
    assert_eq!(enter(&second, by_second.migrate(0)).await, Ok(()));
    assert_eq!(asked(by_third, &third).await, REFUSED);
}
