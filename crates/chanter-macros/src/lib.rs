//! The attribute macros of Chanter. Use them through the library: `#[chanter::main]` and
//! `#[chanter::test]`.
//!
//! Both turn an `async fn` without arguments into a plain function that builds a `Machine`, runs
//! the body on its VP 0, which is the calling OS thread, and shuts the machine down:
//!
//! ```text
//! #[chanter::main(vps = 2)]
//! async fn main() -> Result<(), Error> { .. }
//!
//! // becomes
//! fn main() -> Result<(), Error> {
//!     async fn body() -> Result<(), Error> { .. }
//!     let machine = ::chanter::Machine::builder().vps(2).build().expect("..");
//!     machine.block_on(body())
//! }
//! ```
//!
//! The body stays a function of its own, so the compiler checks it against the written return
//! type, and its errors point into the user's code.

mod args;
mod entry;
mod explore;

use entry::Kind;
use proc_macro::TokenStream;

/// Runs an `async fn` on a [`Machine`](https://docs.rs/chanter) of its own.
///
/// The calling OS thread becomes VP 0, so the body need not be `Send`. The machine is shut down
/// before the function returns, whatever it returns: `()`, a `Result`, an
/// [`ExitCode`](std::process::ExitCode), anything that `main` may return. A panic of the body is
/// a panic of the function.
///
/// # Arguments
///
/// | argument | meaning | without it |
/// |---|---|---|
/// | `vps = N` | virtual processors of the machine: any expression of type `usize` | the machine's own default |
/// | `name = ".."` | name of the machine | the machine's own default |
/// | `deadlocks = true` | a panic says who waits on what when nothing can run any more, if that is certain | off for `main`, on for tests |
/// | `crate = path` | where the library is, when it was renamed or is re-exported | `::chanter` |
///
/// # Panics
///
/// The function panics if the operating system refuses what the machine needs (threads, pollers).
///
/// # Examples
///
/// ```
/// use chanter::prelude::*;
///
/// #[chanter::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let (tx, rx) = channel::<u64>();
///     spawn(async move { tx.send(7).await });
///     assert_eq!(rx.recv().await?, 7);
///     Ok(())
/// }
/// ```
///
/// ```
/// #[chanter::main(vps = 2, name = "twins")]
/// async fn main() {
///     let answer = chanter::spawn_on(1, async { 6 * 7 }).join().await;
///     assert_eq!(answer.unwrap(), 42);
/// }
/// ```
///
/// What cannot work is refused where it is written:
///
/// ```compile_fail
/// #[chanter::main]
/// fn main() {}    // error: `#[chanter::main]` needs an `async fn`
/// ```
///
/// ```compile_fail
/// #[chanter::main]
/// async fn main() -> Result<(), std::fmt::Error> {
///     "not a result"    // error: mismatched types
/// }
/// ```
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Kind::Main, args.into(), item.into()).into()
}

/// Makes an `async fn` a unit test that runs on a [`Machine`](https://docs.rs/chanter) of its own.
///
/// Takes the arguments of [`macro@main`], with defaults fit for tests: two VPs, so that races have
/// a chance to show, and the test's name as the machine's name. Other attributes stay, so
/// `#[ignore]`, `#[should_panic]` and `#[cfg(..)]` work as for any test, and the test may return
/// whatever a test may return.
///
/// # Examples
///
/// ```
/// use chanter::prelude::*;
///
/// #[chanter::test]
/// async fn messages_arrive_in_order() {
///     let (tx, rx) = mailbox::<u32>();
///     for i in 0..3 {
///         tx.send(i).await.unwrap();
///     }
///     assert_eq!(rx.recv().await, Ok(0));
/// }
///
/// #[chanter::test(vps = 1)]
/// #[should_panic(expected = "boom")]
/// async fn a_panic_fails_the_test() {
///     panic!("boom");
/// }
/// # fn main() {}
/// ```
///
/// # Exploring
///
/// With the argument `explore` the body runs many times, on a simulated machine with virtual time, each
/// time under another schedule, and fails if any of them does. The crate `chanter-explore` does it,
/// and must be among the dev-dependencies.
///
/// ```ignore
/// #[chanter::test(explore)]
/// async fn both_orders_are_right() { .. }
///
/// #[chanter::test(explore(strategy = "random", schedules = 10_000, seed = 7))]
/// async fn by_chance() { .. }
/// ```
///
/// | option | meaning | without it |
/// |---|---|---|
/// | `strategy = ".."` | `"random"`, `"pct"` or `"exhaustive"` | all three |
/// | `schedules = N` | how many; of an exhaustive search, at most | 1,000 random, 1,000 PCT, 100,000 exhaustive |
/// | `seed = N` | seed of random and PCT schedules | 0 |
/// | `depth = N` | of PCT: ordering constraints of the bugs that it is to find | 3 |
/// | `preemptions = N` | exhaustive: at most so many in a schedule | 3 |
/// | `steps = N` | a schedule that takes more has failed | 10,000 |
/// | `parasites = ".."` | `"in place"` or `"as hosts"` | in place |
/// | `crate = path` | where `chanter-explore` is | `::chanter_explore` |
///
/// The body may return what implements `chanter_explore::Verdict`: `()`, or a `Result` with an
/// error that is `Debug`. The environment variable `CHANTER_EXPLORE_REPLAY` holds a schedule to
/// run alone.
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Kind::Test, args.into(), item.into()).into()
}
