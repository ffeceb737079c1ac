//! The windows of what goes to other processes.

use foldhash::HashMap;

use super::Lease;
use crate::name::ThreadName;

/// Windows, by whom they lead to. Who sends mostly does so to the same thread as before: its window is looked at first.
#[derive(Default)]
pub(super) struct Windows {
    by_name: HashMap<ThreadName, Lease>,
    last: Option<(ThreadName, Lease)>,
}

impl Windows {
    #[inline(always)]
    pub(super) fn get(&mut self, name: &ThreadName) -> Option<Lease> {
        match &self.last {
            Some((last, window)) if last == name => Some(*window),
            _ => self.find(name),
        }
    }

    #[inline(never)]
    fn find(&mut self, name: &ThreadName) -> Option<Lease> {
        let window = *self.by_name.get(name)?;
        self.last = Some((*name, window));
        Some(window)
    }

    /// That of `name`, which begins if there is none.
    pub(super) fn of(&mut self, name: ThreadName) -> Lease {
        *self.by_name.entry(name).or_insert_with(Lease::away)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Keeps those that are to stay: the others.
    pub(super) fn retain(
        &mut self,
        mut stays: impl FnMut(&ThreadName, &Lease) -> bool,
    ) -> Vec<(ThreadName, Lease)> {
        self.last = None;
        self.by_name.extract_if(|name, window| !stays(name, window)).collect()
    }
}
