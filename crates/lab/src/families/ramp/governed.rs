//! The policy of the looping thread's CPU, the right to change it, and the facts about it that may explain why full speed
//! was not reached.

use punctual::conditions::Condition;
use punctual::cpufreq::{Cpufreq, CpufreqPolicy, Error, GovernorGuard, Serves, format_frequency};
use punctual_record::remedy::of_need;
use punctual_record::{Notice, Refusal};

use crate::frame::Unavailable;
use crate::speed::{PATIENCE, PERFORMANCE};

/// Order of the governors, from the fastest to the slowest.
const ORDER: [&str; 6] = [PERFORMANCE, "userspace", "schedutil", "ondemand", "conservative", "powersave"];

/// The subject if no governor was set: the machine as found.
pub const AS_FOUND: &str = "as found";

/// The requested governors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Governors {
    /// All governors of the policy, or the machine as found if none can be set.
    All,
    /// The named ones, in this order.
    Named(Vec<String>),
    /// The governor as found, taking turns with `performance` if that can be set. This shows the gain from holding
    /// the speed.
    AgainstPerformance,
}

impl Governors {
    /// The subjects that a run on this CPU may have.
    #[must_use]
    pub fn subjects(&self, cpu: Option<usize>) -> Vec<String> {
        self.subjects_at(&Cpufreq::system(), cpu)
    }

    fn subjects_at(&self, cpufreq: &Cpufreq, cpu: Option<usize>) -> Vec<String> {
        let named = match self {
            Self::All => {
                let policies = cpufreq.policies_of(cpu.as_slice()).unwrap_or_default();
                policies.into_iter().next().map(|policy| policy.governors).unwrap_or_default()
            }
            Self::Named(names) => names.clone(),
            Self::AgainstPerformance => vec![PERFORMANCE.to_owned()],
        };
        std::iter::once(AS_FOUND.to_owned()).chain(named).collect()
    }
}

/// One governor: it becomes a series.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// The governor; `None`: as found.
    pub(super) governor: Option<String>,
    /// Why it cannot be set.
    pub(super) failure: Option<Unavailable>,
}

/// The policy of a CPU, and the right to change it.
#[derive(Debug)]
pub(crate) struct Governed {
    pub(super) cpufreq: Cpufreq,
    pub(super) cpu: Option<usize>,
    pub(super) guard: Option<GovernorGuard>,
}

impl Governed {
    /// Determines which governors can be set for this CPU's policy, and lays out the cells.
    pub(super) fn take_over(
        cpufreq: Cpufreq,
        cpu: Option<usize>,
        (governors, require): (&Governors, bool),
    ) -> Result<(Self, Vec<Cell>, Vec<Notice>), Error> {
        let mut governed = Self { cpufreq, cpu, guard: None };
        let cell = |name: &String| Cell { governor: Some(name.clone()), failure: None };
        let (mut cells, mut notices) = (Vec::new(), Vec::new());
        match (governors, governed.take()) {
            (Governors::AgainstPerformance, taken) => {
                cells.push(Cell::default());
                match performance(taken) {
                    Ok(cell) => cells.extend(cell),
                    Err(error) => {
                        let (conditions, refusal) = (format!("governor {PERFORMANCE}"), refusal(PERFORMANCE, &error));
                        notices.push(Notice::ConditionsSkipped { conditions, refusal });
                    }
                }
            }
            (Governors::All, Ok(policy)) => {
                let mut offered = policy.governors.clone();
                offered.sort_by_key(|name| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()));
                cells.extend(offered.iter().map(cell));
            }
            (Governors::Named(names), Ok(_)) => cells.extend(names.iter().map(cell)),
            (_, Err(error)) if require => return Err(error),
            (Governors::All, Err(error)) => {
                cells.push(Cell::default());
                notices.push(nothing_set(&error));
            }
            (Governors::Named(names), Err(error)) => {
                cells.push(Cell::default());
                let failure = Some(Unavailable::from(&error));
                cells.extend(names.iter().map(|name| Cell { failure: failure.clone(), ..cell(name) }));
            }
        }
        let replayed = governed.guard.iter().flat_map(GovernorGuard::replayed);
        notices.extend(replayed.map(|text| Notice::Other { text: text.clone() }));
        Ok((governed, cells, notices))
    }

    /// Acquires the guard, and checks that a governor can be set, with the present one.
    fn take(&mut self) -> Result<CpufreqPolicy, Error> {
        let policy = self.cpufreq.policies_of(self.cpu.as_slice())?.into_iter().next().unwrap_or_default();
        let mut guard = self.cpufreq.guard(self.cpu.as_slice(), PATIENCE)?;
        if let Some(present) = &policy.governor {
            guard.set_governor(present)?;
        }
        self.guard = Some(guard);
        Ok(policy)
    }

    /// Sets this governor for the policy, `userspace` at the highest speed.
    pub(super) fn set(&mut self, governor: &str) -> Result<(), Error> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        guard.set_governor(governor)?;
        if governor == "userspace" {
            let max = self.cpufreq.policies_of(self.cpu.as_slice())?.iter().filter_map(|policy| policy.max_khz).min();
            max.map_or(Ok(()), |khz| guard.set_speed_khz(khz))?;
        }
        Ok(())
    }

    /// Raises the priority of the governors' kernel threads, and returns their names.
    pub(super) fn raise_threads(&mut self, priority: Option<u8>) -> Result<Vec<String>, Error> {
        match (&mut self.guard, priority) {
            (Some(guard), Some(priority)) => {
                Ok(guard.raise_governor_threads(priority)?.iter().map(|thread| thread.name.clone()).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn policy(&self) -> Option<CpufreqPolicy> {
        let cpu = self.cpu?;
        self.cpufreq.policies_of(&[cpu]).ok()?.into_iter().next()
    }
}

/// The governor that [`Governors::AgainstPerformance`] sets. `None`: the one found.
fn performance(taken: Result<CpufreqPolicy, Error>) -> Result<Option<Cell>, Error> {
    let found = taken?;
    if found.governor.as_deref() == Some(PERFORMANCE) {
        return Ok(None);
    }
    if !found.governors.iter().any(|offered| offered == PERFORMANCE) {
        let CpufreqPolicy { number: policy, governors: offered, .. } = found;
        return Err(Error::UnknownGovernor { policy, asked: PERFORMANCE.to_owned(), offered });
    }
    Ok(Some(Cell { governor: Some(PERFORMANCE.to_owned()), failure: None }))
}

/// The notice that no governor could be set. Without governors, that is no failure.
fn nothing_set(error: &Error) -> Notice {
    match error {
        Error::NotExposed { why, .. } => Notice::Other {
            text: format!(
                "CPU frequency is not exposed here: {why}. The loops ran at whatever speed the \
                 machine gave them, and what varies in them is its doing."
            ),
        },
        _ => Notice::ConditionRefused { conditions: AS_FOUND.to_owned(), refusal: refusal("all in turn", error) },
    }
}

fn refusal(governor: &str, error: &Error) -> Refusal {
    Refusal {
        condition: Condition::GOVERNOR.name().into(),
        asked: governor.into(),
        why: error.to_string(),
        remedy: of_need(&error.needs()),
    }
}

/// Facts about one governor's turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) policy: CpufreqPolicy,
    /// The governor's kernel threads, as text, and whether each has a real-time policy above the given priority.
    threads: Vec<(String, u32, u32)>,
}

impl Facts {
    /// Reads them for the policy of this CPU.
    pub(super) fn read(cpufreq: &Cpufreq, policy: CpufreqPolicy, cpu: usize) -> Self {
        let concerned = |serves: &Serves| match (serves, policy.governor.as_deref()) {
            (Serves::Schedutil { policy: number }, Some("schedutil")) => *number == policy.number,
            (Serves::Worker { cpu: worker_cpu }, Some("ondemand" | "conservative")) => *worker_cpu == cpu,
            _ => false,
        };
        let threads = cpufreq.governor_threads();
        let threads =
            threads.into_iter().filter(|t| concerned(&t.serves)).map(|t| (t.to_string(), t.policy, t.priority));
        Self { threads: threads.collect(), policy }
    }

    /// Why full speed was not reached, as far as these facts show.
    pub(super) fn why_slow(
        &self,
        governor: Option<&str>,
        priority: Option<u32>,
        transitions: Option<u64>,
        raised: bool,
    ) -> Option<String> {
        let policy = &self.policy;
        let governor = governor.or(policy.governor.as_deref())?;
        if let (Some(max), Some(hardware)) = (policy.max_khz, policy.hardware_max_khz)
            && max < hardware
        {
            let [max, hardware] = [max, hardware].map(format_frequency);
            return Some(format!("scaling_max_freq holds it at {max} of {hardware}"));
        }
        match governor {
            "powersave" if !policy.is_autonomous() => Some("it keeps the lowest frequency, by design".into()),
            "userspace" => {
                let below = |khz: &u64| policy.max_khz.is_none_or(|max| *khz < max);
                let kept = policy.set_speed_khz.filter(below);
                kept.map(|khz| format!("it keeps the {} that were set", format_frequency(khz)))
            }
            "ondemand" | "conservative" | "schedutil" => self.starved(governor, priority, transitions, raised),
            _ => None,
        }
    }

    /// Whether the governed thread held the CPU, so that the governor could not run.
    fn starved(&self, governor: &str, priority: Option<u32>, transitions: Option<u64>, raised: bool) -> Option<String> {
        let priority = priority?;
        // SCHED_DEADLINE (6) runs before every SCHED_FIFO thread.
        let below = |(_, policy, its_priority): &&(String, u32, u32)| {
            *policy != 6 && !(matches!(policy, 1 | 2) && *its_priority > priority)
        };
        let starved: Vec<&str> = self.threads.iter().filter(below).map(|(text, ..)| text.as_str()).collect();
        if starved.is_empty() || raised || transitions.is_some_and(|n| n > 0) {
            return None;
        }
        Some(format!(
            "{governor} was starved: it works in {}, which a thread of real-time priority {priority} keeps from running on this \
             CPU; a governor thread priority of {} raises it for the run",
            starved.join(" and "),
            (priority + 10).min(98)
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use punctual::restore::StateDir;

    use super::*;

    /// A tree with one policy, under this governor.
    fn machine(governor: &str, offered: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let policy = root.path().join("sys/devices/system/cpu/cpufreq/policy0");
        fs::create_dir_all(&policy).unwrap();
        for (name, value) in [
            ("scaling_driver", "acpi-cpufreq"),
            ("scaling_governor", governor),
            ("scaling_available_governors", offered),
            ("scaling_min_freq", "1000000"),
            ("scaling_max_freq", "3000000"),
            ("cpuinfo_min_freq", "1000000"),
            ("cpuinfo_max_freq", "3000000"),
            ("affected_cpus", "0"),
            ("related_cpus", "0"),
        ] {
            fs::write(policy.join(name), format!("{value}\n")).unwrap();
        }
        root
    }

    /// No policy at all.
    fn bare() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
        root
    }

    fn taken(root: &Path, governors: &Governors, require: bool) -> Result<(Governed, Vec<Cell>, Vec<Notice>), Error> {
        let cpufreq = Cpufreq::at(root, StateDir::at(root.join("run")));
        Governed::take_over(cpufreq, Some(0), (governors, require))
    }

    fn names(cells: &[Cell]) -> Vec<Option<&str>> {
        cells.iter().map(|cell| cell.governor.as_deref()).collect()
    }

    #[test]
    fn all_governors_are_measured_from_the_fast_to_the_slow() {
        let root = machine("ondemand", "powersave ondemand performance mystery");
        let (governed, cells, notices) = taken(root.path(), &Governors::All, false).unwrap();
        assert_eq!(names(&cells), ["performance", "ondemand", "powersave", "mystery"].map(Some));
        assert!(governed.guard.is_some() && notices.is_empty());
    }

    #[test]
    fn the_subjects_of_a_run_are_known_before_it() {
        let root = machine("ondemand", "powersave ondemand performance");
        for governors in [
            Governors::All,
            Governors::Named(vec!["powersave".into(), "ondemand".into()]),
            Governors::AgainstPerformance,
        ] {
            let cpufreq = Cpufreq::at(root.path(), StateDir::at(root.path().join("run")));
            let known = governors.subjects_at(&cpufreq, Some(0));
            let (_, cells, _) = taken(root.path(), &governors, false).unwrap();
            for cell in cells {
                let subject = cell.governor.unwrap_or(AS_FOUND.into());
                assert!(known.contains(&subject), "{governors:?}: {subject} of {known:?}");
            }
            assert!(!known.contains(&"schedutil".into()), "{known:?}");
        }
        let none = bare();
        let cpufreq = Cpufreq::at(none.path(), StateDir::at(none.path().join("run")));
        assert_eq!(Governors::All.subjects_at(&cpufreq, Some(0)), [AS_FOUND]);
    }

    #[test]
    fn what_is_found_is_compared_with_performance_unless_it_is_that() {
        let against = Governors::AgainstPerformance;
        let other = machine("powersave", "powersave performance");
        assert_eq!(names(&taken(other.path(), &against, false).unwrap().1), [None, Some("performance")]);
        let same = machine("performance", "powersave performance");
        assert_eq!(names(&taken(same.path(), &against, false).unwrap().1), [None]);
        let without = machine("powersave", "powersave");
        let (_, cells, notices) = taken(without.path(), &against, false).unwrap();
        assert_eq!(names(&cells), [None]);
        assert!(matches!(&notices[..], [Notice::ConditionsSkipped { refusal, .. }] if refusal.asked == "performance"));
    }

    #[test]
    fn without_cpufreq_the_loops_are_measured_all_the_same() {
        let root = bare();
        let (governed, cells, notices) = taken(root.path(), &Governors::All, false).unwrap();
        assert_eq!(names(&cells), [None]);
        assert!(governed.guard.is_none() && matches!(&notices[..], [Notice::Other { .. }]));
        let named = Governors::Named(vec!["ondemand".into()]);
        let (_, cells, _) = taken(root.path(), &named, false).unwrap();
        assert_eq!(names(&cells), [None, Some("ondemand")]);
        assert!(cells[0].failure.is_none() && cells[1].failure.is_some());
        assert!(taken(root.path(), &named, true).is_err(), "the caller insists on it");
    }

    fn ondemand() -> Facts {
        let threads = vec![("kworker/1:0 (22): SCHED_OTHER, nice 0".to_owned(), 0, 0)];
        let (max_khz, hardware_max_khz) = (Some(3_000_000), Some(3_000_000));
        Facts { threads, policy: CpufreqPolicy { max_khz, hardware_max_khz, ..CpufreqPolicy::default() } }
    }

    fn under(policy: CpufreqPolicy) -> Facts {
        Facts { policy, ..ondemand() }
    }

    #[test]
    fn a_starved_governor_is_named_with_what_helps() {
        let why = ondemand().why_slow(Some("ondemand"), Some(10), Some(0), false).unwrap();
        assert!(why.contains("kworker/1:0") && why.contains("governor thread priority of 20"), "{why}");
    }

    #[test]
    fn a_governor_that_did_its_work_or_was_never_kept_from_it_is_not_called_starved() {
        assert_eq!(ondemand().why_slow(Some("ondemand"), Some(10), Some(3), false), None);
        assert_eq!(ondemand().why_slow(Some("ondemand"), None, Some(0), false), None);
        assert_eq!(ondemand().why_slow(Some("ondemand"), Some(10), Some(0), true), None);
        let deadline = Facts { threads: vec![("sugov:1 (90): SCHED_DEADLINE".into(), 6, 0)], ..Facts::default() };
        assert_eq!(deadline.why_slow(Some("schedutil"), Some(10), Some(0), false), None);
    }

    #[test]
    fn a_speed_that_was_set_explains_slow_loops_only_below_the_highest() {
        let set = |khz| under(CpufreqPolicy { set_speed_khz: Some(khz), ..ondemand().policy });
        assert!(set(1_000_000).why_slow(Some("userspace"), None, None, false).unwrap().contains("keeps the 1GHz"));
        assert_eq!(set(3_000_000).why_slow(Some("userspace"), None, None, false), None);
    }

    #[test]
    fn limits_come_first_and_powersave_is_what_it_is() {
        let limited = under(CpufreqPolicy { max_khz: Some(1_000_000), ..ondemand().policy });
        assert!(limited.why_slow(Some("performance"), None, None, false).unwrap().contains("1GHz of 3GHz"));
        assert!(ondemand().why_slow(Some("powersave"), None, None, false).unwrap().contains("by design"));
        let autonomous = CpufreqPolicy { driver: Some("intel_pstate".into()), ..ondemand().policy };
        assert_eq!(under(autonomous).why_slow(Some("powersave"), None, None, false), None);
    }
}
