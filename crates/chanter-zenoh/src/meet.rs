//! How the processes of a job find each other: by liveliness tokens.
//!
//! Each says that it is there. A process that sees one process of each number publishes a hash of all that it sees.
//! When all that it sees publish the same hash, all know the same processes. So nobody takes a left-over process of
//! an earlier job of the same name for one of this job. One of two is missing until the old one has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{ThreadBuilder, event::from_cancel_safe};
use chanter_engine::{Change, ProcessId, Why};
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::SampleKind;

use crate::config::Config;
use crate::error::StartError;
use crate::frames::{Frames, LONGEST, Remote, Shared};
use crate::keys::{self, Once, Says, Token};
use crate::mailbox::Mailbox;

/// News of a token: it is there, or not any more.
type Heard = (Token, bool);

/// Number of intervals for which each other process has been silent, once something was heard of it.
type Silences = Arc<Mutex<BTreeMap<(ProcessId, Once), Arc<AtomicU32>>>>;

/// Zenoh says no: why, in its words.
fn refused(error: zenoh::Error) -> StartError {
    StartError::Zenoh(error.to_string())
}

/// Connects this process with all others of its job.
pub(crate) async fn start(config: Config) -> Result<Frames, StartError> {
    config.check()?;
    let once = Once::draw()?;
    let settings = config.settings(once)?;
    let (tell, heard) = mailbox();
    let (job, suspect_after, lost_after) = (config.job.clone(), config.suspect_after, config.lost_after);
    let reconnect = config.reconnect;
    let me = (ProcessId(config.number), once);
    // Zenoh waits for connections, and for answers: not on a virtual processor.
    let opening = spawn_blocking(move || Opened::new(settings, &job, me, suspect_after, tell));
    let opened = opening.join().await.map_err(|error| StartError::Zenoh(error.to_string()))??;
    let mut meeting = Meeting { config: &config, me, present: BTreeMap::new(), hash: None };
    let met = from_cancel_safe(meeting.until_complete(&opened, &heard)).timeout(config.start).await;
    let token = match met.unwrap_or_else(|| Err(meeting.who_is_missing())) {
        Ok(token) => token,
        Err(error) => {
            // Zenoh waits for the end of its session.
            let _ = spawn_blocking(move || drop(opened)).join().await;
            return Err(error);
        }
    };
    let others: Vec<_> = meeting.others().collect();
    let (count, interval) = (others.len(), config.heartbeat);
    let declaring = spawn_blocking(move || {
        let declared = others.into_iter().map(|of| {
            let silence = opened.silence_of(of);
            Ok((of.0, Remote::declare(&opened.session, &opened.job, me, of, silence)?))
        });
        let peers: BTreeMap<_, _> = declared.collect::<zenoh::Result<_>>().map_err(refused)?;
        let Opened { session, job, mailbox, mut tokens, .. } = opened;
        tokens.push(token);
        Ok::<_, StartError>(Arc::new(Shared::new(session, job, me, peers, mailbox, tokens)))
    });
    let shared = declaring.join().await.map_err(|error| StartError::Zenoh(error.to_string()))??;
    debug_assert_eq!(shared.peers.len(), count);
    // Later news is still in the mailbox of tokens.
    drop(ThreadBuilder::new().name("zenoh tokens").spawn(listen(Arc::downgrade(&shared), heard, reconnect)));
    let beating = Arc::downgrade(&shared);
    drop(ThreadBuilder::new().name("zenoh beats").spawn(async move {
        loop {
            after(interval).await;
            let Some(shared) = beating.upgrade() else { return };
            if shared.has_ended() {
                return;
            }
            beat(&shared, suspect_after, lost_after);
        }
    }));
    Ok(Frames::new(shared))
}

/// Passes on changes of tokens. A token that ends without a good-bye has `reconnect` to come back: its connection has
/// broken, or its process has died.
async fn listen(shared: Weak<Shared>, heard: Receiver<Heard>, reconnect: Duration) {
    let mut ended: BTreeMap<(ProcessId, Once), Instant> = BTreeMap::new();
    loop {
        let next = heard.recv().wrap(Some);
        let said = match ended.values().min() {
            None => next.await,
            Some(due) => choose_biased((next, at(*due).wrap(|()| None))).await,
        };
        let Some(shared) = shared.upgrade() else { return };
        match said {
            Some(Err(_)) => return,
            Some(Ok((token @ Token { peer, once, says: Says::Alive }, false))) if !reconnect.is_zero() => {
                if shared.knows(token) {
                    ended.insert((peer, once), chanter::now() + reconnect);
                }
            }
            Some(Ok((token, is_there))) => {
                if token.says == Says::Alive {
                    ended.remove(&(token.peer, token.once));
                }
                shared.heard(token, is_there);
            }
            None => {
                let now = chanter::now();
                ended.retain(|&(peer, once), due| {
                    if *due <= now {
                        shared.heard(Token { peer, once, says: Says::Alive }, false);
                    }
                    *due > now
                });
            }
        }
    }
}

/// Says that this process lives, and looks which others live.
fn beat(shared: &Shared, suspect_after: u32, lost_after: u32) {
    let beat = shared.session.put(keys::beats(&shared.job, shared.me), Vec::new());
    let _ =
        beat.congestion_control(CongestionControl::Drop).priority(Priority::RealTime).express(true).wait();
    for (peer, remote) in &shared.peers {
        // ORDER: Relaxed: a count. News of the peer sets it to 0, before or after.
        let before = remote.silence.fetch_add(1, Ordering::Relaxed);
        let of = (*peer, remote.once);
        if before + 1 == lost_after {
            shared.mailbox.put_change(of, Change::Down(Why::Unreachable));
        } else if before + 1 == suspect_after {
            shared.mailbox.put_change(of, Change::Suspect);
        }
    }
}

/// A hash that all builds agree on (FNV-1a). It need not resist collisions: a process that may say a hash may lie
/// anyway.
fn fnv(words: impl Iterator<Item = u64>) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    words.flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, add)
}

impl Once {
    fn draw() -> Result<Self, StartError> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)
            .map_err(|error| StartError::Zenoh(format!("the OS has no random bytes: {error}")))?;
        let random = u64::from_le_bytes(bytes);
        // Of a host that does not say who it is, each process counts as a node of its own.
        Ok(Self(host().map_or(random, |host| u64::from(host) << 32 | random & u64::from(u32::MAX))))
    }
}

/// A hash of this host's name, and of its kernel's present run.
fn host() -> Option<u32> {
    let read = |path: &str| std::fs::read(path).ok();
    let name = [read("/proc/sys/kernel/random/boot_id")?, read("/proc/sys/kernel/hostname")?].concat();
    Some(fnv(name.into_iter().map(u64::from)) as u32)
}

/// A session in which this process has said that it is there.
struct Opened {
    session: zenoh::Session,
    job: String,
    mailbox: Arc<Mailbox>,
    tokens: Vec<LivelinessToken>,
    silences: Silences,
}

impl Opened {
    fn new(
        settings: zenoh::Config,
        job: &str,
        me: (ProcessId, Once),
        suspect_after: u32,
        tell: Sender<Heard>,
    ) -> Result<Self, StartError> {
        let session = zenoh::open(settings).wait().map_err(refused)?;
        let (mailbox, silences) = (Arc::new(Mailbox::default()), Silences::default());
        // The frames come first, then the token: a process that sees the token can send.
        let hearing =
            Hearing { mailbox: Arc::clone(&mailbox), silences: Arc::clone(&silences), suspect_after };
        let heard = hearing.clone();
        let subscriber = session.declare_subscriber(keys::frames_to(job, me)).callback(move |sample| {
            let is_frame = sample.payload().len() <= LONGEST;
            if let Some((from, once, lane)) =
                keys::sender_of_frame(sample.key_expr().as_str()).filter(|_| is_frame)
            {
                heard.hears((from, once));
                heard.mailbox.put_frame((from, once), lane, sample.payload().to_bytes().into_owned());
            }
        });
        subscriber.background().wait().map_err(refused)?;
        let subscriber = session.declare_subscriber(keys::all_beats(job)).callback(move |sample| {
            if let Some(from) = keys::sender_of_beat(sample.key_expr().as_str()) {
                hearing.hears(from);
            }
        });
        subscriber.background().wait().map_err(refused)?;
        let liveliness = session.liveliness();
        let subscriber =
            liveliness.declare_subscriber(keys::all_tokens(job)).history(true).callback(move |sample| {
                if let Some(token) = keys::read_token(sample.key_expr().as_str()) {
                    // It is closed when the process does not care any more.
                    let _ = tell.try_send((token, sample.kind() == SampleKind::Put));
                }
            });
        subscriber.background().wait().map_err(refused)?;
        let alive = Token { peer: me.0, once: me.1, says: Says::Alive };
        let token = liveliness.declare_token(keys::token(job, alive)).wait().map_err(refused)?;
        Ok(Self { session, job: job.to_owned(), mailbox, tokens: vec![token], silences })
    }

    fn declare(&self, token: Token) -> Result<LivelinessToken, StartError> {
        self.session.liveliness().declare_token(keys::token(&self.job, token)).wait().map_err(refused)
    }

    fn silence_of(&self, of: (ProcessId, Once)) -> Arc<AtomicU32> {
        let mut silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(silences.entry(of).or_default())
    }
}

/// Called by Zenoh's threads when something comes from a process.
#[derive(Clone)]
struct Hearing {
    mailbox: Arc<Mailbox>,
    silences: Silences,
    suspect_after: u32,
}

/// Largest number of processes that may be heard of; others are none of the job.
const MOST: usize = 2 * chanter_engine::launcher::MOST as usize;

impl Hearing {
    fn hears(&self, from: (ProcessId, Once)) {
        let silence = {
            let mut silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
            if silences.len() >= MOST && !silences.contains_key(&from) {
                return;
            }
            Arc::clone(silences.entry(from).or_default())
        };
        // ORDER: Relaxed: a count.
        if silence.load(Ordering::Relaxed) != 0 && silence.swap(0, Ordering::Relaxed) >= self.suspect_after {
            self.mailbox.put_change(from, Change::Well);
        }
    }
}

/// Largest number of processes of the same number that are told apart; there should be one.
const NAMESAKES: usize = 16;

/// The known processes of the job, before all are known.
struct Meeting<'a> {
    config: &'a Config,
    me: (ProcessId, Once),
    /// Processes under each number, and the hash of each.
    present: BTreeMap<ProcessId, BTreeMap<Once, Option<u64>>>,
    /// Hash that this process has published.
    hash: Option<u64>,
}

impl Meeting<'_> {
    /// Listens until all processes of the job know each other; the token that says so.
    async fn until_complete(
        &mut self,
        opened: &Opened,
        heard: &Receiver<Heard>,
    ) -> Result<LivelinessToken, StartError> {
        let mut said = None;
        loop {
            if let Some(hash) = self.complete() {
                if self.hash != Some(hash) {
                    self.hash = Some(hash);
                    // The old one is taken back when it is dropped.
                    said = Some(opened.declare(Token {
                        peer: self.me.0,
                        once: self.me.1,
                        says: Says::With(hash),
                    })?);
                }
                let agrees =
                    |peers: &BTreeMap<Once, Option<u64>>| peers.values().all(|said| *said == Some(hash));
                let others = self.present.iter().filter(|(peer, _)| **peer != self.me.0);
                if others.map(|(_, peers)| peers).all(agrees)
                    && let Some(said) = said.take()
                {
                    return Ok(said);
                }
            }
            match heard.recv().await {
                Ok((token, is_there)) => self.hear(token, is_there),
                Err(_) => return Err(StartError::Zenoh("its session was closed".to_owned())),
            }
        }
    }

    fn hear(&mut self, token: Token, is_there: bool) {
        if token.peer.0 >= self.config.count || (token.peer, token.once) == self.me {
            return;
        }
        let peers = self.present.entry(token.peer).or_default();
        if is_there && peers.len() >= NAMESAKES && !peers.contains_key(&token.once) {
            return;
        }
        match token.says {
            Says::Alive if is_there => drop(peers.entry(token.once).or_default()),
            Says::Alive => drop(peers.remove(&token.once)),
            Says::With(hash) if is_there => drop(peers.insert(token.once, Some(hash))),
            Says::With(hash) => {
                // It may have said something else since.
                if let Some(said) = peers.get_mut(&token.once).filter(|said| **said == Some(hash)) {
                    *said = None;
                }
            }
            Says::Left => {}
        }
        if peers.is_empty() {
            self.present.remove(&token.peer);
        }
    }

    /// The hash of the processes that are there, if there is one of each number.
    fn complete(&self) -> Option<u64> {
        let others = self.config.count as usize - 1;
        let is_one = |peers: &BTreeMap<Once, Option<u64>>| peers.len() == 1;
        if self.present.len() != others || !self.present.values().all(is_one) {
            return None;
        }
        let all: BTreeSet<_> = self.others().chain([self.me]).map(|(peer, once)| (peer.0, once)).collect();
        Some(fnv(all.into_iter().flat_map(|(number, once)| [u64::from(number), once.0])))
    }

    fn others(&self) -> impl Iterator<Item = (ProcessId, Once)> {
        self.present.iter().flat_map(|(peer, onces)| onces.keys().map(|once| (*peer, *once)))
    }

    fn who_is_missing(&self) -> StartError {
        let numbers = (0..self.config.count).map(ProcessId);
        let twice = |peer: &ProcessId| {
            self.present.get(peer).is_some_and(|peers| peers.len() > usize::from(*peer != self.me.0))
        };
        if let Some(peer) = numbers.clone().find(twice) {
            return StartError::Twice(peer);
        }
        let is_ready = |peer: &ProcessId| {
            let said = self.present.get(peer).and_then(|peers| peers.values().next());
            *peer == self.me.0 || said.is_some_and(|said| said.is_some() && *said == self.hash)
        };
        StartError::Missing(numbers.filter(|peer| !is_ready(peer)).collect())
    }
}
