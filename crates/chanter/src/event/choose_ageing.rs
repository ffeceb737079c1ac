//! `Ageing`: choices that pass over a ready branch only a bounded number of times.

use std::cmp::Reverse;
use std::time::Instant;

use super::Choices;
use super::leaves::Order;
use super::ordered::Ordered;

/// A chooser for loops. It remembers when each branch was taken last.
///
/// [`choose`](super::choose) is fair on average, and `Ageing` has a bound. Each choice of a loop is made through one
/// value of this type. Each branch ages by one with every choice that takes another.
///
/// * [`Ageing::new`]: the branch that has not been taken for longest is tried first. **Bound**: in a loop over `n`
///   branches, a branch that is ready in each of `n` consecutive choices is taken in one of them.
/// * [`Ageing::with_patience(p)`](Ageing::with_patience): branches are tried in the order of the source, as by
///   [`choose_biased`](super::choose_biased). But a branch that has been passed over `p` times in a row goes first.
///   **Bound**: in a loop over `n` branches, a branch that is ready in each of `p + n` consecutive choices is taken
///   in one of them.
///
/// The bound holds because the branch's age is at least `p` after `p` choices. From then on only a branch of at least
/// the same age is tried before it. Once such a branch has been taken, it stays younger. So each of the `n - 1`
/// others goes first at most once.
///
/// A branch is known by its place, so all choices of one value list the same things in the same order. A branch is
/// *ready* if it can commit when it is tried. When none is ready, the first that can commit wins. A nested choice
/// counts as its base events. An `Ageing` choice that is nested in another choice keeps its order, but the outer
/// choice's policy voids the bound.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::Ageing;
/// # chanter::block_on(async {
/// let mut ageing = Ageing::new();
/// let mut taken = [0; 3];
/// for _ in 0..30 {
///     taken[ageing.choose([always(0), always(1), always(2)]).await] += 1;
/// }
/// assert_eq!(taken, [10, 10, 10]);
/// # });
/// ```
///
/// Dropping a choice before it commits ages nothing. After its first use the value does not allocate, unless a choice
/// has more branches than before.
#[derive(Clone, Debug, Default)]
pub struct Ageing {
    patience: u32,
    /// The age of each leaf: the number of choices since it was taken.
    ages: Vec<u32>,
    order: Vec<u32>,
}

impl Ageing {
    /// Makes a chooser that tries first the branch that has not been taken for longest.
    pub fn new() -> Self {
        Self::with_patience(0)
    }

    /// Makes a chooser that tries branches in order, but first one that has been passed over `patience` times in a
    /// row.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::event::Ageing;
    /// let mut ageing = Ageing::with_patience(3);
    /// let taken: Vec<_> =
    ///     (0..8).map(|_| ageing.choose([always('a'), always('b')]).sync_blocking()).collect();
    /// assert_eq!(String::from_iter(taken), "aaabaaab");
    /// ```
    pub fn with_patience(patience: u32) -> Self {
        Self { patience, ages: Vec::new(), order: Vec::new() }
    }

    /// The event that commits one of `events`; see [`Ageing`].
    ///
    /// Law: `ageing.choose((a, b))` allows what `choose((a, b))` allows.
    pub fn choose<C: Choices>(&mut self, events: C) -> Aged<'_, C> {
        Ordered::new(events, self)
    }
}

impl Order for &mut Ageing {
    fn arrange(&mut self, turns: usize, _due: &dyn Fn(usize) -> Option<Instant>) {
        self.ages.resize(turns, 0);
        self.order.clear();
        self.order.extend(0..turns as u32);
        let (ages, patience) = (&self.ages, self.patience);
        self.order.sort_unstable_by_key(|leaf| {
            let age = ages[*leaf as usize];
            (Reverse(if age < patience { None } else { Some(age) }), *leaf)
        });
    }

    fn order(&self) -> &[u32] {
        &self.order
    }

    fn chosen(&mut self, turn: usize) {
        for age in &mut self.ages {
            *age = age.saturating_add(1);
        }
        self.ages[turn] = 0;
    }
}

/// The event of [`Ageing::choose`].
pub type Aged<'a, C> = Ordered<C, &'a mut Ageing>;
