//! Futures that synchronize can be spawned, whatever lifetimes lie in their events: what is here has only to compile.

use crate::common;

use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::rpc;
use common::{alone, watchdog};

/// The compiler forgets that the text is `'static` when it asks whether the future is `Send`
/// (rust-lang/rust#102211): nothing may depend on it.
#[test]
fn a_choice_over_borrowed_text() {
    watchdog!();
    alone(async {
        let (tx, rx) = channel();
        spawn(tx.into_send("hello"));
        let greeting = spawn(async move {
            let next = choose((rx.recv().wrap(Result::ok), after(Duration::from_secs(600)).wrap(|()| None)));
            next.await
        });
        assert_eq!(greeting.await.unwrap(), Some("hello"));
    });
}

#[test]
fn boxed_events_inside_of_combinators() {
    watchdog!();
    alone(async {
        let thread = spawn(async {
            let a: BoxEvent<'static, u32> = always(1).boxed();
            let b: BoxEvent<'static, u32> = never().boxed();
            gather((a, b)).timeout(Duration::from_millis(1)).await
        });
        assert_eq!(thread.await.unwrap(), None);
        let thread = spawn(async {
            let list: Vec<BoxEvent<'static, &'static str>> = vec![always("one").boxed(), never().boxed()];
            choose(list).await
        });
        assert_eq!(thread.await.unwrap(), "one");
    });
}

#[test]
fn calls_guards_and_nacks_with_text() {
    watchdog!();
    alone(async {
        let (client, server) = rpc::<&'static str, usize>();
        spawn(async move {
            while let Ok((text, reply)) = server.accept().await {
                reply.send(text.len()).await.unwrap();
            }
        });
        let thread = spawn(async move {
            let call = choose((client.call("tea").wrap(|length| ("a call", length.ok())), never()));
            let called = call.await;
            let guarded =
                choose((guard(|| always("from a guard").wrap(Some)), never().wrap(|()| None))).await;
            let nacked = choose((with_nack(|_| always("with a nack")), never())).await;
            (called, guarded, nacked)
        });
        assert_eq!(thread.await.unwrap(), (("a call", Some(3)), Some("from a guard"), "with a nack"));
    });
}
