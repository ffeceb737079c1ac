//! What the programs compute between messages, and how they add up their answers.

/// Threads of a batch in `spawn`.
pub const BATCH: u64 = 1000;
/// Pairs in `parallel-ping-pong`.
pub const PAIRS: u64 = 100;
/// Producers in `choose`.
pub const PRODUCERS: u64 = 8;
/// `mergesort` forks down to so many numbers.
pub const PIECE: usize = 1024;

/// What a thread of `spawn` computes.
pub const fn square(i: u64) -> u64 {
    i * i % 1_000_003
}

/// Sums are taken modulo 2^32.
pub const fn low(sum: u64) -> u64 {
    sum % (1 << 32)
}

/// The arguments with which `tak-join` begins.
pub const fn tak_arguments(n: u64) -> [i64; 3] {
    let n = n as i64;
    [n, 2 * n / 3, n / 3]
}

/// The arguments of the three calls whose values are the next arguments of Takeuchi's function; `None`: its value is
/// the third argument.
pub const fn tak_inner([x, y, z]: [i64; 3]) -> Option<[[i64; 3]; 3]> {
    if y >= x { None } else { Some([[x - 1, y, z], [y - 1, z, x], [z - 1, x, y]]) }
}

/// The numbers that `mergesort` sorts.
pub fn numbers(count: u64) -> Vec<u32> {
    let step = |x: &u64| Some((x * 1_103_515_245 + 12_345) % (1 << 31));
    std::iter::successors(step(&1), step).take(count as usize).map(|x| x as u32).collect()
}

/// The answer of `mergesort`.
pub fn checksum(sorted: &[u32]) -> u64 {
    (1..).zip(sorted).fold(0, |sum, (place, &number)| (sum + place * u64::from(number)) % 1_000_000_007)
}

/// Sorts by merging, without threads. `spare` holds the same numbers, and anything afterwards.
pub fn sort_piece(numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() < 2 {
        return;
    }
    let middle = numbers.len() / 2;
    let (left, right) = spare.split_at_mut(middle);
    let (to_left, to_right) = numbers.split_at_mut(middle);
    sort_piece(left, to_left);
    sort_piece(right, to_right);
    merge(left, right, numbers);
}

/// Merges two sorted slices into a third. Which of them is next is a number rather than a branch, since nobody could
/// predict it.
pub fn merge(left: &[u32], right: &[u32], into: &mut [u32]) {
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        let is_left = left[i] <= right[j];
        into[i + j] = if is_left { left[i] } else { right[j] };
        i += usize::from(is_left);
        j += usize::from(!is_left);
    }
    let rest = if i < left.len() { &left[i..] } else { &right[j..] };
    into[i + j..].copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_sorted() {
        for count in [0, 1, 2, 3, 1000, 1025] {
            let (mut sorted, mut own) = (numbers(count), numbers(count));
            sorted.sort_unstable();
            sort_piece(&mut own, &mut numbers(count));
            assert_eq!(own, sorted);
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_generator() {
        assert_eq!(numbers(2), [1_103_527_590, 377_401_575]);
        assert_eq!(checksum(&[5, 7]), 5 + 2 * 7);
    }

    #[test]
    fn takeuchis_function_has_its_known_value() {
        fn tak(arguments: [i64; 3]) -> i64 {
            tak_inner(arguments).map_or(arguments[2], |inner| tak(inner.map(tak)))
        }
        assert_eq!(tak(tak_arguments(18)), 7);
    }
}
