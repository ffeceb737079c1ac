//! Objects that are made in other processes, and that migrate.

#![cfg(all(feature = "cluster", not(miri)))]

#[path = "common/short.rs"]
mod short;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;
use chanter_cluster::engine::Local;
use chanter_cluster::{Process, local};
use chanter_objects::remote::{enter, limit_placed};
use chanter_objects::{Continuation, Lazy, ObjectError, Owner, Promise, Ref, object};
use serde::{Deserialize, Serialize};
use short::{SHORT, Short};

#[derive(Serialize, Deserialize)]
struct Page {
    text: String,
    reads: u32,
}

#[object(remote, moves)]
impl Page {
    #[method(mut)]
    fn read(&mut self) -> String {
        self.reads += 1;
        self.text.clone()
    }

    #[method(mut)]
    fn append(&mut self, more: String) -> u32 {
        self.text.push_str(&more);
        self.text.len() as u32
    }

    #[method(mut)]
    fn fail(&mut self) {
        panic!("it fails");
    }

    #[method(mut)]
    fn tell(&mut self, k: Continuation<u32>) {
        self.reads += 1;
        let _ = k.fill(self.reads);
    }

    #[method(mut)]
    async fn answer(&mut self, k: Lazy<'_, u32>) {
        self.reads += 1;
        k.fill(self.reads);
    }

    #[method(read)]
    async fn reads(&self, k: Lazy<'_, u32>) {
        k.fill(self.reads);
    }
}

fn page(text: &str) -> Page {
    Page { text: text.into(), reads: 0 }
}

/// As the processes `from` and `to` see it after it has been sent.
async fn sent<T: 'static + Send>(object: Ref<T>, from: &Process, to: &Process) -> Ref<T> {
    let bytes = enter(from, async { postcard::to_allocvec(&object).unwrap() }).await;
    enter(to, async { postcard::from_bytes(&bytes).unwrap() }).await
}

fn three() -> [Process; 3] {
    local(3).try_into().unwrap()
}

/// Waits for what comes in time, however long that takes.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        yield_now().await;
    }
}

#[chanter::test]
async fn an_object_is_made_elsewhere_and_ends_with_its_owner() {
    let [first, second, third] = three();
    let owner = enter(&first, Owner::new_on(1, page("a"))).await.unwrap();
    let remote = owner.reference();
    assert!(format!("{remote:?}").starts_with("Ref(1."));
    assert_eq!(remote.append("b".into()).await, Ok(2));
    let seen = sent(remote, &first, &third).await;
    assert_eq!(seen.read().await.as_deref(), Ok("ab"));
    assert_eq!(seen, sent(remote, &first, &third).await);
    let mine = sent(remote, &first, &second).await;
    assert_eq!(mine.read().await.as_deref(), Ok("ab"), "it is here");
    drop(owner);
    until(async || remote.read().await == Err(ObjectError::Ended)).await;
    assert_eq!(mine.read().await, Err(ObjectError::Ended));
}

#[chanter::test]
async fn what_cannot_be_placed_comes_back() {
    let [first, ..] = three();
    let unplaced = enter(&first, Owner::new_on(9, page("a"))).await.unwrap_err();
    assert_eq!((unplaced.value.text.as_str(), unplaced.why), ("a", ObjectError::Ended));
}

#[chanter::test]
async fn a_failed_object_is_forgiven_from_afar() {
    let [first, _second, _third] = three();
    let owner = enter(&first, Owner::new_on(1, page("a"))).await.unwrap();
    let remote = owner.reference();
    spawn(async move { remote.fail().await }).join().await.unwrap_err();
    assert_eq!(remote.read().await, Err(ObjectError::Poisoned));
    owner.forgive();
    until(async || remote.read().await.is_ok()).await;
}

/// From its home to two others, and back: each reference is good all the time.
#[chanter::test]
async fn an_object_migrates() {
    let [first, second, third] = three();
    let owner = Owner::new(page("a"));
    let home = owner.reference();
    let (at_second, at_third) = (sent(home, &first, &second).await, sent(home, &first, &third).await);
    for (turn, to) in [1, 2, 1, 0, 0, 2, 0].into_iter().enumerate() {
        enter(&first, home.migrate(to)).await.unwrap();
        // Twice: by its home, and by the hint.
        for _ in 0..2 {
            assert_eq!(enter(&first, home.into_read()).await.as_deref(), Ok("a"), "turn {turn}");
            assert_eq!(at_second.read().await.as_deref(), Ok("a"), "turn {turn}");
            assert_eq!(at_third.read().await.as_deref(), Ok("a"), "turn {turn}");
        }
        assert_eq!(at_second.reads().await, Ok(6 * (turn as u32 + 1)));
    }
    // Anybody may ask for it.
    enter(&third, at_third.migrate(1)).await.unwrap();
    assert_eq!(at_third.append("b".into()).await, Ok(2));
    drop(owner);
    until(async || at_third.read().await == Err(ObjectError::Ended)).await;
}

trait IntoRead {
    fn into_read(self) -> impl Future<Output = Result<String, ObjectError>>;
    fn into_answer(self) -> impl Future<Output = Result<u32, ObjectError>> + Send;
    fn into_tell(self, k: Continuation<u32>) -> impl Future<Output = Result<(), ObjectError>> + Send;
}

impl IntoRead for Ref<Page> {
    async fn into_read(self) -> Result<String, ObjectError> {
        self.read().await
    }

    async fn into_answer(self) -> Result<u32, ObjectError> {
        self.answer().await
    }

    async fn into_tell(self, k: Continuation<u32>) -> Result<(), ObjectError> {
        self.tell(k).await
    }
}

/// Nothing is lost or done twice while callers from everywhere go on: not what they ask by continuations either.
#[chanter::test]
async fn callers_do_not_notice() {
    let all = three();
    let owner = Owner::new(page(""));
    let home = owner.reference();
    let done = Arc::new(AtomicU32::new(0));
    let mut callers = Vec::new();
    for here in &all {
        let seen = sent(home, &all[0], here).await;
        let (here, done) = (here.clone(), Arc::clone(&done));
        callers.push(spawn(async move {
            let mut told = Vec::new();
            for turn in 0..200 {
                enter(&here, async { seen.append("x".into()).await }).await.unwrap();
                told.extend(match turn % 4 {
                    0 => Some(enter(&here, seen.into_answer()).await.unwrap()),
                    1 => {
                        let (promise, k) = Promise::new();
                        enter(&here, seen.into_tell(k)).await.unwrap();
                        Some(promise.await.unwrap())
                    }
                    _ => None,
                });
                done.fetch_add(1, Ordering::Relaxed);
            }
            told
        }));
    }
    // (A mover without pauses would always be there before the callers.)
    let (mut moved, mut seen) = (0_u32, 0);
    while seen < 600 {
        enter(&all[0], home.migrate(moved % 3)).await.unwrap();
        moved += 1;
        while done.load(Ordering::Relaxed) == seen {
            yield_now().await;
        }
        seen = done.load(Ordering::Relaxed);
    }
    let mut told = Vec::new();
    for caller in callers {
        told.extend(caller.join().await.unwrap());
    }
    told.sort_unstable();
    assert_eq!(told, (1..=300).collect::<Vec<_>>(), "each has been answered once");
    let text = enter(&all[0], home.into_read()).await.unwrap();
    assert_eq!((text.len(), text.replace('x', "").len()), (600, 0), "moved {moved} times");
}

/// Where it was has gone: the object has, too, and its owner's process says so.
#[chanter::test]
async fn an_object_goes_with_its_process() {
    let [first, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    let (first, second, killer) = (Process::start(first), Process::start(Arc::clone(&second)), second);
    let owner = enter(&first, Owner::new_on(1, page("a"))).await.unwrap();
    let moved = Owner::new(page("b"));
    enter(&first, moved.reference().migrate(1)).await.unwrap();
    killer.kill();
    for remote in [owner.reference(), moved.reference()] {
        until(async || matches!(enter(&first, remote.into_read()).await, Err(ObjectError::Lost { .. })))
            .await;
    }
    assert!(matches!(enter(&first, moved.reference().migrate(0)).await, Err(ObjectError::Lost { .. })));
    drop(second);
}

/// Objects that a process owns in others end with it.
#[chanter::test]
async fn an_object_goes_with_its_owners_process() {
    let [first, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
    let (first, second, killer) = (Process::start(Arc::clone(&first)), Process::start(second), first);
    let owner = enter(&first, Owner::new_on(1, page("a"))).await.unwrap();
    let there = sent(owner.reference(), &first, &second).await;
    assert_eq!(there.into_read().await.as_deref(), Ok("a"));
    killer.kill();
    until(async || there.into_read().await == Err(ObjectError::Ended)).await;
}

/// Forwards its answers to an object that may have moved.
struct Desk {
    page: Ref<Page>,
    asked: u32,
}

#[object(remote)]
impl Desk {
    #[method(mut)]
    async fn reads_of_page(&mut self, k: Lazy<'_, u32>) {
        self.asked += 1;
        k.forward(self.page.reads()).await;
    }

    /// Has the key of no method of a page.
    #[method(read)]
    fn asked(&self) -> u32 {
        self.asked
    }
}

/// The answer that comes from where the page is says where the page is, not the desk.
#[chanter::test]
async fn a_forward_to_a_moved_object_moves_nothing_else() {
    let [first, second, third] = three();
    let owner = Owner::new(page("a"));
    enter(&second, owner.reference().migrate(2)).await.unwrap();
    // The desk asks the page's home, which hands that on.
    let page = sent(owner.reference(), &second, &first).await;
    for home in [&first, &second] {
        let page = if home.number() == 0 { page } else { owner.reference() };
        let desk = Owner::new(Desk { page, asked: 0 });
        let seen: Ref<Desk> = sent(desk.reference(), home, &third).await;
        for turn in 1..=3 {
            assert_eq!(enter(&third, async { seen.reads_of_page().await }).await, Ok(0), "turn {turn}");
            assert_eq!(enter(&third, async { seen.asked().await }).await, Ok(turn));
        }
    }
}

const MIB: usize = 1 << 20;

/// Objects, arguments and answers that are longer than what may be under way together.
#[chanter::test]
async fn long_objects_move() {
    let [first, second, third] = three();
    let text = "x".repeat(5 * MIB);
    let owner = enter(&first, Owner::new_on(1, page(&text))).await.unwrap();
    let remote = owner.reference();
    assert_eq!(remote.append("y".repeat(6 * MIB)).await, Ok(11 * MIB as u32));
    assert_eq!(remote.read().await.unwrap().len(), 11 * MIB);
    let moves = Owner::new(page(&text));
    let seen = sent(moves.reference(), &first, &third).await;
    for to in [1, 2, 0, 1] {
        enter(&first, moves.reference().migrate(to)).await.unwrap();
        assert_eq!(seen.read().await.unwrap().len(), 5 * MIB);
    }
    // Several at a time go one after the other.
    let several = (0..3).map(|_| {
        let text = text.clone();
        spawn(enter(&first, async move { Owner::new_on(1, page(&text)).await }))
    });
    for placed in several.collect::<Vec<_>>() {
        let owner = placed.join().await.unwrap().unwrap();
        assert_eq!(owner.reference().append(String::new()).await, Ok(5 * MIB as u32));
    }
    drop(second);
}

/// A process accepts a limited number of bytes of each other one; an object above the limit comes back.
#[chanter::test]
async fn what_others_place_is_bounded() {
    let [first, second, third] = three();
    limit_placed(&second, MIB as u64);
    let text = "x".repeat(MIB / 4);
    let place = async |on: &Process| enter(on, Owner::new_on(1, page(&text))).await;
    let mut placed = Vec::new();
    for _ in 0..3 {
        placed.push(place(&first).await.unwrap());
    }
    let full = place(&first).await.unwrap_err();
    assert_eq!((full.value.text.len(), full.why), (MIB / 4, ObjectError::Full));
    assert_eq!(placed[0].reference().append(String::new()).await, Ok(MIB as u32 / 4), "what is there stays");
    // An object that would move there stays where it is.
    let moves = Owner::new(page(&text));
    assert_eq!(enter(&first, moves.reference().migrate(1)).await, Err(ObjectError::Full));
    assert_eq!(enter(&first, moves.reference().into_read()).await.map(|text| text.len()), Ok(MIB / 4));
    // The others have their own room.
    let of_third = place(&third).await.unwrap();
    assert_eq!(of_third.reference().append(String::new()).await, Ok(MIB as u32 / 4));
    // An object that ends or moves away makes room.
    placed.pop();
    until(async || enter(&first, moves.reference().migrate(1)).await.is_ok()).await;
    assert_eq!(place(&first).await.unwrap_err().why, ObjectError::Full);
    enter(&first, moves.reference().migrate(2)).await.unwrap();
    until(async || match place(&first).await {
        Ok(owner) => {
            placed.push(owner);
            true
        }
        Err(full) => {
            assert_eq!(full.why, ObjectError::Full);
            false
        }
    })
    .await;
}

/// An object longer than a message gives an error that says so, and an object that cannot be carried stays where it
/// is.
#[chanter::test]
async fn what_is_too_long_for_a_message_is_told() {
    let [first, second, third] =
        <[_; 3]>::try_from(Local::cluster(3)).unwrap().map(Short).map(Process::start);
    let text = "x".repeat(SHORT);
    let unplaced = enter(&first, Owner::new_on(1, page(&text))).await.unwrap_err();
    assert_eq!((unplaced.value.text.len(), unplaced.why), (SHORT, ObjectError::TooLong));
    let owner = Owner::new(page("a"));
    let home = owner.reference();
    let seen = sent(home, &first, &third).await;
    enter(&first, home.migrate(1)).await.unwrap();
    assert_eq!(
        enter(&third, async { seen.append(text.clone()).await }).await,
        Err(ObjectError::TooLong),
        "not asked"
    );
    // It grows there, and cannot come back.
    for turn in 1..=3 {
        let half = "x".repeat(SHORT / 2);
        assert_eq!(enter(&third, async { seen.append(half).await }).await, Ok(1 + turn * SHORT as u32 / 2));
    }
    for to in [0, 2] {
        assert_eq!(enter(&first, home.migrate(to)).await, Err(ObjectError::TooLong));
        assert_eq!(
            enter(&third, async { seen.append(String::new()).await }).await,
            Ok(1 + 3 * SHORT as u32 / 2)
        );
    }
    assert_eq!(enter(&third, seen.into_read()).await, Err(ObjectError::TooLong), "an answer");
    drop(second);
}
