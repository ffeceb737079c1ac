//! A thread for each strip.

use chanter::prelude::*;

use super::Picture;
use crate::kit::Style;

pub(super) async fn draw<S: Style>(picture: Picture) -> Vec<u16> {
    let (tx, rx) = channel();
    for index in 0..picture.strips() {
        let tx = tx.clone();
        spawn(async move { S::send(&tx, (index, picture.strip(index))).await });
    }
    let mut drawn = vec![0; picture.side * picture.side];
    for _ in 0..picture.strips() {
        let (index, strip) = rx.recv().await.expect("each strip is sent");
        drawn[index * picture.strip..][..picture.strip].copy_from_slice(&strip);
    }
    drawn
}
