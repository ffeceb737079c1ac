//! Peer: the same method as a message to an actor (ractor), which answers it.

use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::case::Failure;

struct Counter;

enum Ask {
    Add(RpcReplyPort<u64>),
}

struct Count {
    count: u64,
    step: u64,
}

impl Actor for Counter {
    type Msg = Ask;
    type State = Count;
    type Arguments = u64;

    async fn pre_start(&self, _: ActorRef<Ask>, step: u64) -> Result<Count, ActorProcessingErr> {
        Ok(Count { count: 0, step })
    }

    async fn handle(
        &self,
        _: ActorRef<Ask>,
        Ask::Add(answer): Ask,
        state: &mut Count,
    ) -> Result<(), ActorProcessingErr> {
        state.count += state.step;
        answer.send(state.count)?;
        Ok(())
    }
}

/// Sends that number of messages, each answered before the next. Returns their time, and the sum of the answers. All
/// runs on one OS thread, which is the fastest place for an actor and its client.
pub(crate) fn asked(times: u64) -> Result<(Duration, u64), Failure> {
    let broken = |why: &dyn std::fmt::Display| Failure::Broken(why.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|e| broken(&e))?;
    runtime.block_on(async {
        let (actor, end) = Actor::spawn(None, Counter, 1).await.map_err(|e| broken(&e))?;
        let clock = Instant::now();
        let mut sum = 0;
        for _ in 0..times {
            sum += ractor::call!(actor, Ask::Add).map_err(|e| broken(&e))?;
        }
        let elapsed = clock.elapsed();
        actor.stop(None);
        end.await.map_err(|e| broken(&e))?;
        Ok((elapsed, sum))
    })
}
