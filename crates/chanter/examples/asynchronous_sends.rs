//! Asynchronous events: send now, learn later what became of it.
//!
//! ```text
//! cargo run --example asynchronous_sends
//! ```

use chanter::event::{AsyncEvent, arecv, asend, choose_later};
use chanter::prelude::*;

// The compiler cannot see that what an asynchronous event keeps of `&str` is `Send`: `main` stays here.
#[chanter::main(local)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (tx, rx) = channel();
    let (reports, reported) = mailbox();

    // Nobody receives yet, but none of these waits: each send is a parasite, which blocks in our
    // stead and reports when its message has been taken.
    for order in ["coffee", "tea", "soup"] {
        let reports = reports.clone();
        let number = asend(&tx, order)
            .wrap_now(|()| order.len())
            .wrap_later(move |sent| reports.try_send((order, sent.is_ok())).is_ok())
            .async_sync()
            .await;
        println!("ordered {order} ({number} letters)");
    }
    assert!(reported.is_empty());

    println!("the kitchen takes {}", rx.recv().await?);
    println!("the kitchen takes {}", rx.recv().await?);
    // It closes before the soup.
    drop(rx);
    for _ in 0..3 {
        let (order, taken) = reported.recv().await?;
        println!("{order}: {}", if taken { "taken" } else { "too late" });
    }

    // Whichever of two can commit first, chosen in the background; its result as a promise.
    let ((left, from_left), (_right, from_right)) = (channel(), channel::<u32>());
    let ((), result) = choose_later([arecv(&from_left), arecv(&from_right)]).promise().async_sync().await;
    left.send(42).await?;
    println!("the promise: {:?}", result.recv().await??);
    Ok(())
}
