//! Thefts, and what they cost.
//!
//! A driver that has nothing to run is *hungry*, and may take ready threads from any other one: half of those that wait in
//! its policy, or half of those that were woken and run soon, which it hands over between two turns. A
//! woken thread runs where it is woken, so the partners of stolen threads follow by themselves.
//!
//! From outside, one conversation looks like several. So each theft has an account. To its credit is put the time in which both work, the stealer
//! and its victim: if the victim has nothing left, it could have done all itself. (Unless it pauses: it would steal some back. Or else two that
//! have both stolen badly at first would pause in turn.) Charged are
//! the theft itself; a fare for every thread that crosses from one of the two to the other: one that was stolen, one that is woken
//! afterwards by a message from the other side, and comes or goes so, and one that the stealer wakes and that must run elsewhere; and a little
//! for every time that the stealer has a lock which another OS thread had before, more if that ends a bias, or if one of the two has to wait for what
//! the other has. (`price.rs` says how much. Threads pay most of it: what a lock costs differs between programs by more.) A new thread pays less: it has left nothing behind, and talks
//! to nobody yet. The account is looked at when the stealer is hungry again, and at each of its looks at the clock before.
//!
//! - *Cheap*: both have worked for longer than that. Groups that have nothing to say to each other are whole again after one
//!   crossing for each thread, and none follows; a pipeline is cut where few messages pass. The stealer may steal
//!   again as soon as it is hungry.
//! - *Dear*: they have not, and what is missing, with that of the thefts just before, is more than [`DEBT`] when the stealer is hungry, or [`CREDIT`] while
//!   it runs. Messages go on to cross, or what was stolen was dead (see
//!   [`Vp::was_stale`]). What is ready there goes back, and the stealer pauses.
//!
//! *The bound*: a dear theft is followed by a pause of [`RARE`] times what is missing, and twice as many
//! times after each further one, up to [`RAREST`]; a cheap one halves that. So what thefts lose is less
//! than one part in `RARE` of the time, and one in `RAREST` if they are all dear; and one that is nearly worth its price is soon
//! followed by another. (It holds for the time in which the victim may steal too. What is lost while it pauses is not judged, and is little: it has
//! mostly nothing then, and nothing crosses.) No other condition is made: not on how many threads there
//! are, nor on how long their turns are, nor on who has woken them.
//!
//! What a long turn has woken is taken in its middle (`long_turn.rs`): a theft like any other, also in a pause. To be called to a turn
//! that ends by itself is a loss of [`CALL`].
//!
//! Any thread may run anywhere, and all of this only decides where. The atomics are Relaxed.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::Vp;
use super::price::Price;
use crate::frame::Header;
use crate::policy::{ReadyQueue, Reason};
use crate::sync::Taken;
use crate::sync::atomic::{AtomicBool, AtomicUsize};

/// Nanoseconds that it costs two virtual processors if one of them wakes the other.
const WAKE: u64 = 10_000;
/// Nanoseconds that it costs if somebody is called to a turn that ends by itself: it wakes up, looks, and falls asleep, and the
/// turns beside it are slower meanwhile.
const CALL: u64 = 40_000;
/// By so many nanoseconds the account of a theft may be overdrawn before the stealer is hungry again. (Partners that follow, all at
/// once, are paid off afterwards.)
const CREDIT: i64 = 300_000;
/// The same when the stealer is hungry again: the next theft goes on with that. (The first thefts from a group end biases, once.)
const DEBT: i64 = 10_000;
/// The pause after a dear theft, beside what its account was overdrawn by.
const RARE: u32 = 2;
const RAREST: u32 = 128;
/// No pause is longer.
const LONGEST: Duration = Duration::from_millis(100);
/// Virtual processors whose numbers are so far apart are taken for one, where threads are counted by where they come from.
const SOURCES: usize = 64;
/// At most so many threads are looked at, when some are handed over.
const MOST_GIVEN: usize = 256;

/// A driver's part.
#[derive(Debug)]
pub(super) struct Thefts {
    /// Driver: the last theft, while its account is open.
    open: Cell<Option<Theft>>,
    /// Driver: the balance of the last account, if the next one goes on with that.
    debt: Cell<i64>,
    /// Driver: what it has been charged, in nanoseconds, but for the idle time of a victim.
    charged: Cell<u64>,
    /// Driver: so many contended operations of its OS thread are among that.
    contended: Cell<u64>,
    price: Price,
    /// A statistic: so many threads have arrived here that had run elsewhere before, by where. The driver writes, anyone reads.
    arrivals: [AtomicU32; SOURCES],
    /// Driver: how many of those had come from here to the victim of the open account.
    returned: Cell<u32>,
    /// Driver: it was given what has been sent to it, and that is still there.
    was_given: Cell<bool>,
    /// Driver: how many turns it had had when others woke it last.
    woken_at: Cell<u64>,
    /// Driver: the length of the next pause, beside what the theft loses.
    rarity: Cell<u32>,
    /// Driver: the end of the pause.
    until: Cell<Option<Instant>>,
    /// Driver: it has asked to be given threads, and has not seen yet whether it was.
    has_asked: Cell<bool>,
    /// There is no use in waking it, unless for a fork.
    is_pausing: AtomicBool,
    /// It has nothing to run. Whoever changes it to false gives the driver something, calls it, or is the driver itself.
    is_hungry: AtomicBool,
    /// Who has given something last.
    giver: AtomicUsize,
}

/// A theft, and its account.
#[derive(Clone, Copy, Debug)]
struct Theft {
    /// The index of the virtual processor that it was taken from.
    victim: usize,
    /// Up to when the account is kept, and what had been charged by then.
    at: Instant,
    charged: u64,
    /// In nanoseconds; 0 at most, so that what was good does not pay for what has become bad.
    balance: i64,
}

impl Theft {
    /// Brings the account up to `now`, when so many nanoseconds have been charged.
    fn balance(&mut self, now: Instant, charged: u64) -> i64 {
        let time = now.saturating_duration_since(self.at).as_nanos();
        // (What a victim has idled may turn out to be a little less.)
        let charge = (charged.wrapping_sub(self.charged) as i64).min(1 << 40);
        let balance = self.balance.saturating_add(i64::try_from(time).unwrap_or(i64::MAX)) - charge;
        (self.at, self.charged, self.balance) = (now, charged, balance.min(0));
        balance
    }
}

impl Thefts {
    pub(super) fn new() -> Self {
        Self {
            open: Cell::new(None),
            debt: Cell::new(0),
            charged: Cell::new(0),
            contended: Cell::new(0),
            price: Price::new(),
            arrivals: [const { AtomicU32::new(0) }; SOURCES],
            returned: Cell::new(0),
            was_given: Cell::new(false),
            woken_at: Cell::new(u64::MAX),
            rarity: Cell::new(RARE),
            until: Cell::new(None),
            has_asked: Cell::new(false),
            is_pausing: AtomicBool::new(false),
            is_hungry: AtomicBool::new(false),
            giver: AtomicUsize::new(0),
        }
    }

    /// The stealer has stolen from `victim`, `now`, when so many nanoseconds had been charged.
    fn begin(&self, victim: usize, now: Instant, charged: u64, price: i64) {
        self.open.set(Some(Theft { victim, at: now, charged, balance: self.debt.replace(0) - price }));
    }

    /// Looks at the account of the last theft, if that is open, `now`, when so many nanoseconds have been charged. `credit`: by so much it may
    /// be overdrawn. Whom the stealer has to give back what it has, if the theft was dear.
    fn review(&self, now: Instant, charged: u64, credit: i64) -> Option<usize> {
        let mut theft = self.open.take()?;
        let balance = theft.balance(now, charged);
        if balance >= -credit {
            if balance >= 0 {
                self.rarity.set((self.rarity.get() / 2).max(RARE));
            }
            self.open.set(Some(theft));
            return None;
        }
        self.lose(now, balance.unsigned_abs());
        Some(theft.victim)
    }

    /// So many nanoseconds were lost: a pause begins.
    fn lose(&self, now: Instant, loss: u64) {
        let rarity = self.rarity.get();
        self.rarity.set((rarity * 2).min(RAREST));
        self.until.set(Some(now + Duration::from_nanos(loss).saturating_mul(rarity).min(LONGEST)));
        self.is_pausing.store(true, Relaxed);
    }

    /// The stealer is hungry again: settles the account. May it steal?
    fn settle(&self, now: Instant, charged: u64) -> bool {
        self.review(now, charged, DEBT);
        if let Some(theft) = self.open.take() {
            self.debt.set(theft.balance);
        }
        self.until.set(self.until.get().filter(|until| now < *until));
        self.is_pausing.store(self.until.get().is_some(), Relaxed);
        self.until.get().is_none()
    }

    /// Whether to wake it is of no use, unless for a fork.
    pub(super) fn is_pausing(&self) -> bool {
        self.is_pausing.load(Relaxed)
    }

    /// For how long, from `now` on.
    pub(super) fn rest_of_pause(&self, now: Instant) -> Option<Duration> {
        Some(self.until.get()?.saturating_duration_since(now))
    }
}

impl Vp {
    /// A thread has come that had run on `from`. The caller is the driver.
    pub(crate) fn has_arrived(&self, from: &Self) {
        let count = self.arrivals_from(from);
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        self.charge(self.thefts.price.of_a_thread());
    }

    /// A thread has come that has not run yet. The caller is the driver.
    pub(crate) fn has_got_new(&self) {
        self.charge(self.thefts.price.of_a_new_thread());
    }

    fn arrivals_from(&self, other: &Self) -> &AtomicU32 {
        &self.thefts.arrivals[other.index % SOURCES]
    }

    /// A thread was woken here that must run at `home`, and goes there. The caller is the driver.
    #[cold]
    pub(super) fn has_woken_for(&self, home: &Self) {
        self.charge(if home.is_asleep() { WAKE } else { self.thefts.price.of_a_thread() });
    }

    fn charge(&self, nanoseconds: u64) {
        self.thefts.charged.set(self.thefts.charged.get().wrapping_add(nanoseconds));
    }

    /// What has been charged up to `now`, while what was taken from `victim` runs.
    fn charged(&self, victim: usize, now: Instant) -> u64 {
        let contended = self.announcement.get().contended();
        // (Another OS thread has others. It forgets the open account.)
        let new = contended.wrapping_sub(self.thefts.contended.replace(contended));
        self.charge(new.wrapping_mul(self.thefts.price.of_a_lock()));
        let victim = &self.machine().vps[victim];
        let returned = victim.arrivals_from(self).load(Relaxed);
        let new = returned.wrapping_sub(self.thefts.returned.replace(returned));
        self.charge(u64::from(new) * self.thefts.price.of_a_thread());
        self.thefts.charged.get().wrapping_add(victim.idle.total(now) as u64)
    }

    /// The same for the open account.
    fn charged_to_open(&self, now: Instant) -> u64 {
        self.thefts.open.get().map_or(0, |theft| self.charged(theft.victim, now))
    }

    /// What was taken from `victim` runs here now.
    fn begin_theft(&self, victim: usize) {
        let now = Instant::now();
        self.thefts.returned.set(self.machine().vps[victim].arrivals_from(self).load(Relaxed));
        // (If it has run something since, it was woken for that.)
        let was_woken = self.thefts.woken_at.get() == self.counters.polls.get();
        let price = if was_woken { WAKE } else { self.thefts.price.of_a_thread() };
        self.thefts.begin(victim, now, self.charged(victim, now), price as i64);
    }

    /// Another OS thread drives: it has other contended operations.
    pub(super) fn forget_theft(&self) {
        self.thefts.open.set(None);
    }

    /// The caller has nothing left to run: may it steal?
    pub(super) fn may_steal(&self, now: Instant) -> bool {
        self.thefts.settle(now, self.charged_to_open(now)) && !self.has_enough()
    }

    /// The caller has stolen from the policy of `victim`.
    pub(super) fn has_stolen_from(&self, victim: &Self) {
        self.begin_theft(victim.index);
    }

    /// The caller, who may steal, asks the others for half of what runs soon there.
    pub(super) fn ask_for_half(&self) {
        let machine = self.machine();
        if machine.crews == 1 || self.simulated.is_some() || self.is_stand_in() {
            return;
        }
        if !self.thefts.has_asked.replace(true) {
            self.thefts.is_hungry.store(true, Relaxed);
            machine.hungry.fetch_add(1, Relaxed);
        }
    }

    /// Another OS thread has woken the caller.
    pub(super) fn was_woken(&self) {
        self.thefts.woken_at.set(self.counters.polls.get());
    }

    /// The caller does not wait any longer for what it has asked for, if it has.
    pub(super) fn stop_asking(&self) {
        if self.thefts.has_asked.replace(false) && !self.stop_being_hungry() && !self.long_turns.is_called() {
            self.thefts.was_given.set(true);
            self.begin_theft(self.thefts.giver.load(Relaxed));
        }
    }

    /// What was sent to the caller, the oldest first. If it was given that, each thread is a line that its giver has just written.
    pub(super) fn take_sent(&self) -> Taken<Header> {
        if !self.thefts.was_given.replace(false) {
            return self.inbox.take_all().oldest_first();
        }
        let begun = Instant::now();
        let sent = self.inbox.take_all().oldest_first();
        let time = begun.elapsed();
        self.thefts.price.measured(sent.len(), time);
        sent
    }

    /// Whether it was hungry, and is not any more. Anyone may call.
    pub(super) fn stop_being_hungry(&self) -> bool {
        let was_hungry = self.thefts.is_hungry.swap(false, Relaxed);
        if was_hungry {
            self.machine().hungry.fetch_sub(1, Relaxed);
        }
        was_hungry
    }

    /// Gives half of what runs soon to somebody hungry, if there is anybody. The caller is inside.
    #[inline(always)]
    pub(super) fn share(&self) {
        // SAFETY: we are the holder, inside.
        let soon = unsafe { self.soon() };
        if self.machine().hungry.load(Relaxed) > 0 && soon.len() > 1 {
            self.give_half();
        }
    }

    /// The same when a thread was woken. One alone runs next, unless the turn is long: somebody hungry is to look after it.
    #[inline(always)]
    pub(super) fn share_woken(&self) {
        if self.machine().hungry.load(Relaxed) > 0 {
            // SAFETY: we are the holder, inside.
            if unsafe { self.soon() }.len() > 1 {
                self.give_half();
            } else {
                self.call();
            }
        }
    }

    /// The caller was called in vain.
    pub(super) fn was_called_in_vain(&self) {
        self.stop_asking();
        self.thefts.lose(Instant::now(), CALL);
    }

    /// The caller has taken something from `victim` in the middle of a turn there.
    pub(super) fn has_taken_from(&self, victim: &Self) {
        self.stop_asking();
        self.has_stolen_from(victim);
    }

    /// All others of the machine, the next one first.
    pub(super) fn others(&self) -> impl Iterator<Item = &Self> {
        let vps = &self.machine().vps;
        (1..vps.len()).map(move |step| &*vps[(self.index + step) % vps.len()])
    }

    #[cold]
    #[inline(never)]
    fn give_half(&self) {
        if self.is_stand_in() {
            return;
        }
        if !self.terms.get().lets_woken_run {
            return self.displace_half();
        }
        // (Those of one crew have one OS thread.)
        let is_other = |vp: &Self| !ptr::eq(vp.leader(), self.leader());
        let Some(stealer) = self.others().find(|vp| is_other(vp) && vp.stop_being_hungry()) else { return };
        let begun = Instant::now();
        stealer.thefts.giver.store(self.index, Relaxed);
        // SAFETY: we are the holder, inside.
        let mut given = unsafe { self.take_soon(self.soon().len() / 2) };
        while let Some(thread) = given.pop_front() {
            stealer.push(thread);
        }
        if let Some(mut theft) = self.thefts.open.get() {
            // To give is no work.
            theft.at += begun.elapsed();
            self.thefts.open.set(Some(theft));
        }
    }

    /// Takes so many of the threads that run soon, the last ones, as far as they may move.
    ///
    /// # Safety
    /// The caller is the holder, inside, or the passer, in between.
    pub(super) unsafe fn take_soon(&self, count: usize) -> ReadyQueue {
        // SAFETY: the caller's contract.
        let soon = unsafe { self.soon() };
        let (mut taken, mut kept) = (ReadyQueue::new(), ReadyQueue::new());
        for _ in 0..MOST_GIVEN {
            if taken.len() == count {
                break;
            }
            match soon.pop_back() {
                Some(thread) if thread.may_move() => taken.push_front(thread),
                Some(thread) => kept.push_front(thread),
                None => break,
            }
        }
        soon.append(&mut kept);
        taken
    }

    /// The policy decides: half of what runs soon goes back to it, and it may give that away.
    fn displace_half(&self) {
        // SAFETY: we are the holder, inside.
        let half = unsafe { self.soon() }.len() / 2;
        for _ in 0..half {
            // SAFETY: as above; the policy is called between two borrows.
            let Some(thread) = unsafe { self.soon() }.pop_back() else { break };
            if let Some(stubborn) = self.policy().enqueue(thread, Reason::Displaced) {
                // SAFETY: as above.
                unsafe { self.soon() }.push_front(stubborn);
            }
        }
        self.offer_to_others();
    }

    /// Between two turns, at a look at the clock: gives back what is ready if the last theft was dear. The caller is inside.
    pub(super) fn review_theft(&self, now: Instant) {
        let Some(victim) = self.thefts.review(now, self.charged_to_open(now), CREDIT) else { return };
        let there = &self.machine().vps[victim];
        // SAFETY: we are the holder, inside.
        let soon = unsafe { self.soon() };
        for _ in 0..soon.len() {
            match soon.pop_front() {
                Some(thread) if thread.may_move() => there.push(thread),
                Some(thread) => soon.push_back(thread),
                None => break,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::sync::{Announcement, BiasedLock, os_thread};

    const STEP: Duration = Duration::from_micros(100);
    const FARE: i64 = 100;

    /// What a theft has lost to which so many threads came in a step.
    fn loss(arrivals: u64) -> Duration {
        Duration::from_nanos(FARE as u64) * (arrivals + 1) as u32 - STEP
    }

    fn fares(arrivals: u64) -> u64 {
        arrivals * FARE as u64
    }

    #[test]
    fn a_theft_is_cheap_if_the_thief_works_for_longer_than_the_fares_of_what_comes() {
        let (thefts, now) = (Thefts::new(), Instant::now());
        assert!(thefts.settle(now, 0), "there was none");
        let most = (i64::try_from(STEP.as_nanos()).unwrap() / FARE) as u64 - 1;
        thefts.begin(3, now, fares(7), FARE);
        assert!(thefts.settle(now + STEP, fares(7 + most)));
        assert_eq!(thefts.debt.get(), 0);
        let dear = most + 2 + DEBT as u64 / FARE as u64;
        thefts.begin(3, now, fares(7), FARE);
        assert!(!thefts.settle(now + STEP, fares(7 + dear)) && thefts.is_pausing());
        let pause = loss(dear) * RARE;
        assert_eq!(thefts.rest_of_pause(now + STEP), Some(pause));
        assert!(!thefts.settle(now + STEP + pause / 2, 0), "it pauses still");
        assert!(thefts.settle(now + STEP + pause, 0) && !thefts.is_pausing());
    }

    #[test]
    fn small_losses_add_up_until_they_are_paid_off() {
        let (thefts, now) = (Thefts::new(), Instant::now());
        let step = Duration::from_nanos(DEBT as u64 / 3);
        let settle = |charged: i64| {
            thefts.begin(3, now, 0, 0);
            thefts.settle(now + step, charged as u64)
        };
        let dear = 2 * DEBT / 3;
        assert!(settle(dear) && settle(dear) && settle(0) && settle(dear), "one is paid off in between");
        assert!(settle(0) && settle(0) && settle(0));
        assert_eq!((thefts.debt.get(), thefts.rarity.get()), (0, RARE));
        assert!(settle(dear) && settle(dear) && !settle(dear + 3), "three thirds");
        assert_eq!(thefts.debt.get(), 0, "they are paid off by the pause");
        let thefts = Thefts::new();
        thefts.begin(3, now, 100, 0);
        assert!(thefts.settle(now + step, 95), "a victim has idled for less than it seemed");
    }

    #[test]
    fn an_account_may_be_overdrawn_while_the_thief_runs() {
        let (thefts, mut now) = (Thefts::new(), Instant::now());
        let mut came = 0;
        thefts.begin(3, now, came, 0);
        let all_at_once = CREDIT as u64;
        came += all_at_once;
        assert_eq!(thefts.review(now, came, CREDIT), None);
        for _ in 0..4 {
            // Neither does good work in the past pay for later.
            now += STEP * 10;
            assert_eq!(thefts.review(now, came, CREDIT), None);
        }
        came += 2 * all_at_once;
        assert_eq!(thefts.review(now, came, CREDIT), Some(3));
        assert!(thefts.is_pausing());
        assert_eq!(thefts.review(now, came, CREDIT), None, "the account is closed");
    }

    #[test]
    fn dear_thefts_become_rare_and_cheap_ones_lift_that() {
        let many = 2 * STEP.as_nanos() as u64 / FARE as u64;
        let (thefts, mut now) = (Thefts::new(), Instant::now());
        let mut dear = |thefts: &Thefts| {
            thefts.begin(0, now, 0, FARE);
            now += STEP;
            assert!(!thefts.settle(now, fares(many)));
            let pause = thefts.rest_of_pause(now).unwrap();
            now += pause;
            assert!(thefts.settle(now, fares(many)));
            pause.as_nanos() / loss(many).as_nanos()
        };
        let pauses = [0; 8].map(|_| dear(&thefts));
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 128]);
        let then = Instant::now();
        for _ in 0..2 {
            thefts.begin(0, then, 0, FARE);
            assert!(thefts.settle(then + STEP, fares(1)));
        }
        assert_eq!(dear(&thefts), 32);
    }

    #[test]
    fn who_cannot_move_keeps_nobody_from_being_given_away() {
        let machine = Machine::builder().vps(1).hand_over_after(None).build().unwrap();
        machine.block_on_local(async {
            let wait = |rx: Receiver<()>| async move { rx.recv().await.is_ok() };
            let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel()).unzip();
            let bound = spawn_local(wait(receivers.pop().unwrap()));
            let free: Vec<_> = receivers.into_iter().map(|rx| spawn(wait(rx))).collect();
            yield_now().await;
            for tx in &senders {
                tx.send(()).await.unwrap();
            }
            let vp = Vp::current().unwrap();
            // SAFETY: this OS thread drives it, alone, and each borrow ends at once.
            unsafe {
                assert_eq!(vp.soon().len(), 4, "the one that is bound is the last");
                let mut taken = vp.take_soon(2);
                assert_eq!((taken.len(), vp.soon().len()), (2, 2));
                vp.soon().append(&mut taken);
            }
            for thread in free {
                assert!(thread.join().await.unwrap());
            }
            assert!(bound.join().await.unwrap());
        });
    }

    #[test]
    fn who_was_woken_to_steal_pays_for_that() {
        let machine = Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            let vp = Vp::current().unwrap();
            let balance = || {
                vp.begin_theft(0);
                -vp.thefts.open.get().unwrap().balance as u64
            };
            assert_eq!(balance(), vp.thefts.price.of_a_thread());
            vp.was_woken();
            assert_eq!(balance(), WAKE);
            yield_now().await;
            assert_eq!(balance(), vp.thefts.price.of_a_thread(), "it was woken for what it has run");
        });
    }

    /// It would steal some back, if it might.
    #[test]
    fn who_pauses_does_not_idle() {
        let machine = Machine::builder().vps(2).hand_over_after(None).build().unwrap();
        let other = &machine.shared().vps[1];
        let idled = || other.idle.total(Instant::now());
        let until_it_idles = || {
            let before = idled();
            while idled() == before {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let pause = || async {
            let (vp, now) = (Vp::current().unwrap(), Instant::now());
            vp.thefts.lose(now, u64::MAX);
            (vp.index == 1).then_some(now + LONGEST)
        };
        until_it_idles();
        // (The other one may have taken it, and a busy machine may let the pause pass by.)
        let was_seen = (0..100).any(|_| {
            let paused = crate::thread::ThreadBuilder::new().on(1).spawn_in(&machine, pause());
            let Some(until) = machine.block_on(paused.join()).unwrap() else { return false };
            while !other.is_asleep() && Instant::now() < until {
                std::thread::yield_now();
            }
            let before = idled();
            std::thread::sleep(Duration::from_millis(2));
            let after = idled();
            let is_pausing = Instant::now() < until;
            assert!(!is_pausing || after == before, "it has idled for {} ns", after - before);
            is_pausing
        });
        assert!(was_seen);
        until_it_idles();
    }

    #[test]
    fn a_thread_that_crosses_is_charged_at_both_ends() {
        let machine = Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            let vp = Vp::current().unwrap();
            vp.begin_theft(0);
            let charged = || vp.charged(0, Instant::now());
            let before = charged();
            vp.has_arrived(vp);
            assert_eq!(charged() - before, 2 * vp.thefts.price.of_a_thread(), "it is thief and victim");
            vp.has_arrived(vp);
            vp.begin_theft(0);
            assert_eq!(
                charged() - before,
                3 * vp.thefts.price.of_a_thread(),
                "what went back before is another account's"
            );
            let before = charged();
            vp.has_got_new();
            assert_eq!(charged() - before, vp.thefts.price.of_a_new_thread());
        });
    }

    #[test]
    fn a_lock_that_crosses_is_charged() {
        let machine = Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            let charged = || Vp::current().unwrap().charged(0, Instant::now());
            let lock = BiasedLock::new(0, 0);
            *lock.lock() += 1;
            let before = charged();
            *lock.lock() += 1;
            assert_eq!(charged(), before, "nobody else had it");
            std::thread::scope(|scope| {
                scope.spawn(|| *lock.lock() += 1);
            });
            *lock.lock() += 1;
            assert_eq!(charged() - before, Vp::current().unwrap().thefts.price.of_a_lock());
        });
    }

    #[test]
    fn waits_for_a_lock_are_charged_to_both() {
        let machine = Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            let charged = || Vp::current().unwrap().charged(0, Instant::now());
            let me = os_thread();
            let before = charged();
            Announcement::count_wait(me, 0, 3);
            let one = charged() - before;
            assert_eq!(one, (2 + 4 + 8) * Vp::current().unwrap().thefts.price.of_a_lock());
            std::thread::scope(|scope| {
                scope.spawn(|| Announcement::count_wait(os_thread(), me, 3));
            });
            assert_eq!(charged() - before, 2 * one);
            Announcement::count_wait(me, me, 3);
            assert_eq!(charged() - before, 3 * one, "once");
        });
    }
}
