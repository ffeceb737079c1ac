//! Compiles the shim with the compiler of an MPI, if there is one: `$MPICC`, or `mpicc`. `MPICC=none`: there is none.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_shim)");
    println!("cargo::rerun-if-env-changed=MPICC");
    println!("cargo::rerun-if-changed=shim/chanter_mpi.c");
    let asked = env::var("MPICC").ok().filter(|asked| !asked.is_empty());
    let mpicc = asked.clone().unwrap_or_else(|| "mpicc".to_owned());
    if mpicc == "none" {
        println!("cargo::rustc-env=CHANTER_MPI_MISSING=MPICC={mpicc}");
        return;
    }
    let flags = match link_flags(&mpicc) {
        Ok(flags) => flags,
        // A user who has named a compiler wants that one.
        Err(why) if asked.is_some() => panic!("MPICC={mpicc}: {why}"),
        Err(why) => {
            println!("cargo::rustc-env=CHANTER_MPI_MISSING={mpicc}: {why}");
            return;
        }
    };
    cc::Build::new()
        .compiler(&mpicc)
        .file("shim/chanter_mpi.c")
        .std("c11")
        .warnings(true)
        .compile("chanter_mpi_shim");
    println!("cargo::rustc-cfg=has_shim");
    println!("cargo::rustc-env=CHANTER_MPICC={mpicc}");
    for flag in flags.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo::rustc-link-lib={library}");
        }
    }
    let folders = rpath(&flags);
    for folder in &folders {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
    // Cargo gives the arguments of a linker to this package's programs alone. Others ask for `DEP_CHANTER_MPI_RPATH`.
    println!("cargo::metadata=rpath={}", folders.join(":"));
}

/// The compiler call that `mpicc` would make. All that are known understand `-show`.
fn link_flags(mpicc: &str) -> Result<String, String> {
    let output = Command::new(mpicc).arg("-show").output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("`-show`: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// The folders in which programs look for their libraries: `-Wl,-rpath,F`, `-Wl,-rpath -Wl,F`, `-Wl,-rpath=F`, or
/// `-Xlinker -rpath -Xlinker F`.
fn rpath(flags: &str) -> Vec<&str> {
    let words = flags.split_whitespace().filter(|word| *word != "-Xlinker");
    let mut words = words.flat_map(|word| word.strip_prefix("-Wl,").unwrap_or(word).split(','));
    let mut folders = Vec::new();
    while let Some(word) = words.next() {
        match word.trim_start_matches('-').strip_prefix("rpath") {
            Some("") => folders.extend(words.next()),
            Some(folder) => folders.extend(folder.strip_prefix('=')),
            None => {}
        }
    }
    folders
}
