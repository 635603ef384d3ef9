//! The CPUs of sender and receiver, and which CPUs are hardware threads of one core, as the kernel reports it
//! (`Documentation/ABI/stable/sysfs-devices-system-cpu`, `topology/thread_siblings_list`). Those share its caches and its
//! execution units, so messages between them are not comparable with messages between two cores.

use std::collections::BTreeMap;
use std::path::Path;

use punctual::CpuSet;
use punctual_record::experiment::ipc::Placement;

use crate::frame::{Input, PlanError};

/// The CPUs of the two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The CPU of the sender; in ping-pong, of the one that begins. None: any.
    pub sender: Option<usize>,
    /// The CPU of the receiver; in ping-pong, of the one that answers. None: any.
    pub receiver: Option<usize>,
}

impl Place {
    /// On these two CPUs.
    #[must_use]
    pub const fn on(sender: usize, receiver: usize) -> Self {
        Self { sender: Some(sender), receiver: Some(receiver) }
    }

    /// Both on one CPU.
    #[must_use]
    pub fn is_same(self) -> bool {
        self.sender.is_some() && self.sender == self.receiver
    }

    /// The name of its kind in the record.
    #[must_use]
    pub fn kind(self) -> Placement {
        match (self.sender, self.receiver) {
            (Some(a), Some(b)) if a == b => Placement::SameCpu,
            (Some(_), Some(_)) => Placement::TwoCpus,
            _ => Placement::AnyCpu,
        }
    }
}

/// The requested places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// One place with both on one CPU, and one with each on its own.
    Both,
    /// Both on one CPU.
    Same,
    /// Each on its own.
    Different,
    /// The sender on the first CPU, the receiver on the second one.
    On(usize, usize),
    /// Every pair of CPUs.
    Matrix,
}

impl Places {
    /// The places, on the usable CPUs. Two different CPUs belong to two cores, if there are two. With one CPU
    /// [`Places::Both`] is that one.
    pub fn on(&self, allowed: &[usize], topology: &Topology) -> Result<Vec<Place>, PlanError> {
        let list = || allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let one = || format!("two CPUs are asked for, and this process may use one ({})", list());
        let first = allowed.first().copied().unwrap_or(0);
        let second = topology.partner(first, allowed);
        let same = Place::on(first, first);
        let different = second.map(|second| Place::on(first, second));
        match *self {
            Self::Same => Ok(vec![same]),
            Self::Different => Ok(vec![different.ok_or_else(|| PlanError::new(Input::Places, one()))?]),
            Self::Both => Ok([Some(same), different].into_iter().flatten().collect()),
            Self::On(sender, receiver) => match [sender, receiver].into_iter().find(|cpu| !allowed.contains(cpu)) {
                Some(cpu) => {
                    let why = format!("CPU {cpu} is not among those this process may use ({})", list());
                    Err(PlanError::new(Input::Places, why))
                }
                None => Ok(vec![Place::on(sender, receiver)]),
            },
            Self::Matrix if second.is_none() => {
                Err(PlanError::new(Input::Matrix, format!("must have two CPUs or more, not one ({})", list())))
            }
            Self::Matrix => Ok(allowed.iter().flat_map(|&a| allowed.iter().map(move |&b| Place::on(a, b))).collect()),
        }
    }
}

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
    /// Threads of two cores.
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

    #[test]
    fn places_are_made_of_allowed_cpus() {
        let allowed = [2, 5, 7];
        let no = |why: &str| PlanError::new(Input::Places, why);
        let on = |places: Places, allowed: &[usize]| places.on(allowed, &Topology::default());
        assert_eq!(on(Places::Both, &allowed).unwrap(), [Place::on(2, 2), Place::on(2, 5)]);
        assert_eq!(on(Places::Matrix, &allowed).unwrap().len(), 9);
        let one = PlanError::new(Input::Matrix, "must have two CPUs or more, not one (4)");
        assert_eq!(on(Places::Matrix, &[4]), Err(one));
        assert_eq!(on(Places::On(7, 2), &allowed).unwrap(), [Place::on(7, 2)]);
        assert_eq!(on(Places::On(7, 3), &allowed), Err(no("CPU 3 is not among those this process may use (2,5,7)")));
        assert_eq!(on(Places::Both, &[4]).unwrap(), [Place::on(4, 4)]);
        assert_eq!(on(Places::Different, &[4]), Err(no("two CPUs are asked for, and this process may use one (4)")));
        assert_eq!((Place::on(1, 1).kind(), Place::on(1, 2).kind()), (Placement::SameCpu, Placement::TwoCpus));
    }

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
