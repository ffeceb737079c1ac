//! Random numbers, from a generator of the OS thread's own.

use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    /// The generator's state. 0: not seeded, or never to be, since a simulation wants to be asked.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number below the argument that stands for a random one, or `None` where the generator makes them. For
/// the argument 1 it tells only which of the two holds.
type Choose = fn(usize) -> Option<usize>;

/// The function that is asked before a generator is seeded.
static CHOOSE: OnceLock<Choose> = OnceLock::new();

/// Has `choose` asked first from now on, on OS threads without a seed. Only the first call counts.
pub(crate) fn ask_first(choose: Choose) {
    CHOOSE.get_or_init(|| choose);
}

/// A random number below `bound`. It comes from a generator of the OS thread's own (xorshift64*, seeded by
/// `std`'s `RandomState`). On a simulated machine the simulation chooses it.
#[inline]
pub(crate) fn random(bound: usize) -> usize {
    random_one_of(bound, || u64::MAX)
}

/// A random number below `bound`. Only the numbers whose bit is set in `hints` make a difference, and a simulation
/// tries only those.
#[inline(always)]
pub(crate) fn random_one_of(bound: usize, hints: impl FnOnce() -> u64) -> usize {
    let mut x = RANDOM.get();
    if x == 0 {
        match seed(bound, hints) {
            Seed::New(seed) => x = seed,
            Seed::Chosen(number) => return number,
        }
    }
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    RANDOM.set(x);
    let high = x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    // Multiply and shift: no division, and a bias below 2^-32 x bound.
    ((high * bound as u64) >> 32) as usize
}

enum Seed {
    New(u64),
    Chosen(usize),
}

#[cold]
fn seed(bound: usize, hints: impl FnOnce() -> u64) -> Seed {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let Some(choose) = CHOOSE.get().filter(|choose| choose(1).is_some()) else {
        return Seed::New(RandomState::new().build_hasher().finish() | 1);
    };
    let choose = |bound| choose(bound).unwrap_or(0);
    if bound > 64 {
        return Seed::Chosen(choose(bound));
    }
    let hints = hints() & (u64::MAX >> (64 - bound));
    let mut choices = (0..bound).filter(|bit| hints & (1 << bit) != 0);
    let chosen = match hints.count_ones() {
        0 | 1 => 0,
        several => choose(several as usize),
    };
    Seed::Chosen(choices.nth(chosen).unwrap_or(0))
}

/// Makes random numbers on this OS thread come from the simulation while it lives.
pub(crate) struct RandomGuard(u64);

impl RandomGuard {
    pub(crate) fn new() -> Self {
        Self(RANDOM.replace(0))
    }
}

impl Drop for RandomGuard {
    fn drop(&mut self) {
        RANDOM.set(self.0);
    }
}
