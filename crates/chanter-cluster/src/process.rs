//! `Process`: this process of the cluster.

use std::fmt;
use std::sync::Arc;

use chanter::Event;
#[cfg(unix)]
use chanter::event::from_cancel_safe;
use chanter::sync::Watcher;

#[cfg(unix)]
use crate::engine::shm::{Shm, ShmSlot};
#[cfg(unix)]
use crate::engine::socket::{Config, Sockets, StartError};
use crate::engine::{Disagreement, Engine, Local, ProcessId, Why, reliable};
use crate::error::{LookupError, OpenError};
use crate::inbox::Inbox;
#[cfg(unix)]
use crate::join::{self, Join};
#[cfg(unix)]
use crate::launcher::Launched;
use crate::name::{MAIN, ThreadName};
use crate::node::Node;
use crate::program;
use crate::pump::Pump;

/// A process of a cluster, as its own threads see it. Clones are the same process.
#[derive(Clone)]
#[doc(alias = "Here")]
pub struct Process {
    node: Arc<Node>,
}

/// Makes the processes of a cluster that lies in one OS process, to try a program, and for tests. They share nothing
/// but messages.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::{ANYONE, local};
///
/// const HELLO: u32 = 1;
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
/// let greeter = spawn(async move {
///     let me = first.open("greeter").unwrap();
///     let got = me.recv::<String>(ANYONE, HELLO).await.unwrap();
///     format!("{} says {}", got.from, got.value)
/// });
/// let me = second.inbox().unwrap();
/// let greeter_there = second.lookup("greeter@0").await.unwrap();
/// me.send(greeter_there, HELLO, "hello").await.unwrap();
/// assert_eq!(greeter.join().await.unwrap(), "<pe 0, process 1, thread 1.1> says hello");
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the last handle of a process leaves the cluster at once, with messages and answers unsent: call
/// [`leave`](Process::leave) before.
///
/// # Panics
/// If the caller is no thread of a machine. Each process has a thread of its own there.
pub fn local(count: u32) -> Vec<Process> {
    Local::cluster(count).into_iter().map(Process::start).collect()
}

impl Process {
    pub(crate) fn of(node: Arc<Node>) -> Self {
        Self { node }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Makes the process that `engine` connects. A thread of the current machine serves it. If the engine may lose or
    /// reorder frames to a peer, these go through a [link](crate::engine::Reliable).
    ///
    /// # Panics
    /// In the cases of [`local`].
    pub fn start(engine: impl Engine) -> Self {
        Self { node: Node::start(reliable(engine), false) }
    }

    /// Like [`start`](Self::start), with an engine that wakes nobody, or not at once: the machine polls it by `pump`.
    ///
    /// # Panics
    /// In the cases of [`local`], or if the pump serves an engine already.
    pub fn start_polled(engine: impl Engine, pump: &Pump) -> Self {
        Self::polled(Arc::new(engine), pump)
    }

    fn polled(engine: Arc<dyn Engine>, pump: &Pump) -> Self {
        let node = Node::start(Arc::clone(&engine), true);
        pump.serve(engine, &node);
        Self { node }
    }

    /// Makes this process of the job that `chanter launch` has started. Without a launcher, it joins the cluster that
    /// [the environment](crate::join#environment) names. Without that, it is alone in its job.
    ///
    /// # Errors
    /// The environment is not what a launcher sets, or the processes have not found each other: see
    /// [`StartError`](crate::engine::socket::StartError).
    ///
    /// # Panics
    /// In the cases of [`local`].
    #[cfg(unix)]
    pub async fn launched() -> Result<Self, StartError> {
        Self::launched_with(Config::default()).await
    }

    /// Like [`launched`](Self::launched), with other limits of the sockets, such as the number of missed heartbeats
    /// after which a process is given up. (A process that dies on the same node, or whose connection breaks, is noticed
    /// at once.)
    ///
    /// # Errors
    /// The errors of [`launched`](Self::launched).
    ///
    /// # Panics
    /// In the cases of [`local`].
    #[cfg(unix)]
    pub async fn launched_with(config: Config) -> Result<Self, StartError> {
        let Some(launched) = Launched::from_env()? else {
            return match Join::from_env()? {
                Some(join) => Self::join(join.with_limits_of(config)).await,
                None => Ok(Self::start(Local::alone())),
            };
        };
        let limit = config.start;
        let here = Self::connected(launched, config).await?;
        match from_cancel_safe(here.agree()).timeout(limit).await {
            Some(Ok(())) => Ok(here),
            Some(Err(disagreement)) => {
                here.leave().await;
                Err(StartError::Program(disagreement))
            }
            None => Err(StartError::Missing(program::unheard(&here))),
        }
    }

    #[cfg(unix)]
    async fn connected(mut launched: Launched, config: Config) -> Result<Self, StartError> {
        let Some(segment) = launched.segment.take() else {
            return Ok(Self::open_to(Sockets::start(launched, config).await?));
        };
        // The slot is taken before this process connects, so the others know it.
        let shm_slot = ShmSlot::take(segment, ProcessId(launched.number), launched.addresses.len() as u32)?;
        let sockets = Sockets::start(launched, config).await?;
        let door = sockets.door();
        let shm = reliable(Shm::new(shm_slot, sockets));
        // A worker without other work polls for messages while it spins.
        let here = match Pump::here() {
            Some(pump) => Self::polled(shm, &pump),
            None => Self { node: Node::start(shm, false) },
        };
        door.into_iter().for_each(|door| join::serve(&here, door));
        Ok(here)
    }

    /// Makes a process that talks by sockets alone, and lets others join if the engine does.
    #[cfg(unix)]
    pub(crate) fn open_to(sockets: Sockets) -> Self {
        let door = sockets.door();
        let here = Self { node: Node::start(reliable(sockets), false) };
        door.into_iter().for_each(|door| join::serve(&here, door));
        here
    }

    /// Compares which methods of objects, services and functions the programs of all processes have. All processes of a
    /// cluster have to call this. Those that [`launched`](Self::launched) makes do so when they join.
    ///
    /// It **blocks** the thread until the first process has answered. In the first process, it blocks until all others
    /// have asked, or have gone.
    ///
    /// # Errors
    /// This process and another one do not agree on something that both know. The other one gets the same error. Their
    /// requests to each other could not be understood, so this process should leave.
    pub async fn agree(&self) -> Result<(), Disagreement> {
        program::agree(self).await
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

    /// Leaves the cluster: all sent messages arrive, and then the other processes learn of it. Running requests go on
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
