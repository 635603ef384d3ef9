//! The names nearest to an unknown one.

/// Names farther than this (Jaro-Winkler, 0 to 1) are no slip of the finger.
const SIMILAR: f64 = 0.75;
/// Parts of names are short, and short words are soon similar.
const SIMILAR_PART: f64 = 0.85;
/// Names offered at most.
const MOST: usize = 3;
/// Shortest part of a name that is taken for one.
const LEAST_PART: usize = 2;

/// The likeliest first. Names of which `name` is a part (`futex` of `memfd-futex`) come before slips in the whole name. Slips in a part of
/// it (`fotex`) come last.
pub(crate) fn nearest(name: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let name = name.to_lowercase();
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        if name.len() >= LEAST_PART && candidate.contains(&name) {
            // Parts keep the order of the list, which has the usual ones first.
            return Some((0, 0.0));
        }
        let whole = strsim::jaro_winkler(&name, &candidate);
        if whole >= SIMILAR {
            return Some((1, 1.0 - whole));
        }
        let parts = candidate.split(['-', '_', ':']).map(|part| strsim::jaro_winkler(&name, part));
        let part = parts.fold(0.0, f64::max);
        (part >= SIMILAR_PART).then_some((2, 1.0 - part))
    };
    let mut near: Vec<_> = names.into_iter().filter_map(|name| Some((distance(&name)?, name))).collect();
    near.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// `; nearest: usleep, nanosleep`, or nothing.
pub(crate) fn hint(name: &str, names: impl IntoIterator<Item = String>) -> String {
    let near = nearest(name, names);
    if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_part_by_distance_and_by_a_part_that_is_mistyped() {
        let near = |name: &str| {
            let names = ["memfd-futex", "posix-mq", "sysv-mq", "tcp", "kind:socket", "usleep", "nanosleep"];
            nearest(name, names.map(String::from)).join(" ")
        };
        assert_eq!(near("futex"), "memfd-futex");
        assert_eq!(near("MQ"), "posix-mq sysv-mq");
        assert_eq!(near("socket"), "kind:socket");
        assert_eq!(near("usleeep"), "usleep nanosleep");
        assert_eq!(near("fotex"), "memfd-futex");
        assert_eq!(near("sockte"), "kind:socket");
        assert_eq!(near("qqqq"), "");
        assert_eq!(near("x"), "", "one letter is no part");
    }
}
