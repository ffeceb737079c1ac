//! `Progress`: the object of a call, and the stage of the call.

use std::marker::PhantomData;
use std::ptr::NonNull;

use chanter::base::Mode;

use crate::Ref;
use crate::hold::Marked;
use crate::slot::Slot;

/// The progress of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Fresh,
    /// Waits until the object lets it in.
    Waiting,
    /// The call is made in another process.
    Away,
    /// The call is inside the object.
    Running,
    /// The method has ended, and its answer has not been looked at yet.
    Ended,
    Over,
}

/// The object of a call, and how far the call is: two words, since a call that does not block is made of few stores.
#[repr(C)]
pub(crate) struct Progress<T> {
    /// The generation, while the call is fresh; until it is over, below [`LATER`] and the stage. A word with another
    /// stage is no ticket of a gate, so the usual entry needs no test of the stage.
    word: u64,
    place: NonNull<Slot>,
    of: PhantomData<fn(T) -> T>,
}

/// A call is not fresh.
const LATER: u64 = 1 << 63;
/// (The operand of a store.)
const OVER: u64 = (i32::MIN as i64 as u64) | Stage::Over as u64;

// SAFETY: this is a `Ref` and a stage; a `Ref` may be sent to any thread.
unsafe impl<T> Send for Progress<T> {}
// SAFETY: this is a `Ref` and a stage; a `Ref` may be shared between threads, and the stage is written through `&mut`
// only.
unsafe impl<T> Sync for Progress<T> {}

impl<T> Progress<T> {
    /// A call that has not begun.
    #[inline(always)]
    pub(crate) fn fresh(to: Ref<T>) -> Self {
        let (place, generation) = to.parts();
        Self { word: u64::from(generation), place, of: PhantomData }
    }

    /// The object of a call that is not over.
    pub(crate) fn to(&self) -> Ref<T> {
        Ref::of_parts(self.place, self.word as u32)
    }

    /// Goes in by a bias, like [`Ref::try_mark`], if the call is fresh.
    #[inline(always)]
    pub(crate) fn try_mark(&self, mode: Mode) -> Option<Marked<T>> {
        Marked::try_enter(self.place, mode, self.word)
    }

    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.word == OVER
    }

    /// Ends the call by a store to its place, which is all that the caller sees of it.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.word = OVER;
    }

    pub(crate) fn is(&self, stage: Stage) -> bool {
        self.stage() == stage
    }

    pub(crate) fn stage(&self) -> Stage {
        use Stage::{Away, Ended, Fresh, Over, Running, Waiting};
        if self.is_over() {
            return Over;
        }
        [Fresh, Waiting, Away, Running, Ended][((self.word & !LATER) >> 32) as usize]
    }

    pub(crate) fn set(&mut self, stage: Stage) {
        let generation = u64::from(self.word as u32);
        self.word = match stage {
            Stage::Fresh => generation,
            Stage::Over => OVER,
            stage => LATER | (stage as u64) << 32 | generation,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    #[test]
    fn a_word_says_the_stage_and_keeps_the_generation() {
        use Stage::{Away, Ended, Fresh, Over, Running, Waiting};
        let owner = Owner::new(0);
        let mut progress = Progress::fresh(owner.reference());
        for stage in [Waiting, Fresh, Away, Running, Ended] {
            progress.set(stage);
            assert_eq!((progress.stage(), progress.to()), (stage, owner.reference()));
            assert_eq!(progress.word > LATER, stage != Fresh);
        }
        progress.end();
        assert!(progress.is(Over) && progress.is_over() && progress.word > LATER);
    }
}
