//! `Circle`: the report of a deadlock among calls of objects.

use std::fmt;

use crate::place::Name;

/// A deadlock: calls of objects that wait for each other, or an object that waits for itself. None of the calls can be answered before one
/// of them gives up.
#[derive(Clone, Debug)]
pub struct Circle {
    pub(super) process: u32,
    pub(super) steps: Vec<Step>,
}

/// One wait in a circle.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The object that is held meanwhile, if any.
    pub(super) inside: Option<Name>,
    /// The object that is waited for.
    pub(super) to: Name,
    /// The method of the call.
    pub(super) method: Option<&'static str>,
}

impl Circle {
    /// The objects that are waited for, in the order of the circle. Each is named by its process, slot and generation.
    pub fn objects(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.steps.iter().map(|step| step.to)
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.steps.len() {
            1 => write!(
                f,
                "deadlock: a call of an object waits for itself (seen by process {}):",
                self.process
            )?,
            many => write!(
                f,
                "deadlock: {many} calls of objects wait for each other (seen by process {}):",
                self.process
            )?,
        }
        let name = |(process, slot, generation): Name| format!("object {process}.{slot}.{generation}");
        for Step { inside, to, method } in &self.steps {
            let inside = inside.map_or_else(|| "a thread".to_owned(), name);
            write!(f, "\n  {inside} waits for {}", name(*to))?;
            if let Some(method) = method {
                write!(f, ": a call of {method}")?;
            }
        }
        Ok(())
    }
}
