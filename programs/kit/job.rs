//! Programs of several processes.

use std::error::Error;

use chanter_cluster::{ANYONE, Process};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a process of a job has failed.
pub type JobFailure = Box<dyn Error + Send + Sync>;

const JOIN: u32 = 1;

/// Has the processes of a job tell the first one their values. In the first process it returns all of them, in the
/// order of the processes' numbers. In the others it returns `None`, once the value has been told. `name` names the
/// meeting.
///
/// # Errors
/// If a process is lost, or the name is taken.
pub async fn meet<T>(here: &Process, name: &str, mine: T) -> Result<Option<Vec<T>>, JobFailure>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let me = here.open(name)?;
    if here.number() != 0 {
        let first = here.lookup(&format!("{name}@0")).await?;
        me.send(first, JOIN, &(here.number(), mine)).await?;
        return Ok(None);
    }
    let mut all = vec![(0, mine)];
    for _ in 1..here.count() {
        all.push(me.recv::<(u32, T)>(ANYONE, JOIN).await?.value);
    }
    all.sort_by_key(|(number, _)| *number);
    Ok(Some(all.into_iter().map(|(_, one)| one).collect()))
}
