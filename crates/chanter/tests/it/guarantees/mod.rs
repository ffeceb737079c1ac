//! Guarantees 1 and 2, over the whole vocabulary.
//!
//! 1. **No loss, no duplication, no leak, however a synchronization ends.** There is a table of every base event
//!    (`channels.rs`, `others.rs`), in every combinator (`shapes.rs`). Each entry is stepped by hand to every end
//!    (`ends.rs`).
//!    It completes. It is dropped before the first poll, after each poll, or after a partner has committed it. A
//!    rival or a time limit wins. A `wrap`, a guard, a rival's `wrap` or a message's destructor panics. Each poll
//!    comes from another executor. Then each message is accounted for once, and permits and locks are back. A nack is
//!    enabled and an abort action has run exactly if the branch has lost. Every wait that could go on was woken, and
//!    went on. The next waiter gets a message that a wait was given and left.
//! 2. **Wait queues hold live offers only.** In `../guarantee_memory.rs`.
//!
//! The same at random, on all executors at once, is in `../stress.rs`.
//!
//! Three exceptions are by design, and stated in their rows:
//!
//! - A swap that is dropped after its partner committed has happened, and drops the partner's value.
//! - Operations that a gather's members or a spawned future have done are done. Their values are dropped or
//!   reclaimed.
//! - The output of a future that is polled in place is dropped if it comes at the moment at which another branch
//!   commits.

use crate::common;

mod channels;
mod ends;
mod heir;
mod kit;
mod others;
mod shapes;

use ends::{Plan, drive};
use kit::{Kit, Planned, Row};
use shapes::SHAPES;

use chanter::prelude::*;
use common::{machine, watchdog};

/// Planned panics are silent; others say where they come from.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                usual(info);
            }
        }));
    });
}

/// Says which run failed.
struct Tell(&'static str, &'static str, Plan, bool);

impl Drop for Tell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(row, shape, plan, inside) = self;
            eprintln!("failed: {row}, {shape}, inside a machine: {inside}, {plan:?}");
        }
    }
}

async fn every_end<E>(row: &'static str, make: impl Fn(&Kit) -> Row<E>, inside: bool, moves: bool)
where
    E: Event + Send + 'static,
    E::Output: Send + 'static,
{
    quiet();
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let plans = Plan::all(moves);
    for shape in SHAPES {
        for plan in &plans {
            let _tell = Tell(row, shape, *plan, inside);
            drive(&make, shape, *plan, inside, tokio.handle()).await;
        }
    }
}

/// A test for each row: outside of machines, inside of one, and between.
macro_rules! table {
    ($($room:ident :: $row:ident $($inside:ident)?),* $(,)?) => {
        $(mod $row {
            use super::*;

            table!(@outside $room $row $($inside)?);

            #[test]
            fn inside() {
                watchdog!(120);
                let all = every_end(stringify!($row), $room::$row, true, false);
                machine(1).block_on_local(all);
            }

            #[test]
            fn between() {
                watchdog!(120);
                let all = every_end(stringify!($row), $room::$row, true, true);
                machine(1).block_on_local(all);
            }
        })*
    };
    (@outside $room:ident $row:ident inside) => {};
    (@outside $room:ident $row:ident) => {
        #[test]
        fn outside() {
            watchdog!(120);
            let all = every_end(stringify!($row), $room::$row, false, false);
            futures::executor::block_on(all);
        }
    };
}

table! {
    channels::recv_rendezvous,
    channels::recv_bounded,
    channels::recv_mailbox,
    channels::recv_owned,
    channels::recv_of_asend,
    channels::kept_rendezvous,
    channels::kept_bounded,
    channels::recv_of_closed,
    channels::send_rendezvous,
    channels::send_owned,
    channels::send_bounded,
    channels::send_mailbox,
    channels::send_to_closed,
    channels::send_from_rendezvous,
    channels::send_from_bounded,
    channels::send_from_to_closed,
    channels::ivar,
    channels::cvar,
    channels::mvar_take,
    channels::mvar_read,
    channels::mvar_put,
    channels::mvar_put_from,
    channels::mvar_swap,
    channels::swap_ends,
    channels::swap_channel,
    channels::swap_from,
    channels::swap_channel_from,
    channels::multicast_port,
    channels::broadcast_subscriber,
    channels::watcher,
    channels::barrier,
    channels::call,
    channels::accept,
    others::mutex,
    others::rwlock_read,
    others::rwlock_write,
    others::semaphore,
    others::condvar,
    others::timer,
    others::always_ready,
    others::nack,
    others::future_in_place,
    others::join inside,
    others::readable inside,
    others::accept_socket inside,
    others::future_on_host inside,
    others::gathered inside,
}
