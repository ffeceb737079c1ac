//! The opening of inboxes.

use std::sync::Arc;

use super::{LONGEST_NAME, Node, WindowRef};
use crate::error::OpenError;
use crate::inbox::Inbox;
use crate::inbox::place::{Core, State as InboxState};
use crate::lock::lock;
use crate::name::{MAIN, Refusal};
use crate::wire::Slot;

impl Node {
    /// Opens an inbox and makes its name. `given` is registered for it as well.
    pub(crate) fn open(self: &Arc<Self>, given: Option<&str>) -> Result<Inbox, OpenError> {
        if let Some(name) = given
            && (name.is_empty() || name.len() > LONGEST_NAME || name.contains('@'))
        {
            return Err(OpenError::Bad(name.to_owned()));
        }
        let make = |slot, spare| InboxState::new(self.name(self.me, slot), self.home(), spare);
        let Some((slot, window_ref)) = self.table.insert(make) else { return Err(OpenError::Full) };
        self.opened(given, slot, window_ref)
    }

    /// Takes the inbox that is there from the start.
    pub(crate) fn open_main(self: &Arc<Self>) -> Result<Inbox, OpenError> {
        if std::mem::replace(&mut lock(&self.names.registry).is_main_taken, true) {
            return Err(OpenError::MainTaken);
        }
        let window_ref = self.table.find(MAIN).expect("the table begins with the main inbox");
        self.opened(None, MAIN, window_ref)
    }

    fn opened(
        self: &Arc<Self>,
        given: Option<&str>,
        slot: Slot,
        window_ref: WindowRef,
    ) -> Result<Inbox, OpenError> {
        let core = Core::of(window_ref);
        // A process that goes from now on finds the inbox in the table.
        for (peer, link) in self.peers.links.iter() {
            let down = link.state.lock().down;
            down.inspect(|why| core.lose(peer, *why));
        }
        let inbox = Inbox::new(core, self.name(self.me, slot), Arc::clone(self), given.map(str::to_owned));
        if let Some(name) = given {
            let asked = lock(&self.names.registry).register(name, slot).map_err(|refusal| match refusal {
                Refusal::Taken => OpenError::Taken(name.to_owned()),
                Refusal::Full => OpenError::Full,
            });
            for asker in asked? {
                self.answer(asker, slot);
            }
        }
        Ok(inbox)
    }
}
