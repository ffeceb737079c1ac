//! Two threads and a channel. A rendezvous hands the message over: the sender goes on when the
//! receiver has it. When the last sender is gone, the receiver is told.

use chanter::prelude::*;

#[chanter::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (tx, rx) = channel::<String>();

    let greeter = spawn(async move {
        for name in ["Ada", "Grace", "Barbara"] {
            tx.send(format!("hello, {name}")).await?;
        }
        Ok::<(), SendError<String>>(())
        // `tx` is dropped here: nobody else can send.
    });

    assert_eq!(rx.recv().await?, "hello, Ada");
    assert_eq!(rx.recv().await?, "hello, Grace");
    assert_eq!(rx.recv().await?, "hello, Barbara");
    assert_eq!(rx.recv().await, Err(Closed));
    greeter.join().await??;

    // The other way round: a message that nobody will take comes back to its sender.
    let (tx, rx) = channel::<&str>();
    drop(rx);
    assert_eq!(tx.send("anyone?").await, Err(SendError("anyone?")));

    println!("three greetings were received, and the channel was closed");
    Ok(())
}
