//! Processes that join a running cluster.
//!
//! A process [joins](crate::Process::join) by way of any other one, of which it knows the address: a *seed*. It gets the
//! next number, connects to all members, and takes part like any other. Numbers are never used again. A process
//! [leaves](crate::Process::leave) when it wants to, so a cluster is restarted process by process: each leaves, ends, and its
//! next version joins. [`Process::members`](crate::Process::members) tells of each change.
//!
//! ```text
//!   applicant ── address ──► seed ── admit ──► leader ── expect ──► each member
//!             ◄── number, members ──        ◄──            ◄── yes ──
//!             ── connects to each member; then all are as they would be from the start
//! ```
//!
//! # Environment
//!
//! With these variables, [`main`](macro@crate::main) and [`Process::launched`](crate::Process::launched) join, and no
//! launcher is needed:
//!
//! | variable | value |
//! |---|---|
//! | `CHANTER_SEEDS` | where processes of the cluster are found: [seeds](Seed), with commas between them |
//! | `CHANTER_LISTEN` | the address at which this process listens: `tcp:IP:PORT` (port 0: any) or `unix:PATH` |
//! | `CHANTER_ADVERTISE` | the address at which others reach it, if that is another one |
//! | `CHANTER_SECRET`, or `CHANTER_SECRET_FILE` | the cluster's secret, 32 bytes in hexadecimal; or a file with it |
//! | `CHANTER_TLS_..` | TLS between the processes, as with a [launcher](crate::launcher) |
//!
//! # The first process
//!
//! A process begins the cluster if its own address is the first of the seeds, and if no seed has a cluster. That is so
//! where nobody listens, or a process that looks, too. (The seeds of a DNS name or a file are sorted.) It looks for [some
//! time](Join::founds_after) before. So one process at most begins a cluster, unless that process is cut off from all other
//! seeds when it starts. Then there are two clusters, which never become one. [`Join::never_founds`] forbids it: use that where a cluster is known to run.
//!
//! # Failure
//!
//! Each two members have a connection, by which each notices the other's end. It notices the end of a process at once, and
//! that of a host or a network after [some silence](crate::engine::socket::Config::lost_after). There are no rumours: a process
//! has gone for those that have lost it, for ever. The *leader* is the living process with the lowest number. It gives
//! the numbers. If it dies meanwhile, the next one goes on.

mod admission;
mod seeds;

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use chanter::event::from_cancel_safe;
use chanter::prelude::*;

pub(crate) use self::admission::serve;
pub use self::seeds::Seed;
use crate::Process;
use crate::engine::socket::joining::{Answer, Application, Found, Known, Looking, NotFound};
use crate::engine::socket::{Config, Sockets, StartError, Starting, Tls};
use crate::engine::{NodeId, ProcessId};
use crate::launcher::{Address, BadEnvironment, SECRET, Secret, tls_files};

/// Name of the variable with the seeds.
pub const SEEDS: &str = "CHANTER_SEEDS";
/// Name of the variable with the address at which the process listens.
pub const LISTEN: &str = "CHANTER_LISTEN";
/// Name of the variable with the address at which others reach it.
pub const ADVERTISE: &str = "CHANTER_ADVERTISE";
/// Name of the variable with the file of the secret.
pub const SECRET_FILE: &str = "CHANTER_SECRET_FILE";

/// Highest number that a process believes it is given.
const HIGHEST: u32 = 1 << 30;

/// Time between two attempts to join.
const PAUSE: Duration = Duration::from_millis(200);

/// The way in which a process joins a cluster.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::Process;
/// use chanter_cluster::join::Join;
/// use chanter_cluster::launcher::Secret;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| format!("unix:{}", folder.path().join(name).display());
/// # let machine = Machine::new()?;
/// # machine.block_on(async move {
/// let secret = Secret::new([7; 32]);
/// let seed: chanter_cluster::join::Seed = path("a").parse()?;
/// // Its address is the first seed, so it begins the cluster.
/// let a = Process::join(
///     Join::new(secret.clone(), path("a").parse()?).seed(seed.clone()).founds_after(std::time::Duration::ZERO),
/// );
/// let a = a.await?;
/// let b = Process::join(Join::new(secret, path("b").parse()?).seed(seed)).await?;
/// assert_eq!((a.number(), b.number()), (0, 1));
/// // `a` has taken it in. It counts as a member with its first message, which may be on its way.
/// let members = a.members();
/// while members.update().as_slice() != [0, 1] {
///     members.changed().await?;
/// }
/// # b.leave().await;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # }).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "it is joined by `Process::join`"]
pub struct Join {
    seeds: Vec<Seed>,
    listen: Address,
    advertise: Option<Address>,
    secret: Secret,
    /// Time after which the process begins a cluster; `None`: it never does.
    founds_after: Option<Duration>,
    config: Config,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join")
            .field("listen", &self.listen)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

impl Join {
    /// Joins a cluster with that secret, and listens at that address. With TCP, the port may be 0, for any. The IP may
    /// be unspecified (`0.0.0.0`, `[::]`), for all; others then reach the process at the one by which it reaches the
    /// seed.
    pub fn new(secret: Secret, listen: Address) -> Self {
        Self {
            seeds: Vec::new(),
            listen,
            advertise: None,
            secret,
            founds_after: Some(Duration::from_secs(3)),
            config: Config::default(),
        }
    }

    /// Looks for processes of the cluster here as well.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seeds.push(seed);
        self
    }

    /// States the address at which others reach this process, if it listens at another one.
    pub fn advertise(mut self, address: Address) -> Self {
        self.advertise = Some(address);
        self
    }

    /// Begins a cluster only after this time of looking for one, 3 s by default; and only if this process's address
    /// is the first of the seeds.
    pub fn founds_after(mut self, time: Duration) -> Self {
        self.founds_after = Some(time);
        self
    }

    /// Never begins a cluster.
    pub fn never_founds(mut self) -> Self {
        self.founds_after = None;
        self
    }

    /// Sets the limits of the connections. [`Config::start`] is the time after which joining is given up.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// With the limits of `config`, but with the TLS that the environment has set, if `config` has none.
    pub(crate) fn with_limits_of(self, mut config: Config) -> Self {
        config.tls = config.tls.or(self.config.tls);
        Self { config, ..self }
    }

    /// The values of the [environment](self#environment); `None` without `CHANTER_SEEDS`.
    ///
    /// # Errors
    /// A variable is missing, or bad.
    pub fn from_env() -> Result<Option<Self>, StartError> {
        let text = |name: &'static str| match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(_) => Err(BadEnvironment { variable: name }),
        };
        let Some(seeds) = text(SEEDS)? else { return Ok(None) };
        let address = |name: &'static str| {
            let address = text(name)?.map(|text| text.parse::<Address>()).transpose();
            address.map_err(|_| BadEnvironment { variable: name })
        };
        let seeds = seeds.split(',').map(|seed| seed.trim().parse()).collect::<Result<Vec<Seed>, _>>();
        let listen = address(LISTEN)?.ok_or(BadEnvironment { variable: LISTEN })?;
        let secret = match (text(SECRET)?, std::env::var_os(SECRET_FILE).map(PathBuf::from)) {
            (Some(text), None) => Secret::from_hex(&text).ok_or(BadEnvironment { variable: SECRET })?,
            (None, Some(file)) => {
                let text = fs::read_to_string(file)?;
                Secret::from_hex(text.trim()).ok_or(BadEnvironment { variable: SECRET_FILE })?
            }
            _ => return Err(BadEnvironment { variable: SECRET }.into()),
        };
        let mut join = Self::new(secret, listen);
        join.seeds = seeds.map_err(|_| BadEnvironment { variable: SEEDS })?;
        join.advertise = address(ADVERTISE)?;
        if let Some(files) = tls_files(|name| std::env::var_os(name))? {
            join.config.tls =
                Some(Tls::from_launcher(&files).map_err(|error| StartError::Tls(error.to_string()))?);
        }
        Ok(Some(join))
    }
}

/// The socket at which a process listens, with its true address.
fn listen(address: &Address) -> Result<(OwnedFd, Address), StartError> {
    match address {
        Address::Unix(path) if path.as_os_str().as_encoded_bytes().starts_with(b"@") => {
            let why = "a process that joins does not listen at an abstract name";
            Err(io::Error::new(io::ErrorKind::Unsupported, why).into())
        }
        Address::Unix(path) => {
            // A socket of an earlier process is in the way, unless somebody listens there.
            if std::os::unix::net::UnixStream::connect(path).is_err() {
                let _ = fs::remove_file(path);
            }
            Ok((UnixListener::bind(path)?.into(), address.clone()))
        }
        Address::Tcp(wanted) => {
            let listener = TcpListener::bind(wanted)?;
            let address = Address::Tcp(listener.local_addr()?);
            Ok((listener.into(), address))
        }
    }
}

/// The address at which others reach a process that listens at `listens` and has reached them from `local`.
fn reached_at(listens: &Address, local: Option<IpAddr>) -> Address {
    match (listens, local) {
        // `[::]` takes connections of both families, and `0.0.0.0` those of its own.
        (Address::Tcp(address), Some(ip))
            if address.ip().is_unspecified() && (address.is_ipv6() || ip.is_ipv4()) =>
        {
            Address::Tcp(SocketAddr::new(ip, address.port()))
        }
        _ => listens.clone(),
    }
}

impl Process {
    /// Joins a running cluster, or begins it: see [`join`](crate::join).
    ///
    /// It **blocks** the thread until all members know this process, and its program agrees with theirs (see
    /// [`agree`](Self::agree)). Attempts that fail are repeated, as members may be starting or leaving.
    ///
    /// **Cancel safety.** If the future is dropped, the process has not joined; its number is not used again.
    ///
    /// # Errors
    /// No cluster was found or joined in [time](Config::start), and the last reason; or the address is not free; or the
    /// programs differ.
    ///
    /// # Panics
    /// In the cases of [`local`](crate::local).
    pub async fn join(join: Join) -> Result<Self, StartError> {
        let limit = join.config.start;
        let mut last = StartError::NoSeed("there is no seed".to_owned());
        let joined = from_cancel_safe(join.attempts(&mut last)).timeout(limit).await;
        joined.unwrap_or(Err(last))
    }
}

/// The result of a look at all seeds.
struct Look {
    member: Option<Application>,
    /// This process's address, if that is the first of the seeds, and if no seed has a cluster.
    founds: Option<Address>,
}

impl Join {
    /// Tries until it has joined. `last`: the latest reason for which it has not.
    async fn attempts(&self, last: &mut StartError) -> Result<Process, StartError> {
        let (listener, listens) = listen(&self.listen)?;
        let mut alone_since = chanter::now();
        let mut failed = None;
        loop {
            let look = {
                let (listener, tls) = (listener.try_clone()?, self.config.tls.as_ref());
                let _looking = Looking::new(listener, &listens, &self.secret, tls, self.config.hello)?;
                self.look(&listens, last).await
            };
            if let Some(application) = look.member {
                match self.enter(application, &mut failed, listener.try_clone()?).await {
                    Ok(here) => return Ok(here),
                    // Another attempt would end in the same way.
                    Err(error @ StartError::Program(_)) => return Err(error),
                    Err(error) => *last = error,
                }
            }
            match (look.founds, self.founds_after) {
                (Some(own), Some(time)) if chanter::now().duration_since(alone_since) >= time => {
                    return self.start(ProcessId(0), vec![(ProcessId(0), NodeId(0), own)], listener).await;
                }
                (Some(_), _) => {}
                (None, _) => alone_since = chanter::now(),
            }
            after(PAUSE).await;
        }
    }

    /// Looks at the seeds in turn, until one is a member.
    async fn look(&self, listens: &Address, last: &mut StartError) -> Look {
        let (mut own, mut is_first, mut others_are_out) = (None, true, true);
        for seed in &self.seeds {
            let addresses = match seed.addresses().await {
                Ok(addresses) => addresses,
                Err(error) => {
                    *last = StartError::NoSeed(format!("{seed}: {error}"));
                    is_first = false;
                    continue;
                }
            };
            for address in addresses {
                let was_first = std::mem::replace(&mut is_first, false);
                if seeds::is_own(&address, self.advertise.as_ref().unwrap_or(listens)) {
                    own = own.or(was_first.then_some(address));
                    continue;
                }
                let reached = |local: Option<SocketAddr>| match &self.advertise {
                    Some(address) => address.clone(),
                    None => reached_at(listens, local.map(|local| local.ip())),
                };
                let (tls, limit) = (self.config.tls.as_ref(), self.config.hello);
                match Application::find(&address, &self.secret, tls, limit, reached).await {
                    Ok(Found::Member(application)) => {
                        return Look { member: Some(application), founds: None };
                    }
                    Ok(Found::Looking) => {
                        *last = StartError::Seed(address, "it looks for a cluster itself".into())
                    }
                    Err(NotFound::Nobody(error)) => *last = error,
                    Err(NotFound::Stranger(error)) => {
                        *last = error;
                        others_are_out = false;
                    }
                }
            }
            is_first = false;
        }
        Look { member: None, founds: own.filter(|_| others_are_out) }
    }

    /// Asks a member for a number, and connects to all members. `failed`: the number of an attempt that has failed.
    async fn enter(
        &self,
        application: Application,
        failed: &mut Option<ProcessId>,
        listener: OwnedFd,
    ) -> Result<Process, StartError> {
        // The member has as long for each of three steps: to ask the leader, who asks all.
        let late = || StartError::NoSeed("a member does not answer in time".to_owned());
        let asked = from_cancel_safe(application.ask(*failed)).timeout(3 * self.config.hello).await;
        let (number, node, others) = match asked.ok_or_else(late)?? {
            Answer::Admitted { number, node, others } => (number, node, others),
            Answer::Refused(why) => return Err(StartError::NoSeed(why)),
        };
        *failed = Some(number);
        let mut members = vec![(number, node, application.own().clone())];
        for Known { number: other, node, address } in others {
            let address = address.parse()?;
            if other >= number || number.0 > HIGHEST {
                return Err(StartError::Stranger(other, "its answer makes no sense".to_owned()));
            }
            members.push((other, node, address));
        }
        // Members await this process so long.
        let entered =
            from_cancel_safe(self.start(number, members, listener)).timeout(self.config.hello).await;
        let here = entered.ok_or_else(late)??;
        application.confirm().await;
        match here.agree().await {
            Ok(()) => Ok(here),
            Err(disagreement) => {
                here.leave().await;
                Err(StartError::Program(disagreement))
            }
        }
    }

    async fn start(
        &self,
        me: ProcessId,
        members: Vec<(ProcessId, NodeId, Address)>,
        listener: OwnedFd,
    ) -> Result<Process, StartError> {
        let secret = self.secret.clone();
        let starting = Starting { me, members, listener, secret, is_open: true, joins: true };
        Ok(Process::open_to(Sockets::connect(starting, self.config.clone()).await?))
    }
}
