//! What hardware or kernel may lack. Each is looked up without the code under test, so that a defect of that code is no excuse.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::sched_getaffinity;

/// What hardware or kernel may lack, and no package provides.
#[derive(Debug, Clone, Copy)]
pub enum Lack {
    /// This file of the kernel, in /dev, /proc or /sys.
    File(&'static str),
    /// As many CPUs for this thread.
    Cpus(usize),
    /// The CPU of this number for this thread.
    Cpu(usize),
    /// Time in which the CPU of this number idles: others keep it busy.
    IdleCpu(usize),
    /// This release of Linux or a later one.
    Linux(u32, u32),
    /// This capability: its name and number in linux/capability.h.
    Capability(&'static str, u32),
    /// This system call: the kernel or a filter refuses it with this error number.
    Call(&'static str, i32),
    /// The events of the scheduler, the timers and the system calls.
    Events,
    /// A counter of the CPU that the kernel uses as its clock.
    Counter,
    /// An instruction that waits: its flag in /proc/cpuinfo.
    Instruction(&'static str),
    /// An interrupt that can be moved to another CPU.
    MovableInterrupt,
}

impl Lack {
    /// Whether this machine has it.
    pub(crate) fn is_here(self) -> bool {
        match self {
            Self::File(path) => {
                let is_kernels = ["/dev/", "/proc/", "/sys/"].iter().any(|folder| path.starts_with(folder));
                assert!(is_kernels, "{path} is no file of the kernel");
                Path::new(path).exists()
            }
            Self::Cpus(number) => allowed().count() as usize >= number,
            Self::Cpu(cpu) => allowed().is_set(cpu),
            Self::IdleCpu(cpu) => idles(cpu),
            Self::Linux(major, minor) => release() >= (major, minor),
            Self::Capability(_, number) => has_capability(number),
            Self::Call(_, errno) => {
                let refusals = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::OPNOTSUPP];
                !refusals.contains(&Errno::from_raw_os_error(errno))
            }
            Self::Events => shows_events(),
            Self::Counter => text("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim() == "tsc",
            Self::Instruction(flag) => text("/proc/cpuinfo").split_whitespace().any(|word| word == flag),
            Self::MovableInterrupt => moves_an_interrupt(),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{path}"),
            Self::Cpus(number) => write!(f, "{number} CPUs for this thread"),
            Self::Cpu(cpu) => write!(f, "CPU {cpu} for this thread"),
            Self::IdleCpu(cpu) => write!(f, "idle time on CPU {cpu}"),
            Self::Linux(major, minor) => write!(f, "Linux {major}.{minor}"),
            Self::Capability(name, _) => write!(f, "{name}"),
            Self::Call(call, errno) => write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno)),
            Self::Events => write!(f, "kernel events that this process may record"),
            Self::Counter => write!(f, "a counter of the CPU that serves as a clock"),
            Self::Instruction(flag) => write!(f, "a CPU with {flag}"),
            Self::MovableInterrupt => write!(f, "an interrupt that can be moved"),
        }
    }
}

/// Empty where the file cannot be read.
fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn allowed() -> rustix::thread::CpuSet {
    sched_getaffinity(None).expect("sched_getaffinity(2)")
}

/// Linux's release from uname(2).
fn release() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn has_capability(number: u32) -> bool {
    let status = text("/proc/self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("Linux has capabilities");
    u64::from_str_radix(effective.trim(), 16).expect("a hexadecimal number") >> number & 1 == 1
}

/// Whether the CPU idles for half of the next 300 ms.
fn idles(cpu: usize) -> bool {
    let times = || -> Vec<u64> {
        let (all, name) = (text("/proc/stat"), format!("cpu{cpu} "));
        let line = all.lines().find_map(|line| line.strip_prefix(&name)).expect("a line for each CPU");
        // Times of guests are part of user and nice.
        line.split_whitespace().take(8).map(|ticks| ticks.parse().expect("a number")).collect()
    };
    let before = times();
    std::thread::sleep(Duration::from_millis(300));
    let spent: Vec<u64> = times().iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
    // idle and iowait.
    (spent[3] + spent[4]) * 2 > spent.iter().sum()
}

/// Whether this process may record: capable, outside of PID namespaces and without a filter, on a kernel with perf_event_open(2), and the
/// formats of the events.
fn shows_events() -> bool {
    const EVENTS: [&str; 4] =
        ["sched/sched_switch", "sched/sched_waking", "timer/hrtimer_start", "raw_syscalls/sys_enter"];
    // PROC_PID_INIT_INO of linux/proc_ns.h.
    let is_outside = std::fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own.as_os_str() == "pid:[4026531836]");
    let is_unfiltered =
        !text("/proc/self/status").lines().any(|line| line.starts_with("Seccomp:\t") && !line.ends_with('0'));
    let [cap_sys_admin, cap_perfmon] = [21, 38];
    let is_permitted = has_capability(cap_sys_admin) && has_capability(cap_perfmon);
    let has_perf = Path::new("/proc/sys/kernel/perf_event_paranoid").exists();
    let formats = EVENTS.map(|event| format!("/sys/kernel/tracing/events/{event}/id")).join(" ");
    let script = format!("mount -t tracefs none /sys/kernel/tracing && cat {formats}");
    let reads = || Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    is_permitted && is_outside && is_unfiltered && has_perf && reads().is_ok_and(|said| said.status.success())
}

/// Whether an interrupt takes the list of CPUs that it has.
fn moves_an_interrupt() -> bool {
    let all = std::fs::read_dir("/proc/irq").into_iter().flatten().flatten();
    let mut lists = all.map(|irq| irq.path().join("smp_affinity_list"));
    lists.any(|list| std::fs::read(&list).is_ok_and(|cpus| std::fs::write(&list, cpus).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lacks;

    #[test]
    fn what_is_here_is_no_lack() {
        let here = [
            Lack::File("/proc/self/stat"),
            Lack::Cpus(1),
            Lack::Cpu(crate::first_cpu()),
            Lack::Linux(4, 19),
            Lack::Call("read", Errno::INVAL.raw_os_error()),
        ];
        for lack in here {
            assert!(lack.is_here(), "{lack}");
            assert!(std::panic::catch_unwind(|| lacks(lack)).is_err(), "{lack}");
        }
        let absent = [
            Lack::File("/proc/self/no such file"),
            Lack::Cpus(100_000),
            Lack::Linux(1000, 0),
            Lack::Capability("none of this number", 63),
            Lack::Call("read", Errno::NOSYS.raw_os_error()),
            Lack::Instruction("no such flag"),
        ];
        absent.into_iter().for_each(|lack| assert!(!lack.is_here(), "{lack}"));
    }

    #[test]
    #[should_panic(expected = "no file of the kernel")]
    fn a_program_is_no_file_of_the_kernel() {
        lacks(Lack::File("/usr/bin/cc"));
    }
}
