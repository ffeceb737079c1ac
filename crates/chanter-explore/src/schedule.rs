//! Schedules as text: every decision of one run.

use std::fmt;
use std::str::FromStr;

use crate::explorer::Parasites;

/// All decisions of one run of a program, in a compact form that can be kept,
/// sent and [replayed](crate::Explorer::replay).
///
/// At each decision the alternatives are numbered, and 0 is the ordinary one:
/// the running thread goes on, or the oldest thread that is ready runs. As text:
/// a version, how parasites start (`p`: in place, `h`: as hosts), a dot, and
/// for each decision other than 0 how many zeros come before it, and itself as
/// a letter (`a` is 1) or, beyond `z`, as a number in parentheses.
///
/// ```
/// # use chanter_explore::Schedule;
/// let schedule: Schedule = "1p.12a3b".parse().unwrap();
/// assert_eq!(schedule.to_string(), "1p.12a3b");
/// assert_eq!(schedule.decisions().iter().sum::<u32>(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) parasites: Parasites,
    decisions: Vec<u32>,
}

impl Schedule {
    pub(crate) fn new(parasites: Parasites, mut decisions: Vec<u32>) -> Self {
        while decisions.last() == Some(&0) {
            decisions.pop();
        }
        Self { parasites, decisions }
    }

    /// The decisions, up to the last one that is not 0.
    pub fn decisions(&self) -> &[u32] {
        &self.decisions
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parasites = match self.parasites {
            Parasites::InPlace => 'p',
            Parasites::AsHosts => 'h',
        };
        write!(f, "1{parasites}.")?;
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
        Ok(())
    }
}

/// A text is not a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSchedule;

impl fmt::Display for BadSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a schedule of this version: expected something like `1p.12a3b`")
    }
}

impl std::error::Error for BadSchedule {}

/// More decisions than any run makes: a text that asks for them is wrong.
const MOST: usize = 1 << 24;

impl FromStr for Schedule {
    type Err = BadSchedule;

    fn from_str(text: &str) -> Result<Self, BadSchedule> {
        let (head, body) = text.trim().split_once('.').ok_or(BadSchedule)?;
        let parasites = match head {
            "1p" => Parasites::InPlace,
            "1h" => Parasites::AsHosts,
            _ => return Err(BadSchedule),
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
        Ok(Self::new(parasites, decisions))
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
            for parasites in [Parasites::InPlace, Parasites::AsHosts] {
                let schedule = Schedule::new(parasites, decisions.clone());
                assert_eq!(schedule.to_string().parse(), Ok(schedule));
            }
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "1p", "2p.a", "1x.", "1p.3", "1p.A", "1p.(3", "1p.(x)", "1p.99999999999a", "1p.a 3b"]
        {
            assert_eq!(text.parse::<Schedule>(), Err(BadSchedule), "{text}");
        }
    }
}
