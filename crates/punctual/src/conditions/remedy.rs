//! Why the kernel refused a condition, and what would make it work: a diagnosis from the error and the [`Surroundings`].
//!
//! In goes the failed call and the facts, out come two texts: why, and the remedy. Nothing is asked of the machine here.

use std::io;

use punctual_linux::Error;
use rustix::io::Errno;

use super::Policy;
use super::surroundings::Surroundings;

/// Why, and the remedy.
pub(super) type Diagnosis = (String, String);

fn is(error: &Error, errno: Errno) -> bool {
    error.errno() == errno.raw_os_error()
}

/// Of a policy.
pub(super) fn policy(policy: Policy, error: &Error, here: &Surroundings) -> Diagnosis {
    match policy {
        _ if is(error, Errno::NOSYS) => (
            format!("{error}: this kernel, or a seccomp filter, lacks the call"),
            "use Linux 3.14 or later, and allow sched_setattr in the seccomp filter of the container or service".into(),
        ),
        Policy::Deadline { .. } => deadline(error, here),
        Policy::RoundRobin(_) | Policy::Fifo(_) if is(error, Errno::PERM) => real_time(policy, error, here),
        _ if is(error, Errno::PERM) => fair(error, here),
        _ => (error.to_string(), "none known for this error".into()),
    }
}

/// EPERM for SCHED_FIFO or SCHED_RR.
fn real_time(policy: Policy, error: &Error, here: &Surroundings) -> Diagnosis {
    let priority = u64::from(policy.priority().unwrap_or(1));
    let allowed = here.may_set_any_priority() || here.rtprio_limit.is_none_or(|limit| limit >= priority);
    if !allowed {
        let limit = here.rtprio_limit.unwrap_or(0);
        return (
            format!(
                "{error}: the real-time priority limit (RLIMIT_RTPRIO) is {limit}, and the thread has no CAP_SYS_NICE{}",
                if here.user_namespace { " that counts outside its user namespace" } else { "" }
            ),
            rtprio_remedy(priority, here),
        );
    }
    // The privilege is there: what is left is real-time bandwidth.
    if let Some((file, 0)) = &here.rt_group {
        let group = file.trim_end_matches("/cpu.rt_runtime_us");
        return (
            format!(
                "{error}: the cpu cgroup of this process has no real-time bandwidth ({file} is 0, RT group scheduling)"
            ),
            format!(
                "give it some as root: echo 950000 > {file} (or less: each group above must have as much as those in it together); or move this shell to the root \
                 group: echo $$ > {}/cgroup.procs",
                root_of(group)
            ),
        );
    }
    if here.rt_runtime_us == Some(0) {
        return (
            format!(
                "{error}: real-time threads get no CPU time on this machine (/proc/sys/kernel/sched_rt_runtime_us is 0)"
            ),
            "as root: echo 950000 > /proc/sys/kernel/sched_rt_runtime_us".into(),
        );
    }
    if let Some(group) = &here.unified_group {
        return (
            format!(
                "{error}, although the thread may set this priority: probably RT group scheduling, under which only the root \
                     cgroup has real-time bandwidth (this process is in {group})"
            ),
            "move this shell to the root cgroup as root: echo $$ > /sys/fs/cgroup/cgroup.procs; or boot with \
             rt_group_sched=0, or a kernel without CONFIG_RT_GROUP_SCHED"
                .into(),
        );
    }
    (
        format!("{error}, although the thread may set this priority: a security module or seccomp filter forbids it"),
        match &here.container {
            Some(container) => format!(
                "start the container ({container}) with --cap-add SYS_NICE and a seccomp profile that allows it"
            ),
            None => "see the journal for messages of SELinux, AppArmor or seccomp about sched_setattr".into(),
        },
    )
}

/// The last resort for a capability: root, unless this is root and lacks it.
fn root_with(capability: &str, here: &Surroundings) -> String {
    if here.root {
        format!(
            "this root lacks {capability}: see who took it away (capsh --print; CapabilityBoundingSet= of a systemd service, setpriv, a container)"
        )
    } else {
        "run it as root".into()
    }
}

/// The mount point of a cgroup v1 controller, of a group in it.
fn root_of(group: &str) -> String {
    group.split('/').take(5).collect::<Vec<_>>().join("/")
}

/// How to get a real-time priority.
fn rtprio_remedy(priority: u64, here: &Surroundings) -> String {
    if here.user_namespace {
        // Capabilities of the namespace do not count for the scheduler; limits are inherited from outside.
        return "give the user the limit outside the user namespace, with a line '@realtime - rtprio 99' in \
                /etc/security/limits.d/99-realtime.conf, and start a container with --ulimit rtprio=99; or run it as root outside"
            .into();
    }
    if let Some(container) = here.container_without_sys_nice() {
        return format!("start the container ({container}) with --cap-add SYS_NICE --ulimit rtprio=99");
    }
    let shell = if here.rtprio_hard_limit.is_none_or(|limit| limit >= priority) {
        format!("in this shell: ulimit -r {priority}; ")
    } else {
        String::new()
    };
    format!(
        "{shell}for logins: a line '@realtime - rtprio 99' in /etc/security/limits.d/99-realtime.conf and the user in the group \
         realtime; for a systemd service: LimitRTPRIO=99; for one program: setcap cap_sys_nice+ep PROGRAM; or {}",
        root_with("CAP_SYS_NICE", here)
    )
}

fn sys_nice_remedy(here: &Surroundings) -> String {
    if here.user_namespace {
        return "run it as root outside the user namespace (a container that is not rootless, with --cap-add SYS_NICE)"
            .into();
    }
    match here.container_without_sys_nice() {
        Some(container) => format!("start the container ({container}) with --cap-add SYS_NICE"),
        None => format!(
            "for one program: setcap cap_sys_nice+ep PROGRAM; for a systemd service: AmbientCapabilities=CAP_SYS_NICE; or {}",
            root_with("CAP_SYS_NICE", here)
        ),
    }
}

fn deadline(error: &Error, here: &Surroundings) -> Diagnosis {
    if is(error, Errno::BUSY) {
        let share = match (here.rt_runtime_us, here.rt_period_us) {
            (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => format!(
                " (at most {} % of each CPU: /proc/sys/kernel/sched_rt_runtime_us over sched_rt_period_us)",
                runtime * 100 / period
            ),
            _ => String::new(),
        };
        return (
            format!("{error}: the kernel cannot guarantee the runtime beside the other SCHED_DEADLINE threads{share}"),
            "ask for less runtime per period, or end other SCHED_DEADLINE threads".into(),
        );
    }
    if is(error, Errno::PERM) && !here.may_set_any_priority() {
        let why = format!("{error}: SCHED_DEADLINE needs CAP_SYS_NICE, whatever RLIMIT_RTPRIO allows");
        return (why, sys_nice_remedy(here));
    }
    if is(error, Errno::PERM) {
        return (
            format!(
                "{error}: the thread must be free to run on all CPUs of its scheduling domain, and real-time bandwidth must be there"
            ),
            "ask for no CPUs together with deadline, or confine the thread with an exclusive cpuset (sched(7), \
             Documentation/scheduler/sched-deadline.rst, section 5)"
                .into(),
        );
    }
    if is(error, Errno::INVAL) {
        return (
            format!("{error}: the kernel takes no such runtime, deadline and period"),
            "the period must lie between /proc/sys/kernel/sched_deadline_period_min_us and sched_deadline_period_max_us (100us and \
             about 4s)"
                .into(),
        );
    }
    (error.to_string(), "none known for this error".into())
}

/// EPERM for SCHED_OTHER, SCHED_BATCH or SCHED_IDLE: leaving SCHED_IDLE, or a thread that belongs to another.
fn fair(error: &Error, here: &Surroundings) -> Diagnosis {
    (
        format!("{error}: leaving SCHED_IDLE counts as gaining priority, which needs CAP_SYS_NICE or RLIMIT_NICE"),
        format!("raise the limit (ulimit -e 20, LimitNICE=0 of a systemd service), or {}", sys_nice_remedy(here)),
    )
}

/// Of a nice value.
pub(super) fn nice(nice: i32, error: &Error, here: &Surroundings) -> Diagnosis {
    if is(error, Errno::ACCESS) || is(error, Errno::PERM) {
        let needed = 20 - nice;
        let limit = here.nice_limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        let remedy = match &here.container {
            Some(container) => {
                format!("start the container ({container}) with --cap-add SYS_NICE --ulimit nice={needed}")
            }
            None => format!(
                "for logins: a line '@realtime - nice {nice}' in /etc/security/limits.d/99-realtime.conf; for a systemd service: \
                 LimitNICE={nice}; for one program: setcap cap_sys_nice+ep PROGRAM; or {}",
                root_with("CAP_SYS_NICE", here)
            ),
        };
        return (
            format!(
                "{error}: a nice value of {nice} needs CAP_SYS_NICE or a nice limit (RLIMIT_NICE) of {needed} or more, and it is {limit}"
            ),
            remedy,
        );
    }
    (error.to_string(), "none known for this error".into())
}

/// Of what could be applied, and not undone. `what` says which.
pub(super) fn one_way(what: &str, here: &Surroundings) -> Diagnosis {
    let lacking = if here.user_namespace {
        "CAP_SYS_NICE does not reach beyond its user namespace"
    } else {
        "the thread has no CAP_SYS_NICE and its limits (RLIMIT_NICE, RLIMIT_RTPRIO) do not allow it"
    };
    (
        format!("{what}: {lacking}"),
        format!("{}; a program may also accept that it is for good (Conditions::one_way)", sys_nice_remedy(here)),
    )
}

/// Of locked memory.
pub(super) fn memory(error: &Error, here: &Surroundings) -> Diagnosis {
    let limit = here.memlock_limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    let mapped = here.mapped_kib.map(|kib| format!(", and {kib} KiB are mapped")).unwrap_or_default();
    if is(error, Errno::PERM) || is(error, Errno::NOMEM) || is(error, Errno::AGAIN) {
        return (
            format!("{error}: without CAP_IPC_LOCK at most {limit} may be locked (RLIMIT_MEMLOCK){mapped}"),
            memory_limit(here),
        );
    }
    (error.to_string(), "none known for this error".into())
}

/// How to raise the limit on locked memory.
pub(super) fn memory_limit(here: &Surroundings) -> String {
    if here.user_namespace {
        return "give the user the limit outside the user namespace, with a line '@realtime - memlock unlimited' in \
                /etc/security/limits.d/99-realtime.conf, and start a container with --ulimit memlock=-1; or run it as root outside"
            .into();
    }
    if let Some(container) = here.container_without_ipc_lock() {
        return format!("start the container ({container}) with --ulimit memlock=-1, or --cap-add IPC_LOCK");
    }
    let shell = if here.memlock_hard_limit.is_none() { "in this shell: ulimit -l unlimited; " } else { "" };
    format!(
        "{shell}for logins: a line '@realtime - memlock unlimited' in /etc/security/limits.d/99-realtime.conf and the user in the \
         group realtime; for a systemd service: LimitMEMLOCK=infinity; for one program: setcap cap_ipc_lock+ep PROGRAM; or {}",
        root_with("CAP_IPC_LOCK", here)
    )
}

/// Of `/dev/cpu_dma_latency`.
pub(super) fn dma_latency(error: &io::Error, here: &Surroundings) -> Diagnosis {
    let path = super::dma_latency::PATH;
    let why = format!("{path}: {error}");
    let errno = error.raw_os_error();
    let missing = error.kind() == io::ErrorKind::NotFound;
    let remedy = match &here.container {
        // EPERM rather than EACCES: the device is withheld from the container (its devices cgroup), whoever asks.
        Some(container) if missing || errno == Some(Errno::PERM.raw_os_error()) => {
            format!("start the container ({container}) with --device {path}, as a user who may write to it")
        }
        _ if missing => "use a kernel with CONFIG_CPU_IDLE and PM QoS; where CPUs have no C-states (many virtual machines), there is \
                         nothing to bound"
            .into(),
        _ if error.kind() == io::ErrorKind::PermissionDenied => {
            "let a group write to it: a udev rule KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\" in \
             /etc/udev/rules.d/99-cpu-dma-latency.rules and the user in that group; or run it as root"
                .into()
        }
        _ => "none known for this error".into(),
    };
    (why, remedy)
}

#[cfg(test)]
mod tests;
