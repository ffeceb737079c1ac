//! Schedules as text: every decision of one run.

use std::fmt;
use std::str::FromStr;

use crate::explorer::Parasites;

/// All decisions of one run of a program, in a compact form that can be kept,
/// sent and [replayed](crate::Explorer::replay).
///
/// At each decision the alternatives are numbered, and 0 is the ordinary one: the running thread goes on, or the
/// oldest thread that is ready runs. The text begins with a version, the place where parasites start (`p`: in place,
/// `h`: as hosts), `t` if timers could fire early, and a dot. Then comes each decision other than 0, after the number
/// of zeros before it. A decision is a letter (`a` is 1), or beyond `z` a number in parentheses. The part after a `-`
/// describes the program at some of the decisions. By this part a schedule of another program is noticed.
///
/// ```
/// # use chanter_explore::Schedule;
/// let schedule: Schedule = "1p.12a3b-0KxY2".parse().unwrap();
/// assert_eq!(schedule.to_string(), "1p.12a3b-0KxY2");
/// assert_eq!(schedule.decisions().iter().sum::<u32>(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) parasites: Parasites,
    pub(crate) early_timers: bool,
    decisions: Vec<u32>,
    marks: Marks,
}

/// Description of a program: six bits at every 2^`spacing`-th decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marks {
    spacing: u32,
    marks: Vec<u8>,
}

/// Largest number of marks in a schedule.
const MARKS: usize = 48;

/// The digits of marks.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+_";

impl Marks {
    /// Keeps some of all the marks of a run, at equal distances.
    fn of(all: &[u8]) -> Self {
        let spacing = all.len().div_ceil(MARKS).max(1).next_power_of_two().trailing_zeros();
        let marks = all.chunks_exact(1 << spacing).map(|part| part[part.len() - 1]).collect();
        Self { spacing, marks }
    }

    fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
        let (spacing, marks) = text.as_bytes().split_first()?;
        let spacing = char::from(*spacing).to_digit(36).filter(|spacing| *spacing <= MOST.ilog2())?;
        let marks = marks.iter().map(|byte| digit(*byte).map(|digit| digit as u8)).collect::<Option<_>>()?;
        Some(Self { spacing, marks })
    }
}

impl Schedule {
    /// `marks` has one mark for each decision.
    pub(crate) fn new(
        parasites: Parasites,
        early_timers: bool,
        mut decisions: Vec<u32>,
        marks: &[u8],
    ) -> Self {
        while decisions.last() == Some(&0) {
            decisions.pop();
        }
        Self { parasites, early_timers, decisions, marks: Marks::of(marks) }
    }

    /// The decisions, up to the last one that is not 0.
    pub fn decisions(&self) -> &[u32] {
        &self.decisions
    }

    /// Expected description of the program at a decision, if it is known.
    pub(crate) fn mark(&self, decision: usize) -> Option<u8> {
        let Marks { spacing, marks } = &self.marks;
        let after = decision + 1;
        if !after.is_multiple_of(1 << spacing) {
            return None;
        }
        marks.get((after >> spacing) - 1).copied()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parasites = match self.parasites {
            Parasites::InPlace => 'p',
            Parasites::AsHosts => 'h',
        };
        let early = if self.early_timers { "t" } else { "" };
        write!(f, "1{parasites}{early}.")?;
        let mut zeros = 0;
        for decision in &self.decisions {
            if *decision == 0 {
                zeros += 1;
                continue;
            }
            if zeros > 0 {
                write!(f, "{zeros}")?;
                zeros = 0;
            }
            match u8::try_from(*decision) {
                Ok(small @ 1..=26) => write!(f, "{}", char::from(b'a' + small - 1))?,
                _ => write!(f, "({decision})")?,
            }
        }
        if !self.marks.marks.is_empty() {
            let spacing = char::from_digit(self.marks.spacing, 36).unwrap_or('0');
            write!(f, "-{spacing}")?;
            for mark in &self.marks.marks {
                write!(f, "{}", char::from(DIGITS[usize::from(mark % 64)]))?;
            }
        }
        Ok(())
    }
}

/// The error of a text that is not a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSchedule;

impl fmt::Display for BadSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a schedule of this version: expected something like `1p.12a3b-0KxY2`")
    }
}

impl std::error::Error for BadSchedule {}

/// Bound of decisions, which no run reaches: a text with more of them is wrong.
const MOST: usize = 1 << 24;

impl FromStr for Schedule {
    type Err = BadSchedule;

    fn from_str(text: &str) -> Result<Self, BadSchedule> {
        let (head, body) = text.trim().split_once('.').ok_or(BadSchedule)?;
        let (parasites, early_timers) = match head {
            "1p" => (Parasites::InPlace, false),
            "1h" => (Parasites::AsHosts, false),
            "1pt" => (Parasites::InPlace, true),
            "1ht" => (Parasites::AsHosts, true),
            _ => return Err(BadSchedule),
        };
        let (body, marks) = match body.split_once('-') {
            Some((body, marks)) => (body, Marks::parse(marks).ok_or(BadSchedule)?),
            None => (body, Marks::default()),
        };
        let mut decisions = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(BadSchedule)?;
            let zeros = if digits == 0 { 0 } else { rest[..digits].parse().map_err(|_| BadSchedule)? };
            if decisions.len() + zeros >= MOST {
                return Err(BadSchedule);
            }
            decisions.resize(decisions.len() + zeros, 0);
            rest = &rest[digits..];
            let decision;
            (decision, rest) = match rest.as_bytes()[0] {
                letter @ b'a'..=b'z' => (u32::from(letter - b'a' + 1), &rest[1..]),
                b'(' => {
                    let (number, rest) = rest[1..].split_once(')').ok_or(BadSchedule)?;
                    (number.parse().map_err(|_| BadSchedule)?, rest)
                }
                _ => return Err(BadSchedule),
            };
            decisions.push(decision);
        }
        Ok(Self { marks, ..Self::new(parasites, early_timers, decisions, &[]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for decisions in [
            vec![],
            vec![1],
            vec![0, 0, 2],
            vec![26, 27, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            vec![3, 0, 0],
        ] {
            for (parasites, early) in [(Parasites::InPlace, false), (Parasites::AsHosts, true)] {
                for marks in [vec![], vec![0], (0..64).collect(), vec![7; 10_000]] {
                    let schedule = Schedule::new(parasites, early, decisions.clone(), &marks);
                    assert_eq!(schedule.to_string().parse(), Ok(schedule));
                }
            }
        }
    }

    #[test]
    fn marks_are_few_and_those_of_their_decisions() {
        for many in [1, 47, 48, 49, 96, 97, 1000] {
            let all: Vec<u8> = (0..many).map(|n| (n % 61) as u8).collect();
            let schedule = Schedule::new(Parasites::InPlace, false, vec![], &all);
            let marks: Vec<_> = (0..many + 100).map(|at| schedule.mark(at)).collect();
            let known = marks.iter().flatten().count();
            assert!(known <= MARKS && known * 4 > MARKS.min(many), "{known} of {many}");
            assert!(marks.iter().zip(&all).all(|(mark, one)| mark.is_none_or(|mark| mark == *one)));
            assert!(marks[many..].iter().all(Option::is_none));
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in [
            "",
            "1p",
            "2p.a",
            "1x.",
            "1p.3",
            "1p.A",
            "1p.(3",
            "1p.(x)",
            "1p.99999999999a",
            "1p.a 3b",
            "1pp.a",
            "1p.a-",
            "1p.a-?",
            "1p.a-0?",
            "1tp.a",
        ] {
            assert_eq!(text.parse::<Schedule>(), Err(BadSchedule), "{text}");
        }
    }
}
