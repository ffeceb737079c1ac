//! Where the examples are.

use std::path::PathBuf;

/// Examples of a package are built with all its tests, and lie beside them.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(example.exists(), "a single test does not build it: cargo build -p chanter-cli --examples");
    example
}
