//! A thread for each call.

use std::future::Future;

use chanter::prelude::*;

use super::{Arguments, inner};
use crate::kit::{Style, answer, answers};

/// A call whose own calls are threads that answer over channels.
pub(crate) fn call<S: Style>(arguments: Arguments) -> impl Future<Output = i64> + Send {
    async move {
        let Some([one, two, three]) = inner(arguments) else { return arguments[2] };
        let one = answers::<S, _>(move || call::<S>(one));
        let two = answers::<S, _>(move || call::<S>(two));
        let three = answers::<S, _>(move || call::<S>(three));
        let arguments = [answer(one).await, answer(two).await, answer(three).await];
        answer(answers::<S, _>(move || call::<S>(arguments))).await
    }
}

/// A call whose own calls are delayed threads.
pub(super) fn stolen(arguments: Arguments) -> impl Future<Output = i64> + Send {
    async move {
        let Some(inner) = inner(arguments) else { return arguments[2] };
        let [one, two, three] = inner.map(|arguments| delay(stolen(arguments)));
        let arguments = [value(one).await, value(two).await, value(three).await];
        value(delay(stolen(arguments))).await
    }
}

async fn value(call: Thread<i64>) -> i64 {
    call.await.expect("a call has a value")
}

/// A call that forks its first three.
pub(crate) fn forked(arguments: Arguments) -> i64 {
    let Some([one, two, three]) = inner(arguments) else { return arguments[2] };
    let (one, (two, three)) = fork_join(|| forked(one), || fork_join(|| forked(two), || forked(three)));
    forked([one, two, three])
}
