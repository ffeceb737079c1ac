//! The tree of a group's runs. Each run leads a range of ranks, of which it is the first.

/// The neighbours of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) parent: Option<u32>,
    /// Ranks in ascending order. Each leads the range up to the next one, and the last one up to `end`. Their ranges and the rank itself cover its range without gaps.
    pub(super) children: Vec<u32>,
    /// The end of its range.
    pub(super) end: u32,
}

impl Tree {
    /// The neighbours of `rank` in a tree of `size` ranks.
    pub(super) fn of(rank: u32, size: u32) -> Self {
        let (mut low, mut high) = (0, size);
        let mut parent = None;
        // Down to the range that the rank leads.
        while low != rank {
            let middle = low + (high - low).div_ceil(2);
            if rank < middle {
                high = middle;
            } else {
                parent = Some(low);
                low = middle;
            }
        }
        let end = high;
        let mut children = Vec::new();
        while high - low > 1 {
            high = low + (high - low).div_ceil(2);
            children.push(high);
        }
        children.reverse();
        Self { parent, children, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of a range, in the order in which they are combined.
    fn ranks(rank: u32, size: u32) -> Vec<u32> {
        let below = Tree::of(rank, size).children.into_iter().flat_map(|child| ranks(child, size));
        std::iter::once(rank).chain(below).collect()
    }

    #[test]
    fn each_member_is_combined_once_and_in_order() {
        for size in 1..70 {
            assert_eq!(ranks(0, size), (0..size).collect::<Vec<_>>(), "{size}");
            for rank in 0..size {
                for child in Tree::of(rank, size).children {
                    assert_eq!(Tree::of(child, size).parent, Some(rank));
                }
            }
        }
    }

    #[test]
    fn one_message_leaves_a_process() {
        let crossing =
            |rank: u32| Tree::of(rank, 128).children.into_iter().filter(move |to| to / 64 != rank / 64);
        assert_eq!((0..128).flat_map(crossing).collect::<Vec<_>>(), [64]);
    }
}
