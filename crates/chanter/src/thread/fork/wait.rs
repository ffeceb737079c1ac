//! Waiting for a job that somebody else has.

use std::time::Duration;

use super::job::Job;
use super::lineage::Share;
use crate::thread::run::demand;
use crate::vp::Vp;

/// How often a waiter looks before it sleeps in between.
const LOOKS: u32 = 2_000;
/// How long it sleeps at first, and at most.
const NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// The share of a job that somebody has: a thief makes it as soon as it has stolen the job.
pub(super) fn until_shared(job: &Job) -> Box<Share> {
    let mut looks = 0;
    while !job.share.is_set() {
        looks += 1;
        if looks < LOOKS {
            std::hint::spin_loop();
        } else {
            // The thief has no core.
            std::thread::yield_now();
        }
    }
    job.share.take().expect("it is set")
}

/// Runs `share`'s job if nobody has begun it, and waits for its end otherwise:
/// helps with what it has forked itself, and asks for more of that.
pub(super) fn until_determined(vp: &Vp, share: &Share) {
    let machine = vp.machine();
    // SAFETY: the handle is a reference.
    unsafe { demand(share.thread.frame()) };
    if !share.thread.is_determined() {
        let hungry = vp.be_hungry();
        hungry.ask();
        let (mut looks, mut nap, mut seen) = (0, NAP, None);
        while !share.thread.is_determined() {
            let count = Some(machine.shares.count());
            if seen != count
                && let Some(part) = machine.shares.find_within(&share.lineage)
            {
                hungry.pause(|| {
                    // SAFETY: the handle is a reference.
                    unsafe { demand(part.frame()) };
                });
                (looks, nap, seen) = (0, NAP, None);
                hungry.ask();
                continue;
            }
            seen = count;
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            hungry.ask();
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }
    machine.shares.forget(share);
}
