//! Which CPUs are hardware threads of one core, as the kernel reports it
//! (`Documentation/ABI/stable/sysfs-devices-system-cpu`, `topology/thread_siblings_list`). They share its caches and
//! its execution units, so messages between them are not comparable with messages between two cores.

use std::collections::BTreeMap;
use std::path::Path;

use punctual::CpuSet;

/// The cores of some CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// All threads of each CPU's core. A CPU is missing if the kernel does not report its core.
    siblings: BTreeMap<usize, CpuSet>,
}

/// The relation of two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Two threads of one core.
    Siblings,
    /// Two cores.
    Apart,
    /// Unknown: the kernel does not report it.
    Unknown,
}

impl Topology {
    /// Reads the topology of these CPUs. `root` is `/`, or a tree like it.
    #[must_use]
    pub fn read(root: &Path, cpus: &[usize]) -> Self {
        let siblings = |cpu: usize| {
            let file = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
            let set: CpuSet = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
            // A list without the CPU itself is invalid.
            set.contains(cpu).then_some((cpu, set))
        };
        Self { siblings: cpus.iter().filter_map(|cpu| siblings(*cpu)).collect() }
    }

    /// The relation of two CPUs.
    #[must_use]
    pub fn relation(&self, one: usize, other: usize) -> Relation {
        match (self.siblings.get(&one), self.siblings.get(&other)) {
            (Some(of_one), _) if of_one.contains(other) => Relation::Siblings,
            (_, Some(of_other)) if of_other.contains(one) => Relation::Siblings,
            (Some(_), Some(_)) => Relation::Apart,
            _ => Relation::Unknown,
        }
    }

    /// The CPU among `cpus` to pair with `first`. It is the first of another core, else of an unknown core,
    /// else any other.
    #[must_use]
    pub fn partner(&self, first: usize, cpus: &[usize]) -> Option<usize> {
        let others = || cpus.iter().copied().filter(|cpu| *cpu != first);
        let that_is = |wanted: Relation| others().find(|cpu| self.relation(first, *cpu) == wanted);
        that_is(Relation::Apart).or_else(|| that_is(Relation::Unknown)).or_else(|| others().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these lists.
    fn tree(lists: &[(usize, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (cpu, list) in lists {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thread_siblings_list"), list).unwrap();
        }
        root
    }

    fn read(lists: &[(usize, &str)], cpus: &[usize]) -> Topology {
        Topology::read(tree(lists).path(), cpus)
    }

    #[test]
    fn neighbours_that_are_threads_of_one_core_are_passed_over() {
        let topology = read(&[(0, "0-1\n"), (1, "0-1\n"), (2, "2-3\n"), (3, "2-3\n")], &[0, 1, 2, 3]);
        assert_eq!(topology.partner(0, &[0, 1, 2, 3]), Some(2));
        assert_eq!(topology.partner(2, &[2, 3]), Some(3), "there is no other core");
        assert_eq!((topology.relation(0, 1), topology.relation(1, 2)), (Relation::Siblings, Relation::Apart));
    }

    #[test]
    fn siblings_are_found_however_they_are_numbered() {
        let topology = read(&[(0, "0,4\n"), (1, "1,5\n"), (4, "0,4\n"), (5, "1,5\n")], &[0, 1, 4, 5]);
        assert_eq!(topology.partner(0, &[0, 1, 4, 5]), Some(1));
        assert_eq!(topology.partner(0, &[0, 4, 5]), Some(5));
        let without = read(&[(0, "0\n"), (1, "1\n")], &[0, 1]);
        assert_eq!(without.relation(0, 1), Relation::Apart);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_unknown() {
        let silent = read(&[], &[0, 1]);
        assert_eq!((silent.relation(0, 1), silent.partner(0, &[0, 1])), (Relation::Unknown, Some(1)));
        // With lists of only some CPUs: either list shows a sibling, and a CPU in neither is unknown.
        let half = read(&[(0, "0-1\n"), (2, "nonsense\n"), (3, "5\n")], &[0, 1, 2, 3]);
        assert_eq!((half.relation(1, 0), half.relation(0, 2)), (Relation::Siblings, Relation::Unknown));
        assert_eq!(half.relation(0, 3), Relation::Unknown);
        assert_eq!(half.partner(0, &[0, 1, 2, 3]), Some(2), "rather unknown than a sibling");
        assert_eq!(half.partner(0, &[0]), None);
    }
}
