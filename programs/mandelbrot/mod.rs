//! A picture of the Mandelbrot set; see the folder's `README.md`.

mod chanter;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size,
    Synchronous, ensure,
};

/// Most iterations of a point.
const LIMIT: u16 = 256;
/// The square of the plane that is shown: its left and lower edges, and its side.
const LEFT: f64 = -2.0;
const LOWER: f64 = -1.25;
const SIDE: f64 = 2.5;
/// The set's area.
const AREA: f64 = 1.5066;

/// How large a picture, and its strips.
#[derive(Clone, Copy, Debug)]
pub struct Picture {
    side: usize,
    strip: usize,
}

impl Picture {
    fn strips(self) -> usize {
        self.side * self.side / self.strip
    }

    /// The iterations of each point of a strip.
    fn strip(self, index: usize) -> Vec<u16> {
        let first = index * self.strip;
        (first..first + self.strip).map(|at| self.point(at / self.side, at % self.side)).collect()
    }

    fn point(self, row: usize, column: usize) -> u16 {
        let step = SIDE / self.side as f64;
        let x = LEFT + (column as f64 + 0.5) * step;
        // Rows are counted from the middle, so that rows of equal distance have the same number, except for the sign.
        let y = (row as f64 + 0.5 - self.side as f64 / 2.0) * step + (LOWER + SIDE / 2.0);
        iterations(x, y)
    }
}

/// How many iterations it takes to leave the circle of radius 2; [`LIMIT`] if that is not enough.
fn iterations(x: f64, y: f64) -> u16 {
    let (mut re, mut im) = (0.0, 0.0);
    let mut count = 0;
    while count < LIMIT {
        let (re2, im2) = (re * re, im * im);
        if re2 + im2 > 4.0 {
            break;
        }
        im = 2.0 * re * im + y;
        re = re2 - im2 + x;
        count += 1;
    }
    count
}

/// The program.
#[derive(Debug)]
pub struct Mandelbrot;

impl Program for Mandelbrot {
    const NAME: &'static str = "mandelbrot";
    const ABOUT: &'static str = "a picture of the Mandelbrot set, a thread for each strip";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
    ];
    type Input = Picture;
    type Answer = Vec<u16>;

    fn input(size: Size) -> Picture {
        match size {
            Size::Quick => Picture { side: 128, strip: 256 },
            Size::Paper | Size::Grain => Picture { side: 1024, strip: 256 },
        }
    }

    fn serial(picture: &Picture) -> Vec<u16> {
        serial::draw(*picture)
    }

    async fn threads(picture: Arc<Picture>, form: Form) -> Done<Vec<u16>> {
        let drawn = match form {
            Form::Synchronous => chanter::draw::<Synchronous>(*picture).await,
            Form::AsynchronousHosts => chanter::draw::<AsynchronousHosts>(*picture).await,
            Form::AsynchronousParasites => chanter::draw::<AsynchronousParasites>(*picture).await,
            _ => chanter::draw::<PaperParasites>(*picture).await,
        };
        Done::new(drawn).communications(picture.strips() as u64)
    }

    fn check(size: Size, picture: &Picture, answer: &Vec<u16>) -> Result<(), Failure> {
        let mirrored: Vec<u16> = answer.chunks(picture.side).rev().flatten().copied().collect();
        ensure("the mirror image", &mirrored, answer)?;
        if size != Size::Quick {
            let inside = answer.iter().filter(|&&count| count == LIMIT).count() as f64;
            let area = inside / answer.len() as f64 * SIDE * SIDE;
            ensure(
                &format!("whether an area of {area} is right"),
                &((area / AREA - 1.0).abs() < 0.02),
                &true,
            )?;
        }
        Ok(())
    }
}
