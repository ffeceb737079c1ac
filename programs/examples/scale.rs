//! Runs one row of what more processors bring: `cargo run --profile figures -p chanter-programs --example scale -- pairs-8/hosts 2 [SIZE] [TIMES]`.
//! Without arguments it lists them. Built with `--cfg op_count`, it also says what the library's atomics have counted.

use std::error::Error;

use chanter_programs::scale::{ROWS, find};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, vps, rest @ ..] = args.as_slice() else {
        ROWS.iter()
            .for_each(|row| println!("{:26} {} of them, each a {}", row.name, row.size, row.operation));
        return Ok(());
    };
    let row = find(name).ok_or("no such row")?;
    let size = rest.first().map_or(Ok(row.size), |size| size.parse())?;
    for _ in 0..rest.get(1).map_or(Ok(1), |times| times.parse())? {
        let timed = row.run(vps.parse()?, size)?;
        let seconds = timed.elapsed.as_secs_f64();
        println!("{seconds:.6} s, {:.1} ns a {}", seconds * 1e9 / timed.operations as f64, row.operation);
        if std::env::var_os("STATS").is_some() {
            println!("{:?}", timed.stats);
        }
        #[cfg(op_count)]
        print_tally(timed.operations);
    }
    Ok(())
}

/// Prints one line for the operations, and one for each place that wrote a word that another OS thread had written
/// last.
#[cfg(op_count)]
fn print_tally(operations: u64) {
    let tally = chanter::base::op_count::take();
    println!(
        "operations {operations} read-modify-writes {} shared {} fences {}",
        tally.read_modify_writes, tally.shared, tally.fences
    );
    tally.words.iter().for_each(|(place, count)| println!("word {place} {count}"));
}
