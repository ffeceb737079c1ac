//! A surface is an object. Each round's work is a thread for each surface and block of others. It takes its input
//! from the objects, computes the visibility, and calls them with the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chanter_objects::{ObjectError, Owner, Ref, conc};

use super::scene::Scene;
use super::serial::{refined, surfaces};
use super::surface::{Surface, View};
use super::transport::gather;
use super::{Accuracy, Plan, Progress, Solution};
use crate::kit::{Threads, V3, each};

pub(super) struct World {
    pub(super) scene: Arc<Scene>,
    pub(super) plan: Plan,
    pub(super) surfaces: Vec<Ref<Surface>>,
    pub(super) rays: AtomicU64,
    pub(super) threads: Threads,
    pub(super) progress: Arc<Progress>,
}

/// The links of one surface with a block of others.
pub(super) async fn refine(world: Arc<World>, thread: usize, round: usize) -> Result<(), ObjectError> {
    let (number, block) = (thread / world.plan.blocks, thread % world.plan.blocks);
    let own = world.surfaces[number];
    conc! { view = own.view(), links = own.links(block) }
    let (view, links) = (view?, links?);
    let others = world.plan.block(block);
    let first = others.start;
    let mut views = Vec::with_capacity(others.len());
    for other in others {
        views.push(world.surfaces[other].view().await?);
    }
    let found = refined(&world.scene, world.plan, round, (number, block), &links, &view, |at| {
        views[at as usize - first].clone()
    });
    drop((view, views, links));
    world.rays.fetch_add(found.rays, Ordering::Relaxed);
    own.link(block, found.links).await?;
    own.ask(found.own).await?;
    for of_one in found.others.chunk_by(|a, b| a.0 == b.0) {
        let codes = of_one.iter().map(|(_, code)| *code).collect();
        world.surfaces[of_one[0].0 as usize].ask(codes).await?;
    }
    world.progress.one_more();
    Ok(())
}

pub(super) async fn resolve(world: Arc<World>, number: usize) -> Result<(), ObjectError> {
    let mut shapes = Vec::with_capacity(world.surfaces.len());
    for other in &world.surfaces {
        shapes.push(Some(other.view().await?.shape));
    }
    world.surfaces[number].resolve(shapes).await
}

/// Light that comes to a surface. (It shines when all have looked at it as it was.)
pub(super) async fn collect(world: &World, number: usize) -> Result<Vec<V3>, ObjectError> {
    let own = world.surfaces[number];
    conc! { view = own.view(), links = own.all_links() }
    let mut gathered = vec![V3::ZERO; view?.light.len()];
    let links = links?;
    let mut views: Vec<Option<View>> = vec![None; world.surfaces.len()];
    for link in links.iter().flat_map(|links| links.chunk_by(|a, b| a.surface == b.surface)) {
        let at = link[0].surface as usize;
        if views[at].is_none() {
            views[at] = Some(world.surfaces[at].view().await?);
        }
    }
    for links in links {
        gather(&mut gathered, &links, |at| views[at as usize].as_ref().map_or(&[], |view| &view.light[..]));
    }
    Ok(gathered)
}

pub(super) async fn run(
    scene: Arc<Scene>,
    accuracy: Accuracy,
    progress: Arc<Progress>,
) -> Result<Solution, ObjectError> {
    let plan = Plan::of(&scene, accuracy);
    let owners: Vec<_> = surfaces(&scene, plan).into_iter().map(Owner::new).collect();
    let count = owners.len();
    // Light that has come to each, until all have looked.
    let boxes: Vec<_> = (0..count).map(|_| Owner::new(Vec::<V3>::new())).collect();
    let came: Arc<[Ref<Vec<V3>>]> = boxes.iter().map(Owner::reference).collect();
    let surfaces = owners.iter().map(Owner::reference).collect();
    let (rays, threads) = (AtomicU64::new(0), Threads::for_long_ones());
    let world = Arc::new(World { scene, plan, surfaces, rays, threads, progress });
    for round in 0..accuracy.rounds {
        world.progress.begins(round, count * plan.blocks);
        each(world.threads, count * plan.blocks, &world, move |world, thread| refine(world, thread, round))
            .await;
        each(world.threads, count, &world, async |world: Arc<World>, number| {
            world.surfaces[number].divide().await
        })
        .await;
        each(world.threads, count, &world, resolve).await;
        for _ in 0..accuracy.bounces {
            let to = Arc::clone(&came);
            each(world.threads, count, &world, move |world, number| {
                let to = to[number];
                async move {
                    let gathered = collect(&world, number).await?;
                    to.with_mut(|came| *came = gathered).await
                }
            })
            .await;
            let to = Arc::clone(&came);
            each(world.threads, count, &world, move |world, number| {
                let to = to[number];
                async move {
                    let gathered = to.with_mut(std::mem::take).await?;
                    world.surfaces[number].shine(gathered).await
                }
            })
            .await;
        }
    }
    let mut all = Vec::with_capacity(count);
    for surface in &world.surfaces {
        all.push((surface.view().await?, surface.all_links().await?));
    }
    Ok(Solution::new(all, world.rays.load(Ordering::Relaxed)))
}
