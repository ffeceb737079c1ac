//! Calls.

use super::{Arguments, inner};

#[inline(never)]
pub(super) fn tak(arguments: Arguments) -> i64 {
    match inner(arguments) {
        None => arguments[2],
        Some(inner) => tak(inner.map(tak)),
    }
}

/// The value, and how many calls it takes.
pub(super) fn counted(arguments: Arguments) -> (i64, u64) {
    let Some(inner) = inner(arguments) else { return (arguments[2], 1) };
    let three = inner.map(counted);
    let (value, calls) = counted(three.map(|(value, _)| value));
    (value, 1 + calls + three.iter().map(|(_, calls)| calls).sum::<u64>())
}
