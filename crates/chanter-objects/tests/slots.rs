//! Objects that end while calls wait for them, and the objects that follow in their memory.

#![cfg(not(miri))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_objects::{ObjectError, Owner, object};

/// Counts the values that live, as its method sees them.
struct Room {
    inside: Arc<AtomicUsize>,
    visits: u32,
}

#[object]
impl Room {
    /// Stays for some turns.
    #[method(mut)]
    async fn visit(&mut self) -> u32 {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "one visitor at a time");
        for _ in 0..3 {
            yield_now().await;
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.visits += 1;
        self.visits
    }
}

/// Visits an object four times at once. If it `ends` meanwhile, the visitors that wait are told.
async fn visits(ends: bool) {
    let owner = Owner::new(Room { inside: Arc::default(), visits: 0 });
    let room = owner.reference();
    let visitors: Vec<_> = (0..4).map(|_| spawn(async move { room.visit().await })).collect();
    yield_now().await;
    let owner = (!ends).then_some(owner);
    for visitor in visitors {
        let seen = visitor.await.unwrap();
        assert!(seen.is_ok() || ends && seen == Err(ObjectError::Ended), "{seen:?}");
    }
    if owner.is_some() {
        assert_eq!(room.visit().await, Ok(5), "the object is still there, and nobody else's");
    }
}

/// The memory of an object that has ended is used again, by other machines as well. It is given to one object only.
#[test]
fn an_object_shares_its_memory_with_no_other_and_with_no_waiter() {
    let end = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        for seed in 0..3_u32 {
            scope.spawn(move || {
                let machine = Machine::builder().vps(1 + seed as usize).build().unwrap();
                while Instant::now() < end {
                    machine.block_on(async move {
                        let all: Vec<_> =
                            (0..50).map(|n| spawn(visits((n + seed).is_multiple_of(2)))).collect();
                        for one in all {
                            one.await.unwrap();
                        }
                    });
                }
            });
        }
    });
}
