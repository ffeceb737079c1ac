//! One surface after the other.

use super::scene::Scene;
use super::surface::{Links, Surface, View};
use super::transport::{Refining, gather};
use super::{Accuracy, Plan, Solution};
use crate::kit::V3;

pub(super) fn surfaces(scene: &Scene, plan: Plan) -> Vec<Surface> {
    std::iter::zip(&scene.quads, &scene.paints)
        .map(|(quad, paint)| Surface::new(*quad, *paint, plan.blocks))
        .collect()
}

pub(super) fn run(scene: &Scene, accuracy: Accuracy) -> Solution {
    let plan = Plan::of(scene, accuracy);
    let mut surfaces = surfaces(scene, plan);
    let mut rays = 0;
    for round in 0..accuracy.rounds {
        let views: Vec<View> = surfaces.iter().map(Surface::view).collect();
        for number in 0..surfaces.len() {
            for block in 0..plan.blocks {
                let before = surfaces[number].links(block);
                let found = refined(scene, plan, round, (number, block), &before, &views[number], |at| {
                    views[at as usize].clone()
                });
                rays += found.rays;
                surfaces[number].link(block, found.links);
                surfaces[number].ask(found.own);
                found.others.into_iter().for_each(|(other, code)| surfaces[other as usize].ask(vec![code]));
            }
        }
        drop(views);
        surfaces.iter_mut().for_each(Surface::divide);
        let shapes: Vec<_> = surfaces.iter().map(|surface| surface.view().shape).collect();
        surfaces.iter_mut().for_each(|surface| surface.resolve(shapes.clone()));
        drop(shapes);
        for _ in 0..accuracy.bounces {
            let views: Vec<View> = surfaces.iter().map(Surface::view).collect();
            let gathered: Vec<Vec<V3>> = surfaces
                .iter()
                .zip(&views)
                .map(|(surface, view)| {
                    let mut gathered = vec![V3::ZERO; view.light.len()];
                    for links in surface.all_links() {
                        gather(&mut gathered, &links, |at| &views[at as usize].light);
                    }
                    gathered
                })
                .collect();
            drop(views);
            surfaces.iter_mut().zip(gathered).for_each(|(surface, gathered)| surface.shine(gathered));
        }
    }
    let all = surfaces.iter().map(|surface| (surface.view(), surface.all_links()));
    Solution::new(all.collect::<Vec<(View, Vec<Links>)>>(), rays)
}

/// The links of a surface with a block of others. `view` holds the facts about these.
pub(super) fn refined(
    scene: &Scene,
    plan: Plan,
    round: usize,
    (number, block): (usize, usize),
    before: &Links,
    own: &View,
    mut view: impl FnMut(u32) -> View,
) -> super::transport::Found {
    let mut refining = Refining { scene, plan, own, number: number as u32, found: Default::default() };
    if round == 0 {
        for other in plan.block(block).filter(|other| *other != number) {
            let view = view(other as u32);
            refining.begin(other as u32, &view);
        }
        return refining.found.finish();
    }
    let mut known: Option<(u32, View)> = None;
    for link in before.iter() {
        if known.as_ref().is_none_or(|(surface, _)| *surface != link.surface) {
            known = Some((link.surface, view(link.surface)));
        }
        if let Some((_, view)) = &known {
            refining.again(link, view);
        }
    }
    refining.found.finish()
}
