//! The attribute macros of Chanter. Use them through the libraries: `#[chanter::main]`,
//! `#[chanter::test]`, `#[chanter_cluster::main]`, `#[chanter_objects::object]`.
//!
//! The attributes `main` and `test` turn an `async fn` without arguments into a plain function. It builds a `Machine`,
//! runs the body on it, and shuts the machine down:
//!
//! ```text
//! #[chanter::main(vps = 2)]
//! async fn main() -> Result<(), Error> { .. }
//!
//! // becomes
//! fn main() -> ExitCode {
//!     async fn body() -> Result<(), Error> { .. }
//!     let machine = ::chanter::Machine::builder().vps(2).build().expect("..");
//!     ::chanter::__main::run(&machine, async { Termination::report(body().await) })
//! }
//! ```
//!
//! where `run` spawns the body as a thread and waits for its end. (The body of a test, and of a `main` with the
//! argument `local`, is run by `block_on_local` on the calling OS thread.)
//!
//! The body stays a function of its own, so the compiler checks it against the written return
//! type, and its errors point into the user's code.

mod args;
mod checkpoints;
mod entry;
mod explore;
mod object;
#[cfg(test)]
mod object_tests;
mod remote;

use entry::Kind;
use proc_macro::TokenStream;

/// Runs an `async fn` on a [`Machine`](https://docs.rs/chanter) of its own.
///
/// The body is an ordinary thread named "main". It may run on any virtual processor, so a long computation on one of
/// them does not delay it. It has to be `Send`. For a body that cannot be, give the argument `local`. The body then
/// stays on the calling OS thread, which drives virtual processor 0, and waits for all that computes there. Threads of
/// [`spawn_local`](https://docs.rs/chanter) stay on the OS thread that runs the body at that moment. A body that calls
/// `spawn_local` needs `local` as well.
///
/// The machine is shut down before the function returns. The function may return whatever `main` may:
/// `()`, a `Result`, an [`ExitCode`](std::process::ExitCode). If the function is called `main`, its result is made
/// into an exit code, and an error is printed, before the machine ends. Else the result is returned, and has to be
/// `Send`, unless the body is `local`. A panic of the body is a panic of
/// the function.
///
/// # Arguments
///
/// | argument | meaning | without it |
/// |---|---|---|
/// | `vps = N` | virtual processors of the machine: any expression of type `usize` | one for each core |
/// | `workers = N` | OS threads that drive them | one for each |
/// | `name = ".."` | name of the machine | `"chanter"` |
/// | `policy = \|index\| ..` | a closure that makes the policy of each virtual processor | work stealing |
/// | `hand_off_after = ..` | `Option<Duration>`: how long a turn may keep a virtual processor | 10 ms |
/// | `inflation = false` | parasites stay what they are | they become hosts where that pays |
/// | `genealogy = true` | the machine knows who spawned whom | it does not |
/// | `blocking_threads = N` | OS threads for `spawn_blocking`, at most | 64 |
/// | `shutdown_timeout = ..` | `Duration`, or `None`: how long the end waits for those who do not come back | 10 s for `main`, no limit for tests |
/// | `deadlocks = true` | a panic says who waits on what when nothing can run any more, if that is certain | off for `main`, on for tests |
/// | `local` | the body need not be `Send`, and stays on the calling OS thread | it is a thread that may move |
/// | `crate = path` | where the library is, when it was renamed or is re-exported | `::chanter` |
///
/// The settings of the machine are those of its `Builder`, where each one is explained.
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
///     let answer = chanter::Thread::builder().on(1).spawn(async { 6 * 7 }).join().await;
///     assert_eq!(answer.unwrap(), 42);
/// }
/// ```
///
/// ```
/// use std::rc::Rc;
///
/// #[chanter::main(local)]
/// async fn main() {
///     // Not `Send`, and alive across a suspension.
///     let config = Rc::new("some text");
///     chanter::yield_now().await;
///     assert_eq!(config.len(), 9);
/// }
/// ```
///
/// Impossible uses are refused where they are written:
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
/// Takes the arguments of [`macro@main`], with defaults fit for tests: two VPs, so that races have a chance to show,
/// and the test's name as the machine's name. The body is `local`: it runs on the calling OS thread, and need not be
/// `Send`. There is one more argument:
///
/// | argument | meaning | without it |
/// |---|---|---|
/// | `limit = N` | a test that runs for longer than so many seconds hangs: who waits on what is written to the standard error, and the process aborts; 0: it may take for ever | `CHANTER_TEST_LIMIT` of the environment, or 300 |
///
/// Other attributes stay, so
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
/// #[chanter::test(vps = 1, limit = 600)]
/// #[should_panic(expected = "boom")]
/// async fn a_panic_fails_the_test() {
///     panic!("boom");
/// }
/// # fn main() {}
/// ```
///
/// # Exploring
///
/// With the argument `explore` the body runs many times, on a simulated machine with virtual time, each time under
/// another schedule, and fails if any of them does. The crate `chanter-explore` does this, and must be among the
/// dev-dependencies.
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
/// | `early_timers = B` | whether timers may fire while threads are ready | `true` for random and PCT, `false` for exhaustive |
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

/// Puts a checkpoint into each loop of a function, so that a thread that computes there answers requests.
///
/// At each turn of a loop the thread asks whether it should make way ([`checkpoint`](https://docs.rs/chanter)). It
/// yields if it has a pending request (`terminate`, `cancel`, `suspend`, `block`), and takes the request then. It also yields
/// if its quantum is over (10 ms, unless the machine says otherwise), and other threads of its virtual processor run. A
/// turn of a tight loop costs a load and a branch more, which is less than 1 ns.
///
/// | where the loop is | how the thread yields |
/// |---|---|
/// | in an `async fn`, an `async` block or an `async` closure | it awaits `yield_if_requested()`; what the loop keeps has to be `Send`, as for each await |
/// | in a plain function or closure, on a fiber | the fiber yields |
/// | in a plain function or closure, anywhere else | it does not: a future cannot be left in the middle of its poll |
///
/// A terminated future is dropped at the checkpoint. A terminated fiber unwinds from there, so destructors run. Locks of
/// the standard library that the loop holds stay held while the thread stands still.
///
/// The attribute does not reach loops within macros, functions that the function calls, and functions inside it (they take
/// an attribute of their own). It does not reach recursion, iterator adapters such as `for_each` and `sum`, and code that
/// is not Rust. Such code cannot be stopped. Call `checkpoint` in it, or give it to `spawn_blocking`.
///
/// # Arguments
///
/// `crate = path`: where the library is, when it was renamed or is re-exported.
///
/// # Errors
///
/// A `const fn`, and a function without a loop, are refused when they are compiled.
///
/// # Examples
///
/// ```
/// use chanter::prelude::*;
///
/// #[chanter::checkpoints]
/// async fn collatz() -> u64 {
///     let mut longest = 0;
///     for start in 1_u64.. {
///         let (mut n, mut steps) = (start, 0_u64);
///         while n != 1 {
///             n = if n % 2 == 0 { n / 2 } else { n.wrapping_mul(3).wrapping_add(1) };
///             steps += 1;
///         }
///         longest = longest.max(steps);
///     }
///     longest
/// }
///
/// # chanter::Machine::builder().vps(2).build().unwrap().block_on(async {
/// let endless = spawn(collatz());
/// endless.terminate(7).await.unwrap();
/// assert_eq!(endless.await.unwrap(), 7);
/// # });
/// ```
#[proc_macro_attribute]
pub fn checkpoints(args: TokenStream, item: TokenStream) -> TokenStream {
    checkpoints::expand(args.into(), item.into()).into()
}

/// Use it as `#[chanter_cluster::main]`: its documentation is there.
#[proc_macro_attribute]
pub fn cluster_main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Kind::ClusterMain, args.into(), item.into()).into()
}

/// Use it as `#[chanter_cluster::service]`: its documentation is there.
#[proc_macro_attribute]
pub fn service(args: TokenStream, item: TokenStream) -> TokenStream {
    remote::expand(remote::Kind::Service, args.into(), item.into()).into()
}

/// Use it as `#[chanter_cluster::remote]`: its documentation is there.
#[proc_macro_attribute]
pub fn remote(args: TokenStream, item: TokenStream) -> TokenStream {
    remote::expand(remote::Kind::Remote, args.into(), item.into()).into()
}

/// Use it as `#[chanter_objects::object]`: its documentation is there.
#[proc_macro_attribute]
pub fn object(args: TokenStream, item: TokenStream) -> TokenStream {
    object::expand(args.into(), item.into()).into()
}
