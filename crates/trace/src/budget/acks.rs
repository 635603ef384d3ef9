//! Acknowledgements of TCP that a timer sent late, in the network namespaces of the watched processes.
//!
//! Input: `DelayedACKs` of `/proc/PID/net/netstat`, now and then. The kernel counts there what its timer sends because the program had nothing to
//! send with it for 40 ms. Output: how many those were meanwhile, of all connections of the namespaces.

use std::collections::BTreeMap;
use std::fs::{read_link, read_to_string};
use std::path::{Path, PathBuf};

/// Most namespaces.
const MOST: usize = 8;

/// The counts of each namespace.
#[derive(Debug, Default)]
pub(super) struct Acks {
    by_namespace: BTreeMap<PathBuf, Count>,
}

/// The first reading and the latest.
#[derive(Debug)]
struct Count {
    before: u64,
    last: u64,
}

impl Acks {
    /// Reads the counts of the namespaces in which these processes are.
    pub(super) fn look(&mut self, pids: &[u32]) {
        let mut seen: Vec<PathBuf> = Vec::new();
        for pid in pids {
            let Ok(namespace) = read_link(format!("/proc/{pid}/ns/net")) else { continue };
            if seen.contains(&namespace) {
                continue;
            }
            let text = read_to_string(format!("/proc/{pid}/net/netstat")).unwrap_or_default();
            if let Some(count) = delayed(&text) {
                self.count(&namespace, count);
            }
            seen.push(namespace);
        }
    }

    fn count(&mut self, namespace: &Path, count: u64) {
        let room = self.by_namespace.len() < MOST;
        match self.by_namespace.get_mut(namespace) {
            Some(known) => known.last = count,
            None if room => drop(self.by_namespace.insert(namespace.to_owned(), Count { before: count, last: count })),
            None => {}
        }
    }

    /// How many were sent late meanwhile; none where the kernel shows no count.
    pub(super) fn late(&self) -> Option<u64> {
        let counts = self.by_namespace.values().map(|count| count.last.saturating_sub(count.before));
        (!self.by_namespace.is_empty()).then(|| counts.sum())
    }
}

/// `TcpExt: SyncookiesSent ... DelayedACKs ...`, and a line with the values in the same order.
fn delayed(netstat: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "DelayedACKs")?;
    values.split(' ').nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_has_the_place_of_its_name_and_what_was_before_is_not_counted() {
        let netstat =
            |acks| format!("TcpExt: TW DelayedACKs DelayedACKLocked\nTcpExt: 7 {acks} 9\nIpExt: In\nIpExt: 5\n");
        assert_eq!(delayed(&netstat(12)), Some(12));
        assert_eq!(delayed("TcpExt: TW\nTcpExt: 7\n"), None);
        let mut acks = Acks::default();
        assert_eq!(acks.late(), None, "no namespace is known");
        for (namespace, count) in [("net:[1]", 12), ("net:[2]", 5), ("net:[1]", 32), ("net:[2]", 6)] {
            acks.count(Path::new(namespace), count);
        }
        assert_eq!(acks.late(), Some(21));
        acks.look(&[std::process::id()]);
        assert_eq!(acks.late(), Some(21), "a namespace that is new has its first reading");
    }
}
