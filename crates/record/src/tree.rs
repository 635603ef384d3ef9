//! Kernel files under a root directory: `/` on a real machine, a fixture in tests.
//!
//! Takes paths relative to the root and returns trimmed texts. A missing, unreadable or blank file is `None`.
//! And its lists of CPUs: `0-3,8`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use punctual::CpuSet;

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

/// The CPUs of a list in a kernel file, in which nothing (or `(null)`) means no CPU. `None`: the text is no list.
pub(crate) fn cpus_in(text: &str) -> Option<CpuSet> {
    match text.trim() {
        "" | "(null)" => Some(CpuSet::default()),
        list => list.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_nothing_for_none() {
        assert!(["\n", " (null)\n"].iter().all(|text| cpus_in(text).unwrap().is_empty()));
        assert_eq!(cpus_in("2-3\n").unwrap().len(), 2);
        assert_eq!(cpus_in("1,,2"), None);
    }
}
