//! Checks of frames between processes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use chanter::prelude::*;

use super::member::{LANES, Member, Seen, message};
use super::{Finding, Kit};
use chanter_engine::wire::{Body, LENGTH};
use chanter_engine::{Change, Engine, Full, Lane, Polled, ProcessId, Sink};

/// Longest body that is tried, in bytes.
const LONGEST: usize = 16 << 20;

impl<E: Engine, M: AsyncFn(u32) -> Vec<E>> Kit<E, M> {
    pub(super) async fn connected(&self) -> Finding {
        let mut members: [Member<E>; 4] = self.cluster().await?;
        let all: BTreeSet<ProcessId> = members.iter().map(Member::me).collect();
        if all.len() != members.len() {
            return Err(format!("of four processes two have the same number: {all:?}"));
        }
        for member in &members {
            let known: BTreeSet<ProcessId> =
                member.engine.roster().into_iter().map(|(peer, _)| peer).collect();
            if known != all {
                return Err(format!("{:?} knows {known:?} of {all:?}", member.me()));
            }
            if member.engine.has_ended() {
                return Err(format!("{:?} has ended at the beginning", member.me()));
            }
        }
        for member in &members {
            for to in all.iter().filter(|to| **to != member.me()) {
                for lane in LANES {
                    member.send(*to, lane, message(member.me(), to.0, 0, 10))?;
                }
            }
            // A frame without a receiver.
            member.send(ProcessId(u32::MAX), Lane::User, message(member.me(), u32::MAX, 0, 10))?;
        }
        for member in &mut members {
            member.until_came(3 * 3).await?;
            let me = member.me();
            if let Some(came) = member.seen.came.iter().find(|came| came.stream != me.0) {
                return Err(format!("{me:?} has got what is for another process: {came:?}"));
            }
            let came: BTreeSet<_> =
                member.seen.came.iter().map(|came| (came.from, came.lane as u8)).collect();
            if came.len() != 9 {
                return Err(format!("{me:?} was sent a frame by each in each lane; there came {came:?}"));
            }
        }
        Ok(())
    }

    pub(super) async fn sizes(&self) -> Finding {
        let [mut one, mut other]: [Member<E>; 2] = self.cluster().await?;
        let (me, to) = (one.me(), other.me());
        let caps = one.engine.caps(to);
        let longest = (caps.eager as usize).min(LONGEST);
        if caps.eager < LONGEST as u32 {
            for lane in LANES {
                let long = message(me, 0, 0, longest + 1);
                match one.engine.try_send(to, lane, long.clone()) {
                    Err(Full { body }) if body == long => {}
                    Err(Full { body }) => {
                        return Err(format!("a body that is too long came back as {body:?}"));
                    }
                    Ok(()) => return Err(format!("{} bytes were taken, in spite of {caps:?}", longest + 1)),
                }
            }
        }
        let mut lengths: BTreeSet<usize> = [0, longest].into();
        for power in (0..=24).map(|power| 1 << power) {
            // Powers of two may be limits of bodies, or of bodies with their headers.
            let near = [power - 1, power, power + 1].into_iter();
            lengths.extend(
                near.flat_map(|near: usize| [near, near.saturating_sub(LENGTH)])
                    .filter(|near| *near <= longest),
            );
        }
        let count = LANES.len() * lengths.len();
        let receiving = spawn(async move { other.until_came(count).await.map(|()| other) });
        // Short bodies alternate with long ones.
        let (mut short, mut long) = (lengths.iter(), lengths.iter().rev());
        for number in 0..lengths.len() {
            let length = if number % 2 == 0 { short.next() } else { long.next() };
            for lane in LANES {
                let length = *length.expect("there are as many");
                one.send_patiently(to, lane, message(me, 0, number as u64, length)).await?;
            }
        }
        // Frames that were taken make their way while this process polls.
        let received = one.while_polling(receiving).await?;
        received.seen.is_in_order(caps.order)?;
        match received.seen.came.len() {
            came if came == count => Ok(()),
            came => Err(format!("of {count} frames there came {came}")),
        }
    }

    pub(super) async fn budget(&self) -> Finding {
        const COUNT: u64 = 12;
        for budget in [1, 3, 7, u32::MAX] {
            let [one, mut other]: [Member<E>; 2] = self.cluster().await?;
            for number in 0..COUNT {
                one.send(other.me(), Lane::User, message(one.me(), 0, number, 100))?;
            }
            // `poll` checks the counts.
            while other.seen.came.len() < COUNT as usize {
                match other.poll(budget)? {
                    Polled::Busy | Polled::Nothing => {
                        other.sleep("frames of which a poll has left some").await?
                    }
                    Polled::Some | Polled::More => {}
                }
            }
            other.seen.is_in_order(one.engine.caps(other.me()).order)?;
        }
        Ok(())
    }

    pub(super) async fn concurrent(&self) -> Finding {
        const SENDERS: u32 = 3;
        const EACH: u64 = 400;
        let [one, other]: [Member<E>; 2] = self.cluster().await?;
        let order = one.engine.caps(other.me()).order;
        let (patience, total) = (self.patience, (u64::from(SENDERS) * EACH) as usize);
        let members = [Arc::new(one), Arc::new(other)];
        let seen = [0, 1].map(|_| Arc::new(Mutex::new(Seen::default())));
        let begin = Instant::now();
        let mut working = Vec::new();
        for at in [0, 1] {
            let to = members[1 - at].me();
            for stream in 0..SENDERS {
                let from = Arc::clone(&members[at]);
                working.push(spawn_blocking(move || {
                    for number in 0..EACH {
                        let lane = LANES[stream as usize % 3];
                        let mut body = message(from.me(), stream, number, number as usize);
                        while let Err(Full { body: refused }) = from.engine.try_send(to, lane, body) {
                            body = refused;
                            if begin.elapsed() > patience {
                                return Err(format!("{lane:?} stays full, although the other end polls"));
                            }
                            thread::yield_now();
                        }
                    }
                    Ok(())
                }));
            }
            for _poller in 0..2 {
                let (by, shared) = (Arc::clone(&members[at]), Arc::clone(&seen[at]));
                working.push(spawn_blocking(move || {
                    let mut sink = Shared(shared);
                    while sink.count() < total {
                        by.engine.poll(5, &mut sink);
                        if begin.elapsed() > patience {
                            return Err(format!("of {total} frames there came {}", sink.count()));
                        }
                        thread::yield_now();
                    }
                    Ok(())
                }));
            }
        }
        for work in working {
            work.join().await.map_err(|error| error.to_string())??;
        }
        for seen in seen {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(wrong) = seen.wrong.take() {
                return Err(wrong);
            }
            seen.is_in_order(order)?;
        }
        Ok(())
    }
}

/// The sink of several pollers, called by one of them at a time.
struct Shared(Arc<Mutex<Seen>>);

impl Shared {
    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).came.len()
    }
}

impl Sink for Shared {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        // If two pollers were called at once, one could overtake the other.
        thread::yield_now();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arrived(from, lane, frame);
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).peer(peer, change);
    }
}
