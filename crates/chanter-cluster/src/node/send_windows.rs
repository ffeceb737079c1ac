//! The windows of messages to other processes.

use foldhash::HashMap;

use super::send_window::WindowRef;
use crate::name::ThreadName;

/// Windows, by their receiver. Successive sends mostly go to one thread, so the window that was used last is tried
/// first.
#[derive(Default)]
pub(super) struct SendWindows {
    by_name: HashMap<ThreadName, WindowRef>,
    last: Option<(ThreadName, WindowRef)>,
}

impl SendWindows {
    /// The window of `name`, if there is one.
    #[inline(always)]
    pub(super) fn get(&mut self, name: &ThreadName) -> Option<WindowRef> {
        match &self.last {
            Some((last, window)) if last == name => Some(*window),
            _ => self.find(name),
        }
    }

    #[inline(never)]
    fn find(&mut self, name: &ThreadName) -> Option<WindowRef> {
        let window = *self.by_name.get(name)?;
        self.last = Some((*name, window));
        Some(window)
    }

    /// The window of `name`; a missing one is made.
    pub(super) fn of(&mut self, name: ThreadName) -> WindowRef {
        *self.by_name.entry(name).or_insert_with(WindowRef::away)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Keeps the windows for which `stays` is true, and returns the others. The caller gives those up without holding
    /// a lock.
    pub(super) fn retain(
        &mut self,
        mut stays: impl FnMut(&ThreadName, &WindowRef) -> bool,
    ) -> Vec<(ThreadName, WindowRef)> {
        self.last = None;
        self.by_name.extract_if(|name, window| !stays(name, window)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{NodeId, ProcessId};
    use crate::error::SendError;
    use crate::wire::Slot;

    fn name(process: u32) -> ThreadName {
        ThreadName { pe: NodeId(0), process: ProcessId(process), thread: Slot { index: 3, generation: 1 } }
    }

    #[test]
    fn each_name_has_its_window_until_it_is_given_out() {
        let mut windows = SendWindows::default();
        assert!(windows.get(&name(1)).is_none());
        let [first, second] = [1, 2].map(|process| windows.of(name(process)).epoch());
        assert_ne!(first, second);
        for process in [1, 2, 2, 1] {
            let found = windows.get(&name(process)).map(|window| window.epoch());
            assert_eq!(found, Some(if process == 1 { first } else { second }));
        }
        // The window that was looked up last is among those removed.
        let given = windows.retain(|name, _| name.process != ProcessId(1));
        assert_eq!(
            given.iter().map(|(name, window)| (name.process, window.epoch())).collect::<Vec<_>>(),
            [(ProcessId(1), first)]
        );
        assert!(windows.get(&name(1)).is_none());
        assert_eq!((windows.len(), windows.get(&name(2)).is_some()), (1, true));
        for (name, window) in given.into_iter().chain(windows.retain(|_, _| false)) {
            window.give_up(&SendError::Gone(name));
        }
    }
}
