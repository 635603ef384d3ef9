//! CPU lists in the kernel's notation: `0-3,8`.
//!
//! Parses text from a user or from sysfs into a [`CpuList`], and prints it in its shortest form. Empty lists, empty
//! items, descending ranges and CPU numbers above [`MAX_CPU`] are refused.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The largest CPU number accepted: well above the largest `CONFIG_NR_CPUS` (8192 on x86-64), and small enough that a
/// typing error allocates little memory.
pub const MAX_CPU: u32 = 65_535;

/// A set of CPU numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuList(BTreeSet<u32>);

/// Why a text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// The list is empty.
    #[error("the CPU list is empty; expected CPU numbers and ranges, for instance 0-3,8")]
    Empty,
    /// An empty item: a comma too many.
    #[error("the CPU list '{list}' has an empty item; expected CPU numbers and ranges, for instance 0-3,8")]
    EmptyItem {
        /// The list.
        list: String,
    },
    /// The item is neither a number nor a range.
    #[error("'{item}' is neither a CPU number nor a range; expected for instance 8 or 0-3")]
    NotANumber {
        /// The item.
        item: String,
    },
    /// The range is descending.
    #[error("the CPU range '{item}' runs backwards; did you mean {last}-{first}?")]
    Descending {
        /// The item.
        item: String,
        /// Its first number.
        first: u32,
        /// Its last.
        last: u32,
    },
    /// The number is too large.
    #[error("'{item}' names a CPU above {MAX_CPU}, more than Linux can have")]
    TooLarge {
        /// The item.
        item: String,
    },
}

impl CpuList {
    /// The empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the contents of a kernel file, in which nothing (or `(null)`) means no CPU.
    ///
    /// # Errors
    /// Those of [`CpuListError`], except `Empty`.
    pub fn from_kernel(text: &str) -> Result<Self, CpuListError> {
        match text.trim() {
            "" | "(null)" => Ok(Self::new()),
            list => list.parse(),
        }
    }

    /// Adds a CPU. Returns false if the list has it already or if it is above [`MAX_CPU`].
    pub fn insert(&mut self, cpu: u32) -> bool {
        cpu <= MAX_CPU && self.0.insert(cpu)
    }

    /// Whether the list contains the CPU.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
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

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// The CPUs that are in both lists.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs of this list that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for CpuList {
    /// Numbers above [`MAX_CPU`] are ignored.
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().filter(|&cpu| cpu <= MAX_CPU).collect())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let list = text.trim();
        if list.is_empty() {
            return Err(CpuListError::Empty);
        }
        let mut cpus = BTreeSet::new();
        for item in list.split(',').map(str::trim) {
            if item.is_empty() {
                return Err(CpuListError::EmptyItem { list: list.into() });
            }
            let (first, last) = match item.split_once('-') {
                Some((first, last)) => (number(first, item)?, number(last, item)?),
                None => number(item, item).map(|cpu| (cpu, cpu))?,
            };
            if first > last {
                return Err(CpuListError::Descending { item: item.into(), first, last });
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

/// One CPU number of an item.
fn number(text: &str, item: &str) -> Result<u32, CpuListError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuListError::NotANumber { item: item.into() });
    }
    match text.parse() {
        Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
        _ => Err(CpuListError::TooLarge { item: item.into() }),
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last == first {
                true => write!(out, "{separator}{first}")?,
                false => write!(out, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        text.parse::<CpuList>().unwrap_err().to_string()
    }

    #[test]
    fn shortest_form() {
        for (text, shown) in
            [("0-3,8", "0-3,8"), ("8,3,2,1,0", "0-3,8"), ("1-1", "1"), (" 0-1, 1-4\n", "0-4"), ("65535", "65535")]
        {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn refusals_help() {
        assert!(refusal("").contains("0-3,8"));
        assert!(refusal("1,,2").contains("empty item"));
        assert!(refusal("1,").contains("empty item"));
        assert!(refusal("3-1").contains("did you mean 1-3?"));
        assert!(refusal("65536").contains("65535"));
        assert!(refusal("0-99999999999999999999").contains("65535"));
        for text in ["a", "-1", "1-", "0x3", "+1", "0-7:2/4", "1-2-3"] {
            assert!(refusal(text).contains("neither a CPU number nor a range"), "{text}");
        }
    }

    #[test]
    fn common_and_missing_cpus() {
        let [list, online]: [CpuList; 2] = ["0-3,99", "0-1,4"].map(|text| text.parse().unwrap());
        assert_eq!(list.within(&online).to_string(), "0-1");
        assert_eq!(list.without(&online).to_string(), "2-3,99");
    }

    #[test]
    fn the_kernel_says_nothing_for_none() {
        assert_eq!(CpuList::from_kernel("\n"), Ok(CpuList::new()));
        assert_eq!(CpuList::from_kernel(" (null)\n"), Ok(CpuList::new()));
        assert_eq!(CpuList::from_kernel("2-3\n").unwrap().len(), 2);
        assert!(CpuList::from_kernel("x").is_err());
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(cpus in prop::collection::btree_set(0u32..=MAX_CPU, 1..60), low in 0u32..60) {
            let list: CpuList = cpus.into_iter().chain(low..low + 5).collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>(), Ok(list));
        }

        #[test]
        fn never_panics(text in "[0-9,\\- a]{0,20}|.*") {
            let _ = text.parse::<CpuList>();
        }
    }
}
