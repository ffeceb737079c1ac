//! Tests of the tree against a naive model, which forgets nothing.

use std::collections::BTreeMap;
use std::panic::Location;
use std::ptr::NonNull;

use super::tree::{Birth, Node, Tree};
use crate::sync::random::random;

/// Every thread that ever was: its parent, and whether it lives.
#[derive(Default)]
struct Model {
    threads: BTreeMap<u64, (Option<u64>, bool)>,
}

impl Model {
    fn is_alive(&self, id: u64) -> bool {
        self.threads[&id].1
    }

    fn living(&self) -> Vec<u64> {
        self.threads.iter().filter(|(_, (_, alive))| *alive).map(|(id, _)| *id).collect()
    }

    fn children(&self, parent: Option<u64>) -> Vec<u64> {
        self.living().into_iter().filter(|id| self.threads[id].0 == parent).collect()
    }

    /// The ancestors, the nearest first.
    fn ancestors(&self, id: u64) -> Vec<u64> {
        std::iter::successors(self.threads[&id].0, |id| self.threads[id].0).collect()
    }
}

fn birth(id: u64, parent: Option<u64>) -> Birth {
    Birth { id, parent, frame: NonNull::dangling(), site: Location::caller(), name: None }
}

fn living(nodes: Vec<&Node>) -> Vec<u64> {
    nodes.into_iter().filter(|node| node.frame.is_some()).map(|node| node.id).collect()
}

fn check(tree: &Tree, model: &Model) {
    let alive = model.living();
    assert!(tree.len() <= (2 * alive.len()).saturating_sub(1), "INV-KIN: {} of {}", tree.len(), alive.len());
    for id in &alive {
        let node = tree.get(*id).expect("who lives has a node");
        let parent = model.threads[id].0;
        assert_eq!(node.parent.as_ref().map(|parent| parent.id), parent);
        assert_eq!(node.generation as usize, model.ancestors(*id).len());
        assert_eq!(living(tree.children_of(Some(*id))), model.children(Some(*id)));
        let mut siblings = model.children(parent);
        siblings.retain(|other| other != id);
        assert_eq!(living(tree.siblings_of(node)), siblings);
        // The tree knows the ancestors that live, and no strangers, in their order.
        let known: Vec<_> =
            std::iter::successors(tree.above(node), |node| tree.above(node)).map(|node| node.id).collect();
        let mut all = model.ancestors(*id);
        all.retain(|id| model.is_alive(*id) || known.contains(id));
        assert_eq!(known, all);
    }
    let dead = tree.by_age().into_iter().filter(|node| node.frame.is_none());
    dead.for_each(|node| assert!(tree.below(Some(node)).count() >= 2, "INV-KIN: {node:?}"));
    assert_eq!(living(tree.children_of(None)), model.children(None));
}

#[test]
fn it_says_what_a_model_says_that_forgets_nothing() {
    for round in 0..30 {
        let (mut tree, mut model) = (Tree::default(), Model::default());
        // The rounds range from trees that grow to trees that die out.
        let births = 3 + round % 5;
        for id in 0..200 {
            let alive = model.living();
            if !alive.is_empty() && random(8) >= births {
                let id = alive[random(alive.len())];
                tree.died(id);
                model.threads.get_mut(&id).unwrap().1 = false;
            } else {
                let parent = (!alive.is_empty() && random(10) > 0).then(|| alive[random(alive.len())]);
                tree.spawned(birth(id, parent));
                model.threads.insert(id, (parent, true));
            }
            check(&tree, &model);
        }
        for id in model.living() {
            tree.died(id);
            model.threads.get_mut(&id).unwrap().1 = false;
            check(&tree, &model);
        }
        assert_eq!(tree.len(), 0, "nothing is left of the dead");
    }
}

#[test]
fn a_line_of_successors_is_one_node() {
    let mut tree = Tree::default();
    tree.spawned(birth(0, None));
    for id in 1..200_000 {
        tree.spawned(birth(id, Some(id - 1)));
        tree.died(id - 1);
        assert_eq!(tree.len(), 1);
    }
    assert_eq!(tree.get(199_999).map(|node| node.generation), Some(199_999));
}

#[test]
fn dead_children_leave_nothing() {
    let mut tree = Tree::default();
    tree.spawned(birth(0, None));
    for id in 1..200_000 {
        tree.spawned(birth(id, Some(0)));
        tree.died(id);
    }
    assert_eq!(tree.len(), 1);
}

#[test]
fn who_was_forgotten_dies_in_peace() {
    let mut tree = Tree::default();
    tree.spawned(birth(0, None));
    tree.spawned(birth(1, Some(0)));
    tree.clear();
    tree.died(1);
    tree.spawned(birth(2, Some(0)));
    assert!(tree.get(2).unwrap().parent.is_none());
}
