//! A scheduling policy is ordinary Rust. This one is a feedback scheduler: each time a thread has
//! used up a turn it falls a level, and lower levels wait for the higher ones. So short threads
//! overtake long ones, without anybody saying which are which.

use chanter::policy::{Fifo, Policy, Ready, ReadyQueue, Reason};
use chanter::prelude::*;
use std::sync::{Arc, Mutex};

const LEVELS: usize = 4;

#[derive(Default)]
struct Feedback {
    levels: Mutex<[ReadyQueue; LEVELS]>,
}

impl Policy for Feedback {
    fn enqueue(&self, mut thread: Ready, reason: Reason) -> Option<Ready> {
        // The tag is the policy's own word; it stays with the thread.
        let level = match reason {
            Reason::Yielded => LEVELS.min(thread.tag() as usize + 2) - 1,
            _ => thread.tag() as usize,
        };
        thread.set_tag(level as u64);
        self.levels.lock().unwrap()[level].push_back(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.levels.lock().unwrap().iter_mut().find_map(ReadyQueue::pop_front)
    }
}

/// A long thread spawns two short ones on its way; the order of all turns.
fn turns(policy: impl Fn(usize) -> Box<dyn Policy> + Send + Sync + 'static) -> std::io::Result<String> {
    let machine = Machine::builder().vps(1).policy(policy).build()?;
    let log = Arc::new(Mutex::new(String::new()));
    let turn = move |name: char, log: &Arc<Mutex<String>>| {
        log.lock().unwrap().push(name);
        yield_now()
    };
    let long = machine.spawn({
        let log = log.clone();
        async move {
            let mut short = Vec::new();
            for n in 0..6 {
                if n == 3 {
                    short.extend([log.clone(), log.clone()].map(|log| {
                        spawn(async move {
                            turn('s', &log).await;
                            turn('s', &log).await;
                        })
                    }));
                }
                turn('L', &log).await;
            }
            for thread in short {
                thread.join().await.expect("no thread panics");
            }
        }
    });
    machine.block_on(long.join().sync()).expect("no thread panics");
    let turns = log.lock().unwrap().clone();
    Ok(turns)
}

fn main() -> std::io::Result<()> {
    let fair = turns(|_vp| Box::new(Fifo::new()))?;
    let feedback = turns(|_vp| Box::new(Feedback::default()))?;
    println!("fifo:     {fair}\nfeedback: {feedback}");
    assert_eq!(fair, "LLLLssLssL");
    assert_eq!(feedback, "LLLLssssLL");
    Ok(())
}
