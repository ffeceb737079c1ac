//! Scenes: the Cornell box, rooms that are made up, and files.

use serde::Deserialize;

use super::quad::{Occluders, Quad};
use crate::kit::{Random, V3};

/// A diffuse surface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    /// Red, green, blue.
    pub(super) reflectance: V3,
    pub(super) emission: V3,
}

/// From where a picture is taken.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Camera {
    pub(super) from: V3,
    pub(super) to: V3,
    pub(super) up: V3,
    /// Its field of view from top to bottom, in degrees.
    pub(super) angle: f64,
}

/// Surfaces, and a camera.
#[derive(Debug)]
pub struct Scene {
    pub(super) quads: Vec<Quad>,
    pub(super) paints: Vec<Paint>,
    pub(super) camera: Camera,
    pub(super) occluders: Occluders,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    camera: Camera,
    surface: Vec<Surface>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Surface {
    corners: [V3; 4],
    reflectance: V3,
    #[serde(default)]
    emission: V3,
}

/// The Cornell box (Goral, Torrance, Greenberg, Battaile 1984), with the measured corners that Cornell has published.
const CORNELL: &str = include_str!("cornell.toml");

/// The most surfaces of a scene: each is linked to each.
const MOST: usize = 20_000;
const FARTHEST: f64 = 1e6;

impl Scene {
    /// The Cornell box.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn cornell() -> Self {
        Self::read(CORNELL).expect("the file of the Cornell box is right")
    }

    /// Reads a scene (TOML; see `cornell.toml`).
    ///
    /// # Errors
    /// The fault, and its surface.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.surface.is_empty() || file.surface.len() > MOST {
            return Err(format!("{} surfaces: there are from 1 to {MOST}", file.surface.len()));
        }
        check_camera(&file.camera)?;
        let mut surfaces = Vec::with_capacity(file.surface.len());
        for (number, surface) in file.surface.into_iter().enumerate() {
            let checked = check(&surface).map_err(|why| format!("surface {}: {why}", number + 1))?;
            surfaces.push((checked, Paint { reflectance: surface.reflectance, emission: surface.emission }));
        }
        Ok(Self::new(surfaces, file.camera))
    }

    fn new(surfaces: Vec<(Quad, Paint)>, camera: Camera) -> Self {
        let (quads, paints): (Vec<_>, Vec<_>) = surfaces.into_iter().unzip();
        let occluders = Occluders::new(quads.iter().copied());
        Self { quads, paints, camera, occluders }
    }

    /// A closed room with a number of boxes on its floor, and lights below its ceiling.
    pub fn room(boxes: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let grid = (boxes as f64).sqrt().ceil().max(1.0) as usize;
        let (edge, height) = (2.0 * grid as f64 + 2.0, 4.0);
        let mut surfaces = Vec::new();
        let white = V3::new(0.73, 0.71, 0.68);
        let walls = [white, V3::new(0.63, 0.065, 0.05), white, V3::new(0.14, 0.45, 0.091), white, white];
        let room = faces(V3::ZERO, V3::new(edge, 0.0, 0.0), V3::new(0.0, edge, 0.0), height, true);
        surfaces.extend(room.into_iter().zip(walls).map(|(quad, colour)| (quad, colour, V3::ZERO)));
        let lights = grid.div_ceil(4).max(1);
        for at in 0..lights * lights {
            let step = edge / lights as f64;
            let corner = V3::new((at % lights) as f64 * step, (at / lights) as f64 * step, height - 1e-3);
            let (from, size) = (corner + V3::new(0.35, 0.35, 0.0) * step, step * 0.3);
            let corners = [
                from,
                from + V3::new(0.0, size, 0.0),
                from + V3::new(size, size, 0.0),
                from + V3::new(size, 0.0, 0.0),
            ];
            surfaces.push((Quad { corners }, V3::ZERO, V3::new(17.0, 12.0, 4.0)));
        }
        for at in 0..boxes {
            let mut between = |low: f64, high: f64| low + (high - low) * random.unit();
            let middle = V3::new(2.0 * (at % grid) as f64 + 2.0, 2.0 * (at / grid) as f64 + 2.0, 0.0);
            let (width, depth, tall) = (between(0.5, 1.2), between(0.5, 1.2), between(0.3, 2.4));
            let (sin, cos) = between(0.0, 1.5).sin_cos();
            let (along, aside) = (V3::new(cos, sin, 0.0) * width, V3::new(-sin, cos, 0.0) * depth);
            let colour = V3::new(between(0.2, 0.8), between(0.2, 0.8), between(0.2, 0.8));
            let corner = middle - (along + aside) * 0.5;
            // Not the side on which it stands.
            let sides = faces(corner, along, aside, tall, false).into_iter().take(5);
            surfaces.extend(sides.map(|quad| (quad, colour, V3::ZERO)));
        }
        let surfaces = surfaces
            .into_iter()
            .map(|(quad, reflectance, emission)| (quad, Paint { reflectance, emission }))
            .collect();
        let camera = Camera {
            from: V3::new(0.3, 0.3, height * 0.85),
            to: V3::new(edge * 0.7, edge * 0.7, 0.4),
            up: V3::new(0.0, 0.0, 1.0),
            angle: 70.0,
        };
        Self::new(surfaces, camera)
    }

    /// How many surfaces.
    pub fn surfaces(&self) -> usize {
        self.quads.len()
    }

    /// Light of all lights, of the strongest colour.
    pub(super) fn power(&self) -> f64 {
        let sum = self.emitted();
        sum[0].max(sum[1]).max(sum[2])
    }

    pub(super) fn emitted(&self) -> V3 {
        std::iter::zip(&self.quads, &self.paints)
            .fold(V3::ZERO, |sum, (quad, paint)| sum + paint.emission * quad.area())
    }
}

/// The faces of a box: four walls, the top, the bottom; outwards, or inwards.
fn faces(corner: V3, along: V3, aside: V3, height: f64, inwards: bool) -> [Quad; 6] {
    let up = V3::new(0.0, 0.0, height);
    let low = [corner, corner + along, corner + along + aside, corner + aside];
    let high = low.map(|corner| corner + up);
    let wall = |a: usize, b: usize| [low[a], low[b], high[b], high[a]];
    let mut all = [wall(0, 1), wall(1, 2), wall(2, 3), wall(3, 0), high, [low[0], low[3], low[2], low[1]]];
    if inwards {
        all.iter_mut().for_each(|corners| corners.reverse());
    }
    all.map(|corners| Quad { corners })
}

fn are_finite(places: &[V3]) -> bool {
    places.iter().all(|place| place.0.iter().all(|x| x.abs() <= FARTHEST))
}

fn check_camera(camera: &Camera) -> Result<(), String> {
    let along = camera.to - camera.from;
    let fine = are_finite(&[camera.from, camera.to, camera.up])
        && along.cross(camera.up).square() > 0.0
        && camera.angle > 0.0
        && camera.angle < 180.0;
    if fine { Ok(()) } else { Err("the camera looks nowhere".to_owned()) }
}

fn check(surface: &Surface) -> Result<Quad, &'static str> {
    let quad = Quad { corners: surface.corners };
    if !are_finite(&quad.corners) {
        return Err("a corner is too far away");
    }
    let area = quad.area();
    if area.is_nan() || area < 1e-9 {
        return Err("it has no area");
    }
    let normal = quad.normal();
    let (from, most) = (quad.corners[0], 0.02 * area.sqrt());
    if quad.corners.iter().any(|corner| (*corner - from).dot(normal).abs() > most) {
        return Err("its corners are not in a plane");
    }
    let turns = |at: usize| {
        let [a, b, c] = [0, 1, 2].map(|next| quad.corners[(at + next) % 4]);
        (b - a).cross(c - b).dot(normal) > 0.0
    };
    if !(0..4).all(turns) {
        return Err("it is not convex");
    }
    let within = |colour: V3, most: f64| colour.0.iter().all(|x| (0.0..=most).contains(x));
    if !within(surface.reflectance, 0.99) {
        return Err("its reflectance is not from 0 to 0.99");
    }
    if !within(surface.emission, FARTHEST) {
        return Err("its emission is negative, or too strong");
    }
    Ok(quad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cornell_box_is_read() {
        let scene = Scene::cornell();
        assert_eq!(scene.surfaces(), 16);
        assert!(scene.power() > 0.0);
    }

    #[test]
    fn rooms_look_inwards_and_boxes_outwards() {
        let scene = Scene::room(7, 1);
        assert_eq!(scene.surfaces(), 6 + 1 + 7 * 5);
        let middle = V3::new(4.0, 4.0, 2.0);
        for (number, quad) in scene.quads[..7].iter().enumerate() {
            assert!((middle - quad.point(0.5, 0.5)).dot(quad.normal()) > 0.0, "wall {number}");
        }
        // The walls of a box look away from its middle.
        let side = scene.quads[7..12].iter().map(|quad| quad.point(0.5, 0.5));
        let centre = side.clone().fold(V3::ZERO, |sum, place| sum + place) * 0.2;
        for (quad, place) in scene.quads[7..12].iter().zip(side) {
            assert!((place - centre).dot(quad.normal()) > 0.0);
        }
    }

    #[test]
    fn errors_say_which_surface() {
        let broken = CORNELL.replacen("552.8, 0.0, 0.0", "552.8, 900.0, 0.0", 1);
        assert!(
            Scene::read(&broken).unwrap_err().starts_with("surface 1"),
            "{:?}",
            Scene::read(&broken).err()
        );
        assert!(Scene::read("").is_err());
        assert!(Scene::read(&CORNELL.replacen("0.73", "1.5", 1)).is_err());
        assert!(Scene::read(&CORNELL.replacen("552.8", "nan", 1)).is_err());
    }

    #[test]
    fn whatever_is_read_is_a_scene_or_an_error() {
        let mut random = Random::new(84);
        let mut scenes = 0;
        for _ in 0..1_500 {
            let mut bytes = CORNELL.as_bytes().to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = b"0123456789.-e[],=\n"[random.below(18) as usize],
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, random.below(128) as u8),
                }
            }
            if let Ok(scene) = Scene::read(&String::from_utf8_lossy(&bytes)) {
                scenes += 1;
                assert!(scene.quads.iter().all(|quad| quad.area().is_finite() && quad.area() > 0.0));
                assert!(scene.power().is_finite());
            }
        }
        assert!(scenes > 0, "some changes do no harm");
    }
}
