//! Loom models of the locks and of the stack.
//!
//! Every model of the crate runs through [`check`], which bounds the search at
//! two preemptions. To search deeper, or one model only:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 \
//!     cargo test -p chanter --lib --release models::stack -- --test-threads=1
//! ```
//!
//! `LOOM_CHECKPOINT_FILE` and `LOOM_LOG=1` replay what a failing model did.
//! A test `.._is_needed` runs a model with one ordering of
//! [`order`](super::order) weakened, and asserts that the model fails.

use std::future::Future;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, Waker};

use loom::sync::Arc;
use loom::thread;

use super::atomic::Ordering::{self, Relaxed};
use super::order::weakened;
use super::{Cell, Linked, Lock, Stack, UnsafeCell};

/// Runs `model` in every interleaving within the bound.
pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    builder().check(model);
}

/// For three threads that do much: every interleaving with one preemption
/// less, then as many with all of them as fit into a few seconds
/// (`LOOM_MAX_PERMUTATIONS`).
pub(crate) fn check_wide(model: impl Fn() + Sync + Send + Clone + 'static) {
    const PERMUTATIONS: usize = 60_000;
    let (mut fewer, mut all) = (builder(), builder());
    fewer.preemption_bound = fewer.preemption_bound.map(|bound| bound.saturating_sub(1));
    fewer.check(model.clone());
    all.max_permutations = all.max_permutations.or(Some(PERMUTATIONS));
    all.check(model);
}

fn builder() -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = builder.max_branches.max(10_000);
    builder
}

/// Asserts that `model` fails once the ordering `name` is no more than `weaker`.
pub(crate) fn needs(name: &'static str, weaker: Ordering, model: impl Fn() + Sync + Send + 'static) {
    match weakened::noticed(name, weaker, || check(model)) {
        // Loom gave up, which proves nothing.
        Some(how) if how.contains("maximum number of branches") => panic!("{name} as {weaker:?}: {how}"),
        Some(how) => println!("{name} as {weaker:?}: {how}"),
        None => panic!("the model does not need {name} to be more than {weaker:?}"),
    }
}

/// Synchronizes on an event, or waits for a future, on a modelled OS thread.
pub(crate) fn block_on<F: IntoFuture>(future: F) -> F::Output {
    loom::future::block_on(future.into_future())
}

/// Polls `future` once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A message whose contents loom checks, and whose end it waits for.
pub(crate) struct Message(Arc<Cell<u32>>);

// SAFETY: one thread at a time has the message, which is what the models check.
unsafe impl Send for Message {}

impl Message {
    pub(crate) fn new(number: u32) -> Self {
        Self(Arc::new(Cell::new(number)))
    }

    pub(crate) fn number(&self) -> u32 {
        // The number is written too, so that a second owner would be noticed.
        let number = self.0.get();
        self.0.set(number);
        number
    }
}

/// Mutual exclusion and visibility: two threads that add under the lock never overlap (loom checks the cell inside).
/// No addition is lost, whether by `lock` or by `try_lock`.
fn two_adders() {
    let lock = Arc::new(Lock::new(0));
    let other = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || *lock.lock() += 1)
    };
    let mut added = 1;
    if let Some(mut value) = lock.try_lock() {
        *value += 1;
        added += 1;
    }
    other.join().unwrap();
    assert_eq!(*lock.lock(), added);
}

#[test]
fn lock_excludes_and_publishes() {
    check(two_adders);
}

#[test]
fn lock_acquire_is_needed() {
    needs("lock_acquire", Relaxed, two_adders);
}

#[test]
fn lock_release_is_needed() {
    needs("lock_release", Relaxed, two_adders);
}

/// A node with contents, to see that they travel with it.
pub(crate) struct Node {
    link: UnsafeCell<*mut Node>,
    contents: Cell<u32>,
}

// SAFETY: `link` is for stacks alone.
unsafe impl Linked for Node {
    fn link(&self) -> &UnsafeCell<*mut Self> {
        &self.link
    }
}

/// A node that is sent to another thread as a frame is: by its address.
pub(crate) struct Owned(pub(crate) NonNull<Node>);

// SAFETY: a token: its holder owns the node.
unsafe impl Send for Owned {}

impl Owned {
    pub(crate) fn new(contents: u32) -> Self {
        let node = Node { link: UnsafeCell::new(ptr::null_mut()), contents: Cell::new(contents) };
        Self(NonNull::from(Box::leak(Box::new(node))))
    }

    pub(crate) fn free(self) -> u32 {
        // SAFETY: `new` leaked the box, and the token owns it.
        unsafe { Box::from_raw(self.0.as_ptr()) }.contents.get()
    }

    /// Writes to the node, then pushes it; gives it back if that fails.
    pub(crate) fn push(self, stack: &Stack<Node>) -> Result<(), Self> {
        // SAFETY: the token owns the node, and gives it up on success.
        unsafe {
            let contents = &self.0.as_ref().contents;
            contents.set(contents.get() + 10);
            stack.push(self.0).map_err(|_| self)
        }
    }
}

/// INV-STACK: each node that two threads push is taken once, and whole.
fn pushed_by_two() {
    let stack = Arc::new(Stack::new());
    let pushers = [1, 2].map(|name| {
        let stack = Arc::clone(&stack);
        thread::spawn(move || Owned::new(name).push(&stack).is_ok())
    });
    let mut seen = [false; 2];
    while seen != [true; 2] {
        // Loom reports a thread that waits for ever, so nothing is lost: INV-STACK.
        thread::yield_now();
        for node in stack.take_all().oldest_first() {
            let name = Owned(node).free() - 10;
            let twice = std::mem::replace(&mut seen[name as usize - 1], true);
            assert!(!twice, "INV-STACK: taken twice");
        }
    }
    for pusher in pushers {
        assert!(pusher.join().unwrap());
    }
    assert!(stack.is_empty());
}

#[test]
fn stack_gives_each_node_once() {
    check(pushed_by_two);
}

#[test]
fn stack_release_is_needed() {
    needs("frame_return", Relaxed, pushed_by_two);
}

#[test]
fn stack_acquire_is_needed() {
    needs("frame_take", Relaxed, pushed_by_two);
}

/// INV-STACK, closing: every node is either among those taken at the end or
/// back with its pusher.
fn closed_while_pushing() {
    let stack = Arc::new(Stack::new());
    let pushers = [1, 2].map(|name| {
        let stack = Arc::clone(&stack);
        thread::spawn(move || match Owned::new(name).push(&stack) {
            Ok(()) => 0,
            Err(node) => node.free() - 10,
        })
    });
    let taken: u32 = stack.close().map(|node| Owned(node).free() - 10).sum();
    let kept: u32 = pushers.map(|pusher| pusher.join().unwrap()).iter().sum();
    assert_eq!(taken + kept, 3, "INV-STACK: lost or taken twice");
    assert_eq!(stack.close().count(), 0);
}

#[test]
fn stack_closing_loses_nothing() {
    check(closed_while_pushing);
}

#[test]
fn stack_acquire_is_needed_to_close() {
    needs("frame_take", Relaxed, closed_while_pushing);
}
