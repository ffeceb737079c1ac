//! A parasite is a thread that costs about a call: it runs in place, at once, until it blocks. Only
//! then does it become an object, and whoever unblocks it runs it on, there and then.

use chanter::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static STEPS: AtomicU32 = AtomicU32::new(0);

fn step(expected: u32) {
    assert_eq!(STEPS.fetch_add(1, Relaxed), expected);
}

fn main() -> std::io::Result<()> {
    let machine = Machine::builder().vps(1).build()?;
    machine.block_on(async {
        // One that does not block is over when `spawn_parasite` returns.
        step(0);
        spawn_parasite(async { step(1) });
        step(2);

        // One that blocks leaves its rest behind.
        let (tx, rx) = channel::<u32>();
        let (done, all_done) = channel::<u32>();
        spawn_parasite(async move {
            step(3);
            let received = rx.recv().await.expect("a message is on its way");
            done.send(received + 1).await.expect("main waits for it");
        });
        step(4);
        tx.send(41).await.expect("the parasite waits for it");
        assert_eq!(all_done.recv().await, Ok(42));
        step(5);

        // So an asynchronous send is a parasite that sends.
        let (tx, rx) = channel::<u32>();
        for i in 0..10 {
            let tx = tx.clone();
            spawn_parasite(async move { tx.send(i).await.expect("main receives it") });
        }
        for i in 0..10 {
            assert_eq!(rx.recv().await, Ok(i), "in the order of the sends");
        }
    });

    let stats = machine.stats();
    assert_eq!(stats.parasites_created, 12);
    assert_eq!(stats.finished_in_place, 1);
    assert_eq!(stats.reified, 11);
    println!("{stats:?}");
    Ok(())
}
