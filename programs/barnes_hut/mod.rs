//! An n-body simulation; see the folder's `README.md`.

mod body;
mod chanter;
mod serial;
mod tree;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size,
    Synchronous, ensure,
};

pub use body::Body;
use body::Vector;
use tree::{FAR, Mass, Space, Tree, pull};

/// Bodies, and for how many steps they move.
#[derive(Debug)]
pub struct Bodies {
    bodies: Vec<Body>,
    steps: usize,
}

/// The program.
#[derive(Debug)]
pub struct BarnesHut;

impl Program for BarnesHut {
    const NAME: &'static str = "barnes-hut";
    const ABOUT: &'static str = "bodies that attract each other, a thread for each body and step";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
    ];
    type Input = Bodies;
    type Answer = Vec<Body>;

    fn input(size: Size) -> Bodies {
        match size {
            Size::Quick => Bodies { bodies: Body::ball(96), steps: 2 },
            Size::Paper | Size::Grain => Bodies { bodies: Body::ball(1024), steps: 8 },
        }
    }

    fn serial(input: &Bodies) -> Vec<Body> {
        serial::run(&input.bodies, input.steps)
    }

    async fn threads(input: Arc<Bodies>, form: Form) -> Done<Vec<Body>> {
        match form {
            Form::Synchronous => chanter::run::<Synchronous>(&input.bodies, input.steps).await,
            Form::AsynchronousHosts => chanter::run::<AsynchronousHosts>(&input.bodies, input.steps).await,
            Form::AsynchronousParasites => {
                chanter::run::<AsynchronousParasites>(&input.bodies, input.steps).await
            }
            _ => chanter::run::<PaperParasites>(&input.bodies, input.steps).await,
        }
    }

    fn check(_: Size, input: &Bodies, answer: &Vec<Body>) -> Result<(), Failure> {
        let error = mean_error(&input.bodies);
        ensure(&format!("whether forces that err by {error} are right"), &(error < 0.01), &true)?;
        // The tree's forces come in pairs but nearly, so momentum is kept but nearly.
        let (before, after) = (momentum(&input.bodies), momentum(answer));
        let change = (after - before).square().sqrt();
        ensure(&format!("whether momentum changes by {change}"), &(change < 1e-3), &true)
    }
}

fn momentum(bodies: &[Body]) -> Vector {
    bodies.iter().fold(Vector::ZERO, |sum, body| sum + body.speed * body.mass)
}

/// How far the tree is off, in the mean, as a part of the mean force.
fn mean_error(bodies: &[Body]) -> f64 {
    let tree = serial::tree(bodies);
    let mut off = 0.0;
    let mut all = 0.0;
    for body in bodies {
        let exact = bodies.iter().fold(Vector::ZERO, |sum, b| sum + pull(b.place - body.place, b.mass));
        off += (tree.acceleration(body.place, FAR) - exact).square().sqrt();
        all += exact.square().sqrt();
    }
    off / all
}
