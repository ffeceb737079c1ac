//! Physical processors: OS threads that several machines share.
//!
//! A *physical processor* runs one virtual processor at a time, of any machine. The user's physical policy says which one
//! is next, and for how long. A virtual processor that comes here is a [`Member`]: its worker is no OS thread of its own.
//! It has *shifts*, each on the OS thread of a *carrier*.
//!
//! ```text
//!   carrier:  pick ── policy ──► shift of a member: turn, turn, … ──► put back ──► pick …
//!              │ nothing is ready                  │ stuck: the watcher, or a wait in the middle of a turn,
//!              └─► waits in the poller             ▼ takes the baton; another carrier goes on with the other members
//! ```
//!
//! * Between two shifts a member is *suspended*: nobody owns its processor, so it is not handed off, nor are threads
//!   taken from behind its turns. It counts as no awake worker. If it has something to run, its sleeper says AWAKE, and
//!   wakers have nothing to do.
//! * A member that has nothing to run announces its sleep as any worker does (`park.rs`), and its shift ends. The physical
//!   processor has a poller that watches the pollers of its members. So a notification, or I/O, of any member wakes it. It
//!   sleeps until the first timer of all.
//! * A carrier that is stuck in a turn loses the *baton* (`baton.rs`). The processor of its member is handed off as usual;
//!   the other members are not, as another carrier runs them. At most one carrier has the baton.
//! * A member whose threads are bound to an OS thread runs on one carrier only, until they have ended. If that carrier is
//!   stuck in the turn of another member, the processor is handed off, so that its other threads go on.
//! * A virtual processor stays on one physical processor. So no physical policy is called by two OS threads.

mod baton;
mod member;
#[cfg(all(test, loom))]
mod models;
mod shift;
mod watch;

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use self::baton::{Baton, Carrier};
use self::member::{Look, Member};
use self::shift::{Shift, Slept};
use super::hand_off::monitor;
use super::limits::{SPARE_IDLE, WORKER_STACK};
use super::os_threads::Running;
use super::poller::{Events, Poller};
use super::{Pool, Worker, affinity};
use crate::policy::physical::{Grant, Guarded, PhysicalMaker};
use crate::sync::{Lock, Process};

/// The OS threads that several machines share.
pub(crate) struct Physicals {
    all: Box<[Arc<Physical>]>,
    /// Number of virtual processors that have come.
    came: AtomicU64,
    process: Process,
}

/// The key of the owners of [`Physicals`]: when the last one is dropped, the OS threads end.
pub(crate) type PhysicalsRef = Arc<Physicals>;

/// One OS thread that several machines share, or another one in its place while it is stuck.
pub(crate) struct Physical {
    /// The number of the workers that it belongs to.
    set: u64,
    name: String,
    cores: Option<affinity::Cores>,
    baton: Baton,
    /// The virtual processors that have an OS thread here. One that has just left may be here twice, if it comes back.
    members: Mutex<Vec<Arc<Member>>>,
    /// Number of virtual processors that belong here, those without an OS thread included.
    places: AtomicUsize,
    /// Taken by the holder of the baton, which calls it outside of the lock.
    policy: Lock<Option<Guarded>>,
    poller: Poller,
    /// Used by the holder of the baton.
    events: Mutex<Events>,
    /// No member comes any more.
    is_over: AtomicBool,
    watch: watch::Shifts,
}

/// A worker's place on a physical processor.
pub(crate) struct Carried {
    owners: PhysicalsRef,
    at: usize,
    /// Its number, among all virtual processors that have come to these workers.
    id: u64,
    /// The sleep that the last shift ended with.
    slept: Cell<Option<Slept>>,
}

thread_local! {
    /// The number of the set of workers to which this OS thread belongs, as a carrier; 0: none.
    static CARRIER_OF: Cell<u64> = const { Cell::new(0) };
}

static SETS: AtomicU64 = AtomicU64::new(1);

impl Physicals {
    /// Makes `count` physical processors, and starts their OS threads.
    pub(crate) fn start(count: usize, name: &str, policy: Option<PhysicalMaker>) -> io::Result<PhysicalsRef> {
        if cfg!(miri) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no poller watches another one here"));
        }
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        let cores = affinity::own();
        let physical = |index| {
            Ok(Arc::new(Physical {
                set,
                name: format!("{name}-{index}"),
                cores,
                baton: Baton::new(),
                members: Mutex::new(Vec::new()),
                places: AtomicUsize::new(0),
                policy: Lock::new(Some(Guarded::new(policy.as_ref().map(|policy| policy(index))))),
                poller: Poller::new()?,
                events: Mutex::new(Events::new()),
                is_over: AtomicBool::new(false),
                watch: watch::Shifts::new(),
            }))
        };
        let all = (0..count).map(physical).collect::<io::Result<_>>()?;
        // Dropped, it ends those that were started.
        let physicals = Arc::new(Self { all, came: AtomicU64::new(0), process: Process::here() });
        for physical in &physicals.all {
            physical.start_carrier(1)?;
            watch::register(physical);
            monitor::watch_shifts(watch::look);
        }
        Ok(physicals)
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Places for `count` virtual processors of a machine, where there are the fewest.
    ///
    /// # Errors
    /// The OS threads have stayed in the process that this one was forked from.
    pub(crate) fn places(self: &Arc<Self>, count: usize) -> io::Result<Vec<Carried>> {
        if self.process.is_parent() {
            let text = "these workers have stayed in the process that this one was forked from";
            return Err(io::Error::other(text));
        }
        let place = |_| {
            // ORDER: Relaxed: a hint, and numbers that differ.
            let places = |physical: &Physical| physical.places.load(Ordering::Relaxed);
            let at = (0..self.all.len()).min_by_key(|at| places(&self.all[*at])).unwrap_or(0);
            self.all[at].places.fetch_add(1, Ordering::Relaxed);
            let id = self.came.fetch_add(1, Ordering::Relaxed) + 1;
            Carried { owners: Arc::clone(self), at, id, slept: Cell::new(None) }
        };
        Ok((0..count).map(place).collect())
    }
}

impl Drop for Physicals {
    fn drop(&mut self) {
        for physical in &self.all {
            physical.is_over.store(true, Ordering::Release);
            physical.poller.notify();
        }
    }
}

impl Carried {
    fn physical(&self) -> &Arc<Physical> {
        &self.owners.all[self.at]
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.physical().places.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether this OS thread runs virtual processors of several machines, of which `machine` is one. Then it must not wait
/// for its end.
pub(crate) fn carries(machine: &Pool) -> bool {
    machine.carried().is_some_and(|carried| carried.physical().set == CARRIER_OF.get())
}

impl Pool {
    fn carried(&self) -> Option<&Carried> {
        self.workers.first()?.carried()
    }

    /// Whether it shares OS threads with other machines.
    pub(super) fn is_carried(&self) -> bool {
        self.carried().is_some()
    }

    /// Has the physical processors watch the pollers of their members.
    ///
    /// # Errors
    /// The OS refuses.
    pub(crate) fn be_watched(&self) -> io::Result<()> {
        for worker in &self.workers {
            if let (Some(carried), Some(poller)) = (worker.carried(), worker.leader().reactor.poller()) {
                // It ends with the poller, when the machine's memory goes.
                carried.physical().poller.add_poller(poller, carried.id as usize)?;
            }
        }
        Ok(())
    }

    /// Has its physical processor run `worker`, whose sleeper the caller has occupied. False: the machine is closing, or
    /// the worker has OS threads of its own.
    pub(super) fn enroll(&self, worker: &Worker, carried: &Carried) -> bool {
        let Some(pool) = self.this.upgrade() else { return false };
        let Some(running) = Running::count(pool, |pool| &pool.os_threads) else { return false };
        let member = Arc::new(Member::new(carried.id, worker, running));
        let physical = carried.physical();
        physical.members().push(member);
        physical.poller.notify();
        true
    }
}

impl Worker {
    /// Its place on a physical processor.
    #[inline]
    pub(super) fn carried(&self) -> Option<&Carried> {
        self.shared_place()?.downcast_ref()
    }

    /// In the middle of a turn that is long, or is going to wait. If it is on a carrier that has the baton, another one goes
    /// on with the other members of the physical processor.
    pub(crate) fn leave_carrier(&self) {
        if let Some(carried) = self.carried() {
            carried.physical().take_from(carried.id);
        }
    }
}

impl Physical {
    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn start_carrier(self: &Arc<Self>, carrier: Carrier) -> io::Result<()> {
        let physical = Arc::clone(self);
        let name = if carrier == 1 { self.name.clone() } else { format!("{}+", self.name) };
        let thread = std::thread::Builder::new().name(name).stack_size(WORKER_STACK);
        thread.spawn(move || {
            affinity::adopt(physical.cores);
            CARRIER_OF.set(physical.set);
            physical.carry(carrier);
        })?;
        Ok(())
    }

    /// Takes the baton from the carrier that runs the member `id`, if that has it.
    fn take_from(self: &Arc<Self>, id: u64) {
        if self.baton.take(id, |carrier| self.start_carrier(carrier).is_ok()) {
            self.members().iter().filter(|member| member.id == id).for_each(|member| member.charge());
        }
    }

    /// The life of a carrier.
    fn carry(self: &Arc<Self>, me: Carrier) {
        loop {
            let is_bound = self.members().iter().any(|member| member.bound() == me);
            // Those that are bound to it can run again, which the holder may wait for.
            if !self.baton.rest(me, (!is_bound).then_some(SPARE_IDLE), || self.poller.notify()) {
                return;
            }
            while let Some((member, quantum)) = self.pick(me) {
                if !self.run(me, &member, quantum) {
                    break;
                }
            }
            if self.baton.is_held_by(me) && self.is_finished() {
                // The policy is the user's, so it is dropped outside of the lock.
                let policy = self.policy.lock().take();
                policy.into_iter().for_each(|mut policy| policy.end());
                return self.baton.finish();
            }
        }
    }

    fn is_finished(&self) -> bool {
        // ORDER: Acquire, with the Release in the drop: the last owner enrolls nobody afterwards.
        self.is_over.load(Ordering::Acquire) && self.members().is_empty()
    }

    /// The member that the holder of the baton runs next, and for how long. `None`: it has passed the baton on, or all is
    /// over.
    fn pick(&self, me: Carrier) -> Option<(Arc<Member>, Duration)> {
        if let Some((id, quantum)) = self.baton.assigned()
            && let Some(member) = self.find(id)
        {
            return Some((member, quantum));
        }
        loop {
            self.poll(Some(Duration::ZERO));
            let now = Instant::now();
            let members = self.members().clone();
            if members.is_empty() && self.is_finished() {
                return None;
            }
            let (ready, until) = self.ready(me, &members, now);
            if ready.is_empty() {
                // The members may leave meanwhile. One that comes, or comes back, notifies the poller.
                drop(ready);
                drop(members);
                self.poll(until.map(|until| until.saturating_duration_since(now)));
                continue;
            }
            let (member, quantum) = self.choose(&members, ready, now);
            let bound = member.bound();
            if bound == 0 || bound == me {
                return Some((member, quantum));
            }
            if self.baton.pass(bound, member.id, quantum) {
                return None;
            }
        }
    }

    fn find(&self, id: u64) -> Option<Arc<Member>> {
        self.members().iter().find(|member| member.id == id).cloned()
    }

    /// The members that may run, and the time when another one may. (A member that is bound to a carrier which is stuck
    /// may not.)
    fn ready<'a>(
        &self,
        me: Carrier,
        members: &'a [Arc<Member>],
        now: Instant,
    ) -> (Vec<&'a Arc<Member>>, Option<Instant>) {
        let mut until = None;
        let may_run = |member: &&Arc<Member>| match member.look(now) {
            Look::Runs => false,
            Look::Sleeps(due) => {
                until = [until, due].into_iter().flatten().min();
                false
            }
            Look::Ready => {
                let bound = member.bound();
                let may_run = bound == 0 || bound == me || self.baton.is_resting(bound);
                if !may_run {
                    // Threads that are not bound go on meanwhile.
                    member.worker().hand_off_suspended();
                }
                may_run
            }
        };
        (members.iter().filter(may_run).collect(), until)
    }

    /// Asks the policy, unless a member is about to leave: that needs no choice.
    fn choose(
        &self,
        members: &[Arc<Member>],
        ready: Vec<&Arc<Member>>,
        now: Instant,
    ) -> (Arc<Member>, Duration) {
        let grant = Grant::to(0).time();
        if let Some(leaving) = ready.iter().find(|member| member.leaves()) {
            return (Arc::clone(leaving), grant);
        }
        let mut ready: Vec<_> = ready.into_iter().map(|member| (member, member.contender(now))).collect();
        ready.sort_by_key(|(_, contender)| std::cmp::Reverse(contender.waited));
        let (ready, contenders): (Vec<_>, Vec<_>) = ready.into_iter().unzip();
        let taken = self.policy.lock().take();
        let Some(mut policy) = taken else { return (Arc::clone(ready[0]), grant) };
        for member in members {
            let time = member.take_untold();
            if !time.is_zero() {
                policy.has_run(&member.contender(now), time);
            }
        }
        let (at, quantum) = policy.next(&contenders);
        *self.policy.lock() = Some(policy);
        (Arc::clone(ready[at]), quantum)
    }

    /// Runs a shift of `member`. Returns whether `me` still has the baton.
    fn run(self: &Arc<Self>, me: Carrier, member: &Arc<Member>, quantum: Duration) -> bool {
        self.baton.begin(me, member.id);
        let until = Instant::now() + quantum;
        self.watch.begin(member.worker(), until, quantum);
        let shift = member.run(&|| !self.baton.is_held_by(me) || Instant::now() >= until);
        self.watch.end(member.worker());
        member.put_back(me, !self.baton.had_many(), shift);
        match shift {
            Shift::Over => (),
            Shift::Asleep(_) => {
                // It may fail if another carrier runs the member by now: that one does the same.
                let poller = member.worker().leader().reactor.poller();
                poller.inspect(|poller| drop(self.poller.arm(poller, member.id as usize)));
            }
            Shift::Left => self.members().retain(|other| !Arc::ptr_eq(other, member)),
        }
        self.baton.end(me)
    }

    /// Waits until a member's poller has something, or the physical processor is notified. The holder of the baton calls.
    fn poll(&self, timeout: Option<Duration>) {
        let mut events = self.events.lock().unwrap_or_else(|e| e.into_inner());
        if self.poller.wait(&mut events, timeout).is_err() {
            // Interrupted, or the OS has lost the poller.
            std::thread::sleep(Duration::from_millis(1).min(timeout.unwrap_or(Duration::MAX)));
        }
        let members = self.members();
        for happening in events.iter() {
            let told = members.iter().filter(|member| member.id == happening.key as u64);
            told.for_each(|member| member.notify());
        }
    }
}
