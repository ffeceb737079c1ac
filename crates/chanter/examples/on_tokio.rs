//! Events are not bound to Chanter's own threads: an event is a future on any executor. Here Tokio's
//! tasks talk to each other through Chanter's channels, and to a thread of a machine beside them.

use chanter::prelude::*;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let machine = Machine::builder().vps(1).build()?;

    let (requests, inbox) = channel::<String>();
    let (outbox, answers) = channel::<String>();
    let shouter = machine.spawn(async move {
        while let Ok(text) = inbox.recv().await {
            outbox.send(text.to_uppercase()).await.expect("a task waits");
        }
    });

    let received = tokio.block_on(async move {
        let sender = tokio::spawn(async move {
            for text in ["events", "everywhere"] {
                // Tokio's timer and Chanter's channel, in one task.
                tokio::time::sleep(Duration::from_millis(1)).await;
                requests.send(text.to_owned()).await.expect("the shouter listens");
            }
        });
        let mut received = Vec::new();
        // Chanter's choice, polled by Tokio: the timer is Chanter's, and wakes a task of Tokio's.
        while let Some(text) =
            choose((answers.recv().wrap(Result::ok), after(Duration::from_secs(10)).wrap(|()| None))).await
        {
            received.push(text);
        }
        sender.await.expect("the sender did not panic");
        received
    });

    assert_eq!(received, ["EVENTS", "EVERYWHERE"]);
    shouter.join().sync_blocking()?;
    println!("from Tokio to Chanter and back: {}", received.join(" "));
    Ok(())
}
