//! A thread for each half.

use std::future::Future;

use chanter::prelude::*;

use super::PART;
use super::tour::{City, best, divide, join};
use crate::kit::{Style, answer, answers};

/// The halves are threads that answer over channels.
pub(super) fn tour<S: Style>(cities: Vec<City>) -> impl Future<Output = Vec<City>> + Send {
    async move {
        if cities.len() <= PART {
            return best(&cities);
        }
        let (one, other, line) = divide(cities);
        let one = answers::<S, _>(move || tour::<S>(one));
        let other = answers::<S, _>(move || tour::<S>(other));
        join(&answer(one).await, &answer(other).await, line)
    }
}

/// The halves are delayed threads.
pub(super) fn stolen(cities: Vec<City>) -> impl Future<Output = Vec<City>> + Send {
    async move {
        if cities.len() <= PART {
            return best(&cities);
        }
        let (one, other, line) = divide(cities);
        let (one, other) = (delay(stolen(one)), delay(stolen(other)));
        join(&value(one).await, &value(other).await, line)
    }
}

async fn value(half: Thread<Vec<City>>) -> Vec<City> {
    half.await.expect("a half has a tour")
}

/// The halves are forks.
pub(super) fn forked(cities: Vec<City>) -> Vec<City> {
    if cities.len() <= PART {
        return best(&cities);
    }
    let (one, other, line) = divide(cities);
    let (one, other) = fork_join(|| forked(one), || forked(other));
    join(&one, &other, line)
}
