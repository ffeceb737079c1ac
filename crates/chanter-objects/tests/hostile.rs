//! Hostile requests on objects: all services of objects are asked with bytes that nearly make sense. (`chanter_cluster::fuzz` does
//! this for frames.)

#![cfg(all(feature = "cluster", not(miri)))]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;
use chanter_cluster::__table::{Called, SERVICES};
use chanter_cluster::engine::Local;
use chanter_cluster::wire::{Body, Number};
use chanter_cluster::{CallError, Process};
use chanter_objects::remote::enter;
use chanter_objects::{Continuation, Lazy, ObjectError, Owner, Ref, object};
use serde::{Deserialize, Serialize};

/// Numbers that no object has, as generations: a free slot's, a poisoned one's, and that of a reference to nothing.
const RESERVED: [u32; 3] = [0, u32::MAX - 1, u32::MAX];
/// Inputs that are tried. `CHANTER_FUZZ` sets another number, and `CHANTER_FUZZ_SEED` other inputs.
const INPUTS: u64 = 40_000;

#[derive(Serialize, Deserialize)]
struct Text(String);

#[object(remote, moves)]
impl Text {
    #[method(read)]
    fn length(&self) -> u32 {
        assert!(self.0.chars().all(|letter| letter == 'x'), "this is no text of ours");
        self.0.len() as u32
    }

    #[method(mut)]
    async fn append(&mut self, more: u8) -> u32 {
        yield_now().await;
        self.0.extend(std::iter::repeat_n('x', more.into()));
        self.length()
    }

    #[method(read)]
    async fn ask(&self, k: Lazy<'_, u32>) {
        k.fill(self.length());
    }

    #[method(read)]
    fn tell(&self, k: Continuation<u32>) {
        let _ = k.fill(self.length());
    }
}

#[derive(Serialize, Deserialize)]
struct Pair(u64, u64);

#[object(remote, moves)]
impl Pair {
    #[method(mut)]
    fn swap(&mut self) -> u64 {
        assert_eq!(self.0 ^ self.1, MASK, "this is no pair of ours");
        std::mem::swap(&mut self.0, &mut self.1);
        self.0
    }
}

/// Counts how often it is written.
#[derive(Deserialize)]
struct Counted;

static WRITTEN: AtomicU32 = AtomicU32::new(0);

impl Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITTEN.fetch_add(1, Ordering::SeqCst);
        serializer.serialize_unit_struct("Counted")
    }
}

#[object(remote, moves)]
impl Counted {
    #[method(read)]
    fn exists(&self) -> bool {
        true
    }
}

const MASK: u64 = 0x5555_5555_5555_5555;

fn pair(number: u64) -> Pair {
    Pair(number, number ^ MASK)
}

/// The claims of a process about an object in a request.
type Name = (u32, u32, u32);

fn bytes_of(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A request: how it has come, and its arguments.
fn request((slot, generation): (u32, u32), how: u8, home: Option<Name>, arguments: &[u8]) -> Vec<u8> {
    let mut bytes = bytes_of(&[slot, generation]);
    bytes.push(how);
    if let Some((process, slot, generation)) = home {
        bytes.extend(bytes_of(&[process, slot, generation]));
    }
    bytes.extend_from_slice(arguments);
    bytes
}

fn call(from: &Process, to: u32, service: &'static str, bytes: &[u8]) -> Option<Called> {
    from.at(to).call_raw(service, Number::of(service), Body::copied_from(bytes)).ok()
}

/// The name under which all processes know what ends so.
fn service(end: &str) -> &'static str {
    let found = SERVICES.iter().map(|service| service.name()).find(|name| name.contains(end));
    found.unwrap_or_else(|| panic!("there is no service {end}"))
}

/// All that this program serves of objects.
fn services() -> Vec<&'static str> {
    let names = SERVICES.iter().map(|service| service.name());
    names.filter(|name| name.starts_with("chanter_objects::") || name.starts_with(module_path!())).collect()
}

/// The numbers of an object's name, as that process sees it.
fn numbers<T: Send + 'static>(of: Ref<T>, here: &Process) -> Name {
    let bytes = now(enter(here, async { postcard::to_allocvec(&of).unwrap() }));
    postcard::from_bytes(&bytes).unwrap()
}

/// As that process sees the object of that name.
fn seen<T: Send + 'static>(name: Name, here: &Process) -> Ref<T> {
    let bytes = postcard::to_allocvec(&name).unwrap();
    now(enter(here, async { postcard::from_bytes(&bytes).unwrap() }))
}

/// Yields the output of a future that does not block.
fn now<F: Future>(future: F) -> F::Output {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => unreachable!("it does not block"),
    }
}

/// Three processes, and one more that has gone.
async fn three_and_one_that_has_gone() -> [Process; 3] {
    let [first, second, third, last] = <[_; 4]>::try_from(Local::cluster(4)).unwrap().map(Arc::new);
    let killer = Arc::clone(&last);
    let [first, second, third, last] = [first, second, third, last].map(Process::start);
    killer.kill();
    while [&first, &second, &third].iter().any(|here| here.down(3).is_none()) {
        yield_now().await;
    }
    drop(last);
    [first, second, third]
}

/// A slot that is free has generation 0 in its word, as have those that never had an object. A request that came
/// through a process in the middle was once let in after any process had gone.
#[chanter::test]
async fn numbers_that_no_object_has_are_refused() {
    let [first, second, _third] = three_and_one_that_has_gone().await;
    let live = Owner::new(Text("x".repeat(9)));
    let (_, live_slot, live_generation) = numbers(live.reference(), &first);
    let free_slot = numbers(Owner::new(pair(1)).reference(), &first).1;
    for service in [
        service("::Text::length"),
        service("::Text::append"),
        service("::Text::ask"),
        service("::Pair::swap"),
    ] {
        for slot in [live_slot, free_slot, 63] {
            for generation in RESERVED {
                let homes = [
                    (0, None),
                    (1, Some((3, 5, 1))),
                    (2, Some((3, 5, 1))),
                    (1, Some((1, 5, 1))),
                    (2, Some((0, 5, 1))),
                ];
                for (how, home) in homes {
                    let bytes = request((slot, generation), how, home, &[1]);
                    let answer = call(&second, 0, service, &bytes).unwrap().await;
                    assert!(
                        matches!(answer, Err(CallError::BadRequest(_))),
                        "{generation}, {how}: {answer:?}"
                    );
                }
            }
            // Nor is there a home of such a name.
            for generation in RESERVED {
                let bytes = request((slot, live_generation), 1, Some((3, 5, generation)), &[1]);
                let answer = call(&second, 0, service, &bytes).unwrap().await;
                assert!(matches!(answer, Err(CallError::BadRequest(_))), "{answer:?}");
            }
        }
    }
    assert_eq!(live.reference().length().await, Ok(9));
}

/// A process takes home what it owns, and nothing else: an object of another owner is neither entered nor written.
#[chanter::test]
async fn objects_of_others_are_not_taken_home() {
    let [first, second, _third] = three_and_one_that_has_gone().await;
    let owner = Owner::new(Counted);
    let (_, slot, generation) = numbers(owner.reference(), &first);
    let moves = <Counted as chanter_objects::remote::Moves>::NAME;
    for lease in [0, 1, 77] {
        // The second request of those about moves, under a lease that nobody has given.
        let bytes = request((slot, generation), 0, None, &[1, lease]);
        let answer = call(&second, 0, moves, &bytes).unwrap().await.unwrap();
        assert_eq!(answer[0] & 1, 1, "it is an error: {answer:?}");
    }
    assert_eq!(WRITTEN.load(Ordering::SeqCst), 0);
    assert_eq!(owner.reference().exists().await, Ok(true));
}

/// A request for a hosted object runs if that object has moved here from that home. Otherwise a process could claim
/// that its own object has moved to the place of another process's object. Callers of the first would then reach the
/// second.
#[chanter::test]
async fn a_guest_is_asked_for_by_the_name_of_its_home() {
    let [first, second, third] = three_and_one_that_has_gone().await;
    let length = service("::Text::length");
    let theirs = Owner::new(Text("x".repeat(3)));
    let native = Owner::new(Text("x".repeat(5)));
    let moves = Owner::new(Text("x".repeat(7)));
    let (_, slot, generation) = numbers(native.reference(), &first);
    let ask = async |name: (u32, u32), how, home| {
        let bytes = request(name, how, Some(home), &[]);
        call(&third, 0, length, &bytes).unwrap().await.map(|answer| answer.to_vec())
    };
    let of_theirs = numbers(theirs.reference(), &second);
    for how in [1, 2] {
        // It goes to the home that was named, which is asked as such.
        assert_eq!(ask((slot, generation), how, of_theirs).await, Ok(vec![0, 3]), "how {how}");
        let of_gone = ask((slot, generation), how, (3, 1, 1)).await.unwrap();
        assert_eq!(of_gone[0] & 1, 1, "nothing ran: {of_gone:?}");
    }
    // A real hosted object is asked by its home's name alone.
    enter(&second, moves.reference().migrate(0)).await.unwrap();
    let home = numbers(moves.reference(), &second);
    let told = call(&third, 1, length, &request((home.1, home.2), 0, None, &[])).unwrap().await.unwrap();
    assert_eq!(told[0], 2, "a value, and a place");
    let word = |at: usize| u32::from_le_bytes(told[at..at + 4].try_into().unwrap());
    assert_eq!((word(1), word(5), word(9)), home, "the object that is there");
    let hosted = (word(17), word(21));
    assert_eq!(ask(hosted, 2, home).await, Ok(vec![0, 7]));
    assert_eq!(ask(hosted, 2, of_theirs).await, Ok(vec![0, 3]));
}

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }

    fn word(&mut self) -> u32 {
        const EDGES: [u32; 10] = [0, 1, 2, 3, 63, 64, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];
        self.of(&EDGES)
    }

    /// A request that nearly makes sense, of one of those names.
    fn request(&mut self, names: &[Name]) -> Vec<u8> {
        let (_, slot, generation) = self.of(names);
        let slot = if self.below(8) == 0 { self.word() } else { slot };
        let generation = if self.below(4) == 0 { self.word() } else { generation };
        let mut home = self.of(names);
        home.0 = self.below(5) as u32;
        if self.below(4) == 0 {
            home.2 = self.word();
        }
        let how = self.below(4) as u8;
        let arguments: Vec<u8> = (0..self.below(12)).map(|_| self.below(9) as u8).collect();
        request((slot, generation), how, (how != 0).then_some(home), &arguments)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.below(256) as u8),
                _ => {
                    let edge = self.word().to_le_bytes();
                    let many = edge.len().min(bytes.len() - at);
                    bytes[at..at + many].copy_from_slice(&edge[..many]);
                }
            }
        }
    }
}

/// Whatever comes, the process goes on: its own objects are what they were, and those of others answer.
#[chanter::test]
async fn whatever_is_asked_the_process_goes_on() {
    let number = |variable, default| {
        std::env::var(variable).map_or(default, |set| set.parse().expect("the variable is a number"))
    };
    let (inputs, seed): (u64, u64) = (number("CHANTER_FUZZ", INPUTS), number("CHANTER_FUZZ_SEED", 1));
    let [first, second, third] = three_and_one_that_has_gone().await;
    let services = services();
    assert!(services.len() >= 12, "{services:?}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // The slots: some of their own, one moved here, one moved away, one whose owner is in another process, and free
    // slots.
    let text = Owner::new(Text("x".repeat(9)));
    let moved_here = Owner::new(pair(3));
    enter(&third, moved_here.reference().migrate(0)).await.unwrap();
    let moved_away = Owner::new(Text("x".repeat(4)));
    enter(&first, moved_away.reference().migrate(2)).await.unwrap();
    let placed = enter(&third, Owner::new_on(0, pair(4))).await.unwrap();
    let mut names = vec![
        numbers(text.reference(), &first),
        numbers(moved_away.reference(), &first),
        numbers(moved_here.reference(), &third),
        numbers(placed.reference(), &third),
        numbers(Owner::new(pair(5)).reference(), &first),
        (0, 40, 1),
    ];
    // Where they are, as far as they are asked for there.
    names.extend((0..16).map(|slot| (0, slot, 1 + slot % 3)));
    let mut pending = VecDeque::new();
    for input in 0..inputs {
        let mut bytes = random.request(&names);
        random.mutate(&mut bytes);
        let service = random.of(&services);
        match random.below(4) {
            0 => drop(second.at(0).post_raw(service, Number::of(service), Body::copied_from(&bytes))),
            _ => pending.extend(call(&second, 0, service, &bytes)),
        }
        while pending.len() > 64 {
            pending.pop_front();
        }
        if input % 16 == 0 {
            yield_now().await;
        }
        if input % 500 == 0 {
            let text: Ref<Text> = seen(names[0], &third);
            let away: Ref<Text> = seen(names[1], &third);
            let what = format!("input {input} of seed {seed}");
            // A peer may call what it can name, and may ask that an object move. It cannot make it something else.
            let length = enter(&third, async { text.length().await }).await;
            assert!(length.is_ok_and(|length| length >= 9), "{what}: {length:?}");
            let length = enter(&third, async { away.length().await }).await;
            assert!(length.is_ok_and(|length| length >= 4), "{what}: {length:?}");
            let swapped = enter(&third, async { moved_here.reference().swap().await }).await;
            assert!(swapped.is_ok_and(|number| number == 3 || number == 3 ^ MASK), "{what}: {swapped:?}");
            let swapped = enter(&third, async { placed.reference().swap().await }).await;
            assert!(swapped.is_ok_and(|number| number == 4 || number == 4 ^ MASK), "{what}: {swapped:?}");
        }
    }
    drop(pending);
    drop(placed);
    let ended: Ref<Pair> = seen(names[3], &second);
    while ended.swap().await != Err(ObjectError::Ended) {
        yield_now().await;
    }
}
