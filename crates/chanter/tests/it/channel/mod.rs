//! Tests of what threads talk through.

mod asend;
mod barriers;
mod borrowed;
mod calls;
mod closing;
mod kept_receives;
mod many_receives;
mod multicasts;
mod mvars;
mod owned;
mod swaps;
mod watches;
