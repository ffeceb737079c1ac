//! Reads the backbone of a protein from a file of the Protein Data Bank (format 3.3).

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

/// The most atoms that a file may have.
const MOST: usize = 200_000;
/// No structure is as far from its origin.
const FARTHEST: f64 = 5_000.0;
/// A bond between carbonyl and nitrogen is shorter.
const BONDED: f64 = 2.0;

#[derive(Default)]
struct Parts {
    key: [u8; 6],
    is_proline: bool,
    /// Nitrogen, alpha, carbonyl, oxygen, beta.
    places: [Option<V3>; 5],
    line: usize,
}

/// Reads the first model: each residue that has a whole backbone. Other atoms (side chains beyond their first carbon,
/// hydrogens, waters, hemes) are left out.
///
/// # Errors
/// If a line is too short, a coordinate is no number, or there is no residue.
pub fn read(text: &str) -> Result<Vec<Residue>, PdbError> {
    let mut residues: Vec<Residue> = Vec::new();
    let mut parts = Parts::default();
    for (index, line) in text.lines().enumerate().take(MOST) {
        let error = |why| PdbError { line: index + 1, why };
        if line.starts_with("ENDMDL") {
            break;
        }
        if !line.starts_with("ATOM  ") {
            continue;
        }
        if !line.is_ascii() || line.len() < 54 {
            return Err(error("an atom's line has 54 characters of ASCII at least"));
        }
        let bytes = line.as_bytes();
        // Of places that are known to alternate, the first.
        if !matches!(bytes[16], b' ' | b'A' | b'1') {
            continue;
        }
        let mut key = [0; 6];
        key.copy_from_slice(&bytes[21..27]);
        if key != parts.key {
            finish(&mut residues, &parts);
            parts = Parts { key, is_proline: &line[17..20] == "PRO", places: [None; 5], line: index + 1 };
        }
        let at = match line[12..16].trim() {
            "N" => 0,
            "CA" => 1,
            "C" => 2,
            "O" => 3,
            "CB" => 4,
            _ => continue,
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
    finish(&mut residues, &parts);
    if residues.is_empty() {
        return Err(PdbError { line: 0, why: "there is no residue with a whole backbone" });
    }
    Ok(residues)
}

fn finish(residues: &mut Vec<Residue>, parts: &Parts) {
    let [Some(nitrogen), Some(alpha), Some(carbonyl), Some(oxygen), beta] = parts.places else { return };
    let all = [nitrogen, alpha, carbonyl, oxygen];
    // Atoms on top of each other would fly apart.
    let apart = |one: &V3, other: &V3| (*one - *other).square() > 0.25;
    if parts.line == 0 || !(0..4).all(|at| (0..at).all(|before| apart(&all[at], &all[before]))) {
        return;
    }
    let follows =
        residues.last().is_some_and(|before| (before.carbonyl - nitrogen).square() < BONDED * BONDED);
    residues.push(Residue {
        nitrogen,
        alpha,
        carbonyl,
        oxygen,
        beta: beta.filter(|beta| all.iter().all(|other| apart(beta, other))),
        has_hydrogen: follows && !parts.is_proline,
        follows,
    });
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
        let residues = read(TEXT).unwrap();
        assert_eq!(residues.len(), 2);
        assert_eq!(residues[0].beta, Some(V3::new(1.97, -0.72, -1.24)));
        assert_eq!((residues[0].follows, residues[0].has_hydrogen), (false, false));
        assert_eq!((residues[1].follows, residues[1].has_hydrogen, residues[1].beta), (true, false, None));
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
            if let Ok(residues) = read(&String::from_utf8_lossy(&bytes)) {
                assert!(!residues.is_empty());
                assert!(residues.iter().all(|r| r.alpha.0.iter().all(|x| x.abs() <= FARTHEST)));
            }
        }
    }
}
