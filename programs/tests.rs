//! Every program, at its quick size, gives the serial result in each of its forms.

use crate::kit::{Form, Load, Size};

#[test]
fn every_form_of_every_program_gives_the_serial_result() {
    for program in crate::all() {
        let prepared = program.prepare(Size::Quick).unwrap_or_else(|e| panic!("{}: {e}", program.name));
        assert!(program.forms.contains(&Form::Serial), "{}", program.name);
        let mut communications = None;
        for form in program.forms.iter().copied() {
            for vps in [1, 2] {
                let run = prepared.run(&Load::new(form, vps));
                let run = run.unwrap_or_else(|e| panic!("{}, {form}, {vps} VPs: {e}", program.name));
                let threads = run.stats.hosts_created + run.stats.parasites_created;
                assert_eq!(threads > 0, form.has_threads(), "{}, {form}: {threads} threads", program.name);
                // Asynchronously or not, the messages are the same.
                let talks = [
                    Form::Synchronous,
                    Form::AsynchronousHosts,
                    Form::AsynchronousParasites,
                    Form::PaperParasites,
                ];
                if talks.contains(&form) {
                    let known = *communications.get_or_insert(run.communications);
                    assert_eq!(run.communications, known, "{}, {form}", program.name);
                }
            }
        }
    }
}

/// Also of numbers that divide nothing evenly.
#[test]
fn any_number_of_os_threads_gives_the_serial_result() {
    for program in crate::all().into_iter().filter(|program| program.forms.contains(&Form::ByHand)) {
        let prepared = program.prepare(Size::Quick).unwrap_or_else(|e| panic!("{}: {e}", program.name));
        for threads in [1, 3, 7] {
            let run = prepared.run(&Load::new(Form::ByHand, threads));
            run.unwrap_or_else(|e| panic!("{}, {threads} OS threads: {e}", program.name));
        }
    }
}

#[test]
fn programs_have_different_names_and_pages() {
    let mut names: Vec<_> = crate::all().into_iter().map(|program| program.name).collect();
    for name in &names {
        let folder = name.trim_end_matches("-2000").replace('-', "_");
        let page = format!("{}/{folder}/README.md", env!("CARGO_MANIFEST_DIR"));
        assert!(std::fs::read_to_string(&page).is_ok_and(|page| page.len() > 300), "{page}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
