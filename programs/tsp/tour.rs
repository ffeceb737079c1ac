//! Cities, and operations on tours.

use std::cmp::Ordering;

/// A place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct City {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl City {
    fn distance(&self, other: &Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.x.total_cmp(&other.x).then(self.y.total_cmp(&other.y))
    }
}

/// Back to the first city, too.
pub(super) fn length(tour: &[City]) -> f64 {
    let next = tour.iter().cycle().skip(1);
    tour.iter().zip(next).map(|(city, next)| city.distance(next)).sum()
}

/// A line between two halves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    is_vertical: bool,
    at: f64,
}

impl Line {
    fn distance(&self, city: &City) -> f64 {
        (if self.is_vertical { city.x } else { city.y } - self.at).abs()
    }
}

/// Divides the cities by a line across the longer side of the rectangle that they lie in.
pub(super) fn divide(mut cities: Vec<City>) -> (Vec<City>, Vec<City>, Line) {
    let side = |of: fn(&City) -> f64| {
        let (least, most) = cities
            .iter()
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| (least.min(at), most.max(at)));
        most - least
    };
    let is_vertical = side(|city| city.x) >= side(|city| city.y);
    let at = |city: &City| if is_vertical { city.x } else { city.y };
    let middle = cities.len() / 2;
    cities.select_nth_unstable_by(middle, |one, other| {
        at(one).total_cmp(&at(other)).then_with(|| one.order(other))
    });
    let right = cities.split_off(middle);
    let line = Line { is_vertical, at: at(&right[0]) };
    (cities, right, line)
}

/// The best order of a few cities.
pub(super) fn best(cities: &[City]) -> Vec<City> {
    let mut order = cities.to_vec();
    // Whatever the division has left, the result depends on the cities alone.
    order.sort_by(City::order);
    let mut found = (length(&order), order.clone());
    permute(&mut order, 1, 0.0, &mut found);
    found.1
}

/// Tries all orders of the cities behind `fixed`. A way that is already too long is not followed to its end.
fn permute(order: &mut [City], fixed: usize, way: f64, found: &mut (f64, Vec<City>)) {
    if way >= found.0 {
        return;
    }
    if fixed == order.len() {
        let whole = way + order[fixed - 1].distance(&order[0]);
        if whole < found.0 {
            *found = (whole, order.to_vec());
        }
        return;
    }
    for next in fixed..order.len() {
        order.swap(fixed, next);
        let step = order[fixed - 1].distance(&order[fixed]);
        permute(order, fixed + 1, way + step, found);
        order.swap(fixed, next);
    }
}

/// Cities of each half whose edges are tried.
const CANDIDATES: usize = 24;

/// Joins the tours on both sides of a line: takes an edge of each away, and goes over at its ends.
pub(super) fn join(one: &[City], other: &[City], line: Line) -> Vec<City> {
    let mut cheapest: Option<(f64, usize, usize, bool)> = None;
    for i in nearest(one, line) {
        for j in nearest(other, line) {
            let (a, b) = (&one[i], &one[(i + 1) % one.len()]);
            let (c, d) = (&other[j], &other[(j + 1) % other.len()]);
            let saved = a.distance(b) + c.distance(d);
            let straight = a.distance(d) + b.distance(c) - saved;
            let turned = a.distance(c) + b.distance(d) - saved;
            for (cost, is_turned) in [(straight, false), (turned, true)] {
                if cheapest.is_none_or(|(least, ..)| cost < least) {
                    cheapest = Some((cost, i, j, is_turned));
                }
            }
        }
    }
    let Some((_, i, j, is_turned)) = cheapest else { return [one, other].concat() };
    let mut tour = Vec::with_capacity(one.len() + other.len());
    tour.extend_from_slice(&one[..=i]);
    if is_turned {
        // a goes to c, and back through the other tour to d, then to b.
        tour.extend(other[..=j].iter().rev());
        tour.extend(other[j + 1..].iter().rev());
    } else {
        tour.extend_from_slice(&other[j + 1..]);
        tour.extend_from_slice(&other[..=j]);
    }
    tour.extend_from_slice(&one[i + 1..]);
    tour
}

/// Where the cities nearest to the line stand in the tour.
fn nearest(tour: &[City], line: Line) -> Vec<usize> {
    let mut places: Vec<usize> = (0..tour.len()).collect();
    let by_distance = |one: &usize, other: &usize| {
        line.distance(&tour[*one]).total_cmp(&line.distance(&tour[*other])).then(one.cmp(other))
    };
    if places.len() > CANDIDATES {
        places.select_nth_unstable_by(CANDIDATES, by_distance);
        places.truncate(CANDIDATES);
    }
    places.sort_by(by_distance);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn city(x: f64, y: f64) -> City {
        City { x, y }
    }

    #[test]
    fn a_few_cities_are_toured_in_the_best_order() {
        let circle: Vec<_> = [3, 1, 4, 0, 5, 2, 7, 6]
            .map(|n| f64::from(n) * std::f64::consts::TAU / 8.0)
            .map(|angle| city(angle.cos(), angle.sin()))
            .to_vec();
        let around = 8.0 * 2.0 * (std::f64::consts::PI / 8.0).sin();
        assert!((length(&best(&circle)) - around).abs() < 1e-9);
    }

    #[test]
    fn squares_are_joined_into_a_rectangle() {
        let square = |x: f64| [city(x, 0.0), city(x + 1.0, 0.0), city(x + 1.0, 1.0), city(x, 1.0)];
        let line = Line { is_vertical: true, at: 1.5 };
        let mut turned = square(2.0);
        for other in [square(2.0), {
            turned.reverse();
            turned
        }] {
            let tour = join(&square(0.0), &other, line);
            assert!((length(&tour) - 8.0).abs() < 1e-9, "{tour:?}");
        }
    }
}
