//! The same, without objects: rayon divides loops over surfaces and blocks.

use ::rayon::prelude::*;

use super::scene::Scene;
use super::serial::{refined, surfaces};
use super::surface::{Surface, View};
use super::transport::{Found, gather};
use super::{Accuracy, Plan, Solution};
use crate::kit::V3;

pub(super) fn run(scene: &Scene, accuracy: Accuracy) -> Solution {
    let plan = Plan::of(scene, accuracy);
    let mut surfaces = surfaces(scene, plan);
    let mut rays = 0;
    for round in 0..accuracy.rounds {
        let views: Vec<View> = surfaces.iter().map(Surface::view).collect();
        let threads = (0..surfaces.len() * plan.blocks).into_par_iter();
        let all: Vec<Found> = threads
            .map(|thread| {
                let (number, block) = (thread / plan.blocks, thread % plan.blocks);
                let before = surfaces[number].links(block);
                let view = |at: u32| views[at as usize].clone();
                refined(scene, plan, round, (number, block), &before, &views[number], view)
            })
            .collect();
        drop(views);
        for (thread, found) in all.into_iter().enumerate() {
            let (number, block) = (thread / plan.blocks, thread % plan.blocks);
            rays += found.rays;
            surfaces[number].link(block, found.links);
            surfaces[number].ask(found.own);
            found.others.into_iter().for_each(|(other, code)| surfaces[other as usize].ask(vec![code]));
        }
        surfaces.par_iter_mut().for_each(Surface::divide);
        let shapes: Vec<_> = surfaces.iter().map(|surface| surface.view().shape).collect();
        surfaces.par_iter_mut().for_each(|surface| surface.resolve(shapes.clone()));
        drop(shapes);
        for _ in 0..accuracy.bounces {
            let views: Vec<View> = surfaces.iter().map(Surface::view).collect();
            let gathered: Vec<Vec<V3>> = surfaces
                .par_iter()
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
            surfaces.par_iter_mut().zip(gathered).for_each(|(surface, gathered)| surface.shine(gathered));
        }
    }
    let all = surfaces.iter().map(|surface| (surface.view(), surface.all_links()));
    Solution::new(all.collect(), rays)
}
