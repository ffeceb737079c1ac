//! The programs that every system runs, as `programs/peers/README.md` has them: their sizes and expected answers.

/// A program of the contract.
pub(super) struct Program {
    pub(super) name: &'static str,
    quick: u64,
    paper: u64,
    /// The answer, without threads and in another way than any system computes it.
    pub(super) answer: fn(u64) -> u64,
}

impl Program {
    pub(super) fn size(&self, quick: bool) -> u64 {
        if quick { self.quick } else { self.paper }
    }
}

const fn program(name: &'static str, (quick, paper): (u64, u64), answer: fn(u64) -> u64) -> Program {
    Program { name, quick, paper, answer }
}

pub(super) const PROGRAMS: [Program; 10] = [
    program("spawn", (100_000, 1_000_000), |n| (0..n).map(|i| i * i % 1_000_003).sum()),
    program("ping-pong", (50_000, 1_000_000), |n| low(n * (n + 1) / 2)),
    program("parallel-ping-pong", (100_000, 1_000_000), |n| low(n / 100 * (n / 100 + 1) / 2 * 100)),
    program("send", (200_000, 5_000_000), |n| low(n * (n - 1) / 2)),
    program("choose", (40_000, 1_000_000), |n| low(n / 8 * (n / 8 - 1) / 2 * 8)),
    program("sieve", (400, 2000), prime),
    program("fib-channel", (18, 27), fib),
    program("fib-join", (24, 32), fib),
    program("tak-join", (18, 24), |n| tak(n as i64, 2 * n as i64 / 3, n as i64 / 3) as u64),
    program("mergesort", (200_000, 1_000_000), sorted),
];

fn low(sum: u64) -> u64 {
    sum & 0xffff_ffff
}

/// The `nth` prime, by trial division.
fn prime(nth: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2..).filter(is_prime).nth(nth as usize - 1).expect("there is no last prime")
}

fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(now, next), _| (next, now + next)).0
}

fn tak(x: i64, y: i64, z: i64) -> i64 {
    if y >= x { z } else { tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y)) }
}

fn sorted(count: u64) -> u64 {
    let mut x: u64 = 1;
    let mut numbers: Vec<u64> = Vec::new();
    for _ in 0..count {
        x = (x * 1_103_515_245 + 12_345) & 0x7fff_ffff;
        numbers.push(x);
    }
    numbers.sort_unstable();
    let terms = (1..).zip(&numbers).map(|(place, number)| place * number % 1_000_000_007);
    terms.sum::<u64>() % 1_000_000_007
}

/// Known reasons why Chanter is not the first: program, processors, reason.
const REASONS: [(&str, usize, &str); 2] = [
    (
        "mergesort",
        1,
        "peers that are Rust sort with the same code, but in mimalloc's large pages, a few percent faster; \
         a Chanter built with `--features mimalloc` has them too",
    ),
    (
        "fib-channel",
        1,
        "Lwt's threads never leave their one processor: no locks, nothing to cancel, and memory for a thread \
         and its channel by moving a pointer",
    ),
];

/// The reason why Chanter trails in a row, if it is known.
pub(super) fn reason(program: &str, vps: usize) -> Option<&'static str> {
    REASONS.iter().find(|(name, on, _)| (*name, *on) == (program, vps)).map(|(.., reason)| *reason)
}

#[cfg(test)]
mod tests {
    use chanter_peer_kit::sample;
    use chanter_programs::peers::Chanter;

    use super::super::system::{ours, parted};
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!((prime(1), prime(400), prime(2000)), (2, 2741, 17_389));
        assert_eq!((fib(0), fib(1), fib(27), fib(32)), (0, 1, 196_418, 2_178_309));
        assert_eq!((tak(18, 12, 6), low(1 << 32 | 5)), (7, 5));
        assert_eq!(sorted(2), 377_401_575 + 2 * 103_527_583);
    }

    /// Two sizes each, on one processor and on two.
    #[test]
    fn chanters_programs_give_the_answers() {
        for program in &PROGRAMS {
            let sizes = match program.name {
                "fib-channel" | "fib-join" => [10, 15],
                "tak-join" => [6, 12],
                "sieve" => [1, 50],
                _ => [800, 4000],
            };
            let is_of = |listed: &&str| parted(listed).0 == program.name;
            let variants: Vec<&str> = ours().filter(is_of).collect();
            assert!(!variants.is_empty(), "{}", program.name);
            for (variant, size) in variants.iter().flat_map(|variant| sizes.map(|size| (variant, size))) {
                for vps in [1, 2] {
                    let got = sample::<Chanter>(variant, size, vps).expect("it is in the list");
                    assert_eq!(got.answer, (program.answer)(size), "{variant} {size} on {vps}");
                }
            }
        }
    }
}
