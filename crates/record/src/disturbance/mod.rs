//! Activity of the rest of the machine during a run.
//!
//! Takes the counters of `/proc/stat`, `/proc/pressure/cpu` and `/proc/[pid]/stat` at the start and at the end. Takes the usage
//! of the measuring process too ([`OwnUsage`]). Returns a [`Disturbance`]. Facts that the machine does not report stay absent.
//! Nothing is read during the measurement.

mod processes;

use std::path::{Path, PathBuf};

use crate::model::Disturbance;
use crate::tree::Tree;
use processes::Processes;

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
    pub fn finish(self, own: OwnUsage) -> Disturbance {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

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
}
