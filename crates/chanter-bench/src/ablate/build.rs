//! The binaries: the programs as they are, and with one mechanism off each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use indicatif::{ProgressBar, ProgressStyle};

use crate::Stop;
use crate::process::find;

/// The programs, built with a mechanism off, or with none.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    pub(super) off: Option<&'static str>,
    pub(super) path: PathBuf,
}

/// Builds the whole, then one binary for each of `offs`.
pub(super) fn all(offs: &[&'static str]) -> Result<Vec<Binary>, Stop> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = target.join("ablate");
    fs::create_dir_all(&folder)?;
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} builds: {msg}");
    let bar = ProgressBar::new(offs.len() as u64 + 1);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let offs = [None].into_iter().chain(offs.iter().copied().map(Some));
    let binaries = offs.map(|off| {
        bar.set_message(off.unwrap_or("whole"));
        let built = build(&root, &folder, off);
        bar.inc(1);
        built
    });
    let binaries = binaries.collect();
    bar.finish_and_clear();
    binaries
}

/// Builds one. All share a folder, so crates of others are compiled once.
fn build(root: &Path, folder: &Path, off: Option<&'static str>) -> Result<Binary, Stop> {
    let name = off.unwrap_or("whole");
    let mut cargo = Command::new(find("cargo").ok_or_else(|| Stop(1, "there is no cargo".to_owned()))?);
    cargo.current_dir(root).args(["build", "--quiet", "--release", "--package", "chanter-ablate"]);
    cargo.arg("--target-dir").arg(folder);
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    if off.is_some() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", wrapper(folder, name)?);
    }
    if !cargo.status()?.success() {
        return Err(Stop(1, format!("it does not build without {name}")));
    }
    let path = folder.join(name);
    fs::copy(folder.join("release/chanter-ablate"), &path)?;
    Ok(Binary { off, path })
}

/// A compiler that turns `name` off. Flags in `RUSTFLAGS` would have all other crates compiled again each time.
fn wrapper(folder: &Path, name: &str) -> Result<PathBuf, Stop> {
    let path = folder.join(format!("rustc-{name}"));
    let script = format!("#!/bin/sh\nexec \"$@\" --cfg 'chanter_off=\"{name}\"'\n");
    if fs::read(&path).ok().is_none_or(|before| before != script.as_bytes()) {
        fs::write(&path, script)?;
    }
    #[cfg(unix)]
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(path)
}
