//! A surface: how it is divided, how bright its parts are, and from whom they get light. An object that one process
//! owns. Threads of all processes call its methods through references. The serial version calls them plainly.

use std::sync::Arc;

use chanter_objects::{ObjectError, Ref, object};

use super::quad::Quad;
use super::scene::Paint;
use crate::kit::{Original, V3};

/// A part of a surface, by the quarters that lead to it: 1, then two bits for each.
pub(super) type Code = u64;
/// The whole.
pub(super) const WHOLE: Code = 1;
/// The most quarters that lead to a part.
pub(super) const DEEPEST: u32 = 24;

pub(super) const fn part(of: Code, quarter: usize) -> Code {
    of << 2 | quarter as u64
}

/// How deep a part is.
pub(super) const fn depth(code: Code) -> u32 {
    code.ilog2() / 2
}

/// A part, and its four parts, if it is divided.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) quad: Quad,
    pub(super) area: f64,
    /// The first of its four; 0: not divided.
    pub(super) first: u32,
}

/// How a surface is divided: the whole is the first.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) elements: Vec<Element>,
}

impl Shape {
    pub(super) fn new(quad: Quad) -> Self {
        Self { elements: vec![Element { quad, area: quad.area(), first: 0 }] }
    }

    /// The index of the part, or of the smallest one that there is around it.
    pub(super) fn find(&self, code: Code) -> usize {
        let mut at = 0;
        for level in (0..depth(code)).rev() {
            match self.elements[at].first {
                0 => return at,
                first => at = first as usize + (code >> (2 * level) & 3) as usize,
            }
        }
        at
    }

    /// Divides an element.
    pub(super) fn divide_at(&mut self, at: usize) {
        self.elements[at].first = self.elements.len() as u32;
        let quarters = self.elements[at].quad.quarters();
        self.elements.extend(quarters.map(|quad| Element { quad, area: quad.area(), first: 0 }));
    }

    /// The elements that were divided since there were `count` elements, in the order of their divisions.
    fn divided_since(&self, count: usize) -> Vec<u32> {
        let mut divided = vec![0; (self.elements.len() - count) / 4];
        for (at, element) in (0..).zip(&self.elements) {
            if element.first as usize >= count {
                divided[(element.first as usize - count) / 4] = at;
            }
        }
        divided
    }

    /// Divides a part, and those around it.
    fn divide(&mut self, code: Code) {
        let mut at = 0;
        for level in (0..=depth(code)).rev() {
            if self.elements[at].first == 0 {
                self.divide_at(at);
            }
            if level > 0 {
                at = self.elements[at].first as usize + (code >> (2 * level - 2) & 3) as usize;
            }
        }
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> {
        self.elements.iter().enumerate().filter(|(_, element)| element.first == 0).map(|(at, _)| at)
    }
}

/// One part gets light from another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// The part of the surface that has the link, and its index.
    pub(super) to: (Code, u32),
    pub(super) surface: u32,
    pub(super) from: (Code, u32),
    /// The form factor.
    pub(super) factor: f64,
    /// By how much the exchange of a unit of radiosity may be wrong.
    pub(super) spread: f64,
}

/// Links that one thread has made.
pub(super) type Links = Arc<Vec<Link>>;

/// A surface as others see it.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) shape: Arc<Shape>,
    /// The radiosity of each element.
    pub(super) light: Arc<Vec<V3>>,
}

impl View {
    /// Of a surface that is not divided.
    pub(super) fn new(quad: Quad, paint: Paint) -> Self {
        Self { shape: Arc::new(Shape::new(quad)), light: Arc::new(vec![paint.emission]) }
    }
}

/// How a surface differs from a copy of it: the elements that were divided since, and the light of all.
pub(super) type News = (Vec<u32>, Vec<V3>);

/// A surface of the scene.
#[derive(Debug)]
pub(super) struct Surface {
    paint: Paint,
    /// Its version: how often it was divided, or has got light.
    version: u32,
    view: View,
    /// The view of the version before, if that was divided alike.
    before: Option<View>,
    /// By the blocks of surfaces from which light comes.
    links: Vec<Links>,
    /// Parts that are to be divided.
    asked: Vec<Code>,
}

#[object(remote, name = SurfaceRef)]
impl Surface {
    /// How it is now.
    #[method(read, local)]
    pub(super) fn view(&self) -> View {
        self.view.clone()
    }

    /// How it was in a version, for a copy that has a number of elements.
    #[method(read)]
    pub(super) fn news(&self, version: u32, elements: usize) -> News {
        let view = self.at(version);
        (view.shape.divided_since(elements), view.light.to_vec())
    }

    /// Those from one block.
    #[method(read, local)]
    pub(super) fn links(&self, block: usize) -> Links {
        Arc::clone(&self.links[block])
    }

    /// All of them.
    #[method(read, local)]
    pub(super) fn all_links(&self) -> Vec<Links> {
        self.links.clone()
    }

    /// Has these links from one block.
    #[method(mut, local)]
    pub(super) fn link(&mut self, block: usize, links: Vec<Link>) {
        self.links[block] = Arc::new(links);
    }

    /// These parts are to be divided.
    #[method(mut)]
    pub(super) fn ask(&mut self, codes: Vec<Code>) {
        self.asked.extend(codes);
    }

    /// Makes the requested divisions, in an order that does not depend on the order of requests. Parts are as bright
    /// as what they were.
    #[method(mut, local)]
    pub(super) fn divide(&mut self) {
        self.version += 1;
        self.before = None;
        self.asked.sort_unstable();
        self.asked.dedup();
        let shape = Arc::make_mut(&mut self.view.shape);
        let before = shape.elements.len();
        self.asked.drain(..).for_each(|code| shape.divide(code));
        let light = Arc::make_mut(&mut self.view.light);
        light.resize(shape.elements.len(), V3::ZERO);
        for at in 0..shape.elements.len() {
            let first = shape.elements[at].first as usize;
            for child in first..first + 4 {
                if first >= before {
                    light[child] = light[at];
                }
            }
        }
    }

    /// Links find the elements of their parts.
    #[method(mut, local)]
    pub(super) fn resolve(&mut self, others: Vec<Arc<Shape>>) {
        let shape = Arc::clone(&self.view.shape);
        for links in &mut self.links {
            for link in Arc::make_mut(links) {
                link.to.1 = shape.find(link.to.0) as u32;
                link.from.1 = others[link.surface as usize].find(link.from.0) as u32;
            }
        }
    }

    /// Light has come to each element: a new version. The light of those around it is added, and larger ones are as
    /// bright as their parts.
    #[method(mut, local)]
    pub(super) fn shine(&mut self, mut gathered: Vec<V3>) {
        let elements = &self.view.shape.elements;
        let (reflectance, emission) = (self.paint.reflectance, self.paint.emission);
        // Parts come behind the elements that they are parts of.
        for at in 0..elements.len() {
            let first = elements[at].first as usize;
            if first > 0 {
                let down = gathered[at];
                gathered[first..first + 4].iter_mut().for_each(|part| *part += down);
            }
        }
        let mut light = vec![V3::ZERO; elements.len()];
        for at in (0..elements.len()).rev() {
            let first = elements[at].first as usize;
            light[at] = if first == 0 {
                emission + gathered[at].zip(reflectance, |light, part| light * part)
            } else {
                let parts = first..first + 4;
                let area: f64 = elements[parts.clone()].iter().map(|element| element.area).sum();
                parts.fold(V3::ZERO, |sum, part| sum + light[part] * elements[part].area) * area.recip()
            };
        }
        let shape = Arc::clone(&self.view.shape);
        self.version += 1;
        self.before = Some(std::mem::replace(&mut self.view, View { shape, light: Arc::new(light) }));
    }
}

impl Surface {
    pub(super) fn new(quad: Quad, paint: Paint, blocks: usize) -> Self {
        Self {
            paint,
            version: 0,
            view: View::new(quad, paint),
            before: None,
            links: vec![Arc::default(); blocks],
            asked: Vec::new(),
        }
    }
}

/// A copy has the divisions of a round and the light of a version, neither of which changes.
impl Original for Surface {
    type Version = u32;
    type View = View;

    /// # Panics
    /// If the version is neither the present one nor the one before: no phase looks further back.
    fn at(&self, version: u32) -> &View {
        if version == self.version {
            return &self.view;
        }
        assert_eq!(version + 1, self.version, "a surface is asked for the version before at most");
        self.before.as_ref().expect("the version before is divided alike")
    }

    async fn fetch(surface: Ref<Self>, view: &mut View, _: u32, to: u32) -> Result<(), ObjectError> {
        let (divided, light) = surface.news(to, view.shape.elements.len()).await?;
        if !divided.is_empty() {
            let shape = Arc::make_mut(&mut view.shape);
            divided.into_iter().for_each(|at| shape.divide_at(at as usize));
        }
        view.light = Arc::new(light);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        let corners = [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]].map(|[x, y]| V3::new(x, y, 0.0));
        let mut shape = Shape::new(Quad { corners });
        let code = part(part(WHOLE, 2), 1);
        assert_eq!((depth(WHOLE), depth(code)), (0, 2));
        assert_eq!(shape.find(code), 0);
        shape.divide(part(WHOLE, 2));
        assert_eq!(shape.elements.len(), 9);
        let found = &shape.elements[shape.find(code)];
        assert_eq!(found.quad, shape.elements[0].quad.quarters()[2].quarters()[1]);
        assert_eq!(shape.leaves().count(), 7);
        let area: f64 = shape.leaves().map(|at| shape.elements[at].area).sum();
        assert!((area - 16.0).abs() < 1e-12);
    }
}
