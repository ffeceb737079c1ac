//! Checks of processes that leave or are killed.

use std::time::Instant;

use chanter::prelude::*;

use super::member::{LANES, Member, message};
use super::{Finding, Kit};
use chanter_engine::{Caps, Death, Engine, Lane, Leave, Polled, ProcessId, Why};

/// Number of frames sent before an end. The body of each has `LENGTH` bytes.
const COUNT: u64 = 30;
const LENGTH: usize = 3000;

impl<E: Engine, M: AsyncFn(u32) -> Vec<E>> Kit<E, M> {
    pub(super) async fn drains(&self) -> Finding {
        self.one_drains().await?;
        self.all_drain().await
    }

    async fn one_drains(&self) -> Finding {
        let [mut leaver, mut one, mut two]: [Member<E>; 3] = self.cluster().await?;
        let (gone, order) = (leaver.me(), leaver.engine.caps(one.me()).order);
        leaver.send_all(one.me())?;
        leaver.engine.leave(Leave::Drain);
        leaver
            .send(one.me(), Lane::User, message(gone, 1, 0, 1))
            .map_err(|wrong| format!("after leaving: {wrong}"))?;
        let leaving = spawn(async move { leaver.until_ended().await.map(|()| leaver) });
        for member in [&mut one, &mut two] {
            let (why, _) = member.until_gone(gone).await?;
            if why != Why::Left {
                return Err(format!("{gone:?} has left, and {:?} hears that it {why}", member.me()));
            }
        }
        let before = one.until_gone(gone).await?.1;
        if before != COUNT as usize {
            return Err(format!("of {COUNT} frames {before} came before {gone:?} had left"));
        }
        one.seen.is_in_order(order)?;
        let mut leaver = leaving.join().await.map_err(|error| error.to_string())??;
        leaver.take_all()?;
        one.goes_on_with(&mut two, gone).await?;
        // Now the last two leave, one after the other.
        let rest = two.fall_asleep()?;
        one.engine.leave(Leave::Drain);
        two.sleep_for(rest, "the end of the last other one").await?;
        two.engine.unpark();
        two.until_ended().await?;
        one.until_ended().await
    }

    /// All processes send their frames and leave; each receives all that the others have sent.
    async fn all_drain(&self) -> Finding {
        let members: [Member<E>; 3] = self.cluster().await?;
        let all: Vec<ProcessId> = members.iter().map(Member::me).collect();
        for member in &members {
            for to in all.iter().filter(|to| **to != member.me()) {
                member.send_all(*to)?;
            }
        }
        for member in &members {
            member.engine.leave(Leave::Drain);
        }
        let ending =
            members.map(|mut member| spawn(async move { member.until_ended().await.map(|()| member) }));
        for ending in ending {
            let member = ending.join().await.map_err(|error| error.to_string())??;
            let came = member.seen.came.len() as u64;
            if came != 2 * COUNT {
                return Err(format!(
                    "all leave, and {:?} has heard {came} of {} frames",
                    member.me(),
                    2 * COUNT
                ));
            }
        }
        Ok(())
    }

    pub(super) async fn leaves_now(&self) -> Finding {
        let [mut leaver, mut one, mut two]: [Member<E>; 3] = self.cluster().await?;
        let gone = leaver.me();
        let Caps { order, death, .. } = leaver.engine.caps(one.me());
        leaver.send_all(one.me())?;
        one.send_all(gone)?;
        leaver.engine.leave(Leave::Now);
        // The others need to poll only where a death ends all processes and none can leave alone.
        let leaving = if death == Death::Aborts {
            Some(spawn(async move { leaver.until_ended().await }))
        } else {
            leaver.until_ended().await?;
            None
        };
        for member in [&mut one, &mut two] {
            member.until_gone(gone).await?;
        }
        if let Some(leaving) = leaving {
            leaving.join().await.map_err(|error| error.to_string())??;
        }
        one.seen.is_in_order(order)?;
        one.goes_on_with(&mut two, gone).await
    }

    pub(super) async fn killed(&self) -> Finding {
        let Some(kill) = self.kill else { return Ok(()) };
        let [dying, mut one, mut two]: [Member<E>; 3] = self.cluster().await?;
        let gone = dying.me();
        let caps = one.engine.caps(gone);
        if caps.death != Death::Reports {
            return Ok(());
        }
        dying.send_all(one.me())?;
        one.send_all(gone)?;
        kill(&dying.engine);
        // A killed process sends nothing.
        dying.send(two.me(), Lane::User, message(gone, 1, 0, 1))?;
        for member in [&mut one, &mut two] {
            let (why, _) = member.until_gone(gone).await?;
            if why == Why::Left {
                return Err(format!("{gone:?} was killed, and {:?} hears that it {why}", member.me()));
            }
        }
        one.seen.is_in_order(caps.order)?;
        if two.seen.count_from(gone) > 0 {
            return Err("the dead have spoken".to_owned());
        }
        one.goes_on_with(&mut two, gone).await?;
        kill(&one.engine);
        two.until("the end of everything", |engine, _| engine.has_ended()).await?;
        two.says_all_before_nothing(one.me()).await
    }
}

impl<E: Engine> Member<E> {
    /// Sends the `COUNT` frames, in equal parts on all lanes.
    fn send_all(&self, to: ProcessId) -> Finding {
        let each = COUNT / LANES.len() as u64;
        (0..each)
            .flat_map(|number| LANES.map(|lane| (number, lane)))
            .try_for_each(|(number, lane)| self.send(to, lane, message(self.me(), 0, number, LENGTH)))
    }

    /// Checks that the engine says [`Nothing`](Polled::Nothing) only when it has told of the end of `gone`.
    async fn says_all_before_nothing(&mut self, gone: ProcessId) -> Finding {
        let begin = Instant::now();
        while begin.elapsed() < self.patience {
            match self.poll(16)? {
                Polled::Nothing if self.seen.has_gone(gone) => return Ok(()),
                Polled::Nothing => return Err(format!("a poll said Nothing, and {gone:?} has gone untold")),
                Polled::Busy => self.sleep("the end of a process").await?,
                Polled::Some | Polled::More => {}
            }
        }
        Err("an engine that has ended never says Nothing".to_owned())
    }

    /// Checks that the two talk as before, and that frames for the process `gone` are dropped.
    async fn goes_on_with(&mut self, other: &mut Self, gone: ProcessId) -> Finding {
        let (me, to) = (self.me(), other.me());
        for number in 0..100 {
            self.send(
                gone,
                Lane::Bulk,
                message(me, 9, number, 100_000.min(self.engine.caps(gone).eager as usize)),
            )
            .map_err(|wrong| format!("{gone:?} has gone: {wrong}"))?;
        }
        let (mine, others) = (self.seen.count_from(to), other.seen.count_from(me));
        self.send(to, Lane::User, message(me, 9, 0, 10))?;
        other.until("a frame of who is left", |_, seen| seen.count_from(me) > others).await?;
        other.send(me, Lane::User, message(to, 9, 0, 10))?;
        self.until("a frame of who is left", |_, seen| seen.count_from(to) > mine).await?;
        for member in [self, other] {
            if member.engine.has_ended() {
                return Err(format!("{:?} has ended, and two are left", member.me()));
            }
        }
        Ok(())
    }
}
