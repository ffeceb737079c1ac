//! A picture by ray tracing; see the folder's `README.md`.

mod chanter;
mod scene;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, Program, Size, Synchronous, ensure,
};

/// How large a picture, and the rows of each of its bands.
#[derive(Clone, Copy, Debug)]
pub struct Picture {
    side: usize,
    band: usize,
}

impl Picture {
    fn bands(self) -> usize {
        self.side / self.band
    }

    /// The pixels of one band, row by row.
    fn band(self, index: usize) -> Vec<u8> {
        let rows = index * self.band..(index + 1) * self.band;
        rows.flat_map(|row| (0..self.side).map(move |column| scene::pixel(self.side, row, column))).collect()
    }
}

/// The program.
#[derive(Debug)]
pub struct RayTracer;

impl Program for RayTracer {
    const NAME: &'static str = "ray-tracer";
    const ABOUT: &'static str = "a picture of mirroring balls, a thread for each band";
    const FORMS: &'static [Form] =
        &[Form::Serial, Form::Synchronous, Form::AsynchronousHosts, Form::AsynchronousParasites];
    type Input = Picture;
    /// The brightness of each pixel, row by row.
    type Answer = Vec<u8>;

    fn input(size: Size) -> Picture {
        match size {
            Size::Quick => Picture { side: 48, band: 2 },
            Size::Paper => Picture { side: 512, band: 2 },
        }
    }

    fn serial(picture: &Picture) -> Vec<u8> {
        serial::draw(*picture)
    }

    async fn threads(picture: Arc<Picture>, form: Form) -> Done<Vec<u8>> {
        let drawn = match form {
            Form::Synchronous => chanter::draw::<Synchronous>(*picture).await,
            Form::AsynchronousHosts => chanter::draw::<AsynchronousHosts>(*picture).await,
            _ => chanter::draw::<AsynchronousParasites>(*picture).await,
        };
        Done::new(drawn).communications(picture.bands() as u64)
    }

    fn check(_: Size, picture: &Picture, answer: &Vec<u8>) -> Result<(), Failure> {
        let side = picture.side;
        let pixel = |across: f64, down: f64| {
            answer[(down * side as f64) as usize * side + (across * side as f64) as usize]
        };
        ensure("the sky", &answer[..side * side / 8].iter().all(|&pixel| pixel == 179), &true)?;
        // The nearest ball's middle is that of the picture, a little above; the light is upper left.
        let is_lit_from_the_left = pixel(0.44, 0.42) > pixel(0.58, 0.58);
        ensure("whether the light is upper left", &is_lit_from_the_left, &true)
    }
}
