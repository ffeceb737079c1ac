//! The pool of stacks: each virtual processor keeps the stacks of its ended fibers, by size, and
//! uses the last one first. Only its worker uses the pool. A stack that a caller has lent is not kept.

use std::io;

use super::stack::{LARGEST, SMALLEST, Stack};
use crate::sched::limits::{STACKS_KEPT, STACKS_MAPPED, STACKS_WARM};

/// The number of size classes, one for each power of two.
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;

/// The free stacks of a virtual processor.
#[derive(Default)]
pub(super) struct Pool {
    classes: [Class; CLASSES],
    /// The number of stacks in all classes.
    count: usize,
    /// The class of the stack that was put back last, if none was taken since.
    put_last: Option<usize>,
}

/// Where a stack comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The OS.
    New,
    /// The pool.
    Kept,
    /// The fiber that has just ended: no stack was taken or put back since.
    JustEnded,
}

#[derive(Default)]
struct Class {
    /// The free stacks of the class, which are taken from the end.
    free: Vec<Stack>,
    /// The number of stacks at the beginning of `free` that have no pages.
    clean: usize,
}

/// The size class of a stack of at least `size` bytes.
fn class_of(size: usize) -> io::Result<usize> {
    if size > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the largest stack has a gibibyte"));
    }
    Ok((size.max(SMALLEST).next_power_of_two() / SMALLEST).ilog2() as usize)
}

impl Pool {
    /// Takes a stack of at least `size` bytes. Returns it, and where it comes from.
    ///
    /// # Errors
    /// If the OS refuses, or `size` is more than [`LARGEST`].
    pub(super) fn take(&mut self, size: usize) -> io::Result<(Stack, Origin)> {
        let index = class_of(size)?;
        let origin = if self.put_last.take() == Some(index) { Origin::JustEnded } else { Origin::Kept };
        let class = &mut self.classes[index];
        match class.free.pop() {
            Some(stack) => {
                class.clean = class.clean.min(class.free.len());
                self.count -= 1;
                Ok((stack, origin))
            }
            None => Ok((Stack::new(SMALLEST << index)?, Origin::New)),
        }
    }

    /// Puts back the stack of a fiber that has ended. Returns it if the class is full, or if it is
    /// lent; the caller then drops it.
    #[must_use]
    pub(super) fn put(&mut self, stack: Stack) -> Option<Stack> {
        if stack.is_lent() {
            return Some(stack);
        }
        let index = (stack.size() / SMALLEST).ilog2() as usize;
        let class = &mut self.classes[index];
        if class.free.len() < STACKS_KEPT {
            class.free.push(stack);
            self.count += 1;
            self.put_last = Some(index);
            None
        } else {
            Some(stack)
        }
    }

    /// Whether [`shrink`](Self::shrink) would give something back.
    pub(super) fn is_fat(&self) -> bool {
        let is_fat =
            |class: &Class| class.free.len() > class.clean + STACKS_WARM || class.free.len() > STACKS_MAPPED;
        self.count > STACKS_WARM && self.classes.iter().any(is_fat)
    }

    /// Gives excess pages and stacks back to the OS, since the processor is idle.
    pub(super) fn shrink(&mut self) {
        for class in &mut self.classes {
            if class.free.len() > STACKS_MAPPED {
                // The warm ones are at the end.
                let excess = class.free.len() - STACKS_MAPPED;
                class.free.drain(..excess);
                class.clean = class.clean.saturating_sub(excess);
                self.count -= excess;
            }
            let cold = class.free.len().saturating_sub(STACKS_WARM);
            if class.clean < cold {
                class.free[class.clean..cold].iter().for_each(Stack::forget_contents);
                class.clean = cold;
            }
        }
    }

    /// Gives all stacks back.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.classes.iter().map(|class| class.free.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_powers_of_two() {
        let mut pool = Pool::default();
        for (asked, got) in [(0, SMALLEST), (SMALLEST, SMALLEST), (SMALLEST + 1, 2 * SMALLEST)] {
            assert_eq!(pool.take(asked).unwrap().0.size(), got);
        }
        assert_eq!(class_of(LARGEST).unwrap(), CLASSES - 1);
        assert!(class_of(LARGEST + 1).is_err());
    }

    #[test]
    fn the_last_stack_of_a_size_is_used_first() {
        let mut pool = Pool::default();
        let (small, origin) = pool.take(SMALLEST).unwrap();
        let (large, _) = pool.take(4 * SMALLEST).unwrap();
        assert_eq!(origin, Origin::New);
        let place = small.head();
        assert!(pool.put(small).is_none() && pool.put(large).is_none());
        let (again, origin) = pool.take(SMALLEST).unwrap();
        assert!(origin == Origin::Kept && again.head() == place);
    }

    #[test]
    fn a_stack_was_just_left_if_no_other_came_or_went_since() {
        let mut pool = Pool::default();
        let [one, other] = [0; 2].map(|_| pool.take(SMALLEST).unwrap().0);
        assert!(pool.put(one).is_none() && pool.put(other).is_none());
        let (other, origin) = pool.take(SMALLEST).unwrap();
        assert_eq!(origin, Origin::JustEnded);
        let (one, origin) = pool.take(SMALLEST).unwrap();
        assert_eq!(origin, Origin::Kept, "a stack was taken in between");
        assert!(pool.put(one).is_none());
        assert_eq!(pool.take(SMALLEST).unwrap().1, Origin::JustEnded);
        drop(other);
    }

    fn lowest(stack: &Stack) -> *mut u8 {
        stack.guard().1 as *mut u8
    }

    #[test]
    fn idle_processors_keep_few_pages_and_not_many_stacks() {
        let mut pool = Pool::default();
        let stacks: Vec<_> = (0..STACKS_MAPPED + 100).map(|_| pool.take(SMALLEST).unwrap().0).collect();
        for stack in stacks {
            // SAFETY: the stack is ours, and nobody runs on it.
            unsafe { lowest(&stack).write(1) };
            assert!(pool.put(stack).is_none());
        }
        assert!(pool.is_fat());
        pool.shrink();
        assert!(!pool.is_fat());
        assert_eq!((pool.len(), pool.count), (STACKS_MAPPED, STACKS_MAPPED));
        let mut is_dirty = |_: &usize| {
            let (stack, _) = pool.take(SMALLEST).unwrap();
            // SAFETY: the stack is ours, and nobody runs on it.
            unsafe { lowest(&stack).read() == 1 }
        };
        assert_eq!((0..STACKS_MAPPED).filter(&mut is_dirty).count(), STACKS_WARM);
        assert_eq!(pool.len(), 0);
    }
}
