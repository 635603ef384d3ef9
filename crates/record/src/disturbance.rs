//! Activity of the rest of the machine during a run.
//!
//! Takes the counters of `/proc/stat`, `/proc/pressure/cpu` and `/proc/[pid]/stat` at the start and at the end. Takes the usage
//! of the measuring process too ([`OwnUsage`]). Returns a [`Disturbance`]. Facts that the machine does not report stay absent.
//! Nothing is read during the measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::model::{BusyProcess, Disturbance};
use crate::sanitize;
use crate::tree::Tree;

/// Nanoseconds in a tick of `/proc/stat`. `USER_HZ` is 100 on every architecture that Linux supports
/// (include/asm-generic/param.h), whatever the kernel's own HZ.
const TICK_NS: u64 = 10_000_000;

/// Usage of the measuring process (`getrusage(2)`) over the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnUsage {
    /// Preemptions of its measuring threads (`ru_nivcsw`).
    pub involuntary_switches: Option<u64>,
    /// Its major page faults (`ru_majflt`).
    pub major_faults: Option<u64>,
}

/// The counters at the beginning of a run.
#[derive(Debug, Clone)]
pub struct DisturbanceProbe {
    root: PathBuf,
    before: Counters,
    pressure: Option<f64>,
    processes: Processes,
}

impl DisturbanceProbe {
    /// Reads the counters. `root` is `/`, or a directory with copies of these files.
    #[must_use]
    pub fn start(root: &Path) -> Self {
        let tree = Tree::new(root);
        let pressure = tree.text("proc/pressure/cpu").as_deref().and_then(pressure);
        let processes = Processes::read(&tree);
        Self { root: root.into(), before: Counters::read(&tree), pressure, processes }
    }

    /// Reads the counters again and returns the difference.
    #[must_use]
    pub fn finish(&self, own: OwnUsage) -> Disturbance {
        let tree = Tree::new(&self.root);
        let after = Counters::read(&tree);
        let times = self.before.times.zip(after.times).map(|(before, after)| after.since(before));
        let share = |ticks: u64, total: u64| (total > 0).then(|| ticks as f64 / total as f64);
        let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        Disturbance {
            steal_ns: times.and_then(|times| times.steal).map(|ticks| ticks.saturating_mul(TICK_NS)),
            steal_share: times.and_then(|times| share(times.steal?, times.total())),
            involuntary_switches: own.involuntary_switches,
            interrupts: grown(self.before.interrupts, after.interrupts),
            context_switches: grown(self.before.context_switches, after.context_switches),
            busy_share: times.and_then(|times| share(times.busy, times.total())),
            cpu_pressure_before: self.pressure,
            major_faults: own.major_faults,
            busiest: times
                .map(|times| Processes::read(&tree).busiest(&self.processes, times.total()))
                .unwrap_or_default(),
        }
    }
}

/// Counters of `/proc/stat`, since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    times: Option<Times>,
    interrupts: Option<u64>,
    context_switches: Option<u64>,
}

/// CPU time of all CPUs together, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    /// Running time: user, nice, system, irq, softirq. User and nice include guests.
    busy: u64,
    /// Time without work: idle and iowait.
    idle: u64,
    /// Time taken by the hypervisor; absent before Linux 2.6.11.
    steal: Option<u64>,
}

impl Times {
    fn total(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal.unwrap_or(0))
    }

    /// The difference. Idle and iowait may count backwards (proc_stat(5)); that counts as no change.
    fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.zip(before.steal).map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

impl Counters {
    fn read(tree: &Tree) -> Self {
        tree.text("proc/stat").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let mut counters = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("cpu") => counters.times = times(words),
                Some("intr") => counters.interrupts = words.next().and_then(|word| word.parse().ok()),
                Some("ctxt") => counters.context_switches = words.next().and_then(|word| word.parse().ok()),
                _ => {}
            }
        }
        counters
    }
}

/// user nice system idle iowait irq softirq steal ... (proc_stat(5))
fn times<'a>(words: impl Iterator<Item = &'a str>) -> Option<Times> {
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, rest @ ..] = ticks.as_slice() else { return None };
    let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    Some(Times {
        busy: sum(&[*user, *nice, *system, *irq, *softirq]),
        idle: sum(&[*idle, *iowait]),
        steal: rest.first().copied(),
    })
}

/// `some avg10=1.53 ...` as a share.
fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

// The other processes of the machine, and which of them used the CPUs most.
//
// Takes `/proc/[pid]/stat` (proc_pid_stat(5)) at two moments. A compiler's processes come and go in between, so a
// process is charged for the children that it waited for. Left out: the measuring process and its descendants.

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
struct Processes {
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
    fn read(tree: &Tree) -> Self {
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
    fn busiest(&self, before: &Self, ticks: u64) -> Vec<BusyProcess> {
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

    fn write(root: &Path, stat: &str) {
        fs::create_dir_all(root.join("proc/pressure")).unwrap();
        fs::write(root.join("proc/stat"), stat).unwrap();
        fs::write(
            root.join("proc/pressure/cpu"),
            "some avg10=1.50 avg60=0.20 avg300=0.05 total=123\nfull avg10=0.00\n",
        )
        .unwrap();
    }

    #[test]
    fn differences_of_the_counters() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cpu  100 10 50 1000 5 1 2 7 0 0\ncpu0 1 2 3\nintr 5000 1 2 3\nctxt 900\n");
        let probe = DisturbanceProbe::start(root.path());
        write(root.path(), "cpu  150 10 60 1100 5 1 2 47 0 0\nintr 5600 1 2 3\nctxt 1900\n");
        let own = OwnUsage { involuntary_switches: Some(3), major_faults: Some(0) };
        let expected = Disturbance {
            steal_ns: Some(400_000_000),
            steal_share: Some(0.2),
            involuntary_switches: Some(3),
            interrupts: Some(600),
            context_switches: Some(1000),
            busy_share: Some(0.3),
            cpu_pressure_before: Some(0.015),
            major_faults: Some(0),
            busiest: Vec::new(),
        };
        assert_eq!(probe.finish(own), expected);
    }

    #[test]
    fn untold_is_absent() {
        let root = tempfile::tempdir().unwrap();
        let disturbance = DisturbanceProbe::start(root.path()).finish(OwnUsage::default());
        assert_eq!(disturbance, Disturbance::default());
    }

    #[test]
    fn shorter_than_a_tick_has_no_shares() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cpu  100 10 50 1000 5 1 2 7 0 0\n");
        let disturbance = DisturbanceProbe::start(root.path()).finish(OwnUsage::default());
        assert_eq!((disturbance.steal_ns, disturbance.steal_share, disturbance.busy_share), (Some(0), None, None));
    }

    #[test]
    fn this_machine_counts() {
        let probe = DisturbanceProbe::start(Path::new("/"));
        std::thread::sleep(std::time::Duration::from_millis(30));
        let disturbance = probe.finish(OwnUsage::default());
        assert!(disturbance.interrupts.is_some() && disturbance.context_switches.is_some_and(|switches| switches > 0));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(before in "(cpu|intr|ctxt)?[ 0-9a-z\n-]{0,80}", after in "(cpu  [0-9]{1,20}( [0-9]{1,20}){0,9})|.*") {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), &before);
            let probe = DisturbanceProbe::start(root.path());
            write(root.path(), &after);
            let disturbance = probe.finish(OwnUsage::default());
            prop_assert!(disturbance.busy_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
            let _ = pressure(&before);
        }
    }

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
        fn no_garbage_of_a_process_panics(text in "[0-9]{0,3} ?\\(?.{0,9}\\)?( [0-9R-]{1,20}){0,24}") {
            let _ = Process::parse(&text);
        }
    }
}
