//! One surface after the other.

use super::scene::Scene;
use super::surface::{Links, Shape, Surface, View};
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
        let shapes: Vec<_> = surfaces.iter().map(|surface| Some(surface.view().shape)).collect();
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

/// The links of a surface with a block of others. `view` tells what is known of these.
pub(super) fn refined(
    scene: &Scene,
    plan: Plan,
    round: usize,
    (number, block): (usize, usize),
    before: &Links,
    own: &View,
    mut view: impl FnMut(u32) -> View,
) -> super::transport::Found {
    let mut refining = Refining {
        scene,
        most: plan.most,
        accuracy: plan.accuracy,
        own,
        number: number as u32,
        found: Default::default(),
    };
    if round == 0 {
        for other in plan.block(block).filter(|other| *other != number) {
            let view = view(other as u32);
            refining.begin(other as u32, &view);
        }
        return refining.finish();
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
    refining.finish()
}

/// Light by parts that are all as small, each of which sees each: what the hierarchy is checked with. The mean radiosity of
/// each surface.
pub(super) fn uniform(scene: &Scene, levels: u32, bounces: usize) -> Vec<V3> {
    use super::quad::kernel;
    let mut parts = Vec::new();
    for (number, quad) in scene.quads.iter().enumerate() {
        let mut quads = vec![*quad];
        for _ in 0..levels {
            quads = quads.iter().flat_map(super::quad::Quad::quarters).collect();
        }
        parts.extend(
            quads.into_iter().map(|quad| (number, quad, quad.normal(), quad.area(), quad.point(0.5, 0.5))),
        );
    }
    let count = parts.len();
    let mut factors = vec![0.0_f32; count * count];
    for to in 0..count {
        for from in 0..to {
            let ((a, quad, n, area, x), (b, quad2, n2, area2, y)) = (parts[to], parts[from]);
            if a == b {
                continue;
            }
            // Near parts by more points of theirs. (One of each would err by the size of parts where shadows end.)
            let near = (x - y).square() < 16.0 * area.max(area2);
            let pair = |x: V3, y: V3| match kernel(x, n, y, n2) {
                kernel if kernel > 0.0 && !scene.occluders.are_hidden(x, y) => kernel,
                _ => 0.0,
            };
            let value = if near {
                let (points, points2) = (fine(&quad), fine(&quad2));
                points.iter().flat_map(|x| points2.iter().map(move |y| pair(*x, *y))).sum::<f64>() / 256.0
            } else {
                let (points, points2) = (quad.samples(), quad2.samples());
                points.iter().flat_map(|x| points2.iter().map(move |y| pair(*x, *y))).sum::<f64>() / 16.0
            };
            factors[to * count + from] = (value * area2) as f32;
            factors[from * count + to] = (value * area) as f32;
        }
    }
    let mut light: Vec<V3> = parts.iter().map(|part| scene.paints[part.0].emission).collect();
    for _ in 0..bounces {
        light = (0..count)
            .map(|to| {
                let row = &factors[to * count..(to + 1) * count];
                let sum =
                    row.iter().zip(&light).fold(V3::ZERO, |sum, (f, light)| sum + *light * f64::from(*f));
                let paint = &scene.paints[parts[to].0];
                paint.emission + sum.zip(paint.reflectance, |light, part| light * part)
            })
            .collect();
    }
    let mut means = vec![(V3::ZERO, 0.0); scene.quads.len()];
    for ((number, _, _, area, _), light) in parts.iter().zip(&light) {
        means[*number].0 += *light * *area;
        means[*number].1 += area;
    }
    means.into_iter().map(|(sum, area)| sum * area.recip()).collect()
}

/// Sixteen points of it.
fn fine(quad: &super::quad::Quad) -> [V3; 16] {
    std::array::from_fn(|at| quad.point((at % 4) as f64 * 0.25 + 0.125, (at / 4) as f64 * 0.25 + 0.125))
}

/// How a surface is divided now.
pub(super) type Shapes = Vec<Option<std::sync::Arc<Shape>>>;
