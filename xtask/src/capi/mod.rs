//! `cargo xtask capi`: the header of the C interface, held against its library, and the files of an installation.
//!
//! * `check` compares each prototype of `chanter.h` and `chanter_mpi.h` with the Rust function of that name.
//! * `symbols` writes a C file that takes the address of each function of `chanter.h`, for the linker.
//! * `names` lists the functions of `chanter.h`.
//! * `install FOLDER` builds the library, and copies it there with the header, man pages, and the files of pkg-config and
//!   CMake. `--no-library` leaves the library out.

mod header;
mod man;
mod rust;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::forget_xtask;
use header::Prototype;

/// The most functions whose names begin with `chanter_`.
const MOST: usize = 64;
const CRATE: &str = "crates/chanter-capi";
const HEADER: &str = "chanter.h";
/// The headers, and where their functions are.
const HEADERS: [(&str, &str); 2] = [(HEADER, "src"), ("chanter_mpi.h", "mpi/src")];

pub(crate) fn main(root: &Path, args: &[String]) -> Result<(), String> {
    let prototypes = prototypes(root, HEADER)?;
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] | [] => HEADERS.iter().try_for_each(|(header, source)| check(root, header, source)),
        ["names"] => {
            prototypes.iter().for_each(|prototype| println!("{}", prototype.name));
            Ok(())
        }
        ["symbols"] => {
            print!("{}", symbols(&prototypes));
            Ok(())
        }
        ["install", folder] => {
            library(root, Path::new(folder))?;
            install(root, Path::new(folder))
        }
        ["install", folder, "--no-library"] => install(root, Path::new(folder)),
        _ => Err("cargo xtask capi [check | names | symbols | install FOLDER [--no-library]]".to_owned()),
    }
}

fn prototypes(root: &Path, header: &str) -> Result<Vec<Prototype>, String> {
    header::parse(&read(&root.join(CRATE).join("include").join(header))?)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compares a header with the library's source.
fn check(root: &Path, header: &str, source: &str) -> Result<(), String> {
    let prototypes = prototypes(root, header)?;
    let functions = rust::functions(&root.join(CRATE).join(source))?;
    let mut faults = Vec::new();
    for prototype in &prototypes {
        match functions.get(&prototype.name) {
            None => faults.push(format!("{} is declared, and not defined", prototype.name)),
            Some(types) if *types != prototype.types => faults.push(format!(
                "{}: the header has {:?}, and the library {types:?}",
                prototype.name, prototype.types
            )),
            Some(_) => (),
        }
        if prototype.comment.is_empty() {
            faults.push(format!("{} has no comment", prototype.name));
        }
    }
    for name in functions.keys().filter(|name| prototypes.iter().all(|prototype| prototype.name != **name)) {
        faults.push(format!("{name} is defined, and not declared"));
    }
    let count = prototypes.iter().filter(|prototype| prototype.name.starts_with("chanter_")).count();
    if count > MOST {
        faults.push(format!("{count} functions begin with chanter_, and {MOST} may"));
    }
    if faults.is_empty() {
        println!("{header}: {} functions, as in the library; {count} of them chanter_*", prototypes.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// A program that needs every symbol.
fn symbols(prototypes: &[Prototype]) -> String {
    let mut text =
        String::from("#include \"chanter.h\"\n\ntypedef void (*any)(void);\n\nstatic const any all[] = {\n");
    for prototype in prototypes {
        text += &format!("    (any)&{},\n", prototype.name);
    }
    text += "};\n\nint main(void) {\n    size_t at;\n";
    text += "    for (at = 0; at < sizeof all / sizeof *all; at++)\n        if (all[at] == 0) return 1;\n";
    text + "    return (chanter_abi_version() >> 16) != (CHANTER_ABI_VERSION >> 16);\n}\n"
}

/// Builds the library with optimisation, and copies it.
fn library(root: &Path, folder: &Path) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "chanter-capi"]).current_dir(root);
    forget_xtask(&mut cargo);
    if !cargo.status().is_ok_and(|status| status.success()) {
        return Err("the library was not built".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let lib = folder.join("lib");
    let cannot = |path: &Path, error| format!("{}: {error}", path.display());
    fs::create_dir_all(&lib).map_err(|error| cannot(&lib, error))?;
    let built = ["libchanter_c.a", "libchanter_c.so", "libchanter_c.dylib"];
    for from in built.map(|name| target.join("release").join(name)).iter().filter(|from| from.exists()) {
        let to = lib.join(from.file_name().unwrap_or_default());
        fs::copy(from, &to).map_err(|error| cannot(&to, error))?;
    }
    Ok(())
}

fn install(root: &Path, folder: &Path) -> Result<(), String> {
    let version = man::version(&read(&root.join("Cargo.toml"))?)?;
    for (header, _) in HEADERS {
        let prototypes = prototypes(root, header)?;
        for prototype in &prototypes {
            let page = man::page(prototype, header, &version);
            write(&folder.join(format!("share/man/man3/{}.3", prototype.name)), &page)?;
        }
        write(&folder.join("include").join(header), &read(&root.join(CRATE).join("include").join(header))?)?;
        println!("{header}, and {} man pages, in {}", prototypes.len(), folder.display());
    }
    let fill = |template: &str| -> Result<String, String> {
        Ok(read(&root.join(CRATE).join("install").join(template))?.replace("@VERSION@", &version))
    };
    write(&folder.join("lib/pkgconfig/chanter.pc"), &fill("chanter.pc.in")?)?;
    write(&folder.join("lib/cmake/chanter/chanter-config.cmake"), &fill("chanter-config.cmake.in")?)?;
    write(
        &folder.join("lib/cmake/chanter/chanter-config-version.cmake"),
        &fill("chanter-config-version.cmake.in")?,
    )
}
