//! One band after the other.

use super::Picture;

pub(super) fn draw(picture: &Picture) -> Vec<u8> {
    (0..picture.bands()).flat_map(|index| picture.band(index)).collect()
}
