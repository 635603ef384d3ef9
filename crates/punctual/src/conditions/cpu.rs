//! The CPU affinity of the calling thread.

use punctual_linux::sched as linux;
use rustix::io::Errno;

use super::condition::{Applying, Condition, Definition, Held, Machine, Probe, not_restored};
use super::reason::Reason;
use super::set::Conditions;
use super::surroundings::Surroundings;
use super::value::Value;
use crate::cpu_set::CpuSet;
use crate::need::Need;
use crate::restore::NotRestored;

#[derive(Debug)]
struct Cpu;

impl Condition {
    /// `cpu`.
    pub const CPU: Self = Self::of(&Cpu);
}

impl Conditions {
    /// Requests that the calling thread runs on these CPUs only.
    #[must_use]
    pub fn cpus(self, cpus: &CpuSet) -> Self {
        self.with(Value::Cpu(cpus.clone()))
    }

    /// Requests that the calling thread runs on this CPU only.
    #[must_use]
    pub fn cpu(self, cpu: usize) -> Self {
        self.cpus(&CpuSet::of([cpu]))
    }

    /// The CPUs that the thread may run on.
    #[must_use]
    pub fn get_cpus(&self) -> Option<CpuSet> {
        match self.value(Condition::CPU)? {
            Value::Cpu(cpus) => Some(cpus.clone()),
            _ => None,
        }
    }
}

impl Definition for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn parse(&self, typed: &str) -> Result<Value, String> {
        typed.parse::<CpuSet>().map(Value::Cpu).map_err(|error| error.to_string())
    }

    fn read(&self, _: &Machine) -> Option<Value> {
        current().ok().map(Value::Cpu)
    }

    fn probe(&self, _: &Machine) -> Probe {
        match current() {
            Ok(cpus) => Probe::Try(Value::Cpu(cpus)),
            Err(error) => Probe::Found(Err(explain(&error, &Surroundings::read()))),
        }
    }
}

/// Sets the value and reads it back.
pub(super) fn apply(cpus: &CpuSet, applying: &mut Applying<'_>) -> Result<(), Reason> {
    if cpus.is_empty() {
        return Err(Reason::new("no CPU is named", Need::ACpu));
    }
    let here = applying.here;
    let before = current().map_err(|error| explain(&error, here))?;
    set(cpus, &before, here)?;
    applying.hold(OnCpus { cpus: cpus.clone(), before });
    Ok(())
}

#[derive(Debug)]
struct OnCpus {
    cpus: CpuSet,
    before: CpuSet,
}

impl Held for OnCpus {
    /// The CPUs in force, if they differ. With the right affinity, it is the CPU outside it on which the thread
    /// still runs.
    fn lost(&self) -> Option<String> {
        let now = current().ok()?;
        if now != self.cpus {
            return Some(now.to_string());
        }
        let here = rustix::thread::sched_getcpu();
        (!now.contains(here)).then(|| format!("{now} (the thread runs on CPU {here})"))
    }

    fn renew(&mut self, here: &Surroundings) -> Result<(), Reason> {
        set(&self.cpus, &current().map_err(|error| explain(&error, here))?, here)
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        let outcome = linux::set_affinity(0, self.before.as_slice()).and_then(|()| current());
        let why = match outcome {
            Ok(now) if now == self.before => return Vec::new(),
            Ok(now) => format!("it is {now} now: CPUs went offline, or the cpuset changed meanwhile"),
            Err(error) => error.to_string(),
        };
        vec![not_restored("cpu", self.before, why)]
    }
}

/// The CPUs that the calling thread may run on.
pub(super) fn current() -> punctual_linux::Result<CpuSet> {
    linux::affinity(0).map(CpuSet::of)
}

/// Restricts the calling thread to `cpus`: to all of them, or it fails.
fn set(cpus: &CpuSet, before: &CpuSet, here: &Surroundings) -> Result<(), Reason> {
    missing(cpus, here).map_or(Ok(()), Err)?;
    refuse_offline(cpus, here)?;
    let failed = |error: punctual_linux::Error| explain(&error, here);
    linux::set_affinity(0, cpus.as_slice()).map_err(failed)?;
    let now = current().map_err(failed)?;
    let dropped = cpus.without(&now);
    if dropped.is_empty() {
        return Ok(());
    }
    // The kernel drops unavailable CPUs silently. Part of the list does not fulfil the request.
    let mut reason = outside(&dropped, here);
    if let Err(error) = linux::set_affinity(0, before.as_slice()) {
        reason.why = format!("{}; and cpu could not be put back: it was {before}; {error}", reason.why);
    }
    Err(reason)
}

/// CPUs that the machine does not have.
pub(super) fn missing(cpus: &CpuSet, here: &Surroundings) -> Option<Reason> {
    let present = here.present_cpus.as_ref()?;
    let missing = cpus.without(present);
    let why = format!("this machine has no CPU {missing}: it has {present} (/sys/devices/system/cpu/present)");
    let needs = Need::CpusOf(here.online_cpus.as_ref().unwrap_or(present).clone());
    (!missing.is_empty()).then(|| Reason::new(why, needs))
}

/// CPUs that exist but are offline.
fn refuse_offline(cpus: &CpuSet, here: &Surroundings) -> Result<(), Reason> {
    if let Some(online) = &here.online_cpus {
        let offline = cpus.without(online);
        if !offline.is_empty() {
            let first = offline.as_slice()[0];
            return Err(Reason::new(
                format!("CPU {offline} is offline; online are {online} (/sys/devices/system/cpu/online)"),
                Need::OnlineCpu(online.clone(), first),
            ));
        }
    }
    Ok(())
}

/// CPUs that are online but not allowed for this process.
fn outside(dropped: &CpuSet, here: &Surroundings) -> Reason {
    let allowed = here.cpuset.as_ref().map(|(file, cpus)| format!(", which is {cpus} ({file})")).unwrap_or_default();
    let why = format!("CPU {dropped} is online, but outside the cpuset of this process{allowed}");
    let needs = match &here.container {
        Some(container) => Need::CpusInContainer(dropped.clone(), container.clone()),
        None => Need::CpusOfCpuset(None),
    };
    Reason::new(why, needs)
}

fn explain(error: &punctual_linux::Error, here: &Surroundings) -> Reason {
    if error.errno() == Errno::INVAL.raw_os_error() {
        let allowed =
            here.cpuset.as_ref().map(|(file, cpus)| format!(", which is {cpus} ({file})")).unwrap_or_default();
        let why = format!("{error}: none of these CPUs is in the cpuset of this process{allowed}");
        return Reason::new(why, Need::CpusOfCpuset(here.container.clone())).errno(error.errno());
    }
    if error.errno() == Errno::BUSY.raw_os_error() {
        return Reason::new(
            format!("{error}: a thread under SCHED_DEADLINE must be free to run on all CPUs of its domain"),
            Need::CpusOfDeadline,
        )
        .errno(error.errno());
    }
    Reason::new(error, Need::Call("sched_setaffinity")).errno(error.errno())
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
        let absent = missing(&CpuSet::of([0, 7, 99]), &here).unwrap();
        assert_eq!(missing(&CpuSet::of([0, 3]), &here), None);
        let offline = refuse_offline(&CpuSet::of([0, 3]), &here).unwrap_err();
        let beyond = outside(&CpuSet::of([2]), &here);
        let beyond_docker = outside(&CpuSet::of([2]), &in_docker);
        let none_left = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 22), &here);
        let none_left_docker = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 22), &in_docker);
        let busy = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 16), &here);
        let said: Vec<String> = [absent, offline, beyond, beyond_docker, none_left, none_left_docker, busy]
            .iter()
            .map(|Reason { why, needs, .. }| format!("{why}\n  {needs:?}"))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
