//! Checks that handle policies directly, without a machine that runs threads.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::Family;
use chanter::base::{Random, Threads};
use chanter::policy::{Attributes, Policy, Ready, Reason};

type Found = Result<(), String>;

const REASONS: [Reason; 12] = [
    Reason::New,
    Reason::Yielded,
    Reason::Spent,
    Reason::Woken { by: None },
    Reason::Woken { by: Some(64) },
    Reason::Timer,
    Reason::Io,
    Reason::Remote,
    Reason::Inflated,
    Reason::Displaced,
    Reason::Stolen,
    Reason::Replaced,
];

/// Threads of all kinds.
fn assorted(threads: &Threads) -> Vec<Ready> {
    let mut all = threads.take(12);
    all.extend(threads.take_pinned(4));
    for (priority, tickets) in [(-100, 0), (-1, 1), (1, 7), (100, u16::MAX)] {
        let attributes = Attributes::new().priority(priority).tickets(tickets);
        all.extend(threads.take_with(2, attributes.deadline(Instant::now())));
        all.extend(threads.take_with(2, attributes));
    }
    all
}

/// Takes everything out of all the policies of a machine.
fn drain_all(policies: &[Box<dyn Policy>]) -> Vec<Ready> {
    let mut all = Vec::new();
    // One may leave its threads to the others.
    for _ in 0..2 {
        for policy in policies {
            while let Some(thread) = policy.drain() {
                all.push(thread);
            }
        }
    }
    all
}

fn numbers(threads: &[Ready]) -> BTreeSet<u64> {
    threads.iter().map(Ready::id).collect()
}

fn none_ended(threads: &Threads) -> Found {
    match threads.ended() {
        0 => Ok(()),
        ended => Err(format!("{ended} threads were ended: `Ready`s were dropped")),
    }
}

pub(super) fn keeps(family: &Family, seed: u64) -> Found {
    let threads = Threads::new();
    let policies = [family(0), family(1)];
    let [policy, thief] = &policies;
    let mut random = Random::new(seed);
    let mut free = assorted(&threads);
    let all = numbers(&free);
    let order: Vec<_> = all.iter().copied().collect();
    let mut held = 0;
    for step in 0..20_000 {
        // Fill for a while, then empty.
        let fills = step % 200 < 90;
        match random.below(if fills { 6 } else { 12 }) {
            0..=3 if !free.is_empty() => {
                let mut thread = free.swap_remove(random.below(free.len()));
                let number = thread.id();
                if random.below(4) == 0 {
                    // A tag that another policy has left.
                    thread.set_tag((random.below(1 << 31) as u64) << 20);
                }
                let reason = REASONS[random.below(REASONS.len())];
                held += 1;
                if let Some(returned) = policy.enqueue(thread, reason) {
                    if returned.id() != number && reason != Reason::Yielded {
                        return Err("`enqueue` returned another thread than it was given".to_owned());
                    }
                    held -= 1;
                    free.push(returned);
                }
            }
            4 => {
                let given = policy.give(&**thief);
                held -= usize::from(given.is_some());
                free.extend(given);
                let home = threads.sent_home();
                held -= home.len();
                free.extend(home);
            }
            5 => {
                policy.idle();
                let _hint = policy.waiting();
                let wanted = order[random.below(order.len())];
                if let Some(thread) = policy.withdraw(wanted) {
                    held -= 1;
                    if thread.id() != wanted {
                        return Err("`withdraw` returned another thread than it was asked for".to_owned());
                    }
                    free.push(thread);
                }
            }
            _ => match policy.next().or_else(|| thief.next()) {
                Some(thread) => {
                    held -= 1;
                    free.push(thread);
                }
                None if held > 0 => {
                    none_ended(&threads)?;
                    return Err(format!("`next` found nothing, but {held} threads are ready"));
                }
                None => (),
            },
        }
        none_ended(&threads)?;
    }
    free.extend(drain_all(&policies));
    none_ended(&threads)?;
    let back = numbers(&free);
    if back != all {
        return Err(format!("{} of {} threads did not come out again", all.len() - back.len(), all.len()));
    }
    Ok(())
}

pub(super) fn lets_woken_run(family: &Family) -> Found {
    let threads = Threads::new();
    let policy = family(0);
    if !policy.lets_woken_run() {
        return Ok(());
    }
    for reason in [Reason::Woken { by: None }, Reason::Woken { by: Some(64) }, Reason::Timer, Reason::Io] {
        for thread in assorted(&threads) {
            if policy.enqueue(thread, reason).is_none() {
                drop(drain_all(&[policy]));
                return Err(format!("`lets_woken_run`, but `enqueue` has kept one that was {reason:?}"));
            }
        }
    }
    Ok(())
}

pub(super) fn displaced(family: &Family) -> Found {
    let threads = Threads::new();
    let policies = [family(0)];
    let returned = assorted(&threads)
        .into_iter()
        .filter_map(|thread| policies[0].enqueue(thread, Reason::Displaced))
        .count();
    drop(drain_all(&policies));
    match returned {
        0 => Ok(()),
        _ => Err("`enqueue` returned a thread that was displaced, which others are to take".to_owned()),
    }
}

pub(super) fn drains(family: &Family, seed: u64) -> Found {
    let threads = Threads::new();
    let mut random = Random::new(seed);
    for count in [0, 1, 2, 28] {
        let policies = [family(0)];
        let [policy] = &policies;
        let mut all = assorted(&threads);
        all.truncate(count);
        let ended = threads.ended();
        let mut kept = BTreeSet::new();
        let mut free = Vec::new();
        for thread in all {
            let number = thread.id();
            kept.insert(number);
            if let Some(returned) = policy.enqueue(thread, REASONS[random.below(REASONS.len())]) {
                kept.remove(&returned.id());
                free.push(returned);
            }
        }
        let drained = drain_all(&policies);
        if threads.ended() != ended {
            return Err("threads were ended: `Ready`s were dropped".to_owned());
        }
        if numbers(&drained) != kept {
            return Err(format!("`drain` handed over {} of {} threads", drained.len(), kept.len()));
        }
        if policy.next().is_some() || policy.give(&*family(1)).is_some() || policy.waiting() > 0 {
            return Err("a policy that was drained still has threads".to_owned());
        }
    }
    Ok(())
}

pub(super) fn waiting(family: &Family) -> Found {
    let threads = Threads::new();
    let policies = [family(0), family(1)];
    let [policy, thief] = &policies;
    let is_empty = |when| match policy.waiting() {
        0 => Ok(()),
        n => Err(format!("{when}, `waiting` says {n}: its virtual processor would never sleep")),
    };
    is_empty("in a new policy")?;
    let mut free = threads.take(24);
    for _ in 0..3 {
        free = free.into_iter().filter_map(|thread| policy.enqueue(thread, Reason::New)).collect();
        // Nobody contends, so a waiting thread is there. The stealer may get more at a time.
        while policy.waiting() > 0 {
            let Some(thread) = policy.give(&**thief) else {
                let waiting = policy.waiting();
                drop((drain_all(&policies), free));
                return Err(format!(
                    "`waiting` says {waiting}, but `give` gives none: the hungry ask for ever"
                ));
            };
            free.push(thread);
        }
        free.extend(threads.sent_home());
        while let Some(thread) = policy.next().or_else(|| thief.next()) {
            free.push(thread);
        }
        is_empty("in a policy that is empty again")?;
    }
    drop(free);
    for thread in threads.take_pinned(8) {
        drop(policy.enqueue(thread, Reason::New));
    }
    let given = policy.give(&**thief).is_some();
    drop(drain_all(&policies));
    if given {
        return Err("`give` gave a thread that may not move".to_owned());
    }
    Ok(())
}

pub(super) fn bypass(family: &Family, times: usize) -> Found {
    let threads = Threads::new();
    // Of all that may come back; each in turn is the one that waits.
    for reason in [Reason::New, Reason::Yielded, Reason::Spent, Reason::Remote, Reason::Inflated] {
        let policies = [family(0)];
        let [policy] = &policies;
        let urgent = Attributes::new().priority(100).deadline(Instant::now()).tickets(4);
        let mut rivals = threads.take_with(4, urgent);
        rivals.extend(threads.take(4));
        for thread in rivals {
            drop(policy.enqueue(thread, Reason::New));
        }
        let Some(victim) = threads.take(1).pop() else { continue };
        let number = victim.id();
        if policy.enqueue(victim, Reason::New).is_some() {
            continue;
        }
        let mut turns = 0;
        while let Some(thread) = policy.next() {
            if thread.id() == number {
                break;
            }
            turns += 1;
            drop(policy.enqueue(thread, reason));
            if turns > times {
                drop(drain_all(&policies));
                return Err(format!(
                    "a thread was passed over {turns} times by others that were {reason:?}, not {times}"
                ));
            }
        }
        drop(drain_all(&policies));
    }
    Ok(())
}

pub(super) fn thieves(family: &Family, seed: u64) -> Found {
    const THIEVES: usize = 2;
    let threads = Threads::new();
    let policies: Vec<_> = (0..=THIEVES).map(family).collect();
    let policy = &policies[0];
    let mut free = assorted(&threads);
    let all = numbers(&free);
    let over = AtomicBool::new(false);
    let tries = AtomicUsize::new(0);
    let stolen = Mutex::new(Vec::new());
    let result = std::thread::scope(|scope| {
        for own in &policies[1..] {
            let (over, tries, stolen) = (&over, &tries, &stolen);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let _hint = policy.waiting();
                    let loot = policy.give(&**own).into_iter().chain(std::iter::from_fn(|| own.next()));
                    let loot: Vec<_> = loot.collect();
                    tries.fetch_add(1, Ordering::SeqCst);
                    if loot.is_empty() {
                        std::thread::yield_now();
                    } else {
                        stolen.lock().expect("nobody panics with it").extend(loot);
                    }
                }
            });
        }
        let mut random = Random::new(seed);
        let mut step = 0;
        let mut result = Ok(());
        // The loop lasts until the stealers have been there often.
        while result.is_ok() && step < 1_000_000 && (step < 10_000 || tries.load(Ordering::SeqCst) < 2_000) {
            step += 1;
            if !free.is_empty() && random.below(2) == 0 {
                let thread = free.swap_remove(random.below(free.len()));
                free.extend(policy.enqueue(thread, REASONS[random.below(REASONS.len())]));
            } else {
                free.extend(policy.next());
            }
            if step % 16 == 0 {
                free.extend(threads.sent_home());
                free.append(&mut stolen.lock().expect("nobody panics with it"));
            }
            result = none_ended(&threads);
        }
        over.store(true, Ordering::SeqCst);
        result
    });
    free.append(&mut stolen.lock().expect("nobody panics with it"));
    free.extend(threads.sent_home());
    free.extend(drain_all(&policies));
    result?;
    none_ended(&threads)?;
    let back = numbers(&free);
    if back != all {
        return Err(format!("{} of {} threads did not come out again", all.len() - back.len(), all.len()));
    }
    Ok(())
}

pub(super) fn allocates(family: &Family, count: fn() -> u64) -> Found {
    let threads = Threads::new();
    let policies = [family(0), family(1)];
    let [policy, thief] = &policies;
    let mut free = assorted(&threads);
    let mut rounds = Vec::with_capacity(8);
    for _ in 0..8 {
        let before = count();
        for (index, reason) in REASONS.iter().cycle().enumerate().take(4 * free.capacity()) {
            if let Some(thread) = free.pop() {
                free.extend(policy.enqueue(thread, *reason));
            }
            if index % 3 == 0 {
                free.extend(policy.give(&**thief));
            }
            if index % 2 == 0 {
                free.extend(thief.next());
            }
            if free.is_empty() {
                free.extend(policy.next());
            }
        }
        while let Some(thread) = policy.next().or_else(|| thief.next()) {
            free.push(thread);
        }
        rounds.push(count() - before);
    }
    drop((drain_all(&policies), free));
    // The first ones may grow tables.
    match rounds[4..].iter().sum() {
        0_u64 => Ok(()),
        more => Err(format!("{more} allocations in 4 rounds like those before")),
    }
}
