//! Falling asleep, and being woken.

use chanter::prelude::*;

use super::member::{Member, message};
use super::{Finding, Kit};
use crate::engine::{Engine, Idle, Lane, Polled};

/// Where a frame is sent while the other end falls asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Polled,
    Tested,
    Rested,
}

/// How often each point is tried.
const ROUNDS: u64 = 300;

impl<E: Engine, M: AsyncFn(u32) -> Vec<E>> Kit<E, M> {
    pub(super) async fn wakes(&self) -> Finding {
        let [mut one, mut other]: [Member<E>; 2] = self.cluster().await?;
        let mut number = 0;
        for point in [Point::Polled, Point::Tested, Point::Rested] {
            for _ in 0..ROUNDS {
                one.wake_at(&mut other, point, number)
                    .await
                    .map_err(|wrong| format!("sent when {point:?}: {wrong}"))?;
                number += 1;
            }
        }
        self.ping_pong().await
    }

    /// Two that sleep between any two messages, on whatever OS threads there are.
    async fn ping_pong(&self) -> Finding {
        let [mut one, mut other]: [Member<E>; 2] = self.cluster().await?;
        let (me, to) = (one.me(), other.me());
        let echo = spawn(async move {
            for number in 0..ROUNDS {
                other.until_came(number as usize + 1).await?;
                other.send(me, Lane::User, message(to, 0, number, 8))?;
            }
            Ok::<_, String>(other)
        });
        for number in 0..ROUNDS {
            one.send(to, Lane::User, message(me, 0, number, 8))?;
            one.until_came(number as usize + 1).await?;
        }
        one.while_polling(echo).await?;
        Ok(())
    }

    pub(super) async fn rests(&self) -> Finding {
        let [one, mut other]: [Member<E>; 2] = self.cluster().await?;
        one.send(other.me(), Lane::User, message(one.me(), 0, 0, 1000))?;
        other.until_came(1).await?;
        for mut member in [one, other] {
            let may_sleep = |engine: &E| {
                let rest = engine.park();
                engine.unpark();
                rest != Idle::Work && !engine.has_work()
            };
            // What it is busy with ends; `until` loses patience.
            member.until("a time without work", |engine, _| may_sleep(engine)).await?;
        }
        Ok(())
    }
}

impl<E: Engine> Member<E> {
    /// Sends a frame to `other`, which finds nothing to do, when it has come to `point`; and sees that it wakes up.
    async fn wake_at(&mut self, other: &mut Self, point: Point, number: u64) -> Finding {
        let (me, to) = (self.me(), other.me());
        // Its window may be full: what opens it wakes this one.
        let mut send = async |at: Point| match at == point {
            true => self.send_patiently(to, Lane::User, message(me, 0, number, 8)).await,
            false => Ok(()),
        };
        // What the last round has left.
        while other.engine.poll(16, &mut other.seen) != Polled::Nothing {}
        send(Point::Polled).await?;
        // Its answer is a hint before `park`, and is not used.
        other.engine.has_work();
        send(Point::Tested).await?;
        let mut rest = other.engine.park();
        send(Point::Rested).await?;
        // From now on it polls only when the engine says that there is work.
        loop {
            other.sleep_for(rest, "a frame that was sent while it fell asleep").await?;
            other.engine.unpark();
            let is_told = matches!(rest, Idle::For(_)) || other.engine.has_work();
            if is_told {
                other.take_all()?;
            }
            if other.seen.came.len() as u64 == number + 1 {
                return Ok(());
            }
            rest = other.engine.park();
        }
    }
}
