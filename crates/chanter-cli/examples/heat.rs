//! Heat spreads over a plate, whose rows are divided among the processes; each exchanges its outer rows with its neighbours
//! while it computes the inner ones. Process 0 collects the plate and compares it with one that was computed alone:
//! `chanter launch -n 2 target/release/examples/heat [SIDE] [STEPS]`.
//!
//! With as many processes as there are processors, and a plate that is not small, it is almost as many times as fast as one thread.
//! With more processes it gets slower again: a process that waits for its neighbour takes the processor from it.

use std::error::Error;
use std::ops::Range;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use chanter_cluster::{Inbox, Irecv, Plain, Process, ThreadName, waitall};

const FROM_ABOVE: u32 = 1;
const FROM_BELOW: u32 = 2;
const RESULT: u32 = 3;

type Failure = Box<dyn Error + Send + Sync>;

/// Rows of a plate, with one more above and below that belong to others, or to the edge, which stays as it is.
#[derive(Clone, PartialEq, Debug)]
struct Plate {
    side: usize,
    cells: Vec<f64>,
}

impl Plate {
    /// Those rows of a plate whose upper edge is hot.
    fn new(side: usize, rows: Range<usize>) -> Self {
        let mut cells = vec![0.0; side * (rows.len() + 2)];
        if rows.start == 0 {
            cells[..side].fill(100.0);
        }
        Self { side, cells }
    }

    /// Its rows, without those of others.
    fn rows(&self) -> usize {
        self.cells.len() / self.side - 2
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.side..(row + 1) * self.side]
    }

    fn set(&mut self, row: usize, cells: &[f64]) {
        let at = row * self.side;
        self.cells[at..at + self.side].copy_from_slice(cells);
    }

    /// The next state of a row: each cell is the mean of its neighbours.
    fn step(&self, next: &mut Self, row: usize) {
        let (above, same, below) = (self.row(row - 1), self.row(row), self.row(row + 1));
        let to = &mut next.cells[row * self.side..(row + 1) * self.side];
        for at in 1..self.side - 1 {
            to[at] = 0.25 * (above[at] + below[at] + same[at - 1] + same[at + 1]);
        }
    }
}

/// The whole plate, by one thread.
fn alone(side: usize, steps: usize) -> Plate {
    let mut plate = Plate::new(side, 0..side);
    let mut next = plate.clone();
    for _ in 0..steps {
        (1..=side).for_each(|row| plate.step(&mut next, row));
        std::mem::swap(&mut plate, &mut next);
    }
    plate
}

/// This process's part, after all steps.
async fn part(
    me: &Inbox,
    above: Option<ThreadName>,
    below: Option<ThreadName>,
    mut plate: Plate,
    steps: usize,
) -> Result<Plate, Failure> {
    let mut next = plate.clone();
    let last = plate.rows();
    for _ in 0..steps {
        let halos: Vec<(usize, Irecv<Plain<f64>>)> = [(above, 0, FROM_ABOVE), (below, last + 1, FROM_BELOW)]
            .into_iter()
            .filter_map(|(from, row, tag)| Some((row, me.irecv(from?, tag))))
            .collect();
        if let Some(above) = above {
            me.send(above, FROM_BELOW, &Plain(plate.row(1).to_vec())).await?;
        }
        if let Some(below) = below {
            me.send(below, FROM_ABOVE, &Plain(plate.row(last).to_vec())).await?;
        }
        (2..last).for_each(|row| plate.step(&mut next, row));
        let (rows, halos): (Vec<_>, Vec<_>) = halos.into_iter().unzip();
        for (at, halo) in waitall(halos).await? {
            plate.set(rows[at], &halo.value.0);
        }
        plate.step(&mut next, 1);
        plate.step(&mut next, last);
        // Rows of others, and edges, are as they were.
        next.set(0, plate.row(0));
        next.set(last + 1, plate.row(last + 1));
        std::mem::swap(&mut plate, &mut next);
    }
    Ok(plate)
}

/// The body of each process.
pub(crate) async fn process(here: &Process) -> Result<(), Failure> {
    let argument = |at, default| std::env::args().nth(at).map_or(Ok(default), |text| text.parse::<usize>());
    // A build without optimisation is a test, and no measurement.
    let usual = if cfg!(debug_assertions) { 256 } else { 1024 };
    let (side, steps) = (argument(1, usual)?, argument(2, 500)?);
    let (number, count) = (here.number() as usize, here.count() as usize);
    assert!(side >= 2 * count, "each process needs two rows");
    let me = here.open("heat")?;
    let mut names = Vec::new();
    for process in 0..count {
        names.push(here.lookup(&format!("heat@{process}")).await?);
    }
    let rows = |process: usize| side * process / count..side * (process + 1) / count;
    let above = number.checked_sub(1).map(|above| names[above]);
    let clock = Instant::now();
    let plate =
        part(&me, above, names.get(number + 1).copied(), Plate::new(side, rows(number)), steps).await?;
    let took = clock.elapsed();
    let own = &plate.cells[side..side * (plate.rows() + 1)];
    if number > 0 {
        for row in own.chunks(side) {
            me.send(names[0], RESULT, &Plain(row.to_vec())).await?;
        }
    } else {
        let mut whole = Plate::new(side, 0..side);
        own.chunks(side).enumerate().for_each(|(row, cells)| whole.set(row + 1, cells));
        for (process, name) in names.iter().enumerate().skip(1) {
            for row in rows(process) {
                whole.set(row + 1, &me.recv::<Plain<f64>>(*name, RESULT).await?.value.0);
            }
        }
        let clock = Instant::now();
        assert!(whole == alone(side, steps), "the processes and one alone have computed different plates");
        println!(
            "{side} x {side} cells, {steps} steps: {}; the same, bit for bit",
            gain(took, clock.elapsed(), count)
        );
    }
    Ok(())
}

/// Prints the measured speedup of the processes, and the expected one.
fn gain(took: Duration, alone: Duration, count: usize) -> String {
    let ratio = alone.as_secs_f64() / took.as_secs_f64();
    let cores = available_parallelism().map_or(1, usize::from);
    let expected = match count {
        1 => "one process gains nothing".to_owned(),
        _ if count > cores => {
            format!("{count} processes on {cores} processors wait for each other: try {cores}")
        }
        _ => format!("up to {count} times was to be expected, of a large plate on an idle machine"),
    };
    format!(
        "{took:.1?} in {count} processes, {alone:.1?} by one thread: {ratio:.1} times as fast ({expected})"
    )
}

#[chanter_cluster::main]
async fn main(here: Process) -> Result<(), Failure> {
    process(&here).await
}
