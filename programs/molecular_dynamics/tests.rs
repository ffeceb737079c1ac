use chanter_objects::remote::enter;

use super::model::{CUTOFF, mixes};
use super::serial::Serial;
use super::*;
use crate::kit::{Load, Threads};

fn small() -> System {
    Input::generated(12, 300, 15, 0).system
}

/// All pairs of all atoms, without cells or lists.
fn by_all_pairs(system: &System) -> (Vec<V3>, f64) {
    let (mixes, atoms) = (mixes(), system.atoms());
    let (mut forces, mut energy) = (vec![V3::ZERO; atoms], 0.0);
    let chain = system.chain_atoms();
    let excluded = |a: usize, b: usize| match (a < chain, b < chain) {
        (true, true) => system.chain.near[a].contains(&(b as u32)),
        (false, false) => (a - chain) / 3 == (b - chain) / 3,
        _ => false,
    };
    for a in 0..atoms {
        for b in a + 1..atoms {
            let between = System::nearest(system.side, system.places[a] - system.places[b]);
            if between.square() < CUTOFF * CUTOFF && !excluded(a, b) {
                let mix = &mixes[system.kind(a) as usize][system.kind(b) as usize];
                let (e, force) = mix.at(between.square());
                energy += e;
                forces[a] += between * force;
                forces[b] -= between * force;
            }
        }
    }
    energy += bonds::waters(&system.places[chain..], &mut forces[chain..]);
    for segment in &system.chain.segments {
        let places = &system.places;
        let kinds = (&mixes, &system.chain.kinds[..]);
        energy += bonds::segment(
            segment,
            system.side,
            kinds,
            |atom| places[atom as usize],
            |atom, force| {
                forces[atom as usize] += force;
            },
        );
    }
    (forces, energy)
}

#[test]
fn lists_give_the_forces_of_all_pairs() {
    let system = small();
    let serial = Serial::new(&system);
    let (forces, energy) = by_all_pairs(&system);
    let most = forces.iter().map(|force| force.length()).fold(0.0, f64::max);
    for (one, other) in serial.forces().iter().zip(&forces) {
        assert!((*one - *other).length() < 1e-11 * most, "{one:?} {other:?}");
    }
    assert!((serial.energy().potential - energy).abs() < 1e-9 * energy.abs());
    assert!(serial.pairs() > 10_000);
}

#[test]
fn forces_end_at_the_cut_off_with_their_energies() {
    for row in mixes() {
        for mix in row {
            let (energy, force) = mix.at(CUTOFF * CUTOFF * (1.0 - 1e-12));
            assert!(energy.abs() < 1e-9 && force.abs() < 1e-9, "{energy} {force}");
            let (r, h) = (3.0_f64, 1e-5);
            let slope = (mix.at((r - h).powi(2)).0 - mix.at((r + h).powi(2)).0) / (2.0 * h);
            assert!((slope - r * mix.at(r * r).1).abs() < 1e-4 * (1.0 + slope.abs()));
        }
    }
}

#[test]
fn energy_and_momentum_stay_beyond_new_lists() {
    let system = small();
    let outcome = serial::run(&system, Motion::of(80));
    assert!(outcome.drift() < 0.02, "{}", outcome.drift());
    assert!(outcome.momentum(&system) < 1e-12, "{}", outcome.momentum(&system));
}

#[test]
fn rigid_waters_keep_their_lengths_and_the_energy() {
    let input = Input { system: small(), motion: Motion::of(30) }.with_rigid_waters();
    let outcome = serial::run(&input.system, input.motion);
    assert!(outcome.drift() < 0.02, "{}", outcome.drift());
    assert!(outcome.momentum(&input.system) < 1e-12, "{}", outcome.momentum(&input.system));
    let chain = input.system.chain_atoms();
    for (places, speeds) in
        outcome.places[chain..].as_chunks::<3>().0.iter().zip(outcome.speeds[chain..].as_chunks::<3>().0)
    {
        for ([a, b], length) in shake::lengths() {
            let (along, off) = (places[a] - places[b], speeds[a] - speeds[b]);
            // The places have been wrapped since, which rounds them.
            let error = along.square() / (length * length) - 1.0;
            assert!(error.abs() < shake::TOLERANCE + 1e-13, "{error}");
            assert!(along.dot(off).abs() < shake::TOLERANCE * length + 1e-13);
        }
    }
}

#[test]
fn objects_and_rayon_agree_to_the_last_bit_whoever_runs_them() {
    let free = Input { system: small(), motion: Motion::of(10) };
    let rigid = Input { system: small(), motion: Motion::of(5) }.with_rigid_waters();
    for input in [free, rigid].map(Arc::new) {
        let of_rayon = rayon::run(&input.system, input.motion);
        for vps in [1, 2, 3] {
            let machine = ::chanter::Machine::builder().vps(vps).build().unwrap();
            let input = Arc::clone(&input);
            let run =
                machine.block_on(async move { chanter::run(&input.system, input.motion).await }).unwrap();
            assert!(run.is_identical(&of_rayon), "on {vps} virtual processors");
        }
        assert_eq!(serial::run(&input.system, input.motion), of_rayon);
    }
}

#[test]
fn a_chain_has_the_geometry_of_proteins() {
    let residues = build::generated(153, 1995);
    assert_eq!(residues.len(), 153);
    for pair in residues.windows(2) {
        assert!(((pair[0].carbonyl - pair[1].nitrogen).length() - 1.335).abs() < 1e-9);
        assert!(((pair[0].alpha - pair[1].alpha).length() - 3.8).abs() < 0.1);
    }
    for (at, one) in residues.iter().enumerate() {
        let others = residues[..at.saturating_sub(2)].iter();
        assert!(others.clone().all(|other| (other.alpha - one.alpha).length() > 3.0), "residue {at}");
    }
}

#[test]
fn a_wrong_answer_is_not_equal() {
    let system = small();
    let run = serial::run(&system, Motion::of(1));
    let mut other = run.clone();
    other.places[5][0] += 1e-6;
    assert_ne!(run, other);
    let program = crate::find("molecular-dynamics").unwrap();
    assert!(program.prepare(Size::Quick).unwrap().run(&Load::new(Form::Forked, 1)).is_err());
}

#[test]
fn processes_find_what_the_serial_version_finds_and_what_rayon_finds_to_the_last_bit() {
    let free = Arc::new(Input { system: small(), motion: Motion::of(10) });
    let rigid = Arc::new(Input { system: small(), motion: Motion::of(5) }.with_rigid_waters());
    for (count, threads, input) in [
        (1, Threads::Stack, &free),
        (1, Threads::Heap, &free),
        (2, Threads::Stack, &free),
        (2, Threads::Heap, &free),
        (2, Threads::Stack, &rigid),
        (3, Threads::Stack, &rigid),
    ] {
        let serial = serial::run(&input.system, input.motion);
        let of_rayon = rayon::run(&input.system, input.motion);
        let machine = ::chanter::Machine::builder().vps(2).build().unwrap();
        let input = Arc::clone(input);
        let found = machine
            .block_on(async move {
                let all = chanter_cluster::local(count).into_iter().map(|here| {
                    let input = Arc::clone(&input);
                    ::chanter::spawn(async move {
                        let found = enter(&here, process(&here, &input.system, input.motion, threads)).await;
                        // Its outstanding messages come first.
                        here.leave().await;
                        found.map_err(|error| error.to_string())
                    })
                });
                let mut found = None;
                for one in all.collect::<Vec<_>>() {
                    found = one.await.unwrap().unwrap().or(found);
                }
                found
            })
            .unwrap();
        assert_eq!(found.0, serial, "{count} processes, {threads:?}");
        assert!(found.0.is_identical(&of_rayon), "{count} processes, {threads:?}");
    }
}
