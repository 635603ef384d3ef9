//! Facts about a policy while its governor is measured. They may explain why full speed was not reached.

use punctual::cpufreq::{Cpufreq, CpufreqPolicy, Serves, format_frequency};

/// Facts about one governor's turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) driver: Option<String>,
    pub(super) max_khz: Option<u64>,
    hardware_max_khz: Option<u64>,
    set_speed_khz: Option<u64>,
    autonomous: bool,
    governor: Option<String>,
    /// The governor's kernel threads, as text, and whether each has a real-time policy above the given priority.
    threads: Vec<(String, u32, u32)>,
}

impl Facts {
    /// Reads them for the policy of this CPU.
    pub(super) fn read(cpufreq: &Cpufreq, policy: &CpufreqPolicy, cpu: usize) -> Self {
        let concerned = |serves: &Serves| match (serves, policy.governor.as_deref()) {
            (Serves::Schedutil { policy: number }, Some("schedutil")) => *number == policy.number,
            (Serves::Worker { cpu: its }, Some("ondemand" | "conservative")) => *its == cpu,
            _ => false,
        };
        let threads = cpufreq.governor_threads();
        let threads =
            threads.into_iter().filter(|t| concerned(&t.serves)).map(|t| (t.to_string(), t.policy, t.priority));
        Self {
            driver: policy.driver.clone(),
            max_khz: policy.max_khz,
            hardware_max_khz: policy.hardware_max_khz,
            set_speed_khz: policy.set_speed_khz,
            autonomous: policy.is_autonomous(),
            governor: policy.governor.clone(),
            threads: threads.collect(),
        }
    }

    /// Why full speed was not reached, as far as these facts show.
    pub(super) fn why_slow(
        &self,
        governor: Option<&str>,
        priority: Option<u32>,
        transitions: Option<u64>,
        raised: bool,
    ) -> Option<String> {
        let governor = governor.or(self.governor.as_deref())?;
        if let (Some(max), Some(hardware)) = (self.max_khz, self.hardware_max_khz)
            && max < hardware
        {
            let [max, hardware] = [max, hardware].map(format_frequency);
            return Some(format!("scaling_max_freq holds it at {max} of {hardware}"));
        }
        match governor {
            "powersave" if !self.autonomous => Some("it keeps the lowest frequency, by design".into()),
            "userspace" => {
                let below = |khz: &u64| self.max_khz.is_none_or(|max| *khz < max);
                self.set_speed_khz
                    .filter(below)
                    .map(|khz| format!("it keeps the {} that were set", format_frequency(khz)))
            }
            "ondemand" | "conservative" | "schedutil" => self.starved(governor, priority, transitions, raised),
            _ => None,
        }
    }

    /// Whether the governed thread held the CPU, so that the governor could not run.
    fn starved(&self, governor: &str, priority: Option<u32>, transitions: Option<u64>, raised: bool) -> Option<String> {
        let priority = priority?;
        // SCHED_DEADLINE (6) runs before every SCHED_FIFO thread.
        let below =
            |(_, policy, its): &&(String, u32, u32)| *policy != 6 && !(matches!(policy, 1 | 2) && *its > priority);
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
    use super::*;

    fn ondemand() -> Facts {
        let threads = vec![("kworker/1:0 (22): SCHED_OTHER, nice 0".to_owned(), 0, 0)];
        Facts { threads, max_khz: Some(3_000_000), hardware_max_khz: Some(3_000_000), ..Facts::default() }
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
        let set = |khz| Facts { set_speed_khz: Some(khz), ..ondemand() };
        assert!(set(1_000_000).why_slow(Some("userspace"), None, None, false).unwrap().contains("keeps the 1GHz"));
        assert_eq!(set(3_000_000).why_slow(Some("userspace"), None, None, false), None);
    }

    #[test]
    fn limits_come_first_and_powersave_is_what_it_is() {
        let limited = Facts { max_khz: Some(1_000_000), ..ondemand() };
        assert!(limited.why_slow(Some("performance"), None, None, false).unwrap().contains("1GHz of 3GHz"));
        assert!(ondemand().why_slow(Some("powersave"), None, None, false).unwrap().contains("by design"));
        assert_eq!(Facts { autonomous: true, ..ondemand() }.why_slow(Some("powersave"), None, None, false), None);
    }
}
