//! A driver that replays the corpora and mutates them.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use fastrand::Rng;

type Seeds = Vec<(&'static str, Vec<u8>)>;

/// Longest input, in bytes.
const LONGEST: usize = 4096;
/// Words at which limits are often wrong.
const EDGES: [u32; 8] = [0, 1, 47, 48, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

fn corpus(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "corpus", target].iter().collect()
}

/// Replays all inputs of a corpus, in the order of their names, and returns them. Checks that inputs made by hand are
/// as they were made.
fn replay(name: &str, target: fn(&[u8]), seeds: Seeds) -> Vec<Vec<u8>> {
    let folder = corpus(name);
    if std::env::var_os("CORPUS").is_some_and(|set| set == "overwrite") {
        fs::create_dir_all(&folder).unwrap();
        for (seed, bytes) in &seeds {
            fs::write(folder.join(seed), bytes).unwrap();
        }
    }
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: BTreeMap<String, Vec<u8>> = files
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect();
    for (seed, bytes) in seeds {
        assert_eq!(files.get(seed), Some(&bytes), "corpus/{name}/{seed}: CORPUS=overwrite writes it again");
    }
    files.iter().for_each(|(file, bytes)| check(&format!("{name}, file {file}"), target, bytes));
    files.into_values().collect()
}

/// Tries the corpus of a target, and inputs like those in it: `CHANTER_FUZZ` of them, or `most` by default.
pub(super) fn fuzz(name: &str, target: fn(&[u8]), seeds: Seeds, most: u32) {
    let number = |variable, default| {
        std::env::var(variable).map_or(default, |set| set.parse().expect("the variable is a number"))
    };
    let (inputs, seed) = (number("CHANTER_FUZZ", most.into()), number("CHANTER_FUZZ_SEED", 1));
    let corpus = replay(name, target, seeds);
    let mut random = Rng::with_seed(seed);
    for number in 0..inputs {
        let mut input = corpus[random.usize(..corpus.len())].clone();
        for _ in 0..=random.u32(..6) {
            mutate(&mut input, &corpus, &mut random);
        }
        check(&format!("{name}, input {number} of seed {seed}"), target, &input);
    }
}

fn check(what: &str, target: fn(&[u8]), bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{what}: {hex}");
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Rng) {
    let at = random.usize(..=input.len());
    let end = at + random.usize(..=(input.len() - at).min(64));
    match random.u32(..9) {
        0 if at < input.len() => input[at] ^= 1 << random.u32(..8),
        1 if at < input.len() => input[at] = random.u8(..),
        2 if at < input.len() => input[at] = input[at].wrapping_add(random.u8(..5)).wrapping_sub(2),
        3 => drop(input.drain(at..end)),
        4 => {
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        5 => {
            let other = &corpus[random.usize(..corpus.len())];
            let (from, to) = (random.usize(..=other.len()), random.usize(..=other.len()));
            input.splice(at..end, other[from.min(to)..from.max(to)].iter().copied());
        }
        6 => {
            let edge = EDGES[random.usize(..EDGES.len())].to_le_bytes();
            let bytes = edge.len().min(input.len() - at);
            input[at..at + bytes].copy_from_slice(&edge[..bytes]);
        }
        7 => input.truncate(at),
        _ => input.insert(at, random.u8(..)),
    }
    input.truncate(LONGEST);
}
