//! One half after the other.

use super::PART;
use super::tour::{City, best, divide, join};

pub(super) fn tour(cities: Vec<City>) -> Vec<City> {
    if cities.len() <= PART {
        return best(&cities);
    }
    let (one, other, line) = divide(cities);
    join(&tour(one), &tour(other), line)
}
