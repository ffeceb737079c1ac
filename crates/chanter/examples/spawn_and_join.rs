//! `spawn` starts a thread that a policy schedules, and returns its handle. Joining is an event, so
//! it can be awaited or chosen; and a panic is a value that the joiner gets, not the end of anything.

use chanter::prelude::*;
use std::time::Duration;

/// A recursion through `spawn` needs no box, but its return type has to say that it is `Send`.
#[allow(
    clippy::manual_async_fn,
    reason = "an `async fn` cannot say that it is `Send`, and here the compiler cannot find out"
)]
fn fib(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let (left, right) = (spawn(fib(n - 1)), spawn(fib(n - 2)));
        left.await.expect("fib does not panic") + right.await.expect("fib does not panic")
    }
}

// What is not `Send` is kept over an `.await` below: so `main` stays on its OS thread.
#[chanter::main(vps = 2, local)]
async fn main() {
    assert_eq!(fib(15).await, 610);

    // The race: the first to finish is chosen; the other is not harmed and can still be joined.
    let hare = spawn(async { "hare" });
    let tortoise = spawn(async {
        after(Duration::from_millis(100)).await;
        "tortoise"
    });
    let winner = choose((hare.join(), after(Duration::from_secs(10)).wrap(|()| Ok("nobody")))).await;
    assert_eq!(winner.unwrap(), "hare");
    assert_eq!(tortoise.join().await.unwrap(), "tortoise");

    // A panic ends its own thread only.
    let broken = spawn(async { [1, 2, 3].iter().position(|&x| x == 4).expect("four is missing") });
    let error = broken.join().await.unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled());
    assert_eq!(error.message(), Some("four is missing"));

    // A thread that cannot be sent elsewhere may still share what is not `Send`.
    let shared = std::rc::Rc::new(std::cell::Cell::new(0));
    let local = spawn_local({
        let shared = shared.clone();
        async move { shared.set(7) }
    });
    local.join().await.unwrap();
    assert_eq!(shared.get(), 7);

    println!("fib(15) = 610, the hare won, and the panic was: {error}");
}
