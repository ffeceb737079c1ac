//! A tree of random shape; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{Done, Failure, Form, Program, Random, Size, ensure};

/// A tree, or none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tree {
    key: u64,
    below: [Option<Box<Self>>; 2],
}

/// Number of nodes that grow at a place, at least one.
#[derive(Clone, Copy, Debug)]
pub struct Seedling {
    seed: u64,
    nodes: u64,
    /// Random numbers that go into each key, beside the first.
    work: u32,
}

/// Subtrees below a node.
enum Below {
    Nothing,
    One(Seedling),
    Two(Seedling, Seedling),
}

impl Seedling {
    /// The node's key, and the part of the tree below it.
    fn grow(self) -> (u64, Below) {
        let mut random = Random::new(self.seed);
        let (key, seed, other) = (random.next_u64(), random.next_u64(), random.next_u64());
        let mut more = Random::new(key);
        let key = (0..self.work).fold(key, |key, _| key.rotate_left(1) ^ more.next_u64());
        let seedling = |seed, nodes| Self { seed, nodes, work: self.work };
        let below = match self.nodes - 1 {
            0 => Below::Nothing,
            rest if rest == 1 || random.below(2) == 0 => Below::One(seedling(seed, rest)),
            rest => {
                let left = 1 + random.below(rest - 1);
                Below::Two(seedling(seed, left), seedling(other, rest - left))
            }
        };
        (key, below)
    }
}

impl Tree {
    fn leaf(key: u64) -> Self {
        Self { key, below: [None, None] }
    }

    fn with_one(key: u64, below: Self) -> Self {
        Self { key, below: [Some(Box::new(below)), None] }
    }

    fn with_two(key: u64, left: Self, right: Self) -> Self {
        Self { key, below: [Some(Box::new(left)), Some(Box::new(right))] }
    }

    fn nodes(&self) -> u64 {
        1 + self.below.iter().flatten().map(|tree| tree.nodes()).sum::<u64>()
    }

    /// Nodes with two subtrees.
    fn branchings(&self) -> u64 {
        let below = self.below.iter().flatten().map(|tree| tree.branchings()).sum::<u64>();
        below + u64::from(self.below.iter().all(Option::is_some))
    }
}

/// The program.
#[derive(Debug)]
pub struct RandomTree;

impl Program for RandomTree {
    const NAME: &'static str = "random-tree";
    const ABOUT: &'static str = "a tree of random shape, a thread for each branching";
    const FORMS: &'static [Form] = &[Form::Serial, Form::Synchronous, Form::Stolen, Form::Fibers];
    type Input = Seedling;
    type Answer = Tree;

    fn input(size: Size) -> Seedling {
        // With this seed the tree has as many threads as the paper's.
        match size {
            Size::Quick => Seedling { seed: 1, nodes: 100, work: 0 },
            Size::Paper => Seedling { seed: 22, nodes: 2000, work: 0 },
            Size::Grain => Seedling { seed: 22, nodes: 2000, work: 3000 },
        }
    }

    fn serial(input: &Seedling) -> Tree {
        serial::grow(*input)
    }

    async fn threads(input: Arc<Seedling>, form: Form) -> Done<Tree> {
        let tree = match form {
            Form::Fibers => {
                let tree = ::chanter::spawn_fiber(move || chanter::grow_on_fibers(*input));
                tree.await.expect("a fiber that grows a tree has one")
            }
            _ => chanter::grow(*input, form == Form::Stolen).await,
        };
        let values = tree.branchings();
        Done::new(tree).communications(values)
    }

    fn check(_: Size, input: &Seedling, answer: &Tree) -> Result<(), Failure> {
        ensure("how many nodes", &answer.nodes(), &input.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Entry, Load};

    #[test]
    fn the_papers_size_has_the_papers_number_of_threads() {
        for size in [Size::Paper, Size::Grain] {
            let program = Entry::of::<RandomTree>().prepare(size).unwrap();
            let run = program.run(&Load::new(Form::Stolen, 1)).unwrap();
            assert_eq!((run.stats.hosts_created, run.stats.stolen), (581, 580));
        }
    }
}
