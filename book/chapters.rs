//! The chapters of the book as documentation tests: every block of Rust in
//! them is compiled and run.

macro_rules! chapters {
    ($($chapter:ident: $file:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($file)]
            pub mod $chapter {}
        )*
    };
}

chapters! {
    introduction: "src/introduction.md"
    tutorial: "src/tutorial.md"
    from_tokio: "src/from-tokio.md"
    from_go: "src/from-go.md"
    from_cml: "src/from-cml.md"
    from_c: "src/from-c.md"
    from_lua: "src/from-lua.md"
    recipes: "src/recipes.md"
    tokio_libraries: "src/tokio-libraries.md"
    threads: "src/threads.md"
    parasites: "src/parasites.md"
    asynchronous: "src/asynchronous.md"
    processors: "src/processors.md"
    not_here: "src/not-here.md"
    renamed: "src/renamed.md"
    figures: "src/figures.md"
    fibers: "src/fibers.md"
    policies: "src/policies.md"
    objects: "src/objects.md"
    tuples: "src/tuples.md"
    processes: "src/processes.md"
    engines: "src/engines.md"
    from_mpi: "src/from-mpi.md"
    services: "src/services.md"
    pitfalls: "src/pitfalls.md"
    testing: "src/testing.md"
    guarantees: "src/guarantees.md"
}
