//! A tour by divide and conquer; see the folder's `README.md`.

mod chanter;
mod serial;
mod tour;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Random, Size,
    Synchronous, ensure,
};
use tour::{City, length};

/// Most cities of a part that is not divided.
const PART: usize = 8;

/// Most length of a tour, over the expected length of the best.
const LONGER: f64 = 1.5;

/// The program.
#[derive(Debug)]
pub struct Tsp;

impl Program for Tsp {
    const NAME: &'static str = "tsp";
    const ABOUT: &'static str = "a tour through many cities, by divide and conquer";
    const FORMS: &'static [Form] = &Form::WITHOUT_SAME;
    type Input = Vec<City>;
    /// The cities in the order of the tour.
    type Answer = Vec<City>;

    fn input(size: Size) -> Vec<City> {
        let count = match size {
            Size::Quick => 256,
            Size::Paper | Size::Grain => 16_384,
        };
        let mut random = Random::new(1977);
        (0..count).map(|_| City { x: random.unit(), y: random.unit() }).collect()
    }

    fn serial(cities: &Vec<City>) -> Vec<City> {
        serial::tour(cities.clone())
    }

    async fn threads(cities: Arc<Vec<City>>, form: Form) -> Done<Vec<City>> {
        let own = cities.to_vec();
        let tour = match form {
            Form::Synchronous => chanter::tour::<Synchronous>(own).await,
            Form::AsynchronousHosts => chanter::tour::<AsynchronousHosts>(own).await,
            Form::AsynchronousParasites => chanter::tour::<AsynchronousParasites>(own).await,
            Form::PaperParasites => chanter::tour::<PaperParasites>(own).await,
            Form::Stolen => chanter::stolen(own).await,
            _ => return Done::new(chanter::forked(own)),
        };
        Done::new(tour).communications(parts(cities.len()) - 1)
    }

    fn check(_: Size, cities: &Vec<City>, tour: &Vec<City>) -> Result<(), Failure> {
        let sorted = |cities: &[City]| {
            let mut sorted = cities.to_vec();
            sorted.sort_by(City::order);
            sorted
        };
        ensure("the cities of the tour", &sorted(tour), &sorted(cities))?;
        let most = LONGER * 0.7124 * (cities.len() as f64).sqrt();
        let length = length(tour);
        if length <= most {
            return Ok(());
        }
        Err(Failure::Wrong(format!("the tour's length is {length}, more than {most}")))
    }
}

/// How many parts there are, the whole included.
fn parts(cities: usize) -> u64 {
    if cities <= PART { 1 } else { 1 + parts(cities / 2) + parts(cities - cities / 2) }
}
