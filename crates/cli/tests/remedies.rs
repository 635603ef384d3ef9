//! The code of each remedy, in every language: it compiles, it runs, and afterwards the kernel has the value.
//!
//! What is run prints its number and waits. Its settings are read from outside.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual::conditions::{Frequency, Value};
use punctual::{CpuSet, Policy};
use punctual_linux::sched;
use punctual_record::Remedy;
use punctual_testing::{Lack, lacks};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// One value of each form that the code has.
fn values() -> Vec<Value> {
    vec![
        Value::Policy(Policy::Other),
        Value::Policy(Policy::Batch),
        Value::Policy(Policy::Idle),
        Value::Policy(Policy::RoundRobin(3)),
        Value::Policy(Policy::Fifo(40)),
        Value::Policy(Policy::Deadline { runtime: MS(1), deadline: MS(10), period: MS(10) }),
        Value::Nice(5),
        Value::Nice(-5),
        Value::Cpu(CpuSet::from_iter([0])),
        Value::Cpu(CpuSet::from_iter([0, 1])),
        Value::TimerSlack(Duration::from_nanos(1)),
        Value::Slice(Duration::from_micros(100)),
        Value::LockMemory(true),
        Value::DmaLatency(Duration::ZERO),
        Value::DmaLatency(Duration::from_micros(20)),
        Value::MinFrequency(Frequency::Highest),
        Value::MinFrequency(Frequency::Khz(1_000_000)),
        Value::MaxFrequency(Frequency::Khz(2_000_000)),
        Value::Epp("performance".into()),
        Value::Governor("performance".into()),
        Value::IrqsAway(true),
    ]
}

/// Whether this machine can have the value at all.
fn is_here(value: &Value) -> bool {
    const FREQUENCY: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    let lack = match value {
        Value::Policy(_) | Value::Nice(_) => Lack::Capability("CAP_SYS_NICE", 23),
        Value::LockMemory(_) => Lack::Capability("CAP_IPC_LOCK", 14),
        Value::Cpu(cpus) => Lack::Cpus(cpus.len()),
        Value::TimerSlack(_) => return true,
        Value::Slice(_) => Lack::Linux(6, 12),
        Value::DmaLatency(_) => Lack::File("/dev/cpu_dma_latency"),
        Value::IrqsAway(_) => Lack::MovableInterrupt,
        Value::Epp(_) => Lack::File("/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference"),
        Value::MinFrequency(_) | Value::MaxFrequency(_) | Value::Governor(_) => Lack::File(FREQUENCY),
    };
    let available = value.condition().available();
    if available.is_err() {
        lacks(lack);
    }
    available.is_ok()
}

/// The value that a thread has, read from outside, beside the expected one.
fn assert_holds(value: &Value, tid: i32, how: &str) {
    let file = |path: String| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let frequency = |name: &str| file(format!("/sys/devices/system/cpu/cpufreq/policy0/{name}"));
    let is = match value {
        Value::Policy(_) | Value::Slice(_) => {
            let now = sched::attributes(tid).unwrap();
            match (now.policy, now.priority) {
                (sched::OTHER, _) if matches!(value, Value::Slice(_)) => {
                    Value::Slice(Duration::from_nanos(now.runtime_ns))
                }
                (sched::OTHER, _) => Value::Policy(Policy::Other),
                (sched::BATCH, _) => Value::Policy(Policy::Batch),
                (sched::IDLE, _) => Value::Policy(Policy::Idle),
                (sched::RR, priority) => Value::Policy(Policy::RoundRobin(priority as u8)),
                (sched::FIFO, priority) => Value::Policy(Policy::Fifo(priority as u8)),
                _ => {
                    let [runtime, deadline, period] =
                        [now.runtime_ns, now.deadline_ns, now.period_ns].map(Duration::from_nanos);
                    Value::Policy(Policy::Deadline { runtime, deadline, period })
                }
            }
        }
        Value::Nice(_) => Value::Nice(sched::nice(tid).unwrap()),
        Value::Cpu(_) => Value::Cpu(CpuSet::from_iter(sched::affinity(tid).unwrap())),
        Value::TimerSlack(_) => {
            Value::TimerSlack(Duration::from_nanos(file(format!("/proc/{tid}/timerslack_ns")).parse().unwrap()))
        }
        Value::LockMemory(_) => {
            let status = file(format!("/proc/{tid}/status"));
            let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap().trim().to_owned();
            Value::LockMemory(locked != "0 kB")
        }
        Value::DmaLatency(asked) => {
            let mut us = [0; 4];
            fs::File::open("/dev/cpu_dma_latency").unwrap().read_exact(&mut us).unwrap();
            // The kernel takes the least of all requests; another program may have a lower one.
            Value::DmaLatency(Duration::from_micros(i32::from_ne_bytes(us) as u64).max(*asked))
        }
        Value::MinFrequency(Frequency::Highest) => {
            assert_eq!(frequency("scaling_min_freq"), frequency("scaling_max_freq"), "{how}");
            value.clone()
        }
        Value::MinFrequency(_) => Value::MinFrequency(Frequency::Khz(frequency("scaling_min_freq").parse().unwrap())),
        Value::MaxFrequency(_) => Value::MaxFrequency(Frequency::Khz(frequency("scaling_max_freq").parse().unwrap())),
        Value::Epp(_) => Value::Epp(frequency("energy_performance_preference")),
        Value::Governor(_) => Value::Governor(frequency("scaling_governor")),
        Value::IrqsAway(_) => value.clone(),
    };
    assert_eq!(&is, value, "{how}");
}

/// A program that prints its number and waits; it ends with this.
struct Waiting {
    child: Child,
    pid: i32,
}

impl Waiting {
    fn start(command: &mut Command, how: &str) -> Self {
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap_or_else(|_| panic!("it did not run: {how}"));
        Self { child, pid }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let number = |pid: i32| Pid::from_raw(pid).unwrap();
        let _ = kill_process(number(self.pid), Signal::TERM);
        let _ = kill_process_group(number(self.child.id() as i32), Signal::TERM);
        self.child.wait().unwrap();
    }
}

/// The shell with this line, in which PROGRAM prints its number and waits.
fn shell(folder: &Path, line: &str) -> Command {
    let program = folder.join("program");
    fs::write(&program, "#!/bin/sh\necho $$\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_punctual")).parent().unwrap().display();
    let line = line.replace("PROGRAM", program.to_str().unwrap()).replace("sudo ", "");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("PATH", format!("{own}:{}", std::env::var("PATH").unwrap()));
    command
}

#[test]
fn every_line_of_c_compiles_and_has_its_effect() {
    if !rustix::process::geteuid().is_root() {
        return punctual_testing::skip("most of these settings need root");
    }
    let folder = tempfile::tempdir().unwrap();
    for value in values() {
        let Some(code) = Remedy::for_value(&value).code.c else { continue };
        let (top, body): (Vec<&str>, Vec<&str>) = code.lines().partition(|line| line.starts_with('#'));
        let source = format!(
            "{}\n#include <stdio.h>\n#include <unistd.h>\nint main(void) {{\n{}\nprintf(\"%d\\n\", (int) getpid());\n\
             fflush(stdout);\npause();\n}}\n",
            top.join("\n"),
            body.join("\n")
        );
        let (file, program) = (folder.path().join("remedy.c"), folder.path().join("remedy"));
        fs::write(&file, &source).unwrap();
        let options = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-o"];
        let compiled = Command::new("cc").args(options).args([&program, &file]).status().unwrap();
        assert!(compiled.success(), "{source}");
        if is_here(&value) {
            let running = Waiting::start(&mut Command::new(&program), &source);
            assert_holds(&value, running.pid, &source);
        }
    }
}

#[test]
fn every_line_of_python_has_its_effect() {
    if !rustix::process::geteuid().is_root() {
        return punctual_testing::skip("most of these settings need root");
    }
    if !Command::new("python3").arg("--version").output().is_ok_and(|said| said.status.success()) {
        return punctual_testing::skip("python3 is missing");
    }
    for value in values() {
        let Some(code) = Remedy::for_value(&value).code.python else { continue };
        if is_here(&value) {
            let script = format!("{code}\nimport os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)\n");
            let running = Waiting::start(Command::new("python3").args(["-c", &script]), &script);
            assert_holds(&value, running.pid, &script);
        }
    }
}

#[test]
fn every_line_of_the_shell_has_its_effect() {
    if !rustix::process::geteuid().is_root() {
        return punctual_testing::skip("most of these settings need root");
    }
    let folder = tempfile::tempdir().unwrap();
    for value in values() {
        let Some(line) = Remedy::for_value(&value).code.shell else { continue };
        if is_here(&value) {
            let before = interrupts_of_cpu_1();
            let mut command = shell(folder.path(), &line);
            if matches!(value, Value::IrqsAway(_)) {
                command = shell(folder.path(), &format!("taskset -c 1 {line}"));
            }
            let running = Waiting::start(&mut command, &line);
            assert_holds(&value, running.pid, &line);
            assert!(!matches!(value, Value::IrqsAway(_)) || interrupts_of_cpu_1() < before, "{line}");
        }
    }
}

/// The number of interrupts that may arrive there.
fn interrupts_of_cpu_1() -> usize {
    let list =
        |folder: std::io::Result<fs::DirEntry>| fs::read_to_string(folder.ok()?.path().join("smp_affinity_list")).ok();
    let lists = fs::read_dir("/proc/irq").unwrap().filter_map(list);
    lists.filter(|list| list.parse::<CpuSet>().is_ok_and(|cpus| cpus.contains(1))).count()
}

#[test]
fn every_line_for_a_running_thread_has_its_effect() {
    if !rustix::process::geteuid().is_root() {
        return punctual_testing::skip("most of these settings need root");
    }
    let folder = tempfile::tempdir().unwrap();
    for value in values() {
        let Some(line) = Remedy::for_value(&value).running else { continue };
        if is_here(&value) {
            let running = Waiting::start(&mut shell(folder.path(), "exec PROGRAM"), "PROGRAM");
            let line = line.replace("TID", &running.pid.to_string());
            let done = Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).status().unwrap();
            assert!(done.success(), "{line}");
            assert_holds(&value, running.pid, &line);
        }
    }
}

/// The code of a value in Rust: it is what is compiled here.
macro_rules! rust {
    ($guard:ident; $($value:expr => { $($code:tt)* })*) => {
        [$(($value, stringify!($($code)*), (|| { $($code)* Box::new($guard) as Box<dyn std::any::Any> }) as fn() -> _)),*]
    };
}

#[test]
#[allow(unused_variables, reason = "a program looks at what was refused")]
fn every_line_of_rust_compiles_and_has_its_effect() {
    if !rustix::process::geteuid().is_root() {
        return punctual_testing::skip("most of these settings need root");
    }
    let compiled = rust! {
        guard;
        Value::Policy(Policy::Other) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().policy(punctual::Policy::Other).apply();
        }
        Value::Policy(Policy::Batch) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().policy(punctual::Policy::Batch).apply();
        }
        Value::Policy(Policy::Idle) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().policy(punctual::Policy::Idle).apply();
        }
        Value::Policy(Policy::RoundRobin(3)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().policy(punctual::Policy::RoundRobin(3)).apply();
        }
        Value::Policy(Policy::Fifo(40)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().policy(punctual::Policy::Fifo(40)).apply();
        }
        Value::Policy(Policy::Deadline { runtime: MS(1), deadline: MS(10), period: MS(10) }) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().policy(punctual::Policy::Deadline {
                runtime: std::time::Duration::from_nanos(1000000),
                deadline: std::time::Duration::from_nanos(10000000),
                period: std::time::Duration::from_nanos(10000000) }).apply();
        }
        Value::Nice(5) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().nice(5).apply();
        }
        Value::Nice(-5) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().nice(-5).apply();
        }
        Value::Cpu(CpuSet::from_iter([0])) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().cpus(&punctual::CpuSet::from_iter([0])).apply();
        }
        Value::Cpu(CpuSet::from_iter([0, 1])) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().cpus(&punctual::CpuSet::from_iter([0, 1])).apply();
        }
        Value::TimerSlack(Duration::from_nanos(1)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().timer_slack(std::time::Duration::from_nanos(1)).apply();
        }
        Value::Slice(Duration::from_micros(100)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().slice(std::time::Duration::from_nanos(100000)).apply();
        }
        Value::LockMemory(true) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().lock_memory().apply();
        }
        Value::DmaLatency(Duration::ZERO) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().dma_latency(std::time::Duration::from_nanos(0)).apply();
        }
        Value::DmaLatency(Duration::from_micros(20)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().dma_latency(std::time::Duration::from_nanos(20000)).apply();
        }
        Value::MinFrequency(Frequency::Highest) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().min_frequency_at_max().apply();
        }
        Value::MinFrequency(Frequency::Khz(1_000_000)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().min_frequency_khz(1000000).apply();
        }
        Value::MaxFrequency(Frequency::Khz(2_000_000)) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().max_frequency_khz(2000000).apply();
        }
        Value::Epp("performance".into()) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().epp("performance").apply();
        }
        Value::Governor("performance".into()) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().governor("performance").apply();
        }
        Value::IrqsAway(true) => {
            let punctual::Applied { guard, refused } = punctual::Conditions::new().irqs_away().apply();
        }
    };
    let without_space = |text: &str| text.split_whitespace().collect::<String>();
    let expected = values();
    assert_eq!(compiled.iter().map(|(value, ..)| value).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for (value, text, code) in compiled {
        let written = Remedy::for_value(&value).code.rust.unwrap();
        assert_eq!(without_space(text), without_space(&written));
        // Another test here moves interrupts at the same time.
        if !matches!(value, Value::IrqsAway(_)) && is_here(&value) {
            let checked = std::thread::spawn(move || {
                let guard = code();
                assert_holds(&value, rustix::thread::gettid().as_raw_nonzero().get(), text);
                drop(guard);
            });
            checked.join().unwrap();
        }
    }
}
