//! `Census`: the waits that occur within a poll (see `waits.rs`).

use std::cell::RefCell;

use chanter::base::stack_local;
use chanter_cluster::wire::Number;

use crate::place::Name;
use crate::slot::{self, Slot};

/// Mark on a stack: the method that runs there is inside the object.
struct Inside(&'static Slot, u32);

/// Polls a method that is inside of an object, and has suspended before.
#[inline(always)]
pub(crate) fn inside<R>(slot: &'static Slot, generation: u32, poll: impl FnOnce() -> R) -> R {
    stack_local::set(&Inside(slot, generation), poll)
}

/// The objects that are held on this stack.
pub(super) fn held() -> Vec<(u32, u32)> {
    let mut held = Vec::new();
    stack_local::all(|Inside(slot, generation)| held.push((slot::number_of(slot), *generation)));
    held
}

/// A call that waits.
#[derive(Clone)]
pub(super) struct Call {
    /// The object that was called, and its method.
    pub(super) to: Name,
    pub(super) method: Number,
    /// The objects inside of which the call was made: the innermost first.
    pub(super) inside: Vec<(u32, u32)>,
}

/// The innermost thing that a request waits for.
pub(super) enum Leaf {
    /// A call of this process.
    Call(u64, Call),
    /// An object's wait queue, and the objects that are held meanwhile.
    Line((u32, u32), Vec<(u32, u32)>),
}

impl Leaf {
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Call(request, call) => Self::Call(*request, call.clone()),
            Self::Line(name, held) => Self::Line(*name, held.clone()),
        }
    }
}

/// Collects the waits that occur within a poll.
#[derive(Default)]
pub(super) struct Census(pub(super) RefCell<Vec<Leaf>>);

/// Notes that a caller waits in an object's queue.
#[cold]
pub(crate) fn waits_in_line(slot: &'static Slot, generation: u32) {
    stack_local::with(|census: Option<&Census>| {
        if let Some(Census(leaves)) = census {
            leaves.borrow_mut().push(Leaf::Line((slot::number_of(slot), generation), held()));
        }
    });
}
