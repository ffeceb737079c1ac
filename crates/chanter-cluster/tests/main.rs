//! The attribute: functions that are processes, alone.

use std::rc::Rc;

use chanter_cluster::prelude::*;

const TAG: u32 = 1;

#[chanter_cluster::main(vps = 1, name = "alone")]
async fn talks_to_itself(here: Process) -> Result<u32, ClusterError> {
    let me = here.open("me")?;
    let there = here.lookup("me@0").await?;
    me.send(there, TAG, &41_u32).await?;
    Ok(me.recv::<u32>(ANYONE, TAG).await?.value + here.count())
}

#[chanter_cluster::main(local)]
async fn stays(here: Process) -> Rc<u32> {
    let number = Rc::new(here.number());
    // To leave twice is to leave.
    here.leave().await;
    number
}

#[chanter_cluster::main]
async fn fails(here: Process) -> Result<(), ClusterError> {
    here.lookup("nobody@7").await?;
    Ok(())
}

#[chanter_cluster::main]
async fn panics(_here: Process) {
    panic!("as planned");
}

#[test]
fn a_function_is_a_process() {
    assert_eq!(talks_to_itself(), Ok(42));
    assert_eq!(*stays(), 0);
    let error = fails().unwrap_err();
    assert!(matches!(error, ClusterError::Lookup(LookupError::NoSuchProcess(_))), "{error}");
    assert!(error.to_string().starts_with("there is no process 7 in this cluster: "), "{error}");
}

#[test]
#[should_panic(expected = "as planned")]
fn a_panic_is_the_functions() {
    panics();
}
