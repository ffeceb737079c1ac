//! Checks that a process falls asleep, and is woken.

use chanter::prelude::*;

use super::member::{Member, message};
use super::{Finding, Kit};
use chanter_engine::{Engine, Idle, Lane};

/// The point at which a frame is sent, while the other end falls asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Polled,
    Tested,
    Rested,
}

/// Number of times that each point is tried.
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

    /// Exchanges messages between two processes that sleep between any two of them, on any OS threads.
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
            // Its current work ends sooner or later; otherwise `until` runs out of patience.
            member.until("a time without work", |engine, _| may_sleep(engine)).await?;
        }
        Ok(())
    }
}

impl<E: Engine> Member<E> {
    /// Sends a frame to the idle `other` when it has come to `point`, and checks that it wakes up.
    async fn wake_at(&mut self, other: &mut Self, point: Point, number: u64) -> Finding {
        let (me, to) = (self.me(), other.me());
        // The window may be full; the frame that opens it wakes this process.
        let mut send = async |at: Point| match at == point {
            true => self.send_patiently(to, Lane::User, message(me, 0, number, 8)).await,
            false => Ok(()),
        };
        // Takes the frames left from the last round.
        while other.engine.poll(16, &mut other.seen).has_found() {}
        send(Point::Polled).await?;
        // Before `park` the answer is a hint, and is not used.
        other.engine.has_work();
        send(Point::Tested).await?;
        let mut rest = other.engine.park();
        send(Point::Rested).await?;
        // From now on, `other` polls only when the engine says that there is work.
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
