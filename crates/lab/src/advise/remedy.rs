//! The remedies that are tried, one item each.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use punctual::conditions::Value;
use punctual::{CpuSet, Policy};
use punctual_record::{Code, Trial, TrialRefused};

use super::reasons::refused;
use super::settings::{AFFINITY, FIFO, PRIORITY, SLACK, SLICE};

/// How it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// To each thread, as this setting.
    Threads(usize),
    /// To the machine, by an open file.
    DmaLatency,
}

/// A remedy.
#[derive(Debug)]
pub(super) struct Remedy {
    pub(super) means: Means,
    /// The condition that a program takes for it, with the number of a CPU.
    value: fn(usize) -> Value,
    what: &'static str,
}

/// All of them.
pub(super) static REMEDIES: [Remedy; 5] = [
    Remedy {
        means: Means::Threads(SLACK),
        value: |_| Value::TimerSlack(Duration::from_nanos(1)),
        what: "/proc/TID/timerslack_ns of each thread",
    },
    Remedy {
        means: Means::Threads(SLICE),
        value: |_| Value::Slice(Duration::from_micros(100)),
        what: "sched_setattr(2), sched_runtime of each thread under SCHED_OTHER or SCHED_BATCH",
    },
    Remedy {
        means: Means::Threads(FIFO),
        value: |_| Value::Policy(Policy::Fifo(PRIORITY as u8)),
        what: "sched_setattr(2), SCHED_FIFO with SCHED_FLAG_RESET_ON_FORK, of each thread that is not busy",
    },
    Remedy {
        means: Means::Threads(AFFINITY),
        value: |cpu| Value::Cpu(CpuSet::of([cpu])),
        what: "sched_setaffinity(2) of each thread, to the allowed CPU that was least busy",
    },
    Remedy {
        means: Means::DmaLatency,
        value: |_| Value::DmaLatency(Duration::ZERO),
        what: "/dev/cpu_dma_latency, held open with 0",
    },
];

impl Remedy {
    /// Its record, before it is tried. From the shell, a running thread is changed, or a program is started so.
    pub(super) fn trial(&self, cpu: usize) -> Trial {
        let value = (self.value)(cpu);
        let remedy = punctual_record::Remedy::of(&value);
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

/// `/dev/cpu_dma_latency` with 0, until it is closed (Documentation/power/pm_qos_interface.rst).
pub(super) fn without_idle_states() -> Result<File, TrialRefused> {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    if matches!(driver.trim(), "" | "none") {
        return Err(refused("the kernel has no idle states to leave out (cpuidle: no driver)", None));
    }
    let path = "/dev/cpu_dma_latency";
    let opened = OpenOptions::new().write(true).open(path).and_then(|mut file| {
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    });
    opened.map_err(|error| refused(format!("{path}: {error}"), Some("run as root, with the device in the container")))
}

#[cfg(test)]
mod tests {
    use punctual::conditions::Condition;

    use super::*;

    #[test]
    fn each_has_a_value_of_its_condition_and_the_cpu_has_its_number() {
        for remedy in &REMEDIES {
            let trial = remedy.trial(3);
            let value = Condition::named(&trial.id).unwrap().parse(&trial.value).unwrap();
            assert_eq!(value.to_string(), trial.value, "{}", trial.id);
        }
        let cpu = REMEDIES.iter().find(|its| its.means == Means::Threads(AFFINITY)).unwrap().trial(3);
        assert_eq!((cpu.remedy.as_str(), cpu.value.as_str()), ("CPU 3", "3"));
        assert!(cpu.code.c.unwrap().contains("CPU_SET(3, &cpus)"));
        assert_eq!(cpu.code.shell.as_deref(), Some("taskset -cp 3 TID\npunctual run --cpu 3 -- PROGRAM"));
    }
}
