//! Changing the CPUs that the calling thread may run on, and putting them back.

use punctual_linux::affinity as linux;
use rustix::io::Errno;

use super::guard::{Steps, Undo};
use super::surroundings::Surroundings;
use super::{Condition, CpuSet, NotRestored, Refused};

/// The CPUs that the calling thread may run on.
pub(super) fn current() -> punctual_linux::Result<CpuSet> {
    linux::affinity(0).map(CpuSet::of)
}

/// Lets the calling thread run on `cpus` only: on all of them, or it is refused.
pub(super) fn set(cpus: &CpuSet, here: &Surroundings, steps: &mut Steps) -> Result<(), Refused> {
    let refuse = |why: String, remedy: String, errno| refusal(cpus, why, remedy, errno);
    if cpus.is_empty() {
        return Err(refuse("the list names no CPU".into(), "name at least one CPU".into(), None));
    }
    if let Some(refused) = missing(cpus, here) {
        return Err(refused);
    }
    refuse_offline(cpus, here).map_err(|(why, remedy)| refuse(why, remedy, None))?;
    let failed = |error: punctual_linux::Error| {
        let (why, remedy) = explain(&error, here);
        refuse(why, remedy, Some(error.errno()))
    };
    let before = current().map_err(failed)?;
    linux::set_affinity(0, cpus.as_slice()).map_err(failed)?;
    let now = current().map_err(failed)?;
    let step = Box::new(FormerCpus(before));
    let dropped = cpus.without(&now);
    if dropped.is_empty() {
        steps.push(step);
        return Ok(());
    }
    // The kernel drops CPUs it will not give, and says nothing. Half a list is not what was asked.
    let back = step.undo();
    let (why, remedy) = outside(&dropped, here);
    let why = back.map_or_else(|not_restored| format!("{why}; and {not_restored}"), |()| why.clone());
    Err(refuse(why, remedy, None))
}

fn refusal(cpus: &CpuSet, why: String, remedy: String, errno: Option<i32>) -> Refused {
    Refused { condition: Condition::Cpus, asked: cpus.to_string(), why, remedy, errno }
}

/// CPUs that the machine does not have.
pub(super) fn missing(cpus: &CpuSet, here: &Surroundings) -> Option<Refused> {
    let present = here.present_cpus.as_ref()?;
    let missing = cpus.without(present);
    let why = format!("this machine has no CPU {missing}: it has {present} (/sys/devices/system/cpu/present)");
    let remedy = format!("choose from {}", here.online_cpus.as_ref().unwrap_or(present));
    (!missing.is_empty()).then(|| refusal(cpus, why, remedy, None))
}

/// CPUs that are there and do not run.
fn refuse_offline(cpus: &CpuSet, here: &Surroundings) -> Result<(), (String, String)> {
    if let Some(online) = &here.online_cpus {
        let offline = cpus.without(online);
        if !offline.is_empty() {
            let first = offline.as_slice()[0];
            return Err((
                format!("CPU {offline} is offline; online are {online} (/sys/devices/system/cpu/online)"),
                format!(
                    "choose from {online}, or bring it online as root: echo 1 > /sys/devices/system/cpu/cpu{first}/online"
                ),
            ));
        }
    }
    Ok(())
}

/// CPUs that run, and that this process may not use.
fn outside(dropped: &CpuSet, here: &Surroundings) -> (String, String) {
    let allowed = here.cpuset.as_ref().map(|(file, cpus)| format!(", which is {cpus} ({file})")).unwrap_or_default();
    let why = format!("CPU {dropped} is online, but outside the cpuset of this process{allowed}");
    let remedy = match &here.container {
        Some(container) => format!("give the container the CPU: --cpuset-cpus={dropped} ({container})"),
        None => "choose a CPU of the cpuset, or widen it (AllowedCPUs= of the systemd unit, cpuset.cpus of the cgroup)"
            .into(),
    };
    (why, remedy)
}

fn explain(error: &punctual_linux::Error, here: &Surroundings) -> (String, String) {
    if error.errno() == Errno::INVAL.raw_os_error() {
        let allowed =
            here.cpuset.as_ref().map(|(file, cpus)| format!(", which is {cpus} ({file})")).unwrap_or_default();
        let why = format!("{error}: none of these CPUs is in the cpuset of this process{allowed}");
        let remedy =
            "choose a CPU of the cpuset, or widen it (docker --cpuset-cpus=, AllowedCPUs= of the systemd unit)";
        return (why, remedy.into());
    }
    if error.errno() == Errno::BUSY.raw_os_error() {
        let remedy = "leave the CPUs of a SCHED_DEADLINE thread alone, or confine it with an exclusive cpuset";
        return (
            format!("{error}: a thread under SCHED_DEADLINE must be free to run on all CPUs of its domain"),
            remedy.into(),
        );
    }
    (error.to_string(), "allow sched_setaffinity in the seccomp filter of the container or service".into())
}

#[derive(Debug)]
struct FormerCpus(CpuSet);

impl Undo for FormerCpus {
    fn undo(self: Box<Self>) -> Result<(), NotRestored> {
        let not_restored = |why: String| NotRestored { condition: Condition::Cpus, was: self.0.to_string(), why };
        linux::set_affinity(0, self.0.as_slice()).map_err(|error| not_restored(error.to_string()))?;
        match current() {
            Ok(now) if now == self.0 => Ok(()),
            Ok(now) => {
                Err(not_restored(format!("it is {now} now: CPUs went offline, or the cpuset changed meanwhile")))
            }
            Err(error) => Err(not_restored(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> Surroundings {
        Surroundings {
            present_cpus: Some(CpuSet::of(0..4)),
            online_cpus: Some(CpuSet::of(0..3)),
            cpuset: Some(("/sys/fs/cgroup/jobs/cpuset.cpus.effective".into(), CpuSet::of([0, 1]))),
            ..Surroundings::default()
        }
    }

    #[test]
    fn each_reason_is_told_apart() {
        let here = surroundings();
        let in_docker = Surroundings { container: Some("docker".into()), ..surroundings() };
        let absent = missing(&CpuSet::of([0, 7, 99]), &here).map(|no| (no.why, no.remedy)).unwrap();
        assert_eq!(missing(&CpuSet::of([0, 3]), &here), None);
        let offline = refuse_offline(&CpuSet::of([0, 3]), &here).unwrap_err();
        let beyond = outside(&CpuSet::of([2]), &here);
        let beyond_docker = outside(&CpuSet::of([2]), &in_docker);
        let none_left = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 22), &here);
        let busy = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 16), &here);
        let said: Vec<String> = [absent, offline, beyond, beyond_docker, none_left, busy]
            .iter()
            .map(|(why, remedy)| format!("{why}\n  {remedy}"))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
