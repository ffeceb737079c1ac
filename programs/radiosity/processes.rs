//! The same in several processes. Each has all surfaces, and the threads of its own. The first process passes on to
//! all how surfaces are divided, and how bright they are. (The paper's program caches what it has fetched, too.)

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_objects::{Continuation, ObjectError, Owner, Promise, Ref, object};

use super::chanter::{World, collect, refine, resolve};
use super::scene::Scene;
use super::serial::surfaces;
use super::surface::{Code, Surface};
use super::{Accuracy, Plan, Solution};
use crate::kit::{JobFailure, Threads, V3, each, meet};

/// Divisions to be made, by surface.
type Asked = Vec<(u32, Vec<Code>)>;
/// How bright elements are, by surfaces.
type Lights = Vec<(u32, Vec<V3>)>;

/// The part of the work that a process has.
struct Domain {
    world: Arc<World>,
    /// Its own surfaces.
    own: Arc<Vec<usize>>,
    _owners: Vec<Owner<Surface>>,
    over: Option<Continuation<()>>,
}

/// Assignment of surfaces to processes: the largest first, each to the process that has least.
fn shared_out(scene: &Scene, processes: u32) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..scene.surfaces()).collect();
    order.sort_by(|a, b| scene.quads[*b].area().total_cmp(&scene.quads[*a].area()));
    let mut parts = vec![(0.0_f64, Vec::new()); processes as usize];
    for surface in order {
        if let Some(least) = parts.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)) {
            least.0 += scene.quads[surface].area();
            least.1.push(surface);
        }
    }
    parts
        .into_iter()
        .map(|(_, mut own)| {
            own.sort_unstable();
            own
        })
        .collect()
}

impl Domain {
    fn new(
        scene: Arc<Scene>,
        accuracy: Accuracy,
        threads: Threads,
        here: &Process,
        over: Continuation<()>,
    ) -> Self {
        let plan = Plan::of(&scene, accuracy);
        let own = shared_out(&scene, here.count()).swap_remove(here.number() as usize);
        let owners: Vec<_> = surfaces(&scene, plan).into_iter().map(Owner::new).collect();
        let surfaces = owners.iter().map(Owner::reference).collect();
        let world =
            World { scene, plan, surfaces, rays: AtomicU64::new(0), threads, progress: Arc::default() };
        Self { world: Arc::new(world), own: Arc::new(own), _owners: owners, over: Some(over) }
    }
}

/// Runs long work beside the server thread, which goes on serving.
async fn aside<R: Send + 'static>(
    work: impl Future<Output = Result<R, ObjectError>> + Send + 'static,
) -> Result<R, ObjectError> {
    spawn(work).await.map_err(|_| ObjectError::Unanswered)?
}

#[object(remote)]
impl Domain {
    /// Refines the links of its surfaces. Returns the divisions to make.
    #[method(read)]
    async fn refine(&self, round: usize) -> Result<Asked, ObjectError> {
        let (world, own) = (Arc::clone(&self.world), Arc::clone(&self.own));
        aside(async move {
            let blocks = world.plan.blocks;
            each(world.threads, own.len() * blocks, &world, |world, thread| {
                let number = own[thread / blocks];
                refine(world, number * blocks + thread % blocks, round)
            })
            .await;
            let mut asked = Vec::new();
            for (number, surface) in world.surfaces.iter().enumerate() {
                let codes = surface.asked().await?;
                if !codes.is_empty() {
                    asked.push((number as u32, codes));
                }
            }
            Ok(asked)
        })
        .await
    }

    /// Makes the divisions that any process has asked for.
    #[method(read)]
    async fn divide(&self, asked: Asked) -> Result<(), ObjectError> {
        let (world, own) = (Arc::clone(&self.world), Arc::clone(&self.own));
        aside(async move {
            for (number, codes) in asked {
                world.surfaces[number as usize].ask(codes).await?;
            }
            each(world.threads, world.surfaces.len(), &world, async |world: Arc<World>, number| {
                world.surfaces[number].divide().await
            })
            .await;
            each(world.threads, own.len(), &world, |world, at| resolve(world, own[at])).await;
            Ok(())
        })
        .await
    }

    /// Collects the light of its surfaces. Returns how bright they are then; the process itself sees that by [`see`](Self::see).
    #[method(read)]
    async fn bounce(&self) -> Result<Lights, ObjectError> {
        let (world, own) = (Arc::clone(&self.world), Arc::clone(&self.own));
        aside(async move {
            let lights = Owner::new(Lights::new());
            let to = lights.reference();
            each(world.threads, own.len(), &world, |world, at| {
                let number = own[at];
                async move {
                    let gathered = collect(&world, number).await?;
                    let light = world.surfaces[number].would_shine(gathered).await?;
                    to.with_mut(|lights| lights.push((number as u32, light))).await
                }
            })
            .await;
            to.with_mut(std::mem::take).await
        })
        .await
    }

    /// Sees how bright surfaces are.
    #[method(read)]
    async fn see(&self, lights: Lights) -> Result<(), ObjectError> {
        for (number, light) in lights {
            self.world.surfaces[number as usize].see(light).await?;
        }
        Ok(())
    }

    /// The job is over.
    #[method(mut)]
    fn finish(&mut self) {
        if let Some(over) = self.over.take() {
            let _ = over.fill(());
        }
    }
}

/// Calls all at once, and waits for all.
async fn of_all<R, F>(domains: &[Ref<Domain>], call: impl Fn(Ref<Domain>) -> F) -> Result<Vec<R>, JobFailure>
where
    R: Send + 'static,
    F: Future<Output = Result<Result<R, ObjectError>, ObjectError>> + Send + 'static,
{
    let Some((first, others)) = domains.split_first() else { return Ok(Vec::new()) };
    // The others first: this process may compute for long, and send nothing meanwhile.
    let calls: Vec<_> = others.iter().map(|domain| spawn(call(*domain))).collect();
    yield_now().await;
    yield_now().await;
    let mut answers = vec![spawn(call(*first)).await???];
    for call in calls {
        answers.push(call.await???);
    }
    Ok(answers)
}

/// A process of the job. The first one returns how long it has taken, once it has compared the light with the serial solution if
/// that is given.
///
/// # Errors
/// If a process is lost, or the light is another one.
pub async fn process(
    here: &Process,
    scene: Arc<Scene>,
    accuracy: Accuracy,
    threads: Threads,
    serial: Option<&Solution>,
) -> Result<Option<Duration>, JobFailure> {
    let (over, k) = Promise::new();
    let owner = Owner::new(Domain::new(scene, accuracy, threads, here, k));
    let Some(domains) = meet(here, "radiosity", owner.reference()).await? else {
        over.await?;
        return Ok(None);
    };
    let clock = Instant::now();
    let mut last = Lights::new();
    for round in 0..accuracy.rounds {
        let asked: Asked =
            of_all(&domains, |domain| async move { domain.refine(round).await }).await?.concat();
        of_all(&domains, |domain| {
            let asked = asked.clone();
            async move { domain.divide(asked).await }
        })
        .await?;
        for _ in 0..accuracy.bounces {
            last = of_all(&domains, |domain| async move { domain.bounce().await }).await?.concat();
            of_all(&domains, |domain| {
                let lights = last.clone();
                async move { domain.see(lights).await }
            })
            .await?;
        }
    }
    let elapsed = clock.elapsed();
    for domain in domains {
        domain.finish().await?;
    }
    if let Some(serial) = serial {
        last.sort_by_key(|(number, _)| *number);
        let same = last.iter().zip(&serial.surfaces).all(|((_, light), (view, _))| *light == *view.light);
        if !same || last.len() != serial.surfaces.len() {
            return Err("the light of the processes is not that of the serial solution".into());
        }
    }
    Ok(Some(elapsed))
}
