//! Stack-local values: a value that code within a call finds on the stack of the call.
//!
//! A thread-local could be set before the call and set back after it. This fails when a fiber
//! suspends within the call. Another fiber of the OS thread finds the value, and the two set it
//! back in the wrong order. The values here lie in a list on their own stack. A fiber takes its
//! list along when it is suspended.
//!
//! INV-STACK-LOCAL: `INNERMOST` is the list of the stack that runs. Its nodes lie on that stack,
//! and live until their calls return or unwind. Each switch of stacks exchanges the lists
//! (`exchange`). A fiber begins with an empty one.
//!
//! A program that does not use these values pays one load for each switch of stacks.

use std::any::TypeId;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value in a list.
pub(crate) struct Node {
    outer: *const Node,
    of: TypeId,
    value: *const (),
}

/// Whether the process has ever set a value.
static IS_USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The list of the current stack: its innermost value. It has no destructor, because it may be used
    /// while the destructors of other values run.
    static INNERMOST: Cell<*const Node> = const { Cell::new(ptr::null()) };
}

/// Runs `body`. Within it, on this stack, [`with`] finds `value` by its type.
#[inline(always)]
pub fn set<T: 'static, R>(value: &T, body: impl FnOnce() -> R) -> R {
    // ORDER: Relaxed: the list of this stack is exchanged on this OS thread only, which sees its own store.
    if !IS_USED.load(Ordering::Relaxed) {
        IS_USED.store(true, Ordering::Relaxed);
    }
    let outer = INNERMOST.get();
    let node = Node { outer, of: TypeId::of::<T>(), value: ptr::from_ref(value).cast() };
    INNERMOST.set(&raw const node);
    let _back = Back(outer);
    body()
}

/// Runs `body` with the innermost value of type `T` on this stack, or `None` if there is none.
#[inline]
pub fn with<T: 'static, R>(body: impl FnOnce(Option<&T>) -> R) -> R {
    let mut next = INNERMOST.get();
    // SAFETY: INV-STACK-LOCAL: the node's call has not returned, since it is further out on this stack.
    while let Some(node) = unsafe { next.as_ref() } {
        if node.of == TypeId::of::<T>() {
            // SAFETY: the value is a `T`, as its node says. It is borrowed until the body of its
            // `set` has returned, which is further out on this stack than `body`.
            return body(Some(unsafe { &*node.value.cast::<T>() }));
        }
        next = node.outer;
    }
    body(None)
}

/// Visits all values of type `T` on this stack, the innermost first.
pub fn all<T: 'static>(mut visit: impl FnMut(&T)) {
    let mut next = INNERMOST.get();
    // SAFETY: INV-STACK-LOCAL: the node's call has not returned, since it is further out on this
    // stack.
    while let Some(node) = unsafe { next.as_ref() } {
        if node.of == TypeId::of::<T>() {
            // SAFETY: the value is a `T`, as its node says. It is borrowed until the body of its
            // `set` has returned, which is further out than `visit`.
            visit(unsafe { &*node.value.cast::<T>() });
        }
        next = node.outer;
    }
}

/// Runs `body` without the caller's values, because `body` runs unrelated threads on this stack.
#[inline]
pub(crate) fn apart<R>(body: impl FnOnce() -> R) -> R {
    let _back = Back(exchange(ptr::null()));
    body()
}

/// Sets the list of the stack that is switched to, and returns the list of the current one.
#[inline(always)]
pub(crate) fn exchange(list: *const Node) -> *const Node {
    // ORDER: Relaxed: see `set`.
    if IS_USED.load(Ordering::Relaxed) { INNERMOST.replace(list) } else { ptr::null() }
}

/// Restores the list when it is dropped, also if the body unwinds.
struct Back(*const Node);

impl Drop for Back {
    #[inline(always)]
    fn drop(&mut self) {
        INNERMOST.set(self.0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_of_a_type_is_found() {
        let found = || (with(|n: Option<&u32>| n.copied()), with(|text: Option<&&str>| text.copied()));
        assert_eq!(found(), (None, None));
        set(&1_u32, || {
            set(&"one", || {
                assert_eq!(found(), (Some(1), Some("one")));
                set(&2_u32, || {
                    assert_eq!(found(), (Some(2), Some("one")));
                    let mut numbers = Vec::new();
                    all(|number: &u32| numbers.push(*number));
                    assert_eq!(numbers, [2, 1]);
                });
                apart(|| assert_eq!(found(), (None, None)));
                let unwinds = || set(&3_u32, || assert_eq!(found().0, None, "it unwinds"));
                assert!(std::panic::catch_unwind(unwinds).is_err());
                assert_eq!(found(), (Some(1), Some("one")));
            });
        });
        assert_eq!(found(), (None, None));
    }

    /// Several fibers of one OS thread have calls that end in the order in which they began.
    #[test]
    fn a_fiber_takes_its_values_along() {
        use crate::prelude::*;
        let found = || with(|number: Option<&u32>| number.copied());
        crate::machine::block_on(async move {
            let fiber = |number: u32, turns: u32| {
                crate::thread::fiber::Builder::new().on(0).spawn(move || {
                    assert_eq!(found(), None, "a fiber begins with none");
                    set(&number, || {
                        for _ in 0..turns {
                            crate::thread::fiber::yield_now();
                            assert_eq!(found(), Some(number));
                            // A blocking operation is polled on the fiber's stack.
                            crate::machine::block_on(async { yield_now().await });
                            assert_eq!(found(), Some(number));
                        }
                    });
                    assert_eq!(found(), None);
                })
            };
            let fibers = [fiber(1, 3), fiber(2, 5), fiber(3, 1)];
            for fiber in fibers {
                fiber.join().await.unwrap();
                assert_eq!(found(), None);
            }
        });
    }

    /// A fiber is ended while its call goes on.
    #[test]
    fn a_fiber_that_is_ended_leaves_nothing() {
        use crate::prelude::*;
        let found = || with(|number: Option<&u32>| number.copied());
        let machine = crate::machine::Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            struct Looks(fn() -> Option<u32>);
            impl Drop for Looks {
                fn drop(&mut self) {
                    assert_eq!(self.0(), Some(7), "its destructors run on its stack");
                }
            }
            drop(spawn_fiber(move || {
                set(&7_u32, || {
                    let _looks = Looks(found);
                    never::<()>().sync_blocking();
                });
            }));
            yield_now().await;
        });
        drop(machine);
        assert_eq!(found(), None);
    }
}
