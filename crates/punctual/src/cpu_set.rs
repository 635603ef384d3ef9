//! A set of CPUs, as typed and printed in the kernel's list format: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The highest CPU number accepted. The largest `CONFIG_NR_CPUS` of the kernel is 8192 (arch/x86/Kconfig).
pub const HIGHEST_CPU: usize = 8191;

/// A set of CPUs. Not empty when it was read from text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct CpuSet(Vec<usize>);

impl CpuSet {
    /// The CPUs, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Whether `cpu` is in it.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// How many CPUs it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| !other.contains(cpu)).collect())
    }
}

impl FromIterator<usize> for CpuSet {
    /// The set of these CPUs, in any order, repeated or not.
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

/// Why a CPU list was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// Nothing between two commas, or nothing at all.
    #[error("expected CPU numbers and ranges, with nothing left out (example: 0-3,8)")]
    Empty {
        /// The whole text.
        typed: String,
    },
    /// Not a number.
    #[error("expected CPU numbers and ranges, not {part:?} (example: 0-3,8)")]
    NotANumber {
        /// The offending part.
        part: String,
    },
    /// A range that runs backwards.
    #[error("expected a range from low to high, not {first}-{last} (example: {last}-{first})")]
    Backwards {
        /// The first number typed.
        first: usize,
        /// The number after the dash.
        last: usize,
    },
    /// A number no kernel has.
    #[error("expected CPU numbers from 0 to {HIGHEST_CPU}, not {part} (example: 0-3)")]
    TooHigh {
        /// The number typed.
        part: String,
    },
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(typed: &str) -> Result<Self, CpuSetError> {
        // As many as there are CPUs, however often the text names them.
        let mut cpus = BTreeSet::new();
        for part in typed.trim().split(',').map(str::trim) {
            if part.is_empty() {
                return Err(CpuSetError::Empty { typed: typed.trim().to_owned() });
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first.trim(), part)?, number(last.trim(), part)?);
            if first > last {
                return Err(CpuSetError::Backwards { first, last });
            }
            cpus.extend(first..=last);
        }
        Ok(Self::from_iter(cpus))
    }
}

fn number(typed: &str, part: &str) -> Result<usize, CpuSetError> {
    if typed.is_empty() || !typed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CpuSetError::NotANumber { part: part.to_owned() });
    }
    match typed.parse() {
        Ok(cpu) if cpu <= HIGHEST_CPU => Ok(cpu),
        _ => Err(CpuSetError::TooHigh { part: typed.to_owned() }),
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            run => format!("{}-{}", run[0], run[run.len() - 1]),
        });
        f.pad(&runs.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints() {
        for (typed, printed) in [("0", "0"), ("0-3,8", "0-3,8"), ("8, 3,2,1 ,0", "0-3,8"), ("1,1", "1"), ("4-4", "4")] {
            assert_eq!(typed.parse::<CpuSet>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn refuses() {
        let said: Vec<String> = ["", "0,,1", "1,", "x", "0x1", "-1", "3-1", "1-", "9999", "0-99999999999999999999"]
            .iter()
            .map(|typed| typed.parse::<CpuSet>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    proptest! {
        #[test]
        fn round_trip(cpus in proptest::collection::btree_set(0..=HIGHEST_CPU, 1..60)) {
            let set = CpuSet::from_iter(cpus.iter().copied());
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set.clone());
            prop_assert_eq!(set.as_slice(), cpus.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn anything_typed_is_answered(typed in ".{0,30}") {
            let _ = typed.parse::<CpuSet>();
        }
    }
}
