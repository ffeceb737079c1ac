//! A picture by ray tracing; see the folder's `README.md`.

mod chanter;
mod ray;
mod scene;
mod serial;
mod vector;

use std::io;
use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size,
    Synchronous, ensure,
};
pub use scene::{NoScene, Scene};

/// Rows of each band.
const BAND: usize = 2;

/// A scene, and how large it is drawn.
#[derive(Clone, Debug)]
pub struct Picture {
    scene: Scene,
    side: usize,
}

impl Picture {
    /// A square picture of a scene, with sides of this many pixels.
    pub const fn new(scene: Scene, side: usize) -> Self {
        Self { scene, side }
    }

    /// Draws it by threads, on the machine that this runs on: red, green and blue of each pixel, row by row.
    ///
    /// # Panics
    /// Outside of a machine.
    pub async fn draw(self) -> Vec<u8> {
        chanter::draw::<AsynchronousParasites>(&Arc::new(self)).await
    }

    /// Writes a picture as a PPM file (`P6`).
    ///
    ///  # Errors
    /// The errors of the writer.
    pub fn write_ppm(side: usize, drawn: &[u8], to: &mut impl io::Write) -> io::Result<()> {
        write!(to, "P6\n{side} {side}\n255\n")?;
        to.write_all(drawn)
    }

    fn bands(&self) -> usize {
        self.side.div_ceil(BAND)
    }

    fn bytes(&self) -> usize {
        3 * self.side * self.side
    }

    /// Of a whole band; the last one may have less.
    fn band_bytes(&self) -> usize {
        3 * self.side * BAND
    }

    /// Red, green and blue of the pixels of one band, row by row.
    fn band(&self, index: usize) -> Vec<u8> {
        let rows = index * BAND..((index + 1) * BAND).min(self.side);
        let pixels = rows.flat_map(|row| {
            (0..self.side).map(move |column| ray::pixel(&self.scene, self.side, row, column))
        });
        pixels.flatten().collect()
    }
}

/// The program.
#[derive(Debug)]
pub struct RayTracer;

impl Program for RayTracer {
    const NAME: &'static str = "ray-tracer";
    const ABOUT: &'static str = "a picture of mirroring balls, a thread for each band";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
    ];
    type Input = Picture;
    /// Red, green and blue of each pixel, row by row.
    type Answer = Vec<u8>;

    fn input(size: Size) -> Picture {
        let scene = scene::OURS.parse().expect("the sample is a scene");
        match size {
            Size::Quick => Picture::new(scene, 48),
            Size::Paper | Size::Grain => Picture::new(scene, 512),
        }
    }

    fn serial(picture: &Picture) -> Vec<u8> {
        serial::draw(picture)
    }

    async fn threads(picture: Arc<Picture>, form: Form) -> Done<Vec<u8>> {
        let drawn = match form {
            Form::Synchronous => chanter::draw::<Synchronous>(&picture).await,
            Form::AsynchronousHosts => chanter::draw::<AsynchronousHosts>(&picture).await,
            Form::AsynchronousParasites => chanter::draw::<AsynchronousParasites>(&picture).await,
            _ => chanter::draw::<PaperParasites>(&picture).await,
        };
        Done::new(drawn).communications(picture.bands() as u64)
    }

    fn check(size: Size, picture: &Picture, answer: &Vec<u8>) -> Result<(), Failure> {
        let side = picture.side;
        let pixel = |across: f64, down: f64| {
            let at = (down * side as f64) as usize * side + (across * side as f64) as usize;
            answer[3 * at..][..3].iter().map(|&part| u32::from(part)).sum::<u32>()
        };
        let sky = answer[..3 * side * side / 8].chunks(3).all(|pixel| pixel == ray::bytes(picture.scene.sky));
        ensure("whether the sky is above", &sky, &true)?;
        // The nearest ball's middle is the middle of the picture, a little above; the light is upper left.
        let is_lit_from_the_left = pixel(0.44, 0.42) > pixel(0.58, 0.58);
        ensure("whether the light is upper left", &is_lit_from_the_left, &true)?;
        let known = match size {
            Size::Quick => 0xA2C7_5C81,
            Size::Paper | Size::Grain => 0x6E54_14C0,
        };
        ensure("the checksum of the picture", &checksum(answer), &known)
    }
}

/// Adler's, of 32 bits.
fn checksum(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_adlers() {
        assert_eq!(checksum(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn a_picture_whose_side_is_odd_is_the_serial_one_and_a_ppm_file() {
        let picture = Picture { side: 7, ..RayTracer::input(Size::Quick) };
        let serial = serial::draw(&picture);
        let drawn = ::chanter::block_on(picture.draw());
        assert_eq!(drawn, serial);
        let mut file = Vec::new();
        Picture::write_ppm(7, &drawn, &mut file).unwrap();
        assert_eq!((&file[..11], file.len()), (&b"P6\n7 7\n255\n"[..], 11 + 3 * 7 * 7));
        assert_eq!(file[11..], drawn);
    }

    #[test]
    fn balls_are_seen_in_their_colours() {
        let text = "eye = [0.0, 0.0, -5.0]\nsky = [0.0, 0.0, 0.0]\nmirrored = 0\n\
                    light = { towards = [0.0, 0.0, -1.0], shadow = 0.0 }\n\
                    floor = { colours = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], mirrors = 0.0 }\n\
                    balls = [{ centre = [0.0, 0.0, 0.0], radius = 2.0, colour = [1.0, 0.0, 0.5], mirrors = 0.0 }]\n";
        let drawn = serial::draw(&Picture::new(text.parse().unwrap(), 21));
        let middle = &drawn[3 * (21 * 9 + 10)..][..3];
        // The light comes from the eye: the ball's middle is as bright as its colour.
        assert!(middle[0] > 250 && middle[1] == 0 && middle[2].abs_diff(128) < 3, "{middle:?}");
        assert_eq!(drawn[..3], [0, 0, 0]);
    }
}
