//! One strip after the other.

use super::Picture;

pub(super) fn draw(picture: Picture) -> Vec<u16> {
    (0..picture.strips()).flat_map(|index| picture.strip(index)).collect()
}
