//! Handles of threads that the tree knows.

use super::tree::Node;
use super::{Kin, genealogy_of, kin_of, look};
use crate::frame::{Kind, Observer};
use crate::machine::{Machine, MachineHandle};
use crate::sched::Pool;
use crate::thread::AnyThread;

impl Node {
    /// A handle of the thread; `None` if it is determined. The tree is being read.
    fn handle(&self) -> Option<AnyThread> {
        let frame = self.frame?;
        // SAFETY: until a thread has died its frame is in use, and it does not die while the tree is read. Its maker
        // has set its table, and marked it as SHARED, before it told of its birth. The reference is counted first: the
        // table of a thread that is about to die may be gone.
        unsafe {
            frame.as_ref().state.try_retain().then(|| {
                let is_host = (frame.as_ref().vtable.get().joiners)(frame).is_some();
                AnyThread::from_frame(frame, is_host)
            })
        }
    }
}

impl Pool {
    fn thread(&self, id: u64) -> Option<AnyThread> {
        let genealogy = self.genealogy()?;
        genealogy.read(|tree| tree.get(genealogy.number_of(id))?.handle())
    }
}

impl Machine {
    /// A handle of the thread with this [number](Kin::id). The owner of the machine may ask any of its threads.
    /// `None`: the thread is determined, or the machine [keeps no genealogy](crate::Builder::genealogy).
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let machine = Machine::builder().vps(1).genealogy(true).build()?;
    /// machine.block_on(async {
    ///     spawn(async { never::<()>().await });
    ///     Thread::builder().name("server").spawn(async { never::<()>().await });
    ///     yield_now().await;
    /// });
    /// let threads = machine.threads().unwrap();
    /// let server = threads.iter().find(|(_, kin)| kin.name() == Some("server")).and_then(|(_, kin)| kin.id()).unwrap();
    /// let server = machine.thread(server).unwrap();
    /// assert!(server.set_name("old server"));
    /// server.cancel().sync_blocking().unwrap();
    /// assert!(server.is_determined());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thread(&self, id: u64) -> Option<AnyThread> {
        self.pool().thread(id)
    }
}

impl MachineHandle {
    /// A handle of the thread with this number; see [`Machine::thread`].
    pub fn thread(&self, id: u64) -> Option<AnyThread> {
        self.machine.thread(id)
    }
}

impl AnyThread {
    /// A description of the thread, as a value: number, name, site, and progress.
    pub fn kin(&self) -> Kin {
        // SAFETY: the handle keeps the frame. The table of a host's body does not change; others are not asked.
        unsafe {
            if self.is_host() {
                return kin_of(self.frame());
            }
            look(self.frame(), |genealogy, _, node| Kin::of_node(genealogy, node)).unwrap_or_else(|| Kin {
                id: None,
                name: None,
                site: None,
                generation: None,
                progress: self.progress(),
                is_parasite: self.header().kind.get() == Kind::Parasite,
                body: None,
            })
        }
    }

    /// The thread's number; see [`Thread::id`](crate::Thread::id).
    pub fn id(&self) -> Option<u64> {
        // SAFETY: the handle keeps the frame.
        unsafe { genealogy_of(self.frame())?.id(self.frame()) }
    }

    /// The thread and all that descend from it, as far as they live, each before its children. Threads whose parent
    /// has ended belong to their nearest ancestor that lives. Empty: the machine
    /// [keeps no genealogy](crate::Builder::genealogy), or none of them lives.
    ///
    /// It takes time in their number, and nobody spawns meanwhile. Threads that are spawned later are missing:
    /// [suspend](Self::suspend) those that spawn, and ask again.
    pub fn family(&self) -> Vec<Self> {
        // SAFETY: the handle keeps the frame.
        let family = unsafe {
            look(self.frame(), |_, tree, node| tree.branch(node).filter_map(Node::handle).collect::<Vec<_>>())
        };
        family.unwrap_or_default()
    }
}
