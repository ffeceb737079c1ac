//! The start of a process.

use std::sync::Arc;

#[cfg(unix)]
use chanter::{Event, event::from_cancel_safe};

#[cfg(unix)]
use crate::engine::shm::{Shm, ShmSlot};
#[cfg(unix)]
use crate::engine::socket::{Config, Sockets, StartError};
use crate::engine::{Engine, Local, ProcessId, reliable};
use crate::group::{self, MembershipTables};
#[cfg(unix)]
use crate::join::{self, Join};
#[cfg(unix)]
use crate::launcher::Launched;
use crate::name::{self, NameLeader};
use crate::node::{Concerns, Node};
use crate::program::{self, Program};
use crate::pump::Pump;
use crate::remote::{self, RemoteThreads};
use crate::service::Requests;
use crate::{__table, Process};

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

impl Node {
    /// Starts the process: a thread of the current machine serves its engine from now on.
    /// `is_pumped`: the machine polls the engine, too.
    pub(crate) fn start(engine: Arc<dyn Engine>, is_pumped: bool) -> Arc<Self> {
        let program = Program::new(engine.roster().into_iter().map(|(peer, _)| peer));
        Self::start_as(engine, is_pumped, program)
    }

    /// Starts the process as [`start`](Self::start) does, with the description of its program given.
    pub(crate) fn start_as(engine: Arc<dyn Engine>, is_pumped: bool, program: Program) -> Arc<Self> {
        // Requests are looked for most often.
        let concerns = Concerns::default()
            .with(Requests::default())
            .with(RemoteThreads::default())
            .with(MembershipTables::default())
            .with(NameLeader::default())
            .with(program);
        let node = Self::new(engine, is_pumped, concerns);
        let here = Process::of(Arc::clone(&node));
        remote::serve(&here);
        name::serve(&here);
        group::serve(&here);
        program::serve(&here);
        __table::serve(&here);
        node.begin();
        node
    }
}

impl Process {
    /// Makes the process that `engine` connects. A thread of the current machine serves it. If the engine may lose or
    /// reorder frames to a peer, these go through a [link](crate::engine::Reliable).
    ///
    /// # Panics
    /// In the cases of [`local`].
    pub fn start(engine: impl Engine) -> Self {
        Self::of(Node::start(reliable(engine), false))
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
        Self::of(node)
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
            None => Self::of(Node::start(shm, false)),
        };
        door.into_iter().for_each(|door| join::serve(&here, door));
        Ok(here)
    }

    /// Makes a process that talks by sockets alone, and lets others join if the engine does.
    #[cfg(unix)]
    pub(crate) fn open_to(sockets: Sockets) -> Self {
        let door = sockets.door();
        let here = Self::of(Node::start(reliable(sockets), false));
        door.into_iter().for_each(|door| join::serve(&here, door));
        here
    }
}
