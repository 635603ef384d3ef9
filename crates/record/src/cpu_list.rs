//! CPU lists in the kernel's notation: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;

/// The CPUs of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u16>);

impl CpuList {
    /// From a kernel file, in which nothing (or `(null)`) means no CPU. `None`: the text is no list.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        let items = Some(text.trim()).filter(|list| !matches!(*list, "" | "(null)"));
        for item in items.into_iter().flat_map(|list| list.split(',')) {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            if first > last {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    /// Number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list has no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs that are in both lists.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }
}

/// The shortest form.
impl fmt::Display for CpuList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<u16> = self.0.iter().copied().collect();
        let runs = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            run => format!("{}-{}", run[0], run[run.len() - 1]),
        });
        out.write_str(&runs.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shortest_form() {
        for (text, shown) in
            [("0-3,8", "0-3,8"), ("8,3,2,1,0", "0-3,8"), ("1-1", "1"), ("0-1,1-4\n", "0-4"), ("65535", "65535")]
        {
            assert_eq!(CpuList::read(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_list_is_none() {
        for text in ["1,,2", "1,", "3-1", "65536", "0-99999999999999999999", "a", "-1", "1-", "0x3", "1-2-3"] {
            assert_eq!(CpuList::read(text), None, "{text}");
        }
    }

    #[test]
    fn common_cpus() {
        let [list, online] = ["0-3,99", "0-1,4"].map(|text| CpuList::read(text).unwrap());
        assert_eq!(list.within(&online).to_string(), "0-1");
    }

    #[test]
    fn the_kernel_says_nothing_for_none() {
        assert!(["\n", " (null)\n"].iter().all(|text| CpuList::read(text).unwrap().is_empty()));
        assert_eq!(CpuList::read("2-3\n").unwrap().len(), 2);
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(cpus in prop::collection::btree_set(any::<u16>(), 1..60), low in 0u16..60) {
            let list = CpuList(cpus.into_iter().chain(low..low + 5).collect());
            prop_assert_eq!(CpuList::read(&list.to_string()), Some(list));
        }

        #[test]
        fn never_panics(text in "[0-9,\\- a]{0,20}|.*") {
            let _ = CpuList::read(&text);
        }
    }
}
