//! Which events the kernel keeps: a filter in the language of `Documentation/trace/events.rst`.

use crate::catalog::Keep;

/// A filter has at most a page of text, and each term costs time at each event.
const RANGES: usize = 16;

/// The watched threads, as ranges of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    ranges: Vec<(i32, i32)>,
}

impl Threads {
    /// These threads, and those close to them if there are many.
    #[must_use]
    pub fn near(tids: impl IntoIterator<Item = i32>) -> Self {
        let mut tids: Vec<i32> = tids.into_iter().collect();
        tids.sort_unstable();
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for tid in tids {
            match ranges.last_mut() {
                Some((_, last)) if tid - *last <= 1 => *last = tid,
                _ => ranges.push((tid, tid)),
            }
        }
        // Joins the closest neighbours until few enough are left: some unwatched threads pass, and are dropped by the reader.
        while ranges.len() > RANGES {
            let gap = |pair: &usize| ranges[pair + 1].0 - ranges[*pair].1;
            let closest = (0..ranges.len() - 1).min_by_key(gap).unwrap_or(0);
            ranges[closest].1 = ranges.remove(closest + 1).1;
        }
        Self { ranges }
    }

    /// Also every thread with a number from `first` on. These are yet to be created, as long as numbers do not wrap.
    #[must_use]
    pub fn and_from(mut self, first: i32) -> Self {
        self.ranges.retain(|(low, _)| *low < first);
        self.ranges.push((first, i32::MAX));
        self
    }

    /// The ranges.
    pub(crate) fn ranges(&self) -> &[(i32, i32)] {
        &self.ranges
    }

    /// Whether it is one of them.
    pub(crate) fn hold(&self, tid: i32) -> bool {
        self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&tid))
    }

    /// The filter of an event.
    pub(crate) fn text(&self, keep: Keep) -> Option<String> {
        let fields: &[&str] = match keep {
            Keep::All => return None,
            Keep::Own => &["common_pid"],
            Keep::About(fields) => fields,
        };
        let term = |field: &&str, (low, high): &(i32, i32)| match (*low, *high) {
            (low, high) if low == high => format!("{field} == {low}"),
            (low, i32::MAX) => format!("{field} >= {low}"),
            (low, high) => format!("({field} >= {low} && {field} <= {high})"),
        };
        let terms = fields.iter().flat_map(|field| self.ranges.iter().map(move |range| term(field, range)));
        Some(terms.collect::<Vec<_>>().join(" || "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_all_threads() {
        let threads = Threads::near([5, 4, 9, 3]);
        assert_eq!(threads.text(Keep::Own).unwrap(), "(common_pid >= 3 && common_pid <= 5) || common_pid == 9");
        assert_eq!(threads.text(Keep::All), None);
        let more = threads.and_from(12);
        let both = "prev_pid >= 12 || (next_pid >= 3";
        assert!(more.text(Keep::About(&["prev_pid", "next_pid"])).unwrap().contains(both));
    }

    proptest::proptest! {
        #[test]
        fn many_threads_give_a_short_filter(tids in proptest::collection::vec(1..4_194_304_i32, 1..500)) {
            let threads = Threads::near(tids.iter().copied());
            proptest::prop_assert!(threads.text(Keep::About(&["prev_pid", "next_pid"])).unwrap().len() < 4000);
            proptest::prop_assert!(tids.iter().all(|tid| threads.hold(*tid)));
        }
    }
}
