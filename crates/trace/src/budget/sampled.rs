//! Where a thread ran: its time on the CPU is summed, and cut by samples.

use punctual_record::{Spent, Thing, TimePart};

use super::code::Code;
use super::raw::{Key, how};

/// Samples of less than these ms say nothing: the share of six is off by 40 %.
const FEWEST_MS: u64 = 24;

/// Functions of a thread that are told apart: those with the most samples.
const FUNCTIONS: usize = 8;

/// Where a sample found the thread: in its own code, in a call, or in a fault.
pub(super) type Place = (Spent, Option<String>, Option<Code>);

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
pub(super) fn place(key: &Key, call: Option<String>, code: Option<&Code>, functions: &[String]) -> Place {
    let inside = |start: &str| functions.iter().any(|name| name.starts_with(start));
    if key.how & how::IN_KERNEL == 0 {
        return (Spent::Running, None, code.cloned());
    }
    if FAULT.iter().any(|start| inside(start)) {
        let kind = FAULTS.iter().find(|(start, _)| inside(start)).map_or(Spent::FaultNew, |(_, kind)| *kind);
        return (kind, None, None);
    }
    if FAULTS[..RECLAIMS].iter().any(|(start, _)| inside(start)) {
        return (Spent::Reclaim, call, None);
    }
    (Spent::Running, call, None)
}

/// The time on the CPU in parts, as samples found it: each is of some ms. They sum to it.
pub(super) fn cut(running: TimePart, places: &[(Place, u64)]) -> Vec<TimePart> {
    let all: u64 = places.iter().map(|(_, count)| count).sum();
    if all < FEWEST_MS {
        return vec![running];
    }
    let told_apart = most_seen(places);
    let mut rest = running.clone();
    let mut parts: Vec<TimePart> = Vec::new();
    for ((spent, call, code), count) in places {
        let code = code.as_ref().filter(|code| told_apart.contains(code));
        if (*spent, call, code) == (Spent::Running, &None, None) {
            continue;
        }
        let ns = ((u128::from(running.ns) * u128::from(*count)) / u128::from(all)) as u64;
        rest.ns -= ns.min(rest.ns);
        let thing = code.map_or_else(Thing::default, |code| Thing {
            function: code.function.clone(),
            file: Some(code.file.clone()),
            line: code.line.clone(),
            ..Thing::default()
        });
        // Samples count no stretches.
        parts.push(TimePart { spent: *spent, ns, call: call.clone(), thing, ..TimePart::default() });
    }
    let is_own = |part: &&mut TimePart| part.spent == Spent::Running && part.call.is_none();
    let largest = parts.iter_mut().filter(is_own).max_by_key(|part| part.ns);
    match largest {
        // What remains is less than a sample: the largest has the number of all.
        Some(largest) if rest.ns <= all => {
            largest.ns += rest.ns;
            (largest.times, largest.longest_ns) = (rest.times, rest.longest_ns);
        }
        _ => parts.push(rest),
    }
    parts
}

/// The functions in which most samples are.
fn most_seen(places: &[(Place, u64)]) -> Vec<&Code> {
    let mut all: Vec<_> = places.iter().filter_map(|((_, _, code), count)| Some((code.as_ref()?, count))).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all.into_iter().take(FUNCTIONS).map(|(code, _)| code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let running = TimePart { ns: 1_000_001, times: 5, longest_ns: 9, spent: Spent::Running, ..TimePart::default() };
        let place = |spent, call: Option<&str>| (spent, call.map(str::to_owned), None);
        let places = [
            (place(Spent::Running, None), 12),
            (place(Spent::FaultCopy, None), 6),
            (place(Spent::Running, Some("brk")), 6),
        ];
        let parts = cut(running.clone(), &places);
        assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), running.ns);
        assert_eq!(parts.iter().map(|part| part.ns / 1000).collect::<Vec<_>>(), [250, 250, 500]);
        let known: Vec<_> = parts.iter().map(|part| (part.times, part.longest_ns)).collect();
        assert_eq!(known, [(0, 0), (0, 0), (5, 9)], "samples count no stretches");
        assert_eq!(cut(running.clone(), &places[1..2]), [running]);
    }
    #[test]
    fn functions_are_parts_and_the_largest_has_the_number_of_all() {
        let running = TimePart { ns: 1_000_001, times: 5, longest_ns: 9, spent: Spent::Running, ..TimePart::default() };
        let code = |n: u64| Code { function: Some(format!("f{n}")), file: "/bin/program".to_owned(), line: None };
        let places = |functions: u64| -> Vec<(Place, u64)> {
            (0..functions).map(|n| ((Spent::Running, None, Some(code(n))), 10 + n)).collect()
        };
        let parts = cut(running.clone(), &places(3));
        assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), running.ns);
        let said: Vec<_> = parts.iter().map(|part| (part.thing.function.clone().unwrap(), part.times)).collect();
        assert_eq!(said, [("f0".to_owned(), 0), ("f1".to_owned(), 0), ("f2".to_owned(), 5)]);
        let many = cut(running.clone(), &places(20));
        assert_eq!(many.iter().map(|part| part.ns).sum::<u64>(), running.ns);
        let (named, rest): (Vec<_>, Vec<_>) = many.iter().partition(|part| part.thing.function.is_some());
        assert_eq!((named.len(), rest.len(), rest[0].times), (FUNCTIONS, 1, 5));
    }
}
