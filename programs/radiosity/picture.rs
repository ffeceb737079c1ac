//! A picture of a solution.

use super::Solution;
use super::quad::Quad;
use super::scene::Scene;
use crate::kit::V3;

/// A picture of a scene, as bytes of a PPM file. Surfaces are as bright as their elements are; colours are shown as screens do.
pub fn picture(scene: &Scene, solution: &Solution, width: usize, height: usize) -> Vec<u8> {
    let camera = &scene.camera;
    let ahead = (camera.to - camera.from).unit();
    let right = ahead.cross(camera.up).unit();
    let up = right.cross(ahead);
    let half = (camera.angle.to_radians() / 2.0).tan();
    let brightest = solution.mean_of_lit(scene) * 4.0;
    let mut bytes = format!("P6\n{width} {height}\n255\n").into_bytes();
    for y in 0..height {
        for x in 0..width {
            let across = (2.0 * (x as f64 + 0.5) - width as f64) / height as f64 * half;
            let down = (2.0 * (y as f64 + 0.5) / height as f64 - 1.0) * half;
            let along = ahead + right * across - up * down;
            let light = match scene.occluders.first(camera.from, along) {
                Some((number, t)) => seen(scene, solution, number, camera.from, along, t),
                None => V3::ZERO,
            };
            let shown = |x: f64| (255.0 * (x / brightest).clamp(0.0, 1.0).powf(1.0 / 2.2)).round() as u8;
            bytes.extend(light.0.map(shown));
        }
    }
    bytes
}

fn seen(scene: &Scene, solution: &Solution, number: usize, from: V3, along: V3, t: f64) -> V3 {
    let quad: &Quad = &scene.quads[number];
    if along.dot(quad.normal()) >= 0.0 {
        // From behind.
        return V3::ZERO;
    }
    let (mut u, mut v) = quad.coordinates(from + along * t);
    let view = &solution.surfaces[number].0;
    let mut at = 0;
    loop {
        match view.shape.elements[at].first as usize {
            0 => return view.light[at],
            first => {
                let quarter = Quad::quarter(u, v);
                at = first + quarter;
                // The corners of quarters go round in the same direction as the corners of the whole.
                let half = |x: f64| if x >= 0.5 { 2.0 * x - 1.0 } else { 2.0 * x };
                (u, v) = (half(u), half(v));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Accuracy, serial};
    use super::*;

    #[test]
    fn the_cornell_box_is_red_to_the_left_and_green_to_the_right() {
        let scene = Scene::cornell();
        let solution = serial::run(&scene, Accuracy::coarse());
        let (width, height) = (40, 40);
        let bytes = picture(&scene, &solution, width, height);
        let pixels = &bytes[bytes.len() - 3 * width * height..];
        assert!(bytes.starts_with(b"P6\n40 40\n255\n"));
        let at = |x: usize, y: usize| &pixels[3 * (y * width + x)..][..3];
        let (left, right) = (at(2, 20), at(37, 20));
        assert!(left[0] > 2 * left[1], "{left:?}");
        assert!(right[1] > right[0], "{right:?}");
        // The light hangs in the middle of the ceiling.
        assert_eq!(at(20, 5), [255, 255, 255], "{:?}", at(20, 5));
    }
}
