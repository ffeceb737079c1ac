//! Draws a scene: `cargo run --release -p chanter-programs --example render -- programs/ray_tracer/scene.toml out.ppm
//! [side]`. The sample explains its words.

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};

use chanter_programs::ray_tracer::{Picture, Scene};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [scene, picture, rest @ ..] = args.as_slice() else {
        println!("render SCENE.toml PICTURE.ppm [SIDE]");
        return Ok(());
    };
    let side = rest.first().map_or(Ok(512), |side| side.parse())?;
    let text = fs::read_to_string(scene).map_err(|error| format!("{scene}: {error}"))?;
    let read: Scene = text.parse().map_err(|error| format!("{scene}, {error}"))?;
    let mut file = BufWriter::new(fs::File::create(picture)?);
    let drawn = chanter::block_on(Picture::new(read, side).draw());
    Picture::write_ppm(side, &drawn, &mut file)?;
    Ok(file.flush()?)
}
