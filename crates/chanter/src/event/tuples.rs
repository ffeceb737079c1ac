//! Choices over tuples of events.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::branch::{Action, NoLeaf, Survey, number};
use super::choose::Choices;
use super::leaves::Leaves;
use super::{Branch, Event, Shape};

#[doc(hidden)]
#[derive(Debug)]
pub struct TupleBranch<T>(T);

macro_rules! tuple {
    ($first:ident $first_index:tt $(, $rest:ident $index:tt)*) => {
        // SAFETY: the branch of each event is `Send` when the event is, by `Event`'s contract.
        unsafe impl<$first: Event, $($rest: Event + IntoFuture<Output = $first::Output>),*> Choices
            for ($first, $($rest,)*)
        {
            type Output = $first::Output;
            type Branch = TupleBranch<($first::Branch, $($rest::Branch,)*)>;

            #[inline(always)]
            fn into_branch(self) -> Self::Branch {
                TupleBranch((self.$first_index.into_branch(), $(self.$index.into_branch(),)*))
            }
        }

        // SAFETY: the leaves are those of the branches, which keep the contract, and each is structurally pinned.
        unsafe impl<$first: Branch, $($rest: Branch<Output = $first::Output>),*> Branch
            for TupleBranch<($first, $($rest,)*)>
        {
            type Output = $first::Output;
            type Only = NoLeaf;
            const SHAPE: Shape = $first::SHAPE.choice()$(.or($rest::SHAPE.choice()))*;

            fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
                leaves.prefer(false);
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                // SAFETY: `this` comes from a pinned reference, and the field is structurally pinned.
                unsafe { Pin::new_unchecked(&mut this.$first_index) }.list(leaves);
                // SAFETY: `this` comes from a pinned reference, and the field is structurally pinned.
                $(unsafe { Pin::new_unchecked(&mut this.$index) }.list(leaves);)*
            }

            #[inline(always)]
            fn survey(self: Pin<&mut Self>) -> Survey {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                // SAFETY: `this` comes from a pinned reference, and the field is structurally pinned.
                let leaves = unsafe { Pin::new_unchecked(&mut this.$first_index) }.survey().leaves;
                // SAFETY: `this` comes from a pinned reference, and the field is structurally pinned.
                $(let leaves = leaves + unsafe { Pin::new_unchecked(&mut this.$index) }.survey().leaves;)*
                Survey { leaves, biased: false }
            }

            #[inline(always)]
            #[allow(unused_assignments, reason = "the last step of the search")]
            fn at<Act: Action>(self: Pin<&mut Self>, mut leaf: usize, action: Act) -> Act::Outcome {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, |branch| branch.at(leaf, action); $first_index $(, $index)*);
                unreachable!("no such leaf")
            }

            fn poll_begin(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                // SAFETY: `this` comes from a pinned reference, and the field is structurally pinned.
                ready!(unsafe { Pin::new_unchecked(&mut this.$first_index) }.poll_begin(cx));
                // SAFETY: `this` comes from a pinned reference, and the field is structurally pinned.
                $(ready!(unsafe { Pin::new_unchecked(&mut this.$index) }.poll_begin(cx));)*
                Poll::Ready(())
            }

            #[allow(unused_assignments, reason = "the last step of the search")]
            fn poll_finish(
                self: Pin<&mut Self>,
                mut leaf: usize,
                cx: &mut Context<'_>,
            ) -> Poll<Self::Output> {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, |branch| branch.poll_finish(leaf, cx); $first_index $(, $index)*);
                unreachable!("no such leaf")
            }

            #[allow(unused_assignments, reason = "the last step of the search")]
            fn finish(self: Pin<&mut Self>, mut leaf: usize) -> Self::Output {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, |branch| branch.finish(leaf); $first_index $(, $index)*);
                unreachable!("no such leaf")
            }
        }
    };
    (@find $this:ident, $leaf:ident, |$branch:ident| $found:expr; $($index:tt),*) => {
        $({
            // SAFETY: `$this` comes from a pinned reference, and the field is structurally pinned.
            let mut $branch = unsafe { Pin::new_unchecked(&mut $this.$index) };
            let leaves = number($branch.as_mut());
            if $leaf < leaves {
                return $found;
            }
            $leaf -= leaves;
        })*
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
