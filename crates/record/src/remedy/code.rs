//! The code of a remedy, complete in each language: for the calling thread in C, Rust and Python, for a program from the shell.
//!
//! `PROGRAM` stands for a program with its arguments, `TID` for the number of a thread. `crates/cli/tests/remedies` compiles and
//! runs all of it.

use std::time::Duration;

use punctual::conditions::{Condition, Frequency, Value};
use punctual::{CpuSet, Policy};

use crate::model::Code;

/// The kernel's value for no limit of the exit latency (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
pub(super) const NO_LIMIT: Duration = Duration::from_secs(2000);

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
        Value::TimerSlack(slack) if *slack > Duration::ZERO => of_slack(slack.as_nanos()),
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
        rust: rust(&format!("cpus(&punctual::CpuSet::of([{}]))", numbers.join(", "))),
        python: Some(format!("import os\nos.sched_setaffinity(0, {{{}}})", items.join(", "))),
        shell: Some(format!("taskset -c {cpus} PROGRAM")),
    }
}

/// The first and the last CPU of each range.
fn ranges(cpus: &CpuSet) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus.iter() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    ranges
}

/// prctl(2): 0 would restore the inherited slack. The file: proc_pid_timerslack_ns(5), since Linux 4.6.
fn of_slack(ns: u128) -> Code {
    Code {
        c: Some(format!("#include <sys/prctl.h>\nprctl(PR_SET_TIMERSLACK, {ns}UL);")),
        rust: rust(&format!("timer_slack(std::time::Duration::from_nanos({ns}))")),
        python: Some(format!("import ctypes\nctypes.CDLL(None).prctl(29, ctypes.c_ulong({ns}))  # PR_SET_TIMERSLACK")),
        shell: Some(format!("(echo {ns} > /proc/self/timerslack_ns; exec PROGRAM)")),
    }
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
