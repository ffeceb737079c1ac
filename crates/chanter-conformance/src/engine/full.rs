//! The check of a lane that is not emptied.

use chanter::prelude::*;

use super::member::{LANES, Member, message};
use super::{Finding, Kit};
use chanter_engine::{Engine, Full};

/// Number of bytes from which a lane that is not polled counts as unbounded.
const MOST: usize = 256 << 20;
const LENGTH: usize = 4096;

impl<E: Engine, M: AsyncFn(u32) -> Vec<E>> Kit<E, M> {
    pub(super) async fn full(&self) -> Finding {
        for lane in LANES {
            let [mut one, mut other]: [Member<E>; 2] = self.cluster().await?;
            let (me, to) = (one.me(), other.me());
            let order = one.engine.caps(to).order;
            let mut count = 0;
            for round in 1..=3 {
                let refused = loop {
                    let body = message(me, 0, count, LENGTH);
                    match one.engine.try_send(to, lane, body.clone()) {
                        Ok(()) => count += 1,
                        Err(Full { body: back }) if back == body => break back,
                        Err(Full { body: back }) => return Err(format!("{body:?} came back as {back:?}")),
                    }
                    if count as usize * LENGTH > MOST {
                        return Err(format!(
                            "nobody polls, and {count} frames of {LENGTH} bytes were taken in {lane:?}"
                        ));
                    }
                    yield_now().await;
                };
                for other_lane in LANES.into_iter().filter(|other| *other != lane) {
                    // A stream of its own, as it may overtake.
                    one.send(to, other_lane, message(me, 1, round - 1, 5))
                        .map_err(|wrong| format!("{lane:?} is full: {wrong}"))?;
                }
                let expected = count as usize + 2 * round as usize;
                let receiving = spawn(async move { other.until_came(expected + 1).await.map(|()| other) });
                // Only the notifier wakes this process, since the other end polls now.
                one.send_patiently(to, lane, refused).await?;
                count += 1;
                other = one.while_polling(receiving).await?;
                other.seen.is_in_order(order)?;
            }
        }
        Ok(())
    }
}
