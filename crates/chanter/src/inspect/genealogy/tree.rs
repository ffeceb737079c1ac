//! The tree of threads and their parents, as far as anybody can still ask. It has one owner at a time; the journals
//! feed it.
//!
//! A thread has a node from its birth to its death (the end of its frame). A dead thread keeps its node only while
//! two or more branches of its descendants hang on it: then only this node says that they are kin. If one branch is
//! left, that takes the node's place; if none is left, the node goes. Nodes have a record of their parent's name and
//! site, so that nothing of it is lost.
//!
//! * INV-KIN: a dead node has at least two children. So there are fewer dead nodes than living ones: in a tree there
//!   are fewer branchings than leaves, and every leaf lives.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::frame::{Header, Site};

/// The index of no node.
const NONE: u32 = u32::MAX;

/// The record of a thread's birth.
#[derive(Clone, Debug)]
pub(crate) struct Birth {
    /// The thread's number. It counts up; a child's is greater than its parent's.
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) frame: NonNull<Header>,
    pub(crate) site: Site,
    pub(crate) name: Option<Arc<str>>,
}

// SAFETY: the frame is only looked at as `Genealogy::read` says: while no thread dies.
unsafe impl Send for Birth {}

/// A node's record of its parent.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) id: u64,
    pub(super) site: Site,
    pub(super) name: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) site: Site,
    pub(super) name: Option<Arc<str>>,
    /// The thread's frame, until it dies.
    pub(super) frame: Option<NonNull<Header>>,
    /// The thread that spawned it.
    pub(super) parent: Option<Parent>,
    /// Number of ancestors that the thread has had.
    pub(super) generation: u32,
    children: u32,
    /// The nearest ancestor that has a node.
    above: u32,
    first: u32,
    last: u32,
    next: u32,
    prev: u32,
}

// SAFETY: the frame is only looked at as `Genealogy::read` says: while no thread dies.
unsafe impl Send for Node {}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    by_id: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    /// The list of the nodes without a node above them.
    first: u32,
    last: u32,
}

/// A hasher for ids. They count up, so to spread them takes one multiplication.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), by_id: HashMap::default(), first: NONE, last: NONE }
    }
}

impl Tree {
    /// Number of nodes.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Node> {
        self.by_id.get(&id).map(|index| self.node(*index))
    }

    /// The nearest ancestor that has a node.
    pub(super) fn above(&self, node: &Node) -> Option<&Node> {
        self.find(node.above)
    }

    /// The nodes directly below `node`, the oldest first; with `None`, those that have no node above.
    pub(super) fn below(&self, node: Option<&Node>) -> impl Iterator<Item = &Node> {
        let first = self.find(node.map_or(self.first, |node| node.first));
        std::iter::successors(first, |node| self.find(node.next))
    }

    /// All nodes, in the order of their births.
    pub(super) fn by_age(&self) -> Vec<&Node> {
        let mut all: Vec<_> = self.nodes.iter().flatten().collect();
        all.sort_unstable_by_key(|node| node.id);
        all
    }

    /// The nodes whose parent is `id`, the oldest first.
    pub(super) fn children_of(&self, id: Option<u64>) -> Vec<&Node> {
        let is_child = |node: &&Node| node.parent.as_ref().map(|parent| parent.id) == id;
        // If another node has taken the parent's place, its branches are where the parent was: below another node, or
        // below none.
        match id.map(|id| self.get(id)) {
            None => self.below(None).filter(is_child).collect(),
            Some(Some(node)) => self.below(Some(node)).filter(is_child).collect(),
            Some(None) => Vec::new(),
        }
    }

    /// The other children of its parent, the oldest first.
    pub(super) fn siblings_of(&self, node: &Node) -> Vec<&Node> {
        let parent = node.parent.as_ref().map(|parent| parent.id);
        let is_sibling =
            |other: &&Node| other.id != node.id && other.parent.as_ref().map(|parent| parent.id) == parent;
        self.below(self.above(node)).filter(is_sibling).collect()
    }

    pub(super) fn spawned(&mut self, birth: Birth) {
        let above = birth.parent.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(NONE);
        let (parent, generation) = match self.find(above) {
            Some(node) => {
                let parent = Parent { id: node.id, site: node.site, name: node.name.clone() };
                (Some(parent), node.generation.saturating_add(1))
            }
            None => (None, 0),
        };
        let Birth { id, frame, site, name, .. } = birth;
        let node = Node {
            id,
            site,
            name,
            frame: Some(frame),
            parent,
            generation,
            children: 0,
            above,
            first: NONE,
            last: NONE,
            next: NONE,
            prev: self.ends(above).1,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = Some(node);
                index
            }
            None => {
                self.nodes.push(Some(node));
                (self.nodes.len() - 1) as u32
            }
        };
        self.by_id.insert(id, index);
        let (first, last) = self.ends(above);
        if last != NONE {
            self.node_mut(last).next = index;
        }
        self.set_ends(above, if first == NONE { index } else { first }, index);
        if above != NONE {
            self.node_mut(above).children += 1;
        }
    }

    /// Notes a death. A thread that is not known has been forgotten by [`Tree::clear`].
    pub(super) fn died(&mut self, id: u64) {
        let Some(mut index) = self.by_id.get(&id).copied() else { return };
        self.node_mut(index).frame = None;
        // INV-KIN, upwards: at most the node above is affected as well.
        while index != NONE && self.node(index).frame.is_none() {
            let Node { children, above, first, .. } = *self.node(index);
            match children {
                0 => {
                    self.unlink(index);
                    self.forget(index);
                    index = above;
                }
                1 => {
                    self.replace(index, first);
                    self.forget(index);
                    return;
                }
                _ => return,
            }
        }
    }

    /// Names a thread anew. False: it has no node.
    pub(super) fn set_name(&mut self, id: u64, name: Arc<str>) -> bool {
        let Some(index) = self.by_id.get(&id).copied() else { return false };
        self.node_mut(index).name = Some(name);
        true
    }

    /// The nodes below a node, at any depth, and the node itself, each before those below it.
    pub(super) fn branch<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        let mut stack = vec![node];
        std::iter::from_fn(move || {
            let node = stack.pop()?;
            stack.extend(self.below(Some(node)));
            Some(node)
        })
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self, index: u32) {
        if let Some(node) = self.nodes[index as usize].take() {
            self.by_id.remove(&node.id);
            self.free.push(index);
        }
    }

    /// Takes a node out of the list that it is in.
    fn unlink(&mut self, index: u32) {
        let Node { above, next, prev, .. } = *self.node(index);
        let (first, last) = self.ends(above);
        if prev != NONE {
            self.node_mut(prev).next = next;
        }
        if next != NONE {
            self.node_mut(next).prev = prev;
        }
        let first = if first == index { next } else { first };
        self.set_ends(above, first, if last == index { prev } else { last });
        if above != NONE {
            self.node_mut(above).children -= 1;
        }
    }

    /// Puts the only child of a node in its place.
    fn replace(&mut self, index: u32, child: u32) {
        let Node { above, next, prev, .. } = *self.node(index);
        let heir = self.node_mut(child);
        (heir.above, heir.next, heir.prev) = (above, next, prev);
        if prev != NONE {
            self.node_mut(prev).next = child;
        }
        if next != NONE {
            self.node_mut(next).prev = child;
        }
        let (first, last) = self.ends(above);
        let first = if first == index { child } else { first };
        self.set_ends(above, first, if last == index { child } else { last });
    }

    fn ends(&self, above: u32) -> (u32, u32) {
        self.find(above).map_or((self.first, self.last), |node| (node.first, node.last))
    }

    fn set_ends(&mut self, above: u32, first: u32, last: u32) {
        if above == NONE {
            (self.first, self.last) = (first, last);
        } else {
            let node = self.node_mut(above);
            (node.first, node.last) = (first, last);
        }
    }

    fn find(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)?.as_ref()
    }

    fn node(&self, index: u32) -> &Node {
        self.nodes[index as usize].as_ref().expect("links lead to nodes")
    }

    fn node_mut(&mut self, index: u32) -> &mut Node {
        self.nodes[index as usize].as_mut().expect("links lead to nodes")
    }
}
