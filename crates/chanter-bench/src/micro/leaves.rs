//! `leaves-2` to `leaves-16` and `word-count`: computations cut into few large parts, or many small ones, beside rayon.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::idle::processor_time;
use super::{machine, on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect};
use crate::peers::rayon::pool;

const LEAVES: [(&str, u64); 3] = [("leaves-2", 2), ("leaves-4", 4), ("leaves-16", 16)];
const WORDS: &str = "word-count";
/// Steps of all leaves of a round together: some tenths of a second.
const STEPS: u64 = 200_000_000;
/// Bytes of text.
const TEXT: u64 = 200_000_000;
/// Texts that are shorter are counted by a loop.
const GRAIN: usize = 64 << 10;
/// Number of threads of a program that makes a thread for each file, say.
const THREADS: usize = 16;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for (bench, count) in LEAVES {
        let case = |system, variant, run: fn(Load, u64) -> Outcome| {
            Case::new(bench, system, variant, move |load| run(load, count)).load_of(STEPS, vps)
        };
        cases.push(case("chanter", "fork_join", forked_leaves));
        cases.push(case("rayon", "join", joined_leaves));
    }
    let case =
        |system, variant, run: fn(Load) -> Outcome| Case::new(WORDS, system, variant, run).load_of(TEXT, vps);
    cases.push(case("chanter", "fork_join", forked_words));
    cases.push(case("chanter", "16 scope threads", scoped_words));
    cases.push(case("rayon", "join", joined_words));
    cases
}

/// A leaf: steps that depend on each other, so that no processor is faster by doing several.
fn leaf(steps: u64) -> u64 {
    (0..steps).fold(1, |x, _| black_box(x).wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1))
}

fn forked(leaves: u64, steps: u64) -> u64 {
    if leaves == 1 {
        return leaf(steps);
    }
    let (one, other) = fork_join(|| forked(leaves / 2, steps), || forked(leaves - leaves / 2, steps));
    one.wrapping_add(other)
}

fn joined(leaves: u64, steps: u64) -> u64 {
    if leaves == 1 {
        return leaf(steps);
    }
    let (one, other) = rayon::join(|| joined(leaves / 2, steps), || joined(leaves - leaves / 2, steps));
    one.wrapping_add(other)
}

fn forked_leaves(load: Load, leaves: u64) -> Outcome {
    let steps = load.n / leaves;
    let (sum, elapsed) = on_machine(load.vps, async move {
        value_of(spawn(async move { timed(|| forked(leaves, steps)) })).await
    })??;
    leaves_sample(leaves, steps, sum, elapsed)
}

fn joined_leaves(load: Load, leaves: u64) -> Outcome {
    let steps = load.n / leaves;
    let (sum, elapsed) = pool(load.vps)?.install(|| timed(|| joined(leaves, steps)));
    leaves_sample(leaves, steps, sum, elapsed)
}

fn leaves_sample(leaves: u64, steps: u64, sum: u64, elapsed: Duration) -> Outcome {
    expect("the sum of the leaves", sum, leaf(steps).wrapping_mul(leaves))?;
    Ok(Sample::new(leaves * steps, elapsed))
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let clock = Instant::now();
    let value = work();
    (value, clock.elapsed())
}

/// Words of 1 to 16 letters, and how many.
struct Text {
    bytes: Vec<u8>,
    words: u64,
}

/// A text of that number of bytes. The last one is kept.
fn text(bytes: u64) -> Arc<Text> {
    static KEPT: Mutex<Option<Arc<Text>>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some(text) if text.bytes.len() as u64 == bytes => text.clone(),
        _ => kept.insert(Arc::new(Text::new(bytes as usize))).clone(),
    }
}

impl Text {
    fn new(size: usize) -> Self {
        let mut bytes = Vec::with_capacity(size + 17);
        let (mut words, mut random) = (0, 1_u64);
        while bytes.len() < size {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let letters = 1 + (random >> 60) as usize;
            bytes.extend((0..letters).map(|place| b'a' + (random >> (32 + place % 16)) as u8 % 26));
            bytes.push(b' ');
            words += 1;
        }
        if bytes.len() > size {
            // The last word is cut, and may be gone.
            words -= u64::from(bytes[size - 1] == b' ');
            bytes.truncate(size);
        }
        Self { bytes, words }
    }
}

/// Number of words that end in `text`, where `next` follows it.
fn count(text: &[u8], next: Option<&u8>) -> u64 {
    let ends = |(byte, next): (&u8, Option<&u8>)| {
        u64::from(!byte.is_ascii_whitespace() && next.is_none_or(u8::is_ascii_whitespace))
    };
    let inside = text.windows(2).map(|pair| ends((&pair[0], Some(&pair[1])))).sum::<u64>();
    inside + text.last().map_or(0, |last| ends((last, next)))
}

fn forked_count(text: &[u8], next: Option<&u8>) -> u64 {
    if text.len() <= GRAIN {
        return count(text, next);
    }
    let (left, right) = text.split_at(text.len() / 2);
    let (one, other) = fork_join(|| forked_count(left, right.first()), || forked_count(right, next));
    one + other
}

fn joined_count(text: &[u8], next: Option<&u8>) -> u64 {
    if text.len() <= GRAIN {
        return count(text, next);
    }
    let (left, right) = text.split_at(text.len() / 2);
    let (one, other) = rayon::join(|| joined_count(left, right.first()), || joined_count(right, next));
    one + other
}

fn forked_words(load: Load) -> Outcome {
    let text = text(load.n);
    words(&text, || {
        let text = text.clone();
        on_machine(
            load.vps,
            async move { value_of(spawn(async move { forked_count(&text.bytes, None) })).await },
        )?
    })
}

fn scoped_words(load: Load) -> Outcome {
    let text = text(load.n);
    words(&text, || {
        let part = text.bytes.len().div_ceil(THREADS);
        machine(load.vps)?.scope_blocking(|scope| {
            let threads: Vec<_> = text
                .bytes
                .chunks(part)
                .enumerate()
                .map(|(number, chunk)| {
                    let next = text.bytes.get((number + 1) * part);
                    scope.spawn(async move { count(chunk, next) })
                })
                .collect();
            let value =
                |thread: Result<u64, JoinError>| thread.map_err(|error| Failure::Broken(error.to_string()));
            threads.into_iter().map(|thread| value(thread.join().sync_blocking())).sum()
        })
    })
}

fn joined_words(load: Load) -> Outcome {
    let text = text(load.n);
    words(&text, || Ok(pool(load.vps)?.install(|| joined_count(&text.bytes, None))))
}

/// Counts, and reports the cost, including the start and end of the machine or pool.
fn words(text: &Text, count: impl FnOnce() -> Result<u64, Failure>) -> Outcome {
    let before = processor_time()?;
    let (counted, elapsed) = timed(count);
    let used = processor_time()? - before;
    expect("words", counted?, text.words)?;
    Ok(Sample::new(text.bytes.len() as u64, elapsed).with("cpu_ms", used.as_secs_f64() * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_wherever_the_text_is_cut() {
        for size in [1, 2, 100, 4_095, 4_096, 4_097] {
            let text = Text::new(size);
            assert_eq!(count(&text.bytes, None), text.words, "{size} bytes");
            for cut in 0..=size {
                let (left, right) = text.bytes.split_at(cut);
                assert_eq!(count(left, right.first()) + count(right, None), text.words, "cut at {cut}");
            }
        }
    }
}
