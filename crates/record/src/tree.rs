//! Kernel files under a root directory: `/` on a real machine, a fixture in tests.
//!
//! Takes paths relative to the root and returns trimmed texts. A missing, unreadable or blank file is `None`.
//! And CPU lists in the kernel's notation: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Most bytes read of one file. `/proc/cpuinfo` of a machine with 1024 CPUs has 1.5 MB.
const MOST_BYTES: u64 = 8 << 20;

/// A root directory.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Whether the root is the machine itself.
    pub(crate) fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path of a file.
    pub(crate) fn place(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref()))
    }

    /// Whether a file exists.
    pub(crate) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.place(path).exists()
    }

    /// The bytes of a file, up to a bound.
    pub(crate) fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.place(path)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a file without white space and NULs around it. Empty text is text.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.bytes(path)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_string())
    }

    /// The text of a file, unless it is blank.
    pub(crate) fn word(&self, path: impl AsRef<Path>) -> Option<String> {
        self.text(path).filter(|text| !text.is_empty())
    }

    /// The number in a file.
    pub(crate) fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The numbers of the directory entries named `prefix` plus a number, ascending.
    pub(crate) fn numbered(&self, path: impl AsRef<Path>, prefix: &str) -> Vec<(u32, PathBuf)> {
        let Ok(entries) = self.place(path.as_ref()).read_dir() else { return Vec::new() };
        let mut found: Vec<(u32, PathBuf)> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let number = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
                Some((number, path.as_ref().join(name)))
            })
            .collect();
        found.sort();
        found
    }
}

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
