//! `select!`: a server that receives, sends, keeps time and stops, in one loop.
//!
//! ```text
//! cargo run --example select
//! ```

use std::time::Duration;

use chanter::prelude::*;

/// Keeps a running total; whoever asks gets it.
async fn total(numbers: Receiver<u64>, asked: Sender<u64>, stop: Receiver<()>) -> u64 {
    let mut sum = 0;
    let mut idle = 0;
    loop {
        select! {
            // The pattern is matched after the commit: what else it may be has an arm, too.
            Ok(number) = numbers.recv() => sum += number,
                else Err(Closed) => break,
            // A send, beside the receives. If it is not chosen, nothing has been sent.
            sent = asked.send(sum), if sum > 0 => {
                if sent.is_err() {
                    println!("nobody will ask again");
                }
            }
            // Dropping a timer costs next to nothing, so there is a new one each time.
            _ = after(Duration::from_millis(50)) => {
                idle += 1;
                println!("idle for {idle} x 50 ms, at {sum}");
            }
            _ = stop.recv() => break,
        }
    }
    sum
}

#[chanter::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (tx, numbers) = channel();
    let (asked, answers) = channel();
    let (stop, stopped) = channel();
    let server = spawn(total(numbers, asked, stopped));

    for number in 1..=10 {
        tx.send(number).await?;
        if number % 5 == 0 {
            println!("so far: {}", answers.recv().await?);
        }
    }
    after(Duration::from_millis(120)).await;
    stop.send(()).await?;
    let sum = server.join().await?;
    println!("in the end: {sum}");
    assert_eq!(sum, 55);
    Ok(())
}
