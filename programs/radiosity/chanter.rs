//! A surface is an object. Each round's work is a thread for each surface and block of others, and in it a thread for
//! each interaction of two parts. Threads read the parts from the objects, compute the visibility, and call the
//! objects with the result.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chanter_cluster::group::Group;
use chanter_objects::{ObjectError, Owner};

use super::scene::Scene;
use super::serial::surfaces;
use super::surface::{Surface, View, WHOLE};
use super::transport::{Exchange, Found, Larger, Part};
use super::{Accuracy, Plan, Progress, Solution};
use crate::kit::{JobFailure, Place, Threads, V3, all, each};

/// State that all threads of a process share.
pub(super) struct World {
    pub(super) scene: Arc<Scene>,
    pub(super) plan: Plan,
    /// All surfaces.
    pub(super) places: Vec<Place<Surface>>,
    /// Its own ones.
    pub(super) own: Vec<usize>,
    pub(super) rays: AtomicU64,
    /// How the threads of surfaces are run.
    pub(super) threads: Threads,
    /// How the threads in these, and accesses, are run.
    pub(super) inner: Threads,
    pub(super) progress: Arc<Progress>,
}

/// Reads a surface, as it is in a version.
async fn read<R: Send + 'static>(
    world: &World,
    version: u32,
    number: usize,
    what: impl Fn(&View) -> R + Send + Sync + 'static,
) -> Result<R, ObjectError> {
    world.places[number].read(world.inner, version, what).await
}

/// Reads several surfaces at a time, so that a thread waits once for all copies that are too old.
async fn read_all<R: Send + 'static>(
    world: &Arc<World>,
    version: u32,
    surfaces: Range<usize>,
    what: impl Fn(&View) -> R + Copy + Send + Sync + 'static,
) -> Result<Vec<R>, ObjectError> {
    let read = |number| {
        let world = Arc::clone(world);
        Box::pin(async move { read(&world, version, number, what).await })
    };
    all(world.inner, surfaces.map(read)).await.into_iter().collect()
}

/// A thread's work: links of one surface, in a version of all.
#[derive(Clone)]
struct Job {
    world: Arc<World>,
    version: u32,
    number: usize,
}

/// A thread that finds what goes from one part to another. It is in a box, as a future that awaits its like must be.
type Interaction = Pin<Box<dyn Future<Output = Result<Found, ObjectError>> + Send>>;

impl Job {
    fn interact(&self, to: Part, from: Part) -> Interaction {
        let job = self.clone();
        Box::pin(async move {
            let mut found = Found::default();
            match job.world.plan.exchange(&job.world.scene, &to, &from, &mut found.rays) {
                Exchange::Nothing => (),
                Exchange::Known(link) => found.links.push(link),
                Exchange::Divided(larger) => job.divide(larger, to, from, &mut found).await?,
            }
            Ok(found)
        })
    }

    /// Divides the larger part: a thread for each of its quarters.
    async fn divide(
        &self,
        larger: Larger,
        to: Part,
        from: Part,
        found: &mut Found,
    ) -> Result<(), ObjectError> {
        found.divided(larger, (&to, &from));
        let threads = match larger {
            Larger::To => {
                let of = self.read(self.number, move |view| view.quarters(&to)).await?;
                of.map(|to| self.interact(to, from))
            }
            Larger::From => {
                let of = self.read(from.surface as usize, move |view| view.quarters(&from)).await?;
                of.map(|from| self.interact(to, from))
            }
        };
        for of_one in all(self.world.inner, threads).await {
            found.append(of_one?);
        }
        Ok(())
    }

    async fn read<R: Send + 'static>(
        &self,
        number: usize,
        what: impl Fn(&View) -> R + Send + Sync + 'static,
    ) -> Result<R, ObjectError> {
        read(&self.world, self.version, number, what).await
    }

    async fn part(&self, surface: usize, code: u64) -> Result<Part, ObjectError> {
        self.read(surface, move |view| view.part(surface as u32, code)).await
    }

    /// The links with a block of other surfaces, none of which is linked yet.
    async fn begin(&self, block: usize) -> Result<Found, ObjectError> {
        let mut found = Found::default();
        for other in self.world.plan.block(block).filter(|other| *other != self.number) {
            let (to, from) = (self.part(self.number, WHOLE).await?, self.part(other, WHOLE).await?);
            found.append(self.interact(to, from).await?);
        }
        Ok(found)
    }

    /// The links with a block of others, from those that there are.
    async fn again(&self, block: usize) -> Result<Found, ObjectError> {
        let before = self.world.places[self.number].object().links(block).await?;
        read_all(&self.world, self.version, self.world.plan.block(block), |_| ()).await?;
        let mut found = Found::default();
        found.links.reserve(before.len());
        for link in before.iter() {
            let (other, at) = (link.surface as usize, link.from.1 as usize);
            let bright = self.read(other, move |view| view.bright(at)).await?;
            if !self.world.plan.is_accurate(link, bright) {
                let to = self.part(self.number, link.to.0).await?;
                let from = self.part(other, link.from.0).await?;
                if let Some(larger) = self.world.plan.larger(&to, &from) {
                    self.divide(larger, to, from, &mut found).await?;
                    continue;
                }
            }
            found.links.push(link.clone());
        }
        Ok(found)
    }
}

/// The links of one surface with a block of others.
async fn refine(world: Arc<World>, thread: usize, round: usize, version: u32) -> Result<(), ObjectError> {
    let blocks = world.plan.blocks;
    let (number, block) = (world.own[thread / blocks], thread % blocks);
    let job = Job { world: Arc::clone(&world), version, number };
    let found = if round == 0 { job.begin(block).await? } else { job.again(block).await? }.finish();
    world.rays.fetch_add(found.rays, Ordering::Relaxed);
    let own = world.places[number].object();
    own.link(block, found.links).await?;
    own.ask(found.own).await?;
    for of_one in found.others.chunk_by(|a, b| a.0 == b.0) {
        let codes = of_one.iter().map(|(_, code)| *code).collect();
        world.places[of_one[0].0 as usize].object().ask(codes).await?;
    }
    world.progress.one_more();
    Ok(())
}

/// Finds the elements of a surface's links, once all surfaces are divided.
async fn resolve(world: Arc<World>, number: usize, version: u32) -> Result<(), ObjectError> {
    let shapes = read_all(&world, version, 0..world.places.len(), |view| Arc::clone(&view.shape)).await?;
    world.places[number].object().resolve(shapes).await
}

/// Collects the light that comes to a surface in a version, which makes the next version of it. Each link reads the
/// part from which light comes.
async fn bounce(world: Arc<World>, number: usize, version: u32) -> Result<(), ObjectError> {
    let own = world.places[number].object();
    let links = own.all_links().await?;
    read_all(&world, version, 0..world.places.len(), |_| ()).await?;
    let elements = read(&world, version, number, |view| view.light.len()).await?;
    let mut gathered = vec![V3::ZERO; elements];
    for link in links.iter().flat_map(|links| links.iter()) {
        let (from, at) = (link.surface as usize, link.from.1 as usize);
        gathered[link.to.1 as usize] +=
            read(&world, version, from, move |view| view.light[at]).await? * link.factor;
    }
    drop(links);
    own.shine(gathered).await
}

impl World {
    /// All rounds. Between phases, processes wait for each other.
    pub(super) async fn rounds(
        self: &Arc<Self>,
        mut group: Option<Group>,
    ) -> Result<Option<Group>, JobFailure> {
        let (plan, own) = (self.plan, self.own.len());
        let mut version = 0;
        for round in 0..plan.accuracy.rounds {
            self.progress.begins(round, own * plan.blocks);
            each(self.threads, own * plan.blocks, self, move |world, thread| {
                refine(world, thread, round, version)
            })
            .await;
            meet(&mut group).await?;
            each(self.threads, own, self, async |world: Arc<Self>, at| {
                world.places[world.own[at]].object().divide().await
            })
            .await;
            version += 1;
            meet(&mut group).await?;
            each(self.threads, own, self, move |world, at| {
                let number = world.own[at];
                resolve(world, number, version)
            })
            .await;
            for _ in 0..plan.accuracy.bounces {
                each(self.threads, own, self, move |world, at| {
                    let number = world.own[at];
                    bounce(world, number, version)
                })
                .await;
                version += 1;
                meet(&mut group).await?;
            }
        }
        Ok(group)
    }

    /// The light of a surface at the end.
    pub(super) async fn light(self: &Arc<Self>, number: usize) -> Result<Arc<Vec<V3>>, ObjectError> {
        let Accuracy { rounds, bounces, .. } = self.plan.accuracy;
        read(self, (rounds * (1 + bounces)) as u32, number, |view| Arc::clone(&view.light)).await
    }
}

/// Waits for the other processes.
async fn meet(group: &mut Option<Group>) -> Result<(), JobFailure> {
    match group {
        Some(group) => Ok(group.barrier().await?),
        None => Ok(()),
    }
}

pub(super) async fn run(
    scene: Arc<Scene>,
    accuracy: Accuracy,
    progress: Arc<Progress>,
) -> Result<Solution, JobFailure> {
    let plan = Plan::of(&scene, accuracy);
    let owners: Vec<_> = surfaces(&scene, plan).into_iter().map(Owner::new).collect();
    let world = Arc::new(World {
        scene,
        plan,
        places: owners.iter().map(|owner| Place::Here(owner.reference())).collect(),
        own: (0..owners.len()).collect(),
        rays: AtomicU64::new(0),
        threads: Threads::for_long_ones(),
        inner: Threads::Stack,
        progress,
    });
    world.rounds(None).await?;
    let mut all = Vec::with_capacity(owners.len());
    for owner in &owners {
        let surface = owner.reference();
        all.push((surface.view().await?, surface.all_links().await?));
    }
    Ok(Solution::new(all, world.rays.load(Ordering::Relaxed)))
}
