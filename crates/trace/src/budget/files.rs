//! The same without programs in the kernel: `/proc/TID/schedstat` counts the time on a CPU and that of waiting for one. What a thread does
//! otherwise is looked at now and then. Nobody's name is known, nor how often (`times` is 0), and threads that live between two looks are not
//! seen.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::time::{Duration, Instant};

use punctual_linux::syscall_name::name_of;
use punctual_record::{Budget, BudgetSource, Spent, Thing, ThreadBudget, ThreadPolicy, TimePart};

use super::groups::Groups;
use super::kind::of_state;
use crate::names;

/// Threads that are looked at.
const MOST: usize = 256;
/// With fewer looks, what a thread did between them is not known.
const FEWEST_LOOKS: u32 = 3;

/// What the files have shown so far.
#[derive(Debug)]
pub struct Counted {
    threads: BTreeMap<i32, Thread>,
    groups: Groups,
    /// This process has yet to execute its program.
    executes: Option<i32>,
}

/// A thread.
#[derive(Debug)]
struct Thread {
    name: String,
    pid: u32,
    prio: i32,
    seen: Instant,
    last: Instant,
    before: [u64; 2],
    now: [u64; 2],
    /// The time before each look, by the state that the look showed, ns.
    states: BTreeMap<(Spent, Option<String>), u64>,
    /// Looks at which it did not run.
    looks: u32,
}

impl Counted {
    /// Begins with these threads.
    #[must_use]
    pub fn begin(tids: &[i32]) -> Self {
        let mut counted = Self { threads: BTreeMap::new(), groups: Groups::new(), executes: None };
        counted.look(tids);
        counted
    }

    /// Begins before this process executes the program: what it does until then does not count.
    #[must_use]
    pub fn begin_at_exec(pid: i32) -> Self {
        let mut counted = Self { threads: BTreeMap::new(), groups: Groups::new(), executes: Some(pid) };
        counted.look(&[pid]);
        counted
    }

    /// Looks at these threads. One that was not seen before began since.
    pub fn look(&mut self, tids: &[i32]) {
        let first = self.threads.is_empty();
        for tid in tids {
            let Some(counters) = counters(*tid) else { continue };
            if !self.threads.contains_key(tid) {
                let Some(new) =
                    Thread::new(*tid, if first { counters } else { [0; 2] }).filter(|_| self.threads.len() < MOST)
                else {
                    continue;
                };
                self.threads.insert(*tid, new);
            }
            if let Some(thread) = self.threads.get_mut(tid) {
                thread.now = counters;
                let since = thread.last.elapsed();
                thread.last = Instant::now();
                // It may have executed another program.
                thread.name = names::thread(*tid).map_or_else(|| thread.name.clone(), |(name, _)| name.to_string());
                if self.executes == Some(*tid) && has_yet_to_execute(*tid) {
                    (thread.before, thread.seen) = (counters, thread.last);
                    continue;
                }
                thread.see(*tid, since);
            }
        }
        self.groups.look(
            self.threads.values().map(|thread| thread.pid).collect::<std::collections::BTreeSet<_>>().into_iter(),
        );
    }

    /// Where the time went, as far as the files say.
    #[must_use]
    pub fn end(self) -> Budget {
        let of_pid = |pid| self.threads.values().filter(|thread| thread.pid == pid).count() as u64;
        let quotas = self.groups.quotas(of_pid);
        let mut threads: Vec<ThreadBudget> =
            self.threads.iter().map(|(tid, thread)| thread.budget(*tid, &self.groups)).collect();
        threads.sort_by_key(|thread| {
            std::cmp::Reverse(
                thread.parts.iter().filter(|part| part.spent != Spent::Asleep).map(|part| part.ns).sum::<u64>(),
            )
        });
        threads.truncate(64);
        let (memory, pressure) = (self.groups.limits.memory_limits(), self.groups.pressures.all());
        Budget { source: BudgetSource::Files, threads, quotas, memory, pressure, ..Budget::default() }
    }
}

impl Thread {
    fn new(tid: i32, before: [u64; 2]) -> Option<Self> {
        let (name, prio) = names::thread(tid)?;
        let pid = names::process_of(tid)?;
        let now = Instant::now();
        Some(Self {
            name: name.to_string(),
            pid,
            prio,
            seen: now,
            last: now,
            before,
            now: before,
            states: BTreeMap::new(),
            looks: 0,
        })
    }

    /// What it does at this moment, where it does not run.
    fn see(&mut self, tid: i32, since: Duration) {
        let stat = read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('R');
        if matches!(state, 'R' | 'Z' | 'X') {
            return;
        }
        let text = read_to_string(format!("/proc/{tid}/syscall")).unwrap_or_default();
        // -1 between calls; nothing where the kernel does not show it to this user.
        let number = text.split_whitespace().next().and_then(|number| number.parse::<i64>().ok());
        let call = number.filter(|number| *number >= 0).map(name_of);
        let function = read_to_string(format!("/proc/{tid}/wchan")).unwrap_or_default();
        let kind = of_state(state, call.as_deref(), number == Some(-1), function.trim());
        *self.states.entry((kind, call)).or_default() += since.as_nanos() as u64;
        self.looks += 1;
    }

    fn budget(&self, tid: i32, groups: &Groups) -> ThreadBudget {
        let [running, ready] = [0, 1].map(|at| self.now[at].saturating_sub(self.before[at]));
        let wall_ns = (self.last.duration_since(self.seen).as_nanos() as u64).max(running + ready);
        let throttled = groups.throttled_ns(self.pid).min(ready);
        let part = |spent, ns| TimePart { spent, ns, ..TimePart::default() };
        let cgroup = groups.limiting(self.pid).map(str::to_owned);
        let mut parts = vec![part(Spent::Running, running), part(Spent::Ready, ready - throttled)];
        parts
            .push(TimePart { thing: Thing { cgroup, ..Thing::default() }, ..part(Spent::ThrottledByQuota, throttled) });
        let rest = wall_ns - running - ready;
        let all: u64 = self.states.values().sum();
        let mut left = rest;
        for ((spent, call), before) in self.states.iter().filter(|_| self.looks >= FEWEST_LOOKS) {
            let ns = (u128::from(rest) * u128::from(*before) / u128::from(all.max(1))) as u64;
            left -= ns;
            parts.push(TimePart { call: call.clone(), ..part(*spent, ns) });
        }
        parts.push(part(Spent::Unknown, left));
        parts.retain(|part| part.ns > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        let policy = match self.prio {
            ..0 => ThreadPolicy::Deadline,
            0..100 => ThreadPolicy::RealTime((99 - self.prio).unsigned_abs() as u8),
            fair => ThreadPolicy::Fair((fair - 120).clamp(-20, 19) as i8),
        };
        let process = read_to_string(format!("/proc/{}/comm", self.pid))
            .map_or_else(|_| self.name.clone(), |name| name.trim_end().to_owned());
        let (thread, tid) = (self.name.clone(), tid.cast_unsigned());
        ThreadBudget { thread, tid, process, pid: self.pid, policy, wall_ns, parts, ..ThreadBudget::default() }
    }
}

/// Whether the process is still a copy of the one that made it (PF_FORKNOEXEC of `include/linux/sched.h`, in /proc/PID/stat).
fn has_yet_to_execute(pid: i32) -> bool {
    const FORKED: u64 = 0x40;
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & FORKED != 0)
}

/// Time on a CPU, and waiting for one, ns.
fn counters(tid: i32) -> Option<[u64; 2]> {
    let text = read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut fields = text.split_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_few_looks_saw_is_not_what_a_thread_did() {
        let looked_at = |looks: u32| {
            let now = Instant::now();
            let state = ((Spent::Disk, Some("fdatasync".to_owned())), 100_000_000);
            let thread = Thread {
                name: "server".into(),
                pid: 1,
                prio: 120,
                seen: now,
                last: now + Duration::from_millis(250),
                before: [0; 2],
                now: [20_000_000, 0],
                states: BTreeMap::from([state]),
                looks,
            };
            thread
                .budget(1, &Groups::new())
                .parts
                .iter()
                .map(|part| (part.spent, part.ns / 1_000_000))
                .collect::<Vec<_>>()
        };
        assert_eq!(looked_at(2), [(Spent::Unknown, 230), (Spent::Running, 20)]);
        assert_eq!(looked_at(3), [(Spent::Disk, 230), (Spent::Running, 20)]);
    }

    #[test]
    fn a_sleeper_sleeps_and_parts_are_the_wall_time() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let tid = child.id().cast_signed();
        punctual_testing::until("it sleeps", || {
            read_to_string(format!("/proc/{tid}/wchan")).is_ok_and(|text| text.contains("nanosleep"))
        });
        let mut counted = Counted::begin(&[tid]);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(10));
            counted.look(&[tid]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let budget = counted.end();
        let thread = &budget.threads[0];
        assert_eq!((budget.source, thread.thread.as_str()), (BudgetSource::Files, "sleep"));
        assert_eq!(thread.parts.iter().map(|part| part.ns).sum::<u64>(), thread.wall_ns);
        assert!(thread.parts.iter().any(|part| part.spent == Spent::Asleep && part.ns >= 40_000_000), "{thread:?}");
    }

    #[test]
    fn what_a_process_does_before_it_executes_its_program_does_not_count() {
        use std::os::unix::process::CommandExt as _;
        let before = Duration::from_millis(80);
        let mut child = punctual_linux::child::Child::spawn("forked", move || {
            std::thread::sleep(before);
            let _ = std::process::Command::new("sleep").arg("1000").exec();
        });
        let child = child.as_mut().unwrap();
        let begin = Instant::now();
        let mut counted = Counted::begin_at_exec(child.id());
        punctual_testing::until("it executes", || {
            counted.look(&[child.id()]);
            !has_yet_to_execute(child.id())
        });
        std::thread::sleep(Duration::from_millis(20));
        counted.look(&[child.id()]);
        child.kill().unwrap();
        let all = begin.elapsed();
        let budget = counted.end();
        let thread = &budget.threads[0];
        // The child slept for some time before this process saw it.
        let most = (all - before).as_nanos() as u64 + 40_000_000;
        assert!(thread.wall_ns >= 20_000_000 && thread.wall_ns < most, "{most} {thread:?}");
    }

    #[test]
    fn a_call_that_is_not_shown_is_no_time_between_calls() {
        // In uninterruptible sleep between calls, a page fault reads a file. Where the call is not known, nothing is.
        assert_eq!(of_state('D', None, true, "0"), Spent::FaultFile);
        assert_eq!(of_state('D', None, false, "0"), Spent::Blocked);
        assert_eq!(of_state('S', None, false, "hrtimer_nanosleep"), Spent::Asleep);
    }
}
