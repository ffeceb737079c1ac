//! Finding threads that wait for each other.

use super::{Holder, ThreadReport, ThreadState, Waiting};

/// A cycle of threads, if there is one: each waits for something that, as far
/// as is known, the next one alone could do. Channels still have addresses.
pub(super) fn find(threads: &[ThreadReport], holders: &[Holder]) -> Vec<u64> {
    let mut done = Vec::new();
    for thread in threads {
        let mut path = Vec::new();
        if let Some(cycle) = walk(thread.id, threads, holders, &mut path, &mut done) {
            return cycle;
        }
    }
    Vec::new()
}

fn walk(
    id: u64,
    threads: &[ThreadReport],
    holders: &[Holder],
    path: &mut Vec<u64>,
    done: &mut Vec<u64>,
) -> Option<Vec<u64>> {
    if let Some(start) = path.iter().position(|on| *on == id) {
        return Some(path[start..].to_vec());
    }
    if done.contains(&id) {
        return None;
    }
    path.push(id);
    for next in waits_for(id, threads, holders) {
        if let Some(cycle) = walk(next, threads, holders, path, done) {
            return Some(cycle);
        }
    }
    path.pop();
    done.push(id);
    None
}

/// Whom thread `id` waits for.
fn waits_for(id: u64, threads: &[ThreadReport], holders: &[Holder]) -> Vec<u64> {
    let Some(thread) = threads.iter().find(|thread| thread.id == id) else { return Vec::new() };
    let ThreadState::Blocked(waits) = &thread.state else { return Vec::new() };
    let holds = |channel: usize, sends: bool| {
        let of = holders.iter().filter(move |h| h.channel == channel && h.sends == sends && h.thread != id);
        of.map(|holder| holder.thread).collect::<Vec<_>>()
    };
    let each = waits.iter().flat_map(|wait| match wait {
        Waiting::Send { channel } => holds(*channel, false),
        Waiting::Receive { channel } => holds(*channel, true),
        Waiting::Join { thread: Some(thread) } => vec![*thread],
        _ => Vec::new(),
    });
    each.collect()
}
