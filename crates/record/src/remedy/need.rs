//! What to do about a refusal, in words: for a refused condition, a lost one, and a setting that could not be put back.

use punctual::conditions::Refused;
use punctual::{Need, Withheld, format_duration};

use super::condition::if_lost;
use crate::model::{Ask, Hint};

/// What to do about a refused condition.
#[must_use]
pub fn of_refused(refused: &Refused) -> Hint {
    match (&refused.needs, &refused.asked) {
        (Need::NoOtherSetter, Some(asked)) => if_lost(asked).into(),
        (need, _) => of_need(need),
    }
}

/// What to do, where a request lacks this. One match, so that no need goes without words of its own.
#[must_use]
pub fn of_need(need: &Need) -> Hint {
    let words: String = match need {
        // Privileges and limits.
        Need::SysNice(withheld) => sys_nice(withheld),
        Need::OtherThread(withheld) => format!("{}; the program itself may need no privilege for it", sys_nice(withheld)),
        Need::OwnProcess => "start the program with its memory locked, or have it call mlockall(2)".into(),
        Need::WayBack(withheld) => format!(
            "{}; a program may also accept that it is for good (Conditions::allow_irreversible)",
            sys_nice(withheld)
        ),
        Need::LeaveIdle(withheld) => {
            format!("raise the limit (ulimit -e 20, LimitNICE=0 of a systemd service), or {}", sys_nice(withheld))
        }
        Need::NiceLimit(nice, Withheld::ByContainer(container)) => {
            format!("start the container ({container}) with --cap-add SYS_NICE --ulimit nice={}", 20 - nice)
        }
        Need::NiceLimit(nice, withheld) => format!(
            "for logins: a line '@realtime - nice {nice}' in /etc/security/limits.d/99-realtime.conf; for a systemd service: \
             LimitNICE={nice}; for one program: setcap cap_sys_nice+ep PROGRAM; or {}",
            root_with("CAP_SYS_NICE", withheld)
        ),
        Need::RtPriority { priority, within_hard_limit, withheld } => {
            rt_priority(*priority, *within_hard_limit, withheld)
        }
        Need::MemoryLimit { within_hard_limit, withheld } => memory_limit(*within_hard_limit, withheld),
        Need::RealTimeAllowed(Some(container)) => {
            format!("start the container ({container}) with --cap-add SYS_NICE and a seccomp profile that allows it")
        }
        Need::RealTimeAllowed(None) => {
            "see the journal for messages of SELinux, AppArmor or seccomp about sched_setattr".into()
        }
        Need::LatencyDevice => {
            "let a group write to it: a udev rule KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\" in \
             /etc/udev/rules.d/99-cpu-dma-latency.rules and the user in that group; or run it as root"
                .into()
        }
        Need::DeviceInContainer(device, container) => {
            format!("start the container ({container}) with --device {device}, as a user who may write to it")
        }
        Need::WriteAccess => "run it as root (sudo), or give this user write access to the file".into(),
        // The kernel: its version, its calls, real-time bandwidth, SCHED_DEADLINE.
        Need::Call(call) => format!("allow {call} in the seccomp filter of the container or service"),
        Need::Linux(major, minor, None) => format!("use Linux {major}.{minor} or later"),
        Need::Linux(major, minor, Some(call)) => format!(
            "use Linux {major}.{minor} or later, and allow {call} in the seccomp filter of the container or service"
        ),
        Need::Mounted(folder) => format!("mount {folder}"),
        Need::InterruptFolder => "mount /proc with its folder irq, which some containers hide".into(),
        Need::WritableMount => {
            "/sys is mounted read-only, as in a container: run it on the host, or with /sys and /proc/irq writable".into()
        }
        Need::GroupBandwidth(file) => {
            // The mount point of the controller: /sys/fs/cgroup/cpu.
            let root = file.split('/').take(5).collect::<Vec<_>>().join("/");
            format!(
                "give it some as root: echo 950000 > {file} (or less: each group above must have as much as those in it together); or move \
                 this shell to the root group: echo $$ > {root}/cgroup.procs"
            )
        }
        Need::Bandwidth => "as root: echo 950000 > /proc/sys/kernel/sched_rt_runtime_us".into(),
        Need::RootGroup => "move this shell to the root cgroup as root: echo $$ > /sys/fs/cgroup/cgroup.procs; or boot with \
                            rt_group_sched=0, or a kernel without CONFIG_RT_GROUP_SCHED"
            .into(),
        Need::LessRuntime => "ask for less runtime per period, or end other SCHED_DEADLINE threads".into(),
        Need::DeadlineOnAllCpus => {
            "ask for no CPUs together with deadline, or confine the thread with an exclusive cpuset (sched(7), \
             Documentation/scheduler/sched-deadline.rst, section 5)"
                .into()
        }
        Need::DeadlinePeriod => {
            "the period must lie between /proc/sys/kernel/sched_deadline_period_min_us and sched_deadline_period_max_us (100us and \
             about 4s)"
                .into()
        }
        Need::FairPolicy => "ask for one of these policies, or for no slice".into(),
        Need::SliceBetween(from, to) => format!("ask for {} to {}", format_duration(*from), format_duration(*to)),
        Need::SlackAtMost(most) => format!(
            "choose a slack of at most {}, which fits the kernel's unsigned long on any machine",
            format_duration(*most)
        ),
        Need::SlackLeftAlone => {
            "see whether something else (a container's seccomp filter, a power manager) sets the slack of this thread".into()
        }
        Need::LessLatency => "choose less; the longest C-state of any CPU leaves within milliseconds".into(),
        Need::IdleStates => "use a kernel with CONFIG_CPU_IDLE and PM QoS; where CPUs have no C-states (many virtual machines), there is \
                             nothing to bound"
            .into(),
        Need::KernelLog => "see what the kernel says in dmesg".into(),
        // CPUs.
        Need::ACpu => "name at least one CPU".into(),
        Need::CpusOf(cpus) => format!("choose from {cpus}"),
        Need::OnlineCpu(online, cpu) => {
            format!(
                "choose from {online}, or bring it online as root: echo 1 > /sys/devices/system/cpu/cpu{cpu}/online"
            )
        }
        Need::CpusInContainer(cpus, container) => {
            format!("give the container the CPU: --cpuset-cpus={cpus} ({container})")
        }
        Need::CpusOfCpuset(Some(container)) => {
            format!("choose a CPU of the cpuset, or widen that of the container ({container}) with --cpuset-cpus=")
        }
        Need::CpusOfCpuset(None) => {
            "choose a CPU of the cpuset, or widen it (AllowedCPUs= of the systemd unit, cpuset.cpus of the cgroup)"
                .into()
        }
        Need::CpusOfDeadline => {
            "leave the CPUs of a SCHED_DEADLINE thread alone, or confine it with an exclusive cpuset".into()
        }
        Need::MeasuredCpus => return Ask::MeasuredCpus.into(),
        Need::FewerCpus => return Ask::FewerCpus.into(),
        Need::SecondCpu => "none: interrupts have to run somewhere".into(),
        Need::CpuStillOnline => "the CPU may have gone offline: see /sys/devices/system/cpu/online".into(),
        Need::AnOnlineCpu => "name a CPU that is online: /sys/devices/system/cpu/online".into(),
        // Settings of the machine, and values.
        Need::NoRequest => "leave the condition out".into(),
        Need::WithinBounds => "choose values within these bounds".into(),
        Need::OneOfThose => "take one of those".into(),
        Need::NoOtherSetter => "let no other program change it".into(),
        Need::NoOtherFrequencySetter => {
            "see what else sets it: thermald, power-profiles-daemon, tuned, a limit of the firmware".into()
        }
        Need::AttributeOfDriver => "use what this driver has: `punctual governor` shows it".into(),
        Need::OtherGovernor => {
            "the driver refuses this under the present governor: choose another governor first".into()
        }
        Need::OfferedValue => "the driver does not take this value: `punctual governor` shows what it offers".into(),
        Need::SettingForm => "a name has lower-case letters, digits, - and _; a frequency is a number in kHz".into(),
        Need::HolderEnded => "wait until it has finished, or end it: it puts back what it changed".into(),
        Need::Removed(path) => format!("remove {} and try again", path.display()),
        Need::Host => "set it on the host".into(),
        Need::PerformanceStates => {
            "enable the CPU's performance states in the firmware and load its cpufreq driver".into()
        }
        Need::GovernorModule(name) => {
            format!("modprobe cpufreq_{name}; drivers that choose in hardware offer performance and powersave alone")
        }
        Need::Userspace => "set the governor userspace first".into(),
        Need::FrequencyInRange => "ask for a frequency in that range".into(),
        Need::Lever => "see `punctual governor` for what this machine has".into(),
        // Rings.
        Need::FreeName => "choose another name for the ring, or remove the old one (Ring::remove)".into(),
        Need::CreatedFirst => {
            "let the other side create the ring first; where it died, remove the name (Ring::remove); check that /dev/shm and \
             /proc are mounted"
                .into()
        }
        Need::PassedDescriptor => "let the owner of the ring pass its descriptor (Ring::from_fd)".into(),
        Need::SharedMemory => {
            "use a smaller ring, or more memory: a larger /dev/shm (mount -o remount,size=)".into()
        }
        Need::FileLimit => "raise the limit of open files (ulimit -n)".into(),
        Need::ARing => "check which file was passed: it has to be that of a ring".into(),
        Need::SameVersion => "use the same version of punctual on both sides".into(),
        Need::SealedMemory => "seal the memfd with F_SEAL_SHRINK, as Ring::anonymous does".into(),
        Need::FreeEnd => "end the process that has this end of the ring, or use another ring".into(),
        Need::EndOfProcess => "it ends with this process; a program started later is not affected".into(),
        Need::ValueWritten { value, file } => format!(
            "when the CPU is online again, run `punctual governor restore`, or write {value} to {}",
            file.display()
        ),
        Need::Unknown => "none known for this error".into(),
    };
    words.into()
}

/// The last resort for a capability: root, unless the user is root and lacks it.
fn root_with(capability: &str, withheld: &Withheld) -> String {
    if *withheld == Withheld::FromRoot {
        format!(
            "this root lacks {capability}: see who took it away (capsh --print; CapabilityBoundingSet= of a systemd service, setpriv, a container)"
        )
    } else {
        "run it as root".into()
    }
}

fn sys_nice(withheld: &Withheld) -> String {
    match withheld {
        Withheld::ByUserNamespace => {
            "run it as root outside the user namespace (a container that is not rootless, with --cap-add SYS_NICE)"
                .into()
        }
        Withheld::ByContainer(container) => format!("start the container ({container}) with --cap-add SYS_NICE"),
        _ => format!(
            "for one program: setcap cap_sys_nice+ep PROGRAM; for a systemd service: AmbientCapabilities=CAP_SYS_NICE; or {}",
            root_with("CAP_SYS_NICE", withheld)
        ),
    }
}

fn rt_priority(priority: u64, within_hard_limit: bool, withheld: &Withheld) -> String {
    match withheld {
        // The scheduler ignores capabilities of a user namespace; limits are inherited from outside.
        Withheld::ByUserNamespace => outside_the_namespace("rtprio 99", "rtprio=99"),
        Withheld::ByContainer(container) => {
            format!("start the container ({container}) with --cap-add SYS_NICE --ulimit rtprio=99")
        }
        _ => {
            let shell =
                if within_hard_limit { format!("in this shell: ulimit -r {priority}; ") } else { String::new() };
            format!(
                "{shell}for logins: a line '@realtime - rtprio 99' in /etc/security/limits.d/99-realtime.conf and the user in the group \
                 realtime; for a systemd service: LimitRTPRIO=99; for one program: setcap cap_sys_nice+ep PROGRAM; or {}",
                root_with("CAP_SYS_NICE", withheld)
            )
        }
    }
}

fn memory_limit(within_hard_limit: bool, withheld: &Withheld) -> String {
    match withheld {
        Withheld::ByUserNamespace => outside_the_namespace("memlock unlimited", "memlock=-1"),
        Withheld::ByContainer(container) => {
            format!("start the container ({container}) with --ulimit memlock=-1, or --cap-add IPC_LOCK")
        }
        _ => {
            let shell = if within_hard_limit { "in this shell: ulimit -l unlimited; " } else { "" };
            format!(
                "{shell}for logins: a line '@realtime - memlock unlimited' in /etc/security/limits.d/99-realtime.conf and the user in the \
                 group realtime; for a systemd service: LimitMEMLOCK=infinity; for one program: setcap cap_ipc_lock+ep PROGRAM; or {}",
                root_with("CAP_IPC_LOCK", withheld)
            )
        }
    }
}

fn outside_the_namespace(limit: &str, of_container: &str) -> String {
    format!(
        "give the user the limit outside the user namespace, with a line '@realtime - {limit}' in \
         /etc/security/limits.d/99-realtime.conf, and start a container with --ulimit {of_container}; or run it as root outside"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::Policy;
    use punctual::conditions::{CONDITIONS, Frequency};

    use punctual::conditions::Value;

    use super::*;

    /// Each kind of withholder of a privilege.
    fn withholders() -> [Withheld; 4] {
        [Withheld::ByUserNamespace, Withheld::ByContainer("docker".into()), Withheld::FromRoot, Withheld::FromUser]
    }

    #[test]
    fn each_need_has_its_words() {
        let docker = || "docker".to_owned();
        let of_privileges = |withheld: Withheld| {
            let own = || withheld.clone();
            let rt = |within_hard_limit| Need::RtPriority { priority: 40, within_hard_limit, withheld: own() };
            let memory = |within_hard_limit| Need::MemoryLimit { within_hard_limit, withheld: own() };
            let nice = Need::NiceLimit(-5, own());
            [
                Need::SysNice(own()),
                Need::OtherThread(own()),
                Need::WayBack(own()),
                Need::LeaveIdle(own()),
                nice,
                rt(false),
                rt(true),
                memory(false),
                memory(true),
            ]
        };
        let others = vec![
            Need::Unknown,
            Need::NoRequest,
            Need::WithinBounds,
            Need::OwnProcess,
            Need::OneOfThose,
            Need::NoOtherSetter,
            Need::Call("sched_setattr"),
            Need::Linux(6, 12, None),
            Need::Linux(3, 14, Some("sched_setattr")),
            Need::Mounted("/proc"),
            Need::GroupBandwidth("/sys/fs/cgroup/cpu/user.slice/cpu.rt_runtime_us".into()),
            Need::Bandwidth,
            Need::RootGroup,
            Need::RealTimeAllowed(None),
            Need::RealTimeAllowed(Some("podman".into())),
            Need::LessRuntime,
            Need::DeadlineOnAllCpus,
            Need::DeadlinePeriod,
            Need::FairPolicy,
            Need::SliceBetween(Duration::from_micros(100), Duration::from_millis(100)),
            Need::SlackAtMost(Duration::from_secs(2)),
            Need::SlackLeftAlone,
            Need::LessLatency,
            Need::ACpu,
            Need::CpusOf("0-1".parse().unwrap()),
            Need::OnlineCpu("0-2".parse().unwrap(), 3),
            Need::CpusInContainer("2".parse().unwrap(), docker()),
            Need::CpusOfCpuset(None),
            Need::CpusOfCpuset(Some(docker())),
            Need::CpusOfDeadline,
            Need::MeasuredCpus,
            Need::FewerCpus,
            Need::SecondCpu,
            Need::InterruptFolder,
            Need::DeviceInContainer("/dev/cpu_dma_latency", docker()),
            Need::IdleStates,
            Need::LatencyDevice,
            Need::AttributeOfDriver,
            Need::WriteAccess,
            Need::WritableMount,
            Need::CpuStillOnline,
            Need::OtherGovernor,
            Need::OfferedValue,
            Need::KernelLog,
            Need::SettingForm,
            Need::HolderEnded,
            Need::Removed("/run/punctual".into()),
            Need::Host,
            Need::PerformanceStates,
            Need::AnOnlineCpu,
            Need::GovernorModule("ondemand".into()),
            Need::Userspace,
            Need::FrequencyInRange,
            Need::NoOtherFrequencySetter,
            Need::Lever,
            Need::FreeName,
            Need::CreatedFirst,
            Need::PassedDescriptor,
            Need::SharedMemory,
            Need::FileLimit,
            Need::ARing,
            Need::SameVersion,
            Need::SealedMemory,
            Need::FreeEnd,
            Need::EndOfProcess,
            Need::ValueWritten { value: "800000".into(), file: "/sys/x".into() },
        ];
        let all = withholders().into_iter().flat_map(of_privileges).chain(others);
        let words = |need: Need| {
            let words = of_need(&need).to_string();
            assert_eq!(need == Need::Unknown, words.starts_with("none known"), "{need:?}");
            format!("{need:?}\n  {words}\n")
        };
        let said: String = all.map(words).collect();
        insta::assert_snapshot!(said);
    }

    #[test]
    fn each_condition_says_what_takes_it_away() {
        let none = Duration::ZERO;
        let values = [
            Value::Policy(Policy::Other),
            Value::Nice(0),
            Value::Cpu("0".parse().unwrap()),
            Value::TimerSlack(none),
            Value::Slice(none),
            Value::LockMemory(true),
            Value::DmaLatency(none),
            Value::MinFrequency(Frequency::Highest),
            Value::MaxFrequency(Frequency::Highest),
            Value::Epp("power".into()),
            Value::Governor("powersave".into()),
            Value::IrqsAway(true),
        ];
        assert!(values.iter().map(Value::condition).eq(CONDITIONS.iter().copied()));
        let said: String = values.iter().map(|set| format!("{}: {}\n", set.condition(), if_lost(set))).collect();
        insta::assert_snapshot!(said);
    }
}
