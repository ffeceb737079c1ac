//! Choices over tuples of events.

use std::pin::Pin;

use super::choose::{Choices, shifted};
use super::walk::Walk;
use super::{Branch, Event, Offered, Offering, WakeList};
use crate::frame::report::Waits;

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
        #[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
        #[allow(unused_assignments, reason = "the last step of each search")]
        unsafe impl<$first: Branch, $($rest: Branch<Output = $first::Output>),*> Branch
            for TupleBranch<($first, $($rest,)*)>
        {
            type Output = $first::Output;
            const SINGLE: bool = false;
            const LEAN: bool = $first::LEAN $(&& $rest::LEAN)* && Self::LEAN_LOSER;
            const TRACELESS: bool = $first::TRACELESS $(&& $rest::TRACELESS)*;
            const LEAN_LOSER: bool = $first::LEAN_LOSER $(&& $rest::LEAN_LOSER)*;
            const WALKED: bool = $first::WALKED $(|| $rest::WALKED)*;
            const RETRIES: bool = $first::RETRIES $(|| $rest::RETRIES)*;

            fn force(self: Pin<&mut Self>) {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@each this, branch, { branch.force() }; $first_index $(, $index)*);
            }

            #[inline(always)]
            fn leaves(&self) -> usize {
                self.0.$first_index.leaves() $(+ self.0.$index.leaves())*
            }

            #[inline(always)]
            fn hints(&self) -> u64 {
                let hints = shifted(self.0.$first_index.hints(), self.0.$first_index.leaves(), 0);
                let _at = self.0.$first_index.leaves();
                $(let hints = hints | shifted(self.0.$index.hints(), self.0.$index.leaves(), _at);
                let _at = _at + self.0.$index.leaves();)*
                hints
            }

            #[inline(always)]
            fn try_leaf(self: Pin<&mut Self>, mut leaf: usize, wakes: &mut WakeList) -> bool {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, branch, { return branch.try_leaf(leaf, wakes) };
                    $first_index $(, $index)*);
                unreachable!("no such leaf")
            }

            #[inline(always)]
            fn offer_leaf(
                self: Pin<&mut Self>,
                mut leaf: usize,
                at: &Offering<'_>,
                wakes: &mut WakeList,
            ) -> Offered {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, branch, { return branch.offer_leaf(leaf, at, wakes) };
                    $first_index $(, $index)*);
                unreachable!("no such leaf")
            }

            fn retry_leaf(
                self: Pin<&mut Self>,
                mut leaf: usize,
                at: &Offering<'_>,
                wakes: &mut WakeList,
            ) -> Offered {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, branch, { return branch.retry_leaf(leaf, at, wakes) };
                    $first_index $(, $index)*);
                unreachable!("no such leaf")
            }

            fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
                // A loser's leaf number is out of every range, and stays so.
                let mut leaf = winner.unwrap_or(usize::MAX);
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@each this, branch, {
                    let leaves = branch.leaves();
                    branch.settle((leaf < leaves).then_some(leaf), wakes);
                    leaf = leaf.wrapping_sub(leaves);
                }; $first_index $(, $index)*);
            }

            fn walk(self: Pin<&mut Self>, walk: &mut Walk<'_>) {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@each this, branch, { branch.walk(walk) }; $first_index $(, $index)*);
            }

            fn waits(&self, waits: &mut Waits) {
                self.0.$first_index.waits(waits);
                $(self.0.$index.waits(waits);)*
            }

            fn finish(self: Pin<&mut Self>, mut leaf: usize) -> Self::Output {
                // SAFETY: each field is structurally pinned.
                let this = unsafe { &mut self.get_unchecked_mut().0 };
                tuple!(@find this, leaf, branch, { return branch.finish(leaf) };
                    $first_index $(, $index)*);
                unreachable!("no such leaf")
            }
        }
    };
    (@each $this:ident, $branch:ident, $body:block; $($index:tt),*) => {
        $({
            // SAFETY: `$this` comes from a pinned reference, and the field is structurally pinned.
            #[allow(unused_mut, reason = "not every body needs it")]
            let mut $branch = unsafe { Pin::new_unchecked(&mut $this.$index) };
            $body
        })*
    };
    (@find $this:ident, $leaf:ident, $branch:ident, $body:block; $($index:tt),*) => {
        $({
            // SAFETY: `$this` comes from a pinned reference, and the field is structurally pinned.
            let $branch = unsafe { Pin::new_unchecked(&mut $this.$index) };
            let leaves = $branch.leaves();
            if $leaf < leaves {
                $body
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
