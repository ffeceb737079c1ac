//! Reads the backbone of a protein from a file of the Protein Data Bank (format 3.3).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::kit::V3;

/// Where the atoms of a residue are. (A side chain is its first carbon, and the hydrogens of carbons are parts of them.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residue {
    pub(super) nitrogen: V3,
    pub(super) alpha: V3,
    pub(super) carbonyl: V3,
    pub(super) oxygen: V3,
    /// None in glycine.
    pub(super) beta: Option<V3>,
    /// Whether its nitrogen has a hydrogen: not in proline, nor at a chain's beginning.
    pub(super) has_hydrogen: bool,
    /// Whether it is bonded to the residue before it.
    pub(super) follows: bool,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdbError {
    /// From 1; 0 if it is of the whole file.
    line: usize,
    why: &'static str,
}

impl fmt::Display for PdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(self.why),
            line => write!(f, "line {line}: {}", self.why),
        }
    }
}

impl std::error::Error for PdbError {}

/// The parts of a file that were not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Groups that are no residues of a protein, by their names, and how many of each: waters, hemes.
    pub groups: BTreeMap<String, usize>,
    /// Residues without a whole backbone, in the file's order: name, chain and number.
    pub incomplete: Vec<String>,
    /// Atoms of the residues that were read: of side chains beyond their first carbon, and hydrogens.
    pub atoms: usize,
    /// Other places of atoms whose places are known to alternate.
    pub alternates: usize,
    /// Whether there are models after the first.
    pub has_models: bool,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.atoms > 0 {
            parts.push(format!("{} atoms of side chains", self.atoms));
        }
        if self.alternates > 0 {
            parts.push(format!("{} alternate places", self.alternates));
        }
        parts.extend(self.groups.iter().map(|(name, count)| format!("{count} {name}")));
        if !self.incomplete.is_empty() {
            parts.push(format!("without a whole backbone: {}", self.incomplete.join(" | ")));
        }
        if self.has_models {
            parts.push("models after the first".to_owned());
        }
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// The most lines that a file may have.
const MOST: usize = 200_000;
/// No structure is as far from its origin.
const FARTHEST: f64 = 5_000.0;
/// A bond between carbonyl and nitrogen is shorter.
const BONDED: f64 = 2.0;

/// Chain, number and insertion code of a residue, as a line has them.
type Key = [u8; 6];

const AMINO_ACIDS: [&str; 20] = [
    "ALA", "ARG", "ASN", "ASP", "CYS", "GLN", "GLU", "GLY", "HIS", "ILE", "LEU", "LYS", "MET", "PHE", "PRO",
    "SER", "THR", "TRP", "TYR", "VAL",
];

#[derive(Default)]
struct Parts {
    key: Key,
    name: String,
    is_proline: bool,
    /// Atoms that have no place below.
    others: usize,
    /// Nitrogen, alpha, carbonyl, oxygen, beta.
    places: [Option<V3>; 5],
    /// Of its first atom, from 1; 0 before the first residue.
    line: usize,
}

/// Reads the first model. Returns each residue that has a whole backbone, and counts of the atoms that were left out
/// (side chains beyond their first carbon, hydrogens, waters, hemes).
///
/// A modified residue is read as the one that it stands for, as the file says (`MODRES`). Selenomethionine (`MSE`)
/// stands for methionine, whether the file says so or not.
///
/// # Errors
/// If a line is too short, a coordinate is no number, there are too many lines, or there is no residue.
pub fn read(text: &str) -> Result<(Vec<Residue>, LeftOut), PdbError> {
    let mut residues: Vec<Residue> = Vec::new();
    let mut left_out = LeftOut::default();
    let mut parts = Parts::default();
    let mut modified: HashMap<Key, &str> = HashMap::new();
    let mut group = None;
    let mut lines = text.lines().enumerate();
    for (index, line) in &mut lines {
        let error = |why| PdbError { line: index + 1, why };
        if index >= MOST {
            return Err(error("there are more than 200,000 lines"));
        }
        if line.starts_with("ENDMDL") {
            break;
        }
        if line.starts_with("MODRES") {
            modified.extend(stands_for(line));
        }
        let stands_for = match line.get(..6) {
            Some("ATOM  ") => line.get(17..20),
            Some("HETATM") => {
                let is_known = || {
                    let key = line.as_bytes().get(21..27)?.try_into().ok()?;
                    modified.get::<Key>(&key).copied()
                };
                match line.get(17..20) {
                    Some("MSE") => Some("MET"),
                    _ => is_known(),
                }
            }
            _ => continue,
        };
        if line.starts_with("HETATM") && stands_for.is_none() {
            // The atoms of a group follow each other.
            let this = line.get(17..27);
            if this.is_none() || group != this {
                let name = line.get(17..20).map_or("?", str::trim).to_owned();
                *left_out.groups.entry(name).or_default() += 1;
            }
            group = this;
            continue;
        }
        if !line.is_ascii() || line.len() < 54 {
            return Err(error("an atom's line has 54 characters of ASCII at least"));
        }
        let bytes = line.as_bytes();
        // Of places that are known to alternate, the first.
        if !matches!(bytes[16], b' ' | b'A' | b'1') {
            left_out.alternates += 1;
            continue;
        }
        let mut key = [0; 6];
        key.copy_from_slice(&bytes[21..27]);
        if key != parts.key {
            finish(&mut residues, &mut left_out, &parts);
            let name = line[17..27].trim_end().to_owned();
            let is_proline = stands_for == Some("PRO");
            parts = Parts { key, name, is_proline, others: 0, places: [None; 5], line: index + 1 };
        }
        let at = match line[12..16].trim() {
            "N" => 0,
            "CA" => 1,
            "C" => 2,
            "O" => 3,
            "CB" => 4,
            _ => {
                parts.others += 1;
                continue;
            }
        };
        let mut place = V3::ZERO;
        for axis in 0..3 {
            let field = line[30 + 8 * axis..38 + 8 * axis].trim();
            let number: f64 = field.parse().map_err(|_| error("a coordinate is no number"))?;
            if !number.is_finite() || number.abs() > FARTHEST {
                return Err(error("a coordinate is too far away"));
            }
            place[axis] = number;
        }
        parts.places[at] = Some(place);
    }
    finish(&mut residues, &mut left_out, &parts);
    left_out.has_models = lines.any(|(_, line)| line.starts_with("MODEL"));
    if residues.is_empty() {
        return Err(PdbError { line: 0, why: "there is no residue with a whole backbone" });
    }
    Ok((residues, left_out))
}

/// A modified residue, and the name of the one that it stands for.
fn stands_for(line: &str) -> Option<(Key, &str)> {
    let bytes = line.as_bytes();
    let mut key = [0; 6];
    key[0] = *bytes.get(16)?;
    key[1..].copy_from_slice(bytes.get(18..23)?);
    let name = line.get(24..27)?;
    AMINO_ACIDS.contains(&name).then_some((key, name))
}

fn finish(residues: &mut Vec<Residue>, left_out: &mut LeftOut, parts: &Parts) {
    match residue(residues.last(), parts) {
        Some(residue) => {
            residues.push(residue);
            left_out.atoms += parts.others;
        }
        None if parts.line > 0 => left_out.incomplete.push(parts.name.clone()),
        None => {}
    }
}

fn residue(last: Option<&Residue>, parts: &Parts) -> Option<Residue> {
    let [Some(nitrogen), Some(alpha), Some(carbonyl), Some(oxygen), beta] = parts.places else { return None };
    let all = [nitrogen, alpha, carbonyl, oxygen];
    // Atoms on top of each other would fly apart.
    let apart = |one: &V3, other: &V3| (*one - *other).square() > 0.25;
    if !(0..4).all(|at| (0..at).all(|before| apart(&all[at], &all[before]))) {
        return None;
    }
    let follows = last.is_some_and(|before| (before.carbonyl - nitrogen).square() < BONDED * BONDED);
    Some(Residue {
        nitrogen,
        alpha,
        carbonyl,
        oxygen,
        beta: beta.filter(|beta| all.iter().all(|other| apart(beta, other))),
        has_hydrogen: follows && !parts.is_proline,
        follows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Random;

    /// Two residues, made up, with things to be left out.
    const TEXT: &str = "\
HEADER    MADE UP
ATOM      1  N   ALA A   1       0.000   0.000   0.000  1.00  0.00           N
ATOM      2  CA  ALA A   1       1.449   0.000   0.000  1.00  0.00           C
ATOM      3  C   ALA A   1       1.970   1.430   0.000  1.00  0.00           C
ATOM      4  O   ALA A   1       1.200   2.390   0.000  1.00  0.00           O
ATOM      5  CB AALA A   1       1.970  -0.720  -1.240  1.00  0.00           C
ATOM      6  CB BALA A   1       9.970  -0.720  -1.240  1.00  0.00           C
ATOM      7  N   PRO A   2       3.290   1.560   0.000  1.00  0.00           N
ATOM      8  CA  PRO A   2       3.950   2.850   0.000  1.00  0.00           C
ATOM      9  C   PRO A   2       5.460   2.700   0.000  1.00  0.00           C
ATOM     10  O   PRO A   2       6.000   1.590   0.000  1.00  0.00           O
ATOM     11  CG  PRO A   2       3.950   3.850   1.000  1.00  0.00           C
HETATM   12  O   HOH A   3       9.000   9.000   9.000  1.00  0.00           O
END
";

    #[test]
    fn a_backbone_is_read() {
        let (residues, left_out) = read(TEXT).unwrap();
        assert_eq!(left_out.to_string(), "1 atoms of side chains, 1 alternate places, 1 HOH");
        assert_eq!(residues.len(), 2);
        assert_eq!(residues[0].beta, Some(V3::new(1.97, -0.72, -1.24)));
        assert_eq!((residues[0].follows, residues[0].has_hydrogen), (false, false));
        assert_eq!((residues[1].follows, residues[1].has_hydrogen, residues[1].beta), (true, false, None));
    }

    /// The second residue of the text, modified.
    fn with_modified(name: &str) -> String {
        TEXT.lines()
            .map(|line| match line.strip_prefix("ATOM  ").filter(|line| line.contains("PRO")) {
                Some(rest) => format!("HETATM{}\n", rest.replace("PRO", name)),
                None => format!("{line}\n"),
            })
            .collect()
    }

    #[test]
    fn modified_residues_are_read_as_what_they_stand_for() {
        let proline = "MODRES 9XYZ HYP A    2  PRO  4-HYDROXYPROLINE\n";
        for (text, is_proline) in [
            (with_modified("MSE"), false),
            (format!("{proline}{}", with_modified("HYP")), true),
            (format!("MODRES 9XYZ SEP A    2  SER  PHOSPHOSERINE\n{}", with_modified("SEP")), false),
        ] {
            let (residues, left_out) = read(&text).unwrap();
            assert_eq!(residues.len(), 2, "{text}");
            assert_eq!((residues[1].follows, residues[1].has_hydrogen), (true, !is_proline), "{text}");
            assert_eq!(left_out.groups, BTreeMap::from([("HOH".to_owned(), 1)]), "{text}");
        }
    }

    #[test]
    fn what_is_left_out_is_told() {
        // A modified residue of which nothing is known, one of another place, and one that is no amino acid.
        for text in [
            with_modified("XYZ"),
            format!("MODRES 9XYZ XYZ A    9  SER  SOMETHING\n{}", with_modified("XYZ")),
            format!("MODRES 9XYZ XYZ A    2    G  SOMETHING\n{}", with_modified("XYZ")),
        ] {
            let (residues, left_out) = read(&text).unwrap();
            assert_eq!(residues.len(), 1);
            assert_eq!(left_out.to_string(), "1 alternate places, 1 HOH, 1 XYZ");
        }
        let broken = TEXT.replace("  O   PRO", "  OX  PRO");
        let (residues, left_out) = read(&broken).unwrap();
        assert_eq!((residues.len(), left_out.incomplete), (1, vec!["PRO A   2".to_owned()]));
        let models = format!("MODEL        1\n{}ENDMDL\nMODEL        2\n", TEXT.replace("END\n", ""));
        assert!(read(&models).unwrap().1.has_models);
        assert!(!read(TEXT).unwrap().1.has_models);
        let long = "REMARK\n".repeat(MOST) + TEXT;
        assert!(read(&long).unwrap_err().to_string().contains("200,000"));
    }

    #[test]
    fn errors_name_the_line() {
        let broken = TEXT.replace("3.950   2.850", "3.950   nan! ");
        assert_eq!(read(&broken).unwrap_err().to_string(), "line 9: a coordinate is no number");
        assert!(read("ATOM  short").unwrap_err().to_string().starts_with("line 1"));
        assert!(read("").is_err() && read("END\n").is_err());
        assert!(read(&TEXT.replace("3.950   2.850", "1e300   2.850")).is_err());
    }

    #[test]
    fn whatever_is_read_gives_residues_or_an_error() {
        let mut random = Random::new(21);
        for _ in 0..4_000 {
            let mut bytes = TEXT.as_bytes().to_vec();
            for _ in 0..1 + random.below(12) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b" -.0123456789AEN\n\r"[random.below(18) as usize]),
                }
            }
            if let Ok((residues, _)) = read(&String::from_utf8_lossy(&bytes)) {
                assert!(!residues.is_empty());
                assert!(residues.iter().all(|r| r.alpha.0.iter().all(|x| x.abs() <= FARTHEST)));
            }
        }
    }
}
