//! Descriptions of threads: values, which outlive them.

use std::fmt;
use std::sync::Arc;

use super::tree::{Node, Parent};
use super::{Genealogy, Progress};
use crate::frame::{Kind, Site};

/// A description of a thread, as it was at the moment of the question. The thread may be a parent, a child, a sibling,
/// or [the one that runs](crate::thread::current_thread). The description is a value: it keeps nothing alive, and may
/// itself be kept for any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kin {
    pub(super) id: Option<u64>,
    pub(super) name: Option<Arc<str>>,
    pub(super) site: Option<Site>,
    pub(super) generation: Option<u32>,
    pub(super) progress: Progress,
    /// Whether it was a parasite, and had not ended.
    pub(super) is_parasite: bool,
    /// It is known for the current thread and for handles, whose frame can be asked.
    pub(super) body: Option<&'static str>,
}

impl Kin {
    /// The thread's number: threads of a machine are counted from 0 in the order of their births. `None`: the machine
    /// [keeps no genealogy](crate::Builder::genealogy).
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The thread's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The place where it was spawned, if that is known.
    pub fn site(&self) -> Option<Site> {
        self.site
    }

    /// The path of the function in which the thread's body was written, as the compiler names its type: for people to
    /// read. It is known for [the thread that runs](crate::thread::current_thread) and for [handles](crate::Thread::kin),
    /// unless the body is wrapped into another one.
    pub fn body(&self) -> Option<&'static str> {
        self.body
    }

    /// Number of ancestors that the thread has had: 0 if it was spawned from outside of the machine's threads. A gap
    /// between two [`ancestors`](crate::Thread::ancestors) means that some of them have been forgotten.
    pub fn generation(&self) -> Option<u32> {
        self.generation
    }

    /// The thread's progress at that moment.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether the thread had not ended.
    pub fn is_alive(&self) -> bool {
        self.progress != Progress::Determined
    }

    /// Whether the thread was a parasite, and had not ended.
    pub fn is_parasite(&self) -> bool {
        self.is_parasite
    }

    /// The description of a thread that has a node. The tree is being read.
    pub(super) fn of_node(genealogy: &Genealogy, node: &Node) -> Self {
        let (progress, is_parasite) = match node.frame {
            // SAFETY: until a thread has died its frame is in use, and it does not die while the tree is read.
            Some(frame) => unsafe {
                (frame.as_ref().state.progress(), frame.as_ref().kind.get() == Kind::Parasite)
            },
            None => (Progress::Determined, false),
        };
        Self {
            id: Some(genealogy.since_first(node.id)),
            name: node.name.clone(),
            site: Some(node.site),
            generation: Some(node.generation),
            progress,
            is_parasite,
            body: None,
        }
    }

    /// The description of a parent that has no node any more.
    pub(super) fn of_late(genealogy: &Genealogy, parent: &Parent, generation: u32) -> Self {
        Self {
            id: Some(genealogy.since_first(parent.id)),
            name: parent.name.clone(),
            site: Some(parent.site),
            generation: Some(generation),
            progress: Progress::Determined,
            is_parasite: false,
            body: None,
        }
    }

    /// Writes "thread 3 'parser'", or the parts of it that are known.
    pub(super) fn call(&self, f: &mut impl fmt::Write) -> fmt::Result {
        write!(f, "{}", if self.is_parasite { "parasite" } else { "thread" })?;
        if let Some(id) = self.id {
            write!(f, " {id}")?;
        }
        match &self.name {
            Some(name) => write!(f, " '{name}'"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Kin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call(f)?;
        if let Some(site) = self.site {
            write!(f, ", spawned at {site}")?;
        }
        let progress = match self.progress {
            Progress::Delayed => "delayed",
            Progress::Scheduled => "scheduled",
            Progress::Evaluating => "evaluating",
            Progress::Stolen => "stolen",
            Progress::Determined => "ended",
        };
        write!(f, ": {progress}")
    }
}

/// The living threads of a machine, and the dead ones that connect them: see
/// [`Machine::threads`](crate::Machine::threads).
#[derive(Clone, Debug, Default)]
pub struct Threads {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    depth: usize,
    kin: Kin,
    /// The thread's parent, if that is not the one above it in the tree.
    lost: Option<Kin>,
}

impl Threads {
    pub(super) fn of(genealogy: &Genealogy) -> Self {
        let mut rows = genealogy.read(|tree| {
            let mut rows = Vec::new();
            let below = |node| tree.below(node).collect::<Vec<_>>().into_iter().rev();
            let mut stack: Vec<_> = below(None).map(|node| (0, node)).collect();
            while let Some((depth, node)) = stack.pop() {
                let above = tree.above(node).map(|above| above.id);
                let parent = node.parent.as_ref().filter(|parent| Some(parent.id) != above);
                let lost =
                    parent.map(|parent| Kin::of_late(genealogy, parent, node.generation.saturating_sub(1)));
                rows.push(Row { depth, kin: Kin::of_node(genealogy, node), lost });
                stack.extend(below(Some(node)).map(|node| (depth + 1, node)));
            }
            rows
        });
        // A thread that has ended, and has no living thread below it, is left out; it is here because of a handle.
        let mut next = 0;
        let mut kept: Vec<_> = rows.drain(..).rev().collect();
        kept.retain(|row| {
            let is_kept = row.kin.is_alive() || next > row.depth;
            if is_kept {
                next = row.depth;
            }
            is_kept
        });
        kept.reverse();
        Self { rows: kept }
    }

    /// The threads with their depths in the tree. A thread descends from the last one before it whose depth is one
    /// less.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Kin)> {
        self.rows.iter().map(|row| (row.depth, &row.kin))
    }

    /// Number of threads that live.
    pub fn living(&self) -> usize {
        self.rows.iter().filter(|row| row.kin.is_alive()).count()
    }
}

/// Prints a tree: a line for each thread, indented by two spaces below the one that it descends from.
impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { depth, kin, lost } in &self.rows {
            write!(f, "{:1$}{kin}", "", depth * 2)?;
            if let Some(lost) = lost {
                f.write_str(" (by ")?;
                lost.call(f)?;
                f.write_str(", which has ended)")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
