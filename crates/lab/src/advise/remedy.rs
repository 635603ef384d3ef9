//! The remedies that are tried, one item each.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;

use punctual::conditions::Condition;
use punctual_record::{Trial, TrialCode, TrialPrice, TrialRefused};

use super::reasons::refused;
use super::settings::{AFFINITY, FIFO, SLACK, SLICE};

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
    /// The condition that a program takes for it, and its value.
    condition: Condition,
    value: &'static str,
    /// Its name in a report. `CPU` stands for the number of the CPU.
    name: &'static str,
    what: &'static str,
    c: &'static str,
    shell: &'static str,
    privilege: Option<&'static str>,
    energy: Option<&'static str>,
    others: Option<&'static str>,
}

/// All of them.
pub(super) static REMEDIES: [Remedy; 5] = [
    Remedy {
        means: Means::Threads(SLACK),
        condition: Condition::TIMER_SLACK,
        value: "1ns",
        name: "timer slack 1 ns",
        what: "/proc/TID/timerslack_ns of each thread",
        c: "prctl(PR_SET_TIMERSLACK, 1UL);",
        shell: "echo 1 > /proc/TID/timerslack_ns",
        privilege: None,
        energy: None,
        others: None,
    },
    Remedy {
        means: Means::Threads(SLICE),
        condition: Condition::SLICE,
        value: "100us",
        name: "time slice 100 us",
        what: "sched_setattr(2), sched_runtime of each thread under SCHED_OTHER or SCHED_BATCH",
        c: "struct sched_attr a = { .size = sizeof a, .sched_policy = SCHED_OTHER, .sched_runtime = 100000 };\n\
            syscall(SYS_sched_setattr, 0, &a, 0);",
        shell: "chrt --other --sched-runtime 100000 --pid 0 TID",
        privilege: None,
        energy: None,
        others: None,
    },
    Remedy {
        means: Means::Threads(FIFO),
        condition: Condition::POLICY,
        value: "fifo:40",
        name: "SCHED_FIFO 40",
        what: "sched_setattr(2), SCHED_FIFO with SCHED_FLAG_RESET_ON_FORK, of each thread that is not busy",
        c: "sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 40 });",
        shell: "chrt --fifo --pid 40 TID",
        privilege: Some("CAP_SYS_NICE"),
        energy: None,
        others: Some("starves others if it never sleeps"),
    },
    Remedy {
        means: Means::Threads(AFFINITY),
        condition: Condition::CPU,
        value: "CPU",
        name: "CPU CPU only",
        what: "sched_setaffinity(2) of each thread, to the allowed CPU that was least busy",
        c: "cpu_set_t cpus; CPU_ZERO(&cpus); CPU_SET(CPU, &cpus);\nsched_setaffinity(0, sizeof cpus, &cpus);",
        shell: "taskset -acp CPU PID",
        privilege: None,
        energy: None,
        others: Some("not moved when that CPU is busy"),
    },
    Remedy {
        means: Means::DmaLatency,
        condition: Condition::DMA_LATENCY,
        value: "0us",
        name: "DMA latency 0",
        what: "/dev/cpu_dma_latency, held open with 0",
        c: "int fd = open(\"/dev/cpu_dma_latency\", O_WRONLY);\n\
            int32_t us = 0; write(fd, &us, sizeof us); /* keep fd open */",
        shell: "(exec 3<> /dev/cpu_dma_latency; printf '\\000\\000\\000\\000' >&3; PROGRAM)",
        privilege: Some("root"),
        energy: Some("idle CPUs stay awake"),
        others: None,
    },
];

impl Remedy {
    /// Its record, before it is tried.
    pub(super) fn trial(&self, cpu: usize) -> Trial {
        let text = |text: &str| match self.means {
            Means::Threads(AFFINITY) => filled(text, cpu),
            _ => text.to_owned(),
        };
        let some = |text: Option<&str>| text.map(str::to_owned);
        Trial {
            id: self.condition.name().to_owned(),
            value: text(self.value),
            remedy: text(self.name),
            what: self.what.to_owned(),
            code: TrialCode { c: Some(text(self.c)), shell: Some(text(self.shell)) },
            price: TrialPrice { privilege: some(self.privilege), energy: some(self.energy), others: some(self.others) },
            ..Trial::default()
        }
    }
}

/// The text with the number of the CPU.
fn filled(text: &str, cpu: usize) -> String {
    let number = cpu.to_string();
    match text {
        "CPU" => number,
        "CPU CPU only" => format!("CPU {number} only"),
        _ => text.replace("CPU_SET(CPU,", &format!("CPU_SET({number},")).replace("-acp CPU", &format!("-acp {number}")),
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
    use super::*;

    #[test]
    fn each_has_a_value_of_its_condition_and_the_cpu_has_its_number() {
        for remedy in &REMEDIES {
            let trial = remedy.trial(3);
            assert!(remedy.condition.parse(&trial.value).is_ok(), "{} {}", trial.id, trial.value);
            assert!(!trial.remedy.contains("CPU CPU"));
        }
        let cpu = REMEDIES.iter().find(|its| its.means == Means::Threads(AFFINITY)).unwrap().trial(3);
        assert_eq!((cpu.remedy.as_str(), cpu.value.as_str()), ("CPU 3 only", "3"));
        assert!(cpu.code.c.unwrap().contains("CPU_SET(3, &cpus)"));
        assert_eq!(cpu.code.shell.as_deref(), Some("taskset -acp 3 PID"));
    }
}
