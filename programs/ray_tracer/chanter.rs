//! A thread for each band.

use std::sync::Arc;

use chanter::prelude::*;

use super::Picture;
use crate::kit::Style;

pub(super) async fn draw<S: Style>(picture: &Arc<Picture>) -> Vec<u8> {
    let (tx, rx) = channel();
    for index in 0..picture.bands() {
        let (tx, picture) = (tx.clone(), Arc::clone(picture));
        spawn(async move { S::send(&tx, (index, picture.band(index))).await });
    }
    let mut drawn = vec![0; picture.bytes()];
    for _ in 0..picture.bands() {
        let (index, pixels) = rx.recv().await.expect("each band is sent");
        drawn[index * picture.band_bytes()..][..pixels.len()].copy_from_slice(&pixels);
    }
    drawn
}
