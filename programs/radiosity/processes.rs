//! The same in several processes. Each owns some of the surfaces, and runs their threads. It calls the surfaces of
//! others through references, and reads them through copies.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use chanter_cluster::Process;
use chanter_cluster::group::Group;
use chanter_objects::{Owner, Ref};

use super::chanter::World;
use super::scene::Scene;
use super::surface::{Surface, View};
use super::{Accuracy, Plan, Solution};
use crate::kit::{JobFailure, Place, Threads};

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
    let plan = Plan::of(&scene, accuracy);
    let own = shared_out(&scene, here.count()).swap_remove(here.number() as usize);
    let new =
        |number: &usize| Owner::new(Surface::new(scene.quads[*number], scene.paints[*number], plan.blocks));
    let owners: Vec<_> = own.iter().map(new).collect();
    let mut group = Group::of(here, "radiosity", here.number(), here.count()).await?;
    let mine: Vec<_> = own.iter().zip(&owners).map(|(number, owner)| (*number, owner.reference())).collect();
    let mut surfaces: Vec<(usize, Ref<Surface>)> = group.all_gather(mine).await?.concat();
    surfaces.sort_unstable_by_key(|(number, _)| *number);
    let mut copies = Vec::new();
    let place = |(number, surface): (usize, Ref<Surface>)| {
        if own.binary_search(&number).is_ok() {
            return Place::Here(surface);
        }
        let view = View::new(scene.quads[number], scene.paints[number]);
        let (place, copy) = Place::copied(surface, 0, view);
        copies.push(copy);
        place
    };
    let places = surfaces.into_iter().map(place).collect();
    let (rays, progress) = (AtomicU64::new(0), Arc::default());
    let world = Arc::new(World { scene, plan, places, own, rays, threads, inner: threads, progress });
    let clock = Instant::now();
    let group = world.rounds(Some(group)).await?;
    let elapsed = clock.elapsed();
    let mut is_same = true;
    if let Some(serial) = serial {
        for (number, (view, _)) in serial.surfaces.iter().enumerate() {
            is_same &= world.light(number).await? == view.light;
        }
    }
    // Surfaces last until the first process has read them.
    if let Some(mut group) = group {
        group.barrier().await?;
    }
    match is_same {
        true => Ok((here.number() == 0).then_some(elapsed)),
        false => Err("the light of the processes is not that of the serial solution".into()),
    }
}
