//! Computations of the programs between messages, and how they add up their answers.

/// Threads of a batch in `spawn`.
pub const BATCH: u64 = 1000;
/// Pairs in `parallel-ping-pong`.
pub const PAIRS: u64 = 100;
/// Producers in `choose`.
pub const PRODUCERS: u64 = 8;
/// Least numbers that `mergesort` forks.
pub const PIECE: usize = 1024;
/// Merges of more numbers than this are cut in two, where a program forks.
pub const MERGE: usize = 1 << 14;

/// Computation of a thread of `spawn`.
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

/// Two sorted slices, and where they are to be merged.
pub type Merge<'a> = (&'a [u32], &'a [u32], &'a mut [u32]);

/// Cuts a merge into two that do not know of each other.
///
/// # Errors
/// It is too small to be worth it: here it is again.
pub fn cut_merge((left, right, into): Merge<'_>) -> Result<[Merge<'_>; 2], Merge<'_>> {
    if into.len() <= MERGE {
        return Err((left, right, into));
    }
    // All before the cuts are at most as large as all behind them.
    let (at_left, at_right) = if left.len() >= right.len() {
        let middle = left.len() / 2;
        (middle, right.partition_point(|number| *number < left[middle]))
    } else {
        let middle = right.len() / 2;
        (left.partition_point(|number| *number <= right[middle]), middle)
    };
    let (low_left, high_left) = left.split_at(at_left);
    let (low_right, high_right) = right.split_at(at_right);
    let (low, high) = into.split_at_mut(at_left + at_right);
    Ok([(low_left, low_right, low), (high_left, high_right, high)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_cut_where_both_sides_allow_it() {
        fn merge_all(whole: Merge<'_>) {
            match cut_merge(whole) {
                Ok(halves) => halves.into_iter().for_each(merge_all),
                Err((left, right, into)) => merge(left, right, into),
            }
        }
        for (one, other) in [(100_000, 100_000), (100_000, 3), (3, 100_000), (0, 100_000), (16_385, 0)] {
            // Many are equal.
            let few = |count| numbers(count).into_iter().map(|number| number % 1000);
            let (mut left, mut right): (Vec<_>, Vec<_>) = (few(one).collect(), few(other).collect());
            left.sort_unstable();
            right.sort_unstable();
            let mut into = vec![0; left.len() + right.len()];
            merge_all((&left, &right, &mut into));
            let mut want = [left, right].concat();
            want.sort_unstable();
            assert_eq!(into, want);
        }
    }

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
