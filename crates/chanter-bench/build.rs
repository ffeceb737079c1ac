//! Passes on where the MPI that `chanter-mpi` was built with keeps its libraries.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folders = env::var("DEP_CHANTER_MPI_RPATH").unwrap_or_default();
    for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
