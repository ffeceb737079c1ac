//! The attribute: functions that are processes, alone.

use std::error::Error;
use std::rc::Rc;

use chanter::Builder;
use chanter_cluster::Launch;
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

/// An engine whose launcher has never started the process.
struct Never;

/// An engine whose launcher has started the process, as one of a job with one process.
struct Always;

impl Launch for Never {
    fn is_launched() -> bool {
        false
    }

    fn launch<T>(
        _builder: Builder,
        _main: impl AsyncFnOnce(Process) -> T,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        Err("nobody has started it".into())
    }
}

impl Launch for Always {
    fn is_launched() -> bool {
        true
    }

    fn launch<T>(
        builder: Builder,
        main: impl AsyncFnOnce(Process) -> T,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        builder.build()?.block_on_local(async {
            let [here] = <[Process; 1]>::try_from(local(1)).expect("one process");
            let _named = here.open("by the second engine")?;
            Ok(main(here).await)
        })
    }
}

#[chanter_cluster::main(engines(Never, Always))]
async fn is_found(here: Process) -> Result<u32, LookupError> {
    Ok(here.lookup("by the second engine@0").await?.process.0)
}

#[chanter_cluster::main(engines(Never), vps = 1)]
async fn is_alone(here: Process) -> u32 {
    here.count()
}

#[test]
fn the_first_engine_whose_launcher_has_started_the_process_is_used() {
    assert_eq!(is_found(), Ok(0));
    assert_eq!(is_alone(), 1);
}
