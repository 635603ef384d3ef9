//! The remedies that are tried, one item each.

use std::time::Duration;

use punctual::conditions::Value;
use punctual::{CpuSet, Policy};
use punctual_record::{Code, Trial};

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
        let cpu = REMEDIES.iter().map(|remedy| remedy.trial(3)).find(|trial| trial.id == "cpu").unwrap();
        assert_eq!((cpu.remedy.as_str(), cpu.value.as_str()), ("CPU 3", "3"));
        assert!(cpu.code.c.unwrap().contains("CPU_SET(3, &cpus)"));
        assert_eq!(cpu.code.shell.as_deref(), Some("taskset -cp 3 TID\npunctual run --cpu 3 -- PROGRAM"));
    }
}
