//! Names that users give to the threads of a process.

use std::collections::HashMap;

use crate::engine::ProcessId;
use crate::wire::Slot;

/// Largest number of registered names of a process, and largest number of waiting requests.
const MOST_NAMES: usize = 1 << 16;
/// Largest number of waiting requests of one process, so that one process cannot keep others from asking.
const MOST_OF_ONE: usize = MOST_NAMES / 4;

/// A request of a process that waits for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) peer: ProcessId,
    pub(crate) request: u64,
}

/// The reason why a name is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another thread has the name.
    Taken,
    /// There are too many names.
    Full,
}

/// The names registered in this process, and requests that wait for other names.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Whether the main inbox has been taken.
    pub(crate) is_main_taken: bool,
    names: HashMap<String, Slot>,
    asked: HashMap<String, Vec<Asker>>,
    waiting: usize,
    /// Number of waiting requests of each process.
    of_one: HashMap<ProcessId, usize>,
}

impl Registry {
    /// Registers a name, and returns the requests that have waited for it.
    pub(crate) fn register(&mut self, name: &str, slot: Slot) -> Result<Vec<Asker>, Refusal> {
        if self.names.contains_key(name) {
            return Err(Refusal::Taken);
        }
        if self.names.len() >= MOST_NAMES {
            return Err(Refusal::Full);
        }
        self.names.insert(name.to_owned(), slot);
        let asked = self.asked.remove(name).unwrap_or_default();
        self.waiting -= asked.len();
        for asker in &asked {
            if let Some(of_one) = self.of_one.get_mut(&asker.peer) {
                *of_one -= 1;
            }
        }
        Ok(asked)
    }

    /// Frees a name, if it belongs to the thread in `slot`.
    pub(crate) fn forget(&mut self, name: &str, slot: Slot) {
        if self.names.get(name) == Some(&slot) {
            self.names.remove(name);
        }
    }

    /// The thread that has a name. If there is none, `asker` waits for it. `Err`: too many requests wait.
    pub(crate) fn ask(&mut self, name: &str, asker: Asker) -> Result<Option<Slot>, ()> {
        if let Some(slot) = self.names.get(name) {
            return Ok(Some(*slot));
        }
        let of_one = self.of_one.entry(asker.peer).or_default();
        if self.waiting >= MOST_NAMES || *of_one >= MOST_OF_ONE {
            return Err(());
        }
        *of_one += 1;
        self.waiting += 1;
        self.asked.entry(name.to_owned()).or_default().push(asker);
        Ok(None)
    }

    /// Withdraws a request for a name.
    pub(crate) fn withdraw(&mut self, name: &str, asker: Asker) {
        let Some(askers) = self.asked.get_mut(name) else { return };
        let Some(at) = askers.iter().position(|other| *other == asker) else { return };
        askers.swap_remove(at);
        if askers.is_empty() {
            self.asked.remove(name);
        }
        self.waiting -= 1;
        if let Some(of_one) = self.of_one.get_mut(&asker.peer) {
            *of_one -= 1;
        }
    }

    /// Drops the waiting requests for which `is_gone` is true.
    pub(crate) fn forget_askers(&mut self, is_gone: impl Fn(Asker) -> bool) {
        self.asked.retain(|_, askers| {
            askers.retain(|asker| !is_gone(*asker));
            !askers.is_empty()
        });
        self.waiting = 0;
        self.of_one.clear();
        for asker in self.asked.values().flatten() {
            self.waiting += 1;
            *self.of_one.entry(asker.peer).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot { index: 3, generation: 1 };
    const ASKER: Asker = Asker { peer: ProcessId(1), request: 7 };

    #[test]
    fn who_asks_early_is_told_later() {
        let mut registry = Registry::default();
        assert_eq!(registry.ask("a", ASKER), Ok(None));
        assert_eq!(registry.register("a", SLOT), Ok(vec![ASKER]));
        assert_eq!(registry.ask("a", ASKER), Ok(Some(SLOT)));
    }

    #[test]
    fn a_name_is_taken_once_and_free_again() {
        let mut registry = Registry::default();
        let other = Slot { index: 4, ..SLOT };
        assert!(registry.register("a", SLOT).is_ok());
        assert!(registry.register("a", other) == Err(Refusal::Taken));
        registry.forget("a", other);
        assert!(registry.register("a", other) == Err(Refusal::Taken), "it was not that one's");
        registry.forget("a", SLOT);
        assert!(registry.register("a", other).is_ok());
    }

    #[test]
    fn who_asks_too_much_does_not_keep_others_from_asking() {
        let mut registry = Registry::default();
        let mut ask =
            |peer, request| registry.ask(&format!("{request}"), Asker { peer: ProcessId(peer), request });
        for request in 0..MOST_OF_ONE as u64 {
            assert_eq!(ask(1, request), Ok(None));
        }
        assert_eq!(ask(1, 0), Err(()));
        assert_eq!(ask(2, 0), Ok(None));
        assert_eq!(registry.register("0", SLOT).map(|asked| asked.len()), Ok(2));
        let more = Asker { peer: ProcessId(1), request: 1 };
        assert_eq!(registry.ask("x", more), Ok(None), "there is room for one again");
        assert_eq!(registry.ask("x", more), Err(()));
        registry.forget_askers(|asker| asker.peer == ProcessId(1));
        assert_eq!((registry.waiting, registry.asked.len()), (0, 0));
        assert_eq!(registry.ask("x", more), Ok(None));
    }

    #[test]
    fn who_asks_and_gives_up_leaves_nothing() {
        let mut registry = Registry::default();
        let other = Asker { request: 8, ..ASKER };
        assert_eq!((registry.ask("a", ASKER), registry.ask("a", other)), (Ok(None), Ok(None)));
        registry.withdraw("a", ASKER);
        registry.withdraw("a", ASKER);
        registry.withdraw("b", other);
        assert_eq!((registry.waiting, &registry.asked["a"]), (1, &vec![other]));
        registry.withdraw("a", other);
        assert!(registry.waiting == 0 && registry.asked.is_empty() && registry.of_one[&ASKER.peer] == 0);
    }

    #[test]
    fn who_is_gone_does_not_wait() {
        let mut registry = Registry::default();
        assert_eq!(registry.ask("a", ASKER), Ok(None));
        registry.forget_askers(|asker| asker.peer == ASKER.peer);
        assert_eq!(registry.register("a", SLOT), Ok(vec![]));
    }
}
