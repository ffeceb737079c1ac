//! A thread for each band.

use chanter::prelude::*;

use super::Picture;
use crate::kit::Style;

pub(super) async fn draw<S: Style>(picture: Picture) -> Vec<u8> {
    let (tx, rx) = channel();
    for index in 0..picture.bands() {
        let tx = tx.clone();
        spawn(async move { S::send(&tx, (index, picture.band(index))).await });
    }
    let band = picture.band * picture.side;
    let mut drawn = vec![0; picture.side * picture.side];
    for _ in 0..picture.bands() {
        let (index, pixels) = rx.recv().await.expect("each band is sent");
        drawn[index * band..][..band].copy_from_slice(&pixels);
    }
    drawn
}
