//! Where a thread ran: its time on the CPU is summed, and cut by samples.

use punctual_record::{Spent, TimePart};

use super::raw::{Key, how};

/// Fewer samples say nothing: their share is off by a third.
const FEWEST: u64 = 10;

/// Where a sample found the thread: in its own code, in a call, or in a fault.
pub(super) type Place = (Spent, Option<String>);

/// The functions of faults, the innermost kind first.
const FAULTS: [(&str, Spent); 10] = [
    ("try_to_free_pages", Spent::Reclaim),
    ("try_to_free_mem_cgroup_pages", Spent::Reclaim),
    ("shrink_node", Spent::Reclaim),
    ("do_wp_page", Spent::FaultCopy),
    ("wp_page_copy", Spent::FaultCopy),
    ("do_cow_fault", Spent::FaultCopy),
    ("do_swap_page", Spent::FaultSwap),
    ("filemap_", Spent::FaultFile),
    ("do_read_fault", Spent::FaultFile),
    ("do_shared_fault", Spent::FaultFile),
];
/// The first of them are those of reclaim, which calls do too.
const RECLAIMS: usize = 3;
/// Entries of faults: x86, and other architectures.
const FAULT: [&str; 3] = ["exc_page_fault", "handle_mm_fault", "do_page_fault"];

/// Where this sample is.
pub(super) fn place(key: &Key, call: Option<String>, functions: &[String]) -> Place {
    let inside = |start: &str| functions.iter().any(|name| name.starts_with(start));
    if key.how & how::IN_KERNEL == 0 {
        return (Spent::Running, None);
    }
    if FAULT.iter().any(|start| inside(start)) {
        let kind = FAULTS.iter().find(|(start, _)| inside(start)).map_or(Spent::FaultNew, |(_, kind)| *kind);
        return (kind, None);
    }
    if FAULTS[..RECLAIMS].iter().any(|(start, _)| inside(start)) {
        return (Spent::Reclaim, call);
    }
    (Spent::Running, call)
}

/// The time on the CPU in parts, as samples found it. They sum to it.
pub(super) fn cut(running: TimePart, places: &[(Place, u64)]) -> Vec<TimePart> {
    let all: u64 = places.iter().map(|(_, count)| count).sum();
    if all < FEWEST {
        return vec![running];
    }
    let mut rest = running.clone();
    let mut parts = Vec::new();
    for ((spent, call), count) in places {
        if (*spent, call) == (Spent::Running, &None) {
            continue;
        }
        let ns = ((u128::from(running.ns) * u128::from(*count)) / u128::from(all)) as u64;
        rest.ns -= ns.min(rest.ns);
        // Samples count no stretches.
        parts.push(TimePart { spent: *spent, ns, call: call.clone(), ..TimePart::default() });
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let running = TimePart { ns: 1_000_001, times: 5, longest_ns: 9, spent: Spent::Running, ..TimePart::default() };
        let places =
            [((Spent::Running, None), 6), ((Spent::FaultCopy, None), 3), ((Spent::Running, Some("brk".to_owned())), 3)];
        let parts = cut(running.clone(), &places);
        assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), running.ns);
        assert_eq!(parts.iter().map(|part| part.ns / 1000).collect::<Vec<_>>(), [250, 250, 500]);
        let known: Vec<_> = parts.iter().map(|part| (part.times, part.longest_ns)).collect();
        assert_eq!(known, [(0, 0), (0, 0), (5, 9)], "samples count no stretches");
        assert_eq!(cut(running.clone(), &places[1..2]), [running]);
    }
}
