//! Measures calls on objects of other processes. It compares a call with the cluster's own, and a continuation that
//! is forwarded past the middle with an answer that returns through it. Microseconds, the best and the median of
//! alternated rounds. (Concert, sections 4.1.2 and 4.2.2.)
//!
//! `chanter launch -n 3 target/release/examples/afar [CALLS]`, or alone: then the processes lie in one.

use std::error::Error;
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Process, local, service};
use chanter_objects::remote::enter;
use chanter_objects::{Lazy, ObjectError, Owner, Ref, object};

type Failure = Box<dyn Error + Send + Sync>;

struct Stage {
    value: u64,
    next: Option<Ref<Stage>>,
}

#[object(remote)]
impl Stage {
    #[method(read)]
    fn value(&self, add: u64) -> u64 {
        self.value + add
    }

    /// The last one answers the first caller.
    #[method(read)]
    async fn forwarded(&self, add: u64, k: Lazy<'_, u64>) {
        match self.next {
            Some(next) => k.forward_boxed(next.forwarded(add)).await,
            None => k.fill(self.value + add),
        }
    }

    /// The answer comes back through all.
    #[method(read)]
    async fn through(&self, add: u64) -> Result<u64, ObjectError> {
        match self.next {
            Some(next) => Box::pin(next.through(add).into_future()).await?,
            None => Ok(self.value + add),
        }
    }
}

#[service]
async fn value(add: u64) -> u64 {
    1 + add
}

const STAGE: u32 = 1;
const ENDED: u32 = 2;
const ROUNDS: usize = 21;

/// Times a round of calls. Returns the microseconds of one call.
macro_rules! round {
    ($figure:expr, $calls:expr, |$add:ident| $call:expr) => {{
        let begun = Instant::now();
        for $add in 0..$calls {
            assert_eq!($call, 1 + $add);
        }
        $figure.costs.push(begun.elapsed().as_secs_f64() * 1e6 / $calls as f64);
    }};
}

/// One of the figures.
#[derive(Default)]
struct Figure {
    costs: Vec<f64>,
}

impl Figure {
    fn best(&self) -> f64 {
        self.costs.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self) -> f64 {
        let mut costs = self.costs.clone();
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    }
}

fn print(name: &str, figure: &Figure, over: Option<(&str, &Figure)>) {
    print!("{name:>36} {:8.2} {:8.2}", figure.best(), figure.median());
    match over {
        Some((name, over)) => {
            println!(
                "   {:5.2} {:5.2} x {name}",
                figure.best() / over.best(),
                figure.median() / over.median()
            );
        }
        None => println!(),
    }
}

/// The first process: calls.
async fn call(here: &Process, calls: u64, first: Ref<Stage>, last: Ref<Stage>) {
    let [mut service, mut object, mut forwarded, mut through] = <[Figure; 4]>::default();
    let at = here.at(1);
    for _ in 0..ROUNDS {
        round!(service, calls, |add| at.call(value(add)).await.unwrap());
        round!(object, calls, |add| last.value(add).await.unwrap());
        if here.count() > 2 {
            round!(forwarded, calls, |add| first.forwarded(add).await.unwrap());
            round!(through, calls, |add| first.through(add).await.unwrap().unwrap());
        }
    }
    println!("{:>36} {:>8} {:>8}", "us a call", "best", "median");
    print("call of a service", &service, None);
    print("call of an object", &object, Some(("call of a service", &service)));
    if here.count() > 2 {
        print("through the middle", &through, None);
        print("forwarded past the middle", &forwarded, Some(("through the middle", &through)));
    }
}

/// The processes from the second on: each has a stage, the second's is the first of two if there is a third.
async fn process(here: Process, calls: u64) -> Result<(), Failure> {
    let me = here.open("stage")?;
    if here.number() == 0 {
        let first = me.recv::<[Ref<Stage>; 2]>(ANYONE, STAGE).await?.value;
        call(&here, calls, first[0], first[1]).await;
        for other in 1..here.count() {
            let other = here.lookup(&format!("stage@{other}")).await?;
            me.send(other, ENDED, &()).await?;
        }
        return Ok(());
    }
    let is_last = here.number() + 1 == here.count();
    let next = if is_last { None } else { Some(me.recv::<[Ref<Stage>; 2]>(ANYONE, STAGE).await?.value) };
    let mine = Owner::new(Stage { value: 1, next: next.map(|next| next[0]) });
    let before = here.lookup(&format!("stage@{}", here.number() - 1)).await?;
    let near = Owner::new(Stage { value: 1, next: None });
    me.send(before, STAGE, &[mine.reference(), near.reference()]).await?;
    me.recv::<()>(ANYONE, ENDED).await?;
    Ok(())
}

#[chanter_cluster::main]
async fn main(here: Process) -> Result<(), Failure> {
    let calls = std::env::args().nth(1).map_or(Ok(200), |calls| calls.parse())?;
    if here.count() > 1 {
        return process(here, calls).await;
    }
    let mut processes = local(3).into_iter();
    let first = processes.next().expect("there are three");
    let others = processes.map(|here| spawn(enter(&here.clone(), process(here, calls))));
    let others: Vec<_> = others.collect();
    enter(&first.clone(), process(first, calls)).await?;
    for other in others {
        other.join().await??;
    }
    Ok(())
}
