//! The other processes of the machine, and which of them used the CPUs most.
//!
//! Takes `/proc/[pid]/stat` (proc_pid_stat(5)) at two moments. A compiler's processes come and go in between, so a
//! process is charged for the children that it waited for. Left out: the measuring process and its descendants.

use std::collections::BTreeMap;

use crate::model::BusyProcess;
use crate::sanitize;
use crate::tree::Tree;

/// Most processes that are read: reading that many takes a tenth of a second. With more, none is named.
const MOST: usize = 10_000;
/// Number of processes named.
const NAMED: usize = 3;
/// From this share of all CPUs' time a process is named.
const WORTH_SAYING: f64 = 0.01;
/// Longest name. The kernel keeps 15 bytes, and more of its own threads.
const NAME: usize = 32;

/// All processes at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    all: BTreeMap<u32, Process>,
    /// The measuring process.
    own: Option<u32>,
}

/// One process; times in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    name: String,
    parent: u32,
    /// When it started: a process ID is used again.
    started: u64,
    own: u64,
    /// Of the children that it waited for, and of theirs.
    children: u64,
}

impl Processes {
    pub(super) fn read(tree: &Tree) -> Self {
        let found = tree.numbered("proc", "");
        if found.len() > MOST {
            return Self::default();
        }
        let one = |(pid, path): (u32, std::path::PathBuf)| {
            let process = Process::parse(&String::from_utf8_lossy(&tree.bytes(path.join("stat"))?))?;
            Some((pid, process))
        };
        // In the numbers of this /proc, which may belong to an outer namespace.
        let own = tree.place("proc/self").read_link().ok().and_then(|link| link.to_str()?.parse().ok());
        Self { all: found.into_iter().filter_map(one).collect(), own }
    }

    /// Those that used the CPUs most since `before`, when all CPUs together had `ticks`.
    pub(super) fn busiest(&self, before: &Self, ticks: u64) -> Vec<BusyProcess> {
        if before.all.is_empty() || ticks == 0 {
            return Vec::new();
        }
        let inherited = self.inherited(before);
        let one = |(pid, process): (&u32, &Process)| {
            let known = before.all.get(pid).filter(|known| known.started == process.started);
            let (own, children) = known.map_or((0, 0), |known| (known.own, known.children));
            let of_children = process.children.saturating_sub(children);
            let of_children = of_children.saturating_sub(inherited.get(pid).copied().unwrap_or(0));
            let used = process.own.saturating_sub(own).saturating_add(of_children);
            let cpu_share = (used as f64 / ticks as f64).min(1.0);
            (cpu_share >= WORTH_SAYING && !self.is_ours(*pid)).then(|| BusyProcess {
                name: sanitize::line(&process.name, NAME),
                pid: *pid,
                cpu_share,
            })
        };
        let mut busy: Vec<BusyProcess> = self.all.iter().filter_map(one).collect();
        busy.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share));
        busy.truncate(NAMED);
        busy
    }

    /// What ended processes had used before the run: it now counts among the children of an ancestor that lives.
    fn inherited(&self, before: &Self) -> BTreeMap<u32, u64> {
        let ended = |pid: u32| {
            let known = before.all.get(&pid)?;
            self.all.get(&pid).is_none_or(|now| now.started != known.started).then_some(known)
        };
        let mut inherited = BTreeMap::new();
        for process in before.all.keys().filter_map(|pid| ended(*pid)) {
            let mut heir = process.parent;
            for _ in 0..before.all.len() {
                let Some(ended) = ended(heir) else { break };
                heir = ended.parent;
            }
            let used: &mut u64 = inherited.entry(heir).or_default();
            *used = used.saturating_add(process.own).saturating_add(process.children);
        }
        inherited
    }

    /// Whether it is the measuring process or descends from it.
    fn is_ours(&self, mut pid: u32) -> bool {
        let Some(own) = self.own else { return false };
        for _ in 0..self.all.len() {
            if pid == own {
                return true;
            }
            let Some(process) = self.all.get(&pid) else { return false };
            pid = process.parent;
        }
        false
    }
}

impl Process {
    /// `pid (comm) state ppid ...`; comm may contain anything.
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = (text.get(text.find('(')? + 1..text.rfind(')')?)?, text.get(text.rfind(')')? + 1..)?);
        // The state is field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        // cutime and cstime are signed, and never negative.
        let both = |first: usize| Some(field(first)?.saturating_add(field(first + 1)?));
        Some(Self {
            name: name.to_owned(),
            parent: u32::try_from(field(4)?).ok()?,
            own: both(14)?,
            children: both(16)?,
            started: field(22)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    /// A process of a fixture: number, name, parent, ticks of its own and of its children, start.
    type Made = (u32, &'static str, u32, u64, u64, u64);

    fn tree(root: &Path, own: u32, processes: &[Made]) -> Processes {
        let _ = fs::remove_dir_all(root.join("proc"));
        fs::create_dir_all(root.join("proc")).unwrap();
        std::os::unix::fs::symlink(own.to_string(), root.join("proc/self")).unwrap();
        for (pid, name, parent, ticks, children, started) in processes {
            fs::create_dir_all(root.join(format!("proc/{pid}"))).unwrap();
            let stat =
                format!("{pid} ({name}) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {children} 0 20 0 1 0 {started} 9\n");
            fs::write(root.join(format!("proc/{pid}/stat")), stat).unwrap();
        }
        Processes::read(&Tree::new(root))
    }

    fn named(before: &[Made], after: &[Made]) -> Vec<(String, u32, f64)> {
        let root = tempfile::tempdir().unwrap();
        let before = tree(root.path(), 42, before);
        let after = tree(root.path(), 42, after);
        after.busiest(&before, 1000).into_iter().map(|process| (process.name, process.pid, process.cpu_share)).collect()
    }

    #[test]
    fn the_three_busiest_are_named_without_this_run() {
        let before: [Made; 7] = [
            (1, "init", 0, 5, 0, 1),
            (7, "cc1) R 1 (", 1, 100, 0, 10),
            (8, "x\u{1b}[2J", 1, 0, 0, 10),
            (9, "idle", 1, 3, 0, 10),
            (10, "ld", 1, 0, 0, 10),
            (42, "punctual", 1, 0, 0, 10),
            (43, "competitor", 42, 0, 0, 10),
        ];
        let ticks = [5, 530, 100, 12, 90, 900, 900];
        let mut after = before;
        after.iter_mut().zip(ticks).for_each(|(process, ticks)| process.3 = ticks);
        let mut expected = vec![("cc1) R 1 (".to_owned(), 7, 0.43), ("x?[2J".to_owned(), 8, 0.1)];
        expected.push(("ld".to_owned(), 10, 0.09));
        assert_eq!(named(&before, &after), expected);
        assert_eq!(named(&[], &after), [], "nothing is known of the beginning");
        assert_eq!(named(&before, &before), []);
    }

    #[test]
    fn children_that_ended_count_for_the_one_that_waited() {
        // make has gcc (2 s before the run), which has cc1 (1 s before). Both end and leave 7 s to make.
        let before: [Made; 4] = [
            (2, "make", 1, 10, 50, 1),
            (3, "gcc", 2, 200, 0, 5),
            (4, "cc1", 3, 100, 0, 6),
            (42, "punctual", 1, 0, 0, 7),
        ];
        let after: [Made; 2] = [(2, "make", 1, 20, 750, 1), (42, "punctual", 1, 0, 0, 7)];
        assert_eq!(named(&before, &after), [("make".to_owned(), 2, 0.41)]);
        // The number of a process that ended is used again.
        let after: [Made; 2] = [(3, "other", 1, 150, 0, 99), (42, "punctual", 1, 0, 0, 7)];
        assert_eq!(named(&before, &after), [("other".to_owned(), 3, 0.15)]);
    }

    #[test]
    fn circles_of_parents_end() {
        let circle: [Made; 2] = [(2, "a", 3, 0, 0, 1), (3, "b", 2, 0, 0, 1)];
        assert_eq!(named(&circle, &[(2, "a", 3, 500, 0, 1), (3, "b", 2, 0, 0, 1)]), [("a".to_owned(), 2, 0.5)]);
        assert_eq!(named(&circle, &[]), []);
    }

    #[test]
    fn this_machine_has_processes() {
        let tree = Tree::new(Path::new("/"));
        let processes = Processes::read(&tree);
        assert_eq!(processes.own, Some(std::process::id()));
        assert!(processes.is_ours(std::process::id()) && processes.all.contains_key(&std::process::id()));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[0-9]{0,3} ?\\(?.{0,9}\\)?( [0-9R-]{1,20}){0,24}") {
            let _ = Process::parse(&text);
        }
    }
}
