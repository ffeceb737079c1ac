//! `Process`: this process of the cluster.

use std::fmt;
use std::sync::Arc;

use chanter::Event;
use chanter::sync::Watcher;

use crate::engine::{ProcessId, Why};
use crate::error::{LookupError, OpenError};
use crate::inbox::Inbox;
use crate::name::{MAIN, ThreadName};
use crate::node::Node;

/// A process of a cluster, as its own threads see it. Clones are the same process.
#[derive(Clone)]
#[doc(alias = "Here")]
pub struct Process {
    node: Arc<Node>,
}

impl Process {
    pub(crate) fn of(node: Arc<Node>) -> Self {
        Self { node }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The number of this process.
    pub fn number(&self) -> u32 {
        self.node.me().0
    }

    /// Number of processes that the cluster has had: their numbers are below it. Unless processes
    /// [join](Self::join) a running cluster, it is the number of processes at the start.
    pub fn count(&self) -> u32 {
        self.node.process_count()
    }

    /// The numbers of the processes that are there, this one among them, in ascending order, as a value that can be
    /// [watched](Watcher::changed). A process that joins is there when it is connected with all others.
    ///
    /// ```
    /// use chanter::prelude::*;
    /// use chanter_cluster::local;
    ///
    /// # let machine = Machine::new()?;
    /// # machine.block_on(async {
    /// let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
    /// let members = first.members();
    /// assert_eq!(members.get(), [0, 1]);
    /// second.leave().await;
    /// while members.get() != [0] {
    ///     members.changed().await.unwrap();
    /// }
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn members(&self) -> Watcher<Vec<u32>> {
        self.node.members()
    }

    /// The reason why a process has gone, if it is known to have gone. For a number that no process has had it is `None`,
    /// too. A process that had gone before this one joined has [left](Why::Left).
    pub fn down(&self, process: u32) -> Option<Why> {
        self.node.down(ProcessId(process))
    }

    /// Opens an inbox, under a name that others can [look up](Self::lookup). It is closed, and the name is
    /// free again, when it is dropped.
    ///
    /// # Errors
    /// The name is taken here, or bad; or there are too many.
    pub fn open(&self, name: &str) -> Result<Inbox, OpenError> {
        self.node.open(Some(name))
    }

    /// Opens an inbox that nobody can look up: its [name](Inbox::name) must be sent to its users.
    ///
    /// # Errors
    /// There are too many.
    pub fn inbox(&self) -> Result<Inbox, OpenError> {
        self.node.open(None)
    }

    /// Takes the main inbox of this process. It is there from the start, so messages may come before it is taken. It is
    /// given once. The call does not block.
    ///
    /// # Errors
    /// [`MainTaken`](OpenError::MainTaken): it was taken before.
    ///
    /// ```
    /// use chanter::prelude::*;
    /// use chanter_cluster::local;
    ///
    /// # let machine = Machine::new()?;
    /// # machine.block_on(async {
    /// let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
    /// let me = first.main_inbox().unwrap();
    /// me.send(first.main_of(1), 7, "hello").await.unwrap();
    /// let there = second.main_inbox().unwrap();
    /// assert_eq!(there.recv::<String>(second.main_of(0), 7).await.unwrap().value, "hello");
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "MPI_COMM_WORLD")]
    pub fn main_inbox(&self) -> Result<Inbox, OpenError> {
        self.node.open_main()
    }

    /// The name of a process's [main inbox](Self::main_inbox). It needs no look-up. A send to a number without a process
    /// fails with [`NoSuchProcess`](crate::SendError::NoSuchProcess).
    #[doc(alias = "rank")]
    pub fn main_of(&self, process: u32) -> ThreadName {
        self.node.name(ProcessId(process), MAIN)
    }

    /// The event of finding the inbox that was opened as `name@process`. A `name` alone means this process. It commits
    /// when such an inbox is open. If it is not chosen, or dropped, nothing happens.
    ///
    /// # Errors
    /// The name is bad, there is no such process, or it has gone.
    pub fn lookup(&self, name: &str) -> impl Event<Output = Result<ThreadName, LookupError>> + Send + use<> {
        self.node.lookup(name)
    }

    /// Number of frames that were dropped because their receiver had gone or they were malformed.
    pub fn dropped(&self) -> u64 {
        self.node.dropped()
    }

    /// Leaves the cluster: all messages sent before arrive, and then the other processes learn of it. Running requests go on
    /// first until they are answered or block. Requests that wait, or have not begun, are lost to their callers.
    ///
    /// Afterwards this process is alone. For it, each other process has gone, with [`Why::Left`]. So all that waits for
    /// another process, or begins later, ends with the error of a lost process:
    ///
    /// * sends, and sends to ports: [`SendError::Lost`](crate::SendError::Lost)
    /// * receives from a thread of another process: [`RecvError::Lost`](crate::RecvError::Lost), after the messages that have
    ///   come. Receives from [`ANYONE`](crate::ANYONE) wait for threads of this process. A port ends if only others had
    ///   its senders.
    /// * calls, posts, spawns and orders to threads: [`CallError::Lost`](crate::CallError::Lost)
    /// * lookups: [`LookupError::Lost`]
    /// * operations of groups: [`Lost`](crate::group::Lost), or an error of the group that cannot form
    ///
    /// Messages, calls and names among the threads of this process go on.
    ///
    /// It **blocks** the thread until each other process has taken what was sent to it, or is known to have gone. A process
    /// that is stopped may hold it up for as long as it is. To bound the wait, synchronize
    /// [`from_cancel_safe(here.leave()).timeout(..)`](chanter::event::from_cancel_safe), and then drop the process.
    ///
    /// **Cancel safety.** If it is dropped, the process leaves nevertheless, or it has not begun to. Another call tells.
    ///
    /// ```
    /// use chanter::prelude::*;
    /// use chanter_cluster::engine::{ProcessId, Why};
    /// use chanter_cluster::{LookupError, local};
    ///
    /// # let machine = Machine::new()?;
    /// # machine.block_on(async {
    /// let [first, _second] = <[_; 2]>::try_from(local(2)).unwrap();
    /// first.leave().await;
    /// assert_eq!(first.lookup("clerk@1").await, Err(LookupError::Lost(ProcessId(1), Why::Left)));
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn leave(&self) {
        self.node.leave().await;
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("number", &self.number()).finish_non_exhaustive()
    }
}
