//! The symmetries of graphs; see the folder's `README.md`.

mod chanter;
mod graph;
mod serial;

use std::sync::Arc;

use crate::kit::{
    AsynchronousHosts, AsynchronousParasites, Done, Failure, Form, PaperParasites, Program, Size,
    Synchronous, ensure,
};

pub use graph::Graph;

/// In how many parts a graph's search is divided.
const PARTS: usize = 3;

/// The program.
#[derive(Debug)]
pub struct CountGraphs;

impl Program for CountGraphs {
    const NAME: &'static str = "count-graphs";
    const ABOUT: &'static str =
        "the symmetries of graphs, a thread for each, and for each part of its search";
    const FORMS: &'static [Form] = &[
        Form::Serial,
        Form::Synchronous,
        Form::AsynchronousHosts,
        Form::AsynchronousParasites,
        Form::PaperParasites,
    ];
    type Input = Vec<Arc<Graph>>;
    /// For each graph.
    type Answer = Vec<u64>;

    fn input(size: Size) -> Vec<Arc<Graph>> {
        let count = match size {
            Size::Quick => 12,
            Size::Paper | Size::Grain => 128,
        };
        Graph::set(count).into_iter().map(Arc::new).collect()
    }

    fn serial(graphs: &Vec<Arc<Graph>>) -> Vec<u64> {
        serial::count(graphs)
    }

    async fn threads(graphs: Arc<Vec<Arc<Graph>>>, form: Form) -> Done<Vec<u64>> {
        let numbers = match form {
            Form::Synchronous => chanter::count::<Synchronous>(&graphs).await,
            Form::AsynchronousHosts => chanter::count::<AsynchronousHosts>(&graphs).await,
            Form::AsynchronousParasites => chanter::count::<AsynchronousParasites>(&graphs).await,
            _ => chanter::count::<PaperParasites>(&graphs).await,
        };
        Done::new(numbers).communications((graphs.len() * (PARTS + 1)) as u64)
    }

    fn check(_: Size, graphs: &Vec<Arc<Graph>>, answer: &Vec<u64>) -> Result<(), Failure> {
        for (index, (graph, number)) in graphs.iter().zip(answer).enumerate() {
            if let Some(known) = graph.known {
                ensure(&format!("the symmetries of graph {index}"), number, &known)?;
            }
        }
        ensure("how many graphs", &answer.len(), &graphs.len())
    }
}
