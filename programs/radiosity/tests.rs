use chanter_objects::remote::enter;

use super::*;
use crate::kit::Threads;

#[test]
fn the_cornell_box_is_as_bright_as_by_uniform_parts() {
    let scene = Scene::cornell();
    let solution = serial::run(&scene, Accuracy { part: 1e-3, smallest: 500.0, rounds: 4, bounces: 10 });
    check(&scene, &solution, 0.05).unwrap();
    // These are large parts, and few particles; the example `radiosity` takes others.
    let off = solution.off_uniform(&scene, 2e4);
    assert!(off < 0.04, "{off}");
    let off = solution.off_traced(&scene, 100_000);
    assert!(off < 0.04, "{off}");
}

#[test]
fn a_wall_gets_light_from_the_part_of_the_floor_before_it() {
    // The middles of the floor's quarters are behind the wall, which sees a strip of the floor that a lamp lights.
    let text = r#"
        camera = { from = [0, 0, 9], to = [0, 1, 0], up = [0, 0, 1], angle = 50 }
        [[surface]]
        corners = [[0, 0, 0], [4, 0, 0], [4, 4, 0], [0, 4, 0]]
        reflectance = [0.5, 0.5, 0.5]
        [[surface]]
        corners = [[0.8, 0, 0], [0.8, 0, 1], [0.8, 4, 1], [0.8, 4, 0]]
        reflectance = [0.5, 0.5, 0.5]
        [[surface]]
        corners = [[0, 0, 3], [0, 4, 3], [0.8, 4, 3], [0.8, 0, 3]]
        reflectance = [0, 0, 0]
        emission = [9, 9, 9]
    "#;
    let scene = Scene::read(text).unwrap();
    assert!(scene.quads[1].normal()[0] < 0.0, "it looks away from the middle of the floor");
    let solution = serial::run(&scene, Accuracy { part: 1e-4, smallest: 1e-3, rounds: 3, bounces: 6 });
    let off = solution.off_traced(&scene, 300_000);
    // 0.076 without the strip.
    assert!(off < 0.04, "{off}");
}

#[test]
fn a_closed_room_loses_no_light() {
    let scene = Scene::room(2, 5);
    let solution = serial::run(&scene, Accuracy { part: 1e-3, smallest: 0.02, rounds: 4, bounces: 12 });
    let balance = solution.balance(&scene);
    assert!(balance.error() < 0.03, "{balance:?}");
    assert!((balance.escaped / balance.emitted).abs() < 0.03, "{balance:?}");
}

#[test]
fn objects_and_rayon_agree_to_the_last_bit_whoever_runs_them() {
    let scene = Arc::new(Scene::room(3, 9));
    let accuracy = Accuracy { part: 5e-3, smallest: 0.1, rounds: 3, bounces: 3 };
    let serial = serial::run(&scene, accuracy);
    assert_eq!(rayon::run(&scene, accuracy), serial);
    for vps in [1, 2, 3] {
        let machine = ::chanter::Machine::builder().vps(vps).build().unwrap();
        let scene = Arc::clone(&scene);
        let run =
            machine.block_on(async move { chanter::run(scene, accuracy, Arc::default()).await }).unwrap();
        assert_eq!(run, serial, "on {vps} virtual processors");
    }
}

#[test]
fn processes_find_the_light_of_the_serial_version_to_the_last_bit() {
    let scene = Arc::new(Scene::room(2, 9));
    let accuracy = Accuracy { part: 5e-3, smallest: 0.1, rounds: 3, bounces: 3 };
    let serial = serial::run(&scene, accuracy);
    for (count, threads) in [
        (1, Threads::Stack),
        (1, Threads::Heap),
        (2, Threads::Stack),
        (2, Threads::Heap),
        (3, Threads::Stack),
    ] {
        let machine = ::chanter::Machine::builder().vps(2).build().unwrap();
        let (scene, serial) = (Arc::clone(&scene), serial.clone());
        let first = machine.block_on(async move {
            let all = chanter_cluster::local(count).into_iter().map(|here| {
                let (scene, serial) = (Arc::clone(&scene), serial.clone());
                ::chanter::spawn(async move {
                    let found = enter(&here, process(&here, scene, accuracy, threads, Some(&serial))).await;
                    // Its outstanding messages come first.
                    here.leave().await;
                    found.map_err(|error| error.to_string())
                })
            });
            let mut first = None;
            for one in all.collect::<Vec<_>>() {
                first = one.await.unwrap().unwrap().or(first);
            }
            first
        });
        assert!(first.is_some(), "{count} processes, {threads:?}");
    }
}

#[test]
fn a_wall_that_hides_the_light_leaves_a_shadow() {
    // A light, a floor, and between them a screen of half the floor.
    let text = r#"
        camera = { from = [0, 0, 9], to = [0, 1, 0], up = [0, 0, 1], angle = 50 }
        [[surface]]
        corners = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        reflectance = [0.5, 0.5, 0.5]
        [[surface]]
        corners = [[0.4, 0.4, 2], [0.4, 0.6, 2], [0.6, 0.6, 2], [0.6, 0.4, 2]]
        reflectance = [0, 0, 0]
        emission = [9, 9, 9]
        [[surface]]
        corners = [[0, 0, 1], [0.4, 0, 1], [0.4, 1, 1], [0, 1, 1]]
        reflectance = [0, 0, 0]
    "#;
    let scene = Scene::read(text).unwrap();
    let accuracy = Accuracy { part: 1e-4, smallest: 1e-3, rounds: 2, bounces: 2 };
    let solution = serial::run(&scene, accuracy);
    let view = &solution.surfaces[0].0;
    let bright = |place: V3| {
        let (u, v) = scene.quads[0].coordinates(place);
        let code = surface::part(surface::part(surface::WHOLE, quad::Quad::quarter(u, v)), 0);
        view.light[view.shape.find(code)][0]
    };
    let (hidden, seen) = (bright(V3::new(0.1, 0.1, 0.0)), bright(V3::new(0.6, 0.1, 0.0)));
    assert!(hidden < 0.2 * seen && seen > 0.0, "{hidden} {seen}");
}
