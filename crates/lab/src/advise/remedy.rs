//! The remedies that are tried, one item each; whether a thread gets the value of one; and why threads did not: the most frequent reason
//! stands for them.
//!
//! A real-time policy is tried only where the kernel itself keeps a part of each CPU for others where a real-time thread never sleeps.
//! A program may begin to spin just when this process and the guardian are killed. Linux 6.12 and later have the fair server: 50 ms of
//! each second for all other threads (kernel/sched/fair.c, `fair_server_init`). Earlier ones throttle by `sched_rt_runtime_us`
//! (sched(7)). Before 5.10 a CPU borrowed the runtime of others (`RT_RUNTIME_SHARE`), and its own threads could get none.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual::conditions::{ThreadState, Value};
use punctual::{CpuSet, Policy, Refused};
use punctual_record::remedy::of_refused;
use punctual_record::{Code, Trial, TrialRefused};

/// The real-time priority of a trial.
pub(super) const PRIORITY: u8 = 40;

/// A remedy.
#[derive(Debug)]
pub(super) struct Remedy {
    /// The condition that a program takes for it, with the number of a CPU.
    pub(super) value: fn(usize) -> Value,
    what: &'static str,
}

/// All of them.
pub(super) static REMEDIES: [Remedy; 5] = [
    Remedy { value: |_| Value::TimerSlack(Duration::from_nanos(1)), what: "/proc/TID/timerslack_ns of each thread" },
    Remedy {
        value: |_| Value::Slice(Duration::from_micros(100)),
        what: "sched_setattr(2), sched_runtime of each thread under SCHED_OTHER or SCHED_BATCH",
    },
    Remedy {
        value: |_| Value::Policy(Policy::Fifo(PRIORITY)),
        what: "sched_setattr(2), SCHED_FIFO with SCHED_FLAG_RESET_ON_FORK, of each thread that is not busy",
    },
    Remedy {
        value: |cpu| Value::Cpu(CpuSet::from_iter([cpu])),
        what: "sched_setaffinity(2) of each thread, to the allowed CPU that was least busy",
    },
    Remedy { value: |_| Value::DmaLatency(Duration::ZERO), what: "/dev/cpu_dma_latency, held open with 0" },
];

impl Remedy {
    /// Its record, before it is tried. From the shell, a running thread is changed, or a program is started so.
    pub(super) fn trial(&self, cpu: usize) -> Trial {
        let value = (self.value)(cpu);
        let remedy = punctual_record::Remedy::for_value(&value);
        let shell: Vec<String> = remedy.running.into_iter().chain([remedy.flag.command()]).collect();
        Trial {
            id: remedy.id.to_owned(),
            value: value.to_string(),
            remedy: remedy.name,
            what: self.what.to_owned(),
            code: Code { shell: Some(shell.join("\n")), ..remedy.code },
            price: remedy.price,
            ..Trial::default()
        }
    }
}

/// A thread that uses more of a CPU would keep others from it under a real-time policy.
const BUSY: f64 = 0.5;

/// `Err`: the thread has the value already, or must not get it. `share` is the part of a CPU that it uses, where that is known.
pub(super) fn admits(now: &ThreadState, value: &Value, share: Option<f64>) -> Result<(), &'static str> {
    match (value, now.value()) {
        (Value::TimerSlack(_), Some(Value::TimerSlack(Duration::ZERO))) => {
            Err("threads under a real-time policy have no slack")
        }
        (Value::TimerSlack(_), Some(now)) if now == *value => Err("the slack is 1 ns already"),
        (Value::Slice(_), None) => Err("threads under a real-time policy have no time slice"),
        (Value::Slice(_), Some(now)) if now == *value => Err("the time slice is 100 us already"),
        (Value::Policy(_), Some(Value::Policy(now))) if !now.is_real_time() => match share {
            Some(share) if share <= BUSY => Ok(()),
            Some(_) => Err("threads that use over 50 % of a CPU would keep all others from it"),
            None => Err("the CPU share of a new thread is not known yet"),
        },
        (Value::Policy(_), _) => Err("threads that have a real-time policy keep it"),
        (Value::Cpu(_), Some(Value::Cpu(now))) if now.len() < 2 => Err("the thread is bound to one CPU already"),
        (Value::Cpu(cpus), Some(Value::Cpu(now))) if !cpus.without(&now).is_empty() => {
            Err("the thread may not run on that CPU")
        }
        _ => Ok(()),
    }
}

/// A remedy that is not tried, and what would allow it.
pub(super) fn refused(why: impl Into<String>, remedy: Option<&str>) -> TrialRefused {
    TrialRefused { why: why.into(), remedy: remedy.map(str::to_owned) }
}

/// What the kernel refused, and what would allow it.
pub(super) fn refused_by_kernel(refused: &Refused) -> TrialRefused {
    TrialRefused { why: refused.why.clone(), remedy: Some(of_refused(refused).to_string()) }
}

/// Reasons of the threads of one program.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<(String, Option<String>), u64>);

impl Reasons {
    pub(super) fn add(&mut self, TrialRefused { why, remedy }: TrialRefused) {
        *self.0.entry((why, remedy)).or_default() += 1;
    }

    /// In words, where `set` threads got it. `None`: there is no reason.
    pub(super) fn refused(&self, set: u64) -> Option<TrialRefused> {
        let ((why, remedy), count) = self.0.iter().max_by_key(|(_, count)| **count)?;
        let why = match set {
            0 => why.clone(),
            _ => format!("not on {count} of {} threads: {why}", set + self.0.values().sum::<u64>()),
        };
        Some(TrialRefused { why, remedy: remedy.clone() })
    }
}

/// Shown to root where debugfs is mounted.
const FAIR_SERVER: &str = "sys/kernel/debug/sched/fair_server";

/// `Err`: a spinning real-time thread may keep a CPU for good, and what would change that.
pub(super) fn is_bounded(root: &Path) -> Result<(), TrialRefused> {
    let refused = |why: &str, remedy: &str| Err(refused(why, Some(remedy)));
    let number = |file: &str| fs::read_to_string(root.join(file)).ok()?.trim().parse::<i64>().ok();
    match version(&fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default()) {
        Some(version) if version >= (6, 12) => match off(&root.join(FAIR_SERVER)) {
            Some(cpu) => refused(
                &format!("the fair server of {cpu} is off: a spinning real-time thread could keep that CPU for good"),
                "write 50000000 to runtime of that CPU in /sys/kernel/debug/sched/fair_server",
            ),
            None => Ok(()),
        },
        Some(version) if version >= (5, 10) => {
            let runtime = number("proc/sys/kernel/sched_rt_runtime_us");
            let period = number("proc/sys/kernel/sched_rt_period_us");
            match runtime.zip(period) {
                Some((runtime, period)) if (0..period).contains(&runtime) => Ok(()),
                _ => refused(
                    "real-time threads are not throttled: one that spins could keep a CPU for good",
                    "sysctl kernel.sched_rt_runtime_us=950000",
                ),
            }
        }
        _ => refused("this kernel lets a spinning real-time thread keep a CPU for good", "use Linux 5.10 or later"),
    }
}

/// Major and minor number of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The first CPU whose fair server has no runtime, as far as this is shown.
fn off(servers: &Path) -> Option<String> {
    let is_off =
        |cpu: &fs::DirEntry| fs::read_to_string(cpu.path().join("runtime")).is_ok_and(|text| text.trim() == "0");
    let cpu = fs::read_dir(servers).ok()?.flatten().find(is_off)?;
    Some(cpu.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use punctual::conditions::Condition;
    use punctual::{Applied, Conditions};

    use super::*;

    #[test]
    fn each_has_a_value_of_its_condition_and_the_cpu_has_its_number() {
        for remedy in &REMEDIES {
            let trial = remedy.trial(3);
            let value = Condition::named(&trial.id).unwrap().parse(&trial.value).unwrap();
            assert_eq!(value.to_string(), trial.value, "{}", trial.id);
        }
        let cpu = REMEDIES.iter().map(|remedy| remedy.trial(3)).find(|trial| trial.id == "cpu").unwrap();
        assert_eq!((cpu.remedy.as_str(), cpu.value.as_str()), ("CPU 3", "3"));
        assert!(cpu.code.c.unwrap().contains("CPU_SET(3, &cpus)"));
        assert_eq!(cpu.code.shell.as_deref(), Some("taskset -cp 3 TID\npunctual run --cpu 3 -- PROGRAM"));
    }

    /// Checks the value on a thread of its own, before and after it is applied.
    fn checked(value: Value, share: Option<f64>) -> [Result<(), &'static str>; 2] {
        let tried = move || {
            let state = || ThreadState::read(value.condition(), 0).unwrap();
            let before = admits(&state(), &value, share);
            let Applied { guard: _guard, refused } = Conditions::new().with(value.clone()).allow_irreversible().apply();
            if let Some(refused) = refused.first() {
                punctual_testing::skip(&refused.to_string());
            }
            [before, if refused.is_empty() { admits(&state(), &value, share) } else { Err("refused") }]
        };
        std::thread::spawn(tried).join().unwrap()
    }

    #[test]
    fn what_a_thread_has_already_it_does_not_get() {
        let _alone = punctual_testing::alone_on_this_machine();
        let cpus = Conditions::inspect().get_cpus().unwrap();
        for value in [
            Value::TimerSlack(Duration::from_nanos(1)),
            Value::Slice(Duration::from_micros(100)),
            Value::Policy(Policy::Fifo(1)),
            Value::Cpu(CpuSet::from_iter(cpus.iter().take(1))),
        ] {
            if value.condition() == Condition::CPU && cpus.len() < 2 {
                punctual_testing::lacks(punctual_testing::Lack::Cpus(2));
                continue;
            }
            let [before, after] = checked(value.clone(), Some(0.1));
            assert!(before.is_ok() && after.is_err(), "{value}: {before:?}, {after:?}");
        }
    }

    #[test]
    fn a_busy_thread_and_one_of_unknown_share_get_no_real_time_policy() {
        let now = ThreadState::read(Condition::POLICY, 0).unwrap();
        let with = |share| admits(&now, &Value::Policy(Policy::Fifo(40)), share);
        assert_eq!(with(Some(0.5)), Ok(()));
        assert!(with(Some(0.51)).is_err_and(|why| why.contains("50 %")));
        assert!(with(None).is_err());
    }

    #[test]
    fn a_cpu_on_which_it_may_not_run_is_none_for_it() {
        let now = ThreadState::read(Condition::CPU, 0).unwrap();
        assert!(admits(&now, &Value::Cpu(CpuSet::from_iter([8000])), None).is_err());
    }

    #[test]
    fn the_most_frequent_one_stands_for_all() {
        let mut reasons = Reasons::default();
        assert_eq!(reasons.refused(0), None);
        reasons.add(refused("rare", Some("none")));
        (0..2).for_each(|_| reasons.add(refused("frequent", None)));
        assert_eq!(reasons.refused(0).unwrap().why, "frequent");
        assert_eq!(reasons.refused(4).unwrap().why, "not on 2 of 7 threads: frequent");
    }

    /// A kernel with these files.
    fn kernel(release: &str, files: &[(&str, &str)]) -> Result<(), TrialRefused> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [("proc/sys/kernel/osrelease", release)].iter().chain(files) {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        is_bounded(root.path())
    }

    const RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
    const PERIOD: (&str, &str) = ("proc/sys/kernel/sched_rt_period_us", "1000000");

    #[test]
    fn throttled_threads_and_the_fair_server_are_bounds() {
        assert_eq!(kernel("6.1.0-18-amd64", &[(RUNTIME, "950000"), PERIOD]), Ok(()));
        assert_eq!(kernel("6.12.38+deb13-amd64", &[(RUNTIME, "-1"), PERIOD]), Ok(()));
        let server = "sys/kernel/debug/sched/fair_server/cpu1/runtime";
        assert_eq!(kernel("7.3.1", &[(RUNTIME, "1000000"), PERIOD, (server, "50000000")]), Ok(()));
        assert!(kernel("7.3.1", &[(server, "0")]).is_err_and(|refusal| refusal.why.contains("cpu1")));
    }

    #[test]
    fn a_kernel_that_lets_a_thread_keep_a_cpu_is_no_place_for_a_trial() {
        for runtime in ["-1", "1000000"] {
            let refused = kernel("6.1.0-18-amd64", &[(RUNTIME, runtime), PERIOD]).unwrap_err();
            assert!(refused.why.contains("not throttled") && refused.remedy.is_some(), "{refused:?}");
        }
        assert!(kernel("6.1.0", &[]).is_err());
        assert!(kernel("5.4.0-150-generic", &[(RUNTIME, "950000"), PERIOD]).is_err());
        assert!(kernel("custom", &[(RUNTIME, "950000"), PERIOD]).is_err());
    }
}
