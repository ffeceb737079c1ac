//! By hand: a pipeline of OS threads, each with its part of the stages.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use super::{Block, Clusters, Nearest, Point, Points, Sum};

/// A block on its way, the facts about it, and the centres of this round.
struct Travelling {
    block: Arc<Block>,
    nearest: Nearest,
    centres: Arc<[Point]>,
}

/// A part of the stages: from the first one up to the last one, that apart.
type Part = (usize, usize);

pub(super) fn cluster(points: &Points, threads: usize) -> Clusters {
    let parts: Vec<Part> = (0..threads)
        .map(|at| (at * points.clusters / threads, (at + 1) * points.clusters / threads))
        .collect();
    let (source, mut last) = mpsc::channel();
    thread::scope(|scope| {
        for &part in &parts[1..] {
            let (to, from) = mpsc::channel();
            let before = std::mem::replace(&mut last, from);
            scope.spawn(move || while receive(&before).is_some_and(|here| pass(here, part, &to)) {});
        }
        let mut clusters = points.begin();
        for _ in 0..points.rounds {
            let sums = round(points, &clusters.centres, parts[0], &source, &last);
            clusters.advance(&sums);
        }
        drop(source);
        clusters
    })
}

/// The caller is the source, the first part, and the end of the pipeline.
fn round(
    points: &Points,
    centres: &[Point],
    part: Part,
    source: &Sender<Travelling>,
    last: &Receiver<Travelling>,
) -> Vec<Sum> {
    let centres: Arc<[Point]> = centres.into();
    for block in &points.blocks {
        let nearest = Nearest::new(block);
        pass(Travelling { block: Arc::clone(block), nearest, centres: Arc::clone(&centres) }, part, source);
    }
    let mut sums = vec![Sum::default(); centres.len()];
    for _ in &points.blocks {
        let here = receive(last).expect("the last part sends each block");
        here.nearest.add_to(&mut sums, &here.block);
    }
    sums
}

/// Takes the block through the stages of the part, and sends it on. Returns false if nobody is there.
fn pass(mut here: Travelling, (first, end): Part, to: &Sender<Travelling>) -> bool {
    for cluster in first..end {
        here.nearest.compare(&here.block, cluster as u32, &[here.centres[cluster]]);
    }
    to.send(here).is_ok()
}

/// The next block; `None`: there is no more. It spins, as a sleep takes longer than many blocks.
fn receive(from: &Receiver<Travelling>) -> Option<Travelling> {
    for turn in 0_u32.. {
        match from.try_recv() {
            Ok(here) => return Some(here),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if turn % 64 == 63 => thread::yield_now(),
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    None
}
