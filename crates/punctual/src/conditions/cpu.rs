//! The CPU affinity of a thread.

use std::cell::LazyCell;

use punctual_linux::sched as linux;
use rustix::io::Errno;

use super::set::{Conditions, of_another_thread};
use super::surroundings::{Reason, Surroundings};
use super::{
    Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Thread, Value, not_restored,
};
use crate::cpu_set::CpuSet;
use crate::need::Need;
use crate::restore::NotRestored;

struct Cpu;

impl Condition {
    /// `cpu`.
    pub const CPU: Self = Self(&Facts { name: "cpu", scope: Scope::Thread, definition: &Cpu });
}

impl Conditions {
    /// Requests that the calling thread runs on these CPUs only.
    pub fn cpus(self, cpus: &CpuSet) -> Self {
        self.with(Value::Cpu(cpus.clone()))
    }

    /// Requests that the calling thread runs on this CPU only.
    pub fn cpu(self, cpu: usize) -> Self {
        self.cpus(&CpuSet::from_iter([cpu]))
    }

    /// The CPUs that the thread may run on.
    #[must_use]
    pub fn get_cpus(&self) -> Option<CpuSet> {
        let Value::Cpu(cpus) = self.value(Condition::CPU)? else { return None };
        Some(cpus.clone())
    }
}

impl Definition for Cpu {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        Ok(Value::Cpu(typed.parse()?))
    }

    fn read(&self, target: &Target) -> Option<Value> {
        current(target.thread).ok().map(Value::Cpu)
    }

    fn probe(&self, target: &Target) -> Probe {
        match current(target.thread) {
            Ok(cpus) => Probe::Try(Value::Cpu(cpus)),
            Err(error) => Probe::Found(Err(explain(&error, target.thread, &Surroundings::read()))),
        }
    }

    fn impossible(&self, value: &Value, here: &Surroundings) -> Option<Reason> {
        if let Value::Cpu(cpus) = value { missing(cpus, here) } else { None }
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::Cpu(cpus) = applying.value else { return Err(Applying::read_only()) };
        if cpus.is_empty() {
            return Err(Reason::new("no CPU is named", Need::ACpu));
        }
        let (thread, here) = (applying.thread(), applying.here);
        let before = allowed(thread).map_err(|error| explain(&error, thread, here))?;
        set(thread, cpus, &before, here)?;
        applying.hold(OnCpus { thread, cpus: cpus.clone(), before });
        Ok(())
    }
}

#[derive(Debug)]
struct OnCpus {
    thread: Thread,
    cpus: CpuSet,
    before: CpuSet,
}

impl Held for OnCpus {
    /// The CPUs in force, if they differ. With the right affinity, it is the CPU outside it on which the thread
    /// still runs.
    fn lost(&self) -> Option<String> {
        let now = current(self.thread).ok()?;
        if now != self.cpus || self.thread != Thread::Calling {
            return (now != self.cpus).then(|| now.to_string());
        }
        let here = rustix::thread::sched_getcpu();
        (!now.contains(here)).then(|| format!("{now} (the thread runs on CPU {here})"))
    }

    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        let before = allowed(self.thread).map_err(|error| explain(&error, self.thread, here))?;
        set(self.thread, &self.cpus, &before, here)
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        put_back(self.thread, &self.before)
    }
}

/// The online CPUs that a thread may run on.
pub(super) fn current(thread: Thread) -> punctual_linux::Result<CpuSet> {
    linux::affinity(thread.id()).map(CpuSet::from_iter)
}

/// The CPUs that a thread may run on, those that are offline too. Without /proc it is [`current`].
pub(super) fn allowed(thread: Thread) -> punctual_linux::Result<CpuSet> {
    let now = current(thread)?;
    let status = std::fs::read(thread.folder().join("status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(list.and_then(|list| list.parse().ok()).unwrap_or(now))
}

/// Puts the CPUs back.
pub(super) fn put_back(thread: Thread, before: &CpuSet) -> Vec<NotRestored> {
    let why = match write_back(thread, before) {
        Ok(now) if now == *before => return Vec::new(),
        Ok(now) => format!("it is {now} now: CPUs went offline, or the cpuset changed meanwhile"),
        Err(error) => error.to_string(),
    };
    vec![not_restored("cpu", before, why)]
}

/// Returns what the thread has then. With every CPU of the machine, it follows its cpuset again; a list would bind it.
fn write_back(thread: Thread, before: &CpuSet) -> punctual_linux::Result<CpuSet> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    if online.parse::<CpuSet>().is_ok_and(|online| online.without(before).is_empty()) {
        linux::allow_every_cpu(thread.id())?;
        let now = allowed(thread)?;
        if now == *before {
            return Ok(now);
        }
    }
    linux::set_affinity(thread.id(), before.as_slice())?;
    allowed(thread)
}

/// Restricts a thread to `cpus`: to all of them, or it fails.
fn set(thread: Thread, cpus: &CpuSet, before: &CpuSet, here: &Surroundings) -> Result<(), Reason> {
    missing(cpus, here).map_or(Ok(()), Err)?;
    refuse_offline(cpus, here)?;
    let failed = |error: punctual_linux::Error| explain(&error, thread, here);
    linux::set_affinity(thread.id(), cpus.as_slice()).map_err(failed)?;
    let now = current(thread).map_err(failed)?;
    let dropped = cpus.without(&now);
    if dropped.is_empty() {
        return Ok(());
    }
    // The kernel drops unavailable CPUs silently. Part of the list does not fulfil the request.
    let mut reason = outside(&dropped, here);
    if let Err(error) = write_back(thread, before) {
        reason.why = format!("{}; and cpu could not be put back: it was {before}; {error}", reason.why);
    }
    Err(reason)
}

/// CPUs that the machine does not have.
fn missing(cpus: &CpuSet, here: &Surroundings) -> Option<Reason> {
    let present = here.present_cpus.as_ref()?;
    let missing = cpus.without(present);
    let why = format!("this machine has no CPU {missing}: it has {present} (/sys/devices/system/cpu/present)");
    let needs = Need::CpusOf(here.online_cpus.as_ref().unwrap_or(present).clone());
    (!missing.is_empty()).then(|| Reason::new(why, needs))
}

/// CPUs that exist but are offline.
fn refuse_offline(cpus: &CpuSet, here: &Surroundings) -> Result<(), Reason> {
    let Some(online) = &here.online_cpus else { return Ok(()) };
    let offline = cpus.without(online);
    let Some(first) = offline.as_slice().first() else { return Ok(()) };
    let why = format!("CPU {offline} is offline; online are {online} (/sys/devices/system/cpu/online)");
    Err(Reason::new(why, Need::OnlineCpu(online.clone(), *first)))
}

/// CPUs that are online but not allowed for this process.
fn outside(dropped: &CpuSet, here: &Surroundings) -> Reason {
    let why = format!("CPU {dropped} is online, but outside {}", cpuset(here));
    let needs = match &here.container {
        Some(container) => Need::CpusInContainer(dropped.clone(), container.clone()),
        None => Need::CpusOfCpuset(None),
    };
    Reason::new(why, needs)
}

fn cpuset(here: &Surroundings) -> String {
    let allowed = here.cpuset.as_ref().map(|(file, cpus)| format!(", which is {cpus} ({file})"));
    format!("the cpuset of this process{}", allowed.unwrap_or_default())
}

fn explain(error: &punctual_linux::Error, thread: Thread, here: &Surroundings) -> Reason {
    if let Some(reason) = of_another_thread(error, thread, here) {
        return reason;
    }
    let (why, needs) = match Errno::from_io_error(&error.source) {
        Some(Errno::INVAL) => {
            let why = format!("{error}: none of these CPUs is in {}", cpuset(here));
            (why, Need::CpusOfCpuset(here.container.clone()))
        }
        Some(Errno::BUSY) => (
            format!("{error}: a thread under SCHED_DEADLINE must be free to run on all CPUs of its domain"),
            Need::CpusOfDeadline,
        ),
        _ => (error.to_string(), Need::Call("sched_setaffinity")),
    };
    Reason::new(why, needs).errno(error.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> Surroundings {
        Surroundings {
            present_cpus: Some(CpuSet::from_iter(0..4)),
            online_cpus: Some(CpuSet::from_iter(0..3)),
            cpuset: Some(("/sys/fs/cgroup/jobs/cpuset.cpus.effective".into(), CpuSet::from_iter([0, 1]))),
            ..Surroundings::default()
        }
    }

    #[test]
    fn each_reason_is_told_apart() {
        let here = surroundings();
        let in_docker = Surroundings { container: Some("docker".into()), ..surroundings() };
        let absent = missing(&CpuSet::from_iter([0, 7, 99]), &here).unwrap();
        assert_eq!(missing(&CpuSet::from_iter([0, 3]), &here), None);
        let offline = refuse_offline(&CpuSet::from_iter([0, 3]), &here).unwrap_err();
        let beyond = outside(&CpuSet::from_iter([2]), &here);
        let beyond_docker = outside(&CpuSet::from_iter([2]), &in_docker);
        let none_left = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 22), Thread::Calling, &here);
        let none_left_docker =
            explain(&punctual_linux::Error::from_errno("sched_setaffinity", 22), Thread::Calling, &in_docker);
        let busy = explain(&punctual_linux::Error::from_errno("sched_setaffinity", 16), Thread::Calling, &here);
        let said: Vec<String> = [absent, offline, beyond, beyond_docker, none_left, none_left_docker, busy]
            .iter()
            .map(|Reason { why, needs, .. }| format!("{why}\n  {needs:?}"))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
