//! The `Range` header (RFC 9110, section 14): at most one range of bytes is served.

/// Part of a representation that a request asks for.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Ranged {
    /// All of it: no range, an unknown one, or more than one. A server may ignore `Range`, and a set of ranges gains
    /// clients little and attackers much.
    Whole,
    /// The bytes from `start` up to but not including `end`; never empty.
    Part {
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
    /// A range that begins past the end: 416.
    Unsatisfiable,
}

/// Reads the value of a `Range` header against a representation of `len` bytes.
pub(crate) fn parse(value: &str, len: u64) -> Ranged {
    let Some((unit, set)) = value.split_once('=') else {
        return Ranged::Whole;
    };
    // Empty elements of a list are to be ignored (RFC 9110, 5.6.1.2).
    let mut ranges =
        set.split(',').map(|range| range.trim_matches([' ', '\t'])).filter(|range| !range.is_empty());
    let (Some(range), None) = (ranges.next(), ranges.next()) else {
        return Ranged::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Ranged::Whole;
    }
    let Some((first, last)) = range.split_once('-') else {
        return Ranged::Whole;
    };
    match (first.is_empty(), last.is_empty()) {
        (true, true) => Ranged::Whole,
        // The last `n` bytes.
        (true, false) => match number(last) {
            None => Ranged::Whole,
            Some(0) => Ranged::Unsatisfiable,
            Some(_) if len == 0 => Ranged::Unsatisfiable,
            Some(n) => Ranged::Part { start: len.saturating_sub(n), end: len },
        },
        (false, _) => {
            let (Some(start), Some(last)) =
                (number(first), if last.is_empty() { Some(u64::MAX) } else { number(last) })
            else {
                return Ranged::Whole;
            };
            if start > last {
                Ranged::Whole
            } else if start >= len {
                Ranged::Unsatisfiable
            } else {
                Ranged::Part { start, end: last.saturating_add(1).min(len) }
            }
        }
    }
}

/// Reads a number of digits only (`parse::<u64>` would take a sign). One that is too large counts as the largest.
fn number(digits: &str) -> Option<u64> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::Ranged::*;
    use super::*;

    #[test]
    fn single_ranges() {
        assert_eq!(parse("bytes=0-0", 10), Part { start: 0, end: 1 });
        assert_eq!(parse("bytes=2-5", 10), Part { start: 2, end: 6 });
        assert_eq!(parse("bytes=2-", 10), Part { start: 2, end: 10 });
        assert_eq!(parse("bytes=9-99", 10), Part { start: 9, end: 10 });
        assert_eq!(parse("Bytes= 2-5 ", 10), Part { start: 2, end: 6 });
        assert_eq!(parse("bytes=0-18446744073709551615", 10), Part { start: 0, end: 10 });
        assert_eq!(parse("bytes=0-99999999999999999999999", 10), Part { start: 0, end: 10 });
    }

    #[test]
    fn empty_elements_are_ignored() {
        for value in ["bytes=2-5,", "bytes=,2-5", "bytes= , 2-5 ,\t,", "bytes=2-5,,,"] {
            assert_eq!(parse(value, 10), Part { start: 2, end: 6 }, "{value}");
        }
        for value in ["bytes=,", "bytes= , ,", "bytes=2-5,,6-7"] {
            assert_eq!(parse(value, 10), Whole, "{value}");
        }
    }

    #[test]
    fn suffixes() {
        assert_eq!(parse("bytes=-3", 10), Part { start: 7, end: 10 });
        assert_eq!(parse("bytes=-99", 10), Part { start: 0, end: 10 });
        assert_eq!(parse("bytes=-0", 10), Unsatisfiable);
        assert_eq!(parse("bytes=-5", 0), Unsatisfiable);
    }

    #[test]
    fn past_the_end() {
        assert_eq!(parse("bytes=10-", 10), Unsatisfiable);
        assert_eq!(parse("bytes=10-20", 10), Unsatisfiable);
        assert_eq!(parse("bytes=0-", 0), Unsatisfiable);
        assert_eq!(parse("bytes=99999999999999999999999-", 10), Unsatisfiable);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=+1-2",
            "bytes=1-+2",
            "bytes=1 - 2",
            "lines=0-1",
            "bytes=0-1,3-4",
            "bytes=--1",
            "bytes=1-2-3",
        ] {
            assert_eq!(parse(value, 10), Whole, "{value}");
        }
    }
}
