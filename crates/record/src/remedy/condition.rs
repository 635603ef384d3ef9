//! Each condition in words, all of them in this file: its flag, what a value is called, what it acts on and costs, the usual cause
//! of its loss, the code that sets it, and its value in a record.
//!
//! The code is complete in each language: for the calling thread in C, Rust and Python, for a program from the shell. `PROGRAM`
//! stands for a program with its arguments, `TID` for the number of a thread. `crates/cli/tests/remedies` compiles and runs all
//! of it.

use std::time::Duration;

use punctual::conditions::{Condition, Conditions, Frequency, Value};
use punctual::{CpuSet, Policy, format_duration};

use crate::experiment::Param;
use crate::model::{Cause, Code, DMA_LATENCY, NICE, POLICY, Price, TIMER_SLACK};

/// The kernel's value for no limit of the exit latency (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
pub(super) const NO_LIMIT: Duration = Duration::from_secs(2000);

/// The value of a condition on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value with this name in the help.
    Value(&'static str),
    /// The same. Several, separated by commas, may be measured side by side.
    Values(&'static str),
    /// An optional value: its name in the help, and what stands for it.
    OptionalValue(&'static str, &'static str),
    /// No value: the flag alone means `yes`.
    Nothing,
}

/// A condition on the command line, where its name is the flag, and its loss.
#[derive(Debug)]
pub struct Switch {
    /// The condition.
    pub condition: Condition,
    /// What follows it.
    pub takes: Takes,
    /// Its line of help.
    pub help: &'static str,
    /// What to do against the usual cause of its loss.
    lost: &'static str,
}

const FREQUENCY_LOST: &str = "stop what sets governors and limits meanwhile (power-profiles-daemon, tuned, TLP, auto-cpufreq, thermald), and keep \
                              the CPUs online";

/// Those of all conditions.
static SWITCHES: &[Switch] = &[
    Switch {
        condition: Condition::POLICY,
        takes: Takes::Values("POLICY"),
        help: "Scheduling policy: other, batch, idle, rr:PRIO, fifo:PRIO (1-99), deadline:RUNTIME/DEADLINE/PERIOD",
        lost: "let no other program (chrt, a real-time daemon, a watchdog) change the policy of this thread",
    },
    Switch {
        condition: Condition::NICE,
        takes: Takes::Value("N"),
        help: "Nice value, -20 (most favoured) to 19",
        lost: "let no other program (renice, a desktop daemon) change the nice value of this thread",
    },
    Switch {
        condition: Condition::CPU,
        takes: Takes::Value("LIST"),
        help: "CPUs to run on (example: 0-3,8)",
        lost: "keep the CPU online and in the cpuset of this process, and let no other program change the affinity",
    },
    Switch {
        condition: Condition::TIMER_SLACK,
        takes: Takes::Values("DUR"),
        help: "Timer slack: delay that the kernel may add to a wait, 1ns to 1s [default: as found, usually 50us]",
        lost: "let no other program write /proc/PID/timerslack_ns of this thread",
    },
    Switch {
        condition: Condition::SLICE,
        takes: Takes::Values("DUR"),
        help: "Time slice under SCHED_OTHER and SCHED_BATCH, 100us to 100ms; a thread with a shorter one runs sooner",
        lost: "let no other program (chrt, a game or desktop daemon) change policy or slice of this thread",
    },
    Switch {
        condition: Condition::LOCK_MEMORY,
        takes: Takes::Nothing,
        help: "Lock all memory and touch the stack, so that no page fault delays a wake-up",
        lost: "let nothing in this process call munlockall",
    },
    Switch {
        condition: Condition::DMA_LATENCY,
        takes: Takes::Value("DUR"),
        help: "Longest exit latency of idle states, in whole us; 0us allows polling only",
        lost: "let nothing in this process close the file of /dev/cpu_dma_latency",
    },
    Switch {
        condition: Condition::MIN_FREQUENCY,
        takes: Takes::OptionalValue("FREQ", "max"),
        help: "Lowest CPU frequency; without a value, the highest allowed (example: 2.2GHz)",
        lost: FREQUENCY_LOST,
    },
    Switch {
        condition: Condition::MAX_FREQUENCY,
        takes: Takes::Value("FREQ"),
        help: "Highest CPU frequency (example: 2.2GHz)",
        lost: FREQUENCY_LOST,
    },
    Switch {
        condition: Condition::EPP,
        takes: Takes::Value("PREFERENCE"),
        help: "Energy-performance preference: a name, such as balance_performance, or 0 to 255",
        lost: FREQUENCY_LOST,
    },
    Switch {
        condition: Condition::GOVERNOR,
        takes: Takes::Value("NAME"),
        help: "CPU frequency governor, on the measured CPUs or on all; restored on exit",
        lost: FREQUENCY_LOST,
    },
    Switch {
        condition: Condition::IRQS_AWAY,
        takes: Takes::Nothing,
        help: "Move interrupts away from the measured CPUs; those that the kernel does not let go are named",
        lost: "stop irqbalance, or keep it from these CPUs (IRQBALANCE_BANNED_CPULIST)",
    },
];

/// The flag of a condition, and what is typed after it.
#[must_use]
pub fn switch_of(condition: Condition) -> &'static Switch {
    SWITCHES.iter().find(|switch| switch.condition == condition).expect("each condition has a switch: a test says so")
}

/// A value for people: `SCHED_FIFO 40`, `slack 1 ns`, `memory locked`.
#[must_use]
pub fn phrase(value: &Value) -> String {
    match value {
        Value::Policy(policy) => match policy {
            Policy::RoundRobin(priority) | Policy::Fifo(priority) => format!("{} {priority}", policy.kernel_name()),
            Policy::Deadline { runtime, deadline, period } => {
                let times = [runtime, deadline, period].map(|time| in_words(*time));
                format!("{} {}", policy.kernel_name(), times.join(" / "))
            }
            _ => policy.kernel_name().to_owned(),
        },
        Value::Nice(nice) => format!("nice {nice}"),
        Value::Cpu(cpus) if cpus.len() == 1 => format!("CPU {cpus}"),
        Value::Cpu(cpus) => format!("CPUs {cpus}"),
        Value::TimerSlack(Duration::ZERO) => "no slack".into(),
        Value::TimerSlack(slack) => format!("slack {}", in_words(*slack)),
        Value::Slice(slice) => format!("slice {}", in_words(*slice)),
        Value::LockMemory(true) => "memory locked".into(),
        Value::LockMemory(false) => "memory not locked".into(),
        Value::DmaLatency(Duration::ZERO) => "C-states off".into(),
        Value::DmaLatency(latency) if *latency >= NO_LIMIT => "C-states as found".into(),
        Value::DmaLatency(latency) => format!("C-states within {}", in_words(*latency)),
        Value::MinFrequency(Frequency::Highest) => "minimum frequency at the maximum".into(),
        Value::MinFrequency(limit) => format!("minimum frequency {}", spaced(&limit.to_string())),
        Value::MaxFrequency(limit) => format!("maximum frequency {}", spaced(&limit.to_string())),
        Value::Epp(preference) => format!("EPP {preference}"),
        Value::Governor(name) => format!("governor {name}"),
        Value::IrqsAway(_) => "interrupts away".into(),
    }
}

/// Conditions for people: `SCHED_FIFO 40, slack 1 ns`; empty without any.
#[must_use]
pub fn phrase_of(conditions: &Conditions) -> String {
    conditions.iter().map(phrase).collect::<Vec<_>>().join(", ")
}

/// `100us` with a space: `100 us`.
fn in_words(duration: Duration) -> String {
    spaced(&format_duration(duration))
}

fn spaced(number: &str) -> String {
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{digits} {}", &number[digits.len()..])
}

/// The causes that the condition of this name acts on; empty: it may change anything.
#[must_use]
pub fn acts_on(condition: &str) -> &'static [Cause] {
    match condition {
        TIMER_SLACK => &[Cause::TimerSlack],
        "slice" => &[Cause::OtherThread, Cause::Preempted],
        // A real-time thread has no slack either.
        POLICY => &[Cause::TimerSlack, Cause::OtherThread, Cause::Preempted, Cause::NotPreempted],
        DMA_LATENCY => &[Cause::IdleState],
        _ => &[],
    }
}

pub(super) fn price(value: &Value) -> Price {
    let needs = |privilege: &str| Price { privilege: Some(privilege.to_owned()), ..Price::default() };
    let takes = |others: &str| Some(others.to_owned());
    match value {
        Value::Policy(Policy::Fifo(_) | Policy::RoundRobin(_)) => {
            Price { others: takes("starves others if it never sleeps"), ..needs("CAP_SYS_NICE") }
        }
        Value::Policy(Policy::Deadline { .. }) => needs("CAP_SYS_NICE"),
        Value::Nice(nice) if *nice < 0 => {
            Price { others: takes("others get less of this CPU"), ..needs("CAP_SYS_NICE") }
        }
        Value::Cpu(cpus) => {
            let busy =
                if cpus.len() == 1 { "not moved when that CPU is busy" } else { "not moved when those CPUs are busy" };
            Price { others: takes(busy), ..Price::default() }
        }
        Value::LockMemory(true) => needs("CAP_IPC_LOCK"),
        Value::DmaLatency(latency) if *latency < NO_LIMIT => {
            Price { energy: Some("idle CPUs stay awake".to_owned()), ..needs("root") }
        }
        Value::MinFrequency(_) | Value::Governor(_) | Value::Epp(_) => {
            Price { energy: Some("costs energy and heat".to_owned()), ..needs("root") }
        }
        Value::MaxFrequency(_) | Value::IrqsAway(true) => needs("root"),
        _ => Price::default(),
    }
}

/// The usual cause of the loss of this condition, and what to do.
#[must_use]
pub fn if_lost(set: &Value) -> &'static str {
    switch_of(set.condition()).lost
}

/// The value of a condition in a record; `None` for what is no value of it.
pub(super) fn value(condition: Condition, recorded: &Param) -> Option<Value> {
    let ns = |ns: i64| u64::try_from(ns).ok().map(Duration::from_nanos);
    let khz = |khz: i64| u64::try_from(khz).ok().map(Frequency::Khz);
    match (condition.name(), recorded) {
        (TIMER_SLACK, Param::Int(slack)) => ns(*slack).map(Value::TimerSlack),
        ("slice", Param::Int(slice)) => ns(*slice).map(Value::Slice),
        (DMA_LATENCY, Param::Int(latency)) => ns(*latency).map(Value::DmaLatency),
        ("min-frequency", Param::Int(limit)) => khz(*limit).map(Value::MinFrequency),
        ("max-frequency", Param::Int(limit)) => khz(*limit).map(Value::MaxFrequency),
        (NICE, Param::Int(nice)) => i32::try_from(*nice).ok().map(Value::Nice),
        ("lock-memory", Param::Flag(locked)) => Some(Value::LockMemory(*locked)),
        ("irqs-away", Param::Flag(away)) => Some(Value::IrqsAway(*away)),
        (_, Param::Text(text)) => condition.parse(text).ok(),
        _ => None,
    }
}

/// A value as it is in a record: ns for a duration, kHz for a frequency.
#[must_use]
pub fn param(value: &Value) -> Param {
    let ns = |duration: &Duration| i64::try_from(duration.as_nanos()).ok().map(Param::Int);
    match value {
        Value::Nice(nice) => Some(Param::Int((*nice).into())),
        Value::TimerSlack(duration) | Value::Slice(duration) | Value::DmaLatency(duration) => ns(duration),
        Value::MinFrequency(Frequency::Khz(khz)) | Value::MaxFrequency(Frequency::Khz(khz)) => {
            i64::try_from(*khz).ok().map(Param::Int)
        }
        Value::LockMemory(held) | Value::IrqsAway(held) => Some(Param::Flag(*held)),
        _ => None,
    }
    .unwrap_or_else(|| Param::Text(value.to_string()))
}

/// A flag of the command, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Its value; absent: the flag alone.
    pub value: Option<String>,
}

impl Flag {
    /// The command that starts a program so.
    #[must_use]
    pub fn command(&self) -> String {
        let name = self.name;
        match &self.value {
            // Its value is optional, so that a word after it would be the program.
            Some(value) if name == Condition::MIN_FREQUENCY.name() => {
                format!("punctual run --{name}={value} -- PROGRAM")
            }
            Some(value) => format!("punctual run --{name} {value} -- PROGRAM"),
            None => format!("punctual run --{name} -- PROGRAM"),
        }
    }
}

/// The flag that sets a value.
pub(super) fn flag(value: &Value) -> Flag {
    let alone = matches!(value, Value::LockMemory(_) | Value::IrqsAway(_));
    Flag { name: value.condition().name(), value: (!alone).then(|| value.to_string()) }
}

/// What to write; empty for a value that only the kernel gives.
pub(super) fn code(value: &Value) -> Code {
    match value {
        Value::Policy(policy) => of_policy(policy),
        Value::Nice(nice) => Code {
            c: Some(format!("#include <sys/resource.h>\nsetpriority(PRIO_PROCESS, 0, {nice});")),
            rust: rust(&format!("nice({nice})")),
            python: Some(format!("import os\nos.setpriority(os.PRIO_PROCESS, 0, {nice})")),
            // nice(1) adds to the value that it finds.
            shell: Some(format!("sh -c 'renice -n {nice} -p $$ >/dev/null; exec PROGRAM'")),
        },
        Value::Cpu(cpus) => of_cpus(cpus),
        Value::TimerSlack(slack) if *slack > Duration::ZERO => {
            // prctl(2): 0 would restore the inherited slack. The file: proc_pid_timerslack_ns(5), since Linux 4.6.
            let ns = slack.as_nanos();
            let prctl = format!("ctypes.CDLL(None).prctl(29, ctypes.c_ulong({ns}))  # PR_SET_TIMERSLACK");
            Code {
                c: Some(format!("#include <sys/prctl.h>\nprctl(PR_SET_TIMERSLACK, {ns}UL);")),
                rust: rust(&format!("timer_slack({})", duration(*slack))),
                python: Some(format!("import ctypes\n{prctl}")),
                shell: Some(flag(value).command()),
            }
        }
        Value::Slice(slice) => Code {
            c: Some(attributes("SCHED_NORMAL", &format!(".sched_runtime = {}", slice.as_nanos()))),
            rust: rust(&format!("slice({})", duration(*slice))),
            shell: Some(flag(value).command()),
            python: None,
        },
        Value::LockMemory(true) => Code {
            c: Some("#include <sys/mman.h>\nmlockall(MCL_CURRENT | MCL_FUTURE);".into()),
            rust: rust("lock_memory()"),
            python: Some("import ctypes\nctypes.CDLL(None).mlockall(1 | 2)  # MCL_CURRENT | MCL_FUTURE".into()),
            // No program inherits locked memory.
            shell: None,
        },
        Value::DmaLatency(latency) if *latency < NO_LIMIT => of_latency(*latency),
        Value::MinFrequency(Frequency::Khz(khz)) => of_machine(value, &format!("min_frequency_khz({khz})")),
        Value::MinFrequency(Frequency::Highest) => of_machine(value, "min_frequency_at_max()"),
        Value::MaxFrequency(Frequency::Khz(khz)) => of_machine(value, &format!("max_frequency_khz({khz})")),
        Value::Epp(preference) => of_machine(value, &format!("epp(\"{preference}\")")),
        Value::Governor(name) => of_machine(value, &format!("governor(\"{name}\")")),
        Value::IrqsAway(true) => of_machine(value, "irqs_away()"),
        _ => Code::default(),
    }
}

/// A line for the shell that changes a running thread, `TID`.
pub(super) fn running(value: &Value) -> Option<String> {
    Some(match value {
        Value::Policy(policy) => {
            let (options, priority) = (chrt(policy), policy.priority().unwrap_or(0));
            format!("chrt {options} --pid {priority} TID")
        }
        Value::Nice(nice) => format!("renice -n {nice} -p TID"),
        Value::Cpu(cpus) => format!("taskset -cp {cpus} TID"),
        Value::TimerSlack(slack) if *slack > Duration::ZERO => {
            format!("echo {} > /proc/TID/timerslack_ns", slack.as_nanos())
        }
        _ => return None,
    })
}

/// The call of the library, for the thread that makes it. The guard ends with its scope.
fn rust(asked: &str) -> Option<String> {
    Some(format!("let punctual::Applied {{ guard, refused }} = punctual::Conditions::new().{asked}.apply();"))
}

fn duration(duration: Duration) -> String {
    format!("std::time::Duration::from_nanos({})", duration.as_nanos())
}

/// A setting of files of the machine: the library and the command put back what was there.
fn of_machine(value: &Value, asked: &str) -> Code {
    let shell = Some(format!("sudo {}", flag(value).command()));
    Code { rust: rust(asked), shell, ..Code::default() }
}

/// sched_setattr(2), which the C library lacks before glibc 2.41. The kernel's headers call SCHED_OTHER SCHED_NORMAL.
fn attributes(policy: &str, rest: &str) -> String {
    format!(
        "#include <linux/sched.h>\n#include <linux/sched/types.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
         struct sched_attr attributes = {{ .size = sizeof attributes, .sched_policy = {policy}, {rest} }};\n\
         syscall(SYS_sched_setattr, 0, &attributes, 0);"
    )
}

fn of_policy(policy: &Policy) -> Code {
    let (name, priority) = (policy.kernel_name(), policy.priority().unwrap_or(0));
    let shell = Some(format!("chrt {} {priority} PROGRAM", chrt(policy)));
    if let Policy::Deadline { runtime, deadline, period } = policy {
        let [ns, by, every] = [runtime, deadline, period].map(Duration::as_nanos);
        let times = format!(".sched_runtime = {ns}, .sched_deadline = {by}, .sched_period = {every}");
        let [runtime, deadline, period] = [runtime, deadline, period].map(|time| duration(*time));
        let asked = format!(
            "policy(punctual::Policy::Deadline {{ runtime: {runtime}, deadline: {deadline}, period: {period} }})"
        );
        return Code { c: Some(attributes(name, &times)), rust: rust(&asked), python: None, shell };
    }
    let feature = if matches!(policy, Policy::Batch | Policy::Idle) { "#define _GNU_SOURCE\n" } else { "" };
    let variant = match policy {
        Policy::Batch => "Batch".to_owned(),
        Policy::Idle => "Idle".to_owned(),
        Policy::RoundRobin(priority) => format!("RoundRobin({priority})"),
        Policy::Fifo(priority) => format!("Fifo({priority})"),
        _ => "Other".to_owned(),
    };
    Code {
        c: Some(format!(
            "{feature}#include <sched.h>\nsched_setscheduler(0, {name}, &(struct sched_param){{ .sched_priority = {priority} }});"
        )),
        rust: rust(&format!("policy(punctual::Policy::{variant})")),
        python: Some(format!("import os\nos.sched_setscheduler(0, os.{name}, os.sched_param({priority}))")),
        shell,
    }
}

/// The options of chrt(1) for a policy.
fn chrt(policy: &Policy) -> String {
    let name = policy.name();
    match policy {
        Policy::Deadline { runtime, deadline, period } => {
            let [runtime, deadline, period] = [runtime, deadline, period].map(Duration::as_nanos);
            format!("--{name} --sched-runtime {runtime} --sched-deadline {deadline} --sched-period {period}")
        }
        _ => format!("--{name}"),
    }
}

/// A list of CPUs in each language, ranges as ranges.
fn of_cpus(cpus: &CpuSet) -> Code {
    let ranges = ranges(cpus);
    let set = |&(first, last): &(usize, usize)| match first == last {
        true => format!("CPU_SET({first}, &cpus);"),
        false => format!("for (int cpu = {first}; cpu <= {last}; cpu++) CPU_SET(cpu, &cpus);"),
    };
    let item = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("*range({first}, {})", last + 1),
    };
    let sets: Vec<String> = ranges.iter().map(set).collect();
    let items: Vec<String> = ranges.iter().map(item).collect();
    let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    Code {
        c: Some(format!(
            "#define _GNU_SOURCE\n#include <sched.h>\ncpu_set_t cpus;\nCPU_ZERO(&cpus);\n{}\nsched_setaffinity(0, sizeof cpus, &cpus);",
            sets.join("\n")
        )),
        rust: rust(&format!("cpus(&punctual::CpuSet::from_iter([{}]))", numbers.join(", "))),
        python: Some(format!("import os\nos.sched_setaffinity(0, {{{}}})", items.join(", "))),
        shell: Some(format!("taskset -c {cpus} PROGRAM")),
    }
}

/// The first and the last CPU of each range.
fn ranges(cpus: &CpuSet) -> Vec<(usize, usize)> {
    cpus.as_slice().chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run[run.len() - 1])).collect()
}

/// Documentation/power/pm_qos_interface.rst: four bytes; the request stands while the file is open.
fn of_latency(latency: Duration) -> Code {
    let Ok(us) = i32::try_from(latency.as_micros()) else { return Code::default() };
    let bytes: String = us.to_ne_bytes().iter().map(|byte| format!("\\{byte:03o}")).collect();
    Code {
        c: Some(format!(
            "#include <fcntl.h>\n#include <stdint.h>\n#include <unistd.h>\nint fd = open(\"/dev/cpu_dma_latency\", O_WRONLY);\n\
             int32_t us = {us};\nwrite(fd, &us, sizeof us); /* keep fd open */"
        )),
        rust: rust(&format!("dma_latency({})", duration(latency))),
        python: Some(format!(
            "import sys\nfile = open(\"/dev/cpu_dma_latency\", \"wb\", buffering=0)\n\
             file.write(({us}).to_bytes(4, sys.byteorder))  # keep file open"
        )),
        shell: Some(format!("(exec 3<> /dev/cpu_dma_latency; printf '{bytes}' >&3; PROGRAM)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::conditions::CONDITIONS;

    #[test]
    fn each_condition_has_a_flag_in_its_order_and_a_line_of_help() {
        assert!(SWITCHES.iter().map(|switch| switch.condition).eq(CONDITIONS.iter().copied()));
        for Switch { condition, takes, help, .. } in SWITCHES {
            assert!(help.len() < 120 && !help.ends_with('.'), "{condition}");
            assert_eq!(*takes == Takes::Nothing, condition.parse("yes").is_ok() && condition.parse("no").is_err());
        }
    }
}
