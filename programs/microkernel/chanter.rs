//! The same by threads of several processes, which call each other's objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_objects::{Continuation, Counter, ObjectError, Owner, Promise, Ref, conc, conc_for, object};

use super::serial::{self, compute, steps, values};
use super::{Row, Spec, Threads};
use crate::kit::{JobFailure, meet};

/// The object that threads fetch from.
#[derive(Debug)]
struct Data {
    x: u64,
    y: u64,
    z: u64,
}

#[object(remote)]
impl Data {
    #[method(read)]
    fn valx(&self) -> u64 {
        self.x
    }

    #[method(read)]
    fn valy(&self) -> u64 {
        self.y
    }

    #[method(read)]
    fn valz(&self) -> u64 {
        self.z
    }

    /// By Base: a context is made and queued where the object is, for each access.
    #[method(read)]
    async fn queued(&self, axis: u8) -> u64 {
        let value = [self.x, self.y, self.z][usize::from(axis % 3)];
        spawn(async move { value }).await.unwrap_or(0)
    }
}

/// The body of a process.
struct Worker {
    me: u32,
    in_a_microsecond: f64,
    /// One of each process.
    data: Vec<Ref<Data>>,
    over: Option<Continuation<()>>,
}

#[object(remote)]
impl Worker {
    /// Knows all objects.
    #[method(mut)]
    fn meet(&mut self, data: Vec<Ref<Data>>) {
        self.data = data;
    }

    /// The computations of all its threads, without threads: the sum, and nanoseconds.
    #[method(read)]
    async fn alone(&self, spec: Spec) -> (u64, u64) {
        let (me, count, speed) = (self.me, self.data.len() as u32, self.in_a_microsecond);
        // A thread of its own does it, so that this one goes on to serve requests.
        let alone = spawn(async move { serial::all(spec, me, count, speed) }).await;
        alone.map_or((0, 0), |(sum, elapsed)| (sum, elapsed.as_nanos() as u64))
    }

    /// Runs its threads: the sum.
    #[method(read)]
    async fn run(&self, spec: Spec) -> u64 {
        let job = Arc::new(Job {
            spec,
            me: self.me,
            in_a_microsecond: self.in_a_microsecond,
            data: self.data.clone(),
            sum: AtomicU64::new(0),
        });
        let main = spawn(async move {
            match spec.threads {
                Threads::Stack => by_calls(&job).await,
                Threads::Heap => by_contexts(&job).await,
            }
            job.sum.load(Ordering::Relaxed)
        });
        main.await.unwrap_or(0)
    }

    /// The job is over.
    #[method(mut)]
    fn finish(&mut self) {
        if let Some(over) = self.over.take() {
            let _ = over.fill(());
        }
    }
}

/// State that the threads of a process share.
struct Job {
    spec: Spec,
    me: u32,
    in_a_microsecond: f64,
    data: Vec<Ref<Data>>,
    sum: AtomicU64,
}

impl Job {
    fn object(&self, thread: u32) -> Ref<Data> {
        self.data[self.spec.from(self.me, thread, self.data.len() as u32) as usize]
    }

    fn compute(&self, thread: u32, values: [u64; 3]) {
        let value = compute(values, steps(self.spec, self.me, thread, self.in_a_microsecond));
        self.sum.fetch_add(value, Ordering::Relaxed);
    }
}

/// The paper's figure 3.
async fn work(job: &Job, thread: u32) -> Result<(), ObjectError> {
    let object = job.object(thread);
    conc! { x = object.valx(), y = object.valy(), z = object.valz() }
    job.compute(thread, [x?, y?, z?]);
    Ok(())
}

async fn by_calls(job: &Arc<Job>) {
    conc_for(0..job.spec.count, |thread| {
        let job = Arc::clone(job);
        async move { work(&job, thread).await.expect("the objects are there until the end") }
    })
    .await;
}

/// Runs by Base: each thread, and each access, is made and queued. A waiter for several of them waits once.
async fn by_contexts(job: &Arc<Job>) {
    let left = Counter::new(job.spec.count as usize);
    for thread in 0..job.spec.count {
        let (job, left) = (Arc::clone(job), left.clone());
        spawn(async move {
            let object = job.object(thread);
            let is_here = job.data[job.me as usize] == object;
            let access = |axis: u8| async move {
                if !is_here {
                    return object.queued(axis).await;
                }
                match axis {
                    0 => object.valx().await,
                    1 => object.valy().await,
                    _ => object.valz().await,
                }
            };
            let calls = [0, 1, 2].map(|axis| spawn(access(axis)));
            let mut values = [0; 3];
            for (value, call) in values.iter_mut().zip(calls) {
                *value = call.await.expect("it ends").expect("the objects are there until the end");
            }
            job.compute(thread, values);
            left.count_down();
        });
    }
    left.touch().await;
}

/// Calls all workers at once, and waits for all.
async fn of_all<R, F>(workers: &[Ref<Worker>], call: impl Fn(Ref<Worker>) -> F) -> Result<Vec<R>, JobFailure>
where
    R: Send + 'static,
    F: Future<Output = Result<R, ObjectError>> + Send + 'static,
{
    let Some((first, others)) = workers.split_first() else { return Ok(Vec::new()) };
    // The others first: this process may compute for long, and send nothing meanwhile.
    let calls: Vec<_> = others.iter().map(|worker| spawn(call(*worker))).collect();
    yield_now().await;
    yield_now().await;
    let mut answers = vec![spawn(call(*first)).await??];
    for call in calls {
        answers.push(call.await??);
    }
    Ok(answers)
}

/// A process of the job. The first one runs each of `specs` this number of times, and reports its results.
///
/// # Errors
/// If a process is lost, or a sum is wrong.
pub async fn process(
    here: &Process,
    specs: &[Spec],
    rounds: usize,
    pull: bool,
    mut found: impl FnMut(Row) -> Result<(), JobFailure>,
) -> Result<(), JobFailure> {
    let [x, y, z] = values(here.number());
    let data = Owner::new(Data { x, y, z });
    let (over, k) = Promise::new();
    let worker = Owner::new(Worker {
        me: here.number(),
        in_a_microsecond: serial::steps_in_a_microsecond(),
        data: Vec::new(),
        over: Some(k),
    });
    let Some(all) = meet(here, "microkernel", (worker.reference(), data.reference())).await? else {
        over.await?;
        return Ok(());
    };
    let workers: Vec<_> = all.iter().map(|(worker, _)| *worker).collect();
    let objects: Vec<_> = all.iter().map(|(_, data)| *data).collect();
    of_all(&workers, |worker| {
        let objects = objects.clone();
        async move { worker.meet(objects).await }
    })
    .await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = cores.min(workers.len()) as f64;
    for spec in specs {
        for _ in 0..rounds {
            let alone = of_all(&workers, |worker| {
                let spec = *spec;
                async move { worker.alone(spec).await }
            })
            .await?;
            let clock = Instant::now();
            let sums = of_all(&workers, |worker| {
                let spec = *spec;
                async move { worker.run(spec).await }
            })
            .await?;
            let elapsed_ns = clock.elapsed().as_nanos() as f64;
            for (process, ((sum, _), got)) in alone.iter().zip(&sums).enumerate() {
                if sum != got {
                    return Err(format!("{spec:?}: the sum of process {process} is {got}, not {sum}").into());
                }
            }
            // Processes that share a core were slower alone, too: each had its part of one.
            let useful_ns =
                alone.iter().map(|(_, ns)| *ns as f64).sum::<f64>() * at_once / workers.len() as f64;
            found(Row {
                spec: *spec,
                processes: here.count(),
                pull,
                useful_ns,
                elapsed_ns,
                efficiency: 100.0 * useful_ns / (elapsed_ns * at_once),
                checked: true,
            })?;
        }
    }
    of_all(&workers, |worker| async move { worker.finish().await }).await?;
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use chanter_cluster::local;

    use super::super::Pattern;
    use super::*;

    /// One process alone: its threads fetch here.
    pub(in super::super) fn a_job_of_one_process_checks_its_sums() {
        let machine = Machine::builder().vps(1).build().unwrap();
        let rows = machine.block_on(async {
            let here = local(1).remove(0);
            let mut specs = Vec::new();
            for threads in [Threads::Heap, Threads::Stack] {
                let pattern = Pattern::AllToAll;
                specs.push(Spec { threads, local: 40, pattern, grain: 10, deviation: 5, count: 60 });
            }
            let rows = Arc::new(std::sync::Mutex::new(Vec::new()));
            let said = Arc::clone(&rows);
            process(&here, &specs, 2, true, move |row| {
                said.lock().unwrap().push(row);
                Ok(())
            })
            .await
            .unwrap();
            std::mem::take(&mut *rows.lock().unwrap())
        });
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row: &Row| row.checked && row.efficiency > 0.0));
    }
}
