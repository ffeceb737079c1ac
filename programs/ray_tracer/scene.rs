//! The scene, as a file describes it; `scene.toml` explains its words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error};

use super::vector::{Vector, vector};

/// The scene of the benchmark.
pub(super) const OURS: &str = include_str!("scene.toml");

/// Rays that are mirrored more often than this would end the stack before the picture.
const MOST_MIRRORED: u32 = 64;

/// A scene: its objects, the camera, and the lights.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    #[serde(deserialize_with = "place")]
    pub(super) eye: Vector,
    #[serde(deserialize_with = "colour")]
    pub(super) sky: Vector,
    #[serde(deserialize_with = "mirrored")]
    pub(super) mirrored: u32,
    pub(super) light: Light,
    pub(super) floor: Floor,
    #[serde(default)]
    pub(super) balls: Vec<Ball>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Light {
    /// Of length 1.
    #[serde(deserialize_with = "direction")]
    pub(super) towards: Vector,
    #[serde(deserialize_with = "part")]
    pub(super) shadow: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Floor {
    #[serde(deserialize_with = "colours")]
    pub(super) colours: [Vector; 2],
    #[serde(deserialize_with = "part")]
    pub(super) mirrors: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ball {
    #[serde(deserialize_with = "place")]
    pub(super) centre: Vector,
    #[serde(deserialize_with = "length")]
    pub(super) radius: f64,
    #[serde(deserialize_with = "colour")]
    pub(super) colour: Vector,
    #[serde(deserialize_with = "part")]
    pub(super) mirrors: f64,
}

/// Why a text is no scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoScene {
    /// Line, counted from 1, of the wrong part, or of the begin of a part that lacks something.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl fmt::Display for NoScene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for NoScene {}

impl FromStr for Scene {
    type Err = NoScene;

    /// Reads a scene in TOML, in the words of `scene.toml`.
    ///
    /// # Errors
    /// [`NoScene`]: the text is not TOML; a word is missing, unknown or twice there; or a number is not one that its
    /// word can have.
    fn from_str(text: &str) -> Result<Self, NoScene> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count();
            NoScene { line, what: error.message().to_owned() }
        })
    }
}

/// A value that passes a check.
fn checked<'de, D: Deserializer<'de>, T: Deserialize<'de> + fmt::Debug>(
    from: D,
    is_right: impl Fn(&T) -> bool,
    want: &str,
) -> Result<T, D::Error> {
    let value = T::deserialize(from)?;
    if is_right(&value) { Ok(value) } else { Err(D::Error::custom(format!("{value:?} is not {want}"))) }
}

fn is_finite(numbers: &[f64; 3]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}

fn is_colour(parts: &[f64; 3]) -> bool {
    parts.iter().all(is_part)
}

fn is_part(number: &f64) -> bool {
    (0.0..=1.0).contains(number)
}

fn as_vector([x, y, z]: [f64; 3]) -> Vector {
    vector(x, y, z)
}

fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Vector, D::Error> {
    checked(from, is_finite, "a place").map(as_vector)
}

fn direction<'de, D: Deserializer<'de>>(from: D) -> Result<Vector, D::Error> {
    let goes_somewhere = |to: &[f64; 3]| {
        let length = as_vector(*to).dot(as_vector(*to));
        length.is_normal()
    };
    checked(from, goes_somewhere, "a direction").map(|to| as_vector(to).unit())
}

fn colour<'de, D: Deserializer<'de>>(from: D) -> Result<Vector, D::Error> {
    checked(from, is_colour, "a colour, of parts from 0 to 1").map(as_vector)
}

fn colours<'de, D: Deserializer<'de>>(from: D) -> Result<[Vector; 2], D::Error> {
    let are_colours = |colours: &[[f64; 3]; 2]| colours.iter().all(is_colour);
    checked(from, are_colours, "two colours, of parts from 0 to 1").map(|colours| colours.map(as_vector))
}

fn part<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    checked(from, is_part, "a part, from 0 to 1")
}

fn length<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    checked(from, |length: &f64| length.is_finite() && *length > 0.0, "a length, more than 0")
}

fn mirrored<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    checked(from, |times| *times <= MOST_MIRRORED, "at most 64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_a_scene() {
        let scene: Scene = OURS.parse().unwrap();
        assert_eq!((scene.balls.len(), scene.mirrored), (7, 4));
        assert!((scene.light.towards.dot(scene.light.towards) - 1.0).abs() < 1e-12);
    }

    /// Each case changes the sample at one place, and the error names its line and the fault.
    #[test]
    fn what_is_wrong_is_found_with_its_line() {
        for (right, wrong, want) in [
            ("radius = 0.7", "radius = -0.7", "a length, more than 0"),
            ("radius = 0.7", "radius = nan", "a length, more than 0"),
            ("shadow = 0.12", "shadow = 1.2", "a part, from 0 to 1"),
            ("sky = [0.5, 0.7, 0.9]", "sky = [0.5, 0.7, 9.0]", "a colour"),
            ("colours = [[0.9", "colours = [[-0.9", "two colours"),
            ("eye = [0.0, 1.4, 0.0]", "eye = [0.0, inf, 0.0]", "a place"),
            ("eye = [0.0, 1.4, 0.0]", "eye = [0.0, 1.4]", ""),
            ("towards = [-1.0, 1.6, -1.0]", "towards = [0.0, 0.0, 0.0]", "a direction"),
            ("mirrored = 4", "mirrored = 65", "at most 64"),
            ("mirrored = 4", "mirrored = -4", ""),
            ("mirrors = 0.6", "mirors = 0.6", "mirors"),
            ("radius = 1.4", "radius 1.4", ""),
            ("radius = 1.4", "radius = \"wide\"", ""),
        ] {
            let at = OURS.find(right).unwrap_or_else(|| panic!("{right}"));
            let text = OURS.replacen(right, wrong, 1);
            let line = 1 + OURS[..at].matches('\n').count();
            let error = text.parse::<Scene>().expect_err(wrong);
            assert_eq!(error.line, line, "{wrong}: {error}");
            assert!(error.what.contains(want) && !error.what.is_empty(), "{wrong}: {error}");
            assert!(error.to_string().starts_with(&format!("line {line}: ")), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = OURS.replacen("eye = [0.0, 1.4, 0.0]", "", 1).parse::<Scene>().unwrap_err();
        assert!(error.what.contains("eye"), "{error}");
        let error = "".parse::<Scene>().unwrap_err();
        assert_eq!(error.line, 1);
    }
}
