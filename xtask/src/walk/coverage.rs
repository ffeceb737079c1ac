//! Reads the output of `-Cinstrument-coverage`: the map of the code in the program, and the counts in a profile.
//!
//! The formats are LLVM's: its documents "Coverage Mapping Format" and "Instrumentation Profile Format" describe
//! them. Both have versions, and a version that is not known here is an error.

use super::md5;
use std::collections::HashMap;

/// A function: the place where its code begins, and how its entries are counted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: u64,
    pub(crate) hash: u64,
    pub(crate) file: String,
    pub(crate) line: usize,
    entry: Counter,
    expressions: Vec<(Counter, Counter)>,
}

/// A count: nothing, a counter, or a sum or difference of two counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Zero,
    Of(usize),
    Difference(usize),
    Sum(usize),
}

impl Counter {
    fn decode(value: u64) -> Self {
        let index = (value >> 2) as usize;
        match value & 3 {
            0 => Counter::Zero,
            1 => Counter::Of(index),
            2 => Counter::Difference(index),
            _ => Counter::Sum(index),
        }
    }
}

impl Function {
    /// How often the function was entered.
    pub(crate) fn entries(&self, counts: &[u64]) -> u64 {
        self.value(self.entry, counts, 0).max(0).cast_unsigned()
    }

    fn value(&self, counter: Counter, counts: &[u64], depth: usize) -> i64 {
        let of = |index: usize| {
            // A circle is no map of ours; it counts as nothing.
            let (left, right) = self.expressions.get(index).copied().filter(|_| depth < 500)?;
            Some((self.value(left, counts, depth + 1), self.value(right, counts, depth + 1)))
        };
        match counter {
            Counter::Zero => 0,
            Counter::Of(index) => counts.get(index).map_or(0, |count| count.cast_signed()),
            Counter::Difference(index) => of(index).map_or(0, |(left, right)| left - right),
            Counter::Sum(index) => of(index).map_or(0, |(left, right)| left + right),
        }
    }
}

/// Bytes, read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("the data ends early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("two bytes")))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn size(&mut self) -> Result<usize, String> {
        usize::try_from(self.u64()?).map_err(|_| "a size is too large".to_owned())
    }

    /// A number of variable length, seven bits a byte.
    fn leb(&mut self) -> Result<u64, String> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(shift).ok_or("a number is too long")?;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    fn leb_size(&mut self) -> Result<usize, String> {
        usize::try_from(self.leb()?).map_err(|_| "a size is too large".to_owned())
    }
}

/// The section `wanted` of a program for 64-bit Linux.
fn section<'a>(program: &'a [u8], wanted: &str) -> Result<&'a [u8], String> {
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return Err("the program is no ELF file of 64 bits, little-endian".to_owned());
    }
    let at = |offset: usize| Reader(program.get(offset..).unwrap_or_default());
    let table = at(0x28).size()?;
    let mut counts = at(0x3a);
    let (size, count, names) = (counts.u16()?, counts.u16()?, counts.u16()?);
    let header = |index: u16| {
        let mut reader = at(table + usize::from(index) * usize::from(size));
        let name = reader.u32()? as usize;
        reader.take(20)?;
        Ok::<_, String>((name, reader.size()?, reader.size()?))
    };
    let (_, strings, _) = header(names)?;
    for index in 0..count {
        let (name, offset, length) = header(index)?;
        let text = at(strings + name).0;
        if text.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)) {
            return at(offset).take(length);
        }
    }
    Err(format!("the program has no section {wanted}; was it built with -Cinstrument-coverage?"))
}

/// The functions of `program`.
pub(crate) fn functions(program: &[u8]) -> Result<Vec<Function>, String> {
    let files = files(section(program, "__llvm_covmap")?)?;
    let records = section(program, "__llvm_covfun")?;
    let mut found = Vec::new();
    let mut reader = Reader(records);
    while reader.0.len() >= 28 {
        let name = reader.u64()?;
        let length = reader.u32()? as usize;
        let (hash, list) = (reader.u64()?, reader.u64()?);
        let data = reader.take(length)?;
        let files = files.get(&list).ok_or("a function names files that are not there")?;
        found.extend(function(name, hash, files, data)?);
        aligned(&mut reader, records)?;
    }
    Ok(found)
}

/// Records begin at multiples of eight bytes.
fn aligned(reader: &mut Reader, whole: &[u8]) -> Result<(), String> {
    let odd = (whole.len() - reader.0.len()) % 8;
    if odd != 0 {
        reader.take((8 - odd).min(reader.0.len()))?;
    }
    Ok(())
}

/// The lists of files, by the digests that functions name them by.
fn files(map: &[u8]) -> Result<HashMap<u64, Vec<String>>, String> {
    let mut lists = HashMap::new();
    let mut reader = Reader(map);
    while reader.0.len() >= 16 {
        reader.u32()?;
        let length = reader.u32()? as usize;
        reader.u32()?;
        // The number is one less than the version's name: 6 is "version 7".
        let version = reader.u32()?;
        if !(5..=6).contains(&version) {
            return Err(format!("the coverage map has version {}, and 6 and 7 are known", version + 1));
        }
        let encoded = reader.take(length)?;
        lists.insert(md5::name(encoded), list(encoded)?);
        aligned(&mut reader, map)?;
    }
    Ok(lists)
}

/// The first entry is the folder of the compilation; relative names begin there.
fn list(encoded: &[u8]) -> Result<Vec<String>, String> {
    let mut reader = Reader(encoded);
    let count = reader.leb_size()?;
    reader.leb()?;
    if reader.leb()? != 0 {
        return Err("the names of files are compressed".to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    for _ in 0..count {
        let length = reader.leb_size()?;
        let name = String::from_utf8_lossy(reader.take(length)?).into_owned();
        match names.first() {
            Some(folder) if !name.starts_with('/') => names.push(format!("{folder}/{name}")),
            _ => names.push(name),
        }
    }
    Ok(names)
}

/// One function; nothing, if it has no code of its own.
fn function(name: u64, hash: u64, files: &[String], data: &[u8]) -> Result<Option<Function>, String> {
    let mut reader = Reader(data);
    let used = (0..reader.leb()?).map(|_| reader.leb_size()).collect::<Result<Vec<usize>, String>>()?;
    let count = reader.leb()?;
    let mut expressions = Vec::new();
    for _ in 0..count {
        expressions.push((Counter::decode(reader.leb()?), Counter::decode(reader.leb()?)));
    }
    let Some(file) = used.first().and_then(|file| files.get(*file)) else { return Ok(None) };
    let mut line = 0;
    for _ in 0..reader.leb()? {
        let header = reader.leb()?;
        // Regions without a counter that is theirs: 0 is code that never runs, 2 is skipped, 4 a branch.
        let kind = if header & 3 == 0 { header >> 3 } else { 0 };
        let is_expansion = header & 7 == 4;
        if kind == 4 && !is_expansion {
            reader.leb()?;
            reader.leb()?;
        } else if kind > 4 && !is_expansion {
            return Err(format!("a region of the kind {kind} is not known"));
        }
        line += reader.leb_size()?;
        let _columns = (reader.leb()?, reader.leb()?, reader.leb()?);
        if kind == 0 && !is_expansion {
            let entry = Counter::decode(header);
            return Ok(Some(Function { name, hash, file: file.clone(), line, entry, expressions }));
        }
    }
    Ok(None)
}

/// The counts of a profile, by a function's name and hash, as sums over its copies.
pub(crate) type Counts = HashMap<(u64, u64), Vec<u64>>;

/// The raw profile that a process wrote.
pub(crate) fn counts(profile: &[u8]) -> Result<Counts, String> {
    const RECORD: usize = 64;
    let mut reader = Reader(profile);
    if reader.u64()? != u64::from_be_bytes(*b"\xfflprofr\x81") {
        return Err("this is no raw profile of a program of 64 bits".to_owned());
    }
    let version = reader.u64()? & 0xffff_ffff;
    if version != 10 {
        return Err(format!("the profile has version {version}, and 10 is known"));
    }
    let ids = reader.size()?;
    let functions = reader.size()?;
    let before = reader.size()?;
    let counters = reader.size()?;
    reader.take(4 * 8)?;
    let delta = reader.u64()?;
    reader.take(5 * 8)?;
    reader.take(ids)?;
    let mut records = Reader(reader.take(functions * RECORD)?);
    reader.take(before)?;
    let values = reader.take(counters * 8)?;
    let mut found = Counts::new();
    for index in 0..functions {
        let mut record = Reader(records.take(RECORD)?);
        let (name, hash, pointer) = (record.u64()?, record.u64()?, record.u64()?);
        record.take(3 * 8)?;
        let count = record.u32()? as usize;
        // The pointer is relative to the record, and so is the distance of the two sections.
        let offset = pointer.wrapping_sub(delta.wrapping_sub((index * RECORD) as u64)) as usize;
        let mut counts = Reader(values.get(offset..).ok_or("a counter lies outside of the profile")?);
        // Each unit of code generation may have a copy of a function, and each copy has its counters.
        let sums = found.entry((name, hash)).or_insert_with(|| vec![0; count]);
        for sum in sums {
            *sum += counts.u64()?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_a_byte() {
        assert_eq!(Reader(&[0x05]).leb(), Ok(5));
        assert_eq!(Reader(&[0xe5, 0x8e, 0x26]).leb(), Ok(624_485));
        assert!(Reader(&[0x80]).leb().is_err());
    }

    #[test]
    fn lists_of_files_begin_in_their_folder() {
        let encoded = [&[3, 0, 0, 2][..], b"/w", &[3], b"a.r", &[2], b"/b"].concat();
        assert_eq!(list(&encoded), Ok(vec!["/w".to_owned(), "/w/a.r".to_owned(), "/b".to_owned()]));
        assert!(list(&[1, 4, 4]).is_err());
    }

    #[test]
    fn the_entry_may_be_an_expression() {
        let files = ["/w".to_owned(), "/w/a.rs".to_owned()];
        // One file (1); one expression: counter 0 minus counter 1; two regions, the first a difference, at line 7.
        let data = [1, 1, 1, 1, 5, 2, 2, 7, 1, 2, 3, 1, 1, 1, 1, 1];
        let function = function(1, 2, &files, &data).unwrap().unwrap();
        assert_eq!((function.file.as_str(), function.line), ("/w/a.rs", 7));
        assert_eq!(function.entries(&[10, 3]), 7);
        assert_eq!(function.entries(&[]), 0);
    }

    /// The whole way: a program is built with counters, runs, and is read.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_small_program_is_counted() {
        let folder = std::env::temp_dir().join(format!("chanter-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        let text = "fn generic<T>(_: T) {}\n\nfn looped(n: u32) {\n    for i in 0..n {\n        if i == 1 { return; }\n    }\n}\n\
                    fn never() {}\nfn main() {\n    for i in 0..5 {\n        looped(i);\n        generic(i);\n        generic('c');\n    }\n    \
                    if std::env::args().count() > 9 { never() }\n}\n";
        std::fs::write(at("small.rs"), text).unwrap();
        let mut rustc = std::process::Command::new("rustc");
        rustc.current_dir(&folder).args(super::super::FLAGS).args([
            "--edition=2024",
            "-Copt-level=1",
            "small.rs",
        ]);
        assert!(rustc.status().unwrap().success());
        let mut small = std::process::Command::new(at("small"));
        assert!(small.env("LLVM_PROFILE_FILE", at("small.profraw")).status().unwrap().success());
        let read = |name: &str| std::fs::read(at(name)).unwrap();
        let (functions, counts) =
            (functions(&read("small")).unwrap(), counts(&read("small.profraw")).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        let mut entries = std::collections::BTreeMap::new();
        for function in functions.iter().filter(|function| function.file.ends_with("small.rs")) {
            if let Some(counts) = counts.get(&(function.name, function.hash)) {
                *entries.entry(function.line).or_insert(0) += function.entries(counts);
            }
        }
        assert_eq!(entries.into_iter().collect::<Vec<_>>(), [(1, 10), (3, 5), (8, 0), (9, 1)]);
    }

    #[test]
    fn damaged_data_is_an_error() {
        assert!(functions(b"\x7fELF\x02\x01").is_err());
        assert!(counts(b"short").is_err());
        let other =
            [&u64::from_be_bytes(*b"\xfflprofr\x81").to_le_bytes()[..], &9_u64.to_le_bytes()].concat();
        assert!(counts(&other).unwrap_err().contains("version 9"));
    }
}
